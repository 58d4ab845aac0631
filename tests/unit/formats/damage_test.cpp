// SPDX-License-Identifier: BSD-3-Clause
// Damaged and foreign files: an error of one line that names the file, or the right data.
// Never a crash, a hang or an absurd allocation.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <functional>
#include <random>

#include "formats/h5/h5.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/profile/profile_writer.hpp"
#include "formats/shard/format_file.hpp"
#include "formats/shard/shard_reader.hpp"
#include "formats/shard/shard_writer.hpp"
#include "formats/shard/tables.hpp"
#include "tests/unit/formats/random_shard.hpp"

// HDF5 1.10 loses a few hundred bytes for some kinds of damage; that is not what we look for.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5\nleak:H5FL_"; }

namespace clusterprof {
namespace {

using shard::ShardData;
using FileBytes = std::vector<std::uint8_t>;

class DamageTest : public ::testing::Test {
 protected:
  // Returns whether reading gives the original or a proper error; `noticed` gets which of the two.
  void check(const FileBytes& bytes, const std::string& what, std::size_t& noticed) {
    testing::write_bytes(path_, bytes);
    const Result<ShardData> read = shard::read_shard(path_);
    if (read) {
      ASSERT_EQ(read.value(), data_) << what << ": wrong data was believed";
      return;
    }
    ++noticed;
    const std::string& message = read.error().message;
    ASSERT_EQ(message.find(path_.string() + ": "), 0u) << what << ": " << message;
    ASSERT_EQ(message.find('\n'), std::string::npos) << what << ": " << message;
    ASSERT_GT(message.size(), path_.string().size() + 5) << what;
  }

  void write_original(std::uint64_t seed, const testing::RandomShape& shape) {
    data_ = testing::random_shard(seed, shape);
    const Result<void> written = shard::write_shard(data_, path_);
    ASSERT_TRUE(written) << written.error().message;
    original_ = testing::read_bytes(path_);
  }

