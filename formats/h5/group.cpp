// SPDX-License-Identifier: BSD-3-Clause
// Files, groups and attributes. Columns are in column.cpp.
#include <fcntl.h>
#include <hdf5.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/believable_bytes.hpp"
#include "base/unique_fd.hpp"
#include "formats/h5/h5.hpp"
#include "formats/h5/library.hpp"

namespace clusterprof::h5 {
namespace {

Handle access_properties() {
  Handle properties = checked(H5Pcreate(H5P_FILE_ACCESS), "HDF5 cannot be set up");
  // All metadata of version 1.10 has checksums, so damage is noticed.
  check(H5Pset_libver_bounds(properties.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "HDF5 cannot be set up");
  // Parallel file systems often lack locks or are slow at them. We need none: a file that has its final name
  // is complete.
  check(H5Pset_file_locking(properties.get(), false, true), "HDF5 cannot be set up");
  // Makes closing fail while a group is still open, which would silently keep the file open.
  check(H5Pset_fclose_degree(properties.get(), H5F_CLOSE_SEMI), "HDF5 cannot be set up");
  return properties;
}

Handle creation_properties() {
  Handle creation = checked(H5Pcreate(H5P_FILE_CREATE), "HDF5 cannot be set up");
  // No modification times: the same content must give the same bytes.
  check(H5Pset_obj_track_times(creation.get(), false), "HDF5 cannot be set up");
  return creation;
}

// HDF5 takes two files in memory that have the same name for one.
std::string name_in_memory() {
  static std::atomic<std::uint64_t> number{0};
  return "in memory " + std::to_string(++number);
}

constexpr std::size_t kMemoryIncrement = 256 << 10;

// What a file in memory is kept in, which stays when HDF5 closes the file. (H5Fget_file_image() would give
// the bytes of an open file, but with a wrong checksum in the superblock.)
struct FreeBytes {
  void operator()(std::byte* bytes) const noexcept { std::free(bytes); }
};
struct Memory {
  std::unique_ptr<std::byte, FreeBytes> content;
  std::size_t bytes = 0;
};

H5FD_file_image_callbacks_t memory_callbacks(Memory& memory) {
  H5FD_file_image_callbacks_t callbacks{};
  callbacks.image_malloc = [](std::size_t bytes, H5FD_file_image_op_t, void* udata) -> void* {
    static_cast<Memory*>(udata)->bytes = bytes;
    return std::malloc(bytes);
  };
  callbacks.image_memcpy = [](void* to, const void* from, std::size_t bytes, H5FD_file_image_op_t,
                              void*) -> void* { return std::memcpy(to, from, bytes); };
  callbacks.image_realloc = [](void* old, std::size_t bytes, H5FD_file_image_op_t, void* udata) -> void* {
    void* const grown = std::realloc(old, bytes);
    if (grown != nullptr) static_cast<Memory*>(udata)->bytes = bytes;
    return grown;
  };
  callbacks.image_free = [](void* content, H5FD_file_image_op_t when, void* udata) -> herr_t {
    if (when == H5FD_FILE_IMAGE_OP_FILE_CLOSE)
      static_cast<Memory*>(udata)->content.reset(static_cast<std::byte*>(content));
    else
      std::free(content);
    return 0;
  };
  callbacks.udata_copy = [](void* udata) { return udata; };
  callbacks.udata_free = [](void*) -> herr_t { return 0; };
  callbacks.udata = &memory;
  return callbacks;
}

}  // namespace

// --- File -----------------------------------------------------------------------------------

File File::create(const std::filesystem::path& path) {
  const InLibrary in_library;
  silence();
  const Handle access = access_properties();
  const Handle creation = creation_properties();
  return File(
      checked(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()), "cannot be created"), 0);
}

File File::open(const std::filesystem::path& path) {
  const InLibrary in_library;
  silence();
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) throw H5Error("cannot be opened: " + error.message());
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const std::uint64_t limit = file ? believable_bytes(file.get(), 0, bytes) : bytes;
  const Handle access = access_properties();
  return File(checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "is not a readable HDF5 file"),
              limit);
}

