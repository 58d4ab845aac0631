// SPDX-License-Identifier: BSD-3-Clause
#include "formats/profile/profile_reader.hpp"

#include <string>

#include "formats/profile/statistics_table.hpp"
#include "formats/shard/tables.hpp"

namespace clusterprof::profile {
namespace {

Result<shard::ShardData> read(const std::filesystem::path& path, shard::Tables which) {
  shard::ShardData data;
  const Result<void> result = shard::read_file(
      path, shard::kProfileFormat, [&](const h5::Group& root) { data = shard::read_tables(root, which); });
  if (!result) return result.error();
  if (const Result<void> valid = shard::validate(data); !valid)
    return Error{path.string() + ": is damaged (" + valid.error().message + ")"};
  return data;
}

}  // namespace

Result<shard::ShardData> read_profile(const std::filesystem::path& path) {
  return read(path, shard::Tables::kAll);
}

Result<shard::ShardData> read_profile_summary(const std::filesystem::path& path) {
  return read(path, shard::Tables::kSummary);
}

Result<std::vector<PathStatistics>> read_path_statistics(const std::filesystem::path& path) {
  std::vector<PathStatistics> statistics;
  const Result<void> result = shard::read_file(path, shard::kProfileFormat, [&](const h5::Group& root) {
    const h5::Group paths = root.open_group("paths");
    const h5::Group group = root.open_group("path_statistics");
    statistics.assign(paths.read_column<std::uint32_t>("parent").size(), PathStatistics{});
    visit_statistics([&](const char* name, auto field) {
      using Column = std::remove_cvref_t<std::invoke_result_t<decltype(field), PathStatistics&>>;
      const std::vector<Column> column = group.read_column<Column>(name);
      if (column.size() != statistics.size())
        throw h5::H5Error("column " + group.name() + "/" + name + " is not as long as table /paths");
      for (std::size_t i = 0; i < column.size(); ++i) field(statistics[i]) = column[i];
    });
  });
  if (!result) return result.error();
  return statistics;
}

Result<std::vector<Source>> read_sources(const std::filesystem::path& path) {
  std::vector<Source> sources;
  const Result<void> result = shard::read_file(path, shard::kProfileFormat, [&](const h5::Group& root) {
    const h5::Group group = root.open_group("sources");
    std::vector<std::string> names = group.read_strings("name");
    const auto sizes = group.read_column<std::uint64_t>("size_bytes");
    const auto merged = group.read_column<std::uint8_t>("merged");
    if (sizes.size() != names.size() || merged.size() != names.size())
      throw h5::H5Error("columns of table " + group.name() + " differ in length");
    for (std::size_t i = 0; i < names.size(); ++i)
      sources.push_back({std::move(names[i]), sizes[i], merged[i] != 0});
  });
  if (!result) return result.error();
  return sources;
}

}  // namespace clusterprof::profile
