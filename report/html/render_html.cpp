// SPDX-License-Identifier: BSD-3-Clause
// Puts the page's script, the report's JSON and the binary arrays of PageData together to report.html.
// Format of the arrays: report/html/FORMAT.md.
#include "report/html/render_html.hpp"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/version.hpp"
#include "report/analysis/activities.hpp"
#include "report/analysis/file_io.hpp"
#include "report/analysis/openmp.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/html/page_files.hpp"
#include "report/json/json_writer.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written as they are in memory");

using shard::kNone;

constexpr std::string_view kMagic = "CPPAGE1\n";
constexpr int kCompression = 6;
constexpr std::size_t kAlignment = 8;

// Rows of the report's tables that the page has.
constexpr std::size_t kMaxRanks = 512, kMaxWaits = 1'000, kMaxMpiCalls = 2'000, kMaxRootCauses = 1'000,
                      kMaxFiles = 500, kMaxFileCalls = 1'000, kMaxOffCpu = 1'000, kMaxMissing = 1'000,
                      kMaxNotes = 200, kMaxBottlenecks = 1'000, kMaxProcesses = 2'000, kMaxLoops = 500,
                      kMaxMutexes = 200, kMaxOpenMpRegions = 200, kMaxTeam = 64, kMaxTeamRanks = 32,
                      kMaxRankTeams = 16, kMaxImports = 200, kMaxThreads = 2'000, kMaxHeldNodes = 200,
                      kMaxHeldLines = 2'000, kMaxLabels = 500;

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text((bytes.size() + 2) / 3 * 4, '=');
  char* to = text.data();
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(bytes.size() - i, 3);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k <= count; ++k) to[k] = kDigits[word >> (18 - 6 * k) & 63];
    to += 4;
  }
  return text;
}

std::string from_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1]));
  return bytes;
}

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

// What only colours and curves show, and sums of many, need not be stored to the last bit.
constexpr int kCellBits = 10, kCurveBits = 8;  // significant ones

float rounded(float value, int significant_bits) {
  const std::uint32_t dropped = 24 - static_cast<std::uint32_t>(significant_bits);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  constexpr std::uint32_t kExponent = 0x7f80'0000u;
  if ((bits & kExponent) == kExponent) return value;
  const std::uint32_t up = bits + (1u << (dropped - 1));
  if ((up & kExponent) == kExponent) return value;
  return std::bit_cast<float>(up & ~((1u << dropped) - 1));
}

template <typename T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return "u8";
  if constexpr (std::is_same_v<T, std::uint32_t>) return "u32";
  if constexpr (std::is_same_v<T, std::int32_t>) return "i32";
  if constexpr (std::is_same_v<T, float>) return "f32";
  if constexpr (std::is_same_v<T, double>) return "f64";
}

class Arrays {
 public:
  struct Entry {
    std::string name;
    const char* type;
    std::size_t offset, length;
  };

