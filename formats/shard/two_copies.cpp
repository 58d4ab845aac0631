// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/two_copies.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/believable_bytes.hpp"
#include "formats/h5/h5.hpp"

namespace clusterprof::shard {
namespace {

constexpr std::size_t kHeaderBytes = 512, kSignatureBytes = 8;
constexpr std::array<char, 8> kMagic = {'c', 'p', 's', 'h', 'a', 'r', 'd', '1'};
constexpr std::uint64_t kLastCopy = 1;  // flag
// The second copy leaves the first one room to grow, so it seldom has to move. The room is a hole in the
// file.
constexpr std::uint64_t kRoomToGrow = 4, kFirstRoom = 128 << 10;
// While a copy is read, it may be overwritten. The other one is newer then.
constexpr int kTriesToRead = 4;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint64_t place = 0;  // of this header in the file
  std::uint64_t sequence = 0, flags = 0;
  std::uint64_t bytes = 0, checksum = 0;  // of the HDF5 file behind it: XXH3 without its signature
  std::uint64_t header_checksum = 0;      // XXH3 of the fields above
};
static_assert(std::endian::native == std::endian::little && sizeof(Header) == 56);

std::uint64_t checksum_of(const Header& header) {
  return XXH3_64bits(&header, offsetof(Header, header_checksum));
}

std::uint64_t checksum_of(std::span<const std::byte> image) {
  return XXH3_64bits(image.data() + kSignatureBytes, image.size() - kSignatureBytes);
}

constexpr std::array<unsigned char, kSignatureBytes> kSignature = {0x89, 'H',  'D',  'F',
                                                                   '\r', '\n', 0x1a, '\n'};

UniqueFd create_file(const std::filesystem::path& path) {
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
}

// True if all bytes were written. Otherwise errno tells why not.
bool write_all(int fd, const void* bytes, std::size_t count, std::uint64_t offset) {
  const auto* from = static_cast<const std::byte*>(bytes);
  while (count > 0) {
    const ssize_t written = ::pwrite(fd, from, count, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (written == 0) errno = ENOSPC;
      return false;
    }
    from += written;
    offset += static_cast<std::uint64_t>(written);
    count -= static_cast<std::size_t>(written);
  }
  return true;
}

bool read_all(int fd, void* bytes, std::size_t count, std::uint64_t offset) {
  auto* to = static_cast<std::byte*>(bytes);
  while (count > 0) {
    const ssize_t got = ::pread(fd, to, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<std::uint64_t>(got);
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

std::optional<Header> read_header(int fd, std::uint64_t place, std::uint64_t file_bytes) {
  Header header;
  if (!read_all(fd, &header, sizeof header, place) || header.magic != kMagic) return std::nullopt;
  const bool fits = header.place == place && header.bytes > kSignatureBytes &&
                    header.bytes <= file_bytes - std::min(file_bytes, place + kHeaderBytes);
  if (!fits || header.header_checksum != checksum_of(header)) return std::nullopt;
  return header;
}

// Whether the first copy is the last one of all, and on disk with its signature.
bool is_last(int fd, std::uint64_t file_bytes) {
  const auto header = read_header(fd, 0, file_bytes);
  std::array<unsigned char, kSignatureBytes> signature{};
  return header && (header->flags & kLastCopy) != 0 &&
         read_all(fd, signature.data(), signature.size(), kHeaderBytes) && signature == kSignature;
}

// The newest first.
std::vector<Header> read_headers(int fd, std::uint64_t file_bytes) {
  std::vector<Header> headers;
  for (std::uint64_t begin = kHeaderBytes; begin < file_bytes; begin *= 2) {
    if (const auto header = read_header(fd, begin - kHeaderBytes, file_bytes)) headers.push_back(*header);
    if (begin > std::numeric_limits<std::uint64_t>::max() / 4) break;
  }
  std::sort(headers.begin(), headers.end(),
            [](const Header& a, const Header& b) { return a.sequence > b.sequence; });
  return headers;
}

// For a second copy above a first one that ends at `end`.
std::uint64_t second_place_beyond(std::uint64_t end) {
  return std::bit_ceil(std::max(kRoomToGrow * end, kFirstRoom)) - kHeaderBytes;
}

}  // namespace

std::optional<std::vector<std::byte>> read_newest_copy(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, kMagic.size()> magic{};
  if (!fd || !read_all(fd.get(), magic.data(), magic.size(), 0) || magic != kMagic) return std::nullopt;
  for (int attempt = 0; attempt < kTriesToRead; ++attempt) {
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) break;
    const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
    if (is_last(fd.get(), file_bytes)) return std::nullopt;
    for (const Header& header : read_headers(fd.get(), file_bytes)) {
      if (believable_bytes(fd.get(), header.place + kHeaderBytes, header.bytes) < header.bytes) continue;
      std::vector<std::byte> image(header.bytes);
      if (!read_all(fd.get(), image.data(), image.size(), header.place + kHeaderBytes)) continue;
      if (checksum_of(image) != header.checksum) continue;
      std::memcpy(image.data(), kSignature.data(), kSignatureBytes);
      return image;
    }
  }
  throw h5::H5Error("is damaged (neither of its copies is whole)");
}

TwoCopies::TwoCopies(std::filesystem::path path, std::filesystem::path unnamed, UniqueFd fd, bool makes_files)
    : path_(std::move(path)), unnamed_(std::move(unnamed)), fd_(std::move(fd)), makes_files_(makes_files) {}

TwoCopies::~TwoCopies() {
  if (made_unnamed_) ::unlink(unnamed_.c_str());
}

Error TwoCopies::failed() const {
  return Error{path_.string() + ": cannot be written: " + std::strerror(errno)};
}

void TwoCopies::forget() {
  fd_.reset();
  current_.reset();
  second_place_ = file_bytes_ = 0;
}

// Where the file's name has been removed, or the file server has forgotten the file, a new one is begun.
// Asking whether that is so costs a message to the server, too, so not every checkpoint does. Where none is
// made, as the caller has locked the one that it gave, the file is on this node.
Result<void> TwoCopies::open(bool last) {
  constexpr std::uint64_t kCopiesPerLook = 60;
  const bool looks = fd_ && (last || !makes_files_ || sequence_ % kCopiesPerLook == 0);
  struct stat status {};
  if (looks && (::fstat(fd_.get(), &status) != 0 || status.st_nlink == 0)) forget();
  if (fd_) return {};
  if (!makes_files_) return Error{path_.string() + ": was removed"};
  fd_ = create_file(unnamed_);
  if (!fd_ && errno == EEXIST && ::unlink(unnamed_.c_str()) == 0) fd_ = create_file(unnamed_);
  if (!fd_) return failed();
  made_unnamed_ = true;
  return {};
}

// Beside the newest copy, which is not touched.
std::uint64_t TwoCopies::place_beside_current(std::uint64_t image_bytes) const {
  if (!current_) return 0;
  const std::uint64_t bytes = kHeaderBytes + image_bytes;
  if (current_->place != 0 && bytes <= current_->place) return 0;
  // The last copy is written at 0 once more, so this one must be behind its end, too.
  const std::uint64_t end = std::max(current_->end, bytes);
  if (current_->place == 0 && second_place_ >= end) return second_place_;
  return second_place_beyond(end);
}

// HDF5 asks for the size of a file once, when it opens it, and looks for nothing beyond that. A reader that
// opens the file before the second copy is there, and reads on when the first one is no longer the newest,
// would find none. So the file has its later size long before. The room is a hole.
void TwoCopies::reserve_second() {
  if (second_place_ == 0) second_place_ = second_place_beyond(current_->end);
  const std::uint64_t wanted = 2 * (second_place_ + kHeaderBytes);
  if (file_bytes_ < wanted && ::ftruncate(fd_.get(), static_cast<off_t>(wanted)) == 0) file_bytes_ = wanted;
}

Result<void> TwoCopies::write_copy(std::uint64_t place, std::span<const std::byte> image, bool last) {
  Header header;
  header.place = place;
  header.sequence = ++sequence_;
  // Readers take a last copy as it is. So where another copy is there, it is called that only when it is on
  // disk.
  header.flags = last && !current_ ? kLastCopy : 0;
  header.bytes = image.size();
  header.checksum = checksum_of(image);
  header.header_checksum = checksum_of(header);
  // In one piece, because each write may be a message to a file server.
  std::vector<std::byte> copy(kHeaderBytes + image.size());
  std::memcpy(copy.data(), &header, sizeof header);
  std::memcpy(copy.data() + kHeaderBytes, image.data(), image.size());
  const bool is_below = current_ && place < current_->place;
  if (is_below) std::memset(copy.data() + kHeaderBytes, 0, kSignatureBytes);
  if (!write_all(fd_.get(), copy.data(), copy.size(), place) || ::fdatasync(fd_.get()) != 0) {
    const bool is_forgotten = errno == ESTALE;
    Error why = failed();
    // What fitted of it takes no room.
    const std::uint64_t whole = current_ ? current_->end : 0;
    if (place >= whole && ::ftruncate(fd_.get(), static_cast<off_t>(whole)) == 0) file_bytes_ = 0;
    if (is_forgotten) forget();  // the file server has forgotten it: the next copy goes to a new file
    return why;
  }
  // For others who read the file with HDF5: from now on this is the copy that it finds. That this is on disk
  // before the next copy does not matter to our readers.
  static constexpr std::array<unsigned char, kSignatureBytes> kBlank{};
  const bool passes_old_place = second_place_ != 0 && second_place_ < place;
  if (passes_old_place && !write_all(fd_.get(), kBlank.data(), kSignatureBytes, second_place_ + kHeaderBytes))
    return failed();
  if (is_below && !write_all(fd_.get(), kSignature.data(), kSignatureBytes, place + kHeaderBytes))
    return failed();
  if (current_ && !is_below &&
      !write_all(fd_.get(), kBlank.data(), kSignatureBytes, current_->place + kHeaderBytes))
    return failed();
  if (last && current_) {
    header.flags = kLastCopy;
    header.header_checksum = checksum_of(header);
    if (!write_all(fd_.get(), &header, sizeof header, place)) return failed();
  }
  current_ = Copy{place, place + copy.size()};
  if (place != 0) second_place_ = place;
  if (!last) reserve_second();
  return {};
}

Result<void> TwoCopies::give_name() {
  if (::rename(unnamed_.c_str(), path_.c_str()) != 0) {
    Error why = failed();
    ::unlink(unnamed_.c_str());
    made_unnamed_ = false;
    forget();
    return why;
  }
  made_unnamed_ = false;
  // The name survives a crash of the machine only if the directory is on disk, too. Some file systems cannot
  // sync directories; the data is safe in any case.
  const UniqueFd directory(::open(path_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) ::fsync(directory.get());
  return {};
}

Result<void> TwoCopies::write(std::span<const std::byte> image, bool last) {
  if (const Result<void> opened = open(last); !opened) return opened;
  const bool is_new = !current_;
  if (!is_new && last && place_beside_current(image.size()) != 0) {
    if (const Result<void> beside = write_copy(place_beside_current(image.size()), image, false); !beside)
      return beside;
  }
  if (const Result<void> written = write_copy(place_beside_current(image.size()), image, last); !written)
    return written;
  if (last) {
    // What is left of the other copy. Reading does not depend on it, so a failure changes nothing.
    [[maybe_unused]] const int ignored = ::ftruncate(fd_.get(), static_cast<off_t>(current_->end));
  }
  if (is_new) return give_name();
  return {};
}

}  // namespace clusterprof::shard
