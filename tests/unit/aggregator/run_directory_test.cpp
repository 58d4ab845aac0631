// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/run_directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <new>
#include <optional>
#include <set>
#include <string>

#include "aggregator/abandoned_files.hpp"
#include "aggregator/notes.hpp"
#include "base/process_mark.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/profile/profile_writer.hpp"
#include "formats/shard/shard_writer.hpp"
#include "formats/synth/synthetic_run.hpp"
#include "tests/unit/formats/random_shard.hpp"

namespace clusterprof::aggregator {
namespace {

namespace fs = std::filesystem;
using shard::NoteCode;
using shard::ShardData;

class RunDirectoryTest : public ::testing::Test {
 protected:
  void write_shards(std::uint32_t nodes) {
    shape_.nodes = nodes;
    for (std::uint32_t node = 0; node < nodes; ++node) write_shard(node);
  }
  void write_shard(std::uint32_t node) {
    ASSERT_TRUE(shard::write_shard(synth::shard_of_node(shape_, node), shard_path(node)));
  }
  fs::path shard_path(std::uint32_t node) const {
    return run_ / ("node-node000" + std::to_string(node) + ".h5");
  }
  void damage(const fs::path& path) {
    auto bytes = testing::read_bytes(path);
    bytes.resize(bytes.size() / 2);
    testing::write_bytes(path, bytes);
  }
  static ShardData head_of(ShardData data) {
    data.values.clear();
    data.path_counters.clear();
    data.data_accesses.clear();
    return data;
  }
  static bool has_note(const ShardData& data, const shard::Note& wanted) {
    return std::count(data.run.notes.begin(), data.run.notes.end(), wanted) == 1;
  }

