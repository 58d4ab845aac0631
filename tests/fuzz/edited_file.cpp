// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/edited_file.hpp"

#include <hdf5.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "formats/profile/block_layout.hpp"
#include "formats/shard/two_copies.hpp"

namespace clusterprof::fuzz {
namespace {

constexpr const char* kChecksum = "xxh3";
constexpr std::size_t kMaxEdits = 32, kMaxRows = 1 << 16;

// Of a file with two copies (FORMATS.md): a header is fields of 8 bytes, the last of them its checksum.
constexpr std::size_t kCopyHeaderBytes = 512, kSignatureBytes = 8;
constexpr std::size_t kImageBytesField = 4, kImageChecksumField = 5;

herr_t note_attribute(hid_t object, const char* name, const H5A_info_t*, void* out) {
  if (std::strcmp(name, kChecksum) == 0) return 0;
  char of[256];
  if (H5Iget_name(object, of, sizeof of) <= 0) return -1;
  static_cast<EditedFile::Names*>(out)->attributes.emplace_back(of, name);
  return 0;
}

herr_t note(hid_t root, const char* name, const H5O_info_t* info, void* out) {
  auto& names = *static_cast<EditedFile::Names*>(out);
  if (info->type == H5O_TYPE_DATASET) names.columns.push_back(name);
  const hid_t object = H5Oopen(root, name, H5P_DEFAULT);
  const herr_t status = H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, note_attribute, out);
  H5Oclose(object);
  return status;
}

void store_checksum(hid_t dataset, const std::vector<unsigned char>& bytes) {
  if (H5Aexists(dataset, kChecksum) <= 0) return;  // its rows have theirs elsewhere
  const std::uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size());
  const hid_t attribute = H5Aopen(dataset, kChecksum, H5P_DEFAULT);
  H5Awrite(attribute, H5T_STD_U64LE, &checksum);
  H5Aclose(attribute);
}

struct Edit {
  std::uint16_t column;
  std::uint8_t what;
  std::uint32_t where;
  std::uint64_t number;
};

Edit edit_at(const std::uint8_t* bytes) {
  Edit edit{};
  std::memcpy(&edit.column, bytes, 2);
  edit.what = bytes[2];
  std::memcpy(&edit.where, bytes + 3, 3);
  std::memcpy(&edit.number, bytes + 6, 8);
  return edit;
}

