// SPDX-License-Identifier: BSD-3-Clause
// Two copies in one file: what readers find while they are written, and after the writer was killed or the
// machine lost at any moment. The test sees every write, because its own pwrite and fdatasync stand in front
// of libc's, and plays them back in parts.
#include "formats/shard/two_copies.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <random>

#include "formats/h5/h5.hpp"
#include "formats/shard/shard_reader.hpp"
#include "formats/shard/shard_writer.hpp"
#include "formats/shard/tables.hpp"
#include "tests/unit/formats/random_shard.hpp"

namespace {

struct Operation {
  enum Kind { kWrite, kSync, kTruncate } kind;
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes = {};
};

struct Watch {
  bool on = false;
  std::vector<Operation> done;
  int writes_until_failure = -1;  // negative: none fails
  int syncs = 0, writes = 0;
} watch;

}  // namespace

extern "C" ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  if (watch.on) {
    if (watch.writes_until_failure == 0) {
      errno = ENOSPC;
      return -1;
    }
    if (watch.writes_until_failure > 0) --watch.writes_until_failure;
    const auto* from = static_cast<const std::byte*>(bytes);
    ++watch.writes;
    watch.done.push_back({Operation::kWrite, static_cast<std::uint64_t>(offset), {from, from + count}});
  }
  return syscall(SYS_pwrite64, fd, bytes, count, offset);
}

extern "C" int fdatasync(int fd) {
  if (watch.on) {
    ++watch.syncs;
    watch.done.push_back({Operation::kSync});
  }
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}

extern "C" int ftruncate(int fd, off_t length) noexcept {
  if (watch.on) watch.done.push_back({Operation::kTruncate, static_cast<std::uint64_t>(length)});
  return static_cast<int>(syscall(SYS_ftruncate, fd, length));
}

namespace clusterprof {
namespace {

using shard::ShardData;

ShardData shard_of(std::uint32_t generation, std::uint32_t size) {
  testing::RandomShape shape{.node = 1, .ranks = {0, 1}};
  shape.paths = 10;
  shape.values_per_rank = 10;
  ShardData data = testing::random_shard(generation, shape);
  data.run.world_size = 2;
  data.run.rate_hz = generation;  // tells which one it is
  // What cannot be compressed.
  std::mt19937_64 random(generation);
  std::string& word = data.run.command.emplace_back();
  while (word.size() < std::size_t{size} * 8192) word += static_cast<char>(1 + random() % 255);
  return data;
}

struct Copies : ::testing::Test {
  testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "node-n.h5",
                              unnamed = directory.path() / ".node-n.claim";
  shard::TwoCopies copies{path, unnamed};

  Copies() { watch = {}; }
  ~Copies() override { watch.on = false; }

