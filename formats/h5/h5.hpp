// SPDX-License-Identifier: BSD-3-Clause
// The part of HDF5 that our formats use: files with groups of columns and attributes. Only this folder
// includes hdf5.h.
//
// Every failure throws H5Error with a message of one line; HDF5's own printing is off. FORMATS.md says how a
// column is stored, filtered and checksummed.
//
// Threads may use different files at the same time; they wait for each other only while one of them is inside
// HDF5. All objects of one file must be used by one thread at a time, except for ChunkedColumn::read().
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace clusterprof::h5 {

struct H5Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Type { kUint8, kInt32, kUint32, kInt64, kUint64, kFloat64 };

template <typename T>
inline constexpr Type kTypeOf = T::unsupported_column_type;
template <>
inline constexpr Type kTypeOf<std::uint8_t> = Type::kUint8;
template <>
inline constexpr Type kTypeOf<std::int32_t> = Type::kInt32;
template <>
inline constexpr Type kTypeOf<std::uint32_t> = Type::kUint32;
template <>
inline constexpr Type kTypeOf<std::int64_t> = Type::kInt64;
template <>
inline constexpr Type kTypeOf<std::uint64_t> = Type::kUint64;
template <>
inline constexpr Type kTypeOf<double> = Type::kFloat64;

// Makes a chunk of a column as it is stored: shuffled (if items have more than one byte), deflated, and with
// its fletcher32, as HDF5's filters of these names would do it. Equal rows give equal bytes. `rows`: those of
// a whole chunk. item_bytes: 1, 4 or 8. Any thread may call it, for it does not use HDF5.
// RandomPlanes::kStored leaves the leading planes of the shuffled chunk undeflated if they look random (the
// low bytes of times): deflating these takes most of the time. The result is up to 5 % larger.
enum class RandomPlanes { kDeflated, kStored };
std::vector<std::byte> compress_chunk(std::span<const std::byte> rows, std::size_t item_bytes,
                                      RandomPlanes random_planes = RandomPlanes::kDeflated);

// Reverses compress_chunk(); the result must have exactly rows.size() bytes. Bit n of filter_mask says that
// the nth filter was left out. Throws H5Error if the chunk is damaged, and leaves `rows` undefined then. Any
// thread.
void decompress_chunk(std::span<const std::byte> stored, std::uint32_t filter_mask, std::size_t item_bytes,
                      std::span<std::byte> rows);

enum class Filter : std::uint8_t { kShuffle, kDeflate, kFletcher32 };
// The same for a chunk of another program, which went through these filters, each at most once, in this
// order. Slower.
void decompress_chunk(std::span<const std::byte> stored, std::uint32_t filter_mask,
                      std::span<const Filter> filters, std::size_t item_bytes, std::span<std::byte> rows);

// How the chunks of a column are stored.
struct Chunks {
  std::uint64_t rows = 0;              // of each; 0: the column is not chunked
  bool has_usual_filters = true;       // those of compress_chunk(), in all chunks
  std::vector<Filter> filters = {};    // otherwise: these, in the order in which they were applied
  bool cut_one_is_unfiltered = false;  // a last chunk that is only partly within the column
};

// Rows per chunk, except in columns made by create_chunked_column().
inline constexpr std::size_t kChunkRows = 32768;

[[nodiscard]] std::size_t item_bytes(Type type);

// Owns an HDF5 identifier of any kind.
class Handle {
 public:
  Handle() noexcept = default;
  explicit Handle(std::int64_t id) noexcept : id_(id) {}
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();
  [[nodiscard]] std::int64_t get() const noexcept { return id_; }

 private:
  std::int64_t id_ = -1;
};

// A column that is written and read chunk by chunk. Only its chunks have checksums; users who want one of the
// rows must store it elsewhere. Must be destroyed before File::close().
class ChunkedColumn {
 public:
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  // Chunks begin at multiples of this. The last chunk is stored whole, too; what follows the last row is
  // meaningless.
  [[nodiscard]] std::uint64_t chunk_rows() const noexcept { return chunk_rows_; }

  // For columns of Group::create_chunked_column(). Every chunk below rows() must then be placed, in any
  // order.
  void set_rows(std::uint64_t rows);
  // Writes a chunk, which must not have been placed before. `stored`: what compress_chunk() made of
  // chunk_rows() rows. first_row: a multiple of chunk_rows(), below rows().
  void place(std::uint64_t first_row, std::span<const std::byte> stored);

  // The chunk that begins at first_row, in the form that compress_chunk() makes: it can be placed in another
  // column of the same type and chunk_rows(). Does not necessarily notice damage.
  [[nodiscard]] std::vector<std::byte> stored_chunk(std::uint64_t first_row) const;

  // Reads the rows from first_row on, anywhere within rows(). Reads only the chunks that they are in, and
  // notices damage as far as fletcher32 and deflate do.
  template <typename T>
  void read(std::uint64_t first_row, std::span<T> rows) const {
    read_raw(kTypeOf<T>, first_row, rows.size(), rows.data());
  }
  template <typename T>
  [[nodiscard]] std::vector<T> read(std::uint64_t first_row, std::uint64_t count) const {
    check_range(first_row, count);
    std::vector<T> rows(count);
    read(first_row, std::span<T>(rows));
    return rows;
  }

 private:
  friend class Group;
  ChunkedColumn(Handle dataset, std::string what, Type type)
      : dataset_(std::move(dataset)), what_(std::move(what)), type_(type) {}
  void check_range(std::uint64_t first_row, std::uint64_t count) const;
  void read_raw(Type type, std::uint64_t first_row, std::uint64_t count, void* rows) const;

  Handle dataset_;
  std::string what_;  // "column /values/wall_ns", for messages
  Type type_;
  std::uint64_t rows_ = 0, chunk_rows_ = 0;
  std::uint64_t file_bytes_ = 0;
  Chunks chunks_;
};

// Reads a column from its first row to its last, piece by piece.
class ColumnStream {
 public:
  ColumnStream(ColumnStream&&) noexcept;
  ColumnStream& operator=(ColumnStream&&) noexcept;
  ~ColumnStream();

  [[nodiscard]] std::uint64_t rows() const noexcept;
  // Reads the next rows. Throws if there are fewer. Pieces of kChunkRows are fastest. When the last row has
  // been read, the column's checksum is checked.
  template <typename T>
  void next(std::span<T> rows) {
    next_raw(kTypeOf<T>, rows.data(), rows.size());
  }

 private:
  friend class Group;
  struct State;
  explicit ColumnStream(std::unique_ptr<State> state);
  void next_raw(Type type, void* rows, std::size_t count);
  std::unique_ptr<State> state_;
};

class Group {
 public:
  [[nodiscard]] Group create_group(const char* name);
  [[nodiscard]] Group open_group(const char* name) const;
  [[nodiscard]] bool has(const char* name) const;  // a group or dataset of that name

  template <typename T>
  void write_column(const char* name, std::span<const T> rows) {
    write_raw(name, kTypeOf<T>, rows.data(), rows.size());
  }
  // Reads the whole column. Its stored type must be exactly T, and its checksum must be right.
  template <typename T>
  [[nodiscard]] std::vector<T> read_column(const char* name) const {
    ColumnStream column = open_column<T>(name);
    std::vector<T> rows(column.rows());
    column.next(std::span<T>(rows));
    return rows;
  }
  // Opens the column to read it piece by piece, under the same conditions.
  template <typename T>
  [[nodiscard]] ColumnStream open_column(const char* name) const {
    return open_stream(name, kTypeOf<T>);
  }
  // The number of rows of a column, which is not read.
  template <typename T>
  [[nodiscard]] std::uint64_t rows(const char* name) const {
    return open_dataset(name, kTypeOf<T>).rows;
  }
  // Makes an empty column. ChunkedColumn::set_rows() extends it.
  [[nodiscard]] ChunkedColumn create_chunked_column(const char* name, Type type, std::uint64_t chunk_rows);
  // The stored type must be exactly `type`. A column that is not chunked counts as one chunk.
  [[nodiscard]] ChunkedColumn open_chunked_column(const char* name, Type type) const;
  // Strings are stored as two columns (FORMATS.md).
  void write_strings(const char* name, const std::vector<std::string>& rows);
  [[nodiscard]] std::vector<std::string> read_strings(const char* name) const;

  void write_attribute(const char* name, std::uint8_t value);
  void write_attribute(const char* name, std::uint32_t value);
  void write_attribute(const char* name, std::int64_t value);
  void write_attribute(const char* name, std::string_view value);  // must not contain NUL
  [[nodiscard]] bool has_attribute(const char* name) const;
  // Accepts an integer of any width whose value is within the range.
  [[nodiscard]] std::int64_t read_integer(const char* name, std::int64_t minimum, std::int64_t maximum) const;
  [[nodiscard]] std::string read_string(const char* name) const;

  // "/values" and the like, for messages.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  friend class File;
  struct Dataset {
    Handle handle;
    std::uint64_t rows = 0;
    Chunks chunks;
  };
  Group(Handle id, std::string name, std::uint64_t file_bytes)
      : id_(std::move(id)), name_(std::move(name)), file_bytes_(file_bytes) {}
  void write_raw(const char* name, Type type, const void* rows, std::size_t count);
  [[nodiscard]] Dataset open_dataset(const char* name, Type type) const;
  [[nodiscard]] ColumnStream open_stream(const char* name, Type type) const;
  [[nodiscard]] std::string path_of(const char* name) const;

  Handle id_;
  std::string name_;
  std::uint64_t file_bytes_ = 0;  // limits what a damaged file can make us allocate
};

class File {
 public:
  [[nodiscard]] static File create(const std::filesystem::path& path);  // must not exist
  [[nodiscard]] static File open(const std::filesystem::path& path);    // read only
  // The bytes of a new file, which is made in memory and filled by `fill`.
  [[nodiscard]] static std::vector<std::byte> image_of(const std::function<void(Group& root)>& fill);
  // Opens the bytes of a file, which are copied; read only.
  [[nodiscard]] static File open_image(std::span<const std::byte> image);
  [[nodiscard]] Group root() const;
  // Writes what is still buffered, so a full disk may show only here. All groups must have been destroyed.
  void close();

 private:
  File(Handle id, std::uint64_t bytes) : id_(std::move(id)), bytes_(bytes) {}
  Handle id_;
  std::uint64_t bytes_ = 0;
};

}  // namespace clusterprof::h5
