// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof export`: selects ranks and regions and calls the writer of the format (report/export/).
#include "cli/analyze/export.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/path_resolver.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "cli/analyze/write_file.hpp"
#include "formats/profile/profile_reader.hpp"
#include "report/export/export.hpp"
#include "report/report.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using report::ExportInput;
using report::ExportOptions;
using report::ExportSink;
using report::ExportWeight;
using shard::ShardData;

// What a format is made of, and what there is to choose.
struct Format {
  std::string_view name;
  void (*write)(const ExportInput&, const ExportOptions&, const ExportSink&);  // null: csv, json
  bool binary = false, weighs = false, tells_ranks_apart = false, has_regions = false;
};
constexpr Format kFormats[] = {
    {"folded", report::export_folded, false, true, true, true},
    {"speedscope", report::export_speedscope, false, true, true, true},
    {"pprof", report::export_pprof, true, true, true},
    {"perfetto",
     [](const ExportInput& input, const ExportOptions& options, const ExportSink& sink) {
       report::export_perfetto(input.head, options, sink);
     },
     true, false, true},
    {"pstats", report::export_pstats, true},
    {"callgrind", report::export_callgrind},
    {"hatchet", report::export_hatchet, false, false, true, true},
    {"csv", nullptr},
    {"json", nullptr},
};

// "0-3,8": pairs of first and last rank; empty: it is no such list.
std::vector<std::pair<std::int32_t, std::int32_t>> parse_ranks(std::string_view text) {
  std::vector<std::pair<std::int32_t, std::int32_t>> ranges;
  const auto number = [](std::string_view digits) -> std::optional<std::int32_t> {
    std::int32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return {};
    return value;
  };
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    const std::size_t dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *last < *first) return {};
    ranges.emplace_back(*first, *last);
    at = end + 1;
  }
  return ranges;
}

// Rows of the ranks that are asked for: one by one where they are few, as most of a file need not be read.
class SelectedRows final : public shard::RowSource {
 public:
  SelectedRows(profile::ProfileReader& profile, const std::vector<bool>& selected)
      : profile_(profile), selected_(selected) {}

  void for_each_rank(const std::function<void(const shard::RankRows&)>& use) const override {
    const auto chosen = std::count(selected_.begin(), selected_.end(), true);
    constexpr std::ptrdiff_t kFew = 8;
    if (selected_.empty() || chosen > std::ssize(selected_) / kFew)
      return profile_.rows()->for_each_rank(use);
    for (std::uint32_t rank = 0; rank < selected_.size(); ++rank) {
      if (!selected_[rank]) continue;
      Result<shard::MatrixRows> rows = profile_.rank(rank);
      if (!rows) throw std::runtime_error(rows.error().message);
      shard::for_each_rank_of(std::move(rows.value()), use);
    }
  }

 private:
  profile::ProfileReader& profile_;
  const std::vector<bool>& selected_;
};

// Where an export goes, in pieces.
int write_to(const std::string& output, const std::function<void(const ExportSink&)>& write) {
  if (output == "-") {
    Output out;
    if (::isatty(STDOUT_FILENO) != 1) {
      write([&](std::string_view piece) { out(piece); });
      return out.finish();
    }
    VisibleText text;
    write([&](std::string_view piece) { out(text(piece)); });
    out(text.finish());
    return out.finish();
  }
  NamedFileWriter file(output);
  if (!file.failed()) write([&](std::string_view piece) { file(piece); });
  const Result<void> written = file.finish();
  return written ? kOk : complain(written.error());
}

}  // namespace

std::string export_tables() {
  std::string names;
  for (const std::string_view table : report::csv_tables())
    names.append(names.empty() ? "" : ", ").append(table);
  return names;
}