  template <typename T>
  void add(std::string name, const std::vector<T>& values) {
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
    entries_.push_back({std::move(name), type_name<T>(), bytes_.size(), values.size()});
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void add_curves(std::string name, const std::vector<float>& values) {
    std::vector<float> short_values(values.size());
    std::transform(values.begin(), values.end(), short_values.begin(),
                   [](float value) { return rounded(value, kCurveBits); });
    add(std::move(name), short_values);
  }
  // One value of each of the rows.
  template <typename T, typename Rows, typename Of>
  void column(std::string name, const Rows& rows, const Of& of) {
    std::vector<T> values;
    values.reserve(rows.size());
    for (const auto& row : rows) values.push_back(static_cast<T>(of(row)));
    add(std::move(name), values);
  }

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::vector<Entry> entries_;
  std::string bytes_;
};

class Strings {
 public:
  std::uint32_t operator()(const std::string& text) {
    const auto [at, is_new] = numbers_.try_emplace(text, static_cast<std::uint32_t>(strings_.size()));
    if (is_new) strings_.push_back(text);
    return at->second;
  }
  std::uint32_t or_none(const std::string& text) { return text.empty() ? kNone : (*this)(text); }
  [[nodiscard]] const std::vector<std::string>& all() const { return strings_; }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> strings_;
};

struct Shortened {
  std::string table;
  std::size_t kept, of;
};

class Shortener {
 public:
  template <typename T>
  void cut(const char* table, std::vector<T>& rows, std::size_t most) {
    if (rows.size() <= most) return;
    list_.push_back({table, most, rows.size()});
    rows.resize(most);
  }
  // A table of which the end says no more than the beginning.
  template <typename T>
  void none_above(const char* table, std::vector<T>& rows, std::size_t most) {
    if (rows.size() <= most) return;
    list_.push_back({table, 0, rows.size()});
    rows.clear();
  }
  // The largest ones, in their order.
  template <typename T, typename Weight>
  void keep_largest(const char* table, std::vector<T>& rows, std::size_t most, const Weight& weight) {
    if (rows.size() <= most) return;
    std::vector<std::size_t> order(rows.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return weight(rows[a]) > weight(rows[b]); });
    order.resize(most);
    std::sort(order.begin(), order.end());
    std::vector<T> kept;
    for (const std::size_t i : order) kept.push_back(std::move(rows[i]));
    list_.push_back({table, most, rows.size()});
    rows = std::move(kept);
  }
  void note(const char* table, std::size_t kept, std::size_t all) {
    if (kept < all) list_.push_back({table, kept, all});
  }
  [[nodiscard]] const std::vector<Shortened>& list() const { return list_; }

 private:
  std::vector<Shortened> list_;
};

// The calls from `begin` on without telling files apart, so that sums over calls stay whole.
std::vector<IoCallRow> calls_by_line(const std::vector<IoCallRow>& calls, std::size_t begin) {
  using Line = std::tuple<shard::IoOperation, std::string_view, bool, std::string_view, std::uint32_t,
                          std::string_view>;
  struct Sum {
    IoCallRow row;
    RankWithMost ranks;
  };
  std::map<Line, Sum> lines;
  for (std::size_t i = begin; i < calls.size(); ++i) {
    const IoCallRow& call = calls[i];
    const auto [known, is_new] = lines.try_emplace(
        Line{call.operation, call.mpi, call.in_background, call.file, call.line, call.function});
    auto& [row, ranks] = known->second;
    ranks.add(call);
    if (is_new) {
      row = call;
      row.path.clear();
      continue;
    }
    row.count += call.count;
    row.failed += call.failed;
    row.bytes += call.bytes;
    row.time_s += call.time_s;
    if (call.max_s <= row.max_s) continue;
    row.max_s = call.max_s;
    row.longest_rank = call.longest_rank;
  }
  std::vector<IoCallRow> rows;
  for (auto& [line, sum] : lines) {
    sum.row.max_rank = sum.ranks.rank();
    rows.push_back(std::move(sum.row));
  }
  return rows;
}

// Of the processes that ranks made, the groups with the most CPU time.
void keep_children(Analysis& a, Shortener& shortener) {
  std::vector<ProcessGroup> groups;
  std::vector<std::size_t> rows;  // by new row
  for (std::size_t i = 0; i < a.process_groups.size(); ++i)
    if (a.process_groups[i].how != ProcessHow::kRank) rows.push_back(i);
  shortener.keep_largest("process_groups", rows, kMaxProcesses,
                         [&](std::size_t row) { return a.process_groups[row].cpu_s; });
  std::vector<std::uint32_t> new_row(a.process_groups.size(), shard::kNone);
  for (const std::size_t row : rows) {
    new_row[row] = static_cast<std::uint32_t>(groups.size());
    groups.push_back(std::move(a.process_groups[row]));
  }
  a.process_groups = std::move(groups);
  std::erase_if(a.processes, [&](const ProcessRow& row) { return new_row[row.group] == shard::kNone; });
  for (ProcessRow& row : a.processes) row.group = new_row[row.group];
  shortener.cut("processes", a.processes, kMaxProcesses);
}

