// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/file_io.hpp"

#include <gtest/gtest.h>

#include <string>

#include "find_finding.hpp"
#include "formats/wire/segment.h"
#include "profile_builder.hpp"
#include "report/analysis/drops.hpp"
#include "report/report.hpp"
#include "report/words/drops.hpp"

namespace clusterprof::report {
namespace {

using shard::IoOperation;
using testing::ProfileBuilder;

std::string section_of(const Analysis& analysis, const char* name) {
  TextOptions options;
  options.sections = {name};
  options.width = 120;
  return render_text(analysis, options);
}

TEST(Patterns, AreOfDigitsInTheLastPart) {
  EXPECT_EQ(pattern_of("/run7/out.0001.dat"), "/run7/out.*.dat");
  EXPECT_EQ(pattern_of("/data/a12b3"), "/data/a*b*");
  EXPECT_EQ(pattern_of("/data/plain"), "/data/plain");
  EXPECT_EQ(pattern_of("relative9"), "relative*");
  EXPECT_EQ(pattern_of(""), "");
}

TEST(FileSystems, OfTheKernelAreToldByTheirType) {
  EXPECT_TRUE(is_file_system_of_kernel("proc /proc"));
  EXPECT_TRUE(is_file_system_of_kernel("sysfs /sys"));
  EXPECT_TRUE(is_file_system_of_kernel("cgroup2 /sys/fs/cgroup"));
  EXPECT_FALSE(is_file_system_of_kernel("ext4 /proc"));
  EXPECT_FALSE(is_file_system_of_kernel("tmpfs /dev/shm"));
  EXPECT_FALSE(is_file_system_of_kernel(""));
}

class FileIoOf : public ::testing::Test {
 protected:
  ProfileBuilder b_{2};
  std::uint32_t step_ = b_.path({b_.python("step", "/home/u/train.py", 5, 1)});
};

// The line is the user's; what it called in a library is named behind it, where most of the time is.
TEST_F(FileIoOf, RowsNameTheLibraryFunction) {
  const auto step = b_.python("step", "/home/u/train.py", 5, 1);
  const auto library = [&](std::string_view name) {
    return b_.python(name, "/usr/lib/python3/dist-packages/numpy/lib/npyio.py", 30, 20);
  };
  b_.file_called(0, b_.path({step, library("fromfile")}), "/data/input", IoOperation::kRead, 5, 50, 1000);
  b_.file_called(0, b_.path({step, library("load")}), "/data/input", IoOperation::kRead, 5, 20, 1000);
  b_.file_called(0, step_, "/data/other", IoOperation::kRead, 5, 20, 1000);
  b_.sampled(0, b_.path({step, library("fromfile"), b_.kernel("pread64")}), shard::Category::kIo, 300);
  b_.sampled(0, b_.path({step, library("load"), b_.kernel("pread64")}), shard::Category::kIo, 100);
  const Analysis a = analyse(b_.data);
  ASSERT_TRUE(a.io);
  ASSERT_EQ(a.io->calls.size(), 2u);
  EXPECT_EQ(a.io->calls[0].function, "step");
  EXPECT_EQ(a.io->calls[0].called, "numpy.fromfile");
  EXPECT_EQ(a.io->calls[1].called, "");
  ASSERT_TRUE(a.off_cpu);
  ASSERT_EQ(a.off_cpu->size(), 1u);
  EXPECT_EQ((*a.off_cpu)[0].function, "step");
  EXPECT_EQ((*a.off_cpu)[0].called, "numpy.fromfile");
  for (const char* section : {"io", "off-cpu"})
    EXPECT_NE(section_of(a, section).find("step() train.py:5 (numpy.fromfile)"), std::string::npos)
        << section_of(a, section);
}

// A thread that is ready to return from a call, but has no processor, does not wait for the file.
TEST_F(FileIoOf, AFindingLeavesOutWhatCallsLackedAProcessor) {
  ProfileBuilder b(1);
  const auto step = b.python("step", "/home/u/train.py", 5, 1);
  const auto sync = b.path({step, b.kernel("fsync")});
  const auto other = b.path({b.python("load", "/home/u/train.py", 9, 8)});
  b.file_called(0, b.path({step}), "/data/log", IoOperation::kSync, 400, 7000);
  b.sampled(0, sync, shard::Category::kIo, 800);
  b.sampled(0, sync, shard::Category::kRunnable, 5000);
  b.sampled(0, other, shard::Category::kRunnable, 1000);
  b.sampled(0, other, shard::Category::kPython, 3200);
  const Analysis a = analyse(b.data);
  const Finding* finding = testing::find_kind(a, FindingKind::kRankIo);
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(finding->share.value(), 0.2, 1e-9);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kTime), 2.0, 1e-9);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kRankShare), 0.2, 1e-9);
  b.data.io_calls[0].time_ns -= 1'500'000'000;
  EXPECT_EQ(testing::find_kind(analyse(b.data), FindingKind::kRankIo), nullptr);
}

