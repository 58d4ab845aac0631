// SPDX-License-Identifier: BSD-3-Clause
// Columns are compressed and read without HDF5's filters. HDF5 has to read what we write, we have to read
// what HDF5 writes, and damage must be an H5Error.
#include <gtest/gtest.h>
#include <hdf5.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "formats/h5/h5.hpp"
#include "tests/unit/formats/random_shard.hpp"

namespace clusterprof {
namespace {

using h5::ChunkedColumn;
using h5::H5Error;
using h5::Type;
using Bytes = std::vector<std::byte>;

// Rows as columns have them: some all alike, some small, some that do not compress.
template <typename T>
std::vector<T> some_rows(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> rows(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t number = random();
    rows[i] = static_cast<T>(seed % 3 == 0 ? number : seed % 3 == 1 ? i / 7 : number % 1000 * 10'000'000);
  }
  return rows;
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& rows) {
  return std::as_bytes(std::span(rows));
}

template <typename T>
Bytes compress(const std::vector<T>& rows) {
  return h5::compress_chunk(bytes_of(rows), sizeof(T));
}

Bytes decompress(std::span<const std::byte> stored, std::uint32_t mask, std::size_t item, std::size_t bytes) {
  Bytes rows(bytes);
  h5::decompress_chunk(stored, mask, item, rows);
  return rows;
}

template <typename T>
void check_round_trip() {
  for (const std::size_t rows : {1, 2, 15, 16, 17, 100, 4095, 8192, 32768, 40001})
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const std::vector<T> original = some_rows<T>(rows, seed);
      const Bytes stored = compress(original);
      EXPECT_EQ(stored, compress(original));
      const Bytes back = decompress(stored, 0, sizeof(T), rows * sizeof(T));
      ASSERT_EQ(std::memcmp(back.data(), original.data(), back.size()), 0) << rows << " rows, seed " << seed;
      const Bytes planes = h5::compress_chunk(bytes_of(original), sizeof(T), h5::RandomPlanes::kStored);
      EXPECT_LE(planes.size(), stored.size() + stored.size() / 50 + 32);
      const Bytes again = decompress(planes, 0, sizeof(T), rows * sizeof(T));
      ASSERT_EQ(std::memcmp(again.data(), original.data(), again.size()), 0)
          << rows << " rows, seed " << seed;
    }
}

TEST(ChunksTest, RoundTrip) {
  check_round_trip<std::uint8_t>();
  check_round_trip<std::uint32_t>();
  check_round_trip<std::uint64_t>();
}

TEST(ChunksTest, EveryThreadProducesTheSameBytes) {
  std::vector<std::vector<std::uint64_t>> rows;
  std::vector<Bytes> expected;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    rows.push_back(some_rows<std::uint64_t>(1000 + seed, seed));
    expected.push_back(compress(rows.back()));
  }
  std::vector<int> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const Bytes stored = compress(rows[i]);
          const Bytes back = decompress(stored, 0, 8, rows[i].size() * 8);
          wrong[t] += stored != expected[i] || std::memcmp(back.data(), rows[i].data(), back.size()) != 0;
        }
      });
  }
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(ChunksTest, DamageIsAnError) {
  std::mt19937_64 random(5);
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const std::vector<std::uint64_t> rows = some_rows<std::uint64_t>(3000, seed);
    const std::size_t bytes = rows.size() * 8;
    const Bytes stored = compress(rows);
    for (int i = 0; i < 2000; ++i) {
      Bytes flipped = stored;
      flipped[random() % flipped.size()] ^= static_cast<std::byte>(1u << random() % 8);
      EXPECT_THROW((void)decompress(flipped, 0, 8, bytes), H5Error);
      // Without the help of the checksum, the decoder must still be safe; the rows that it returns may be
      // anything.
      try {
        (void)decompress(std::span<const std::byte>(flipped).first(flipped.size() - 4), 4, 8, bytes);
      } catch (const H5Error&) {
      }
      const std::span<const std::byte> cut =
          std::span<const std::byte>(stored).first(random() % stored.size());
      EXPECT_THROW((void)decompress(cut, 0, 8, bytes), H5Error);
      if (cut.size() + 4 == stored.size()) continue;  // that is the stream
      EXPECT_THROW((void)decompress(cut, 4, 8, bytes), H5Error);
    }
    for (const std::size_t other : {std::size_t{0}, std::size_t{8}, bytes - 8, bytes + 8, 4 * bytes})
      for (const std::uint32_t mask : {0u, 1u})
        EXPECT_THROW((void)decompress(stored, mask, 8, other), H5Error) << other;
    Bytes longer = stored;
    longer.resize(stored.size() + 3);
    EXPECT_THROW((void)decompress(longer, 0, 8, bytes), H5Error);
    // Masks that do not say what was done. Bit 1 alone: taken for not deflated.
    for (const std::uint32_t mask : {2u, 3u, 4u, 5u, 6u, 7u, 8u, 0x8000'0000u})
      EXPECT_THROW((void)decompress(stored, mask, 8, bytes), H5Error) << mask;
    EXPECT_THROW((void)decompress(stored, 0, 3, bytes), H5Error);
    EXPECT_THROW((void)decompress(stored, 0, 0, bytes), H5Error);
    EXPECT_THROW((void)decompress(stored, 0, 8, bytes - 1), H5Error);
  }
  for (std::size_t length = 0; length < 200; ++length) {
    Bytes noise(length);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    for (std::uint32_t mask = 0; mask < 4; ++mask)
      EXPECT_THROW((void)decompress(noise, mask, 4, 4096), H5Error);
  }
}

// --- beside HDF5 ---------------------------------------------------------------------------

// Closes what it holds.
struct Id {
  Id(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) { EXPECT_GE(id, 0); }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  ~Id() { close_(id_); }
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

template <typename T>
hid_t stored_type() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return H5T_STD_U8LE;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_STD_I32LE;
  if constexpr (std::is_same_v<T, std::uint32_t>) return H5T_STD_U32LE;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_STD_I64LE;
  if constexpr (std::is_same_v<T, std::uint64_t>) return H5T_STD_U64LE;
  if constexpr (std::is_same_v<T, double>) return H5T_IEEE_F64LE;
}

template <typename T>
std::vector<T> read_by_hdf5(const std::filesystem::path& path, const char* name) {
  const Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  const Id dataset(H5Dopen2(file, name, H5P_DEFAULT), H5Dclose);
  const Id space(H5Dget_space(dataset), H5Sclose);
  std::vector<T> rows(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  EXPECT_GE(H5Dread(dataset, stored_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data()), 0);
  return rows;
}

// A column as our files have it, but written by HDF5 itself. `set_up` chooses layout and filters.
enum class Write { kRows, kNothing };
template <typename T, typename SetUp>
void write_by_hdf5(const std::filesystem::path& path, const char* name, const std::vector<T>& rows,
                   SetUp set_up, Write write = Write::kRows, H5F_libver_t oldest = H5F_LIBVER_V110) {
  std::filesystem::remove(path);
  const Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_libver_bounds(access, oldest, H5F_LIBVER_V110);
  const Id file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access), H5Fclose);
  const Id creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  set_up(static_cast<hid_t>(creation));
  const hsize_t extent = rows.size();
  const Id space(H5Screate_simple(1, &extent, nullptr), H5Sclose);
  const Id dataset(H5Dcreate2(file, name, stored_type<T>(), space, H5P_DEFAULT, creation, H5P_DEFAULT),
                   H5Dclose);
  if (write == Write::kRows) {
    ASSERT_GE(H5Dwrite(dataset, stored_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data()), 0);
  }
  const std::uint64_t checksum = XXH3_64bits(rows.data(), rows.size() * sizeof(T));
  const Id scalar(H5Screate(H5S_SCALAR), H5Sclose);
  const Id attribute(H5Acreate2(dataset, "xxh3", H5T_STD_U64LE, scalar, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  ASSERT_GE(H5Awrite(attribute, H5T_STD_U64LE, &checksum), 0);
}

// Each chunk agrees with its own checksum. Only the column's checksum shows that they were exchanged.
void swap_chunks(const std::filesystem::path& path, const char* name, hsize_t a, hsize_t b) {
  const Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
  const Id dataset(H5Dopen2(file, name, H5P_DEFAULT), H5Dclose);
  std::vector<char> of_a, of_b;
  std::uint32_t mask = 0;
  for (const auto& [at, bytes] : {std::pair(a, &of_a), std::pair(b, &of_b)}) {
    hsize_t stored = 0;
    ASSERT_GE(H5Dget_chunk_storage_size(dataset, &at, &stored), 0);
    bytes->resize(static_cast<std::size_t>(stored));
    ASSERT_GE(H5Dread_chunk(dataset, H5P_DEFAULT, &at, &mask, bytes->data()), 0);
    ASSERT_EQ(mask, 0u);
  }
  ASSERT_GE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &a, of_b.size(), of_b.data()), 0);
  ASSERT_GE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &b, of_a.size(), of_a.data()), 0);
}

