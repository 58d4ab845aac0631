// SPDX-License-Identifier: BSD-3-Clause
// Files, groups and attributes. Columns are in column.cpp.
#include <hdf5.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

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

}  // namespace

// --- File -----------------------------------------------------------------------------------

File File::create(const std::filesystem::path& path) {
  const InLibrary in_library;
  silence();
  const Handle access = access_properties();
  const Handle creation = checked(H5Pcreate(H5P_FILE_CREATE), "HDF5 cannot be set up");
  // No modification times: the same content must give the same bytes.
  check(H5Pset_obj_track_times(creation.get(), false), "HDF5 cannot be set up");
  return File(
      checked(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()), "cannot be created"), 0);
}

File File::open(const std::filesystem::path& path) {
  const InLibrary in_library;
  silence();
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) throw H5Error("cannot be opened: " + error.message());
  const Handle access = access_properties();
  return File(checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "is not a readable HDF5 file"),
              bytes);
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