// The groups of threads with the most CPU time.
void keep_threads(Analysis& a, Shortener& shortener) {
  std::vector<std::size_t> rows(a.thread_groups.size());  // by new row
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  shortener.keep_largest("thread_groups", rows, kMaxThreads,
                         [&](std::size_t row) { return a.thread_groups[row].cpu_s; });
  std::vector<ThreadGroup> groups;
  std::vector<std::uint32_t> new_row(a.thread_groups.size(), shard::kNone);
  for (const std::size_t row : rows) {
    new_row[row] = static_cast<std::uint32_t>(groups.size());
    groups.push_back(std::move(a.thread_groups[row]));
  }
  a.thread_groups = std::move(groups);
  std::erase_if(a.threads, [&](const ThreadRow& row) { return new_row[row.group] == shard::kNone; });
  for (ThreadRow& row : a.threads) row.group = new_row[row.group];
  shortener.cut("threads", a.threads, kMaxThreads);
}

// Rows that refer to a line that is left out are left out, too.
void keep_memory(HeldMemory& memory, Shortener& shortener) {
  shortener.none_above("memory.ranks", memory.ranks, kMaxRanks);
  shortener.keep_largest("memory.nodes", memory.nodes, kMaxHeldNodes,
                         [](const HeldNode& row) { return row.peak_bytes; });
  shortener.cut("memory.lines", memory.lines, kMaxHeldLines);
  const auto is_left_out = [&](const auto& row) { return row.line >= memory.lines.size(); };
  for (HeldNode& node : memory.nodes) std::erase_if(node.held, is_left_out);
  std::erase_if(memory.over_time.rows, is_left_out);
  memory.tree.clear();  // the page has it in arrays
}

// Of each space; the note is of all spaces together.
void keep_labels(LabelledMemory& memory, Shortener& shortener) {
  std::size_t kept = 0, all = 0;
  for (MemorySpaceRow& space : memory.spaces) {
    all += space.labels.size();
    space.labels.resize(std::min(space.labels.size(), kMaxLabels));
    kept += space.labels.size();
  }
  shortener.note("labelled_memory.labels", kept, all);
}

std::vector<Shortened> shorten_tables(Analysis& a, const PageOptions& options) {
  Shortener shortener;
  shortener.cut("functions", a.functions, options.report_functions);
  shortener.cut("lines", a.lines, options.report_lines);
  shortener.none_above("ranks", a.ranks, kMaxRanks);
  shortener.none_above("counters.ranks", a.rank_counters, kMaxRanks);
  a.run.missing_ranks.resize(std::min(a.run.missing_ranks.size(), kMaxMissing));
  shortener.note("run.missing_ranks", a.run.missing_ranks.size(), a.run.missing);
  shortener.cut("run.notes", a.run.notes, kMaxNotes);
  shortener.cut("mpi.calls", a.mpi_calls, kMaxMpiCalls);
  shortener.cut("torch_distributed.rows", a.torch.rows, kMaxMpiCalls);
  shortener.keep_largest("mpi.waits", a.waits, kMaxWaits, [](const WaitRow& row) { return row.wait_s; });
  shortener.keep_largest("mpi.errors", a.mpi_errors, kMaxWaits,
                         [](const MpiErrorRow& row) { return static_cast<double>(row.count); });
  shortener.keep_largest("mpi.open_requests", a.open_requests, kMaxWaits,
                         [](const OpenRequestRow& row) { return static_cast<double>(row.count); });
  shortener.cut("mpi.unmatched", a.unmatched_messages, kMaxWaits);
  shortener.cut("root_causes", a.root_causes, kMaxRootCauses);
  keep_children(a, shortener);
  shortener.keep_largest("event_loops", a.event_loops, kMaxLoops,
                         [](const EventLoopRow& row) { return row.blocked_s; });
  shortener.cut("mutexes", a.mutexes, kMaxMutexes);
  shortener.cut("locks", a.locks, kMaxMutexes);
  if (a.openmp) {
    shortener.cut("openmp.regions", a.openmp->regions, kMaxOpenMpRegions);
    for (std::size_t i = 0; i < a.openmp->regions.size(); ++i) {
      OpenMpRegionRow& row = a.openmp->regions[i];
      row.threads_of_team.resize(std::min(row.threads_of_team.size(), kMaxTeam));
      keep_costly(row.ranks, kMaxTeamRanks);
      for (OpenMpRegionRank& rank : row.ranks)
        rank.threads_of_team.resize(i < kMaxRankTeams ? std::min(rank.threads_of_team.size(), kMaxTeam) : 0);
    }
    shortener.cut("openmp.serial", a.openmp->serial, kMaxOpenMpRegions);
    shortener.none_above("openmp.ranks", a.openmp->ranks, kMaxRanks);
  }
  shortener.cut("tasks", a.tasks, kMaxLoops);
  keep_threads(a, shortener);
  shortener.cut("bottleneck", a.bottlenecks, kMaxBottlenecks);
  shortener.cut("critical_path", a.critical_path, kMaxRootCauses);
  if (a.io) {
    shortener.cut("io.files", a.io->files, kMaxFiles);
    shortener.cut("io.directories", a.io->directories, kMaxFiles);
    shortener.cut("io.patterns", a.io->patterns, kMaxFiles);
    std::vector<IoCallRow> rest = calls_by_line(a.io->calls, kMaxFileCalls);
    shortener.cut("io.calls", a.io->calls, kMaxFileCalls);
    std::move(rest.begin(), rest.end(), std::back_inserter(a.io->calls));
  }
  shortener.cut("imports", a.imports, kMaxImports);
  if (a.off_cpu) shortener.cut("off_cpu", *a.off_cpu, kMaxOffCpu);
  if (a.memory) keep_memory(*a.memory, shortener);
  keep_labels(a.labelled_memory, shortener);
  // The page has these in arrays.
  a.matrix.clear();
  a.node_matrix.clear();
  a.collective_matrix.clear();
  a.collective_node_matrix.clear();
  a.call_tree.clear();
  a.timeline.reset();
  // The page does not show these. Where a run hangs, each rank may have some.
  a.calls_under_way.clear();
  a.call_paths_under_way.clear();
  return shortener.list();
}

