// SPDX-License-Identifier: BSD-3-Clause
#include "formats/h5/h5.hpp"

#include <hdf5.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <system_error>
#include <type_traits>
#include <utility>

namespace clusterprof::h5 {
namespace {

static_assert(std::is_same_v<hid_t, std::int64_t>);

constexpr hsize_t kChunkRows = 32768;
constexpr std::size_t kCompactBytes = 4096;
constexpr unsigned kDeflateLevel = 1;  // higher levels take 3 times as long for 5 % less
constexpr const char* kChecksumAttribute = "xxh3";
// Deflate shrinks by at most 1032; shuffle and fletcher32 do not shrink.
constexpr std::uint64_t kMaxCompression = 1100;

// The library's own words for the innermost failure, as the reason in our message.
std::string library_reason() {
  std::string reason;
  const auto visit = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    if (error->desc != nullptr && *error->desc != '\0') *static_cast<std::string*>(out) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, visit, &reason);
  H5Eclear2(H5E_DEFAULT);
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return reason;
}

[[noreturn]] void fail(const std::string& what) {
  const std::string reason = library_reason();
  throw H5Error(reason.empty() ? what : what + " (" + reason + ")");
}

Handle checked(hid_t id, const std::string& what) {
  if (id < 0) fail(what);
  return Handle(id);
}

void check(herr_t status, const std::string& what) {
  if (status < 0) fail(what);
}

void silence() {
  // Per thread in a thread-safe HDF5, and cheap.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

hid_t stored_type(Type type) {
  switch (type) {
    case Type::kUint8:
      return H5T_STD_U8LE;
    case Type::kInt32:
      return H5T_STD_I32LE;
    case Type::kUint32:
      return H5T_STD_U32LE;
    case Type::kInt64:
      return H5T_STD_I64LE;
    case Type::kUint64:
      return H5T_STD_U64LE;
    case Type::kFloat64:
      return H5T_IEEE_F64LE;
  }
  throw H5Error("unknown column type");
}

std::size_t type_bytes(Type type) {
  switch (type) {
    case Type::kUint8:
      return 1;
    case Type::kInt32:
    case Type::kUint32:
      return 4;
    default:
      return 8;
  }
}

Handle access_properties() {
  Handle properties = checked(H5Pcreate(H5P_FILE_ACCESS), "HDF5 cannot be set up");
  // v110 metadata carries checksums throughout, so damage is found before it is believed.
  check(H5Pset_libver_bounds(properties.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "HDF5 cannot be set up");
  // Parallel file systems often lack locks or make them slow, and a file is complete once it
  // has its name.
  check(H5Pset_file_locking(properties.get(), false, true), "HDF5 cannot be set up");
  // Groups that are still open after close() would keep the file open behind our back.
  check(H5Pset_fclose_degree(properties.get(), H5F_CLOSE_SEMI), "HDF5 cannot be set up");
  return properties;
}

void put_attribute(hid_t object, const std::string& where, const char* name, hid_t type, const void* value) {
  const Handle space = checked(H5Screate(H5S_SCALAR), where + " cannot be written");
  const Handle attribute = checked(H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                                   where + " cannot be written");
  check(H5Awrite(attribute.get(), type, value), where + " cannot be written");
}

// An attribute with exactly one element, and its type.
std::pair<Handle, Handle> open_scalar_attribute(hid_t object, const std::string& where, const char* name) {
  Handle attribute = checked(H5Aopen(object, name, H5P_DEFAULT), where + " cannot be read");
  const Handle space = checked(H5Aget_space(attribute.get()), where + " cannot be read");
  if (H5Sget_simple_extent_npoints(space.get()) != 1) throw H5Error(where + " is not a single value");
  Handle type = checked(H5Aget_type(attribute.get()), where + " cannot be read");
  return {std::move(attribute), std::move(type)};
}

}  // namespace

Handle::Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    if (id_ >= 0) H5Idec_ref(id_);
    id_ = std::exchange(other.id_, -1);
  }
  return *this;
}

Handle::~Handle() {
  if (id_ >= 0) H5Idec_ref(id_);
}

// --- File -----------------------------------------------------------------------------------

