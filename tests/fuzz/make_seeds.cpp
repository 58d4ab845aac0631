// SPDX-License-Identifier: BSD-3-Clause
// fuzz_seeds GOLDEN SEEDS: what fuzzers begin with, made of the golden files.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "formats/profile/profile_reader.hpp"
#include "formats/shard/live_state.hpp"
#include "formats/shard/shard_reader.hpp"
#include "report/report.hpp"
#include "tests/fuzz/edited_file.hpp"
#include "tests/fuzz/newest.hpp"
#include "tests/fuzz/stored_analysis.hpp"

namespace {

namespace fs = std::filesystem;
using namespace clusterprof;

void write(const fs::path& path, std::span<const std::byte> bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void write_analysis(const fs::path& seeds, const std::string& name, const shard::ShardData& data) {
  const std::vector<std::byte> encoded = report::encode(report::analyse(data, shard::InMemoryRows(data)));
  const auto write_parts = [&](const char* form, std::byte stored, const fuzz::AnalysisParts& parts) {
    const auto first = static_cast<std::uint32_t>(parts[0].size());
    std::vector<std::byte> seed(5);  // see fuzz_analysis.cpp
    seed[0] = stored;
    std::memcpy(&seed[1], &first, sizeof first);
    for (const std::vector<std::byte>& part : parts) seed.insert(seed.end(), part.begin(), part.end());
    write(seeds / "analysis" / (name + form), seed);
  };
  write_parts("-plain", std::byte{0}, fuzz::plain_parts(encoded));
  write_parts("-stored", std::byte{1}, fuzz::stored_parts(encoded));
}

// Of the run that the fuzzer absorbs them into.
void write_analysis_states(const fs::path& seeds, const shard::ShardData& data) {
  const shard::InMemoryRows rows(data);
  const auto write_state = [&](const std::string& name, const auto& wanted) {
    report::AnalysisBuilder builder(data);
    rows.for_each_rank([&](const shard::RankRows& rank) {
      if (wanted(rank.rank)) builder.add(rank);
    });
    const std::vector<std::byte> state = builder.state();
    write(seeds / "analysis_state" / name, std::span(state).subspan(fuzz::kStateHead));
  };
  write_state("all", [](std::uint32_t) { return true; });
  write_state("none", [](std::uint32_t) { return false; });
  for (std::uint32_t rank = 0; rank < data.ranks.size(); ++rank)
    write_state("rank-" + std::to_string(rank), [&](std::uint32_t other) { return other == rank; });
}

// Of one node, newest and earlier; see fuzz_live.cpp. False: it is refused.
bool write_live(const fs::path& seeds, const std::string& name, const shard::ShardData& node) {
  shard::LiveState state;
  state.watch = 1;
  state.memory_used_bytes = 1 << 30;
  state.memory_limit_bytes = std::uint64_t{1} << 32;
  state.data = node;
  state.rss_bytes.assign(node.ranks.size(), 1 << 24);
  std::vector<std::byte> contents[2];
  for (std::uint64_t turn = 0; turn < 2; ++turn) {
    state.sequence = turn + 1;
    state.times.clear();
    for (std::uint32_t path = 1; path < node.paths.size(); path += 7)
      state.times.push_back({path, shard::Category::kPython, (turn + 1) * 100'000'000});
    const std::vector<std::byte> encoded = shard::encode_live(state);
    if (const Result<shard::LiveState> read = shard::decode_live(encoded); !read) {
      std::fprintf(stderr, "live state of %s: %s\n", name.c_str(), read.error().message.c_str());
      return false;
    }
    contents[turn].assign(encoded.begin() + fuzz::kLiveHead, encoded.end());
  }
  const auto bytes = static_cast<std::uint32_t>(contents[1].size());
  std::vector<std::byte> seed(sizeof bytes);
  std::memcpy(seed.data(), &bytes, sizeof bytes);
  seed.insert(seed.end(), contents[1].begin(), contents[1].end());
  write(seeds / "live" / (name + "-alone"), seed);
  seed.insert(seed.end(), contents[0].begin(), contents[0].end());
  write(seeds / "live" / (name + "-after-another"), seed);
  return true;
}

struct CopyChange {
  std::uint8_t what;
  std::uint32_t where;
  std::uint64_t number;
};

// Changes to a file with two copies: the newest cannot be read, or neither.
void write_edits_of_copies(const fs::path& seeds) {
  const auto write_edits = [&](const std::string& name, std::initializer_list<CopyChange> changes) {
    std::vector<std::byte> seed(fuzz::kOfTwoCopies.size() + changes.size() * fuzz::kCopyEditBytes);
    std::memcpy(seed.data(), fuzz::kOfTwoCopies.data(), fuzz::kOfTwoCopies.size());
    std::byte* to = seed.data() + fuzz::kOfTwoCopies.size();
    for (const CopyChange& change : changes) {
      *to = static_cast<std::byte>(change.what);
      std::memcpy(to + 1, &change.where, sizeof change.where);
      std::memcpy(to + 5, &change.number, sizeof change.number);
      to += fuzz::kCopyEditBytes;
    }
    write(seeds / ("copies-" + name), seed);
  };
  constexpr auto kField = static_cast<std::uint8_t>(fuzz::CopyEdit::kField);
  constexpr auto kSomewhat = static_cast<std::uint8_t>(fuzz::CopyEdit::kSomewhat);
  constexpr auto kBytes = static_cast<std::uint8_t>(fuzz::CopyEdit::kBytes);
  constexpr auto kEnd = static_cast<std::uint8_t>(fuzz::CopyEdit::kEnd);
  write_edits("unchanged", {});
  for (std::uint32_t field = 0; field < 2 * fuzz::kCopyFields; ++field) {  // of both headers
    write_edits("field-" + std::to_string(field), {{kField, field, ~std::uint64_t{0}}});
    write_edits("less-" + std::to_string(field), {{kSomewhat | fuzz::kWithImage, field, 0xffff}});
  }
  write_edits("last", {{kField, 6, 1}});  // the first copy says that no other follows
  write_edits("first-bytes", {{kBytes, 4000, 1}});
  write_edits("both-bytes", {{kBytes, 4000, 1}, {kBytes, 1'050'000, 1}});
  write_edits("cut", {{kEnd, 100'000, 0}});
  write_edits("longer", {{kEnd, 2'000'000, 0}, {kField, 8, 500'000}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const fs::path golden = argv[1], seeds = argv[2];
  for (const auto& entry : fs::recursive_directory_iterator(golden)) {
    if (entry.path().extension() != ".h5") continue;
    const fs::path kind = fs::relative(entry.path(), golden).begin()->string();
    std::string name = fs::relative(entry.path(), golden).string();
    std::replace(name.begin(), name.end(), '/', '-');
    fs::create_directories(seeds / kind);
    fs::copy_file(entry.path(), seeds / kind / name, fs::copy_options::overwrite_existing);
    const Result<shard::ShardData> data =
        kind == "shard" ? shard::read_shard(entry.path()) : profile::read_profile(entry.path());
    if (!data) {
      std::fprintf(stderr, "%s\n", data.error().message.c_str());
      return 1;
    }
    write_analysis(seeds, name, data.value());
    if (kind == "shard" && !write_live(seeds, name, data.value())) return 1;
    if (entry.path() == fs::path(fuzz::kGoldenProfile)) write_analysis_states(seeds, data.value());
  }
  // Changes to one column or attribute each; the fuzzer finds more.
  for (std::uint16_t column = 0; column < 300; ++column) {
    std::vector<std::byte> edit(14);
    std::memcpy(edit.data(), &column, 2);
    edit[2] = static_cast<std::byte>(column % 8);
    edit[3] = static_cast<std::byte>(column);
    edit[6] = edit[9] = std::byte{0xff};
    for (const char* kind : {"shard", "profile"})
      write(seeds / kind / ("edit-" + std::to_string(column)), edit);
  }
  write_edits_of_copies(seeds / "shard");
}