float or_nan(const Seconds& seconds) {
  return seconds ? static_cast<float>(*seconds) : std::numeric_limits<float>::quiet_NaN();
}

void add_tree(const PageData& page, Arrays& arrays, Strings& strings) {
  const auto strings_of = [&](const std::string& name, const auto& rows, auto member) {
    arrays.column<std::uint32_t>(name, rows, [&](const auto& row) { return strings.or_none(row.*member); });
  };
  const auto numbers_of = [&](const std::string& name, const auto& rows, auto member) {
    arrays.column<std::uint32_t>(name, rows, [&](const auto& row) { return row.*member; });
  };
  arrays.column<std::uint8_t>("frame_kind", page.frames, [](const PageFrame& frame) { return frame.kind; });
  arrays.column<std::uint8_t>("frame_inlined", page.frames,
                              [](const PageFrame& frame) { return frame.inlined; });
  strings_of("frame_name_string", page.frames, &PageFrame::name);
  strings_of("frame_file_string", page.frames, &PageFrame::file);
  strings_of("frame_module_string", page.frames, &PageFrame::module);
  numbers_of("frame_line", page.frames, &PageFrame::line);
  numbers_of("frame_function_line", page.frames, &PageFrame::function_line);
  numbers_of("frame_function", page.frames, &PageFrame::function);
  arrays.column<std::uint8_t>("frame_owner", page.frames, [](const PageFrame& frame) { return frame.owner; });
  arrays.column<std::uint8_t>("frame_machinery", page.frames,
                              [](const PageFrame& frame) { return frame.machinery; });
  strings_of("frame_library_name_string", page.frames, &PageFrame::library_name);
  strings_of("frame_package_string", page.frames, &PageFrame::package);

  strings_of("function_name_string", page.functions, &PageFunction::name);
  strings_of("function_file_string", page.functions, &PageFunction::file);
  strings_of("function_module_string", page.functions, &PageFunction::module);
  numbers_of("function_line", page.functions, &PageFunction::line);
  arrays.column<std::uint8_t>("function_kind", page.functions,
                              [](const PageFunction& function) { return function.kind; });
  numbers_of("function_row", page.functions, &PageFunction::row);

  numbers_of("path_parent", page.paths, &PagePath::parent);
  numbers_of("path_frame", page.paths, &PagePath::frame);
  numbers_of("path_line", page.paths, &PagePath::line);
  numbers_of("path_own_line", page.paths, &PagePath::own_line);
  arrays.column<std::uint8_t>("path_others", page.paths, [](const PagePath& path) { return path.others; });
  std::vector<float> self_s;
  self_s.reserve(page.paths.size() * shard::kCategories);
  for (const PagePath& path : page.paths)
    for (const double seconds : path.self_s) self_s.push_back(static_cast<float>(seconds));
  arrays.add("path_self_s", self_s);
  arrays.column<float>("path_helper_idle_s", page.paths,
                       [](const PagePath& path) { return path.helper_idle_s; });
  arrays.add_curves("path_time", page.path_time);
}

