// SPDX-License-Identifier: BSD-3-Clause
// Parts of the report's analysis that the processes of a merge send each other. An input is the part after
// the header and the sizes of the run (report/analysis/analysis_builder.cpp); these are made to fit.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "formats/profile/profile_reader.hpp"
#include "report/report.hpp"
#include "tests/fuzz/newest.hpp"

using namespace clusterprof;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const Result<shard::ShardData> data = profile::read_profile(fuzz::kGoldenProfile);
  if (!data) std::abort();
  report::AnalysisBuilder builder(data.value());
  static const std::vector<std::byte> empty = builder.state();

  std::vector<std::byte> state(empty.begin(), empty.begin() + fuzz::kStateHead);
  const auto content = std::as_bytes(std::span(bytes, size));
  state.insert(state.end(), content.begin(), content.end());
  std::uint64_t header[3];  // magic, bytes, hash
  std::memcpy(header, state.data(), sizeof header);
  header[1] = state.size() - sizeof header;
  header[2] = XXH3_64bits(state.data() + sizeof header, header[1]);
  std::memcpy(state.data(), header, sizeof header);
  if (builder.absorb(state)) (void)report::render_json(builder.finish());
  return 0;
}
