// SPDX-License-Identifier: BSD-3-Clause
// Reads and writes the tables that shards and profiles share. One visit_...() function per table lists its
// columns and serves both directions.
#include "formats/shard/tables.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <concepts>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <optional>
#include <system_error>
#include <tuple>
#include <type_traits>

#include "base/unique_fd.hpp"
#include "base/version.hpp"

namespace clusterprof::shard {
namespace {

// --- how a field is stored -----------------------------------------------------------------

template <typename T>
struct StoredAs {
  using type = T;
};
template <>
struct StoredAs<bool> {
  using type = std::uint8_t;
};
template <typename T>
requires std::is_enum_v<T>
struct StoredAs<T> {
  using type = std::underlying_type_t<T>;
};

template <typename Row, typename Field>
using FieldType = std::remove_cvref_t<std::invoke_result_t<Field, Row&>>;

// The order of the tables that can be read by rank.
template <typename Row>
requires requires(const Row& row) { row.rank, row.path; }
std::uint64_t place_by_rank(const Row& row) { return std::uint64_t{row.rank} << 32 | row.path; }
auto place_by_rank(const RankSeries& row) {
  return std::pair(std::uint64_t{row.rank} << 32 | row.series, row.bin);
}
std::uint64_t place_by_rank(const CallUnderWay& row) {
  return std::uint64_t{row.rank} << 32 | static_cast<std::uint32_t>(row.tid);
}
std::uint64_t place_by_rank(const PendingRequest& row) {
  return std::uint64_t{row.rank} << 32 | static_cast<std::uint32_t>(row.tid);
}

template <typename Row>
bool before_by_rank(const Row& a, const Row& b) {
  return place_by_rank(a) < place_by_rank(b);
}

// --- writing -------------------------------------------------------------------------------

template <typename Row>
class TableWriter {
 public:
  TableWriter(h5::Group group, std::span<const Row> rows) : group_(std::move(group)), rows_(rows) {}

  template <typename Field>
  void column(const char* name, Field field) {
    using Stored = typename StoredAs<FieldType<const Row, Field>>::type;
    std::vector<Stored> column(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i)
      column[i] = static_cast<Stored>(std::invoke(field, rows_[i]));
    group_.write_column<Stored>(name, column);
  }
  template <typename Field>
  void strings(const char* name, Field field) {
    std::vector<std::string> column;
    column.reserve(rows_.size());
    for (const Row& row : rows_) column.push_back(std::invoke(field, row));
    group_.write_strings(name, column);
  }
  // Values that files have by their names.
  template <typename Field, typename NameOf, typename ByName>
  void named(const char* name, Field field, NameOf name_of, ByName) {
    strings(name, [&](const Row& row) { return std::string(name_of(std::invoke(field, row))); });
  }
  void rank_offsets(std::size_t ranks) {
    std::vector<std::uint64_t> offsets(ranks + 1);
    for (const Row& row : rows_) ++offsets[row.rank + 1];
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    group_.write_column<std::uint64_t>("rank_offsets", offsets);
  }

 private:
  h5::Group group_;
  std::span<const Row> rows_;
};

class Writer {
 public:
  Writer(h5::Group& root, bool profile) : root_(root), profile_(profile) {}
  [[nodiscard]] bool is_profile() const { return profile_; }

  template <typename Row, typename Columns>
  void table(const char* name, const std::vector<Row>& rows, Columns columns) {
    TableWriter<Row> writer(root_.create_group(name), rows);
    columns(writer);
  }
  template <typename Row, typename Columns>
  void ranked_table(const char* name, const std::vector<Row>& rows, std::size_t ranks, Columns columns) {
    std::vector<Row> sorted;
    const bool is_sorted = std::is_sorted(rows.begin(), rows.end(), before_by_rank<Row>);
    if (!is_sorted) {
      sorted = rows;
      std::stable_sort(sorted.begin(), sorted.end(), before_by_rank<Row>);
    }
    TableWriter<Row> writer(root_.create_group(name), is_sorted ? rows : sorted);
    writer.rank_offsets(ranks);
    columns(writer);
  }
  void list(const char* table, const char* column, const std::vector<std::string>& rows) {
    root_.create_group(table).write_strings(column, rows);
  }
  void run(const Run& run) {
    h5::Group group = root_.create_group("run");
    group.write_attribute("id", run.id);
    group.write_attribute("start_utc_ns", run.start_utc_ns);
    group.write_attribute("world_size", run.world_size);
    group.write_attribute("rate_hz", run.rate_hz);
    group.write_attribute("clock", run.clock);
    group.write_attribute("version", run.version);
    group.write_attribute("mpi_library", run.mpi_library);
    group.write_attribute("complete", static_cast<std::uint8_t>(run.complete));
    group.write_attribute("sample_on", run.sample_on);
    group.write_attribute("only_regions", static_cast<std::uint8_t>(run.only_regions));
    group.write_attribute("counters_multiplexed", static_cast<std::uint8_t>(run.counters_multiplexed));
    group.write_strings("command", run.command);
    group.write_strings("own", run.own);
  }
  template <typename Fields>
  void attributes(const char* name, Fields fields) {
    h5::Group group = root_.create_group(name);
    fields([&](const char* attribute, const auto& value) {
      if constexpr (sizeof value == sizeof(std::uint64_t))
        group.write_attribute(attribute, static_cast<std::int64_t>(value));
      else
        group.write_attribute(
            attribute, static_cast<typename StoredAs<std::remove_cvref_t<decltype(value)>>::type>(value));
    });
  }