// Workers that read ahead cost the rank nothing, however many they are.
TEST_F(FileIoOf, WhatOthersThanMainThreadsReadIsNoFinding) {
  ProfileBuilder b(2);
  const auto load = b.python("__getitem__", "/home/u/data.py", 12, 10);
  const auto step = b.path({b.python("step", "/home/u/train.py", 5, 1)});
  for (std::uint32_t r = 0; r < 2; ++r) {
    b.data.ranks[r].processes = b.data.ranks[r].threads = 9;
    b.sampled(r, step, shard::Category::kNative, 10'000);
    b.sampled(r, b.path({load, b.kernel("read")}), shard::Category::kIo, 32'000, false);
    b.file_called(r, b.path({load}), "/data/train.h5", IoOperation::kRead, 1'200'000, 32'000, 1'200'000'000);
  }
  const Analysis a = analyse(b.data);
  EXPECT_EQ(testing::find_kind(a, FindingKind::kRankIo), nullptr);
  EXPECT_EQ(testing::find_kind(a, FindingKind::kSmallIo), nullptr);
  for (std::uint32_t r = 0; r < 2; ++r) b.data.ranks[r].processes = 1;
  EXPECT_EQ(testing::find_kind(analyse(b.data), FindingKind::kRankIo), nullptr) << "of threads likewise";
  shard::ShardData unseen = b.data;
  std::erase_if(unseen.values, [](const shard::Value& value) { return !value.main_thread; });
  EXPECT_EQ(testing::find_kind(analyse(unseen), FindingKind::kSmallIo), nullptr) << "it is not known whose";
}

TEST_F(FileIoOf, AFindingIsAboutWhatTheMainThreadHasOfTheCalls) {
  ProfileBuilder b(12);
  const auto log = b.python("log", "/home/u/log.py", 5, 1);
  const auto log_sync = b.path({log, b.kernel("fsync")});
  for (std::uint32_t r = 0; r < 12; ++r)
    b.sampled(r, b.path({b.python("step", "/home/u/train.py", 5, 1)}), shard::Category::kNative,
              r == 0 ? 8000 : 10'000);
  b.data.ranks[0].threads = 5;
  b.sampled(0, log_sync, shard::Category::kIo, 2000);
  b.file_called(0, b.path({log}), "/data/log", IoOperation::kSync, 400, 4000);
  const Analysis alone = analyse(b.data);
  const Finding* finding = testing::find_kind(alone, FindingKind::kRankIo);
  ASSERT_NE(finding, nullptr) << "its other threads are never there";
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kRankShare), 0.4, 1e-9);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kCalls), 400, 1e-9);

  b.sampled(0, log_sync, shard::Category::kIo, 2000, false);
  const Analysis shared = analyse(b.data);
  finding = testing::find_kind(shared, FindingKind::kRankIo);
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kRankShare), 0.2, 1e-9);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kCalls), 200, 1e-9);
  EXPECT_NEAR(finding->gain_s.value(), 2, 1e-9);

  // The rank with most time in the calls may be another one than that whose main thread is there.
  b.data.ranks[1].threads = 5;
  b.sampled(1, log_sync, shard::Category::kIo, 4000, false);
  b.file_called(1, b.path({log}), "/data/log", IoOperation::kSync, 500, 5000);
  EXPECT_EQ(testing::find_kind(analyse(b.data), FindingKind::kRankIo), nullptr);
}

TEST_F(FileIoOf, SmallCallsAreThoseOfMainThreads) {
  ProfileBuilder b(1);
  b.data.ranks[0].threads = 2;
  const auto log = b.python("log", "/home/u/log.py", 5, 1);
  const auto write = b.path({log, b.kernel("write")});
  b.sampled(0, b.path({b.python("step", "/home/u/train.py", 5, 1)}), shard::Category::kNative, 9200);
  b.sampled(0, write, shard::Category::kIo, 800);
  b.sampled(0, write, shard::Category::kIo, 2400, false);
  b.file_called(0, b.path({log}), "/data/log", IoOperation::kWrite, 4000, 3200, 40'000);
  const Analysis a = analyse(b.data);
  const Finding* const finding = testing::find_kind(a, FindingKind::kSmallIo);
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(finding->share.value(), 0.08, 1e-9);
  EXPECT_NEAR(finding->gain_s.value(), 0.8, 1e-9);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kCalls), 1000, 1e-9);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kMeanBytes), 10, 1e-9);
}