class BesideHdf5Test : public ::testing::Test {
 protected:
  // Writes columns with our code.
  template <typename Fill>
  void write(Fill fill) {
    std::filesystem::remove(path_);
    h5::File file = h5::File::create(path_);
    {
      h5::Group root = file.root();
      fill(root);
    }
    file.close();
  }

  template <typename T>
  void check_reading_of_ours(std::size_t rows, std::uint64_t seed) {
    const std::vector<T> column = some_rows<T>(rows, seed);
    write([&](h5::Group& root) { root.write_column<T>("column", column); });
    EXPECT_EQ(read_by_hdf5<T>(path_, "column"), column) << rows << " rows";
    const h5::File file = h5::File::open(path_);
    EXPECT_EQ(file.root().read_column<T>("column"), column) << rows << " rows";
  }

  // However HDF5 stored it, we read it: at once, piece by piece, and any rows of it.
  template <typename T, typename SetUp>
  void check_reading_of_hdf5_s(const std::vector<T>& column, SetUp set_up) {
    ASSERT_NO_FATAL_FAILURE(write_by_hdf5(path_, "column", column, set_up));
    const h5::File file = h5::File::open(path_);
    const h5::Group root = file.root();
    EXPECT_EQ(root.read_column<T>("column"), column);
    h5::ColumnStream stream = root.open_column<T>("column");
    ASSERT_EQ(stream.rows(), column.size());
    std::vector<T> pieces(column.size());
    std::mt19937 random(1);
    for (std::size_t done = 0; done < pieces.size();) {
      const std::size_t count = std::min<std::size_t>(1 + random() % 9000, pieces.size() - done);
      stream.next(std::span<T>(pieces).subspan(done, count));
      done += count;
    }
    EXPECT_EQ(pieces, column);
    const ChunkedColumn chunks = root.open_chunked_column("column", h5::kTypeOf<T>);
    ASSERT_EQ(chunks.rows(), column.size());
    for (int i = 0; i < 20; ++i) {
      const std::size_t first = random() % column.size(), count = random() % (column.size() - first + 1);
      const std::vector<T> part = chunks.read<T>(first, count);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), column.begin() + static_cast<std::ptrdiff_t>(first)));
    }
    // A chunk comes as we would have stored it, or as it was stored by the same filters.
    for (std::uint64_t first = 0; first < column.size(); first += chunks.chunk_rows()) {
      const std::size_t whole = chunks.chunk_rows();
      const Bytes back = decompress(chunks.stored_chunk(first), 0, sizeof(T), whole * sizeof(T));
      const std::size_t count = std::min<std::size_t>(whole, column.size() - first);
      ASSERT_EQ(std::memcmp(back.data(), column.data() + first, count * sizeof(T)), 0);
    }
  }

  const testing::TemporaryDirectory directory_;
  const std::filesystem::path path_ = directory_.path() / "x.h5";
};