void add_ranks(const Analysis& analysis, const PageData& page, Arrays& arrays) {
  arrays.add("group_of_rank", page.group_of_rank);
  std::vector<std::uint32_t> offsets(page.groups + 1, 0);
  for (const PageCell& cell : page.cells) ++offsets[cell.group + 1];
  for (std::size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
  arrays.add("cell_offset", offsets);
  arrays.column<std::uint32_t>("cell_path", page.cells, [](const PageCell& cell) { return cell.path; });
  arrays.column<float>("cell_self_s", page.cells,
                       [](const PageCell& cell) { return rounded(cell.self_s, kCellBits); });
  arrays.column<float>("cell_helper_idle_s", page.cells,
                       [](const PageCell& cell) { return rounded(cell.helper_idle_s, kCellBits); });

  const std::vector<RankInfo>& ranks = analysis.ranks;
  arrays.column<std::int32_t>("rank_number", ranks, [](const RankInfo& rank) { return rank.rank; });
  arrays.column<std::uint32_t>("rank_node", ranks, [&](const RankInfo& rank) {
    return rank.node < analysis.nodes.size() ? rank.node : kNone;
  });
  arrays.column<float>("rank_elapsed_s", ranks, [](const RankInfo& rank) { return rank.elapsed_s; });
  arrays.column<float>("rank_recorded_s", ranks, [](const RankInfo& rank) { return rank.recorded_s; });
  arrays.column<float>("rank_useful_s", ranks, [](const RankInfo& rank) { return or_nan(rank.useful_s); });
  arrays.column<float>("rank_mpi_wait_s", ranks,
                       [](const RankInfo& rank) { return or_nan(rank.mpi_wait_s); });
  arrays.column<float>("rank_mpi_transfer_s", ranks,
                       [](const RankInfo& rank) { return or_nan(rank.mpi_transfer_s); });
  arrays.column<float>("rank_max_rss_bytes", ranks, [](const RankInfo& rank) {
    return rank.max_rss_bytes ? static_cast<float>(*rank.max_rss_bytes)
                              : std::numeric_limits<float>::quiet_NaN();
  });
  std::vector<float> category_s;
  for (const RankInfo& rank : ranks)
    for (const Seconds& seconds : rank.category_s) category_s.push_back(or_nan(seconds));
  arrays.add("rank_category_s", category_s);
  std::vector<float> off_cpu_s;
  for (const double seconds : page.rank_off_cpu_s)
    off_cpu_s.push_back(rounded(static_cast<float>(seconds), kCellBits));
  arrays.add("rank_off_cpu_s", off_cpu_s);
  arrays.column<std::uint8_t>("rank_lost", ranks, [](const RankInfo& rank) { return rank.lost; });
  arrays.column<std::int32_t>("rank_exit_status", ranks,
                              [](const RankInfo& rank) { return rank.exit_status.value_or(-1); });
  arrays.column<std::int32_t>("rank_exit_signal", ranks,
                              [](const RankInfo& rank) { return rank.exit_signal.value_or(-1); });

  arrays.add("row_of_rank", page.row_of_rank);
  arrays.column<std::int32_t>("row_first_rank", page.rows, [](const PageRow& row) { return row.first_rank; });
  arrays.column<std::int32_t>("row_last_rank", page.rows, [](const PageRow& row) { return row.last_rank; });
  arrays.column<std::uint32_t>("row_ranks", page.rows, [](const PageRow& row) { return row.ranks; });
  arrays.column<std::uint32_t>("row_node", page.rows, [](const PageRow& row) { return row.node; });
  arrays.add_curves("function_row_s", page.function_row_s);
}

// The kinds of waiting that occur.
std::vector<shard::WaitKind> wait_kinds(const Analysis& analysis) {
  std::vector<shard::WaitKind> kinds;
  for (const WaitRow& row : analysis.waits) kinds.push_back(row.kind);
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  return kinds;
}

// All of it, also where the table of waits is cut.
void add_waits(const Analysis& analysis, const std::vector<shard::WaitKind>& kinds, Arrays& arrays) {
  const std::vector<RankInfo>& ranks = analysis.ranks;
  std::vector<float> wait_s(ranks.size() * kinds.size(), 0);
  std::vector<std::uint32_t> counts(wait_s.size(), 0);
  for (const WaitRow& row : analysis.waits) {
    const auto rank = std::lower_bound(ranks.begin(), ranks.end(), row.rank,
                                       [](const RankInfo& info, std::int32_t n) { return info.rank < n; });
    if (rank == ranks.end() || rank->rank != row.rank) continue;
    const auto kind = std::lower_bound(kinds.begin(), kinds.end(), row.kind);
    const std::size_t at = static_cast<std::size_t>(rank - ranks.begin()) * kinds.size() +
                           static_cast<std::size_t>(kind - kinds.begin());
    wait_s[at] += static_cast<float>(row.wait_s);
    counts[at] += static_cast<std::uint32_t>(row.count);
  }
  arrays.add("rank_wait_kind_s", wait_s);
  arrays.add("rank_wait_kind_count", counts);
}

void add_memory(const Analysis& analysis, Arrays& arrays, Strings& strings) {
  if (!analysis.memory) return;
  std::map<std::int32_t, std::uint64_t> peaks;  // by rank
  for (const HeldRank& rank : analysis.memory->ranks) peaks[rank.rank] = rank.peak_bytes;
  arrays.column<float>("rank_held_peak_bytes", analysis.ranks, [&](const RankInfo& rank) {
    const auto peak = peaks.find(rank.rank);
    return peak != peaks.end() ? static_cast<float>(peak->second) : std::numeric_limits<float>::quiet_NaN();
  });
  const std::vector<MemoryTreeRow>& rows = analysis.memory->tree;
  const auto column = [&]<typename T>(T /*type*/, const char* name, auto member) {
    arrays.column<T>(name, rows, [&](const MemoryTreeRow& row) { return row.*member; });
  };
  const auto text = [&](const char* name, auto member) {
    arrays.column<std::uint32_t>(name, rows,
                                 [&](const MemoryTreeRow& row) { return strings.or_none(row.*member); });
  };
  column(std::uint32_t{}, "held_parent", &MemoryTreeRow::parent);
  column(std::uint8_t{}, "held_kind", &MemoryTreeRow::kind);
  column(std::uint8_t{}, "held_fold", &MemoryTreeRow::fold);
  text("held_name_string", &MemoryTreeRow::name);
  text("held_file_string", &MemoryTreeRow::file);
  text("held_module_string", &MemoryTreeRow::module);
  column(std::uint32_t{}, "held_line", &MemoryTreeRow::line);
  column(float{}, "held_node_peak_bytes", &MemoryTreeRow::node_peak_bytes);
  column(float{}, "held_rank_peak_bytes", &MemoryTreeRow::rank_peak_bytes);
  column(float{}, "held_live_bytes", &MemoryTreeRow::live_end_bytes);
  column(float{}, "held_alloc_bytes", &MemoryTreeRow::alloc_bytes);
}

void add_rest(const PageData& page, Arrays& arrays) {
  for (std::size_t i = 0; i < page.series.size(); ++i) {
    const PageSeries& series = page.series[i];
    arrays.add_curves("series_" + std::to_string(i), series.row_values);
  }
  for (std::size_t i = 0; i < page.node_series.size(); ++i)
    arrays.add_curves("node_series_" + std::to_string(i), page.node_series[i].row_values);

  const auto cell = [&](const std::string& name, const auto& matrix, auto zero, auto member) {
    arrays.column<decltype(zero)>(name, matrix, [&](const shard::MatrixCell& of) { return of.*member; });
  };
  cell("matrix_source", page.matrix, std::uint32_t{}, &shard::MatrixCell::source);
  cell("matrix_destination", page.matrix, std::uint32_t{}, &shard::MatrixCell::destination);
  cell("matrix_messages", page.matrix, double{}, &shard::MatrixCell::messages);
  cell("matrix_bytes", page.matrix, double{}, &shard::MatrixCell::bytes);
  cell("collective_source", page.collective_matrix, std::uint32_t{}, &shard::MatrixCell::source);
  cell("collective_destination", page.collective_matrix, std::uint32_t{}, &shard::MatrixCell::destination);
  cell("collective_bytes", page.collective_matrix, double{}, &shard::MatrixCell::bytes);

  arrays.column<std::uint32_t>("line_file", page.lines, [](const PageLine& line) { return line.file; });
  arrays.column<std::uint32_t>("line_row", page.lines, [](const PageLine& line) { return line.row; });
  std::vector<float> time_s;
  for (const PageLine& line : page.lines) time_s.insert(time_s.end(), line.time_s.begin(), line.time_s.end());
  arrays.add_curves("line_time", time_s);
}

// The fields of the header but for "report", from the first one to the end of the object.
std::string header_fields(const PageData& page, const std::vector<shard::WaitKind>& waits,
                          const Arrays& arrays, const Strings& strings,
                          const std::vector<Shortened>& shortened) {
  std::string text;
  const JsonSink sink = [&](std::string_view piece) { text += piece; };
  JsonWriter out(sink);
  const auto axis = [&](const char* name, double bin_s, double begin_s, std::size_t bins) {
    out.object(name, [&] { out("bin_s", bin_s)("begin_s", begin_s)("bins", bins); });
  };
  const auto series = [&](const char* name, const std::vector<PageSeries>& list) {
    out.rows(name, list, [&](const PageSeries& row) { out("name", row.name)("maximum", row.maximum); });
  };
  out.object([&] {
    out("schema", "clusterprof.page/1")("strings", strings.all());
    out.object("arrays", [&] {
      for (const Arrays::Entry& entry : arrays.entries())
        out.object(entry.name,
                   [&] { out("type", entry.type)("offset", entry.offset)("length", entry.length); });
    });
    out.object("shortened", [&] {
      for (const Shortened& table : shortened)
        out.object(table.table, [&] { out("kept", table.kept)("of", table.of); });
    });
    out("categories", std::vector<std::string>(shard::kCategoryNames.begin(), shard::kCategoryNames.end()));
    std::vector<std::string> off_cpu_kinds;
    for (const OffCpu kind : page.off_cpu_kinds)
      off_cpu_kinds.emplace_back(kOffCpuNames[static_cast<std::size_t>(kind)]);
    out("off_cpu_kinds", off_cpu_kinds);
    std::vector<std::string> wait_names;
    for (const shard::WaitKind kind : waits)
      wait_names.emplace_back(shard::kWaitKindNames[static_cast<std::size_t>(kind)]);
    out("wait_kinds", wait_names);
    out("paths", page.paths.size())("groups", page.groups)("rows", page.rows.size());
    out("row_functions", page.row_functions);
    axis("time", page.time_bin_s, page.time_begin_s, page.time_bins);
    axis("axis", page.bin_s, page.begin_s, page.bins);
    series("series", page.series);
    series("node_series", page.node_series);
    out.object("matrix", [&] { out("bin_ranks", page.matrix_bin_ranks); });
    out.rows("sources", page.sources, [&](const PageSourceFile& source) {
      out("file", source.file)("text", source.text);
      out("why_not", source.text ? std::optional<std::string>() : std::optional(source.why_not));
    });
  });
  out.finish();
  return text.substr(text.find('{') + 1);
}

// FORMAT.md.
std::string plain_data(Analysis analysis, const PageData& page, const PageOptions& options) {
  Arrays arrays;
  Strings strings;
  add_tree(page, arrays, strings);
  add_ranks(analysis, page, arrays);
  const std::vector<shard::WaitKind> waits = wait_kinds(analysis);
  add_waits(analysis, waits, arrays);
  add_memory(analysis, arrays, strings);
  add_rest(page, arrays);
  std::vector<Shortened> shortened = shorten_tables(analysis, options);
  if (page.series.size() < page.all_series)
    shortened.push_back({"series", page.series.size(), page.all_series});
  if (page.node_series.size() < page.all_node_series)
    shortened.push_back({"node_series", page.node_series.size(), page.all_node_series});

  std::string data(kMagic);
  data.append(sizeof(std::uint32_t), '\0');
  const std::size_t header = data.size();
  data += "{\"report\":";
  render_json(analysis, [&](std::string_view piece) { data += piece; });
  data += ',';
  data += header_fields(page, waits, arrays, strings, shortened);
  const auto header_bytes = static_cast<std::uint32_t>(data.size() - header);
  std::memcpy(data.data() + kMagic.size(), &header_bytes, sizeof header_bytes);
  data.resize((data.size() + kAlignment - 1) / kAlignment * kAlignment);
  data += arrays.bytes();
  return data;
}

Result<std::string> gzipped(const std::string& plain) {
  struct Free {
    void operator()(libdeflate_compressor* compressor) const { libdeflate_free_compressor(compressor); }
  };
  const std::unique_ptr<libdeflate_compressor, Free> compressor(libdeflate_alloc_compressor(kCompression));
  if (!compressor) return Error{"out of memory"};
  std::string bytes(libdeflate_gzip_compress_bound(compressor.get(), plain.size()), '\0');
  const std::size_t size =
      libdeflate_gzip_compress(compressor.get(), plain.data(), plain.size(), bytes.data(), bytes.size());
  if (size == 0) return Error{"the page's data cannot be compressed"};
  bytes.resize(size);
  return bytes;
}

std::string title_of(const RunInfo& run) {
  const std::string command = format::shorten(format::command_line(run), 60);
  return (command.empty() ? format::printable(run.id) : command) + ", " + format::ranks_and_nodes(run) +
         " - clusterprof";
}

}  // namespace