File File::create(const std::filesystem::path& path) {
  silence();
  const Handle access = access_properties();
  const Handle creation = checked(H5Pcreate(H5P_FILE_CREATE), "HDF5 cannot be set up");
  // No times of modification: the same content gives the same bytes.
  check(H5Pset_obj_track_times(creation.get(), false), "HDF5 cannot be set up");
  return File(
      checked(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()), "cannot be created"), 0);
}

File File::open(const std::filesystem::path& path) {
  silence();
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) throw H5Error("cannot be opened: " + error.message());
  const Handle access = access_properties();
  return File(checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "is not a readable HDF5 file"),
              bytes);
}

Group File::root() const {
  return Group(checked(H5Gopen2(id_.get(), "/", H5P_DEFAULT), "root group cannot be opened"), "", bytes_);
}

void File::close() {
  const hid_t id = id_.get();
  check(H5Fflush(id, H5F_SCOPE_LOCAL), "cannot be written");
  id_ = Handle();
}

// --- Group ----------------------------------------------------------------------------------

std::string Group::path_of(const char* name) const { return name_ + "/" + name; }

Group Group::create_group(const char* name) {
  const std::string where = path_of(name);
  const Handle creation = checked(H5Pcreate(H5P_GROUP_CREATE), where + " cannot be created");
  check(H5Pset_obj_track_times(creation.get(), false), where + " cannot be created");
  return Group(checked(H5Gcreate2(id_.get(), name, H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                       where + " cannot be created"),
               where, file_bytes_);
}

Group Group::open_group(const char* name) const {
  const std::string where = path_of(name);
  if (!has(name)) throw H5Error("table " + where + " is missing");
  return Group(checked(H5Gopen2(id_.get(), name, H5P_DEFAULT), "table " + where + " cannot be opened"), where,
               file_bytes_);
}

bool Group::has(const char* name) const {
  const htri_t exists = H5Lexists(id_.get(), name, H5P_DEFAULT);
  check(exists, path_of(name) + " cannot be looked up");
  return exists > 0;
}

void Group::write_raw(const char* name, Type type, const void* rows, std::size_t count) {
  const std::string where = path_of(name);
  const std::string what = "column " + where + " cannot be written";
  const std::size_t bytes = count * type_bytes(type);
  const hsize_t extent = count;
  const Handle space = checked(H5Screate_simple(1, &extent, nullptr), what);
  const Handle creation = checked(H5Pcreate(H5P_DATASET_CREATE), what);
  check(H5Pset_obj_track_times(creation.get(), false), what);
  if (bytes <= kCompactBytes) {
    check(H5Pset_layout(creation.get(), H5D_COMPACT), what);
  } else {
    const hsize_t chunk = std::min<hsize_t>(extent, kChunkRows);
    check(H5Pset_chunk(creation.get(), 1, &chunk), what);
    if (type_bytes(type) > 1) check(H5Pset_shuffle(creation.get()), what);
    check(H5Pset_deflate(creation.get(), kDeflateLevel), what);
    check(H5Pset_fletcher32(creation.get()), what);
  }
  const Handle dataset = checked(
      H5Dcreate2(id_.get(), name, stored_type(type), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      what);
  if (count != 0)
    check(H5Dwrite(dataset.get(), stored_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows), what);
  const std::uint64_t checksum = XXH3_64bits(rows, bytes);
  put_attribute(dataset.get(), where, kChecksumAttribute, H5T_STD_U64LE, &checksum);
}

Group::Column Group::open_column(const char* name, Type type) const {
  const std::string what = "column " + path_of(name);
  if (!has(name)) throw H5Error(what + " is missing");
  Column column;
  column.dataset = checked(H5Dopen2(id_.get(), name, H5P_DEFAULT), what + " cannot be opened");
  const Handle stored = checked(H5Dget_type(column.dataset.get()), what + " has no type");
  const htri_t equal = H5Tequal(stored.get(), stored_type(type));
  check(equal, what + " has no type");
  if (equal == 0) throw H5Error(what + " has the wrong type");
  const Handle space = checked(H5Dget_space(column.dataset.get()), what + " has no extent");
  if (H5Sget_simple_extent_ndims(space.get()) != 1) throw H5Error(what + " is not one-dimensional");
  hsize_t rows = 0;
  if (H5Sget_simple_extent_dims(space.get(), &rows, nullptr) != 1) fail(what + " has no extent");
  const std::uint64_t stored_bytes = H5Dget_storage_size(column.dataset.get());
  if (stored_bytes > file_bytes_) throw H5Error(what + " claims to be larger than the file");
  if (rows > stored_bytes * kMaxCompression / type_bytes(type))
    throw H5Error(what + " claims more rows than its data can hold");
  column.rows = rows;
  return column;
}

void Group::read_raw(const Column& column, const char* name, Type type, void* rows) const {
  const std::string what = "column " + path_of(name);
  const hid_t dataset = column.dataset.get();
  if (column.rows != 0)
    check(H5Dread(dataset, stored_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows), what + " is damaged");
  const htri_t has_checksum = H5Aexists(dataset, kChecksumAttribute);
  check(has_checksum, what + " is damaged");
  if (has_checksum == 0) throw H5Error(what + " has no checksum");
  const auto [attribute, attribute_type] = open_scalar_attribute(dataset, what, kChecksumAttribute);
  std::uint64_t checksum = 0;
  const htri_t is_uint64 = H5Tequal(attribute_type.get(), H5T_STD_U64LE);
  if (is_uint64 <= 0) throw H5Error(what + " has a checksum of the wrong type");
  check(H5Aread(attribute.get(), H5T_STD_U64LE, &checksum), what + " is damaged");
  if (checksum != XXH3_64bits(rows, column.rows * type_bytes(type)))
    throw H5Error(what + " is damaged (wrong checksum)");
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
  put_attribute(id_.get(), "attribute " + path_of(name), name, H5T_STD_U8LE, &value);
}

void Group::write_attribute(const char* name, std::uint32_t value) {
  put_attribute(id_.get(), "attribute " + path_of(name), name, H5T_STD_U32LE, &value);
}

void Group::write_attribute(const char* name, std::int64_t value) {
  put_attribute(id_.get(), "attribute " + path_of(name), name, H5T_STD_I64LE, &value);
}

void Group::write_attribute(const char* name, std::string_view value) {
  const std::string what = "attribute " + path_of(name);
  const Handle type = checked(H5Tcopy(H5T_C_S1), what + " cannot be written");
  check(H5Tset_size(type.get(), std::max<std::size_t>(value.size(), 1)), what + " cannot be written");
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), what + " cannot be written");
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), what + " cannot be written");
  const std::string text(value);  // with a NUL behind it, which an empty one needs
  put_attribute(id_.get(), what, name, type.get(), text.c_str());
}

