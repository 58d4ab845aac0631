// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <libdeflate.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "profile_builder.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<Analysis> analyses() {
  std::vector<Analysis> all;
  all.push_back(analyse(testing::training_run()));
  all.push_back(analyse(testing::resources_run()));
  all.push_back(analyse(testing::delayed_run()));
  all.emplace_back();
  return all;
}

std::string all_sections(const Analysis& analysis) {
  TextOptions options;
  options.sections = section_names();
  return render_text(analysis, options);
}

TEST(Archive, AnalysisReadEqualsAnalysisWritten) {
  for (const Analysis& analysis : analyses()) {
    const Bytes bytes = encode(analysis);
    const std::optional<Analysis> read = decode(bytes);
    ASSERT_TRUE(read);
    EXPECT_EQ(encode(*read), bytes);
    EXPECT_EQ(render_json(*read), render_json(analysis));
    EXPECT_EQ(all_sections(*read), all_sections(analysis));
    EXPECT_EQ(encode(analysis), bytes);
  }
}

TEST(Archive, ShortEvidenceOfTheLastFindingIsRead) {
  Analysis analysis;
  Finding& finding = analysis.findings.emplace_back();
  for (const EvidenceKey key : {EvidenceKey::kCall, EvidenceKey::kPath, EvidenceKey::kNode})
    finding.evidence.set(key, std::string("x"));
  finding.evidence.set(EvidenceKey::kProcessors, std::vector<std::int32_t>());
  const Bytes bytes = encode(analysis);
  const std::optional<Analysis> read = decode(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(encode(*read), bytes);
}

TEST(Archive, TheTimelinesOfRanksCanBeLeftOut) {
  const Analysis analysis = analyse(testing::resources_run());
  ASSERT_TRUE(analysis.timeline);
  ASSERT_FALSE(analysis.timeline->ranks.empty());
  const std::optional<Analysis> read = decode(encode(analysis), false);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->timeline->ranks.empty());
  EXPECT_FALSE(read->timeline->nodes.empty());
  EXPECT_EQ(render_text(*read, {}), render_text(analysis, {}));
}

TEST(Archive, DamagedBytesAreRefused) {
  const Bytes good = encode(analyse(testing::resources_run()));
  std::mt19937_64 random(7);
  for (std::size_t size = 0; size < good.size(); size += 1 + random() % 97)
    EXPECT_FALSE(decode(std::span(good).first(size)));
  for (int i = 0; i < 1000; ++i) {
    Bytes bytes = good;
    bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << random() % 8);
    EXPECT_FALSE(decode(bytes));
  }
  Bytes longer = good;
  longer.emplace_back();
  EXPECT_FALSE(decode(longer));
  EXPECT_FALSE(decode({}));
}

TEST(Archive, NanIsRefused) {
  const Analysis good = analyse(testing::resources_run());
  ASSERT_TRUE(decode(encode(good)));
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  Analysis analysis = good;
  analysis.run.elapsed_s = kNan;
  EXPECT_FALSE(decode(encode(analysis)));
  analysis = good;
  analysis.ranks.at(0).category_s.at(0) = kNan;
  EXPECT_FALSE(decode(encode(analysis)));
}

// The layout of what encode() makes: who made it, two parts, and the parts' blocks.
struct Part {
  std::uint64_t bytes = 0, plain_bytes = 0, checksum = 0;
};
struct Header {
  std::uint64_t made_by = 0;
  Part parts[2];
};

// The plain bytes of a part whose blocks begin at `at`, which is moved behind them.
Bytes plain(const Bytes& encoded, std::size_t& at, const Part& part) {
  libdeflate_decompressor* const decompressor = libdeflate_alloc_decompressor();
  Bytes all;
  const std::size_t end = at + part.bytes;
  while (at < end) {
    std::uint32_t sizes[2];
    std::memcpy(sizes, &encoded[at], sizeof sizes);
    at += sizeof sizes;
    const std::size_t before = all.size();
    all.resize(before + sizes[0]);
    EXPECT_EQ(
        libdeflate_deflate_decompress(decompressor, &encoded[at], sizes[1], &all[before], sizes[0], nullptr),
        LIBDEFLATE_SUCCESS);
    at += sizes[1];
  }
  libdeflate_free_decompressor(decompressor);
  EXPECT_EQ(all.size(), part.plain_bytes);
  return all;
}

void append(Bytes& encoded, const Bytes& plain_bytes, Part& part) {
  libdeflate_compressor* const compressor = libdeflate_alloc_compressor(1);
  const std::size_t begin = encoded.size();
  for (std::size_t at = 0; at < plain_bytes.size();) {
    const std::size_t size = std::min<std::size_t>(plain_bytes.size() - at, 1 << 20);
    Bytes stored(libdeflate_deflate_compress_bound(compressor, size));
    stored.resize(
        libdeflate_deflate_compress(compressor, &plain_bytes[at], size, stored.data(), stored.size()));
    const std::uint32_t sizes[2] = {static_cast<std::uint32_t>(size),
                                    static_cast<std::uint32_t>(stored.size())};
    const auto* const head = reinterpret_cast<const std::byte*>(sizes);
    encoded.insert(encoded.end(), head, head + sizeof sizes);
    encoded.insert(encoded.end(), stored.begin(), stored.end());
    at += size;
  }
  libdeflate_free_compressor(compressor);
  part = {encoded.size() - begin, plain_bytes.size(),
          XXH3_64bits(encoded.data() + begin, encoded.size() - begin)};
}

// With matching checksums, so everything that is read must be safe for the renderers.
TEST(Archive, DamageThatChecksumsDoNotShowIsHarmless) {
  std::mt19937_64 random(11);
  int read = 0, refused = 0;
  for (const Analysis& analysis : analyses()) {
    const Bytes good = encode(analysis);
    Header header;
    std::memcpy(&header, good.data(), sizeof header);
    std::size_t at = sizeof header;
    const Bytes parts[2] = {plain(good, at, header.parts[0]), plain(good, at, header.parts[1])};
    EXPECT_EQ(at, good.size());
    for (int i = 0; i < 300; ++i) {
      Bytes changed[2] = {parts[0], parts[1]};
      for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
        Bytes& part = changed[random() % 4 == 0 && !parts[1].empty() ? 1 : 0];
        part[random() % part.size()] = static_cast<std::byte>(random());
      }
      Bytes bytes(sizeof header);
      for (int part = 0; part < 2; ++part) append(bytes, changed[part], header.parts[part]);
      std::memcpy(bytes.data(), &header, sizeof header);
      const std::optional<Analysis> found = decode(bytes);
      found ? ++read : ++refused;
      if (!found) continue;
      EXPECT_FALSE(render_json(*found).empty());
      EXPECT_FALSE(all_sections(*found).empty());
      EXPECT_FALSE(render_banner(*found, "run", 80).empty());
    }
  }
  EXPECT_GT(read, 50);
  EXPECT_GT(refused, 50);
}

TEST(Archive, BytesOfOtherCodeAreRefused) {
  Bytes bytes = encode(analyse(testing::training_run()));
  ASSERT_TRUE(decode(bytes));
  bytes[0] ^= std::byte{1};
  EXPECT_FALSE(decode(bytes));
}

}  // namespace
}  // namespace clusterprof::report