// Puts `bytes` in place of the column's rows; `rows` may be another number than before.
void replace(hid_t file, const std::string& name, hid_t dataset, hid_t type, hsize_t rows, bool same_size,
             const std::vector<unsigned char>& bytes) {
  if (same_size) {
    if (rows != 0) H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
    store_checksum(dataset, bytes);
    return;
  }
  const bool has_checksum = H5Aexists(dataset, kChecksum) > 0;
  const hid_t properties = H5Dget_create_plist(dataset);
  const bool chunked = H5Pget_layout(properties) == H5D_CHUNKED;
  if (!chunked && bytes.size() > 4096) {
    const hsize_t chunk = std::min<hsize_t>(rows, 32768);
    H5Pset_chunk(properties, 1, &chunk);
    if (H5Tget_size(type) > 1) H5Pset_shuffle(properties);
    H5Pset_deflate(properties, 1);
    H5Pset_fletcher32(properties);
  }
  H5Ldelete(file, name.c_str(), H5P_DEFAULT);
  const hsize_t most = chunked ? H5S_UNLIMITED : rows;
  const hid_t space = H5Screate_simple(1, &rows, &most);
  const hid_t made = H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  if (made >= 0) {
    if (rows != 0) H5Dwrite(made, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
    if (has_checksum) {
      const hid_t scalar = H5Screate(H5S_SCALAR);
      const hid_t attribute = H5Acreate2(made, kChecksum, H5T_STD_U64LE, scalar, H5P_DEFAULT, H5P_DEFAULT);
      H5Aclose(attribute);
      H5Sclose(scalar);
      store_checksum(made, bytes);
    }
    H5Dclose(made);
  }
  H5Pclose(properties);
  H5Sclose(space);
}

void apply(hid_t file, const std::pair<std::string, std::string>& attribute, const Edit& edit) {
  const hid_t opened =
      H5Aopen_by_name(file, attribute.first.c_str(), attribute.second.c_str(), H5P_DEFAULT, H5P_DEFAULT);
  if (opened < 0) return;  // of a column that an earlier edit has replaced
  const hid_t type = H5Aget_type(opened);
  std::vector<unsigned char> bytes(H5Tget_size(type));
  if (H5Tis_variable_str(type) <= 0 && H5Aread(opened, type, bytes.data()) >= 0) {
    const std::size_t at = H5Tget_class(type) == H5T_STRING ? edit.where % bytes.size() : 0;
    std::memcpy(&bytes[at], &edit.number, std::min<std::size_t>(bytes.size() - at, 8));
    H5Awrite(opened, type, bytes.data());
  }
  H5Tclose(type);
  H5Aclose(opened);
}

void apply(hid_t file, const std::string& name, const Edit& edit) {
  const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  if (dataset < 0) return;  // an earlier edit has removed it
  const hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
  const auto rows = static_cast<hsize_t>(std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space)));
  const std::size_t width = H5Tget_size(type);
  std::vector<unsigned char> bytes(rows * width);
  if (rows == 0 || H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) >= 0) {
    const std::size_t row = rows == 0 ? 0 : edit.where % rows;
    hsize_t now = rows;
    switch (edit.what % 8) {
      case 0:  // a value
      case 1:
      case 2:
        if (rows != 0) std::memcpy(&bytes[row * width], &edit.number, std::min<std::size_t>(width, 8));
        break;
      case 3:  // somewhat more or less
        if (rows != 0) {
          std::uint64_t value = 0;
          std::memcpy(&value, &bytes[row * width], std::min<std::size_t>(width, 8));
          value +=
              static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int8_t>(edit.number)));
          std::memcpy(&bytes[row * width], &value, std::min<std::size_t>(width, 8));
        }
        break;
      case 4:  // the same from there on
        for (std::size_t i = row; i < rows; ++i)
          std::memcpy(&bytes[i * width], &edit.number, std::min<std::size_t>(width, 8));
        break;
      case 5:  // two rows change places
        if (rows != 0)
          std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(row * width),
                           bytes.begin() + static_cast<std::ptrdiff_t>((row + 1) * width),
                           bytes.begin() + static_cast<std::ptrdiff_t>(edit.number % rows * width));
        break;
      case 6:  // shorter
        now = row;
        break;
      default:  // longer
        now = std::min<hsize_t>(rows + 1 + edit.number % 64, kMaxRows);
        break;
    }
    bytes.resize(now * width);
    replace(file, name, dataset, type, now, now == rows, bytes);
  }
  H5Sclose(space);
  H5Tclose(type);
  H5Dclose(dataset);
}

struct Column {
  std::vector<unsigned char> bytes;
  std::size_t width = 1;
};

std::optional<Column> read_column(hid_t file, const std::string& name) {
  const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  if (dataset < 0) return {};
  const hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
  Column column;
  column.width = H5Tget_size(type);
  column.bytes.resize(static_cast<std::size_t>(std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space))) *
                      column.width);
  const bool read =
      column.bytes.empty() || H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, column.bytes.data()) >= 0;
  H5Sclose(space);
  H5Tclose(type);
  H5Dclose(dataset);
  if (!read) return {};
  return column;
}