 private:
  h5::Group& root_;
  bool profile_;
};

// --- reading -------------------------------------------------------------------------------

template <typename Row>
class TableReader {
 public:
  TableReader(h5::Group group, std::vector<Row>& rows) : group_(std::move(group)), rows_(rows) {}

  // Columns are read in finish(), a piece of all of them at a time: while rows are in the cache.
  template <typename Field>
  void column(const char* name, Field field) {
    using Value = FieldType<Row, Field>;
    using Stored = typename StoredAs<Value>::type;
    h5::ColumnStream column = group_.open_column<Stored>(name);
    set_count(name, column.rows());
    columns_.push_back([this, name = std::string(name), field,
                        column = std::make_shared<h5::ColumnStream>(std::move(column))](std::span<Row> rows) {
      const std::span<Stored> stored(reinterpret_cast<Stored*>(piece_.data()), rows.size());
      column->next(stored);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if constexpr (std::same_as<Value, bool>) {
          if (stored[i] > 1)
            throw h5::H5Error("column " + group_.name() + "/" + name + " is neither 0 nor 1");
        }
        std::invoke(field, rows[i]) = static_cast<Value>(stored[i]);
      }
    });
  }
  template <typename Field>
  void strings(const char* name, Field field) {
    std::vector<std::string> column = group_.read_strings(name);
    set_count(name, column.size());
    columns_.push_back(
        [field, column = std::move(column), done = std::size_t{0}](std::span<Row> rows) mutable {
          for (Row& row : rows) std::invoke(field, row) = std::move(column[done++]);
        });
  }
  template <typename Field, typename NameOf, typename ByName>
  void named(const char* name, Field field, NameOf, ByName by_name) {
    std::vector<std::string> column = group_.read_strings(name);
    set_count(name, column.size());
    columns_.push_back([this, name = std::string(name), field, by_name, column = std::move(column),
                        done = std::size_t{0}](std::span<Row> rows) mutable {
      for (Row& row : rows) {
        const auto value = by_name(column[done++]);
        if (!value) throw h5::H5Error("column " + group_.name() + "/" + name + " has an unknown name");
        std::invoke(field, row) = *value;
      }
    });
  }
  void rank_offsets(std::size_t ranks) {
    offsets_ = group_.read_column<std::uint64_t>("rank_offsets");
    if (offsets_.size() != ranks + 1 || offsets_.front() != 0 ||
        !std::is_sorted(offsets_.begin(), offsets_.end()))
      throw h5::H5Error("column " + group_.name() + "/rank_offsets does not fit the ranks");
  }
  void finish() {
    if (!offsets_.empty() && offsets_.back() != count_)
      throw h5::H5Error("column " + group_.name() + "/rank_offsets does not fit the rows");
    rows_.clear();
    // Rows are larger in memory than in a column; the column's own size is checked already.
    rows_.reserve(count_);
    piece_.resize(std::min<std::uint64_t>(count_, h5::kChunkRows) * sizeof(std::uint64_t));
    std::size_t rank = 0;
    do {  // also of no rows, or their checksum would not be looked at
      const std::size_t begin = rows_.size();
      rows_.resize(std::min<std::size_t>(begin + h5::kChunkRows, count_));
      const std::span<Row> rows = std::span(rows_).subspan(begin);
      for (const auto& column : columns_) column(rows);
      if constexpr (requires(const Row& row) { place_by_rank(row); })
        if (!offsets_.empty()) set_ranks(begin, rank);
    } while (rows_.size() < count_);
  }

