// SPDX-License-Identifier: BSD-3-Clause
#include "formats/profile/statistics_table.hpp"

#include <string>
#include <tuple>
#include <type_traits>

namespace clusterprof::profile {
namespace {

using h5::H5Error;

void read_quantiles(const h5::Group& root, PathStatisticsTable& table) {
  const h5::Group group = root.open_group("path_quantiles");
  const auto paths_of = group.read_column<std::uint32_t>("path");
  const auto exclusive = group.read_column<std::uint8_t>("exclusive");
  const auto bin = group.read_column<std::uint32_t>("bin");
  const auto ranks = group.read_column<std::uint32_t>("ranks");
  if (exclusive.size() != paths_of.size() || bin.size() != paths_of.size() || ranks.size() != paths_of.size())
    throw H5Error("columns of table " + group.name() + " differ in length");
  table.quantile_bins.reserve(paths_of.size());
  for (std::size_t i = 0; i < paths_of.size(); ++i) {
    if (paths_of[i] >= table.paths.size() || exclusive[i] > 1 || bin[i] > quantile_bin(~std::uint64_t{0}) ||
        ranks[i] == 0)
      throw H5Error("is damaged (row " + std::to_string(i) + " of table path_quantiles: out of range)");
    table.quantile_bins.push_back(
        {paths_of[i], exclusive[i] != 0, static_cast<std::uint16_t>(bin[i]), ranks[i]});
    const auto place = [&](std::size_t row) { return std::tuple(paths_of[row], exclusive[row], bin[row]); };
    if (i != 0 && place(i) <= place(i - 1))
      throw H5Error("is damaged (row " + std::to_string(i) + " of table path_quantiles: not in order)");
  }
}

}  // namespace

PathStatisticsTable read_statistics(const h5::Group& root) {
  PathStatisticsTable table;
  table.paths.resize(root.open_group("paths").read_column<std::uint32_t>("parent").size());
  const h5::Group group = root.open_group("path_statistics");
  const auto read = [&]<typename Column>(const std::string& name, Column) {
    std::vector<Column> column = group.read_column<Column>(name.c_str());
    if (column.size() != table.paths.size())
      throw H5Error("column " + group.name() + "/" + name + " is not as long as table /paths");
    return column;
  };
  visit_statistics([&](const char* name, auto field) {
    using Column = std::remove_cvref_t<std::invoke_result_t<decltype(field), PathStatistics&>>;
    const std::vector<Column> column = read(name, Column{});
    for (std::size_t i = 0; i < column.size(); ++i) field(table.paths[i]) = column[i];
  });
  visit_squares([&](const std::string& name, auto field) {
    const std::vector<double> rounded = read(name, double{});
    const std::vector<std::uint64_t> low = read(name + "_low", std::uint64_t{});
    const std::vector<std::uint64_t> high = read(name + "_high", std::uint64_t{});
    for (std::size_t i = 0; i < rounded.size(); ++i) {
      const Squares squares = static_cast<Squares>(high[i]) << 64 | low[i];
      if (static_cast<double>(squares) != rounded[i])
        throw H5Error("column " + group.name() + "/" + name + " is damaged");
      field(table.paths[i]) = squares;
    }
  });
  read_quantiles(root, table);
  return table;
}

}  // namespace clusterprof::profile