// The checksums of a profile's blocks are themselves columns. They become right for all blocks whose place
// lies in the columns.
void store_block_checksums(hid_t file) {
  std::vector<profile::BlockPlace> places;
  profile::visit_blocks([&](const std::string& name, auto field) {
    const std::optional<Column> column = read_column(file, "blocks/" + name);
    if (!column || column->width != 8) return;
    const std::size_t rows = column->bytes.size() / 8;
    if (places.empty()) places.resize(rows);
    for (std::size_t i = 0; i < std::min(rows, places.size()); ++i)
      std::memcpy(&field(places[i]), &column->bytes[i * 8], 8);
  });
  for (std::size_t i = 0; i < profile::kBlockColumns.size(); ++i) {
    const profile::BlockColumn& of = profile::kBlockColumns[i];
    const std::string group = profile::group_of(of);
    const std::optional<Column> column = read_column(file, group + "/" + of.name);
    if (!column) continue;
    const std::uint64_t rows = column->bytes.size() / column->width;
    std::vector<std::uint64_t> checksums;
    for (const profile::BlockPlace& place : places) {
      const profile::BlockPlace::Table& table = place.tables[of.table];
      const std::uint64_t first = of.of_paths ? table.first_path : table.first_row;
      const std::uint64_t count = of.of_paths ? table.paths : table.rows;
      checksums.push_back(
          first > rows || count > rows - first
              ? place.xxh3[i]
              : XXH3_64bits(column->bytes.data() + first * column->width, count * column->width));
    }
    const hid_t dataset = H5Dopen2(file, ("blocks/" + group + "_" + of.name + "_xxh3").c_str(), H5P_DEFAULT);
    if (dataset < 0) continue;
    const hid_t space = H5Dget_space(dataset);
    if (H5Sget_simple_extent_npoints(space) == static_cast<hssize_t>(checksums.size()) &&
        !checksums.empty()) {
      std::vector<unsigned char> bytes(checksums.size() * 8);
      std::memcpy(bytes.data(), checksums.data(), bytes.size());
      H5Dwrite(dataset, H5T_STD_U64LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
      store_checksum(dataset, bytes);
    }
    H5Sclose(space);
    H5Dclose(dataset);
  }
}

bool is_of_two_copies(std::span<const std::uint8_t> input) {
  return input.size() >= kOfTwoCopies.size() &&
         std::memcmp(input.data(), kOfTwoCopies.data(), kOfTwoCopies.size()) == 0;
}

std::uint64_t number_at(const std::vector<std::uint8_t>& file, std::size_t place) {
  std::uint64_t number = 0;
  std::memcpy(&number, &file[place], sizeof number);
  return number;
}

void put_number(std::vector<std::uint8_t>& file, std::size_t place, std::uint64_t number) {
  std::memcpy(&file[place], &number, sizeof number);
}

void store_copy_checksums(std::vector<std::uint8_t>& file, std::size_t header, bool with_image) {
  const std::size_t image = header + kCopyHeaderBytes;
  const std::uint64_t bytes = number_at(file, header + 8 * kImageBytesField);
  if (with_image && image <= file.size() && bytes > kSignatureBytes && bytes <= file.size() - image)
    put_number(file, header + 8 * kImageChecksumField,
               XXH3_64bits(&file[image + kSignatureBytes], bytes - kSignatureBytes));
  put_number(file, header + 8 * kCopyFields, XXH3_64bits(&file[header], 8 * kCopyFields));
}

void edit_copies(std::vector<std::uint8_t>& file, const std::vector<std::size_t>& headers,
                 const std::uint8_t* bytes) {
  std::uint32_t where = 0;
  std::uint64_t number = 0;
  std::memcpy(&where, bytes + 1, sizeof where);
  std::memcpy(&number, bytes + 5, sizeof number);
  const std::size_t header = headers[where % headers.size()];
  const std::size_t field = header + 8 * (where / headers.size() % kCopyFields);
  const bool has_header = header + 8 * (kCopyFields + 1) <= file.size();  // after the file was made shorter
  switch (static_cast<CopyEdit>(bytes[0] % 4)) {
    case CopyEdit::kField:
    case CopyEdit::kSomewhat:
      if (!has_header) return;
      if (static_cast<CopyEdit>(bytes[0] % 4) == CopyEdit::kSomewhat)
        number = number_at(file, field) +
                 static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int16_t>(number)));
      put_number(file, field, number);
      store_copy_checksums(file, header, (bytes[0] & kWithImage) != 0);
      return;
    case CopyEdit::kBytes:
      if (file.size() >= 8) put_number(file, where % (file.size() - 7), number);
      return;
    case CopyEdit::kEnd:
      file.resize(where % (2 * file.size() + 1));
      return;
  }
}