 private:
  void set_count(const char* name, std::uint64_t count) {
    if (sized_ && count != count_)
      throw h5::H5Error("column " + group_.name() + "/" + name + " is not as long as the others");
    count_ = count;
    sized_ = true;
  }
  // Of the rows from `begin` on; `rank` is that of the row before.
  void set_ranks(std::size_t begin, std::size_t& rank) {
    for (std::size_t i = begin; i < rows_.size(); ++i) {
      while (i >= offsets_[rank + 1]) ++rank;
      rows_[i].rank = static_cast<std::uint32_t>(rank);
      if (i != 0 && before_by_rank(rows_[i], rows_[i - 1]))
        throw h5::H5Error("table " + group_.name() + " is not in order");
    }
  }

  h5::Group group_;
  std::vector<Row>& rows_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::function<void(std::span<Row>)>> columns_;
  std::vector<std::byte> piece_;  // of a column
  std::uint64_t count_ = 0;
  bool sized_ = false;
};

class Reader {
 public:
  explicit Reader(const h5::Group& root) : root_(root) {}
  [[nodiscard]] bool is_profile() const {
    return root_.has_attribute("format") && root_.read_string("format") == kProfileFormat;
  }

  template <typename Row, typename Columns>
  void table(const char* name, std::vector<Row>& rows, Columns columns) {
    TableReader<Row> reader(root_.open_group(name), rows);
    columns(reader);
    reader.finish();
  }
  template <typename Row, typename Columns>
  void ranked_table(const char* name, std::vector<Row>& rows, std::size_t ranks, Columns columns) {
    TableReader<Row> reader(root_.open_group(name), rows);
    reader.rank_offsets(ranks);
    columns(reader);
    reader.finish();
  }
  void list(const char* table, const char* column, std::vector<std::string>& rows) {
    rows = root_.open_group(table).read_strings(column);
  }
  void run(Run& run) {
    const h5::Group group = root_.open_group("run");
    run.id = group.read_string("id");
    run.start_utc_ns = group.read_integer("start_utc_ns", std::numeric_limits<std::int64_t>::min(),
                                          std::numeric_limits<std::int64_t>::max());
    constexpr std::int64_t kMax = std::numeric_limits<std::uint32_t>::max();
    run.world_size = static_cast<std::uint32_t>(group.read_integer("world_size", 0, kMaxWorldSize));
    run.rate_hz = static_cast<std::uint32_t>(group.read_integer("rate_hz", 0, kMax));
    run.clock = group.read_string("clock");
    run.version = group.read_string("version");
    run.mpi_library = group.read_string("mpi_library");
    run.complete = group.read_integer("complete", 0, 1) != 0;
    run.sample_on = group.read_string("sample_on");
    run.only_regions = group.read_integer("only_regions", 0, 1) != 0;
    run.counters_multiplexed = group.read_integer("counters_multiplexed", 0, 1) != 0;
    run.command = group.read_strings("command");
    run.own = group.read_strings("own");
  }
  template <typename Fields>
  void attributes(const char* name, Fields fields) {
    const h5::Group group = root_.open_group(name);
    fields([&](const char* attribute, auto& value) {
      using Value = std::remove_cvref_t<decltype(value)>;
      constexpr std::int64_t kMost = sizeof value == sizeof(std::uint64_t)
                                         ? std::numeric_limits<std::int64_t>::max()
                                         : static_cast<std::int64_t>(std::numeric_limits<Value>::max());
      value = static_cast<Value>(group.read_integer(attribute, 0, kMost));
    });
  }