std::vector<std::byte> File::image_of(const std::function<void(Group& root)>& fill) {
  Memory memory;
  Handle id;
  {
    const InLibrary in_library;
    silence();
    const Handle access = access_properties(), creation = creation_properties();
    check(H5Pset_fapl_core(access.get(), kMemoryIncrement, false), "HDF5 cannot be set up");
    H5FD_file_image_callbacks_t callbacks = memory_callbacks(memory);
    check(H5Pset_file_image_callbacks(access.get(), &callbacks), "HDF5 cannot be set up");
    id = checked(H5Fcreate(name_in_memory().c_str(), H5F_ACC_EXCL, creation.get(), access.get()),
                 "cannot be created");
  }
  File file(std::move(id), 0);
  {
    Group root = file.root();
    fill(root);
  }
  file.close();
  // Of superblocks of version 3, as H5F_LIBVER_V110 makes them. The buffer is larger.
  constexpr std::size_t kEndOfFile = 28;
  std::uint64_t bytes = 0;
  if (!memory.content || memory.bytes < kEndOfFile + sizeof bytes) throw H5Error("cannot be made in memory");
  std::memcpy(&bytes, memory.content.get() + kEndOfFile, sizeof bytes);
  if (bytes > memory.bytes) throw H5Error("cannot be made in memory");
  const std::byte* const begin = memory.content.get();
  return std::vector<std::byte>(begin, begin + bytes);
}

File File::open_image(std::span<const std::byte> image) {
  const InLibrary in_library;
  silence();
  const Handle access = access_properties();
  check(H5Pset_fapl_core(access.get(), kMemoryIncrement, false), "HDF5 cannot be set up");
  check(H5Pset_file_image(access.get(), const_cast<std::byte*>(image.data()), image.size()),
        "HDF5 cannot be set up");
  return File(
      checked(H5Fopen(name_in_memory().c_str(), H5F_ACC_RDONLY, access.get()), "is not a readable HDF5 file"),
      image.size());
}

Group File::root() const {
  const InLibrary in_library;
  return Group(checked(H5Gopen2(id_.get(), "/", H5P_DEFAULT), "root group cannot be opened"), "", bytes_);
}

void File::close() {
  const InLibrary in_library;
  const hid_t id = id_.get();
  check(H5Fflush(id, H5F_SCOPE_LOCAL), "cannot be written");
  id_ = Handle();
}

// --- Group ----------------------------------------------------------------------------------

std::string Group::path_of(const char* name) const { return name_ + "/" + name; }

Group Group::create_group(const char* name) {
  const InLibrary in_library;
  const std::string where = path_of(name);
  const Handle creation = checked(H5Pcreate(H5P_GROUP_CREATE), where + " cannot be created");
  check(H5Pset_obj_track_times(creation.get(), false), where + " cannot be created");
  return Group(checked(H5Gcreate2(id_.get(), name, H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                       where + " cannot be created"),
               where, file_bytes_);
}

Group Group::open_group(const char* name) const {
  const InLibrary in_library;
  const std::string where = path_of(name);
  if (!has(name)) throw H5Error("table " + where + " is missing");
  return Group(checked(H5Gopen2(id_.get(), name, H5P_DEFAULT), "table " + where + " cannot be opened"), where,
               file_bytes_);
}

bool Group::has(const char* name) const {
  const InLibrary in_library;
  const htri_t exists = H5Lexists(id_.get(), name, H5P_DEFAULT);
  check(exists, path_of(name) + " cannot be looked up");
  if (exists == 0) return false;
  H5L_info_t link{};
  check(H5Lget_info(id_.get(), name, &link, H5P_DEFAULT), path_of(name) + " cannot be looked up");
  if (link.type != H5L_TYPE_HARD) throw H5Error(path_of(name) + " is not in this file");
  return true;
}

void Group::write_strings(const char* name, const std::vector<std::string>& rows) {
  std::vector<std::uint64_t> offsets;
  offsets.reserve(rows.size() + 1);
  std::vector<std::uint8_t> bytes;
  offsets.push_back(0);
  for (const std::string& row : rows) {
    bytes.insert(bytes.end(), row.begin(), row.end());
    offsets.push_back(bytes.size());
  }
  const std::string column = name;
  write_column<std::uint8_t>((column + "_bytes").c_str(), bytes);
  write_column<std::uint64_t>((column + "_offsets").c_str(), offsets);
}

std::vector<std::string> Group::read_strings(const char* name) const {
  const std::string column = name;
  const auto bytes = read_column<std::uint8_t>((column + "_bytes").c_str());
  const auto offsets = read_column<std::uint64_t>((column + "_offsets").c_str());
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != bytes.size() ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    throw H5Error("column " + path_of(name) + "_offsets does not fit its strings");
  std::vector<std::string> rows;
  rows.reserve(offsets.size() - 1);
  const char* text = reinterpret_cast<const char*>(bytes.data());
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    rows.emplace_back();
    if (offsets[i + 1] != offsets[i]) rows.back().assign(text + offsets[i], offsets[i + 1] - offsets[i]);
  }
  return rows;
}

