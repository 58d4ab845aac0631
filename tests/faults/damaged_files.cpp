// SPDX-License-Identifier: BSD-3-Clause
// Damages shards of a run, and profiles, at random: cuts them off, flips bits, overwrites and exchanges
// parts. A merge must then say in one line which shard is damaged; a partial one leaves it out, names it, and
// has every figure of the others right. Reading a profile gives what was written, or an error that names it.
// Never a crash or a hang: cases run in processes of their own.
//
//   damaged_files [CASES [SEED [JOBS]]]     exit status: 0 all good, 1 not
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "aggregator/run_directory.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/shard/shard_writer.hpp"
#include "formats/synth/random.hpp"
#include "formats/synth/synthetic_run.hpp"

namespace {

namespace fs = std::filesystem;
using namespace clusterprof;
using Content = std::vector<char>;

constexpr std::uint32_t kNodes = 3;
constexpr unsigned kAll = (1u << kNodes) - 1;
constexpr unsigned kHang_s = 30;
constexpr std::int64_t kMaxMemoryKiB = 400 * 1024;

using synth::Random;

// What a merge says about a run, with all its rows. Notes are kept apart, because they report the damage.
struct Figures {
  using Key = std::tuple<std::int32_t, std::uint32_t, std::uint32_t, int>;
  shard::ShardData head;
  std::map<Key, std::array<std::uint64_t, 5>> rows;  // by rank, path, category or counter, table
  friend bool operator==(const Figures&, const Figures&) = default;
};

class Collector final : public aggregator::RankObserver {
 public:
  void begin(const shard::ShardData& head) override {
    head_ = &head;
    rows.clear();
  }
  void add(const shard::RankRows& from) override {
    const std::int32_t rank = head_->ranks.at(from.rank).rank;
    for (const shard::Value& v : from.values)
      rows[{rank, v.path, static_cast<std::uint32_t>(v.category) * 2 + (v.main_thread ? 1 : 0), 0}] = {
          v.wall_ns, v.cpu_ns, v.samples, 0, 0};
    for (const shard::PathCounter& c : from.path_counters)
      rows[{rank, c.path, c.counter, 1}] = {c.value, 0, 0, 0, 0};
    for (const shard::DataAccess& a : from.data_accesses)
      rows[{rank, a.path, 0, 2}] = {a.samples, a.accesses, a.blocks[0] ^ a.blocks[1], a.blocks[2],
                                    a.blocks[3]};
  }
  [[nodiscard]] aggregator::Bytes state() const override { return {}; }
  [[nodiscard]] Result<void> absorb(std::span<const std::byte>) override { return {}; }
  [[nodiscard]] aggregator::Bytes finish() override { return aggregator::Bytes(5000, std::byte{7}); }

  std::map<Figures::Key, std::array<std::uint64_t, 5>> rows;

 private:
  const shard::ShardData* head_ = nullptr;
};

Content read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const Content& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
}

// What was done to a file; `text` for messages.
struct Damage {
  bool cut = false;
  std::string text;
};

Damage damage(Content& content, Random& random) {
  const std::size_t size = content.size();
  const auto range = [&](std::size_t most) {
    const std::size_t length = 1 + random.below(std::min(most, size));
    return std::pair(random.below(size - length + 1), length);
  };
  const auto text = [](const char* what, std::size_t at, std::size_t length) {
    return std::string(what) + " " + std::to_string(at) + " " + std::to_string(length);
  };
  switch (random.below(10)) {
    case 0:
    case 1:
    case 2: {
      const std::size_t keep = random.below(8) == 0 ? size - 1 - random.below(64) : random.below(size);
      content.resize(keep);
      return {true, text("cut at", keep, 0)};
    }
    case 3: {
      const std::size_t flips = 2 + random.below(30);
      for (std::size_t i = 0; i < flips; ++i)
        content[random.below(size)] ^= static_cast<char>(1 << random.below(8));
      return {false, text("flipped bits, number", flips, 0)};
    }
    case 4: {
      const auto [at, length] = range(600);
      const char with = std::array<char, 3>{0, -1, 0x55}[random.below(3)];
      std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(at), length, with);
      return {false, text("overwritten", at, length)};
    }
    case 5: {
      const auto [at, length] = range(4096);
      const std::size_t from = random.below(size - length + 1);
      const Content part(content.begin() + static_cast<std::ptrdiff_t>(from),
                         content.begin() + static_cast<std::ptrdiff_t>(from + length));
      std::copy(part.begin(), part.end(), content.begin() + static_cast<std::ptrdiff_t>(at));
      return {false, text("exchanged", at, length)};
    }
    default: {
      // The first part and the ends hold what HDF5 trusts most.
      const std::size_t at =
          random.below(4) == 0 ? random.below(std::min<std::size_t>(size, 4096)) : random.below(size);
      content[at] ^= static_cast<char>(1 << random.below(8));
      return {false, text("flipped a bit at", at, 0)};
    }
  }
}

bool one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == std::string::npos && text.size() < 2000;
}