 private:
  const h5::Group& root_;
};

// --- the tables, for both directions -------------------------------------------------------

template <typename Archive, typename Data>
void visit_summary(Archive& archive, Data& data) {
  archive.run(data.run);
  archive.table("notes", data.run.notes, [](auto& table) {
    table.named("code", &Note::code, name_of, note_code);
    table.strings("node", &Note::node);
    table.column("first_rank", &Note::first_rank);
    table.column("last_rank", &Note::last_rank);
    table.column("number", &Note::number);
    table.strings("text", &Note::text);
    table.strings("detail", &Note::detail);
  });
  archive.table("nodes", data.nodes, [](auto& table) {
    table.strings("name", &Node::name);
    table.column("start_utc_ns", &Node::start_utc_ns);
    table.column("elapsed_ns", &Node::elapsed_ns);
    table.column("cpu_ns", &Node::cpu_ns);
    table.column("collector_cpu_ns", &Node::collector_cpu_ns);
    table.column("collector_max_rss_bytes", &Node::collector_max_rss_bytes);
    table.column("cpus", &Node::cpus);
    table.column("numa_nodes", &Node::numa_nodes);
    table.column("memory_bytes", &Node::memory_bytes);
    table.column("cache_bytes", &Node::cache_bytes);
    table.strings("cpu_model", &Node::cpu_model);
  });
  archive.table("ranks", data.ranks, [&archive](auto& table) {
    table.column("rank", &Rank::rank);
    table.column("node", &Rank::node);
    table.column("pid", &Rank::pid);
    table.column("flags", &Rank::flags);
    table.column("start_utc_ns", &Rank::start_utc_ns);
    table.column("elapsed_ns", &Rank::elapsed_ns);
    table.column("cpu_ns", &Rank::cpu_ns);
    table.column("user_ns", &Rank::user_ns);
    table.column("system_ns", &Rank::system_ns);
    table.column("samples", &Rank::samples);
    table.column("threads", &Rank::threads);
    table.column("processes", &Rank::processes);
    for (std::size_t i = 0; i < kCategories; ++i) {
      const std::string name = std::string("main_thread_") + kCategoryNames[i] + "_ns";
      table.column(
          name.c_str(), [i](auto& row) -> auto& { return row.main_thread_ns[i]; });
    }
    if (archive.is_profile())
      for (std::size_t i = 0; i < kCategories; ++i) {
        const std::string name = std::string("raw_main_thread_") + kCategoryNames[i] + "_ns";
        table.column(
            name.c_str(), [i](auto& row) -> auto& { return row.raw_main_thread_ns[i]; });
      }
    table.column("mpi_ns", &Rank::mpi_ns);
    table.column("mpi_wait_ns", &Rank::mpi_wait_ns);
    table.column("mpi_runnable_ns", &Rank::mpi_runnable_ns);
    table.column("unsampled_threads", &Rank::unsampled_threads);
    table.column("unsampled_cpu_ns", &Rank::unsampled_cpu_ns);
    table.column("mpi_init_end_ns", &Rank::mpi_init_end_ns);
    table.column("mpi_finalize_begin_ns", &Rank::mpi_finalize_begin_ns);
    table.column("mpi_helper_threads", &Rank::mpi_helper_threads);
    table.column("mpi_helper_elapsed_ns", &Rank::mpi_helper_elapsed_ns);
    table.column("mpi_helper_ns", &Rank::mpi_helper_ns);
    table.column("max_rss_bytes", &Rank::max_rss_bytes);
    table.column("read_bytes", &Rank::read_bytes);
    table.column("write_bytes", &Rank::write_bytes);
    table.column("minor_faults", &Rank::minor_faults);
    table.column("major_faults", &Rank::major_faults);
    table.column("voluntary_switches", &Rank::voluntary_switches);
    table.column("involuntary_switches", &Rank::involuntary_switches);
    table.column("exit_status", &Rank::exit_status);
    table.column("exit_signal", &Rank::exit_signal);
    table.column("handler_ns", &Rank::handler_ns);
    table.column("truncated", &Rank::truncated);
    table.column("merges_tried", &Rank::merges_tried);
    table.column("merges_failed", &Rank::merges_failed);
    table.column("python_version", &Rank::python_version);
    table.column("running_samples", &Rank::running_samples);
    table.column("running_ns", &Rank::running_ns);
    table.column("event_level", &Rank::event_level);
    table.column("mpi_operations", &Rank::mpi_operations);
    table.column("paused_ns", &Rank::paused_ns);
    table.column("affinity", &Rank::affinity);
    table.column("numa_nodes", &Rank::numa_nodes);
    table.column("last_call_path", &Rank::last_call_path);
  });
  archive.table("drops", data.drops, [](auto& table) {
    table.column("rank", &Drop::rank);
    table.strings("reason", &Drop::reason);
    table.column("count", &Drop::count);
  });
  archive.table("handler_costs", data.handler_costs, [](auto& table) {
    table.column("rank", &HandlerCost::rank);
    table.column("le_ns", &HandlerCost::le_ns);
    table.column("count", &HandlerCost::count);
  });
}

template <typename Archive, typename Data>
void visit_events(Archive& archive, Data& data) {
  archive.table("mpi_events", data.mpi_events, [](auto& table) {
    table.column("rank", &MpiEvent::rank);
    table.column("thread", &MpiEvent::thread);
    table.column("path", &MpiEvent::path);
    table.column("communicator", &MpiEvent::communicator);
    table.column("op", &MpiEvent::op);
    table.column("kind", &MpiEvent::kind);
    table.column("flags", &MpiEvent::flags);
    table.column("peer", &MpiEvent::peer);
    table.column("tag", &MpiEvent::tag);
    table.column("sequence", &MpiEvent::sequence);
    table.column("enter_ns", &MpiEvent::enter_ns);
    table.column("exit_ns", &MpiEvent::exit_ns);
    table.column("start_ns", &MpiEvent::start_ns);
    table.column("mpi_ns", &MpiEvent::mpi_ns);
    table.column("bytes", &MpiEvent::bytes);
  });
  archive.table("event_gaps", data.event_gaps, [](auto& table) {
    table.column("event", &EventGap::event);
    table.column("path", &EventGap::path);
    table.column("wall_ns", &EventGap::wall_ns);
  });
}

template <typename Archive, typename Data>
void visit_clocks(Archive& archive, Data& data) {
  archive.table("clock_offsets", data.clock_offsets, [](auto& table) {
    table.column("rank", &ClockOffset::rank);
    table.column("reference_rank", &ClockOffset::reference_rank);
    table.column("local_ns", &ClockOffset::local_ns);
    table.column("offset_ns", &ClockOffset::offset_ns);
    table.column("error_ns", &ClockOffset::error_ns);
  });
}

template <typename Archive, typename Data>
void visit_waiting(Archive& archive, Data& data) {
  archive.attributes("wait_analysis", [&](auto field) {
    auto& analysis = data.wait_analysis;
    field("done", analysis.done);
    field("ideal_ns", analysis.ideal_ns);
    field("event_level", analysis.event_level);
    field("operations", analysis.operations);
    field("events", analysis.events);
    field("messages", analysis.messages);
    field("unmatched_messages", analysis.unmatched_messages);
    field("collectives", analysis.collectives);
    field("unmatched_collectives", analysis.unmatched_collectives);
    field("clock_error_ns", analysis.clock_error_ns);
    field("clock_violations", analysis.clock_violations);
    field("worst_violation_ns", analysis.worst_violation_ns);
  });
  archive.table("wait_states", data.wait_states, [](auto& table) {
    table.column("rank", &WaitState::rank);
    table.column("path", &WaitState::path);
    table.column("kind", &WaitState::kind);
    table.column("cause_rank", &WaitState::cause_rank);
    table.column("cause_path", &WaitState::cause_path);
    table.column("wait_ns", &WaitState::wait_ns);
    table.column("count", &WaitState::count);
  });
  archive.table("root_causes", data.root_causes, [](auto& table) {
    table.column("rank", &RootCause::rank);
    table.column("path", &RootCause::path);
    table.column("wait_ns", &RootCause::wait_ns);
    table.column("waiting_ranks", &RootCause::waiting_ranks);
  });
  archive.table("critical_times", data.critical_times, [](auto& table) {
    table.column("rank", &CriticalTime::rank);
    table.column("path", &CriticalTime::path);
    table.column("wall_ns", &CriticalTime::wall_ns);
  });
  archive.table("time_windows", data.time_windows, [](auto& table) {
    table.column("begin_ns", &TimeWindow::begin_ns);
    table.column("end_ns", &TimeWindow::end_ns);
    table.column("useful_mean_ns", &TimeWindow::useful_mean_ns);
    table.column("useful_max_ns", &TimeWindow::useful_max_ns);
    table.column("wait_ns", &TimeWindow::wait_ns);
    table.column("startup_ns", &TimeWindow::startup_ns);
  });
}

template <typename Archive, typename Data>
void visit_series(Archive& archive, Data& data) {
  archive.attributes("time_axis", [&](auto field) {
    field("bin_ns", data.time_axis.bin_ns);
    field("origin_utc_ns", data.time_axis.origin_utc_ns);
  });
  archive.table("series", data.series, [](auto& table) {
    table.column("name", &Series::name);
    table.column("kind", &Series::kind);
  });
  archive.ranked_table("rank_series", data.rank_series, data.ranks.size(), [](auto& table) {
    table.column("series", &RankSeries::series);
    table.column("bin", &RankSeries::bin);
    table.column("value", &RankSeries::value);
  });
  archive.table("node_series", data.node_series, [](auto& table) {
    table.column("node", &NodeSeries::node);
    table.column("series", &NodeSeries::series);
    table.column("bin", &NodeSeries::bin);
    table.column("value", &NodeSeries::value);
  });
  archive.attributes("path_axis", [&](auto field) {
    field("bin_ns", data.path_axis.bin_ns);
    field("origin_utc_ns", data.path_axis.origin_utc_ns);
  });
  archive.table("path_series", data.path_series, [&](auto& table) {
    table.column("path", &PathSeries::path);
    table.column("bin", &PathSeries::bin);
    table.column("wall_ns", &PathSeries::wall_ns);
    if (archive.is_profile()) table.column("raw_wall_ns", &PathSeries::raw_wall_ns);
  });
}

template <typename Archive, typename Data>
void visit_files_and_regions(Archive& archive, Data& data) {
  archive.table("io_files", data.io_files, [](auto& table) {
    table.strings("path", &IoFile::path);
    table.strings("file_system", &IoFile::file_system);
  });
  archive.ranked_table("io_calls", data.io_calls, data.ranks.size(), [](auto& table) {
    table.column("path", &IoCall::path);
    table.column("file", &IoCall::file);
    table.column("operation", &IoCall::operation);
    table.column("count", &IoCall::count);
    table.column("failed", &IoCall::failed);
    table.column("bytes", &IoCall::bytes);
    table.column("time_ns", &IoCall::time_ns);
    table.column("max_ns", &IoCall::max_ns);
  });
  archive.ranked_table("region_times", data.region_times, data.ranks.size(), [](auto& table) {
    table.column("path", &RegionTime::path);
    table.column("count", &RegionTime::count);
    table.column("time_ns", &RegionTime::time_ns);
    table.column("min_ns", &RegionTime::min_ns);
    table.column("max_ns", &RegionTime::max_ns);
    table.column("max_n", &RegionTime::max_n);
  });
}

// ranks: rows of table ranks.
template <typename Archive, typename Data>
void visit_matrix(Archive& archive, Data& data, std::size_t ranks) {
  archive.ranked_table("values", data.values, ranks, [](auto& table) {
    table.column("path", &Value::path);
    table.column("category", &Value::category);
    table.column("main_thread", &Value::main_thread);
    table.column("wall_ns", &Value::wall_ns);
    table.column("cpu_ns", &Value::cpu_ns);
    table.column("samples", &Value::samples);
  });
  archive.ranked_table("path_counters", data.path_counters, ranks, [](auto& table) {
    table.column("path", &PathCounter::path);
    table.column("counter", &PathCounter::counter);
    table.column("value", &PathCounter::value);
  });
  archive.ranked_table("data_accesses", data.data_accesses, ranks, [](auto& table) {
    table.column("path", &DataAccess::path);
    table.column("samples", &DataAccess::samples);
    table.column("accesses", &DataAccess::accesses);
    for (std::size_t i = 0; i < std::tuple_size_v<decltype(DataAccess::blocks)>; ++i) {
      const std::string name = "blocks_" + std::to_string(i);
      table.column(
          name.c_str(), [i](auto& row) -> auto& { return row.blocks[i]; });
    }
  });
}

template <typename Archive, typename Data>
void visit_tables(Archive& archive, Data& data, Tables which) {
  visit_summary(archive, data);
  if (which == Tables::kSummary) return;
  archive.list("strings", "text", data.strings);
  archive.table("frames", data.frames, [](auto& table) {
    table.column("kind", &Frame::kind);
    table.column("inlined", &Frame::inlined);
    table.column("name", &Frame::name);
    table.column("file", &Frame::file);
    table.column("module", &Frame::module);
    table.column("line", &Frame::line);
    table.column("function_line", &Frame::function_line);
  });
  archive.table("paths", data.paths, [](auto& table) {
    table.column(
        "id_high", [](auto& row) -> auto& { return row.id.high; });
    table.column(
        "id_low", [](auto& row) -> auto& { return row.id.low; });
    table.column("parent", &Path::parent);
    table.column("frame", &Path::frame);
  });
  const auto visit_counters = [&] { archive.list("counters", "name", data.counters); };
  const auto visit_communication = [&] {
    archive.table("matrix", data.matrix, [](auto& table) {
      table.column("source", &MatrixCell::source);
      table.column("destination", &MatrixCell::destination);
      table.column("messages", &MatrixCell::messages);
      table.column("bytes", &MatrixCell::bytes);
    });
  };
  if (which == Tables::kPaths) {
    visit_counters();
    visit_communication();
    return;
  }
  archive.ranked_table("mpi_calls", data.mpi_calls, data.ranks.size(), [](auto& table) {
    table.column("path", &MpiCall::path);
    table.column("communicator", &MpiCall::communicator);
    table.column("count", &MpiCall::count);
    table.column("time_ns", &MpiCall::time_ns);
    table.column("min_ns", &MpiCall::min_ns);
    table.column("max_ns", &MpiCall::max_ns);
    table.column("sent_bytes", &MpiCall::sent_bytes);
    table.column("recv_bytes", &MpiCall::recv_bytes);
    table.column("main_thread", &MpiCall::main_thread);
    table.column("unfinished", &MpiCall::unfinished);
  });
  archive.ranked_table("calls_under_way", data.calls_under_way, data.ranks.size(), [](auto& table) {
    table.column("tid", &CallUnderWay::tid);
    table.column("main_thread", &CallUnderWay::main_thread);
    table.column("path", &CallUnderWay::path);
    table.column("communicator", &CallUnderWay::communicator);
    table.column("sequence", &CallUnderWay::sequence);
    table.column("peer", &CallUnderWay::peer);
    table.column("tag", &CallUnderWay::tag);
    table.column("root", &CallUnderWay::root);
    table.column("enter_ns", &CallUnderWay::enter_ns);
    table.column("lasted_ns", &CallUnderWay::lasted_ns);
    table.column("requests", &CallUnderWay::requests);
  });
  archive.ranked_table("pending_requests", data.pending_requests, data.ranks.size(), [](auto& table) {
    table.column("tid", &PendingRequest::tid);
    table.column("enter_ns", &PendingRequest::enter_ns);
    table.column("kind", &PendingRequest::kind);
    table.column("peer", &PendingRequest::peer);
  });
  archive.table("communicators", data.communicators, [](auto& table) {
    table.column("identity", &Communicator::identity);
    table.column("size", &Communicator::size);
    table.strings("name", &Communicator::name);
  });
  visit_communication();
  archive.table("mpi_sizes", data.mpi_sizes, [](auto& table) {
    table.column("op", &MpiSize::op);
    table.column("le_bytes", &MpiSize::le_bytes);
    table.column("count", &MpiSize::count);
  });
  visit_counters();
  archive.table("counter_values", data.counter_values, [](auto& table) {
    table.column("rank", &CounterValue::rank);
    table.column("counter", &CounterValue::counter);
    table.column("value", &CounterValue::value);
  });
  archive.table("unavailable_counters", data.unavailable_counters, [](auto& table) {
    table.strings("name", &UnavailableCounter::name);
    table.strings("reason", &UnavailableCounter::reason);
  });
  visit_series(archive, data);
  visit_files_and_regions(archive, data);
  visit_clocks(archive, data);
  visit_waiting(archive, data);
  if (which != Tables::kHead) visit_events(archive, data);
  if (which == Tables::kAll) visit_matrix(archive, data, data.ranks.size());
}

// --- files ---------------------------------------------------------------------------------

Error error_of(const std::filesystem::path& path, const std::string& what) {
  return Error{path.string() + ": " + what};
}

std::string system_reason() { return std::strerror(errno); }

// The process id alone is not enough on a file system that several machines share.
std::string temporary_name(const std::filesystem::path& path) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof random))
    random = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  std::string name(1, '.');
  name += path.filename().string();
  name += '.';
  name += std::to_string(::getpid());
  name += '.';
  name += std::to_string(random);
  name += ".tmp";
  return name;
}