  Result<void> write(std::uint32_t generation, std::uint32_t size = 1, bool last = false) {
    const auto image = shard::shard_image(shard_of(generation, size), path);
    EXPECT_TRUE(image.ok()) << image.error().message;
    watch.on = true;
    Result<void> written = copies.write(image.value(), last);
    watch.on = false;
    return written;
  }
  // 0: it cannot be read.
  static std::uint32_t generation_in(const std::filesystem::path& file) {
    const auto data = shard::read_shard_summary(file);  // the checksum of the copy covers the rest
    return data ? data.value().run.rate_hz : 0;
  }
  // By HDF5's own search alone, as other programs read the file.
  static std::uint32_t generation_for_others(const std::filesystem::path& file) {
    try {
      const h5::File opened = h5::File::open(file);
      return read_tables(opened.root(), shard::Tables::kAll).run.rate_hz;
    } catch (const h5::H5Error&) {
      return 0;
    }
  }
  std::uintmax_t size() const { return std::filesystem::file_size(path); }
};

TEST_F(Copies, NewestIsReadAndTheLastStandsAlone) {
  for (std::uint32_t generation = 1; generation <= 5; ++generation) {
    ASSERT_TRUE(write(generation));
    EXPECT_EQ(generation_in(path), generation);
    EXPECT_EQ(generation_for_others(path), generation);
  }
  EXPECT_FALSE(std::filesystem::exists(unnamed));
  ASSERT_TRUE(write(6, 1, true));
  EXPECT_EQ(generation_in(path), 6u);
  EXPECT_EQ(generation_for_others(path), 6u);
  EXPECT_EQ(size(), shard::shard_image(shard_of(6, 1), path).value().size() + 512);
  // As large as a file that HDF5 writes itself.
  const auto plain = directory.path() / "plain.h5";
  ASSERT_TRUE(shard::write_shard(shard_of(6, 1), plain));
  EXPECT_EQ(size(), std::filesystem::file_size(plain) + 512);
  EXPECT_EQ(shard::read_newest_copy(path), std::nullopt);  // HDF5 opens it as it is
}

TEST_F(Copies, CheckpointIsTwoWritesAndOneFlush) {
  ASSERT_TRUE(write(1));
  ASSERT_TRUE(write(2));
  watch = {};
  ASSERT_TRUE(write(3));
  EXPECT_EQ(watch.writes, 2);
  EXPECT_EQ(watch.syncs, 1);
  EXPECT_EQ(watch.done.size(), 3u);
}

// A program may open the file, be interrupted, and search it for the newest copy when that is the second one.
TEST_F(Copies, FileHasItsSizeBeforeTheSecondCopyIsThere) {
  ASSERT_TRUE(write(1));
  const std::uintmax_t bytes = size();
  for (std::uint32_t generation = 2; generation <= 6; ++generation) {
    ASSERT_TRUE(write(generation, 1 + generation / 2));
    EXPECT_EQ(size(), bytes) << generation;
  }
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_LT(static_cast<std::uintmax_t>(status.st_blocks) * 512, bytes / 2) << "the rest is a hole";
}

TEST_F(Copies, ShardThatIsNeverRewrittenTakesOneWrite) {
  ASSERT_TRUE(write(1, 1, true));
  EXPECT_EQ(watch.writes, 1);
  EXPECT_EQ(watch.syncs, 1);
  EXPECT_EQ(generation_in(path), 1u);
  EXPECT_FALSE(std::filesystem::exists(unnamed));
}

TEST_F(Copies, FileThatWasRemovedIsMadeAgain) {
  ASSERT_TRUE(write(1));
  for (const bool last : {false, true}) {
    std::filesystem::remove(path);
    std::uint32_t generation = 2;
    while (!std::filesystem::exists(path) && generation < 70) ASSERT_TRUE(write(generation++, 1, last));
    EXPECT_EQ(generation_in(path), generation - 1);
    EXPECT_LE(generation, last ? 3u : 62u);
  }
}

TEST_F(Copies, FileThatNeverGotItsNameIsRemoved) {
  {
    shard::TwoCopies others{directory.path() / "node-o.h5", directory.path() / ".node-o.claim"};
    watch.on = true;
    watch.writes_until_failure = 0;
    EXPECT_FALSE(others.write(shard::shard_image(shard_of(1, 1), path).value(), true));
    EXPECT_TRUE(std::filesystem::exists(directory.path() / ".node-o.claim"));
    watch.on = false;
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST_F(Copies, FailedWriteLeavesTheLastCopy) {
  for (std::uint32_t generation = 1; generation <= 2; ++generation) ASSERT_TRUE(write(generation));
  for (const bool last : {false, true}) {
    watch.writes_until_failure = 0;
    EXPECT_FALSE(write(9, 1, last));
    EXPECT_EQ(generation_in(path), 2u);
    EXPECT_EQ(generation_for_others(path), 2u);
  }
  watch.writes_until_failure = -1;
  ASSERT_TRUE(write(3));
  EXPECT_EQ(generation_in(path), 3u);
}

// The header of a copy of 4 TiB, of which nothing was ever written.
TEST_F(Copies, HoleIsNotReadAsACopy) {
  constexpr std::uint64_t kHeader = 512, kBytes = std::uint64_t{4} << 40;
  std::array<std::uint64_t, 7> header{0, 0, 1, 0, kBytes, 5, 0};
  std::memcpy(header.data(), "cpshard1", 8);
  header[6] = XXH3_64bits(header.data(), 6 * sizeof header[0]);
  std::vector<std::uint8_t> bytes(kHeader);
  std::memcpy(bytes.data(), header.data(), sizeof header);
  testing::write_bytes(path, bytes);
  std::error_code error;
  std::filesystem::resize_file(path, kHeader + kBytes, error);
  if (error) GTEST_SKIP() << "no such large files here: " << error.message();
  EXPECT_THROW((void)shard::read_newest_copy(path), h5::H5Error);
}

TEST_F(Copies, DamageToTheNewestGivesTheOneBefore) {
  for (std::uint32_t generation = 1; generation <= 2; ++generation) ASSERT_TRUE(write(generation));
  std::vector<std::uint8_t> bytes = testing::read_bytes(path);
  bytes[bytes.size() / 2 + 2000] ^= 1;  // the second copy
  testing::write_bytes(path, bytes);
  EXPECT_EQ(generation_in(path), 1u);
  bytes[2000] ^= 1;
  testing::write_bytes(path, bytes);
  const auto damaged = shard::read_shard(path);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().message, path.string() + ": is damaged (neither of its copies is whole)");
}

// A file as it is on a disk.
class Disk {
 public:
  void apply(const Operation& operation) { apply(operation, 0, operation.bytes.size()); }
  void apply(const Operation& operation, std::size_t first, std::size_t end) {
    if (operation.kind == Operation::kTruncate) {
      bytes_.resize(operation.offset);
    } else if (operation.kind == Operation::kWrite && first < end) {
      if (bytes_.size() < operation.offset + end) bytes_.resize(operation.offset + end);
      std::memcpy(bytes_.data() + operation.offset + first, operation.bytes.data() + first, end - first);
    }
  }
  void store(const std::filesystem::path& path) const { testing::write_bytes(path, bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

// Copies that grow until the second one has to move, and shrink again.
struct Interrupted : Copies {
  // done[i] ended with generation acknowledged[i] on disk.
  std::vector<std::uint32_t> acknowledged;
  const std::filesystem::path crashed = directory.path() / "crashed.h5";

  Interrupted() {
    std::uint32_t generation = 0;
    for (const std::uint32_t size : {1, 1, 3, 30, 8, 60, 2}) record(++generation, size, false);
    record(++generation, 90, true);
  }
  void record(std::uint32_t generation, std::uint32_t size, bool last) {
    EXPECT_TRUE(write(generation, size, last));
    acknowledged.resize(watch.done.size(), generation - 1);
    acknowledged.back() = generation;
  }
};

// What was written is in the kernel's memory, so a killed writer loses none of it, but its last write may be
// cut off anywhere.
TEST_F(Interrupted, WriterKilledAtAnyPointLeavesTheLastCopyForEveryReader) {
  Disk before;
  std::size_t points = 0;
  for (std::size_t at = 0; at < watch.done.size(); ++at) {
    const Operation& operation = watch.done[at];
    const std::uint32_t promised = at == 0 ? 0 : acknowledged[at - 1];
    const std::size_t bytes = operation.bytes.size();
    for (const std::size_t cut :
         {std::size_t{0}, std::size_t{4}, std::size_t{300}, std::size_t{516}, bytes / 2, bytes}) {
      if (cut > bytes || promised == 0) continue;  // until the first copy, the file has no name
      Disk disk = before;
      disk.apply(operation, 0, cut);
      disk.store(crashed);
      EXPECT_GE(generation_in(crashed), promised) << at << " cut at " << cut;
      // A signature is eight bytes within a block, which nobody sees in part.
      if (bytes == 8 && cut % 8 != 0) continue;
      EXPECT_GE(generation_for_others(crashed), promised) << at << " cut at " << cut;
      ++points;
    }
    before.apply(operation);
  }
  EXPECT_GT(points, 60u);
}

// A machine that is lost has on disk what was flushed, and of the writes since then any blocks in any order.
TEST_F(Interrupted, MachineLostAtAnyPointLeavesTheLastCopyForOurReaders) {
  constexpr std::size_t kBlock = 512;
  std::mt19937_64 random(1);
  Disk flushed;
  std::vector<const Operation*> since;
  std::uint32_t promised = 0;
  for (std::size_t at = 0; at < watch.done.size(); ++at) {
    if (watch.done[at].kind == Operation::kSync) {
      for (const Operation* operation : since) flushed.apply(*operation);
      since.clear();
    } else {
      since.push_back(&watch.done[at]);
    }
    promised = std::max(promised, acknowledged[at]);
    for (int attempt = 0; attempt < 3 && promised > 0; ++attempt) {
      Disk disk = flushed;
      for (const Operation* operation : since) {
        if (operation->kind == Operation::kTruncate) {
          if (random() % 2 == 0) disk.apply(*operation);
          continue;
        }
        for (std::size_t first = 0; first < operation->bytes.size(); first += kBlock)
          if (random() % 2 == 0)
            disk.apply(*operation, first, std::min(first + kBlock, operation->bytes.size()));
      }
      disk.store(crashed);
      EXPECT_GE(generation_in(crashed), promised) << at;
    }
  }
}

}  // namespace
}  // namespace clusterprof