struct Originals {
  std::vector<std::string> names;
  std::vector<Content> shards;
  std::array<Figures, kAll + 1> figures;  // by the set of shards
  Content profile;
  shard::ShardData profile_data;
  profile::PathStatisticsTable statistics;
  std::vector<profile::Source> sources;
  std::vector<std::byte> report;
};

struct Merged {
  Result<aggregator::MergeReport> report;
  Figures figures;
};

Merged merge(const fs::path& directory, bool partial, bool write_profile = false) {
  Collector rows;
  aggregator::MergeOptions options;
  options.partial = partial;
  options.write = write_profile;
  options.observer = &rows;
  Merged merged{aggregator::merge_run(directory, options), {}};
  if (merged.report) merged.figures = {merged.report.value().head, std::move(rows.rows)};
  merged.figures.head.run.notes.clear();
  return merged;
}

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "damaged_files: %s\n", what.c_str());
  std::_Exit(2);
}

Originals make_originals(const fs::path& directory) {
  Originals made;
  const synth::Shape shape{
      .nodes = kNodes, .ranks_per_node = 2, .paths = 60, .seed = 3, .events = 70, .bins = 8};
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    const shard::ShardData data = synth::shard_of_node(shape, node);
    made.names.push_back("node-" + data.nodes[0].name + ".h5");
    if (const Result<void> written = shard::write_shard(data, directory / made.names.back()); !written)
      give_up(written.error().message);
    made.shards.push_back(read(directory / made.names.back()));
  }
  for (unsigned set = kAll; set != 0; --set) {
    for (std::uint32_t node = 0; node < kNodes; ++node) {
      fs::remove(directory / made.names[node]);
      if ((set >> node & 1u) != 0) write(directory / made.names[node], made.shards[node]);
    }
    Merged merged = merge(directory, false, set == kAll);
    if (!merged.report) give_up(merged.report.error().message);
    made.figures[set] = std::move(merged.figures);
    if (set != kAll) continue;
    const fs::path path = directory / aggregator::kProfileName;
    made.profile = read(path);
    auto reader = profile::ProfileReader::open(path);
    auto data = profile::read_profile(path);
    if (!reader || !data) give_up("the profile cannot be read");
    made.profile_data = std::move(data).value();
    made.statistics = reader.value().statistics().value();
    made.sources = reader.value().sources().value();
    made.report = reader.value().report().value();
    fs::remove(path);
  }
  return made;
}

// Empty: everything is as it should be.
std::string check_shards(const Originals& originals, const fs::path& directory, Random& random,
                         std::string& what) {
  const std::size_t count = std::array<std::size_t, 6>{1, 1, 1, 2, 2, 3}[random.below(6)];
  unsigned damaged = 0, cut = 0;
  while (static_cast<std::size_t>(__builtin_popcount(damaged)) < count) damaged |= 1u << random.below(kNodes);
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    Content content = originals.shards[node];
    if ((damaged >> node & 1u) != 0) {
      const Damage done = damage(content, random);
      if (done.cut) cut |= 1u << node;
      what += " [" + std::to_string(node) + ": " + done.text + "]";
    }
    write(directory / originals.names[node], content);
  }
  const bool partial = random.below(2) == 0;
  if (partial) what += " partial";
  const Merged merged = merge(directory, partial);
  const auto named_in = [&](const std::string& text) {
    unsigned named = 0;
    for (std::uint32_t node = 0; node < kNodes; ++node)
      if (text.find(originals.names[node]) != std::string::npos) named |= 1u << node;
    return named;
  };
  if (!merged.report) {
    const std::string& message = merged.report.error().message;
    if (!one_line(message)) return "the error is not one line: " + message;
    // Warnings cannot name them where nothing is left; the message is of the run then.
    const bool none_left = partial && damaged == kAll && message.starts_with(directory.string());
    if ((named_in(message) & ~damaged) != 0 || (named_in(message) == 0 && !none_left))
      return "the error names another shard, or none: " + message;
    if (partial && damaged != kAll) return "a partial merge failed: " + message;
    return "";
  }
  unsigned left_out = 0;
  for (const std::string& warning : merged.report.value().warnings) {
    if (!one_line(warning)) return "a warning is not one line: " + warning;
    left_out |= named_in(warning);
  }
  const unsigned kept = kAll & ~left_out;
  if (!partial && left_out != 0) return "a shard was left out though the merge was not to be partial";
  if ((left_out & ~damaged) != 0) return "a shard was left out that is whole";
  if ((cut & kept) != 0) return "a shard was used that had been cut off";
  if (merged.report.value().shards != static_cast<std::size_t>(__builtin_popcount(kept)))
    return "the number of shards is not that of those that no warning names";
  for (std::uint32_t node = 0; node < kNodes; ++node) {
    if ((left_out >> node & 1u) == 0) continue;
    const std::vector<shard::Note>& notes = merged.report.value().head.run.notes;
    const shard::Note expected = note_of_run(shard::NoteCode::kDamagedShard, 0, originals.names[node]);
    if (std::find(notes.begin(), notes.end(), expected) == notes.end())
      return "no note names " + originals.names[node];
  }
  if (!(merged.figures == originals.figures[kept])) return "the figures are wrong";
  return "";
}

