// SPDX-License-Identifier: BSD-3-Clause
// Files in the segment's tables, against what programs say that they did with them.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/agent/fake_collector.hpp"

namespace clusterprof::agent_test {
namespace {

namespace fs = std::filesystem;

struct Site {
  std::uint64_t count = 0, failed = 0, bytes = 0, time_ns = 0, max_ns = 0;
  std::vector<std::uint64_t> path;
  const wire::SegmentHeader* segment = nullptr;
};

struct Files {
  // By path and operation; the path of what is beyond the table is "".
  std::map<std::pair<std::string, std::string>, std::vector<Site>> sites;
  std::map<std::string, const wire::IoFile*> by_path;
  std::uint64_t by_file_only = 0;

  std::uint64_t sum(const std::string& path, const std::string& operation, std::uint64_t Site::*what) const {
    const auto found = sites.find({path, operation});
    std::uint64_t all = 0;
    if (found != sites.end())
      for (const Site& site : found->second) all += site.*what;
    return all;
  }
};

template <typename Entry>
const Entry* table(const wire::SegmentHeader& segment, std::uint64_t offset) {
  return reinterpret_cast<const Entry*>(reinterpret_cast<const std::uint8_t*>(&segment) + offset);
}

void add(Files& files, const wire::SegmentHeader& segment) {
  const auto* const all = table<wire::IoFile>(segment, segment.io_files_offset);
  const auto* const sites = table<wire::IoSite>(segment, segment.io_sites_offset);
  const char* const arena = table<char>(segment, segment.path_arena_offset);
  const auto path_of = [&](const wire::IoFile& file) {
    return std::string(arena + file.path_offset, file.path_bytes);
  };
  const auto* const amounts = table<wire::IoAmount>(segment, segment.io_amounts_offset);
  for (std::uint32_t i = 0; i < segment.io_files; ++i) {
    if (all[i].ready.load() == 0) continue;
    files.by_path[path_of(all[i])] = &all[i];
    for (std::uint32_t operation = 0; operation < wire::kIoOperations; ++operation) {
      const wire::IoAmount& from = amounts[i * wire::kIoOperations + operation];
      if (from.count.load() == 0) continue;
      files.by_file_only += from.count.load();
      files.sites[{path_of(all[i]), wire::kIoOperationNames[operation]}].push_back(
          {from.count, from.failed, from.bytes, from.time_ns, from.max_ns, {}, &segment});
    }
  }
  for (std::uint32_t i = 0; i < segment.io_sites; ++i) {
    const wire::IoSite& site = sites[i];
    if (site.ready.load() == 0) continue;
    ASSERT_LT(site.file, segment.io_files);
    ASSERT_NE(all[site.file].ready.load(), 0u);
    ASSERT_LT(static_cast<std::uint32_t>(site.operation), wire::kIoOperations);
    const auto* const words = reinterpret_cast<const std::uint64_t*>(arena + site.path_offset);
    Site copy = {site.count, site.failed, site.bytes, site.time_ns, site.max_ns, {}, &segment};
    copy.path.assign(words, words + site.path_words);
    EXPECT_LE(copy.max_ns, copy.time_ns);
    EXPECT_LE(copy.failed, copy.count);
    files
        .sites[{path_of(all[site.file]), wire::kIoOperationNames[static_cast<std::uint32_t>(site.operation)]}]
        .push_back(std::move(copy));
  }
}

std::string function_of(const wire::SegmentHeader& segment, std::uint64_t code_id) {
  const auto* const slots = table<wire::CodeSlot>(segment, segment.code_slots_offset);
  for (std::uint32_t i = 0; i < segment.code_slots; ++i) {
    const std::uint64_t offset = slots[i].entry_offset.load();
    if (slots[i].key.load() != code_id || offset == 0 || offset == wire::kNoCodeEntry) continue;
    const auto* const entry = reinterpret_cast<const wire::CodeEntry*>(
        table<std::uint8_t>(segment, segment.code_arena_offset) + offset - 1);
    const char* const text = reinterpret_cast<const char*>(entry + 1);
    return std::string(text + entry->filename_bytes, entry->name_bytes);
  }
  return "";
}

bool has_function(const Site& site, const std::string& name, std::uint64_t start, std::uint64_t end) {
  for (std::size_t word = 0; word + 1 < site.path.size(); ++word) {
    const std::uint64_t instruction = site.path[word] & 0xffff'ffffu;
    if ((site.path[word] & wire::kFrameTagMask) == wire::kPythonFrameTag && instruction >= start &&
        instruction < end && function_of(*site.segment, site.path[word + 1]) == name)
      return true;
  }
  return false;
}

class FilesOf : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/clusterprof-files-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = fs::canonical(name).string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Records the command and compares what it says with the tables of all its processes. False when it says
  // that it misses something.
  bool record(std::vector<std::string> command, const std::vector<std::string>& environment = {},
              bool has_room = true) {
    const Outcome bare = run_bare(command);
    EXPECT_EQ(bare.wait_status, 0);
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    outcome_ = run(command, environment);
    EXPECT_TRUE(WIFEXITED(outcome_.wait_status)) << outcome_.wait_status << outcome_.output;
    EXPECT_EQ(outcome_.wait_status, bare.wait_status) << outcome_.output;
    if (!WIFEXITED(outcome_.wait_status) || WEXITSTATUS(outcome_.wait_status) != 0) return true;
    if (outcome_.output.rfind("skip", 0) == 0) return false;
    for (const ProcessLog& process : outcome_.processes) {
      add(files_, *process.segment);
      EXPECT_EQ(process.drops(wire::DropReason::kFaultInWalk), 0u);
      if (has_room) {
        EXPECT_EQ(process.drops(wire::DropReason::kIoSiteTableFull), 0u);
      }
    }
    std::istringstream lines(outcome_.output);
    std::size_t expectations = 0;
    for (std::string line; std::getline(lines, line);) expectations += compare(line) ? 1 : 0;
    EXPECT_GT(expectations, 0u) << outcome_.output;
    return true;
  }

