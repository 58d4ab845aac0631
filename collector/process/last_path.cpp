// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/last_path.hpp"

#include <cstddef>

namespace clusterprof::collector {
namespace {

constexpr std::size_t kMaxOutermost = 256;  // modules, functions called at exit, threads that fork

}  // namespace

void LastPath::note(std::span<const std::uint64_t> words, std::uint32_t path, std::uint64_t time_ns) {
  last_ = Seen{path, time_ns};
  std::optional<std::uint64_t> outermost;  // its code
  for (std::size_t i = 0; i < words.size(); ++i)
    if ((words[i] & wire::kFrameTagMask) == wire::kPythonFrameTag && i + 1 < words.size())
      outermost = words[++i];
  if (!outermost) return;
  if (last_below_.size() < kMaxOutermost || last_below_.contains(*outermost))
    last_below_[*outermost] = Seen{path, time_ns};
}

std::optional<std::uint32_t> LastPath::find(const std::vector<RawCallUnderWay>& calls_under_way,
                                            bool ended_by_itself, const StackResolver& stacks) const {
  for (const RawCallUnderWay& call : calls_under_way)
    if (call.main_thread && (!last_ || call.enter_ns > last_->time_ns)) return call.path;
  if (!last_) return std::nullopt;
  if (!ended_by_itself) return last_->path;
  const Seen* last = nullptr;
  for (const auto& [code_id, seen] : last_below_) {
    if (!stacks.is_module_body(code_id)) continue;
    if (last == nullptr || seen.time_ns > last->time_ns) last = &seen;
  }
  return last != nullptr ? last->path : last_->path;
}

}  // namespace clusterprof::collector