// Removes the temporary file unless it got its final name.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path) : path_(std::move(path)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::filesystem::path& path() const { return path_; }
  void release() { path_.clear(); }

 private:
  std::filesystem::path path_;
};

void check_format(const h5::Group& root, const char* format) {
  const bool ours = root.has_attribute("format") && root.has_attribute("format_major");
  if (!ours) throw h5::H5Error("is not a clusterprof file");
  const std::string found = root.read_string("format");
  if (found != format) {
    if (found == kShardFormat) throw h5::H5Error("is a shard, not a profile");
    if (found == kProfileFormat) throw h5::H5Error("is a profile, not a shard");
    throw h5::H5Error("is not a clusterprof file");
  }
  const bool profile = std::string_view(format) == kProfileFormat;
  const std::uint32_t major = profile ? kProfileMajor : kFormatMajor;
  const std::uint32_t minor = profile ? kProfileMinor : kFormatMinor;
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  const std::int64_t found_major = root.read_integer("format_major", 0, kMost);
  const std::int64_t found_minor = root.read_integer("format_minor", 0, kMost);
  if (found_major != major || found_minor != minor)
    throw h5::H5Error("has format " + std::to_string(found_major) + "." + std::to_string(found_minor) +
                      ", this clusterprof reads " + std::to_string(major) + "." + std::to_string(minor) +
                      " only" + (profile ? "; merge the run's shards again" : ""));
}

