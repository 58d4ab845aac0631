// SPDX-License-Identifier: BSD-3-Clause
#include "formats/h5/h5.hpp"

#include <hdf5.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

namespace clusterprof::h5 {
namespace {

static_assert(std::is_same_v<hid_t, std::int64_t>);

constexpr std::size_t kCompactBytes = 4096;
constexpr unsigned kDeflateLevel = 1;  // said in the file, of no meaning to readers: compress_chunk() chooses
constexpr const char* kChecksumAttribute = "xxh3";
// Deflate shrinks by at most 1032; shuffle and fletcher32 do not shrink.
constexpr std::uint64_t kMaxCompression = 1100;

// HDF5 itself takes one thread at a time, and whoever fails asks it why before another thread may enter.
// What costs most, to compress and to decompress, is done outside.
class InLibrary {
 public:
  InLibrary() : lock_(mutex()) {}

 private:
  static std::recursive_mutex& mutex() {
    static auto* const instance = new std::recursive_mutex;  // handles may be closed at the very end
    return *instance;
  }
  std::unique_lock<std::recursive_mutex> lock_;
};

// The library's own words for the innermost failure, as the reason in our message.
std::string library_reason() {
  std::string reason;
  const auto visit = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    if (error->desc != nullptr && *error->desc != '\0') *static_cast<std::string*>(out) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, visit, &reason);
  H5Eclear2(H5E_DEFAULT);
  // Of a failed system call it gives time, address and number as well.
  constexpr std::string_view kSystem = "error message = '";
  if (const std::size_t at = reason.find(kSystem); at != std::string::npos) {
    const std::size_t begin = at + kSystem.size();
    reason = reason.substr(begin, reason.find('\'', begin) - begin);
  }
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
  // At exit it would close once more what could not be written to a full disk, and crash.
  [[maybe_unused]] static const herr_t no_exit_handler = H5dont_atexit();
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

// Of a chunked column; reader and writer of chunks rely on this pipeline.
void set_filters(hid_t creation, Type type, hsize_t chunk_rows, const std::string& what) {
  check(H5Pset_chunk(creation, 1, &chunk_rows), what);
  if (item_bytes(type) > 1) check(H5Pset_shuffle(creation), what);
  check(H5Pset_deflate(creation, kDeflateLevel), what);
  check(H5Pset_fletcher32(creation), what);
}

bool has_usual_filters(hid_t creation, Type type) {
  std::vector<H5Z_filter_t> usual = {H5Z_FILTER_DEFLATE, H5Z_FILTER_FLETCHER32};
  if (item_bytes(type) > 1) usual.insert(usual.begin(), H5Z_FILTER_SHUFFLE);
  if (H5Pget_nfilters(creation) != static_cast<int>(usual.size())) return false;
  for (unsigned i = 0; i < usual.size(); ++i) {
    unsigned flags = 0, values[1] = {0};
    std::size_t count = 1;
    const H5Z_filter_t filter = H5Pget_filter2(creation, i, &flags, &count, values, 0, nullptr, nullptr);
    if (filter != usual[i]) return false;
    if (filter == H5Z_FILTER_SHUFFLE && (count != 1 || values[0] != item_bytes(type))) return false;
  }
  unsigned options = 0;
  return H5Pget_chunk_opts(creation, &options) >= 0 && options == 0;
}

// Each of these at most once, in any order: what inflates twice, or finds other ways to grow, is bounded by
// nothing.
void check_filters(hid_t creation, const std::string& what) {
  std::vector<H5Z_filter_t> known = {H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE, H5Z_FILTER_FLETCHER32};
  const int count = H5Pget_nfilters(creation);
  if (count < 0) fail(what + " has no layout");
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter = H5Pget_filter2(creation, i, &flags, &values, nullptr, 0, nullptr, nullptr);
    if (std::erase(known, filter) == 0) throw H5Error(what + " is stored by filters other than ours");
  }
}

// How the rows of a one-dimensional dataset are stored.
struct Layout {
  bool chunked = false;
  bool usual_filters = false;  // chunked, those of set_filters()
  hsize_t chunk_rows = 0;
};

// Which data there is must be in the file, and in no form that is larger than kMaxCompression times that.
Layout checked_layout(hid_t dataset, hid_t space, Type type, std::uint64_t rows, const std::string& what) {
  const Handle creation = checked(H5Dget_create_plist(dataset), what + " has no layout");
  // A file can name others as the place of its data: private ones, whose content would get into what is made
  // of it, or such as never end. None of ours does.
  const H5D_layout_t stored = H5Pget_layout(creation.get());
  if (stored == H5D_VIRTUAL || H5Pget_external_count(creation.get()) != 0)
    throw H5Error(what + " is not in this file");
  check_filters(creation.get(), what);
  Layout layout;
  layout.chunked = stored == H5D_CHUNKED;
  if (!layout.chunked) return layout;
  hsize_t chunks = 0;
  if (H5Pget_chunk(creation.get(), 1, &layout.chunk_rows) != 1 || layout.chunk_rows == 0)
    fail(what + " has no layout");
  check(H5Dget_num_chunks(dataset, space, &chunks), what + " is damaged");
  // Each chunk that was never written is looked for as well.
  if (rows / layout.chunk_rows + (rows % layout.chunk_rows != 0) > chunks)
    throw H5Error(what + " claims more rows than its data can hold");
  layout.usual_filters = has_usual_filters(creation.get(), type);
  return layout;
}

struct StoredChunk {
  std::vector<std::byte> bytes;  // none: the chunk was never written
  std::uint32_t filter_mask = 0;
};

// `file_bytes` bounds what a damaged file can make us allocate.
void read_stored_chunk(hid_t dataset, hsize_t first_row, std::uint64_t file_bytes, const std::string& what,
                       StoredChunk& chunk) {
  const InLibrary in_library;
  hsize_t bytes = 0;
  check(H5Dget_chunk_storage_size(dataset, &first_row, &bytes), what + " is damaged");
  if (bytes > file_bytes) throw H5Error(what + " claims to be larger than the file");
  chunk.bytes.resize(bytes);
  chunk.filter_mask = 0;
  if (bytes != 0)
    check(H5Dread_chunk(dataset, H5P_DEFAULT, &first_row, &chunk.filter_mask, chunk.bytes.data()),
          what + " is damaged");
}

void put_attribute(hid_t object, const std::string& where, const char* name, hid_t type, const void* value) {
  const Handle space = checked(H5Screate(H5S_SCALAR), where + " cannot be written");
  const Handle attribute = checked(H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                                   where + " cannot be written");
  check(H5Awrite(attribute.get(), type, value), where + " cannot be written");
}

void write_chunks(hid_t dataset, std::span<const std::byte> rows, std::size_t bytes_per_item,
                  std::size_t chunk_rows, const std::string& what) {
  const std::size_t chunk_bytes = chunk_rows * bytes_per_item;
  std::vector<std::byte> last;  // filled up with zeros
  for (std::size_t begin = 0; begin < rows.size(); begin += chunk_bytes) {
    std::span<const std::byte> content = rows.subspan(begin);
    if (content.size() >= chunk_bytes) {
      content = content.first(chunk_bytes);
    } else {
      last.assign(content.begin(), content.end());
      last.resize(chunk_bytes);
      content = last;
    }
    const std::vector<std::byte> stored = compress_chunk(content, bytes_per_item);
    const hsize_t first_row = begin / bytes_per_item;
    const InLibrary in_library;
    check(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &first_row, stored.size(), stored.data()), what);
  }
}

