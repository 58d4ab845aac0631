// SPDX-License-Identifier: BSD-3-Clause
#include "formats/profile/gains_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

namespace clusterprof::profile {
namespace {

using h5::H5Error;

template <typename T, typename Of>
void write(h5::Group& group, const char* name, const std::vector<PredictedGain>& rows, const Of& of) {
  std::vector<T> column;
  column.reserve(rows.size());
  for (const PredictedGain& row : rows) column.push_back(of(row));
  group.write_column<T>(name, column);
}

template <typename Row, typename T>
void write_texts(h5::Group& group, const char* name, const std::vector<Row>& rows, T member) {
  std::vector<std::string> column;
  column.reserve(rows.size());
  for (const Row& row : rows) column.push_back(row.*member);
  group.write_strings(name, column);
}

template <typename Row, typename T, typename Member>
void fill(std::vector<Row>& rows, std::vector<T> column, Member member) {
  if (column.size() != rows.size()) throw H5Error("columns of a table of gains differ in length");
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].*member = std::move(column[i]);
}

void check(const Gains& gains) {
  const auto time = [](double s) { return std::isfinite(s) && s >= 0; };
  const bool good =
      time(gains.elapsed_s) && time(gains.replayed_s) && time(gains.stretches_s) &&
      (gains.stretches == 0) == (gains.stretches_s == 0) && gains.tried <= gains.candidates &&
      gains.rows.size() == gains.tried && gains.refused_changes.size() <= gains.candidates - gains.tried &&
      std::all_of(gains.rows.begin(), gains.rows.end(), [&](const PredictedGain& row) {
        return time(row.predicted_s) && time(row.error_s) && std::isfinite(row.gain_s) && row.rank >= -1;
      });
  if (!good) throw H5Error("is damaged (gains: a number is out of range)");
}

}  // namespace

void write_gains(h5::Group& root, const Gains& gains) {
  h5::Group run = root.create_group("gains_run");
  run.write_attribute("from_sums", static_cast<std::uint8_t>(gains.from_sums));
  run.write_attribute("refused", std::string_view(gains.refused));
  run.write_attribute("candidates", gains.candidates);
  run.write_attribute("tried", gains.tried);
  run.write_attribute("stretches", gains.stretches);
  run.write_column<double>("elapsed_s", std::array{gains.elapsed_s});
  run.write_column<double>("replayed_s", std::array{gains.replayed_s});
  run.write_column<double>("stretches_s", std::array{gains.stretches_s});
  h5::Group group = root.create_group("gains");
  const std::vector<PredictedGain>& rows = gains.rows;
  write_texts(group, "change", rows, &PredictedGain::change);
  write_texts(group, "file", rows, &PredictedGain::file);
  write_texts(group, "function", rows, &PredictedGain::function);
  write<std::uint32_t>(group, "line", rows, [](const PredictedGain& row) { return row.line; });
  write<std::int32_t>(group, "rank", rows, [](const PredictedGain& row) { return row.rank; });
  write<double>(group, "predicted_s", rows, [](const PredictedGain& row) { return row.predicted_s; });
  write<double>(group, "gain_s", rows, [](const PredictedGain& row) { return row.gain_s; });
  write<double>(group, "error_s", rows, [](const PredictedGain& row) { return row.error_s; });
  h5::Group refused = root.create_group("gains_refused");
  write_texts(refused, "change", gains.refused_changes, &RefusedChange::change);
  write_texts(refused, "reason", gains.refused_changes, &RefusedChange::reason);
}

Gains read_gains(const h5::Group& root) {
  const h5::Group run = root.open_group("gains_run"), group = root.open_group("gains");
  constexpr std::int64_t kMax = std::numeric_limits<std::uint32_t>::max();
  const auto single = [&](const char* name) {
    const auto column = run.read_column<double>(name);
    if (column.size() != 1)
      throw H5Error("is damaged (gains_run: " + std::string(name) + " is not one number)");
    return column.front();
  };
  Gains gains;
  gains.from_sums = run.read_integer("from_sums", 0, 1) != 0;
  gains.refused = run.read_string("refused");
  gains.candidates = static_cast<std::uint32_t>(run.read_integer("candidates", 0, kMax));
  gains.tried = static_cast<std::uint32_t>(run.read_integer("tried", 0, kMax));
  gains.stretches = static_cast<std::uint32_t>(run.read_integer("stretches", 0, kMax));
  gains.stretches_s = single("stretches_s");
  gains.elapsed_s = single("elapsed_s");
  gains.replayed_s = single("replayed_s");
  std::vector<std::string> changes = group.read_strings("change");
  gains.rows.resize(changes.size());
  fill(gains.rows, std::move(changes), &PredictedGain::change);
  fill(gains.rows, group.read_strings("file"), &PredictedGain::file);
  fill(gains.rows, group.read_strings("function"), &PredictedGain::function);
  fill(gains.rows, group.read_column<std::uint32_t>("line"), &PredictedGain::line);
  fill(gains.rows, group.read_column<std::int32_t>("rank"), &PredictedGain::rank);
  fill(gains.rows, group.read_column<double>("predicted_s"), &PredictedGain::predicted_s);
  fill(gains.rows, group.read_column<double>("gain_s"), &PredictedGain::gain_s);
  fill(gains.rows, group.read_column<double>("error_s"), &PredictedGain::error_s);
  const h5::Group refused = root.open_group("gains_refused");
  std::vector<std::string> refused_changes = refused.read_strings("change");
  gains.refused_changes.resize(refused_changes.size());
  fill(gains.refused_changes, std::move(refused_changes), &RefusedChange::change);
  fill(gains.refused_changes, refused.read_strings("reason"), &RefusedChange::reason);
  check(gains);
  return gains;
}

}  // namespace clusterprof::profile