// Errors of `act` as one line that begins with the path.
Result<void> guarded(const std::filesystem::path& path, const char* cannot,
                     const std::function<void()>& act) {
  try {
    act();
    return {};
  } catch (const h5::H5Error& error) {
    return error_of(path, error.what());
  } catch (const std::bad_alloc&) {
    return error_of(path, std::string(cannot) + ": out of memory");
  } catch (const std::length_error&) {
    return error_of(path, "is damaged (a size is out of range)");
  }
}

}  // namespace

void write_tables(h5::Group& root, const ShardData& data, Tables which) {
  Writer writer(root, which == Tables::kNoMatrix);  // shards have the matrix tables beside the others
  visit_tables(writer, data, which);
}

ShardData read_tables(const h5::Group& root, Tables which) {
  ShardData data;
  Reader reader(root);
  visit_tables(reader, data, which);
  if (which == Tables::kSummary)  // rows of strings, which are not there
    for (Rank& rank : data.ranks)
      for (const auto text : kRankTexts) rank.*text = 0;
  return data;
}

MatrixRows read_matrix(const h5::Group& root, std::size_t ranks) {
  MatrixRows rows;
  Reader reader(root);
  visit_matrix(reader, rows, ranks);
  return rows;
}

struct NewFile::State {
  std::filesystem::path path, directory;
  TemporaryFile temporary;
  UniqueFd lock;  // of a profile
  std::optional<h5::File> file;
};

