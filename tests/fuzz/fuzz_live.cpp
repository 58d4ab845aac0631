// SPDX-License-Identifier: BSD-3-Clause
// What a node's collector tells whoever watches its run, and what `clusterprof top` makes of it. The first
// four bytes of an input say how long the node's newest state is; behind it comes an earlier one. Headers are
// made to fit.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "aggregator/live_difference.hpp"
#include "aggregator/merger.hpp"
#include "formats/shard/live_state.hpp"
#include "report/top.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/newest.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace {

using namespace clusterprof;

std::optional<shard::LiveState> state_of(std::span<const std::uint8_t> content) {
  static const std::vector<std::byte> none = shard::encode_live(shard::LiveState());
  std::uint64_t head[fuzz::kLiveHead / sizeof(std::uint64_t)];
  std::memcpy(head, none.data(), sizeof head);
  head[3] = content.size();
  head[4] = XXH3_64bits(content.data(), content.size());
  head[5] = XXH3_64bits(head, 5 * sizeof *head);
  std::vector<std::byte> file(sizeof head);
  std::memcpy(file.data(), head, sizeof head);
  const auto behind = std::as_bytes(content);
  file.insert(file.end(), behind.begin(), behind.end());
  Result<shard::LiveState> state = shard::decode_live(file);
  if (!state) return std::nullopt;
  return std::move(state).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  (void)shard::decode_live(std::as_bytes(std::span(bytes, size)));
  fuzz::Input input(bytes, size);
  const std::size_t newest = input.number<std::uint32_t>();
  const std::optional<shard::LiveState> now = state_of(input.take(newest));
  if (!now) return 0;
  const std::optional<shard::LiveState> before = state_of(input.take(input.size()));
  const Result<shard::LiveState> again = shard::decode_live(shard::encode_live(*now));
  if (!again || again.value().sequence != now->sequence) {
    std::fprintf(stderr, "a state that was accepted is refused when it is written again\n");
    std::abort();
  }

  // As cli/analyze/live_run.cpp does it.
  report::TopInput top;
  top.since = aggregator::ranks_since(now->data, before ? &before->data : nullptr);
  if (before)
    for (const aggregator::PathTime& time : aggregator::times_since(*now, *before))
      top.times.push_back({time.path, time.category, time.wall_ns});
  for (std::size_t row = 0; row < now->rss_bytes.size(); ++row)
    top.rss_bytes[now->data.ranks[row].rank] = now->rss_bytes[row];
  top.memory["node"] = {now->memory_used_bytes, now->memory_limit_bytes};
  aggregator::Merger merger;
  merger.add(now->data);
  top.data = merger.finish();
  const report::Top found = report::find_top(top, report::FrameMode::kFolded);
  report::render_top_json(found, [](std::string_view) {});
  (void)report::render_top_text(found, report::TextOptions());
  return 0;
}
