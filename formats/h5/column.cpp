// SPDX-License-Identifier: BSD-3-Clause
// Columns: how rows are stored in chunks and read back. Nothing that a file says about its layout is believed
// before it is checked, so a damaged file cannot make us allocate or read without bound.
#include <hdf5.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/h5/h5.hpp"
#include "formats/h5/library.hpp"

namespace clusterprof::h5 {
namespace {

constexpr std::size_t kCompactBytes = 4096;  // smaller columns are stored beside their metadata
constexpr unsigned kDeflateLevel =
    1;  // HDF5 stores it, readers ignore it. compress_chunk() has its own level
constexpr const char* kChecksumAttribute = "xxh3";
// Deflate shrinks data to a 1032nd at best; shuffle and fletcher32 do not shrink it.
constexpr std::uint64_t kMaxCompression = 1100;

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

// The filters of a chunked column. compress_chunk() and decompress_chunk() do what they would do.
void set_filters(hid_t creation, Type type, hsize_t chunk_rows, const std::string& what) {
  check(H5Pset_chunk(creation, 1, &chunk_rows), what);
  if (item_bytes(type) > 1) check(H5Pset_shuffle(creation), what);
  check(H5Pset_deflate(creation, kDeflateLevel), what);
  check(H5Pset_fletcher32(creation), what);
}

std::vector<Filter> usual_filters(Type type) {
  if (item_bytes(type) == 1) return {Filter::kDeflate, Filter::kFletcher32};
  return {Filter::kShuffle, Filter::kDeflate, Filter::kFletcher32};
}

// In the order in which they were applied. Allows each of our filters at most once, in any order. A second
// deflate, or a filter that we do not know, could inflate a small file without bound.
std::vector<Filter> checked_filters(hid_t creation, Type type, const std::string& what) {
  std::vector<Filter> filters;
  const auto has = [&](Filter filter) {
    return std::find(filters.begin(), filters.end(), filter) != filters.end();
  };
  const int count = H5Pget_nfilters(creation);
  if (count < 0) fail(what + " has no layout");
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    unsigned flags = 0, values[1] = {0};
    std::size_t values_count = 1;
    const H5Z_filter_t id = H5Pget_filter2(creation, i, &flags, &values_count, values, 0, nullptr, nullptr);
    std::optional<Filter> filter;
    if (id == H5Z_FILTER_DEFLATE) filter = Filter::kDeflate;
    if (id == H5Z_FILTER_FLETCHER32) filter = Filter::kFletcher32;
    if (id == H5Z_FILTER_SHUFFLE && values_count == 1 && values[0] == item_bytes(type))
      filter = Filter::kShuffle;
    if (!filter || has(*filter)) throw H5Error(what + " is stored by filters other than ours");
    filters.push_back(*filter);
  }
  return filters;
}

// Checks that the data is in this file, and that it cannot inflate to more than kMaxCompression times its
// size. HDF5 may read what is not chunked. A chunk it may not: it believes that one has the size that it
// should have, whatever is in the file.
Chunks checked_layout(hid_t dataset, hid_t space, Type type, std::uint64_t rows, const std::string& what) {
  const Handle creation = checked(H5Dget_create_plist(dataset), what + " has no layout");
  // An HDF5 file can say that its data is in another file: a private one, whose content would get into the
  // report, or one without end. Our files never do.
  const H5D_layout_t stored = H5Pget_layout(creation.get());
  if (stored == H5D_VIRTUAL || H5Pget_external_count(creation.get()) != 0)
    throw H5Error(what + " is not in this file");
  std::vector<Filter> filters = checked_filters(creation.get(), type, what);
  if (stored != H5D_CHUNKED) return {};
  hsize_t chunks = 0, chunk_rows = 0;
  unsigned options = 0;
  if (H5Pget_chunk(creation.get(), 1, &chunk_rows) != 1 || chunk_rows == 0 ||
      H5Pget_chunk_opts(creation.get(), &options) < 0)
    fail(what + " has no layout");
  // Of chunks without filters, HDF5 says the size that they should have. This index alone may say another
  // one, and would be believed.
  H5D_chunk_index_t index = H5D_CHUNK_IDX_BTREE;
  check(H5Dget_chunk_index_type(dataset, &index), what + " has no layout");
  if (filters.empty() && index == H5D_CHUNK_IDX_BTREE)
    throw H5Error(what + " is stored as versions of HDF5 before 1.10 do");
  check(H5Dget_num_chunks(dataset, space, &chunks), what + " is damaged");
  // A chunk that was never written would cost a search, too, so a small file could keep us busy for long.
  if (rows / chunk_rows + (rows % chunk_rows != 0) > chunks)
    throw H5Error(what + " claims more rows than its data can hold");
  const bool is_usual = filters == usual_filters(type) && options == 0;
  return {chunk_rows, is_usual, std::move(filters), (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0};
}

struct StoredChunk {
  std::vector<std::byte> bytes;  // empty: the chunk was never written
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

void write_chunks(hid_t dataset, std::span<const std::byte> rows, std::size_t bytes_per_item,
                  std::size_t chunk_rows, const std::string& what) {
  const std::size_t chunk_bytes = chunk_rows * bytes_per_item;
  std::vector<std::byte> last;  // the last chunk, padded with zeros
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

// The chunk that was read last, kept because the next read may want the rest of it.
struct InflatedChunk {
  std::vector<std::byte> bytes;  // empty: none was read yet
  std::uint64_t first_row = 0;
};

// Of a chunked column.
struct ChunkedRows {
  hid_t dataset;
  Type type;
  std::uint64_t rows;
  const Chunks& chunks;
  std::uint64_t file_bytes;
  const std::string& what;

  void decompress(const StoredChunk& chunk, std::uint64_t begin, std::span<std::byte> to) const {
    if (chunks.has_usual_filters) {
      decompress_chunk(chunk.bytes, chunk.filter_mask, item_bytes(type), to);
    } else if (chunks.cut_one_is_unfiltered && rows - begin < chunks.rows) {
      decompress_chunk(chunk.bytes, 0, {}, item_bytes(type), to);
    } else {
      decompress_chunk(chunk.bytes, chunk.filter_mask, chunks.filters, item_bytes(type), to);
    }
  }
};

// Reads rows from `first_row` on, as many as fit into `rows`.
void read_chunks(const ChunkedRows& column, std::uint64_t first_row, std::span<std::byte> rows,
                 InflatedChunk& last) {
  const std::size_t bytes_per_item = item_bytes(column.type);
  const std::uint64_t chunk_rows = column.chunks.rows;
  const std::string& what = column.what;
  StoredChunk chunk;
  while (!rows.empty()) {
    const std::uint64_t begin = first_row / chunk_rows * chunk_rows;
    const std::uint64_t skipped = (first_row - begin) * bytes_per_item;
    const std::uint64_t chunk_bytes = chunk_rows * bytes_per_item;
    const std::size_t bytes = std::min<std::uint64_t>(chunk_bytes - skipped, rows.size());
    const bool kept = !last.bytes.empty() && last.first_row == begin;
    if (!kept) read_stored_chunk(column.dataset, begin, column.file_bytes, what, chunk);
    if (kept) {
      std::memcpy(rows.data(), last.bytes.data() + skipped, bytes);
    } else if (chunk.bytes.empty()) {
      std::memset(rows.data(), 0, bytes);
    } else {
      if (chunk_bytes / kMaxCompression > chunk.bytes.size())
        throw H5Error(what + " claims more rows than its data can hold");
      try {
        if (bytes == chunk_bytes) {
          column.decompress(chunk, begin, rows.first(bytes));
        } else {
          std::vector<std::byte> inflated = std::move(last.bytes);
          inflated.resize(chunk_bytes);
          column.decompress(chunk, begin, inflated);
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
  if (chunks_.rows != 0 && chunks_.has_usual_filters) {
    StoredChunk chunk;
    read_stored_chunk(dataset_.get(), first_row, file_bytes_, what_, chunk);
    if (!chunk.bytes.empty() && chunk.filter_mask == 0) return std::move(chunk.bytes);
  }
  const std::uint64_t bytes = item_bytes(type_);
  // A chunk that holds data cannot be larger than that.
  if (chunk_rows_ > file_bytes_ * kMaxCompression / bytes) throw H5Error(what_ + " is damaged");
  std::vector<std::byte> rows(chunk_rows_ * bytes);
  read_raw(type_, first_row, std::min(chunk_rows_, rows_ - first_row), rows.data());
  return compress_chunk(rows, bytes);
}

void ChunkedColumn::read_raw(Type type, std::uint64_t first_row, std::uint64_t count, void* rows) const {
  if (type != type_) throw H5Error(what_ + " has the wrong type");
  check_range(first_row, count);
  if (count == 0) return;
  if (chunks_.rows != 0) {
    InflatedChunk last;
    read_chunks({dataset_.get(), type_, rows_, chunks_, file_bytes_, what_}, first_row,
                {static_cast<std::byte*>(rows), count * item_bytes(type_)}, last);
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

struct ColumnStream::State {
  Handle dataset;
  std::string what;
  Type type = Type::kUint8;
  std::uint64_t rows = 0, done = 0;
  std::uint64_t file_bytes = 0;
  Chunks chunks;
  InflatedChunk last;            // callers may read pieces far smaller than a chunk
  std::vector<std::byte> whole;  // the whole column, if it is not chunked
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
  const bool is_chunked = s.chunks.rows != 0;
  if (s.done == 0 && !is_chunked && !at_once) {
    s.whole.resize(s.rows * bytes_per_item);
    read_all(s.whole.data());
  }
  if (is_chunked)
    read_chunks({s.dataset.get(), type, s.rows, s.chunks, s.file_bytes, s.what}, s.done, out, s.last);
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

// Properties of a small column. Made once: a shard has 200 such columns, and making the properties takes a
// sixth of the time that writing a column takes.
hid_t compact_properties() {
  // Never closed: static objects are destroyed when HDF5 may no longer be called.
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
  dataset.chunks = checked_layout(dataset.handle.get(), space.get(), type, rows, what);
  const std::uint64_t stored_bytes = H5Dget_storage_size(dataset.handle.get());
  if (stored_bytes > file_bytes_) throw H5Error(what + " claims to be larger than the file");
  const std::uint64_t factor = dataset.chunks.rows != 0 ? kMaxCompression : 1;
  if (rows > stored_bytes * factor / item_bytes(type))
    throw H5Error(what + " claims more rows than its data can hold");
  dataset.rows = rows;
  return dataset;
}

ColumnStream Group::open_stream(const char* name, Type type) const {
  Dataset dataset = open_dataset(name, type);
  auto state = std::make_unique<ColumnStream::State>();
  state->dataset = std::move(dataset.handle);
  state->what = "column " + path_of(name);
  state->type = type;
  state->rows = dataset.rows;
  state->chunks = std::move(dataset.chunks);
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
  column.chunk_rows_ = column.chunks_.rows = chunk_rows;
  return column;
}

ChunkedColumn Group::open_chunked_column(const char* name, Type type) const {
  const InLibrary in_library;
  Dataset opened = open_dataset(name, type);
  ChunkedColumn column(std::move(opened.handle), "column " + path_of(name), type);
  column.rows_ = opened.rows;
  column.chunks_ = std::move(opened.chunks);
  column.chunk_rows_ =
      column.chunks_.rows != 0 ? column.chunks_.rows : std::max<std::uint64_t>(opened.rows, 1);
  column.file_bytes_ = file_bytes_;
  return column;
}

}  // namespace clusterprof::h5