TEST_F(BesideHdf5Test, Hdf5ReadsWhatWeWrite) {
  for (const std::size_t rows : {0, 1, 600, 4097, 32768, 32769, 100'000})
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      check_reading_of_ours<std::uint8_t>(rows, seed);
      check_reading_of_ours<std::uint32_t>(rows, seed);
      check_reading_of_ours<std::int32_t>(rows, seed);
      check_reading_of_ours<std::uint64_t>(rows, seed);
      check_reading_of_ours<std::int64_t>(rows, seed);
      check_reading_of_ours<double>(rows, seed + 1);
    }
}

TEST_F(BesideHdf5Test, WeReadWhatHdf5Writes) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const auto wide = some_rows<std::uint64_t>(50'001, seed);
    const auto narrow = some_rows<std::uint32_t>(50'001, seed);
    const auto bytes = some_rows<std::uint8_t>(50'001, seed);
    for (const hsize_t rows : {1000u, 32768u, 50'001u}) {
      const auto chunked = [&](hid_t creation) { H5Pset_chunk(creation, 1, &rows); };
      const auto usual = [&](hid_t creation) {
        chunked(creation);
        H5Pset_shuffle(creation);
        H5Pset_deflate(creation, 6);
        H5Pset_fletcher32(creation);
      };
      check_reading_of_hdf5_s(wide, usual);
      check_reading_of_hdf5_s(narrow, usual);
      check_reading_of_hdf5_s(bytes, usual);  // shuffled, as we would not
      const auto bytes_usual = [&](hid_t creation) {
        chunked(creation);
        H5Pset_deflate(creation, 1);
        H5Pset_fletcher32(creation);
      };
      check_reading_of_hdf5_s(bytes, bytes_usual);
      check_reading_of_hdf5_s(narrow, bytes_usual);
      check_reading_of_hdf5_s(wide, chunked);
      check_reading_of_hdf5_s(wide, [&](hid_t creation) {  // another order
        chunked(creation);
        H5Pset_fletcher32(creation);
        H5Pset_deflate(creation, 1);
        H5Pset_shuffle(creation);
      });
      check_reading_of_hdf5_s(wide, [&](hid_t creation) {
        usual(creation);
        H5Pset_chunk_opts(creation, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
      });
    }
    check_reading_of_hdf5_s(wide, [](hid_t) {});  // contiguous
  }
}

TEST_F(BesideHdf5Test, OurFiltersAreReadInAnyOrder) {
  constexpr hsize_t kChunk = 1001;
  using Add = herr_t (*)(hid_t);
  const std::vector<Add> filters = {[](hid_t creation) { return H5Pset_shuffle(creation); },
                                    [](hid_t creation) { return H5Pset_deflate(creation, 6); },
                                    [](hid_t creation) { return H5Pset_fletcher32(creation); }};
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const auto wide = some_rows<std::uint64_t>(3500, seed);
    const auto narrow = some_rows<std::uint32_t>(3500, seed);
    std::vector<std::size_t> order = {0, 1, 2};
    do {
      for (std::size_t count = 0; count <= order.size(); ++count) {
        const auto set_up = [&](hid_t creation) {
          H5Pset_chunk(creation, 1, &kChunk);
          for (std::size_t i = 0; i < count; ++i) ASSERT_GE(filters[order[i]](creation), 0);
        };
        check_reading_of_hdf5_s(wide, set_up);
        check_reading_of_hdf5_s(narrow, set_up);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

// HDF5 would take such a chunk for one that has its size, and read what is behind it in memory.
TEST_F(BesideHdf5Test, ChunksOfAnotherSizeAreDamage) {
  constexpr hsize_t kRows = 100'000;
  enum class Filters { kUsual, kOthers };
  const auto check = [&](const char* how, const Bytes& stored, Filters filters, auto add_filters) {
    ASSERT_NO_FATAL_FAILURE(write_by_hdf5(
        path_, "column", std::vector<std::uint64_t>(kRows),
        [&](hid_t creation) {
          H5Pset_chunk(creation, 1, &kRows);
          H5Pset_alloc_time(creation, H5D_ALLOC_TIME_INCR);
          add_filters(creation);
        },
        Write::kNothing));
    {
      const Id file(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
      const Id dataset(H5Dopen2(file, "column", H5P_DEFAULT), H5Dclose);
      const hsize_t begin = 0;
      ASSERT_GE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &begin, stored.size(), stored.data()), 0);
    }
    const h5::File file = h5::File::open(path_);
    const h5::Group root = file.root();
    const ChunkedColumn column = root.open_chunked_column("column", Type::kUint64);
    EXPECT_THROW((void)column.read<std::uint64_t>(0, 10), H5Error) << how;
    // With our filters it is passed on as it is, to a file whose readers look.
    if (filters == Filters::kUsual)
      EXPECT_EQ(column.stored_chunk(0), stored) << how;
    else
      EXPECT_THROW((void)column.stored_chunk(0), H5Error) << how;
    EXPECT_THROW((void)root.read_column<std::uint64_t>("column"), H5Error) << how;
    h5::ColumnStream stream = root.open_column<std::uint64_t>("column");
    std::vector<std::uint64_t> piece(10);
    EXPECT_THROW(stream.next(std::span(piece)), H5Error) << how;
  };
  const auto few = some_rows<std::uint64_t>(200, 0);  // random ones: enough bytes for that many rows
  const Bytes summed = compress(few);
  const Bytes alone(summed.begin(), summed.end() - 4);
  check("deflate", alone, Filters::kOthers, [](hid_t creation) { H5Pset_deflate(creation, 1); });
  check("deflate and fletcher32", summed, Filters::kOthers, [](hid_t creation) {
    H5Pset_deflate(creation, 1);
    H5Pset_fletcher32(creation);
  });
  check("all of them", summed, Filters::kUsual, [](hid_t creation) {
    H5Pset_shuffle(creation);
    H5Pset_deflate(creation, 1);
    H5Pset_fletcher32(creation);
  });
  check("shuffle", alone, Filters::kOthers, [](hid_t creation) { H5Pset_shuffle(creation); });
  check("fletcher32 before deflate", alone, Filters::kOthers, [](hid_t creation) {
    H5Pset_fletcher32(creation);
    H5Pset_deflate(creation, 1);
  });
}

TEST_F(BesideHdf5Test, ChunksOfOldFilesAreReadOnlyWithFilters) {
  constexpr hsize_t kChunk = 100;
  const auto column = some_rows<std::uint64_t>(1000, 1);
  const auto write_old = [&](bool filtered) {
    const auto set_up = [&](hid_t creation) {
      H5Pset_chunk(creation, 1, &kChunk);
      if (filtered) H5Pset_fletcher32(creation);
    };
    ASSERT_NO_FATAL_FAILURE(
        write_by_hdf5(path_, "column", column, set_up, Write::kRows, H5F_LIBVER_EARLIEST));
  };
  write_old(true);
  EXPECT_EQ(h5::File::open(path_).root().read_column<std::uint64_t>("column"), column);
  write_old(false);
  const h5::File file = h5::File::open(path_);
  EXPECT_THROW((void)file.root().read_column<std::uint64_t>("column"), H5Error);
}

TEST_F(BesideHdf5Test, SwappedChunksAreDamage) {
  const auto column = some_rows<std::uint64_t>(4 * h5::kChunkRows, 2);
  const auto rows = std::span(column);
  for (const auto& [a, b] : {std::pair(0u, 1u), std::pair(1u, 3u)}) {
    write([&](h5::Group& root) { root.write_column<std::uint64_t>("column", column); });
    ASSERT_NO_FATAL_FAILURE(swap_chunks(path_, "column", a * h5::kChunkRows, b * h5::kChunkRows));
    const h5::File file = h5::File::open(path_);
    const h5::Group root = file.root();
    const ChunkedColumn chunks = root.open_chunked_column("column", Type::kUint64);
    const auto moved = rows.subspan(b * h5::kChunkRows, h5::kChunkRows);
    const auto found = chunks.read<std::uint64_t>(a * h5::kChunkRows, h5::kChunkRows);
    ASSERT_TRUE(std::equal(found.begin(), found.end(), moved.begin())) << "each of them is right by itself";
    EXPECT_THROW((void)root.read_column<std::uint64_t>("column"), H5Error);
    h5::ColumnStream stream = root.open_column<std::uint64_t>("column");
    std::vector<std::uint64_t> piece(h5::kChunkRows);
    for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(stream.next(std::span(piece)));
    EXPECT_THROW(stream.next(std::span(piece)), H5Error);
  }
}

// Low bytes random, high ones not, as times are: HDF5 reads what was partly stored.
TEST_F(BesideHdf5Test, Hdf5ReadsChunksWithStoredPlanes) {
  constexpr std::size_t kRows = 20000;  // four random planes are more than one stored block
  std::vector<std::uint64_t> rows(kRows);
  std::mt19937_64 random(7);
  for (std::uint64_t& row : rows) row = (std::uint64_t{5} << 40) + (random() & 0xffff'ffff);
  const Bytes stored = h5::compress_chunk(bytes_of(rows), 8, h5::RandomPlanes::kStored);
  EXPECT_NE(stored, compress(rows));
  write([&](h5::Group& root) {
    ChunkedColumn column = root.create_chunked_column("column", Type::kUint64, kRows);
    column.set_rows(kRows);
    column.place(0, stored);
  });
  EXPECT_EQ(read_by_hdf5<std::uint64_t>(path_, "column"), rows);
}

// To deflate a plane of seven random bits would take half of the time, and save an eighth of it.
TEST(ChunksTest, PlanesThatHardlyShrinkAreStored) {
  constexpr std::size_t kRows = 8192;
  std::vector<std::uint64_t> rows(kRows);
  std::mt19937_64 random(7);
  for (std::uint64_t& row : rows) row = random() & 0x7fff'ffff;
  const Bytes stored = h5::compress_chunk(bytes_of(rows), 8, h5::RandomPlanes::kStored);
  EXPECT_GE(stored.size(), 4 * kRows);
  EXPECT_LT(stored.size(), 4 * kRows + kRows / 20) << "the planes of zeros are deflated";
  const Bytes back = decompress(stored, 0, 8, kRows * 8);
  EXPECT_EQ(std::memcmp(back.data(), rows.data(), back.size()), 0);
}

TEST_F(BesideHdf5Test, ChunksWithLeftOutFiltersAreRead) {
  constexpr hsize_t kRows = 1000;
  const auto column = some_rows<std::uint64_t>(3 * kRows, 2);
  ASSERT_NO_FATAL_FAILURE(write_by_hdf5(path_, "column", column, [&](hid_t creation) {
    H5Pset_chunk(creation, 1, &kRows);
    H5Pset_shuffle(creation);
    H5Pset_deflate(creation, 6);
    H5Pset_fletcher32(creation);
  }));
  {
    const Id file(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    const Id dataset(H5Dopen2(file, "column", H5P_DEFAULT), H5Dclose);
    const hsize_t second = kRows;
    ASSERT_GE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 7, &second, kRows * 8, column.data() + kRows), 0);
    // Deflated alone.
    const auto first = std::span(column).first(kRows);
    const Bytes stored = h5::compress_chunk(std::as_bytes(first), 1);
    const hsize_t begin = 0;
    ASSERT_GE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 5, &begin, stored.size() - 4, stored.data()), 0);
  }
  EXPECT_EQ(read_by_hdf5<std::uint64_t>(path_, "column"), column);
  const h5::File file = h5::File::open(path_);
  EXPECT_EQ(file.root().read_column<std::uint64_t>("column"), column);
  const ChunkedColumn chunks = file.root().open_chunked_column("column", Type::kUint64);
  for (const hsize_t first : {hsize_t{0}, kRows, 2 * kRows}) {
    const Bytes back = decompress(chunks.stored_chunk(first), 0, 8, kRows * 8);
    EXPECT_EQ(std::memcmp(back.data(), column.data() + first, back.size()), 0);
  }
}

// What a chunk of many rows costs is not paid again for each piece of it.
TEST_F(BesideHdf5Test, ChunksAreInflatedOnceForAllPieces) {
  constexpr hsize_t kChunk = 20000;
  const auto column = some_rows<std::uint64_t>(3 * kChunk / 2, 1);
  ASSERT_NO_FATAL_FAILURE(write_by_hdf5(path_, "column", column, [&](hid_t creation) {
    H5Pset_chunk(creation, 1, &kChunk);
    H5Pset_shuffle(creation);
    H5Pset_deflate(creation, 1);
    H5Pset_fletcher32(creation);
  }));
  haddr_t place = 0;
  hsize_t stored = 0;
  {
    const Id file(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    const Id dataset(H5Dopen2(file, "column", H5P_DEFAULT), H5Dclose);
    const hsize_t begin = 0;
    unsigned mask = 0;
    ASSERT_GE(H5Dget_chunk_info_by_coord(dataset, &begin, &mask, &place, &stored), 0);
  }
  const h5::File file = h5::File::open(path_);
  h5::ColumnStream stream = file.root().open_column<std::uint64_t>("column");
  std::vector<std::uint64_t> rows(column.size());
  stream.next(std::span(rows).first(1000));
  std::vector<std::uint8_t> bytes = testing::read_bytes(path_);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(place), stored, std::uint8_t{0});
  testing::write_bytes(path_, bytes);  // who reads it once more has an error
  for (std::size_t done = 1000; done < rows.size(); done += 1000)
    ASSERT_NO_THROW(stream.next(std::span(rows).subspan(done, 1000))) << done;
  EXPECT_EQ(rows, column);
}

TEST_F(BesideHdf5Test, RowsThatWereNeverWrittenAreRefused) {
  const hsize_t one = 1, rows = 300'000;
  const std::vector<std::uint64_t> large(5000);
  const auto write_one_chunk = [&](bool filtered) {
    ASSERT_NO_FATAL_FAILURE(write_by_hdf5(
        path_, "column", std::vector<std::uint64_t>(rows),
        [&](hid_t creation) {
          H5Pset_chunk(creation, 1, &one);
          H5Pset_alloc_time(creation, H5D_ALLOC_TIME_INCR);
          if (filtered) {
            H5Pset_shuffle(creation);
            H5Pset_deflate(creation, 1);
            H5Pset_fletcher32(creation);
          }
        },
        Write::kNothing));
    const Id file(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    const Id dataset(H5Dopen2(file, "column", H5P_DEFAULT), H5Dclose);
    const hsize_t begin = 0;
    // Of a size that makes up for all the others.
    ASSERT_GE(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &begin, filtered ? large.size() * 8 : 8, large.data()),
              0);
  };
  for (const bool filtered : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(write_one_chunk(filtered));
    const h5::File file = h5::File::open(path_);
    EXPECT_THROW((void)file.root().open_column<std::uint64_t>("column"), H5Error) << filtered;
    EXPECT_THROW((void)file.root().open_chunked_column("column", Type::kUint64), H5Error) << filtered;
  }
}

// A small file with a column of 8 GiB.
TEST_F(BesideHdf5Test, RowsInAHoleAreRefused) {
  {
    const Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
    const Id file(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose);
    const Id creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
    const hsize_t rows = hsize_t{1} << 30;
    const Id space(H5Screate_simple(1, &rows, nullptr), H5Sclose);
    const Id dataset(H5Dcreate2(file, "column", H5T_STD_U64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT),
                     H5Dclose);
  }
  ASSERT_GT(std::filesystem::file_size(path_), std::uintmax_t{1} << 33);
  const h5::File file = h5::File::open(path_);
  EXPECT_THROW((void)file.root().open_column<std::uint64_t>("column"), H5Error);
  EXPECT_THROW((void)file.root().open_chunked_column("column", Type::kUint64), H5Error);
}

// Deflated twice, a file is smaller than what is in it by any factor.
TEST_F(BesideHdf5Test, OtherFiltersAreRefused) {
  const auto column = some_rows<std::uint64_t>(5000, 1);
  const hsize_t chunk = 1000;
  const auto refused = [&](auto add_filters) {
    ASSERT_NO_FATAL_FAILURE(write_by_hdf5(path_, "column", column, [&](hid_t creation) {
      H5Pset_chunk(creation, 1, &chunk);
      add_filters(creation);
    }));
    const h5::File file = h5::File::open(path_);
    EXPECT_THROW((void)file.root().open_column<std::uint64_t>("column"), H5Error);
  };
  refused([](hid_t creation) {
    H5Pset_deflate(creation, 1);
    H5Pset_deflate(creation, 1);
  });
  refused([](hid_t creation) { H5Pset_scaleoffset(creation, H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT); });
}

// --- chunked columns -----------------------------------------------------------------------

class ChunkedColumnTest : public BesideHdf5Test {
 protected:
  static constexpr std::uint64_t kRows = 512;
  static constexpr std::size_t kChunks = 7, kLast = 100;  // rows of the last one

  void write_column() {
    rows_ = some_rows<std::uint64_t>(kChunks * kRows, 2);
    write([&](h5::Group& root) {
      ChunkedColumn column = root.create_chunked_column("column", Type::kUint64, kRows);
      EXPECT_EQ(column.rows(), 0u);
      // It grows, and chunks come in any order.
      for (const std::size_t chunk : {2, 0, 1, 6, 3, 5, 4}) {
        column.set_rows(std::max<std::uint64_t>(
            column.rows(), chunk + 1 == kChunks ? chunk * kRows + kLast : (chunk + 1) * kRows));
        column.place(chunk * kRows, h5::compress_chunk(bytes_of_chunk(chunk), 8));
      }
    });
    rows_.resize((kChunks - 1) * kRows + kLast);
  }
  std::span<const std::byte> bytes_of_chunk(std::size_t chunk) const {
    return std::as_bytes(std::span(rows_).subspan(chunk * kRows, kRows));
  }

  std::vector<std::uint64_t> rows_;
};

// Each thread writes and reads a file of its own, and looks for columns that are not there.
TEST_F(ChunkedColumnTest, ThreadsUseDifferentFilesAtTheSameTime) {
  constexpr std::size_t kThreads = 4, kFiles = 20;
  std::vector<std::string> wrong(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t)
      threads.emplace_back([this, t, &wrong] {
        try {
          for (std::size_t i = 0; i < kFiles; ++i) {
            const std::filesystem::path path = directory_.path() / std::to_string(t * kFiles + i);
            const std::vector<std::uint64_t> column =
                some_rows<std::uint64_t>(300 + 3000 * i, t * kFiles + i);
            h5::File made = h5::File::create(path);
            {
              h5::Group root = made.root();
              root.create_group("table").write_column<std::uint64_t>("column", column);
              root.write_attribute("name", std::string_view(path.native()));
            }
            made.close();
            const h5::File file = h5::File::open(path);
            const h5::Group table = file.root().open_group("table");
            if (table.read_column<std::uint64_t>("column") != column ||
                file.root().read_string("name") != path.native())
              wrong[t] += "other rows; ";
            try {
              static_cast<void>(h5::File::open(path.native() + ".none"));
              wrong[t] += "a file that is not there; ";
            } catch (const h5::H5Error& error) {
              if (std::string_view(error.what()).find("No such file") == std::string_view::npos)
                wrong[t] += error.what();
            }
          }
        } catch (const h5::H5Error& error) {
          wrong[t] += error.what();
        }
      });
  }
  EXPECT_EQ(wrong, std::vector<std::string>(kThreads));
}

TEST_F(ChunkedColumnTest, ReadsAnyRows) {
  write_column();
  EXPECT_EQ(read_by_hdf5<std::uint64_t>(path_, "column"), rows_);
  const h5::File file = h5::File::open(path_);
  const ChunkedColumn column = file.root().open_chunked_column("column", Type::kUint64);
  EXPECT_EQ(column.rows(), rows_.size());
  EXPECT_EQ(column.chunk_rows(), kRows);
  EXPECT_EQ(file.root().rows<std::uint64_t>("column"), rows_.size());
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const std::size_t first = random() % (rows_.size() + 1);
    const std::size_t count = i == 0 ? 0 : random() % (rows_.size() - first + 1);
    const auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(first);
    ASSERT_EQ(column.read<std::uint64_t>(first, count),
              std::vector<std::uint64_t>(begin, begin + static_cast<std::ptrdiff_t>(count)));
  }
}

TEST_F(ChunkedColumnTest, ChunksCanBeCopiedAsTheyAre) {
  write_column();
  const std::vector<std::uint8_t> original = testing::read_bytes(path_);
  const std::filesystem::path copy = directory_.path() / "copy.h5";
  {
    const h5::File from = h5::File::open(path_);
    const ChunkedColumn source = from.root().open_chunked_column("column", Type::kUint64);
    h5::File to = h5::File::create(copy);
    {
      h5::Group root = to.root();
      ChunkedColumn column = root.create_chunked_column("column", Type::kUint64, source.chunk_rows());
      column.set_rows(source.rows());
      for (std::uint64_t row = 0; row < source.rows(); row += source.chunk_rows())
        column.place(row, source.stored_chunk(row));
    }
    to.close();
  }
  EXPECT_EQ(read_by_hdf5<std::uint64_t>(copy, "column"), rows_);
  const h5::File file = h5::File::open(copy);
  EXPECT_EQ(file.root().open_chunked_column("column", Type::kUint64).read<std::uint64_t>(0, rows_.size()),
            rows_);
}

TEST_F(ChunkedColumnTest, TheSameColumnGivesTheSameFile) {
  write_column();
  const std::vector<std::uint8_t> first = testing::read_bytes(path_);
  write_column();
  EXPECT_EQ(testing::read_bytes(path_), first);
}

TEST_F(ChunkedColumnTest, MissingColumnsAndRowsAreErrors) {
  write_column();
  const h5::File file = h5::File::open(path_);
  const h5::Group root = file.root();
  EXPECT_THROW((void)root.open_chunked_column("column", Type::kUint32), H5Error);
  EXPECT_THROW((void)root.open_chunked_column("colum", Type::kUint64), H5Error);
  const ChunkedColumn column = root.open_chunked_column("column", Type::kUint64);
  EXPECT_THROW((void)column.read<std::uint64_t>(0, rows_.size() + 1), H5Error);
  EXPECT_THROW((void)column.read<std::uint64_t>(rows_.size() + 1, 0), H5Error);
  EXPECT_THROW((void)column.read<std::uint64_t>(1, ~std::uint64_t{0}), H5Error);
  EXPECT_THROW((void)column.read<std::int64_t>(0, 1), H5Error);
  EXPECT_THROW((void)column.stored_chunk(1), H5Error);
  EXPECT_THROW((void)column.stored_chunk(kChunks * kRows), H5Error);
  EXPECT_THROW((void)root.read_column<std::uint64_t>("column"), H5Error);  // has no checksum of its own
}

TEST_F(ChunkedColumnTest, DamagedFilesGiveTheRowsOrAnError) {
  write_column();
  const std::vector<std::uint8_t> original = testing::read_bytes(path_);
  std::mt19937_64 random(3);
  std::size_t noticed = 0;
  constexpr int kTries = 600;
  for (int i = 0; i < kTries; ++i) {
    std::vector<std::uint8_t> bytes = original;
    if (i % 4 == 0)
      bytes.resize(random() % bytes.size());
    else
      bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    testing::write_bytes(path_, bytes);
    try {
      const h5::File file = h5::File::open(path_);
      const ChunkedColumn column = file.root().open_chunked_column("column", Type::kUint64);
      ASSERT_EQ(column.read<std::uint64_t>(0, column.rows()), rows_) << "try " << i;
      for (std::uint64_t row = 0; row < column.rows(); row += column.chunk_rows())
        (void)column.stored_chunk(row);
    } catch (const H5Error& error) {
      ++noticed;
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(noticed, kTries / 2u);
}

}  // namespace
}  // namespace clusterprof
