// SPDX-License-Identifier: BSD-3-Clause
// HDF5 as far as the formats need it: files with groups of columns and attributes. The only
// code that includes hdf5.h; everything else sees this.
//
// Every failure is an H5Error with one line; the library's own printing is off. Storage,
// filters and checksums of a column are those of FORMATS.md.
//
// Different files may be used from different threads at the same time, which wait for each other only while
// one of them is inside of HDF5. An object, and all that belongs to one file: one thread at a time, but for
// ChunkedColumn::read().
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
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

// A chunk of a column as it is stored: shuffled (items of more than one byte), deflated, with its fletcher32,
// as HDF5's filters of these names would have done it. Equal rows give equal bytes. `rows` are those of a
// whole chunk. item_bytes: 1, 4 or 8. No HDF5 in it: any thread.
// kStored: leading planes of the shuffled chunk that look random (the low bytes of times) are not deflated,
// which would take most of the time and save little; up to 5 % larger.
enum class RandomPlanes { kDeflated, kStored };
std::vector<std::byte> compress_chunk(std::span<const std::byte> rows, std::size_t item_bytes,
                                      RandomPlanes random_planes = RandomPlanes::kDeflated);

// The way back, to exactly rows.size() bytes. Bit n of filter_mask: the nth of these filters was left out.
// Throws H5Error unless the chunk is all right; `rows` may be anything then. Any thread.
void decompress_chunk(std::span<const std::byte> stored, std::uint32_t filter_mask, std::size_t item_bytes,
                      std::span<std::byte> rows);

// Rows of a chunk of a column, but for chunked columns.
inline constexpr std::size_t kChunkRows = 32768;

// Bytes of one item of a column.
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

// A column that is written and read chunk by chunk. It has no checksum of its own beyond those of its chunks:
// whoever uses it stores one elsewhere. Must be gone before File::close().
class ChunkedColumn {
 public:
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  // Chunks begin at multiples of it. Also the last one is stored whole, whatever stands behind the last row.
  [[nodiscard]] std::uint64_t chunk_rows() const noexcept { return chunk_rows_; }

  // For columns of Group::create_chunked_column(). All chunks below rows() have to be placed, in any order.
  void set_rows(std::uint64_t rows);
  // `stored`: what compress_chunk() made of chunk_rows() rows. first_row: begin of a chunk, below rows().
  // Each chunk once.
  void place(std::uint64_t first_row, std::span<const std::byte> stored);

  // The chunk that begins at first_row in the form of compress_chunk(): can be placed in another column of
  // that type and chunk_rows(). Rows behind the last one are kept. Damage need not be noticed.
  [[nodiscard]] std::vector<std::byte> stored_chunk(std::uint64_t first_row) const;

  // Rows first_row up to, not including, first_row + count, which may lie anywhere in rows(). Reads the
  // chunks concerned only; of their damage, that which fletcher32 and deflate notice is noticed.
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
  bool usual_filters_ = true;  // those of compress_chunk(); else HDF5 reads it
};

// A column read from its first row to its last, piece by piece.
class ColumnStream {
 public:
  ColumnStream(ColumnStream&&) noexcept;
  ColumnStream& operator=(ColumnStream&&) noexcept;
  ~ColumnStream();

  [[nodiscard]] std::uint64_t rows() const noexcept;
  // The next rows, no more than there are; pieces of kChunkRows cost least. The last ones come with the check
  // of the column's checksum.
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
  [[nodiscard]] bool has(const char* name) const;  // group or dataset of that name

  template <typename T>
  void write_column(const char* name, std::span<const T> rows) {
    write_raw(name, kTypeOf<T>, rows.data(), rows.size());
  }
  // The whole column; its stored type must be exactly T and its checksum right.
  template <typename T>
  [[nodiscard]] std::vector<T> read_column(const char* name) const {
    ColumnStream column = open_column<T>(name);
    std::vector<T> rows(column.rows());
    column.next(std::span<T>(rows));
    return rows;
  }
  // The same, to be read piece by piece.
  template <typename T>
  [[nodiscard]] ColumnStream open_column(const char* name) const {
    return open_stream(name, kTypeOf<T>);
  }
  // How many rows a column has, without reading it.
  template <typename T>
  [[nodiscard]] std::uint64_t rows(const char* name) const {
    return open_dataset(name, kTypeOf<T>).rows;
  }
  // Empty, to be extended.
  [[nodiscard]] ChunkedColumn create_chunked_column(const char* name, Type type, std::uint64_t chunk_rows);
  // The stored type must be exactly `type`. A column that is not chunked counts as one chunk.
  [[nodiscard]] ChunkedColumn open_chunked_column(const char* name, Type type) const;
  // Strings are two columns, see FORMATS.md.
  void write_strings(const char* name, const std::vector<std::string>& rows);
  [[nodiscard]] std::vector<std::string> read_strings(const char* name) const;

  void write_attribute(const char* name, std::uint8_t value);
  void write_attribute(const char* name, std::uint32_t value);
  void write_attribute(const char* name, std::int64_t value);
  void write_attribute(const char* name, std::string_view value);  // without NUL inside
  [[nodiscard]] bool has_attribute(const char* name) const;
  // Integers of any width are accepted as long as the value fits.
  [[nodiscard]] std::int64_t read_integer(const char* name, std::int64_t minimum, std::int64_t maximum) const;
  [[nodiscard]] std::string read_string(const char* name) const;

  // "/values" and the like, for messages.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  friend class File;
  struct Dataset {
    Handle handle;
    std::uint64_t rows = 0;
    std::uint64_t chunk_rows = 0;  // none: it is not chunked
    bool usual_filters = false;    // those of compress_chunk()
  };
  Group(Handle id, std::string name, std::uint64_t file_bytes)
      : id_(std::move(id)), name_(std::move(name)), file_bytes_(file_bytes) {}
  void write_raw(const char* name, Type type, const void* rows, std::size_t count);
  [[nodiscard]] Dataset open_dataset(const char* name, Type type) const;
  [[nodiscard]] ColumnStream open_stream(const char* name, Type type) const;
  [[nodiscard]] std::string path_of(const char* name) const;

  Handle id_;
  std::string name_;
  std::uint64_t file_bytes_ = 0;  // bounds what a damaged file can make us allocate
};

class File {
 public:
  [[nodiscard]] static File create(const std::filesystem::path& path);  // must not exist
  [[nodiscard]] static File open(const std::filesystem::path& path);    // read only
  [[nodiscard]] Group root() const;
  // Writes what is still buffered; errors of the disk show here. Groups must be gone.
  void close();

 private:
  File(Handle id, std::uint64_t bytes) : id_(std::move(id)), bytes_(bytes) {}
  Handle id_;
  std::uint64_t bytes_ = 0;
};

}  // namespace clusterprof::h5