bool Group::has_attribute(const char* name) const {
  const htri_t exists = H5Aexists(id_.get(), name);
  check(exists, "attribute " + path_of(name) + " cannot be looked up");
  return exists > 0;
}

std::int64_t Group::read_integer(const char* name, std::int64_t minimum, std::int64_t maximum) const {
  const std::string what = "attribute " + path_of(name);
  if (!has_attribute(name)) throw H5Error(what + " is missing");
  const auto [attribute, type] = open_scalar_attribute(id_.get(), what, name);
  if (H5Tget_class(type.get()) != H5T_INTEGER) throw H5Error(what + " is not a number");
  std::int64_t value = 0;  // HDF5 clamps an uint64 that does not fit, which the range then refuses
  check(H5Aread(attribute.get(), H5T_NATIVE_INT64, &value), what + " cannot be read");
  if (value < minimum || value > maximum) throw H5Error(what + " is out of range");
  return value;
}

std::string Group::read_string(const char* name) const {
  const std::string what = "attribute " + path_of(name);
  if (!has_attribute(name)) throw H5Error(what + " is missing");
  const auto [attribute, type] = open_scalar_attribute(id_.get(), what, name);
  if (H5Tget_class(type.get()) != H5T_STRING) throw H5Error(what + " is not a string");
  const htri_t variable = H5Tis_variable_str(type.get());
  check(variable, what + " cannot be read");
  std::string value;
  if (variable > 0) {  // not how we write them, but how h5py does
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
