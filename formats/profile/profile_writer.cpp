// SPDX-License-Identifier: BSD-3-Clause
#include "formats/profile/profile_writer.hpp"

#include "formats/profile/statistics_table.hpp"
#include "formats/shard/tables.hpp"

namespace clusterprof::profile {

Result<void> write_profile(const shard::ShardData& merged, const std::filesystem::path& path,
                           const std::vector<Source>& sources) {
  if (const Result<void> valid = shard::validate(merged); !valid)
    return Error{path.string() + ": cannot be written: " + valid.error().message};
  const std::vector<PathStatistics> statistics = path_statistics(merged);
  return shard::write_file(path, shard::kProfileFormat, [&](h5::Group& root) {
    shard::write_tables(root, merged);
    h5::Group group = root.create_group("path_statistics");
    visit_statistics([&](const char* name, auto field) {
      using Column = std::remove_cvref_t<std::invoke_result_t<decltype(field), const PathStatistics&>>;
      std::vector<Column> column;
      column.reserve(statistics.size());
      for (const PathStatistics& entry : statistics) column.push_back(field(entry));
      group.write_column<Column>(name, column);
    });
    h5::Group list = root.create_group("sources");
    std::vector<std::string> names;
    std::vector<std::uint64_t> sizes;
    std::vector<std::uint8_t> merged_flags;
    for (const Source& source : sources) {
      names.push_back(source.name);
      sizes.push_back(source.size_bytes);
      merged_flags.push_back(source.merged);
    }
    list.write_strings("name", names);
    list.write_column<std::uint64_t>("size_bytes", sizes);
    list.write_column<std::uint8_t>("merged", merged_flags);
  });
}

}  // namespace clusterprof::profile
