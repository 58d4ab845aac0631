// SPDX-License-Identifier: BSD-3-Clause
// Readers of shards, and the merge and analysis of shards that they accept.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "aggregator/merger.hpp"
#include "formats/shard/shard_reader.hpp"
#include "formats/shard/tables.hpp"
#include "report/report.hpp"
#include "tests/fuzz/edited_file.hpp"
#include "tests/fuzz/newest.hpp"

using namespace clusterprof;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static fuzz::EditedFile file(fuzz::kGoldenShard);
  const std::filesystem::path& path = file.make({bytes, size});
  const Result<shard::ShardData> all = shard::read_shard(path);
  const Result<shard::ShardData> head = shard::read_shard_head(path);
  const Result<shard::ShardMatrix> matrix = shard::read_shard_matrix(path);
  (void)shard::read_shard_summary(path);
  (void)shard::read_large_table_sizes(path);
  (void)shard::read_shard_events(path, 2);
  if (!all && fuzz::EditedFile::is_unchanged_copies({bytes, size})) std::abort();
  if (!all) return 0;
  // Reading everything checks at least as much as reading a part.
  if (!head || !matrix || !shard::validate(all.value())) std::abort();
  aggregator::Merger merger;
  merger.add(head.value());
  const shard::ShardData merged = merger.finish();
  if (!shard::validate(merged)) std::abort();
  (void)report::render_json(report::analyse(all.value(), shard::InMemoryRows(all.value())));
  return 0;
}