namespace {

// What cannot be meant, as a sentence; empty: nothing.
std::string misuse(const ExportVerbOptions& options, const Format& format) {
  const std::string of = std::string(format.name) + " has no ";
  const bool csv = format.name == "csv";
  if (!options.weight.empty() && !format.weighs) return of + "choice of weights";
  if (format.name == "pprof" && options.weight == "samples") return "pprof has samples and times always";
  if (options.all_ranks && !format.tells_ranks_apart) return of + "way to tell ranks apart";
  if (options.no_regions && !format.has_regions) return of + "frames of regions";
  if (options.idle_threads && (csv || format.name == "json" || format.name == "perfetto"))
    return std::string(format.name) + " always has idle threads";
  if (!options.table.empty() && !csv) return of + "tables";
  const std::vector<std::string_view>& tables = report::csv_tables();
  if (!options.table.empty() && std::find(tables.begin(), tables.end(), options.table) == tables.end())
    return "there is no table " + options.table + " (there are " + export_tables() + ")";
  if (!options.ranks.empty()) {
    if (parse_ranks(options.ranks).empty())
      return "--ranks: " + options.ranks + " is not a list such as 0-3,8";
    if (format.name == "json") return "json always has all ranks";
    if (csv && (options.table.empty() || report::csv_table_of_analysis(options.table)))
      return "with csv, --ranks works for the tables paths and rank_paths only";
  }
  if (format.binary && options.output == "-" && ::isatty(STDOUT_FILENO) == 1)
    return std::string(format.name) + " is not for terminals: name a file with -o, or a pipe";
  return {};
}

// The rows of --ranks. kNotFound if no rank is in one of its parts.
Result<std::vector<bool>> select(const ExportVerbOptions& options, const ShardData& head) {
  if (options.ranks.empty()) return std::vector<bool>();
  std::vector<bool> selected(head.ranks.size(), false);
  for (const auto& [first, last] : parse_ranks(options.ranks)) {
    bool any = false;
    for (std::size_t row = 0; row < selected.size(); ++row) {
      const std::int32_t rank = head.ranks[row].rank;
      if (rank >= first && rank <= last) any = selected[row] = true;
    }
    if (any) continue;
    const std::string missing =
        first == last ? "there is no rank " + std::to_string(first)
                      : "there are no ranks " + std::to_string(first) + "-" + std::to_string(last);
    return Error{options.run + ": " + missing, ErrorKind::kNotFound};
  }
  return selected;
}

ExportWeight weight_of(std::string_view name) {
  const auto known = std::find(kExportWeights.begin(), kExportWeights.end(), name);
  return known != kExportWeights.end() ? static_cast<ExportWeight>(known - kExportWeights.begin())
                                       : ExportWeight::kTime;
}

int export_tables(const ExportVerbOptions& options, const fs::path& run) {
  std::error_code error;
  const fs::path output(options.output);
  const bool directory =
      options.output != "-" && (options.output.ends_with('/') || fs::is_directory(output, error));
  std::vector<std::string_view> tables;
  if (!options.table.empty())
    tables.push_back(options.table);
  else if (!directory)
    tables.emplace_back("functions");
  else
    std::copy_if(report::csv_tables().begin(), report::csv_tables().end(), std::back_inserter(tables),
                 [](std::string_view table) { return table != report::kCsvRankPaths; });

  const bool analyse = std::any_of(tables.begin(), tables.end(), report::csv_table_of_analysis);
  std::optional<report::Analysis> analysis;
  std::optional<profile::ProfileReader> profile;
  if (analyse) {
    Result<AnalysedRun> analysed = analysed_run(run, false);
    if (!analysed) return complain(analysed.error());
    analysis = std::move(analysed.value().analysis);
    profile = std::move(analysed.value().profile);
  } else {
    Result<profile::ProfileReader> opened = open_profile(run, nullptr);
    if (!opened) return complain(opened.error());
    profile = std::move(opened.value());
  }
  const Result<const ShardData*> head = profile->head();
  if (!head) return complain(head.error());
  Result<std::vector<bool>> selected = select(options, *head.value());
  if (!selected) return complain(selected.error());
  ExportOptions how;
  how.ranks = std::move(selected).value();
  const SelectedRows rows(*profile, how.ranks);

  if (directory && !fs::is_directory(output, error)) {
    if (const PathResolver resolver(output.parent_path().string()); resolver.found_untrusted())
      return complain(kBadInput, options.output + ": cannot be made: another user has made " +
                                     resolver.failed_part() + ", where everybody may write");
    fs::create_directory(output.parent_path(), error);
    if (error) return complain(kBadInput, options.output + ": cannot be made: " + error.message());
  }
  for (const std::string_view table : tables) {
    const std::string file = directory ? (output / (std::string(table) + ".csv")).string() : options.output;
    const int status = write_to(file, [&](const ExportSink& sink) {
      if (report::csv_table_of_analysis(table))
        report::export_csv(table, *analysis, sink);
      else
        report::export_csv(table, {*head.value(), rows}, how, sink);
    });
    if (status != kOk) return status;
  }
  return kOk;
}

int export_json(const ExportVerbOptions& options, const fs::path& run) {
  const Result<report::Analysis> analysis = stored_analysis(run, true);
  if (!analysis) return complain(analysis.error());
  return write_to(options.output,
                  [&](const ExportSink& sink) { report::render_json(analysis.value(), sink); });
}

}  // namespace

int export_run(const ExportVerbOptions& options) {
  const auto* const format = std::find_if(std::begin(kFormats), std::end(kFormats),
                                          [&](const Format& known) { return known.name == options.format; });
  if (format == std::end(kFormats))
    return complain(kBadUsage, "export: there is no format " + options.format);
  if (const std::string text = misuse(options, *format); !text.empty())
    return complain(kBadUsage, "export: " + text);
  const Result<fs::path> directory = run_directory(options.run);
  if (!directory) return complain(directory.error());
  const fs::path& run = directory.value();
  if (format->name == "csv") return export_tables(options, run);
  if (format->name == "json") return export_json(options, run);

  Result<profile::ProfileReader> profile = open_profile(run, nullptr);
  if (!profile) return complain(profile.error());
  const Result<const ShardData*> head = profile.value().head();
  if (!head) return complain(head.error());
  Result<std::vector<bool>> selected = select(options, *head.value());
  if (!selected) return complain(selected.error());
  ExportOptions how;
  how.ranks = std::move(selected).value();
  how.weight = weight_of(options.weight);
  if (report::is_memory(how.weight) && head.value()->memory_ranks.empty())
    return complain(kNothingFound, options.run + ": recorded without --memory");
  how.idle_threads = options.idle_threads;
  how.each_rank = options.all_ranks;
  how.regions = !options.no_regions;

  const std::size_t ranks =
      how.ranks.empty() ? head.value()->ranks.size()
                        : static_cast<std::size_t>(std::count(how.ranks.begin(), how.ranks.end(), true));
  if (ranks > report::kMaxRanksApart && !how.each_rank) {
    const std::string of = "of " + std::to_string(ranks) + " ranks, ";
    if (format->name == "pprof") complain(kOk, of + "pprof shows the nodes (--all-ranks: the ranks, too)");
    if (format->name == "perfetto")
      complain(kOk, of + "the slowest, the median and the fastest are shown (--all-ranks: all)");
  }
  const SelectedRows rows(profile.value(), how.ranks);
  return write_to(options.output, [&](const ExportSink& sink) {
    format->write({*head.value(), rows}, how, sink);
  });
}

}  // namespace clusterprof::cli
