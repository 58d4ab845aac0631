// SPDX-License-Identifier: BSD-3-Clause
#include "report/words/phrases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::report::words {

using Key = EvidenceKey;

std::string culprit(std::int32_t rank, const SourceLocation& place, const format::ShortPaths& names) {
  if (place.function.empty() && place.op.empty()) return fmt::format("rank {}", rank);
  if (place.kind == shard::FrameKind::kKernel && place.function == shard::kRunnableName)
    return fmt::format("rank {}, {},", rank, place.function);
  return fmt::format("rank {} in {}", rank, format::describe(place, names));
}

std::string who_waited(const Evidence& evidence) {
  if (evidence.has(Key::kWaitingRank))
    return fmt::format("rank {}", static_cast<std::int32_t>(evidence.number(Key::kWaitingRank)));
  const bool at_least = evidence.has(Key::kWaitingRanksAtLeast);
  const double ranks = evidence.number(at_least ? Key::kWaitingRanksAtLeast : Key::kWaitingRanks);
  return (at_least ? "at least " : "") + format::plural(static_cast<std::size_t>(ranks), "rank");
}

std::string name(const SourceLocation& place, const format::ShortPaths& names) {
  if (place.function.empty()) return {};
  const std::string where = names.place(place.file, place.line);
  const std::string label = format::function_label(place.function, place.kind);
  const std::string text = where.empty() ? label : fmt::format("{} {}", label, where);
  return place.called.empty() ? text : fmt::format("{} ({})", text, format::printable(place.called));
}

std::string frame(const SourceLocation& place) {
  if (place.file.empty()) return place.function;
  return fmt::format("{} ({}:{})", place.function,
                     std::string_view(place.file).substr(place.file.find_last_of('/') + 1), place.line);
}

std::string listed(std::vector<std::pair<const char*, double>> parts) {
  constexpr double kMentioned = 0.02;  // of all of them
  double whole = 0;
  for (const auto& [what, time_s] : parts) whole += time_s;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& x, const auto& y) { return x.second > y.second; });
  std::string out;
  for (const auto& [what, time_s] : parts)
    if (time_s > 0 && time_s >= kMentioned * whole)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", what, format::seconds(time_s));
  return out;
}

std::string idle_kinds(const Evidence& evidence, bool with_gil) {
  static constexpr std::array<const char*, kOffCpuKinds> kLabels = {
      "sleep",           "locks",       "the GIL",    "poll",
      "files",           "the network", "pipes",      "threads of its own",
      "child processes", "OpenMP",      "other waits"};
  std::vector<std::pair<const char*, double>> parts;
  for (std::size_t k = 0; k < kOffCpuKinds; ++k) {
    const auto key = static_cast<Key>(static_cast<std::size_t>(Key::kSleep) + k);
    if (key != Key::kGil || with_gil) parts.emplace_back(kLabels[k], evidence.number(key));
  }
  return listed(std::move(parts));
}

std::string_view how_torch_is_known(TorchSource source) {
  static const std::string kOtherLibtorch =
      fmt::format("Calls over gloo were not recorded: this libtorch is {}.", kLibtorchNotKnown);
  switch (source) {
    case TorchSource::kNone:
      return "";
    case TorchSource::kCalls:
      return "Calls over gloo were recorded.";
    case TorchSource::kOtherLibtorch:
      return kOtherLibtorch;
    case TorchSource::kNotWatched:
      return "Communication calls were not recorded (--no-mpi).";
    case TorchSource::kNoGlooCall:
      return "No call over gloo was seen; those of other backends (NCCL) are not recorded.";
  }
  return "";
}

std::string io_calls(const Evidence& evidence) {
  const std::string path = evidence.name(Key::kPath);
  const std::string file =
      path.empty() ? "files" : format::printable(std::string_view(path).substr(path.find_last_of('/') + 1));
  const double calls = evidence.number(Key::kCalls);
  return fmt::format("{} {} call{} on {}", format::count(calls), evidence.name(Key::kCall),
                     calls == 1 ? "" : "s", file);
}

std::string memory_use(const Evidence& evidence) {
  if (evidence.has(Key::kBandwidth)) {
    std::string out = fmt::format("cache misses worth {}/s", format::bytes(evidence.number(Key::kBandwidth)));
    if (evidence.has(Key::kMissesPerKilo))
      out += fmt::format(", {:.1f} per 1000 instructions", evidence.number(Key::kMissesPerKilo));
    return out;
  }
  const bool is_more = evidence.has(Key::kWorkingSetAtLeast);
  return fmt::format("data of {} {} (estimated from {} accesses); the largest cache holds {}",
                     is_more ? "at least" : "about",
                     format::bytes(evidence.number(is_more ? Key::kWorkingSetAtLeast : Key::kWorkingSet)),
                     format::count(evidence.number(Key::kAccesses)),
                     format::bytes(evidence.number(Key::kCache)));
}

}  // namespace clusterprof::report::words