TEST_F(FileIoOf, ManyFilesAreGroupedByDirectoryAndByName) {
  for (std::uint32_t i = 0; i < 4000; ++i)
    b_.file_called(i % 2, step_, "/scratch/out." + std::to_string(10000 + i) + ".dat", IoOperation::kWrite, 2,
                   1, 100);
  b_.file_called(0, step_, "/scratch/log1", IoOperation::kWrite, 1, 3, 7);
  b_.file_called(0, step_, "/scratch/log2", IoOperation::kWrite, 1, 2, 7);
  b_.file_called(0, step_, "/scratch", IoOperation::kMetadata, 9, 4);  // names in it
  b_.file_called(1, step_, "/data/input", IoOperation::kRead, 5, 50, 1000);
  const Analysis a = analyse(b_.data);
  ASSERT_TRUE(a.io);
  EXPECT_EQ(a.io->files.size(), 4004u);
  ASSERT_EQ(a.io->patterns.size(), 1u) << "two files are too few";
  const IoGroupRow& pattern = a.io->patterns[0];
  EXPECT_EQ(pattern.path, "/scratch/out.*.dat");
  EXPECT_EQ(pattern.files, 4000u);
  EXPECT_EQ(pattern.writes, 8000u);
  EXPECT_EQ(pattern.written_bytes, 400000u);
  EXPECT_NEAR(pattern.write_s, 4.0, 1e-9);
  ASSERT_EQ(a.io->directories.size(), 2u);
  const IoGroupRow& scratch = a.io->directories[0];
  EXPECT_EQ(scratch.path, "/scratch");
  EXPECT_EQ(scratch.files, 4002u) << "the directory is none of its files";
  EXPECT_EQ(scratch.meta_calls, 9u);
  EXPECT_EQ(scratch.written_bytes, 400014u);
  EXPECT_EQ(a.io->directories[1].path, "/data");
  EXPECT_EQ(a.io->directories[1].read_bytes, 1000u);
  const std::string text = section_of(a, "io");
  EXPECT_NE(text.find("/scratch/out.*.dat (4000 files)"), std::string::npos) << text;
  EXPECT_NE(text.find("/scratch (4002 files)"), std::string::npos) << text;
  EXPECT_EQ(text.find("out.10007.dat\n"), std::string::npos) << text;
}

// Many short calls of one rank are most of the time; one call of another rank stalls.
TEST_F(FileIoOf, TheLongestCallMayBeOfAnotherRankThanMostOfTheTime) {
  b_.file_called(0, step_, "/scratch/out", IoOperation::kWrite, 1000, 10'000, 100);
  b_.file_called(1, step_, "/scratch/out", IoOperation::kWrite, 1, 8000, 100);
  b_.data.io_calls[1].max_ns = 8'000'000'000;
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.io->calls.size(), 1u);
  EXPECT_DOUBLE_EQ(a.io->calls[0].max_s, 8);
  EXPECT_EQ(a.io->calls[0].longest_rank, 1);
  EXPECT_EQ(a.io->calls[0].max_rank, 0);
}

TEST_F(FileIoOf, TheLongestCallAndTheRankWithMostAreOfAllFilesOfALine) {
  b_.file_called(1, step_, "/scratch/out.a", IoOperation::kWrite, 20, 2000, 100);
  b_.file_called(0, step_, "/scratch/out.b", IoOperation::kWrite, 20, 1500, 100);
  b_.data.io_calls.back().max_ns = 1'400'000'000;
  b_.file_called(0, step_, "/scratch/out.c", IoOperation::kWrite, 20, 1200, 100);
  const std::string text = section_of(analyse(b_.data), "io");
  const std::size_t end = text.find("write 3 files");
  ASSERT_NE(end, std::string::npos) << text;
  const std::size_t begin = text.rfind('\n', end);
  std::string row = text.substr(begin, end - begin);
  EXPECT_NE(row.find(" 1.40 s "), std::string::npos) << row;
  row.erase(row.find_last_not_of(' ') + 1);
  EXPECT_TRUE(row.ends_with(" 0")) << row;
}

