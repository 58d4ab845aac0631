// SPDX-License-Identifier: BSD-3-Clause
#include "collector/stacks/pending_frames.hpp"

#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include "collector/names/perf_map.hpp"
#include "collector/stacks/code_at.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::size_t kMaxPending = 1u << 15;  // of a kind

}  // namespace

std::uint32_t PendingFrames::add(Frames& frames, const Key& key, shard::FrameKind kind) {
  if (const auto found = frames.find(key); found != frames.end()) return found->second;
  const std::optional<std::uint32_t> frame =
      frames.size() < kMaxPending ? store_.add_pending(kind) : std::nullopt;
  if (!frame) return store_.unknown(kind);
  frames.emplace(key, *frame);
  return *frame;
}

std::uint32_t PendingFrames::address(std::uint64_t address, bool exact, std::uint32_t epoch) {
  const Key key = {address, exact ? 0u : 1u, epoch};
  if (store_.has_many_nameless() && !addresses_.contains(key) && !has_perf_map())
    return store_.unknown(shard::FrameKind::kNative);
  return add(addresses_, key, shard::FrameKind::kNative);
}

// Looks once in a round.
bool PendingFrames::has_perf_map() {
  if (!has_perf_map_ && std::exchange(may_look_for_map_, false))
    has_perf_map_ = access(perf_map_path(pid_).c_str(), F_OK) == 0;
  return has_perf_map_;
}

std::uint32_t PendingFrames::code(std::uint64_t code_id, std::uint64_t instruction) {
  return add(codes_waiting_, {code_id, instruction, 0}, shard::FrameKind::kPython);
}

std::uint32_t PendingFrames::region(std::uint32_t index) {
  return add(regions_waiting_, {index, 0, 0}, shard::FrameKind::kRegion);
}

void PendingFrames::resolve(std::uint32_t frame, const RawFrame& resolution) {
  store_.resolve_pending(store_.tables().frames[frame].a, resolution);
}

void PendingFrames::settle(std::uint64_t now_ns) {
  may_look_for_map_ = true;
  if (!regions_waiting_.empty()) settle_regions();
  const bool has_modules = modules_.take_news(), has_generated = generated_.take_news();
  if ((has_modules || has_generated) && !addresses_.empty()) settle_addresses();
  if (!codes_waiting_.empty() && codes_.may_have_news(now_ns)) settle_codes();
}

void PendingFrames::settle_regions() {
  std::erase_if(regions_waiting_, [this](const auto& pending) {
    const std::optional<RawFrame> frame = regions_.frame(static_cast<std::uint32_t>(pending.first.value));
    if (frame) resolve(pending.second, *frame);
    return frame.has_value();
  });
}

void PendingFrames::settle_addresses() {
  std::erase_if(addresses_, [this](const auto& pending) {
    const auto& [key, frame] = pending;
    const std::optional<CodeAt> code =
        code_at(modules_, generated_, key.value, key.instruction == 0, key.epoch);
    if (code) resolve(frame, code->frame);
    return code.has_value();
  });
}

void PendingFrames::settle_codes() {
  std::uint64_t code_id = 0;
  CodeObjects::State state = CodeObjects::State::kNever;
  std::erase_if(codes_waiting_, [&](const auto& pending) {
    const auto& [key, frame] = pending;
    if (key.value != code_id) state = codes_.find(code_id = key.value);  // they are sorted by it
    if (state == CodeObjects::State::kKnown)
      resolve(frame, {RawKind::kPython, *codes_.index(code_id), key.instruction});
    return state != CodeObjects::State::kNotYet;
  });
}

void PendingFrames::name_generated_code(std::int32_t pid, std::int64_t process_start_utc_ns) {
  std::vector<std::uint64_t> addresses;
  for (const auto& [key, frame] : addresses_)
    addresses.push_back(instruction_of(key.value, key.instruction == 0));
  if (addresses.empty()) return;
  std::size_t nameless = 0;
  const auto names = read_perf_map(perf_map_path(pid), process_start_utc_ns, addresses);
  for (const auto& [key, frame] : addresses_) {
    const auto name = names.find(instruction_of(key.value, key.instruction == 0));
    if (name != names.end())
      resolve(frame, {RawKind::kNamed, store_.name(name->second), 0});
    else
      ++nameless;
  }
  store_.add_nameless(nameless);
}

}  // namespace clusterprof::collector