void Group::write_attribute(const char* name, std::uint8_t value) {
  const InLibrary in_library;
  put_attribute(id_.get(), "attribute " + path_of(name), name, H5T_STD_U8LE, &value);
}

void Group::write_attribute(const char* name, std::uint32_t value) {
  const InLibrary in_library;
  put_attribute(id_.get(), "attribute " + path_of(name), name, H5T_STD_U32LE, &value);
}

void Group::write_attribute(const char* name, std::int64_t value) {
  const InLibrary in_library;
  put_attribute(id_.get(), "attribute " + path_of(name), name, H5T_STD_I64LE, &value);
}

void Group::write_attribute(const char* name, std::string_view value) {
  const InLibrary in_library;
  const std::string what = "attribute " + path_of(name);
  const Handle type = checked(H5Tcopy(H5T_C_S1), what + " cannot be written");
  check(H5Tset_size(type.get(), std::max<std::size_t>(value.size(), 1)), what + " cannot be written");
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), what + " cannot be written");
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), what + " cannot be written");
  const std::string text(value);  // adds the NUL that an empty value needs
  put_attribute(id_.get(), what, name, type.get(), text.c_str());
}

bool Group::has_attribute(const char* name) const {
  const InLibrary in_library;
  const htri_t exists = H5Aexists(id_.get(), name);
  check(exists, "attribute " + path_of(name) + " cannot be looked up");
  return exists > 0;
}

std::int64_t Group::read_integer(const char* name, std::int64_t minimum, std::int64_t maximum) const {
  const InLibrary in_library;
  const std::string what = "attribute " + path_of(name);
  if (!has_attribute(name)) throw H5Error(what + " is missing");
  const auto [attribute, type] = open_scalar_attribute(id_.get(), what, name);
  if (H5Tget_class(type.get()) != H5T_INTEGER) throw H5Error(what + " is not a number");
  std::int64_t value = 0;  // HDF5 clamps a uint64 that does not fit; the range check below refuses it
  check(H5Aread(attribute.get(), H5T_NATIVE_INT64, &value), what + " cannot be read");
  if (value < minimum || value > maximum) throw H5Error(what + " is out of range");
  return value;
}

std::string Group::read_string(const char* name) const {
  const InLibrary in_library;
  const std::string what = "attribute " + path_of(name);
  if (!has_attribute(name)) throw H5Error(what + " is missing");
  const auto [attribute, type] = open_scalar_attribute(id_.get(), what, name);
  if (H5Tget_class(type.get()) != H5T_STRING) throw H5Error(what + " is not a string");
  const htri_t variable = H5Tis_variable_str(type.get());
  check(variable, what + " cannot be read");
  std::string value;
  if (variable > 0) {  // h5py writes strings like this
    char* text = nullptr;
    check(H5Aread(attribute.get(), type.get(), &text), what + " cannot be read");
    if (text != nullptr) value = text;
    H5free_memory(text);
    return value;
  }
  const std::size_t bytes = H5Tget_size(type.get());
  if (bytes == 0 || bytes > file_bytes_) throw H5Error(what + " claims to be larger than the file");
  value.resize(bytes);
  check(H5Aread(attribute.get(), type.get(), value.data()), what + " cannot be read");
  value.erase(std::find(value.begin(), value.end(), '\0'), value.end());
  return value;
}

}  // namespace clusterprof::h5