  std::string folder_;
  Outcome outcome_;
  Files files_;

 private:
  bool compare(const std::string& line) {
    std::istringstream words(line);
    std::string kind, path, operation;
    words >> kind >> path >> operation;
    if (kind == "expect") {
      std::int64_t count = 0, bytes = 0;
      words >> count >> bytes;
      if (count >= 0) {
        EXPECT_EQ(files_.sum(path, operation, &Site::count), static_cast<std::uint64_t>(count)) << line;
      }
      EXPECT_EQ(files_.sum(path, operation, &Site::bytes), static_cast<std::uint64_t>(bytes)) << line;
      if (count != 0) {
        EXPECT_GT(files_.sum(path, operation, &Site::time_ns), 0u) << line;
      }
    } else if (kind == "atleast") {
      std::uint64_t bytes = 0;
      words >> bytes;
      const std::uint64_t there = files_.sum(path, operation, &Site::bytes);
      EXPECT_GE(there, bytes) << line;
      EXPECT_LE(there, bytes + bytes / 10) << line;
    } else if (kind == "place") {
      std::uint64_t start = 0, end = 0, inside = 0;
      words >> start >> end;
      for (const Site& site : files_.sites[{path, operation}])
        if (!site.path.empty() && site.path[0] >= start && site.path[0] < end) inside += site.count;
      EXPECT_EQ(inside, 100u) << line;
    } else if (kind == "function") {
      std::string name;
      std::uint64_t count = 0, start = 0, end = 0, inside = 0;
      words >> name;
      const bool exact = static_cast<bool>(words >> count >> start >> end);
      for (const Site& site : files_.sites[{path, operation}])
        if (has_function(site, name, start, exact ? end : ~std::uint64_t{0})) inside += site.count;
      if (exact) {
        EXPECT_EQ(inside, count) << line;
      } else {
        EXPECT_GT(inside, 0u) << line;
      }
    } else {
      return false;
    }
    return true;
  }
};

class FilesOfC : public FilesOf, public testing::WithParamInterface<std::string> {};

INSTANTIATE_TEST_SUITE_P(Modes, FilesOfC,
                         testing::Values("posix", "stdio", "descriptors", "processes", "threads", "handlers",
                                         "fibers"),
                         [](const auto& test) { return test.param; });

TEST_P(FilesOfC, CountsAgreeWithTheProgram) {
  ASSERT_TRUE(record({CLUSTERPROF_TEST_FILES, GetParam(), folder_}, {"CLUSTERPROF_RATE=1000"}));
  for (const auto& [path, file] : files_.by_path) {
    if (path.rfind(folder_, 0) != 0) continue;
    struct stat status = {};
    struct statfs system = {};
    ASSERT_EQ(stat(folder_.c_str(), &status), 0);
    ASSERT_EQ(statfs(folder_.c_str(), &system), 0);
    EXPECT_EQ(file->device, status.st_dev) << path;
    EXPECT_EQ(file->file_system, static_cast<std::uint64_t>(system.f_type)) << path;
  }
}

TEST_F(FilesOf, FailedCallsCountNoBytes) {
  ASSERT_TRUE(record({CLUSTERPROF_TEST_FILES, "posix", folder_}));
  EXPECT_EQ(files_.sum(folder_ + "/posix", "read", &Site::failed), 1u);
  EXPECT_EQ(files_.sum(folder_ + "/names", "open", &Site::failed), 1u);
  EXPECT_EQ(files_.sum(folder_ + "/posix", "write", &Site::failed), 0u);
}

TEST_F(FilesOf, SmallFilesBeyondTheTableAreCountedByDirectory) {
  ASSERT_TRUE(record({CLUSTERPROF_TEST_FILES, "many", folder_}, {}, false));
  ASSERT_EQ(outcome_.processes.size(), 1u);
  const ProcessLog& process = outcome_.processes[0];
  std::uint64_t small = 0, alone = 0;
  for (const auto& [key, sites] : files_.sites) {
    if (key.second != "write" || key.first.rfind(folder_ + "/file", 0) != 0) continue;
    ++alone;
    for (const Site& site : sites) {
      small += site.count;
      EXPECT_EQ(site.bytes, 13u);
    }
  }
  EXPECT_EQ(small, alone);
  // Of the last eighth of the table, files that are only written at first take nothing.
  const std::uint32_t room = process.segment->io_files * 7 / 8;
  EXPECT_GT(alone, room - 16);
  EXPECT_LE(alone, room);
  // The others, a header, and the first pieces of what turned out to be large.
  const std::string others = folder_ + "/*";
  EXPECT_EQ(files_.sum(others, "write", &Site::count), 10000 - alone + 1 + 15);
  EXPECT_EQ(files_.sum(others, "write", &Site::bytes), (10000 - alone + 1) * 13 + 15 * 65536);
  EXPECT_EQ(files_.by_path.count(""), 0u);
  const std::uint64_t with_others = process.drops(wire::DropReason::kIoFileTableFull);
  EXPECT_GE(with_others, 3 * (10000 - alone));  // opened, written, closed
  EXPECT_LE(with_others, 3 * (10000 - alone) + 24);
  EXPECT_EQ(process.drops(wire::DropReason::kIoSiteTableFull), files_.by_file_only);
  EXPECT_EQ(process.drops(wire::DropReason::kPathArenaFull), 0u);
}

TEST_F(FilesOf, FullTableOfCallPathsKeepsRoomForLargeOperations) {
  ASSERT_TRUE(record({CLUSTERPROF_TEST_FILES, "paths", folder_}, {}, false));
  ASSERT_EQ(outcome_.processes.size(), 1u);
  const ProcessLog& process = outcome_.processes[0];
  EXPECT_GT(files_.by_file_only, 1000u);
  EXPECT_EQ(process.drops(wire::DropReason::kIoSiteTableFull), files_.by_file_only);
  EXPECT_EQ(process.drops(wire::DropReason::kIoFileTableFull), 0u);
  EXPECT_EQ(process.drops(wire::DropReason::kPathArenaFull), 0u);
  EXPECT_LE(process.segment->path_arena_used.load(), process.segment->path_arena_bytes / 2);
  // Operations that move much have their callers.
  for (const Site& site : files_.sites[{folder_ + "/late", "read"}]) EXPECT_FALSE(site.path.empty());
  std::uint64_t with_callers = 0;
  for (const Site& site : files_.sites[{folder_ + "/slowly", "write"}])
    if (!site.path.empty()) with_callers += site.count;
  EXPECT_EQ(with_callers, 48u);
}

TEST_F(FilesOf, CppStreamsAgreeWithTheProgram) {
  ASSERT_TRUE(record({CLUSTERPROF_TEST_FILES_STREAMS, folder_}));
}

TEST_F(FilesOf, FortranAgreesWithTheProgram) {
  if (std::strlen(CLUSTERPROF_TEST_FILES_FORTRAN) == 0) GTEST_SKIP() << "no gfortran";
  ASSERT_TRUE(record({CLUSTERPROF_TEST_FILES_FORTRAN, folder_}));
}

TEST_F(FilesOf, PythonAgreesWithTheProgram) {
  ASSERT_TRUE(record({CLUSTERPROF_TEST_PYTHON, "-B", CLUSTERPROF_TEST_FILES_PYTHON, "plain", folder_}));
}

TEST_F(FilesOf, NumpyAgreesWithTheProgram) {
  if (!record({CLUSTERPROF_TEST_PYTHON, "-B", CLUSTERPROF_TEST_FILES_PYTHON, "numpy", folder_}))
    GTEST_SKIP() << outcome_.output;
}

TEST_F(FilesOf, Hdf5AgreesWithTheProgram) {
  if (!record({CLUSTERPROF_TEST_PYTHON, "-B", CLUSTERPROF_TEST_FILES_PYTHON, "hdf5", folder_}))
    GTEST_SKIP() << outcome_.output;
}

class FilesOfMpi : public FilesOf, public testing::WithParamInterface<std::string> {};

INSTANTIATE_TEST_SUITE_P(Flavours, FilesOfMpi, testing::Values("openmpi", "mpich"),
                         [](const auto& test) { return test.param; });

TEST_P(FilesOfMpi, CountsAgreeWithItsSystemCalls) {
  const std::string program = std::string(CLUSTERPROF_TEST_PROGRAMS) + "/" + GetParam() + "/files_mpi";
  const std::string launcher = "/usr/bin/mpirun." + GetParam();
  if (!fs::exists(program) || !fs::exists(launcher)) GTEST_SKIP() << "no " << GetParam();
  std::vector<std::string> command = {launcher, "-n", "3"};
  if (GetParam() == "openmpi") command.emplace_back("--oversubscribe");
  command.insert(command.end(), {program, folder_});
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  ASSERT_TRUE(record(command));
}

}  // namespace
}  // namespace clusterprof::agent_test
