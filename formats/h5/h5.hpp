// SPDX-License-Identifier: BSD-3-Clause
// HDF5 as far as the formats need it: files with groups of columns and attributes. The only
// code that includes hdf5.h; everything else sees this.
//
// Every failure is an H5Error with one line; the library's own printing is off. Storage,
// filters and checksums of a column are those of FORMATS.md.
//
// HDF5 keeps global state: use from one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
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
    Column column = open_column(name, kTypeOf<T>);
    std::vector<T> rows(column.rows);
    read_raw(column, name, kTypeOf<T>, rows.data());
    return rows;
  }
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
  struct Column {
    Handle dataset;
    std::uint64_t rows = 0;
  };
  Group(Handle id, std::string name, std::uint64_t file_bytes)
      : id_(std::move(id)), name_(std::move(name)), file_bytes_(file_bytes) {}
  void write_raw(const char* name, Type type, const void* rows, std::size_t count);
  [[nodiscard]] Column open_column(const char* name, Type type) const;
  void read_raw(const Column& column, const char* name, Type type, void* rows) const;
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