NewFile::NewFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
NewFile::NewFile(NewFile&&) noexcept = default;
NewFile& NewFile::operator=(NewFile&&) noexcept = default;
NewFile::~NewFile() = default;

Result<NewFile> NewFile::create(const std::filesystem::path& path, const char* format) {
  std::filesystem::path directory = path.parent_path();
  if (directory.empty()) directory = ".";
  // HDF5's own message for a directory that is not there or not ours says little.
  if (::access(directory.c_str(), W_OK | X_OK) != 0)
    return error_of(path, "cannot be written: " + system_reason());
  const std::filesystem::path temporary = directory / temporary_name(path);
  NewFile made(std::unique_ptr<State>(new State{path, directory, TemporaryFile(temporary), {}, {}}));
  const Result<void> begun = guarded(path, "cannot be written", [&] {
    made.state_->file = h5::File::create(temporary);
    h5::Group root = made.state_->file->root();
    const bool profile = std::string_view(format) == kProfileFormat;
    if (profile) {  // where there are no locks, the file's age has to do
      made.state_->lock = UniqueFd(::open(temporary.c_str(), O_RDONLY | O_CLOEXEC));
      ::flock(made.state_->lock.get(), LOCK_SH | LOCK_NB);
    }
    root.write_attribute("format", format);
    root.write_attribute("format_major", profile ? kProfileMajor : kFormatMajor);
    root.write_attribute("format_minor", profile ? kProfileMinor : kFormatMinor);
    root.write_attribute("creator", std::string("clusterprof ") + kVersion);
  });
  if (!begun) return begun.error();
  return made;
}