// A chunk of which part was wanted, for who wants the next part.
struct InflatedChunk {
  std::vector<std::byte> bytes;  // none: there is none
  std::uint64_t first_row = 0;
};

// Rows `first_row` up to `first_row` + `rows.size()` / item of a chunked column with the usual filters.
void read_chunks(hid_t dataset, Type type, hsize_t chunk_rows, std::uint64_t file_bytes,
                 std::uint64_t first_row, std::span<std::byte> rows, const std::string& what,
                 InflatedChunk& last) {
  const std::size_t bytes_per_item = item_bytes(type);
  StoredChunk chunk;
  while (!rows.empty()) {
    const std::uint64_t begin = first_row / chunk_rows * chunk_rows;
    const std::uint64_t skipped = (first_row - begin) * bytes_per_item;
    const std::uint64_t chunk_bytes = chunk_rows * bytes_per_item;
    const std::size_t bytes = std::min<std::uint64_t>(chunk_bytes - skipped, rows.size());
    const bool kept = !last.bytes.empty() && last.first_row == begin;
    if (!kept) read_stored_chunk(dataset, begin, file_bytes, what, chunk);
    if (kept) {
      std::memcpy(rows.data(), last.bytes.data() + skipped, bytes);
    } else if (chunk.bytes.empty()) {
      std::memset(rows.data(), 0, bytes);
    } else {
      if (chunk_bytes / kMaxCompression > chunk.bytes.size())
        throw H5Error(what + " claims more rows than its data can hold");
      try {
        if (bytes == chunk_bytes) {
          decompress_chunk(chunk.bytes, chunk.filter_mask, bytes_per_item, rows.first(bytes));
        } else {
          std::vector<std::byte> inflated = std::move(last.bytes);
          inflated.resize(chunk_bytes);
          decompress_chunk(chunk.bytes, chunk.filter_mask, bytes_per_item, inflated);
          std::memcpy(rows.data(), inflated.data() + skipped, bytes);
          last = {std::move(inflated), begin};
        }
      } catch (const H5Error& error) {
        throw H5Error(what + ": " + error.what());
      }
    }
    rows = rows.subspan(bytes);
    first_row += bytes / bytes_per_item;
  }
}