bool is_of_blocks(std::string_view column) {
  const std::string_view group = column.substr(0, column.find('/'));
  const auto among = [&](const auto& names) {
    return std::find(names.begin(), names.end(), group) != names.end();
  };
  return group == "blocks" || among(profile::kMatrixTableNames) || among(profile::kPathTableNames);
}

}  // namespace

EditedFile::EditedFile(const std::filesystem::path& original) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const std::filesystem::path memory = "/dev/shm";
  path_ = (std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path()) /
          ("clusterprof-fuzz-" + std::to_string(getpid()) + ".h5");
  std::ifstream in(original, std::ios::binary);
  original_.assign(std::istreambuf_iterator<char>(in), {});
  const hid_t file = H5Fopen(original.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0 || H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, note, &names_, H5O_INFO_BASIC) < 0 ||
      names_.columns.empty() || names_.attributes.empty()) {
    std::fprintf(stderr, "%s: cannot be read\n", original.c_str());
    std::exit(1);
  }
  has_blocks_ = H5Lexists(file, "blocks", H5P_DEFAULT) > 0;
  H5Fclose(file);
  make_copies();
}

void EditedFile::make_copies() {
  {
    shard::TwoCopies copies(path_, path_.string() + ".unnamed");
    for (int i = 0; i < 2; ++i) {
      const Result<void> written = copies.write(std::as_bytes(std::span(original_)), false);
      if (written) continue;
      std::fprintf(stderr, "%s\n", written.error().message.c_str());
      std::exit(1);
    }
  }
  std::ifstream in(path_, std::ios::binary);
  copies_.assign(std::istreambuf_iterator<char>(in), {});
  for (std::size_t begin = kCopyHeaderBytes; begin < copies_.size(); begin *= 2)
    if (std::memcmp(&copies_[begin - kCopyHeaderBytes], kOfTwoCopies.data(), kOfTwoCopies.size()) == 0)
      copy_places_.push_back(begin - kCopyHeaderBytes);
  if (copy_places_.size() == 2) return;
  std::fprintf(stderr, "%s: has %zu copies instead of two\n", path_.c_str(), copy_places_.size());
  std::exit(1);
}

void EditedFile::write_copies(std::span<const std::uint8_t> edits) {
  std::vector<std::uint8_t> file = copies_;
  for (std::size_t i = 0; i < kMaxEdits && (i + 1) * kCopyEditBytes <= edits.size() && !file.empty(); ++i)
    edit_copies(file, copy_places_, edits.data() + i * kCopyEditBytes);
  std::ofstream out(path_, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
}

bool EditedFile::is_unchanged_copies(std::span<const std::uint8_t> input) {
  return is_of_two_copies(input) && input.size() < kOfTwoCopies.size() + kCopyEditBytes;
}

EditedFile::~EditedFile() { std::filesystem::remove(path_); }

const std::filesystem::path& EditedFile::make(std::span<const std::uint8_t> input) {
  if (is_of_two_copies(input)) {
    write_copies(input.subspan(kOfTwoCopies.size()));
    return path_;
  }
  const bool whole = input.size() >= 4 && std::memcmp(input.data(), "\x89HDF", 4) == 0;
  std::ofstream out(path_, std::ios::binary | std::ios::trunc);
  if (whole) {
    out.write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
    return path_;
  }
  out.write(original_.data(), static_cast<std::streamsize>(original_.size()));
  out.close();
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDWR, access);
  H5Pclose(access);
  bool blocks_changed = false;
  for (std::size_t i = 0; i < kMaxEdits && (i + 1) * kEditBytes <= input.size(); ++i) {
    const Edit edit = edit_at(input.data() + i * kEditBytes);
    const std::size_t number = edit.column % (names_.columns.size() + names_.attributes.size());
    if (number >= names_.columns.size()) {
      apply(file, names_.attributes[number - names_.columns.size()], edit);
      continue;
    }
    blocks_changed |= has_blocks_ && is_of_blocks(names_.columns[number]);
    apply(file, names_.columns[number], edit);
  }
  if (blocks_changed) store_block_checksums(file);
  H5Fclose(file);
  return path_;
}

}  // namespace clusterprof::fuzz