TEST_F(FileIoOf, TheKernelsOwnFilesComeLastWithASum) {
  const std::uint32_t init =
      b_.path({b_.python("step", "/home/u/train.py", 5, 1), b_.mpi("MPI_Init_thread")});
  b_.file_called(0, init, "/sys", IoOperation::kRead, 900, 800);
  b_.data.io_files.back().file_system = "sysfs /sys";
  b_.file_called(0, init, "/dev/shm/segment", IoOperation::kOpen, 2, 300);
  b_.file_called(0, step_, "/data/input", IoOperation::kRead, 1, 1, 10);
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.io->calls.size(), 3u);
  EXPECT_EQ(a.io->calls[0].path, "/data/input");
  EXPECT_EQ(a.io->calls[0].mpi, "");
  EXPECT_FALSE(a.io->calls[0].in_background);
  EXPECT_EQ(a.io->calls[1].path, "/sys");
  EXPECT_EQ(a.io->calls[1].mpi, "MPI_Init_thread");
  EXPECT_EQ(a.io->calls[1].line, 5u) << "of the caller of MPI";
  EXPECT_TRUE(a.io->calls[1].in_background);
  EXPECT_TRUE(a.io->calls[2].in_background);
  EXPECT_EQ(a.io->files.back().path, "/sys");
  EXPECT_TRUE(a.io->file_systems.back().of_kernel);
  EXPECT_EQ(a.io->file_systems.back().calls, 900u);
  for (const IoGroupRow& row : a.io->directories) EXPECT_NE(row.path, "/");
  const std::string text = section_of(a, "io");
  EXPECT_NE(
      text.find(
          "the kernel's own files (sysfs /sys): 900 calls, 800 ms, all of it in MPI_Init and MPI_Finalize"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("what MPI_Init and MPI_Finalize do with other files: 2 calls, 300 ms"),
            std::string::npos)
      << text;
}

TEST_F(FileIoOf, NamesAndDescriptorsAreApartFromTransfers) {
  b_.file_called(0, step_, "/data/many", IoOperation::kOpen, 5000, 900);
  b_.file_called(0, step_, "/data/many", IoOperation::kRead, 10, 100, 4096);
  const std::string text = section_of(analyse(b_.data), "io");
  const std::size_t read = text.find("read many"), metadata = text.find("Metadata: open, close"),
                    open = text.find("open many");
  ASSERT_NE(open, std::string::npos) << text;
  EXPECT_LT(read, metadata) << text;
  EXPECT_LT(metadata, open) << text;
}

TEST_F(FileIoOf, OperationsBeyondTheTableAreCounted) {
  b_.file_called(0, step_, "/data/input", IoOperation::kRead, 5, 50, 1000);
  EXPECT_EQ(section_of(analyse(b_.data), "io").find("incomplete"), std::string::npos);
  b_.file_called(1, 0, "/data/late", IoOperation::kWrite, 1200, 30, 200'000'000);
  b_.data.drops = {{0, "io_site_table_full", 1200}, {0, "io_file_table_full", 17}};
  const Analysis a = analyse(b_.data);
  EXPECT_EQ(a.io->by_file_only.operations, 1200u);
  EXPECT_EQ(a.io->by_file_only.bytes, 200'000'000u);
  const std::string text = section_of(a, "io");
  EXPECT_NE(text.find("1200 operations (200 MB, 30.0 ms) are counted by file only: the table of"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("17 operations are on files beyond the table"), std::string::npos) << text;
  EXPECT_NE(text.find("/data/late"), std::string::npos) << text;
}

TEST(Drops, EveryReasonHasAMeaning) {
  for (const char* const reason : wire::kDropReasonNames)
    EXPECT_NE(words::meaning_of_drop(reason), "") << reason;
  EXPECT_EQ(words::meaning_of_drop("of_a_later_version"), "");
}

TEST(Drops, AFewSamplesDoNotMatter) {
  EXPECT_FALSE(drop_matters("reentrant", 1, 1000));
  EXPECT_TRUE(drop_matters("reentrant", 11, 1000));
  EXPECT_TRUE(drop_matters("io_site_table_full", 1, 1000)) << "another kind of thing";
  ProfileBuilder b(1);
  const auto path = b.path({b.native("main", "/a.out", "a.c", 3)});
  b.sampled(0, path, shard::Category::kNative, 10'000);
  b.data.ranks[0].samples = 1000;
  b.data.drops = {{0, "reentrant", 1}, {0, "path_arena_full", 3}};
  const std::string text = section_of(analyse(b.data), "quality");
  EXPECT_NE(text.find("3 x path_arena_full: MPI calls have no callers"), std::string::npos) << text;
  EXPECT_NE(text.find("1 x reentrant: too few samples to matter"), std::string::npos) << text;
}

}  // namespace
}  // namespace clusterprof::report