Result<std::string> render_html(Analysis analysis, const PageData& page, const PageOptions& options) {
  const std::string title = escaped_html(title_of(analysis.run));
  std::string data;
  {
    const Result<std::string> compressed = gzipped(plain_data(std::move(analysis), page, options));
    if (!compressed) return compressed.error();
    data = base64(compressed.value());
  }
  const std::string script_hash = base64(from_hex(kPageScriptSha256)),
                    style_hash = base64(from_hex(kPageStyleSha256));
  const std::array<std::pair<std::string_view, std::string_view>, 7> values{{{"@TITLE@", title},
                                                                             {"@VERSION@", kVersion},
                                                                             {"@STYLE@", kPageStyle},
                                                                             {"@SCRIPT@", kPageScript},
                                                                             {"@STYLE_SHA256@", style_hash},
                                                                             {"@SCRIPT_SHA256@", script_hash},
                                                                             {"@DATA@", data}}};
  std::string html;
  html.reserve(kPageTemplate.size() + kPageScript.size() + kPageStyle.size() + data.size() + title.size() +
               256);
  std::string_view rest = kPageTemplate;
  while (!rest.empty()) {
    const std::size_t at = std::min(rest.find('@'), rest.size());
    html += rest.substr(0, at);
    rest.remove_prefix(at);
    const auto value = std::find_if(values.begin(), values.end(),
                                    [&](const auto& named) { return rest.starts_with(named.first); });
    if (value != values.end()) {
      html += value->second;
      rest.remove_prefix(value->first.size());
    } else if (!rest.empty()) {
      html += rest.front();
      rest.remove_prefix(1);
    }
  }
  return html;
}

}  // namespace clusterprof::report