  testing::TemporaryDirectory directory_;
  const std::filesystem::path path_ = directory_.path() / "node-x.h5";
  ShardData data_;
  FileBytes original_;
  std::mt19937_64 random_{1};
};

// A file can refer to other files for its data. These are not read, even if they would fit.
TEST_F(DamageTest, ExternalAndVirtualDataAreRefused) {
  write_original(1, {.ranks = {0, 1}, .paths = 300, .values_per_rank = 100, .names = 20});
  const std::string other = (directory_.path() / "other.h5").string();
  testing::write_bytes(other, original_);
  const auto refused = [&](const char* what, const std::function<void(hid_t file)>& change) {
    testing::write_bytes(path_, original_);
    const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    change(file);
    H5Fclose(file);
    const Result<ShardData> read = shard::read_shard(path_);
    ASSERT_FALSE(read) << what;
    EXPECT_NE(read.error().message.find("is not in this file"), std::string::npos) << read.error().message;
  };
  refused("a link to a table elsewhere", [&](hid_t file) {
    ASSERT_GE(H5Ldelete(file, "ranks", H5P_DEFAULT), 0);
    ASSERT_GE(H5Lcreate_external(other.c_str(), "/ranks", file, "ranks", H5P_DEFAULT, H5P_DEFAULT), 0);
  });
  refused("a link to a column", [&](hid_t file) {
    ASSERT_GE(H5Lmove(file, "ranks/rank", file, "elsewhere", H5P_DEFAULT, H5P_DEFAULT), 0);
    ASSERT_GE(H5Lcreate_soft("/elsewhere", file, "ranks/rank", H5P_DEFAULT, H5P_DEFAULT), 0);
  });
  refused("a column with its bytes elsewhere", [&](hid_t file) {
    const hid_t old = H5Dopen2(file, "ranks/rank", H5P_DEFAULT);
    const hid_t type = H5Dget_type(old), space = H5Dget_space(old);
    H5Dclose(old);
    ASSERT_GE(H5Ldelete(file, "ranks/rank", H5P_DEFAULT), 0);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    ASSERT_GE(H5Pset_external(creation, other.c_str(), 0, H5F_UNLIMITED), 0);
    const hid_t made = H5Dcreate2(file, "ranks/rank", type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    ASSERT_GE(made, 0);
    H5Dclose(made);
    H5Pclose(creation);
    H5Sclose(space);
    H5Tclose(type);
  });
}

// Complete columns with proper checksums, but with a code that this version does not have, or a field that
// the code does not use.
TEST_F(DamageTest, ForgedNotesAreRefused) {
  write_original(1, {.ranks = {0, 1}, .paths = 30, .values_per_rank = 10, .names = 20});
  const auto refusal = [&](const char* code, std::int32_t first_rank, std::int32_t last_rank,
                           const char* text) {
    const std::filesystem::path other = directory_.path() / "other.h5";
    const Result<void> written = shard::write_file(other, shard::kShardFormat, [&](h5::Group& root) {
      h5::Group notes = root.create_group("notes");
      notes.write_strings("code", {code});
      notes.write_strings("node", {""});
      notes.write_strings("text", {text});
      notes.write_strings("detail", {""});
      notes.write_column<std::int32_t>("first_rank", std::span<const std::int32_t>(&first_rank, 1));
      notes.write_column<std::int32_t>("last_rank", std::span<const std::int32_t>(&last_rank, 1));
      notes.write_column<std::uint64_t>("number", std::vector<std::uint64_t>{0});
    });
    EXPECT_TRUE(written);
    testing::write_bytes(path_, original_);
    const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t from = H5Fopen(other.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    EXPECT_EQ(H5Lexists(file, "notes", H5P_DEFAULT), 0) << "a table without rows";
    EXPECT_GE(H5Ocopy(from, "notes", file, "notes", H5P_DEFAULT, H5P_DEFAULT), 0);
    H5Fclose(from);
    H5Fclose(file);
    const Result<ShardData> read = shard::read_shard(path_);
    return read ? std::string() : read.error().message.substr(path_.string().size());
  };
  EXPECT_EQ(refusal("different_runs", -1, -1, ""), "");
  EXPECT_EQ(refusal("no_samples", 5, 70'000, ""), "");
  EXPECT_EQ(refusal("of_a_later_version", -1, -1, ""), ": column /notes/code has an unknown name");
  EXPECT_EQ(refusal("no_samples", 5, 4, ""),
            ": is damaged (row 0 of table notes: a range of ranks that ends before it begins)");
  EXPECT_EQ(refusal("different_runs", -1, -1, "Buy now!"),
            ": is damaged (row 0 of table notes: a text that its code does not have)");
}

TEST_F(DamageTest, TruncatedShardsAreRefused) {
  write_original(1, {.ranks = {0, 1, 2}, .paths = 3000, .values_per_rank = 1500, .names = 200});
  std::size_t noticed = 0;
  const std::size_t tries = 500;
  for (std::size_t i = 0; i < tries; ++i) {
    const std::size_t length = i < 50    ? i * 16
                               : i < 100 ? original_.size() - (i - 49)
                                         : random_() % original_.size();
    FileBytes bytes(original_.begin(), original_.begin() + static_cast<std::ptrdiff_t>(length));
    ASSERT_NO_FATAL_FAILURE(check(bytes, "cut at " + std::to_string(length), noticed));
  }
  EXPECT_EQ(noticed, tries);
}

TEST_F(DamageTest, FlippedBitsAreNoticedOrHarmless) {
  // Once mostly metadata and compact columns, once mostly chunks.
  for (const std::uint32_t size : {40u, 3000u}) {
    write_original(2, {.ranks = {0, 1, 2}, .paths = size, .values_per_rank = size / 2, .names = 200});
    std::size_t noticed = 0;
    for (std::size_t i = 0; i < 200; ++i) {
      FileBytes bytes = original_;
      const std::size_t at = random_() % bytes.size();
      const auto bit = static_cast<unsigned>(random_() % 8);
      bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ (1u << bit));
      ASSERT_NO_FATAL_FAILURE(
          check(bytes, "bit " + std::to_string(bit) + " of byte " + std::to_string(at), noticed));
    }
    // Unused space in the file may change without harm, but there is not much of it.
    EXPECT_GT(noticed, 140u) << "size " << size;
  }
}

TEST_F(DamageTest, OverwrittenRangesAreNoticedOrHarmless) {
  write_original(3, {.ranks = {0, 1, 2}, .paths = 3000, .values_per_rank = 1500, .names = 200});
  std::size_t noticed = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    FileBytes bytes = original_;
    const std::size_t begin = i < 40 ? random_() % 4096 : random_() % bytes.size();
    const std::size_t end = std::min(bytes.size(), begin + (1u << random_() % 14));
    const int how = static_cast<int>(random_() % 3);
    for (std::size_t at = begin; at < end; ++at)
      bytes[at] = how == 0   ? std::uint8_t{0}
                  : how == 1 ? std::uint8_t{0xff}
                             : static_cast<std::uint8_t>(random_());
    ASSERT_NO_FATAL_FAILURE(
        check(bytes, "bytes " + std::to_string(begin) + " to " + std::to_string(end), noticed));
  }
  EXPECT_GT(noticed, 160u);
}

TEST_F(DamageTest, OtherFilesAreRefused) {
  std::size_t noticed = 0;
  check({}, "empty", noticed);
  check(FileBytes(100, 'x'), "text", noticed);
  check({0x89, 'H', 'D', 'F', 0x0d, 0x0a, 0x1a, 0x0a}, "signature alone", noticed);
  EXPECT_EQ(noticed, 3u);
  std::filesystem::remove(path_);
  EXPECT_EQ(shard::read_shard(path_).error().message,
            path_.string() + ": cannot be opened: No such file or directory");
  EXPECT_FALSE(shard::read_shard(directory_.path()));
}

// Files that are proper HDF5 with proper checksums, with content that is wrong.
class ForgedTest : public DamageTest {
 protected:
  // A shard of `data_` with `attributes` in place of the usual ones.
  template <typename Fill>
  std::string message_of(const char* format, std::uint32_t major, std::uint32_t minor, Fill fill) {
    std::filesystem::remove(path_);
    {
      h5::File file = h5::File::create(path_);
      {
        h5::Group root = file.root();
        root.write_attribute("format", format);
        root.write_attribute("format_major", major);
        root.write_attribute("format_minor", minor);
        fill(root);
      }
      file.close();
    }
    const Result<ShardData> read = shard::read_shard(path_);
    if (!read) return read.error().message;
    return read.value() == data_ ? "" : "other data";
  }
};

TEST_F(ForgedTest, OtherVersionsAreRefused) {
  const auto write = [&](h5::Group& root) { shard::write_tables(root, data_); };
  data_ = testing::random_shard(11, {.ranks = {0, 1}});
  for (const auto& [major, minor] :
       {std::pair{1u, 5u}, {shard::kFormatMajor, shard::kFormatMinor + 1}, {9u, 0u}}) {
    const std::string found = std::to_string(major) + "." + std::to_string(minor);
    const std::string ours = std::to_string(shard::kFormatMajor) + "." + std::to_string(shard::kFormatMinor);
    EXPECT_EQ(message_of(shard::kShardFormat, major, minor, write),
              path_.string() + ": has format " + found + ", this clusterprof reads " + ours + " only");
  }
}

TEST_F(ForgedTest, UnknownTablesAndColumnsAreIgnored) {
  data_ = testing::random_shard(11, {.ranks = {0, 1}});
  EXPECT_EQ(message_of(shard::kShardFormat, shard::kFormatMajor, shard::kFormatMinor,
                       [&](h5::Group& root) {
                         shard::write_tables(root, data_);
                         root.write_attribute("of_others", "yes");
                         h5::Group others = root.create_group("of_others");
                         others.write_column<double>("column", std::vector<double>{1.0, 2.0});
                         root.open_group("frames").write_column<std::uint32_t>("colour",
                                                                               std::vector<std::uint32_t>(3));
                       }),
            "");
}

TEST_F(ForgedTest, OtherKindsOfFileAreRefused) {
  EXPECT_NE(message_of("something-else", shard::kFormatMajor, shard::kFormatMinor, [](h5::Group&) {})
                .find("is not a clusterprof file"),
            std::string::npos);
  std::filesystem::remove(path_);
  h5::File::create(path_).close();
  EXPECT_NE(shard::read_shard(path_).error().message.find("is not a clusterprof file"), std::string::npos);
}

TEST_F(ForgedTest, MissingTablesAndColumnsAreRefused) {
  EXPECT_NE(message_of(shard::kShardFormat, shard::kFormatMajor, shard::kFormatMinor, [](h5::Group&) {})
                .find("table /run is missing"),
            std::string::npos);
  EXPECT_NE(message_of(shard::kShardFormat, shard::kFormatMajor, shard::kFormatMinor,
                       [](h5::Group& root) {
                         h5::Group run = root.create_group("run");
                         run.write_attribute("id", "x");
                       })
                .find("attribute /run/start_utc_ns is missing"),
            std::string::npos);
}

TEST_F(ForgedTest, AbsurdWorldSizeIsRefused) {
  const auto path = directory_.path() / "node-absurd.h5";
  ShardData data = testing::random_shard(3, {.ranks = {0}, .paths = 5, .values_per_rank = 5, .names = 5});
  data.run.world_size = shard::kMaxWorldSize;
  ASSERT_TRUE(shard::write_shard(data, path));
  EXPECT_TRUE(shard::read_shard(path));
  ++data.run.world_size;
  ASSERT_TRUE(shard::write_shard(data, path));
  const Result<ShardData> read = shard::read_shard(path);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("world_size is out of range"), std::string::npos)
      << read.error().message;
}

TEST_F(ForgedTest, WrongColumnsAreRefused) {
  const auto reading = [&](auto write) {
    std::filesystem::remove(path_);
    {
      h5::File file = h5::File::create(path_);
      {
        h5::Group root = file.root();
        write(root);
      }
      file.close();
    }
    try {
      const h5::File file = h5::File::open(path_);
      const h5::Group root = file.root();
      (void)root.read_column<std::uint32_t>("column");
      (void)root.read_strings("text");
      return std::string();
    } catch (const h5::H5Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(reading([](h5::Group&) {}), "column /column is missing");
  EXPECT_EQ(reading([](h5::Group& g) { g.write_column<double>("column", std::vector<double>{1}); }),
            "column /column has the wrong type");
  EXPECT_EQ(
      reading([](h5::Group& g) { (void)g.create_group("column"); }).find("column /column cannot be opened"),
      0u);
  const auto text = [&](std::vector<std::uint64_t> offsets) {
    return reading([&](h5::Group& g) {
      g.write_column<std::uint32_t>("column", std::vector<std::uint32_t>{1});
      g.write_column<std::uint8_t>("text_bytes", FileBytes{'a', 'b'});
      g.write_column<std::uint64_t>("text_offsets", offsets);
    });
  };
  EXPECT_EQ(text({0, 1, 2}), "");
  const std::string misfit = "column /text_offsets does not fit its strings";
  EXPECT_EQ(text({}), misfit);
  EXPECT_EQ(text({0, 1}), misfit);
  EXPECT_EQ(text({1, 2}), misfit);
  EXPECT_EQ(text({0, 2, 1, 2}), misfit);
  EXPECT_EQ(text({0, ~0ull, 2}), misfit);
}

TEST_F(ForgedTest, InconsistentTablesAreRefused) {
  // Through the writer of tables, which does not validate.
  const auto has_rows_to_spoil = [](const ShardData& d) {
    return d.paths.size() > 3 && d.frames.size() > 3 && !d.values.empty() && d.mpi_calls.size() > 1 &&
           !d.counter_values.empty() && d.mpi_events.size() > 1 && !d.event_gaps.empty() &&
           !d.wait_states.empty() && d.rank_series.size() > 1 && d.node_series.size() > 1 &&
           d.path_series.size() > 1 && !d.io_calls.empty() && !d.data_accesses.empty() &&
           !d.region_times.empty() && !d.processes.empty() && !d.event_loops.empty() &&
           !d.loop_blocks.empty() && !d.task_times.empty() && !d.threads.empty() && !d.omp_regions.empty() &&
           !d.mutex_waits.empty() && d.thread_spans.size() > 1 && !d.span_times.empty() &&
           !d.memory_ranks.empty() && !d.memory_sites.empty() && d.memory_series.size() > 1 &&
           !d.memory_spaces.empty();
  };
  ShardData good;
  for (std::uint32_t seed = 12; !has_rows_to_spoil(good); ++seed)
    good = testing::random_shard(seed, {.ranks = {0, 1}});
  data_ = good;
  const auto write = [&](h5::Group& root) { shard::write_tables(root, data_); };
  EXPECT_EQ(message_of(shard::kShardFormat, shard::kFormatMajor, shard::kFormatMinor, write), "");
  const auto refused = [&](auto spoil, const char* word) {
    data_ = good;
    spoil(data_);
    const std::string message =
        message_of(shard::kShardFormat, shard::kFormatMajor, shard::kFormatMinor, write);
    EXPECT_NE(message.find("is damaged"), std::string::npos) << message;
    EXPECT_NE(message.find(word), std::string::npos) << message;
  };
  refused([](ShardData& d) { d.paths[3].parent = 9; }, "paths");
  refused([](ShardData& d) { d.frames[3].file = 9999; }, "frames");
  refused([](ShardData& d) { d.values[3].path = 9999; }, "values");
  refused([](ShardData& d) { d.mpi_calls[1].communicator = 77; }, "mpi_calls");
  refused([](ShardData& d) { d.ranks[1].node = 77; }, "ranks");
  refused([](ShardData& d) { d.counter_values[0].rank = 77; }, "counter_values");
  refused([](ShardData& d) { d.mpi_events[1].kind = 7; }, "mpi_events");
  refused([](ShardData& d) { std::swap(d.mpi_events.front(), d.mpi_events.back()); }, "mpi_events");
  refused([](ShardData& d) { d.event_gaps[0].event = 7777; }, "event_gaps");
  refused([](ShardData& d) { d.wait_states[0].cause_path = 7777; }, "wait_states");
  refused([](ShardData& d) { d.time_axis.bin_ns += 1; }, "time_axis");
  refused([](ShardData& d) { d.rank_series[0].bin = 1024; }, "rank_series");
  refused([](ShardData& d) { d.rank_series[1] = d.rank_series[0]; }, "rank_series");
  refused([](ShardData& d) { std::swap(d.node_series.front(), d.node_series.back()); }, "node_series");
  refused([](ShardData& d) { d.path_axis.bin_ns += 1; }, "path_axis");
  refused([](ShardData& d) { d.path_series.back().path = 9999; }, "path_series");
  refused([](ShardData& d) { d.path_series[0].bin = 64; }, "path_series");
  refused([](ShardData& d) { d.path_series[1] = d.path_series[0]; }, "path_series");
  refused([](ShardData& d) { d.io_calls[0].operation = static_cast<shard::IoOperation>(8); }, "io_calls");
  refused([](ShardData& d) { d.data_accesses[0].path = 9999; }, "data_accesses");
  refused([](ShardData& d) { d.region_times[0].path = 0; }, "region_times");
  refused([](ShardData& d) { d.memory_ranks[0].rank = 77; }, "memory_ranks");
  refused([](ShardData& d) { d.memory_ranks.push_back(d.memory_ranks.back()); }, "memory_ranks");
  refused([](ShardData& d) { d.memory_sites[0].path = 9999; }, "memory_sites");
  refused([](ShardData& d) { d.memory_sites[0].domain = static_cast<shard::MemoryDomain>(5); },
          "memory_sites");
  refused([](ShardData& d) { d.memory_spaces[0].rank = 77; }, "memory_spaces");
  refused([](ShardData& d) { d.memory_spaces[0].peak_utc_ns = INT64_MAX; }, "memory_spaces");
  refused([](ShardData& d) { d.memory_labels[0].rank = 77; }, "memory_labels");
  refused([](ShardData& d) { d.memory_copies[0].rank = 77; }, "memory_copies");
  refused([](ShardData& d) { d.memory_series.back().path = 9999; }, "memory_series");
  refused([](ShardData& d) { d.memory_series[0].bin = 64; }, "memory_series");
  refused([](ShardData& d) { d.memory_series[1] = d.memory_series[0]; }, "memory_series");
  refused([](ShardData& d) { d.nodes[0].held_peak_utc_ns = INT64_MAX; }, "nodes");
  refused([](ShardData& d) { d.processes[0].path = 9999; }, "processes");
  refused([](ShardData& d) { d.processes[0].top_path = 9999; }, "processes");
  refused([](ShardData& d) { d.processes[0].rank = 77; }, "processes");
  refused([](ShardData& d) { d.processes[0].count = 0; }, "processes");
  refused([](ShardData& d) { d.processes[0].origin = static_cast<shard::ProcessOrigin>(7); }, "processes");
  refused([](ShardData& d) { d.processes[0].start_utc_ns = INT64_MAX; }, "processes");
  refused([](ShardData& d) { d.event_loops[0].path = 9999; }, "event_loops");
  refused([](ShardData& d) { d.event_loops[0].rank = 77; }, "event_loops");
  refused([](ShardData& d) { d.event_loops[0].start_utc_ns = INT64_MAX; }, "event_loops");
  refused([](ShardData& d) { d.event_loops[0].longest_utc_ns = INT64_MAX; }, "event_loops");
  refused([](ShardData& d) { d.mutex_waits[0].rank = 77; }, "mutex_waits");
  refused([](ShardData& d) { d.mutex_waits[0].holder_path = 9999; }, "mutex_waits");
  refused([](ShardData& d) { d.thread_spans[0].rank = 77; }, "thread_spans");
  refused([](ShardData& d) { d.thread_spans[0].how = static_cast<shard::SpanEnd>(9); }, "thread_spans");
  refused([](ShardData& d) { d.thread_spans[0].begin_ns = d.thread_spans[0].call_ns + 1; }, "thread_spans");
  refused([](ShardData& d) { d.thread_spans[0].call_ns = d.thread_spans[0].end_ns + 1; }, "thread_spans");
  refused([](ShardData& d) { d.thread_spans[1] = d.thread_spans[0]; }, "thread_spans");
  refused([](ShardData& d) { d.span_times[0].path = 9999; }, "span_times");
  refused([](ShardData& d) { d.span_times[0].rank = 77; }, "span_times");
  refused([](ShardData& d) { d.omp_ranks[0].rank = 77; }, "omp_ranks");
  refused([](ShardData& d) { d.omp_ranks[0].method = static_cast<shard::OmpMethod>(9); }, "omp_ranks");
  refused([](ShardData& d) { d.omp_regions[0].path = 9999; }, "omp_regions");
  refused([](ShardData& d) { d.omp_regions[0].threads = 0; }, "omp_regions");
  refused([](ShardData& d) { d.omp_regions[0].kind = static_cast<shard::OmpKind>(99); }, "omp_regions");
  refused([](ShardData& d) { d.omp_regions[0].wait_ns = d.omp_regions[0].threads_ns + 1; }, "omp_regions");
  refused([](ShardData& d) { d.omp_threads[0].number = d.omp_threads[0].threads; }, "omp_threads");
  refused([](ShardData& d) { d.omp_threads[0].inner_wait_ns = d.omp_threads[0].time_ns + 1; }, "omp_threads");
  refused([](ShardData& d) { d.omp_constructs[0].region_path = 9999; }, "omp_constructs");
  refused([](ShardData& d) { d.omp_constructs[0].kind = static_cast<shard::OmpKind>(99); }, "omp_constructs");
  refused([](ShardData& d) { d.omp_constructs[0].schedules = 1u << shard::kOmpSchedules; }, "omp_constructs");
  refused([](ShardData& d) { d.omp_constructs[0].wait_ns = d.omp_constructs[0].time_ns + 1; },
          "omp_constructs");
  refused([](ShardData& d) { d.task_times[0].path = 9999; }, "task_times");
  refused([](ShardData& d) { d.task_times[0].task_path = 9999; }, "task_times");
  refused([](ShardData& d) { d.task_times[0].rank = 77; }, "task_times");
  refused([](ShardData& d) { d.loop_blocks[0].path = 9999; }, "loop_blocks");
  refused([](ShardData& d) { d.loop_blocks[0].rank = 77; }, "loop_blocks");
  refused([](ShardData& d) { d.loop_blocks[0].wall_ns = d.loop_blocks[0].turn_ns + 1; }, "loop_blocks");
  refused([](ShardData& d) { d.loop_blocks[0].begin_utc_ns = INT64_MAX; }, "loop_blocks");
  refused([](ShardData& d) { d.threads[0].path = 9999; }, "threads");
  refused([](ShardData& d) { d.threads[0].top_path = 9999; }, "threads");
  refused([](ShardData& d) { d.threads[0].last_path = 9999; }, "threads");
  refused([](ShardData& d) { d.threads[0].rank = 77; }, "threads");
  refused([](ShardData& d) { d.threads[0].count = 0; }, "threads");
  refused([](ShardData& d) { d.threads[0].kind = static_cast<shard::ThreadKind>(5); }, "threads");
  refused([](ShardData& d) { d.threads[0].start_utc_ns = INT64_MAX; }, "threads");
  refused([](ShardData& d) { d.failures.push_back({.rank = 77}); }, "failures");
  refused([](ShardData& d) { d.failures = {{.rank = 0}, {.rank = 0}}; }, "failures");
  refused([](ShardData& d) { d.ranks[0].affinity = 9999; }, "ranks");
  refused([](ShardData& d) { d.ranks[0].start_utc_ns = INT64_MAX; }, "ranks");
  refused([](ShardData& d) { d.ranks[0].elapsed_ns = UINT64_MAX; }, "ranks");
  refused([](ShardData& d) { d.nodes[0].start_utc_ns = INT64_MIN; }, "nodes");
  refused([](ShardData& d) { d.nodes[0].elapsed_ns = UINT64_MAX; }, "nodes");
  refused([](ShardData& d) { d.run.start_utc_ns = INT64_MIN; }, "start");
  const auto nest = [](ShardData& d, shard::FrameKind kind, std::uint32_t count) {
    shard::PathInterner interner(d);
    shard::Frame frame;
    frame.kind = kind, frame.line = 77;
    const std::uint32_t index = interner.frame(frame);
    for (std::uint32_t i = 0, at = 0; i < count; ++i) at = interner.path(at, index);
  };
  refused([&](ShardData& d) { nest(d, shard::FrameKind::kNative, shard::kMaxPathDepth + 1); }, "too many");
  refused([&](ShardData& d) { nest(d, shard::FrameKind::kRegion, shard::kMaxRegionDepth + 1); }, "too many");
  // A text is in a file once.
  refused(
      [](ShardData& d) {
        d.strings.push_back(std::string(1 << 20, 'a'));
        shard::Frame frame = d.frames[0];
        frame.name = static_cast<shard::StringIndex>(d.strings.size() - 1);
        d.frames.insert(d.frames.end(), 4096, frame);
      },
      "too much text");
  refused(
      [](ShardData& d) {
        shard::PathInterner interner(d);
        shard::Frame frame;
        frame.kind = shard::FrameKind::kRegion;
        frame.name = interner.string(std::string(1 << 20, 'a'));
        const std::uint32_t index = interner.frame(frame);
        for (std::uint32_t i = 0, at = 0; i < 100; ++i) at = interner.path(at, index);
      },
      "too much text");
  data_ = good;
  nest(data_, shard::FrameKind::kNative, shard::kMaxPathDepth);
  nest(data_, shard::FrameKind::kRegion, shard::kMaxRegionDepth);
  EXPECT_EQ(message_of(shard::kShardFormat, shard::kFormatMajor, shard::kFormatMinor, write), "");
}

TEST(ProfileDamageTest, TruncationAndFlippedBitsAreNoticedOrHarmless) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "profile.h5";
  const ShardData data = testing::random_shard(2, {.ranks = {0, 1, 2}, .paths = 300});
  const std::vector<profile::Source> sources{{"node-a.h5", 1, true}};
  ASSERT_TRUE(profile::write_profile(data, path, sources));
  const FileBytes original = testing::read_bytes(path);
  std::mt19937_64 random(5);
  for (int i = 0; i < 300; ++i) {
    FileBytes bytes = original;
    if (i % 3 == 0)
      bytes.resize(random() % bytes.size());
    else
      bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    testing::write_bytes(path, bytes);
    const auto read = profile::read_profile(path);
    const auto statistics = profile::read_path_statistics(path);
    const auto list = profile::read_sources(path);
    if (read) {
      EXPECT_EQ(read.value(), data);
    } else {
      EXPECT_EQ(read.error().message.find(path.string()), 0u);
    }
    if (statistics) {
      EXPECT_EQ(statistics.value(), profile::path_statistics(data));
    }
    if (list) {
      EXPECT_EQ(list.value(), sources);
    }
  }
}

}  // namespace
}  // namespace clusterprof