Result<void> NewFile::write(const std::function<void(h5::Group& root)>& fill) {
  return guarded(state_->path, "cannot be written", [&] {
    h5::Group root = state_->file->root();
    fill(root);
  });
}

Result<void> NewFile::finish() {
  const std::filesystem::path& path = state_->path;
  if (const Result<void> closed = guarded(path, "cannot be written", [&] { state_->file->close(); }); !closed)
    return closed;
  const UniqueFd fd(::open(state_->temporary.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd || ::fsync(fd.get()) != 0) return error_of(path, "cannot be written: " + system_reason());
  if (::rename(state_->temporary.path().c_str(), path.c_str()) != 0)
    return error_of(path, "cannot be written: " + system_reason());
  state_->temporary.release();
  // The name survives a crash of the machine only with the directory on disk as well. Some
  // file systems cannot do that; the data is safe in any case.
  const UniqueFd directory_fd(::open(state_->directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory_fd) ::fsync(directory_fd.get());
  return {};
}

Result<void> write_file(const std::filesystem::path& path, const char* format,
                        const std::function<void(h5::Group& root)>& fill) {
  Result<NewFile> file = NewFile::create(path, format);
  if (!file) return file.error();
  if (const Result<void> written = file.value().write(fill); !written) return written;
  return file.value().finish();
}

Result<void> reading(const std::filesystem::path& path, const std::function<void()>& use) {
  return guarded(path, "cannot be read", use);
}

Result<h5::File> open_file(const std::filesystem::path& path, const char* format) {
  std::optional<h5::File> file;
  const Result<void> opened = reading(path, [&] {
    file = h5::File::open(path);
    check_format(file->root(), format);
  });
  if (!opened) return opened.error();
  return std::move(*file);
}

Result<void> read_file(const std::filesystem::path& path, const char* format,
                       const std::function<void(const h5::Group& root)>& use) {
  const Result<h5::File> file = open_file(path, format);
  if (!file) return file.error();
  return reading(path, [&] { use(file.value().root()); });
}

}  // namespace clusterprof::shard
