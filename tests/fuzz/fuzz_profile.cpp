// SPDX-License-Identifier: BSD-3-Clause
// Readers of whole profiles and of parts, and reports on the profiles that they accept.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "formats/profile/profile_reader.hpp"
#include "formats/profile/profile_writer.hpp"
#include "formats/shard/tables.hpp"
#include "report/report.hpp"
#include "tests/fuzz/edited_file.hpp"
#include "tests/fuzz/newest.hpp"

using namespace clusterprof;

namespace {

// Removes the file when the program ends.
struct RemovedAtEnd {
  std::filesystem::path path;
  explicit RemovedAtEnd(std::filesystem::path made) : path(std::move(made)) {}
  RemovedAtEnd(const RemovedAtEnd&) = delete;
  RemovedAtEnd& operator=(const RemovedAtEnd&) = delete;
  ~RemovedAtEnd() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

// The golden profile.
std::filesystem::path make_profile() {
  const auto path = std::filesystem::temp_directory_path() /
                    ("clusterprof-fuzz-profile-" + std::to_string(getpid()) + ".h5");
  const Result<shard::ShardData> data = profile::read_profile(fuzz::kGoldenProfile);
  if (!data || !profile::write_profile(data.value(), path, {{"node-node0000.h5", 1234, true}})) {
    std::fprintf(stderr, "the golden profile cannot be read, or not be written\n");
    std::exit(1);
  }
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const RemovedAtEnd original(make_profile());
  static fuzz::EditedFile file(original.path);
  const std::filesystem::path& path = file.make({bytes, size});
  const Result<shard::ShardData> all = profile::read_profile(path);
  if (all && !shard::validate(all.value())) std::abort();
  (void)profile::read_profile_summary(path);
  (void)profile::check_profile(path);
  Result<profile::ProfileReader> reader = profile::ProfileReader::open(path);
  if (!reader) return 0;
  (void)reader.value().statistics();
  (void)reader.value().sources();
  (void)reader.value().report();
  (void)reader.value().gains();
  const Result<const shard::ShardData*> head = reader.value().head();
  if (!head) return 0;
  const shard::ShardData& known = *head.value();
  for (std::uint32_t node = 0; node < known.nodes.size() && node < 4; ++node) {
    (void)reader.value().node(node);
  }
  for (std::uint32_t rank = 0; rank < known.ranks.size() && rank < 4; ++rank) (void)reader.value().rank(rank);
  const auto paths = static_cast<std::uint32_t>(known.paths.size());
  (void)reader.value().paths(paths / 3, paths - paths / 3);
  if (all) (void)report::render_json(report::analyse(all.value(), shard::InMemoryRows(all.value())));
  return 0;
}
