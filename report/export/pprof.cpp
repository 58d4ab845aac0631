// SPDX-License-Identifier: BSD-3-Clause
// github.com/google/pprof, proto/profile.proto
#include <algorithm>
#include <map>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/export/charged_rows.hpp"
#include "report/export/export.hpp"
#include "report/export/frame_tree.hpp"
#include "report/export/gzip_sink.hpp"
#include "report/format/characters.hpp"

namespace clusterprof::report {
namespace {

using protozero::pbf_writer;
using shard::Category;
using shard::Frame;
using shard::kNone;
using shard::ShardData;

namespace field {
enum Profile : protozero::pbf_tag_type {
  kSampleType = 1,
  kSample = 2,
  kMapping = 3,
  kLocation = 4,
  kFunction = 5,
  kStringTable = 6,
  kTimeNanos = 9,
  kDurationNanos = 10,
  kPeriodType = 11,
  kPeriod = 12,
  kComment = 13,
  kDefaultSampleType = 14,
};
enum ValueType : protozero::pbf_tag_type { kTypeText = 1, kUnitText = 2 };
enum Sample : protozero::pbf_tag_type { kLocationId = 1, kValue = 2, kLabel = 3 };
enum Label : protozero::pbf_tag_type { kKey = 1, kStr = 2, kNum = 3 };
enum Mapping : protozero::pbf_tag_type {
  kMappingId = 1,
  kMappingFilename = 5,
  kHasFunctions = 7,
  kHasFilenames = 8,
  kHasLineNumbers = 9,
  kHasInlineFrames = 10,
};
enum Location : protozero::pbf_tag_type { kLocationOwnId = 1, kLocationMapping = 2, kLine = 4 };
enum Line : protozero::pbf_tag_type { kLineFunction = 1, kLineNumber = 2 };
enum Function : protozero::pbf_tag_type {
  kFunctionId = 1,
  kName = 2,
  kSystemName = 3,
  kFilename = 4,
  kStartLine = 5,
};
}  // namespace field

// Fields may come in any order: samples go out as they are made, the tables they refer to in the end.
class PprofWriter {
 public:
  PprofWriter(const ShardData& head, const CallPaths& paths, ExportWeight weight, const ExportSink& sink)
      : head_(head), paths_(paths), out_(sink), regions_(paths.size(), 0) {
    const std::vector<std::pair<const char*, const char*>> types =
        is_memory(weight) ? std::vector<std::pair<const char*, const char*>>{{"alloc_objects", "count"},
                                                                             {"alloc_space", "bytes"},
                                                                             {"inuse_space", "bytes"},
                                                                             {"rank_peak_space", "bytes"},
                                                                             {"node_peak_space", "bytes"}}
                          : std::vector<std::pair<const char*, const char*>>{
                                {"samples", "count"}, {"wall", "nanoseconds"}, {"cpu", "nanoseconds"}};
    for (const auto& [type, unit] : types) value_type(field::kSampleType, type, unit);
    const char* const clock = head.run.clock == "cpu" ? "cpu" : "wall";
    value_type(field::kPeriodType, is_memory(weight) ? "space" : clock,
               is_memory(weight) ? "bytes" : "nanoseconds");
    pbf_writer profile(message_);
    profile.add_int64(field::kTimeNanos, head.run.start_utc_ns);
    // Unsigned, as sums of what a file says may not fit.
    std::int64_t first = INT64_MAX, last = 0;
    for (const shard::Rank& rank : head.ranks) {
      first = std::min(first, rank.start_utc_ns);
      const std::uint64_t end = static_cast<std::uint64_t>(rank.start_utc_ns) + rank.elapsed_ns;
      last = std::max(last, static_cast<std::int64_t>(end));
    }
    if (first < last)
      profile.add_int64(field::kDurationNanos, static_cast<std::int64_t>(static_cast<std::uint64_t>(last) -
                                                                         static_cast<std::uint64_t>(first)));
    if (is_memory(weight)) {
      std::uint64_t interval = 0;
      for (const shard::MemoryRank& rank : head.memory_ranks)
        interval = std::max(interval, rank.interval_bytes);
      profile.add_int64(field::kPeriod, static_cast<std::int64_t>(interval));
      const auto chosen =
          static_cast<std::size_t>(weight) - static_cast<std::size_t>(ExportWeight::kAllocated);
      profile.add_int64(field::kDefaultSampleType, string(types[1 + chosen].first));
    } else {
      if (head.run.rate_hz != 0) profile.add_int64(field::kPeriod, 1'000'000'000 / head.run.rate_hz);
      profile.add_int64(field::kDefaultSampleType, string("wall"));
    }
    profile.add_int64(field::kComment, string(creator()));
    profile.add_int64(field::kComment, string(command_of(head)));
    for (std::uint32_t path = 1; path < paths.size(); ++path)
      if (const std::uint32_t region = paths.region(path); region != 0)
        regions_[path] = region == path ? region_name(region) : regions_[region];
    rank_ = string("rank"), node_ = string("node"), category_ = string("category");
    thread_ = string("thread"), main_ = string("main"), helper_ = string("helper"),
    region_ = string("region"), domain_ = string("domain");
    for (std::size_t c = 0; c < shard::kCategories; ++c) categories_[c] = string(shard::kCategoryNames[c]);
    flush(0);
  }

  // Without a rank: of all of the node's.
  void samples(std::optional<std::int32_t> rank, std::string_view node, std::span<const ChargedRow> rows) {
    const std::int64_t host = string(node);
    for (const ChargedRow& row : rows) {
      sample_.clear();
      pbf_writer sample(sample_);
      find_stack(row.path);
      sample.add_packed_uint64(field::kLocationId, stack_.begin(), stack_.end());
      const std::uint64_t values[] = {row.of.samples, row.of.time_ns, row.of.cpu_ns};
      sample.add_packed_int64(field::kValue, std::begin(values), std::end(values));
      if (rank) label(sample, rank_, field::kNum, *rank);
      label(sample, node_, field::kStr, host);
      label(sample, category_, field::kStr, categories_[static_cast<std::size_t>(row.category)]);
      label(sample, thread_, field::kStr, row.main_thread ? main_ : helper_);
      if (regions_[row.path] != 0) label(sample, region_, field::kStr, regions_[row.path]);
      pbf_writer(message_).add_message(field::kSample, sample_);
      flush(kFlush_bytes);
    }
  }

  // Each row of a rank.
  void memory(std::optional<std::int32_t> rank, std::string_view node, const shard::MemorySite& site) {
    const std::uint32_t path = paths_.counted(site.path, Category::kNative);
    sample_.clear();
    pbf_writer sample(sample_);
    find_stack(path);
    sample.add_packed_uint64(field::kLocationId, stack_.begin(), stack_.end());
    const std::uint64_t values[] = {site.alloc_count, site.alloc_bytes, site.live_end_bytes,
                                    site.rank_peak_bytes, site.node_peak_bytes};
    sample.add_packed_int64(field::kValue, std::begin(values), std::end(values));
    if (rank) label(sample, rank_, field::kNum, *rank);
    label(sample, node_, field::kStr, string(node));
    label(sample, domain_, field::kStr,
          string(shard::kMemoryDomainNames[static_cast<std::size_t>(site.domain)]));
    if (regions_[path] != 0) label(sample, region_, field::kStr, regions_[path]);
    pbf_writer(message_).add_message(field::kSample, sample_);
    flush(kFlush_bytes);
  }

  void finish() {
    pbf_writer profile(message_);
    for (const auto& [module, id] : mapping_ids_) {
      pbf_writer mapping(profile, field::kMapping);
      mapping.add_uint64(field::kMappingId, id);
      mapping.add_int64(field::kMappingFilename, string(module));
      for (const auto flag :
           {field::kHasFunctions, field::kHasFilenames, field::kHasLineNumbers, field::kHasInlineFrames})
        mapping.add_bool(flag, true);
    }
    for (const std::uint32_t frame : locations_) {
      pbf_writer location(profile, field::kLocation);
      location.add_uint64(field::kLocationOwnId, std::uint64_t{frame} + 1);
      const std::string& module = paths_.text(head_.frames[frame].module);
      if (!module.empty()) location.add_uint64(field::kLocationMapping, mapping_ids_.at(module));
      pbf_writer line(location, field::kLine);
      line.add_uint64(field::kLineFunction, function_ids_[frame]);
      line.add_int64(field::kLineNumber, head_.frames[frame].line);
    }
    if (outside_) {
      pbf_writer location(profile, field::kLocation);
      location.add_uint64(field::kLocationOwnId, outside_location());
      pbf_writer line(location, field::kLine);
      line.add_uint64(field::kLineFunction, paths_.functions().size() + 1);
    }
    for (std::size_t i = 0; i < used_functions_.size(); ++i)
      if (used_functions_[i]) add_function(profile, i + 1, *paths_.functions()[i]);
    if (outside_) {
      pbf_writer function(profile, field::kFunction);
      function.add_uint64(field::kFunctionId, paths_.functions().size() + 1);
      function.add_int64(field::kName, string(kOutside));
      function.add_int64(field::kSystemName, string(kOutside));
    }
    for (const std::string_view text : strings_) {
      profile.add_string(field::kStringTable, text.data(), text.size());
      flush(kFlush_bytes);
    }
    flush(0);
    out_.finish();
  }

 private:
  static constexpr std::size_t kFlush_bytes = 1 << 16;

  void flush(std::size_t from_bytes) {
    if (message_.size() <= from_bytes) return;
    out_(message_);
    message_.clear();
  }

  std::int64_t string(std::string_view text) {
    const std::string valid = format::replace_invalid(text);
    const auto [known, is_new] = string_ids_.try_emplace(valid, static_cast<std::int64_t>(strings_.size()));
    if (is_new) strings_.push_back(known->first);
    return known->second;
  }
  void value_type(field::Profile of, const char* type, const char* unit) {
    pbf_writer profile(message_);
    pbf_writer value(profile, of);
    value.add_int64(field::kTypeText, string(type));
    value.add_int64(field::kUnitText, string(unit));
  }
  static void label(pbf_writer& sample, std::int64_t key, field::Label kind, std::int64_t value) {
    pbf_writer label(sample, field::kLabel);
    label.add_int64(field::kKey, key);
    label.add_int64(kind, value);
  }
  std::int64_t region_name(std::uint32_t path) {
    std::string name;
    for (; path != 0; path = paths_.region(paths_.parent(path))) {
      const std::string& part = paths_.text(paths_.frame(path)->name);
      name = name.empty() ? part : part + "/" + name;
    }
    return string(name);
  }
  void add_function(pbf_writer& profile, std::uint64_t id, const Frame& frame) {
    pbf_writer function(profile, field::kFunction);
    function.add_uint64(field::kFunctionId, id);
    function.add_int64(field::kName, string(paths_.text(frame.name)));
    function.add_int64(field::kSystemName, string(paths_.text(frame.name)));
    function.add_int64(field::kFilename, string(paths_.text(frame.file)));
    function.add_int64(field::kStartLine, frame.function_line);
  }
  [[nodiscard]] std::uint64_t outside_location() const { return head_.frames.size() + 1; }

  // The leaf's first. Regions and descriptors have no location.
  void find_stack(std::uint32_t path) {
    stack_.clear();
    for (std::uint32_t up = path; up != 0; up = paths_.parent(up)) {
      const std::uint32_t function = paths_.function(up);
      if (function == kNone) continue;
      const std::uint32_t frame = head_.paths[up].frame;
      stack_.push_back(std::uint64_t{frame} + 1);
      use(frame, function);
    }
    if (stack_.empty()) stack_.push_back(outside_location()), outside_ = true;
  }
  void use(std::uint32_t frame, std::uint32_t function) {
    if (function_ids_.empty()) {
      function_ids_.resize(head_.frames.size(), 0);
      used_functions_.resize(paths_.functions().size(), false);
    }
    if (function_ids_[frame] != 0) return;
    function_ids_[frame] = std::uint64_t{function} + 1;
    used_functions_[function] = true;
    locations_.push_back(frame);
    const std::string& module = paths_.text(head_.frames[frame].module);
    if (!module.empty()) mapping_ids_.try_emplace(module, mapping_ids_.size() + 1);
  }

  const ShardData& head_;
  const CallPaths& paths_;
  GzipSink out_;
  std::string message_, sample_;
  std::unordered_map<std::string, std::int64_t> string_ids_{{"", 0}};
  std::vector<std::string_view> strings_{""};
  std::vector<std::uint64_t> stack_;         // of the sample that is written
  std::vector<std::int64_t> regions_;        // by path
  std::vector<std::uint64_t> function_ids_;  // by frame; 0: not used
  std::vector<bool> used_functions_;
  std::vector<std::uint32_t> locations_;  // frames
  std::map<std::string, std::uint64_t> mapping_ids_;
  bool outside_ = false;
  std::int64_t rank_ = 0, node_ = 0, category_ = 0, thread_ = 0, main_ = 0, helper_ = 0, region_ = 0,
               domain_ = 0;
  std::array<std::int64_t, shard::kCategories> categories_{};
};

// Rows of ranks that come one after the other are joined as long as they are of the same node.
class NodeSums {
 public:
  explicit NodeSums(std::size_t paths) : of_(paths * shard::kCategories * 2) {}