// An attribute with exactly one element, and its type.
std::pair<Handle, Handle> open_scalar_attribute(hid_t object, const std::string& where, const char* name) {
  Handle attribute = checked(H5Aopen(object, name, H5P_DEFAULT), where + " cannot be read");
  const Handle space = checked(H5Aget_space(attribute.get()), where + " cannot be read");
  if (H5Sget_simple_extent_npoints(space.get()) != 1) throw H5Error(where + " is not a single value");
  Handle type = checked(H5Aget_type(attribute.get()), where + " cannot be read");
  return {std::move(attribute), std::move(type)};
}

std::uint64_t stored_checksum(hid_t dataset, const std::string& what) {
  const InLibrary in_library;
  const htri_t has_checksum = H5Aexists(dataset, kChecksumAttribute);
  check(has_checksum, what + " is damaged");
  if (has_checksum == 0) throw H5Error(what + " has no checksum");
  const auto [attribute, attribute_type] = open_scalar_attribute(dataset, what, kChecksumAttribute);
  const htri_t is_uint64 = H5Tequal(attribute_type.get(), H5T_STD_U64LE);
  if (is_uint64 <= 0) throw H5Error(what + " has a checksum of the wrong type");
  std::uint64_t checksum = 0;
  check(H5Aread(attribute.get(), H5T_STD_U64LE, &checksum), what + " is damaged");
  return checksum;
}

}  // namespace

std::size_t item_bytes(Type type) {
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

Handle::Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    if (id_ >= 0) {
      const InLibrary in_library;
      H5Idec_ref(id_);
    }
    id_ = std::exchange(other.id_, -1);
  }
  return *this;
}

Handle::~Handle() {
  if (id_ < 0) return;
  const InLibrary in_library;
  H5Idec_ref(id_);
}

// --- File -----------------------------------------------------------------------------------

File File::create(const std::filesystem::path& path) {
  const InLibrary in_library;
  silence();
  const Handle access = access_properties();
  const Handle creation = checked(H5Pcreate(H5P_FILE_CREATE), "HDF5 cannot be set up");
  // No times of modification: the same content gives the same bytes.
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

// --- ChunkedColumn --------------------------------------------------------------------------

void ChunkedColumn::set_rows(std::uint64_t rows) {
  const InLibrary in_library;
  const hsize_t extent = rows;
  check(H5Dset_extent(dataset_.get(), &extent), what_ + " cannot be written");
  rows_ = rows;
}

void ChunkedColumn::place(std::uint64_t first_row, std::span<const std::byte> stored) {
  const InLibrary in_library;
  const hsize_t offset = first_row;
  check(H5Dwrite_chunk(dataset_.get(), H5P_DEFAULT, 0, &offset, stored.size(), stored.data()),
        what_ + " cannot be written");
}

void ChunkedColumn::check_range(std::uint64_t first_row, std::uint64_t count) const {
  if (first_row > rows_ || count > rows_ - first_row) throw H5Error(what_ + " has fewer rows");
}

std::vector<std::byte> ChunkedColumn::stored_chunk(std::uint64_t first_row) const {
  check_range(first_row, 1);
  if (first_row % chunk_rows_ != 0) throw H5Error(what_ + " has no chunk that begins there");
  if (usual_filters_) {
    StoredChunk chunk;
    read_stored_chunk(dataset_.get(), first_row, file_bytes_, what_, chunk);
    if (!chunk.bytes.empty() && chunk.filter_mask == 0) return std::move(chunk.bytes);
  }
  const std::uint64_t bytes = item_bytes(type_);
  // Only a column without data has chunks larger than that.
  if (chunk_rows_ > file_bytes_ * kMaxCompression / bytes) throw H5Error(what_ + " is damaged");
  std::vector<std::byte> rows(chunk_rows_ * bytes);
  read_raw(type_, first_row, std::min(chunk_rows_, rows_ - first_row), rows.data());
  return compress_chunk(rows, bytes);
}

void ChunkedColumn::read_raw(Type type, std::uint64_t first_row, std::uint64_t count, void* rows) const {
  if (type != type_) throw H5Error(what_ + " has the wrong type");
  check_range(first_row, count);
  if (count == 0) return;
  if (usual_filters_) {
    InflatedChunk last;
    read_chunks(dataset_.get(), type_, chunk_rows_, file_bytes_, first_row,
                {static_cast<std::byte*>(rows), count * item_bytes(type_)}, what_, last);
    return;
  }
  const InLibrary in_library;
  const std::string damaged = what_ + " is damaged";
  const hsize_t start = first_row, extent = count;
  const Handle here = checked(H5Screate_simple(1, &extent, nullptr), damaged);
  const Handle there = checked(H5Dget_space(dataset_.get()), damaged);
  check(H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, &start, nullptr, &extent, nullptr), damaged);
  check(H5Dread(dataset_.get(), stored_type(type_), here.get(), there.get(), H5P_DEFAULT, rows), damaged);
}

