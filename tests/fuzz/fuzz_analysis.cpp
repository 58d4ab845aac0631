// SPDX-License-Identifier: BSD-3-Clause
// Stored analyses. The first byte of an input says whether the rest is plain, or blocks as they are stored;
// four more how long the first part is. The header is made to fit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "report/report.hpp"
#include "tests/fuzz/stored_analysis.hpp"

using namespace clusterprof;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  constexpr std::size_t kHead = 5;
  (void)report::decode(std::as_bytes(std::span(bytes, size)));
  if (size < kHead) return 0;
  std::uint32_t wanted = 0;
  std::memcpy(&wanted, bytes + 1, 4);
  const auto content = std::as_bytes(std::span(bytes + kHead, size - kHead));
  const auto first = content.first(std::min<std::size_t>(wanted, content.size()));
  const auto second = content.subspan(first.size());
  const fuzz::AnalysisParts parts = {std::vector(first.begin(), first.end()),
                                     std::vector(second.begin(), second.end())};
  const std::vector<std::byte> encoded =
      (bytes[0] & 1) == 0 ? fuzz::of_plain_parts(parts) : fuzz::of_stored_parts(parts);
  const std::optional<report::Analysis> without_timelines = report::decode(encoded, false);
  const std::optional<report::Analysis> analysis = report::decode(encoded);
  if (!analysis) return 0;
  if (!without_timelines) std::abort();
  (void)report::render_json(*analysis);
  report::TextOptions options;
  options.sections = report::section_names();
  (void)report::render_text(*analysis, options);
  (void)report::render_banner(*analysis, "run", 80);
  return 0;
}