std::string check_profile(const Originals& originals, const fs::path& path, Random& random,
                          std::string& what) {
  Content content = originals.profile;
  const Damage done = damage(content, random);
  what += " profile: " + done.text;
  write(path, content);
  std::string problem;
  const auto check = [&](const auto& result, auto same) {
    if (!problem.empty()) return;
    if (result) {
      if (done.cut) problem = "a profile was used that had been cut off";
      if (!same(result.value())) problem = "the figures are wrong";
    } else if (!one_line(result.error().message) || !result.error().message.starts_with(path.string())) {
      problem = "the error is not one line that begins with the file: " + result.error().message;
    }
  };
  check(profile::read_profile(path),
        [&](const shard::ShardData& data) { return data == originals.profile_data; });
  auto reader = profile::ProfileReader::open(path);
  check(reader, [](const auto&) { return true; });
  if (!reader || !problem.empty()) return problem;
  check(reader.value().statistics(), [&](const auto& table) { return table == originals.statistics; });
  check(reader.value().sources(), [&](const auto& sources) { return sources == originals.sources; });
  check(reader.value().report(), [&](const auto& report) { return report == originals.report; });
  if (problem.empty() && random.below(4) == 0) {
    const auto rank = static_cast<std::uint32_t>(random.below(originals.profile_data.ranks.size()));
    check(reader.value().rank(rank), [&](const shard::MatrixRows& rows) {
      std::vector<shard::Value> expected;
      for (const shard::Value& value : originals.profile_data.values)
        if (value.rank == rank) expected.push_back(value);
      return rows.values == expected;
    });
  }
  return problem;
}

struct Progress {
  std::atomic<std::uint64_t> next;  // case
  std::atomic<std::uint64_t> wrong;
};

// One in four cases is one of profiles.
void run_cases(const Originals& originals, const fs::path& directory, std::uint64_t seed, std::uint64_t end,
               std::uint64_t step, Progress& progress) {
  fs::create_directories(directory);
  while (progress.next < end) {
    const std::uint64_t number = progress.next;
    Random random(seed * 1'000'003 + number);
    alarm(kHang_s);
    std::string what, problem;
    if (random.below(4) == 0) {
      problem = check_profile(originals, directory / "damaged.h5", random, what);
    } else {
      problem = check_shards(originals, directory, random, what);
    }
    if (!problem.empty()) {
      ++progress.wrong;
      std::fprintf(stderr, "case %llu:%s: %s\n", static_cast<unsigned long long>(number), what.c_str(),
                   problem.c_str());
    }
    progress.next += step;
  }
  alarm(0);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  if (used.ru_maxrss > kMaxMemoryKiB) {
    std::fprintf(stderr, "damaged files made it use %ld KiB\n", used.ru_maxrss);
    ++progress.wrong;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, std::uint64_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const std::uint64_t cases = number(1, 2000);
  const std::uint64_t seed = number(
      2, static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) % 1'000'000);
  const std::uint64_t jobs = std::clamp<std::uint64_t>(number(3, 2), 1, 64);
  std::string place = (fs::temp_directory_path() / "clusterprof-test-XXXXXX").string();
  if (mkdtemp(place.data()) == nullptr) give_up("no temporary directory");
  const fs::path directory = place;
  const Originals originals = make_originals(directory);

  auto* const progress = static_cast<Progress*>(
      mmap(nullptr, sizeof(Progress) * jobs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (progress == MAP_FAILED) give_up("no memory");
  std::map<pid_t, std::uint64_t> running;
  const auto start = [&](std::uint64_t job) {
    const pid_t child = fork();
    if (child < 0) give_up("no further process");
    if (child == 0) {
      run_cases(originals, directory / std::to_string(job), seed, cases, jobs, progress[job]);
      std::_Exit(0);
    }
    running[child] = job;
  };
  for (std::uint64_t job = 0; job < jobs; ++job) {
    progress[job].next = job;
    start(job);
  }
  std::uint64_t crashes = 0;
  while (!running.empty()) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (ended < 0) continue;
    const std::uint64_t job = running.at(ended);
    running.erase(ended);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    ++crashes;
    const std::uint64_t at = progress[job].next;
    std::fprintf(
        stderr, "case %llu: %s %d\n", static_cast<unsigned long long>(at),
        WIFSIGNALED(status) ? WTERMSIG(status) == SIGALRM ? "hangs, signal" : "signal" : "exit status",
        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    progress[job].next += jobs;
    start(job);
  }
  std::uint64_t wrong = crashes;
  for (std::uint64_t job = 0; job < jobs; ++job) wrong += progress[job].wrong;
  fs::remove_all(directory);
  std::printf("seed %llu: %llu cases, %llu wrong\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(cases), static_cast<unsigned long long>(wrong));
  return wrong == 0 ? 0 : 1;
}