  testing::TemporaryDirectory directory_;
  const fs::path run_ = directory_.path();
  const fs::path profile_ = run_ / kProfileName;
  synth::Shape shape_{.nodes = 3, .ranks_per_node = 2, .paths = 50, .seed = 4};
};

// Files of a killed writer are removed. Files that a writer on another machine is still writing are kept,
// however long that takes.
TEST_F(RunDirectoryTest, KeepsTemporaryFilesThatAreLocked) {
  const auto temporary_files = [&] {
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(run_))
      if (entry.path().extension() == ".tmp") found.push_back(entry.path());
    return found;
  };
  std::optional<profile::ProfileWriter> writer = profile::ProfileWriter::create(profile_).value();
  ASSERT_EQ(temporary_files().size(), 1u);
  // As if the process were on another machine: no process here has that number.
  const fs::path elsewhere = run_ / ".profile.h5.4194400.1.0123456789abcdef.1.tmp",
                 left = run_ / ".profile.h5.4194400.1.0123456789abcdef.2.tmp";
  fs::create_hard_link(temporary_files()[0], elsewhere);
  std::ofstream(left) << "half a profile";
  const auto hours_ago = fs::file_time_type::clock::now() - std::chrono::hours(30);
  for (const fs::path& path : {elsewhere, left}) fs::last_write_time(path, hours_ago);
  remove_abandoned(profile_);
  EXPECT_TRUE(fs::exists(elsewhere));
  EXPECT_FALSE(fs::exists(left));
  writer.reset();
  fs::last_write_time(elsewhere, hours_ago);
  remove_abandoned(profile_);
  EXPECT_TRUE(temporary_files().empty());
}

// No file is a minute old here.
TEST_F(RunDirectoryTest, FilesOfProcessesOfThisMachineThatHaveEndedGoAtOnce) {
  const auto temporary_files = [&] {
    std::set<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(run_))
      if (entry.path().extension() == ".tmp") found.insert(entry.path().filename().string());
    return found;
  };
  const auto file_of = [&](const ProcessMark& writer) {
    const std::string name = ".profile.h5." + to_string(writer) + ".1.tmp";
    std::ofstream(run_ / name) << "half a profile";
    return name;
  };
  // Killed while it writes.
  const pid_t child = fork();
  if (child == 0) {
    const auto writer = profile::ProfileWriter::create(profile_);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  ASSERT_EQ(temporary_files().size(), 1u);

  const ProcessMark own = mark_of_this_process();
  ASSERT_FALSE(own.machine.empty());
  ProcessMark earlier = own;  // a process that had this one's number before
  earlier.start_ticks -= 1;
  file_of(earlier);
  ProcessMark elsewhere = earlier;  // whose machine is not this one
  elsewhere.pid = 4194400;
  elsewhere.machine = "0123456789abcdef";
  ProcessMark unknown = elsewhere;
  unknown.machine.clear();
  const std::set<std::string> stay = {file_of(own), file_of(elsewhere), file_of(unknown)};
  remove_abandoned(profile_);
  EXPECT_EQ(temporary_files(), stay);
}

// As if collectors and launchers had been killed: what they left is removed when nobody can need it any more.
class LeftoversTest : public RunDirectoryTest {
 protected:
  void SetUp() override {
    fs::create_directory(run_);
    fs::create_symlink("slurm-1#00112233445566778899aabbccddeeff", run_ / ".run");
    fs::create_symlink(run_.filename(), link_);
    fs::create_symlink("2", run_ / ".left-node0000");
    fs::create_directory(clocks_);
    fs::create_symlink("n1", clocks_ / "asks");
    std::ofstream(claim_) << "";
    std::ofstream(half_written_) << "half a shard";
  }
  void leave_incomplete(std::uint32_t node, const std::optional<shard::Note>& note = {}) {
    ShardData data = synth::shard_of_node(shape_, node);
    if (note) data.run.notes.push_back(*note);
    data.run.complete = false;
    for (shard::Rank& rank : data.ranks) rank.flags |= shard::kLost;
    ASSERT_TRUE(shard::write_shard(data, shard_path(node)));
  }
  std::vector<std::string> left() {
    std::vector<std::string> names;
    for (const fs::path& place : {run_, run_.parent_path()}) {
      for (const fs::directory_entry& entry : fs::directory_iterator(place)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with('.') && name != ".run") names.push_back(name);
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  void let_a_minute_pass() {
    const auto before = fs::file_time_type::clock::now() - std::chrono::seconds(70);
    for (const fs::directory_entry& entry : fs::directory_iterator(run_))
      if (entry.is_regular_file()) fs::last_write_time(entry.path(), before);
    const timespec then{time(nullptr) - 70, 0}, times[] = {then, then};
    ASSERT_EQ(utimensat(AT_FDCWD, (run_ / ".run").c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
  }

  const fs::path run_ = directory_.path() / "run";
  fs::path shard_path(std::uint32_t node) const {
    return run_ / ("node-node000" + std::to_string(node) + ".h5");
  }
  const fs::path link_ = directory_.path() / ".clusterprof-slurm-1", clocks_ = run_ / ".clocks-1",
                 claim_ = run_ / ".node-node0001.claim",
                 half_written_ = run_ / ".node-node0001.h5.4194400.1.tmp";
};

TEST_F(LeftoversTest, AreRemovedWhenTheRunHasEnded) {
  for (std::uint32_t node = 0; node < 3; ++node)
    ASSERT_TRUE(shard::write_shard(synth::shard_of_node(shape_, node), shard_path(node)));
  EXPECT_EQ(left().size(), 5u);
  ASSERT_TRUE(merge_run(run_));
  EXPECT_EQ(left(), std::vector<std::string>{});
}

TEST_F(LeftoversTest, OfNodesThatMayStillRunAreKept) {
  for (std::uint32_t node = 0; node < 3; ++node) leave_incomplete(node);
  ASSERT_TRUE(merge_run(run_));
  // All ranks have met, but clocks are compared at the end, too, and a shard may still be written.
  EXPECT_EQ(left(), (std::vector<std::string>{clocks_.filename(), half_written_.filename()}));
  let_a_minute_pass();
  ASSERT_TRUE(open_run(run_));
  EXPECT_EQ(left(), std::vector<std::string>{});
}

TEST_F(LeftoversTest, OfNodesThatMayBeStartingAreKept) {
  leave_incomplete(0);
  ASSERT_TRUE(merge_run(run_));
  EXPECT_EQ(left().size(), 5u);
  ASSERT_TRUE(open_run(run_));
  EXPECT_EQ(left().size(), 5u);
  let_a_minute_pass();
  ASSERT_TRUE(open_run(run_));
  EXPECT_EQ(left(), std::vector<std::string>{});
}

TEST_F(LeftoversTest, OfARunWithoutShardsAreRemovedAfterAMinute) {
  EXPECT_FALSE(open_run(run_));
  EXPECT_EQ(left().size(), 5u);
  let_a_minute_pass();
  EXPECT_FALSE(open_run(run_));
  EXPECT_EQ(left(), std::vector<std::string>{});
}

// A collector whose file server does not answer may take long for its last shard.
TEST_F(LeftoversTest, OfAShardBeingWrittenAreKept) {
  leave_incomplete(0);
  let_a_minute_pass();
  std::ofstream(half_written_, std::ios::app) << "more";
  ASSERT_TRUE(open_run(run_));
  EXPECT_EQ(left(), std::vector<std::string>{half_written_.filename()});
  let_a_minute_pass();
  ASSERT_TRUE(open_run(run_));
  EXPECT_EQ(left(), std::vector<std::string>{});
}

// Its collectors may still be at work.
TEST_F(LeftoversTest, OfARunWithAnIntervalOfTenMinutesAreKept) {
  leave_incomplete(0, note_of_run(NoteCode::kCheckpointInterval, 600));
  let_a_minute_pass();
  ASSERT_TRUE(open_run(run_));
  EXPECT_EQ(left().size(), 5u);
}

TEST_F(LeftoversTest, OfARunThatHasNothingButDataOnANodeTheErrorSaysWhere) {
  fs::remove_all(run_);
  fs::create_directory(run_);
  std::ofstream(claim_) << "node0001:/tmp/clusterprof-0/12.h5\n";
  const auto opened = open_run(run_);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("node0001:/tmp/clusterprof-0/12.h5"), std::string::npos);
  EXPECT_TRUE(fs::exists(claim_));
}

TEST_F(LeftoversTest, OfARunWhoseShardsAreStillOnTheNodesAreKeptAndTheReportSaysWhere) {
  leave_incomplete(0);
  std::ofstream(claim_) << "node0001:/tmp/clusterprof-0/12.h5\n";
  let_a_minute_pass();
  auto opened = open_run(run_);
  ASSERT_TRUE(opened);
  EXPECT_TRUE(has_note(*opened.value().head().value(),
                       note_of_node(NoteCode::kShardLeftOnNode, "node0001", 0, "/tmp/clusterprof-0/12.h5")));
  EXPECT_EQ(left().size(), 5u);
  // It came in the end.
  ASSERT_TRUE(shard::write_shard(synth::shard_of_node(shape_, 1), shard_path(1)));
  fs::remove(claim_);
  auto again = open_run(run_);
  ASSERT_TRUE(again);
  for (const shard::Note& note : again.value().head().value()->run.notes)
    EXPECT_NE(note.code, NoteCode::kShardLeftOnNode);
}

TEST_F(LeftoversTest, InSubdirectoriesAreRemovedToo) {
  const fs::path below = run_ / "shards-07";
  fs::create_directory(below);
  for (std::uint32_t node = 0; node < 3; ++node)
    ASSERT_TRUE(shard::write_shard(synth::shard_of_node(shape_, node), below / shard_path(node).filename()));
  const fs::path claim = below / ".node-node0002.claim", half_written = below / ".node-node0002.h5.1.2.tmp";
  std::ofstream(claim) << "";
  std::ofstream(half_written) << "x";
  ASSERT_TRUE(merge_run(run_));
  EXPECT_EQ(left(), std::vector<std::string>{claim_.filename()});  // there is no such shard beside it
  EXPECT_FALSE(fs::exists(claim));
  EXPECT_FALSE(fs::exists(half_written));
}

// The owner of the directory could replace entries in it while it is being cleaned up.
TEST_F(LeftoversTest, OfAnotherUsersRunAreKept) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  for (std::uint32_t node = 0; node < 3; ++node)
    ASSERT_TRUE(shard::write_shard(synth::shard_of_node(shape_, node), shard_path(node)));
  ASSERT_EQ(::chown(run_.c_str(), 1, 1), 0);
  ASSERT_TRUE(merge_run(run_));
  let_a_minute_pass();
  ASSERT_TRUE(open_run(run_));
  EXPECT_EQ(left().size(), 5u);
  // The same holds for somebody else's directory of links inside our own directory.
  ASSERT_EQ(::chown(run_.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(clocks_.c_str(), 1, 1), 0);
  ASSERT_TRUE(open_run(run_));
  EXPECT_EQ(left(), std::vector<std::string>{clocks_.filename()});
  EXPECT_TRUE(fs::is_symlink(clocks_ / "asks"));
}

// Another run's link, and something that is not a directory of links.
TEST_F(LeftoversTest, OfOtherProgramsAreKept) {
  for (std::uint32_t node = 0; node < 3; ++node)
    ASSERT_TRUE(shard::write_shard(synth::shard_of_node(shape_, node), shard_path(node)));
  fs::remove(link_);
  fs::create_symlink("another", link_);
  const fs::path elsewhere = directory_.path() / "elsewhere";
  fs::create_directory(elsewhere);
  fs::create_symlink("x", elsewhere / "link");
  fs::create_directory_symlink(elsewhere, run_ / ".clocks");
  std::ofstream(clocks_ / "a file") << "somebody's";
  ASSERT_TRUE(merge_run(run_));
  EXPECT_EQ(left(), (std::vector<std::string>{".clocks", ".clocks-1", ".clusterprof-slurm-1"}));
  EXPECT_TRUE(fs::is_symlink(elsewhere / "link"));
  EXPECT_TRUE(fs::exists(clocks_ / "a file"));
}

TEST_F(RunDirectoryTest, LostRanksMakeARunIncomplete) {
  write_shards(2);
  ShardData data = synth::shard_of_node(shape_, 1);
  data.ranks[0].flags |= shard::kLost;
  ASSERT_TRUE(shard::write_shard(data, shard_path(1)));
  const ShardData merged = load_run(run_).value();
  EXPECT_FALSE(merged.run.complete);
  EXPECT_TRUE(merged.run.notes.empty());
}

// The profile can be written, but the analysis that is to be in it is not there: that is no damage of a file.
TEST_F(RunDirectoryTest, AnAnalysisWithoutMemoryIsNoErrorOfTheFile) {
  class Greedy final : public RankObserver {
   public:
    void begin(const ShardData&) override {}
    void add(const shard::RankRows&) override {}
    [[nodiscard]] Bytes state() const override { return {}; }
    [[nodiscard]] Result<void> absorb(std::span<const std::byte>) override { return {}; }
    [[nodiscard]] Bytes finish() override { throw std::bad_alloc(); }
  };
  write_shards(2);
  for (const std::size_t threads : {1u, 2u}) {
    Greedy observer;
    MergeOptions options;
    options.observer = &observer, options.threads = threads;
    EXPECT_THROW((void)merge_run(run_, options), std::bad_alloc) << threads;
    for (const fs::directory_entry& entry : fs::directory_iterator(run_))
      EXPECT_TRUE(entry.path().filename().string().starts_with("node-")) << entry.path();
  }
}

TEST_F(RunDirectoryTest, MergesAndStores) {
  write_shards(3);
  std::ofstream(run_ / "report.txt") << "no shard";
  std::ofstream(run_ / ".node-x.h5.1.tmp") << "no shard either";
  const Result<MergeReport> merged = merge_run(run_);
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ(merged.value().shards, 3u);
  EXPECT_FALSE(merged.value().write_error);
  const ShardData& head = merged.value().head;
  EXPECT_TRUE(head.run.complete);
  EXPECT_TRUE(head.run.notes.empty());
  EXPECT_EQ(head.ranks.size(), 6u);
  EXPECT_TRUE(head.values.empty());
  EXPECT_EQ(head_of(profile::read_profile(profile_).value()), head);
  EXPECT_TRUE(is_up_to_date(run_));
  EXPECT_EQ(load_run(run_).value(), profile::read_profile(profile_).value());
}

TEST_F(RunDirectoryTest, ShardsMayBeInSubdirectories) {
  write_shards(4);
  const ShardData flat = load_run(run_).value();
  fs::remove(profile_);
  for (const std::uint32_t node : {1, 3}) {
    const fs::path below = run_ / (node == 1 ? "shards-00" : "shards-3f");
    fs::create_directory(below);
    fs::rename(shard_path(node), below / shard_path(node).filename());
  }
  fs::create_directory(run_ / "shards-xy");  // none of ours
  std::ofstream(run_ / "shards-xy" / "node-n.h5") << "x";
  const Result<MergeReport> merged = merge_run(run_);
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ(merged.value().shards, 4u);
  EXPECT_TRUE(is_up_to_date(run_));
  const ShardData data = load_run(run_).value();
  EXPECT_EQ(data.ranks.size(), flat.ranks.size());
  EXPECT_EQ(data.values.size(), flat.values.size());
  std::vector<std::string> names;
  const auto sources = profile::read_sources(profile_);
  for (const profile::Source& source : sources.value()) names.push_back(source.name);
  EXPECT_EQ(names, (std::vector<std::string>{"node-node0000.h5", "node-node0002.h5",
                                             "shards-00/node-node0001.h5", "shards-3f/node-node0003.h5"}));
  // A further merge reuses what is there, and notices what has changed below.
  EXPECT_EQ(merge_run(run_).value().reused, 4u);
  damage(run_ / "shards-3f" / "node-node0003.h5");
  EXPECT_FALSE(is_up_to_date(run_));
  EXPECT_NE(merge_run(run_).error().message.find("shards-3f/node-node0003.h5"), std::string::npos);
}

TEST_F(RunDirectoryTest, ReportsADirectoryWithoutShards) {
  EXPECT_NE(merge_run(run_).error().message.find("nothing found"), std::string::npos);
  EXPECT_NE(load_run(run_).error().message.find("nothing found"), std::string::npos);
  EXPECT_FALSE(merge_run(run_ / "none"));
}

TEST_F(RunDirectoryTest, NamesMissingRanks) {
  write_shards(3);
  fs::remove(shard_path(1));
  const ShardData data = load_run(run_).value();
  EXPECT_FALSE(data.run.complete);
  EXPECT_TRUE(has_note(data, note_of_ranks(NoteCode::kMissingRanks, {2, 3}, 2)));
}

TEST_F(RunDirectoryTest, NamesTheFirstMissingRanksOfHugeJobs) {
  ShardData data;
  for (std::int32_t rank = 1; rank < 200; rank += 2) data.ranks.emplace_back().rank = rank;
  data.run.world_size = shard::kMaxWorldSize;
  note_missing_ranks(data);
  ASSERT_EQ(data.run.notes.size(), 24u) << "the first ranges stand for all";
  const std::size_t missing = shard::kMaxWorldSize - data.ranks.size();
  for (std::int32_t i = 0; i < 24; ++i)
    EXPECT_TRUE(has_note(data, note_of_ranks(NoteCode::kMissingRanks, {2 * i, 2 * i}, missing)));

  ShardData unbelievable;  // shards with this are refused; here it only must not cost memory
  unbelievable.run.world_size = 4'000'000'000u;
  note_missing_ranks(unbelievable);
  const auto most = static_cast<std::int32_t>(shard::kMaxWorldSize);
  EXPECT_TRUE(
      has_note(unbelievable, note_of_ranks(NoteCode::kMissingRanks, {0, most - 1}, shard::kMaxWorldSize)));
}

TEST_F(RunDirectoryTest, NamesAnIncompleteShard) {
  write_shards(2);
  ShardData data = synth::shard_of_node(shape_, 1);
  data.run.complete = false;
  ASSERT_TRUE(shard::write_shard(data, shard_path(1)));
  const ShardData merged = load_run(run_).value();
  EXPECT_FALSE(merged.run.complete);
  EXPECT_TRUE(has_note(merged, note_of_run(NoteCode::kIncompleteShard, 0, "node-node0001.h5")));
}

TEST_F(RunDirectoryTest, RefusesOrLeavesOutADamagedShard) {
  write_shards(3);
  damage(shard_path(2));
  const Result<MergeReport> refused = merge_run(run_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message.find(shard_path(2).string()), 0u);
  EXPECT_EQ(refused.error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(merge_run(run_ / "elsewhere").error().kind, ErrorKind::kOther);
  EXPECT_FALSE(load_run(run_));
  EXPECT_FALSE(fs::exists(profile_));

  const Result<MergeReport> partial = merge_run(run_, {.partial = true});
  ASSERT_TRUE(partial);
  EXPECT_EQ(partial.value().shards, 2u);
  ASSERT_EQ(partial.value().warnings.size(), 1u);
  EXPECT_FALSE(partial.value().head.run.complete);
  EXPECT_TRUE(has_note(partial.value().head, note_of_run(NoteCode::kDamagedShard, 0, "node-node0002.h5")));
  EXPECT_TRUE(load_run(run_)) << "what --partial decided holds until a shard changes";
}

TEST_F(RunDirectoryTest, FailsIfAllShardsAreDamaged) {
  write_shards(1);
  damage(shard_path(0));
  EXPECT_FALSE(merge_run(run_, {.partial = true}));
}

TEST_F(RunDirectoryTest, MakesTheProfileAgainWhenShardsChange) {
  write_shards(3);
  ASSERT_TRUE(merge_run(run_));
  fs::remove(shard_path(2));
  EXPECT_FALSE(is_up_to_date(run_)) << "a shard is gone";
  EXPECT_EQ(load_run(run_).value().ranks.size(), 4u);
  EXPECT_TRUE(is_up_to_date(run_));

  write_shard(2);
  EXPECT_FALSE(is_up_to_date(run_)) << "a shard is new";
  ASSERT_TRUE(merge_run(run_));
  fs::last_write_time(shard_path(2), fs::last_write_time(profile_) + std::chrono::seconds(1));
  EXPECT_FALSE(is_up_to_date(run_)) << "a shard is newer";
  fs::last_write_time(shard_path(2), fs::last_write_time(profile_) - std::chrono::seconds(1));
  EXPECT_TRUE(is_up_to_date(run_));
  std::ofstream(shard_path(2), std::ios::app) << "more";
  fs::last_write_time(shard_path(2), fs::last_write_time(profile_) - std::chrono::seconds(1));
  EXPECT_FALSE(is_up_to_date(run_)) << "a shard has another size";
}

// A collector writes its shard in place, in any moment: also while a profile of the shard before is written.
TEST_F(RunDirectoryTest, AProfileIsNoNewerThanTheShardsThatItWasMadeFrom) {
  write_shards(1);
  const fs::path shard = shard_path(0);
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(shard, long_ago);
  ASSERT_TRUE(merge_run(run_));
  EXPECT_TRUE(is_up_to_date(run_));
  fs::last_write_time(shard, long_ago + std::chrono::milliseconds(1));
  EXPECT_FALSE(is_up_to_date(run_)) << "it was written before the profile was, but is not in it";
}

TEST_F(RunDirectoryTest, MakesADamagedProfileAgain) {
  write_shards(2);
  const ShardData data = load_run(run_).value();
  damage(profile_);
  EXPECT_EQ(load_run(run_).value(), data);
  EXPECT_TRUE(profile::read_profile(profile_));
}

TEST_F(RunDirectoryTest, ReadsAProfileWithoutItsShards) {
  write_shards(2);
  const ShardData data = load_run(run_).value();
  fs::remove(shard_path(0));
  fs::remove(shard_path(1));
  EXPECT_EQ(load_run(run_).value(), data);
  damage(profile_);
  EXPECT_FALSE(load_run(run_));
}

TEST_F(RunDirectoryTest, MergesInMemoryWhereItCannotWrite) {
  write_shards(2);
  fs::create_directory(profile_);  // works for root too, unlike taking away permissions
  const Result<MergeReport> merged = merge_run(run_);
  ASSERT_TRUE(merged);
  ASSERT_TRUE(merged.value().write_error);
  EXPECT_EQ(merged.value().write_error->message.find(profile_.string()), 0u);
  const Result<ShardData> elsewhere = load_run(run_);
  ASSERT_TRUE(elsewhere) << elsewhere.error().message;
  EXPECT_EQ(head_of(elsewhere.value()), merged.value().head);
  EXPECT_FALSE(elsewhere.value().values.empty());
}

TEST_F(RunDirectoryTest, NotesShardsOfDifferentRuns) {
  write_shards(2);
  ShardData data = synth::shard_of_node(shape_, 1);
  data.run.id = "another";
  ASSERT_TRUE(shard::write_shard(data, shard_path(1)));
  EXPECT_TRUE(has_note(load_run(run_).value(), note_of_run(NoteCode::kDifferentRuns)));
}

TEST_F(RunDirectoryTest, MergesTwoShardsOfANode) {
  write_shards(2);
  const ShardData whole = synth::shard_of_node(shape_, 1);
  ShardData second = whole;
  second.ranks.erase(second.ranks.begin());
  second.values.clear();
  second.mpi_calls.clear();
  second.counter_values.clear();
  second.path_counters.clear();
  second.drops.clear();
  second.handler_costs.clear();
  second.rank_series.clear();
  second.io_calls.clear();
  second.data_accesses.clear();
  second.region_times.clear();
  second.ranks[0].rank = 4;
  second.run.world_size = 5;
  ASSERT_TRUE(shard::write_shard(second, run_ / "node-node0001.2.h5"));
  const ShardData data = load_run(run_).value();
  EXPECT_EQ(data.nodes.size(), 2u);
  EXPECT_EQ(data.ranks.size(), 5u);
  EXPECT_EQ(data.ranks[4].node, 1u);
  EXPECT_EQ(data.nodes[1].cpu_ns, 2 * whole.nodes[0].cpu_ns);
}

TEST_F(RunDirectoryTest, ExplainsWaitingAndStoresIt) {
  shape_.events = 1400;
  write_shards(3);
  const Result<MergeReport> merged = merge_run(run_);
  ASSERT_TRUE(merged) << merged.error().message;
  const ShardData& data = merged.value().head;
  EXPECT_TRUE(data.wait_analysis.done);
  EXPECT_EQ(data.wait_analysis.events, 6 * 1400u);
  EXPECT_EQ(data.wait_analysis.operations, 6 * 1000u);
  EXPECT_EQ(data.wait_analysis.unmatched_messages, 0u);
  EXPECT_TRUE(data.mpi_events.empty());
  EXPECT_TRUE(data.event_gaps.empty());
  EXPECT_TRUE(data.clock_offsets.empty());
  ASSERT_FALSE(data.root_causes.empty());
  const auto worst = std::max_element(data.root_causes.begin(), data.root_causes.end(),
                                      [](const auto& a, const auto& b) { return a.wait_ns < b.wait_ns; });
  EXPECT_EQ(data.ranks[worst->rank].rank, static_cast<std::int32_t>(synth::slowest_rank(shape_)));
  EXPECT_EQ(data.strings[data.frames[data.paths[worst->path].frame].name], "Solver.step");
  EXPECT_EQ(head_of(profile::read_profile(profile_).value()), data);
  const auto bytes = testing::read_bytes(profile_);
  ASSERT_TRUE(merge_run(run_));
  EXPECT_EQ(testing::read_bytes(profile_), bytes);
}

// The shard of a collector that died is not analysed together with the one that the next collector wrote.
TEST_F(RunDirectoryTest, TakesTheEventsOfARankFromOneShard) {
  shape_.events = 1400;
  write_shards(3);
  const ShardData alone = merge_run(run_).value().head;
  ShardData left = synth::shard_of_node(shape_, 1);
  left.run.complete = false;
  for (shard::Rank& rank : left.ranks) {
    rank.flags |= shard::kLost;
    rank.elapsed_ns /= 2;
  }
  for (shard::MpiEvent& event : left.mpi_events) event.exit_ns += 100;  // told apart from the others
  ASSERT_TRUE(shard::write_shard(left, run_ / "node-node0001.2.h5"));
  ShardData both = merge_run(run_).value().head;
  EXPECT_TRUE(std::any_of(both.run.notes.begin(), both.run.notes.end(),
                          [](const shard::Note& note) { return note.code == NoteCode::kRepeatedRanks; }));
  EXPECT_EQ(both.wait_analysis, alone.wait_analysis);
  EXPECT_EQ(both.wait_states, alone.wait_states);
  EXPECT_EQ(both.root_causes, alone.root_causes);
  EXPECT_EQ(both.critical_times, alone.critical_times);
  EXPECT_EQ(both.time_windows, alone.time_windows);
  EXPECT_EQ(both.ranks, alone.ranks);
}

}  // namespace
}  // namespace clusterprof::aggregator