// --- ColumnStream ---------------------------------------------------------------------------

struct ColumnStream::State {
  Handle dataset;
  std::string what;
  Type type = Type::kUint8;
  std::uint64_t rows = 0, done = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t chunk_rows = 0;
  bool usual_filters = false;
  InflatedChunk last;            // pieces may be far smaller than chunks
  std::vector<std::byte> whole;  // of a column that HDF5 has to read
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash{nullptr, XXH3_freeState};
};

ColumnStream::ColumnStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
ColumnStream::ColumnStream(ColumnStream&&) noexcept = default;
ColumnStream& ColumnStream::operator=(ColumnStream&&) noexcept = default;
ColumnStream::~ColumnStream() = default;

std::uint64_t ColumnStream::rows() const noexcept { return state_->rows; }

void ColumnStream::next_raw(Type type, void* rows, std::size_t count) {
  State& s = *state_;
  if (type != s.type) throw H5Error(s.what + " has the wrong type");
  if (count > s.rows - s.done) throw H5Error(s.what + " has fewer rows");
  const std::size_t bytes_per_item = item_bytes(type);
  const std::span<std::byte> out(static_cast<std::byte*>(rows), count * bytes_per_item);
  const auto read_all = [&](void* to) {
    const InLibrary in_library;
    check(H5Dread(s.dataset.get(), stored_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, to),
          s.what + " is damaged");
  };
  const bool at_once = count == s.rows;
  if (s.done == 0 && !s.usual_filters && !at_once) {
    s.whole.resize(s.rows * bytes_per_item);
    read_all(s.whole.data());
  }
  if (s.usual_filters)
    read_chunks(s.dataset.get(), type, s.chunk_rows, s.file_bytes, s.done, out, s.what, s.last);
  else if (!at_once)
    std::memcpy(out.data(), s.whole.data() + s.done * bytes_per_item, out.size());
  else if (count != 0)
    read_all(out.data());
  s.done += count;

  if (!at_once) {
    if (!s.hash) {
      s.hash.reset(XXH3_createState());
      if (!s.hash) throw std::bad_alloc();
      XXH3_64bits_reset(s.hash.get());
    }
    XXH3_64bits_update(s.hash.get(), out.data(), out.size());
  }
  if (s.done != s.rows) return;
  s.last = {};
  s.whole = {};
  const std::uint64_t checksum =
      at_once ? XXH3_64bits(out.data(), out.size()) : XXH3_64bits_digest(s.hash.get());
  if (checksum != stored_checksum(s.dataset.get(), s.what))
    throw H5Error(s.what + " is damaged (wrong checksum)");
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

// Of a small column. Made once: a shard has 200 of them, and to make it is a sixth of what writing one takes.
hid_t compact_properties() {
  // Never given back: HDF5 does that at the end of the process, when nothing of it may be called any more.
  static const hid_t properties = [] {
    const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
    if (made < 0) fail("HDF5 cannot be set up");
    check(H5Pset_obj_track_times(made, false), "HDF5 cannot be set up");
    check(H5Pset_layout(made, H5D_COMPACT), "HDF5 cannot be set up");
    return made;
  }();
  return properties;
}

void Group::write_raw(const char* name, Type type, const void* rows, std::size_t count) {
  const std::string where = path_of(name);
  const std::string what = "column " + where + " cannot be written";
  const std::size_t bytes = count * item_bytes(type);
  const hsize_t extent = count;
  const bool chunked = bytes > kCompactBytes;
  Handle dataset;
  {
    const InLibrary in_library;
    const Handle space = checked(H5Screate_simple(1, &extent, nullptr), what);
    Handle properties;
    if (chunked) {
      properties = checked(H5Pcreate(H5P_DATASET_CREATE), what);
      check(H5Pset_obj_track_times(properties.get(), false), what);
      set_filters(properties.get(), type, std::min<hsize_t>(extent, kChunkRows), what);
    }
    dataset = checked(H5Dcreate2(id_.get(), name, stored_type(type), space.get(), H5P_DEFAULT,
                                 chunked ? properties.get() : compact_properties(), H5P_DEFAULT),
                      what);
    if (!chunked && count != 0)
      check(H5Dwrite(dataset.get(), stored_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows), what);
  }
  if (chunked)
    write_chunks(dataset.get(), {static_cast<const std::byte*>(rows), bytes}, item_bytes(type),
                 std::min<std::size_t>(count, kChunkRows), what);
  const std::uint64_t checksum = XXH3_64bits(rows, bytes);
  const InLibrary in_library;
  put_attribute(dataset.get(), where, kChecksumAttribute, H5T_STD_U64LE, &checksum);
}

Group::Dataset Group::open_dataset(const char* name, Type type) const {
  const InLibrary in_library;
  const std::string what = "column " + path_of(name);
  if (!has(name)) throw H5Error(what + " is missing");
  Dataset dataset;
  dataset.handle = checked(H5Dopen2(id_.get(), name, H5P_DEFAULT), what + " cannot be opened");
  const Handle stored = checked(H5Dget_type(dataset.handle.get()), what + " has no type");
  const htri_t equal = H5Tequal(stored.get(), stored_type(type));
  check(equal, what + " has no type");
  if (equal == 0) throw H5Error(what + " has the wrong type");
  const Handle space = checked(H5Dget_space(dataset.handle.get()), what + " has no extent");
  if (H5Sget_simple_extent_ndims(space.get()) != 1) throw H5Error(what + " is not one-dimensional");
  hsize_t rows = 0;
  if (H5Sget_simple_extent_dims(space.get(), &rows, nullptr) != 1) fail(what + " has no extent");
  const Layout layout = checked_layout(dataset.handle.get(), space.get(), type, rows, what);
  const std::uint64_t stored_bytes = H5Dget_storage_size(dataset.handle.get());
  if (stored_bytes > file_bytes_) throw H5Error(what + " claims to be larger than the file");
  if (rows > stored_bytes * kMaxCompression / item_bytes(type))
    throw H5Error(what + " claims more rows than its data can hold");
  dataset.rows = rows;
  dataset.chunk_rows = layout.chunked ? layout.chunk_rows : 0;
  dataset.usual_filters = layout.usual_filters;
  return dataset;
}

ColumnStream Group::open_stream(const char* name, Type type) const {
  Dataset dataset = open_dataset(name, type);
  auto state = std::make_unique<ColumnStream::State>();
  state->dataset = std::move(dataset.handle);
  state->what = "column " + path_of(name);
  state->type = type;
  state->rows = dataset.rows;
  state->chunk_rows = dataset.chunk_rows;
  state->usual_filters = dataset.usual_filters;
  state->file_bytes = file_bytes_;
  return ColumnStream(std::move(state));
}

ChunkedColumn Group::create_chunked_column(const char* name, Type type, std::uint64_t chunk_rows) {
  const InLibrary in_library;
  const std::string what = "column " + path_of(name);
  const std::string failed = what + " cannot be written";
  const hsize_t none = 0, unlimited = H5S_UNLIMITED;
  const Handle space = checked(H5Screate_simple(1, &none, &unlimited), failed);
  const Handle creation = checked(H5Pcreate(H5P_DATASET_CREATE), failed);
  check(H5Pset_obj_track_times(creation.get(), false), failed);
  set_filters(creation.get(), type, chunk_rows, failed);
  ChunkedColumn column(checked(H5Dcreate2(id_.get(), name, stored_type(type), space.get(), H5P_DEFAULT,
                                          creation.get(), H5P_DEFAULT),
                               failed),
                       what, type);
  column.chunk_rows_ = chunk_rows;
  return column;
}

ChunkedColumn Group::open_chunked_column(const char* name, Type type) const {
  const InLibrary in_library;
  Dataset opened = open_dataset(name, type);
  ChunkedColumn column(std::move(opened.handle), "column " + path_of(name), type);
  column.rows_ = opened.rows;
  column.chunk_rows_ = opened.chunk_rows != 0 ? opened.chunk_rows : std::max<std::uint64_t>(opened.rows, 1);
  column.file_bytes_ = file_bytes_;
  column.usual_filters_ = opened.usual_filters;
  return column;
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
  const std::string text(value);  // with a NUL behind it, which an empty one needs
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
  std::int64_t value = 0;  // HDF5 clamps an uint64 that does not fit, which the range then refuses
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