  void add(std::span<const ChargedRow> rows) {
    for (const ChargedRow& row : rows) {
      const std::size_t cell =
          (std::size_t{row.path} * shard::kCategories + static_cast<std::size_t>(row.category)) * 2 +
          (row.main_thread ? 0 : 1);
      if (of_[cell].empty()) cells_.push_back(cell);
      of_[cell] += row.of;
    }
  }
  std::vector<ChargedRow> take() {
    std::vector<ChargedRow> rows;
    std::sort(cells_.begin(), cells_.end());
    for (const std::size_t cell : cells_) {
      rows.push_back({static_cast<std::uint32_t>(cell / 2 / shard::kCategories),
                      static_cast<Category>(cell / 2 % shard::kCategories), cell % 2 == 0, of_[cell]});
      of_[cell] = {};
    }
    cells_.clear();
    return rows;
  }

 private:
  std::vector<Weights> of_;
  std::vector<std::size_t> cells_;
};

}  // namespace

void export_pprof(const ExportInput& input, const ExportOptions& options, const ExportSink& sink) {
  const ShardData& head = input.head;
  const CallPaths paths(head, FrameMode::kAll);
  PprofWriter writer(head, paths, options.weight, sink);
  const bool apart = options.each_rank || ranks_in_order(head, options.ranks).size() <= kMaxRanksApart;
  if (is_memory(options.weight)) {
    for (const shard::MemorySite& site : head.memory_sites) {
      if (site.domain == shard::MemoryDomain::kFile || site.path >= paths.size() ||
          site.rank >= head.ranks.size() || (!options.ranks.empty() && !options.ranks[site.rank]))
        continue;
      const shard::Rank& rank = head.ranks[site.rank];
      writer.memory(apart ? std::optional(rank.rank) : std::nullopt, node_name(head, rank), site);
    }
    return writer.finish();
  }
  NodeSums sums(apart ? 0 : paths.size());
  std::optional<std::uint32_t> node;
  const auto end_node = [&] {
    if (!node) return;
    writer.samples({}, *node < head.nodes.size() ? head.nodes[*node].name : "?", sums.take());
    node.reset();
  };
  ChargedRows(input, paths, options).for_each_rank([&](std::uint32_t row, std::span<const ChargedRow> rows) {
    const shard::Rank& rank = head.ranks[row];
    if (apart) return writer.samples(rank.rank, node_name(head, rank), rows);
    if (node && *node != rank.node) end_node();
    node = rank.node;
    sums.add(rows);
  });
  end_node();
  writer.finish();
}

}  // namespace clusterprof::report
