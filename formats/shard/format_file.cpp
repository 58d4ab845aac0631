// SPDX-License-Identifier: BSD-3-Clause
// Gives a file its final name only when it is complete and on disk, and refuses files of other formats and
// versions. Every failure becomes an Error of one line that begins with the path.
#include "formats/shard/format_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/process_mark.hpp"
#include "base/unique_fd.hpp"
#include "base/version.hpp"
#include "formats/shard/two_copies.hpp"

namespace clusterprof::shard {
namespace {

Error error_of(const std::filesystem::path& path, const std::string& what) {
  return Error{path.string() + ": " + what};
}

std::string system_reason() { return std::strerror(errno); }

// Says who writes the file, so that the next merge can tell that its writer was killed. One process may write
// several files.
std::string temporary_name(const std::filesystem::path& path) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof random))
    random = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  std::string name(1, '.');
  name += path.filename().string();
  name += '.';
  name += to_string(mark_of_this_process());
  name += '.';
  name += std::to_string(random);
  name += ".tmp";
  return name;
}

// Removes the temporary file unless it got its final name.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path) : path_(std::move(path)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::filesystem::path& path() const { return path_; }
  void release() { path_.clear(); }

 private:
  std::filesystem::path path_;
};

void check_format(const h5::Group& root, const char* format) {
  const bool ours = root.has_attribute("format") && root.has_attribute("format_major");
  if (!ours) throw h5::H5Error("is not a clusterprof file");
  const std::string found = root.read_string("format");
  if (found != format) {
    if (found == kShardFormat) throw h5::H5Error("is a shard, not a profile");
    if (found == kProfileFormat) throw h5::H5Error("is a profile, not a shard");
    throw h5::H5Error("is not a clusterprof file");
  }
  const bool profile = std::string_view(format) == kProfileFormat;
  const std::uint32_t major = profile ? kProfileMajor : kFormatMajor;
  const std::uint32_t minor = profile ? kProfileMinor : kFormatMinor;
  constexpr std::int64_t kMax = std::numeric_limits<std::uint32_t>::max();
  const std::int64_t found_major = root.read_integer("format_major", 0, kMax);
  const std::int64_t found_minor = root.read_integer("format_minor", 0, kMax);
  if (found_major != major || found_minor != minor)
    throw h5::H5Error("has format " + std::to_string(found_major) + "." + std::to_string(found_minor) +
                      ", this clusterprof reads " + std::to_string(major) + "." + std::to_string(minor) +
                      " only" + (profile ? "; merge the run's shards again" : ""));
}

void write_format(h5::Group& root, const char* format) {
  const bool profile = std::string_view(format) == kProfileFormat;
  root.write_attribute("format", format);
  root.write_attribute("format_major", profile ? kProfileMajor : kFormatMajor);
  root.write_attribute("format_minor", profile ? kProfileMinor : kFormatMinor);
  std::string creator = "clusterprof ";
  creator += kVersion;
  root.write_attribute("creator", creator);
}

// Runs `act`. Turns what it throws into an Error of one line that begins with the path.
Result<void> guarded(const std::filesystem::path& path, const char* cannot,
                     const std::function<void()>& act) {
  try {
    act();
    return {};
  } catch (const h5::H5Error& error) {
    return error_of(path, error.what());
  } catch (const std::bad_alloc&) {
    return error_of(path, std::string(cannot) + ": out of memory");
  } catch (const std::length_error&) {
    return error_of(path, "is damaged (a size is out of range)");
  }
}

}  // namespace

struct NewFile::State {
  std::filesystem::path path, directory;
  TemporaryFile temporary;
  UniqueFd lock;  // of a profile
  std::optional<h5::File> file;
};

NewFile::NewFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
NewFile::NewFile(NewFile&&) noexcept = default;
NewFile& NewFile::operator=(NewFile&&) noexcept = default;
NewFile::~NewFile() = default;

Result<NewFile> NewFile::create(const std::filesystem::path& path, const char* format) {
  std::filesystem::path directory = path.parent_path();
  if (directory.empty()) directory = ".";
  // HDF5 says little about a directory that is missing or not writable.
  if (::access(directory.c_str(), W_OK | X_OK) != 0)
    return error_of(path, "cannot be written: " + system_reason());
  const std::filesystem::path temporary = directory / temporary_name(path);
  NewFile made(std::unique_ptr<State>(new State{path, directory, TemporaryFile(temporary), {}, {}}));
  const Result<void> begun = guarded(path, "cannot be written", [&] {
    made.state_->file = h5::File::create(temporary);
    h5::Group root = made.state_->file->root();
    const bool profile = std::string_view(format) == kProfileFormat;
    if (profile) {  // on a file system without locks, only the file's age tells that it was abandoned
      made.state_->lock = UniqueFd(::open(temporary.c_str(), O_RDONLY | O_CLOEXEC));
      ::flock(made.state_->lock.get(), LOCK_SH | LOCK_NB);
    }
    write_format(root, format);
  });
  if (!begun) return begun.error();
  return made;
}

Result<void> NewFile::write(const std::function<void(h5::Group& root)>& fill) {
  return guarded(state_->path, "cannot be written", [&] {
    h5::Group root = state_->file->root();
    fill(root);
  });
}

Result<void> NewFile::finish() {
  const std::filesystem::path& path = state_->path;
  if (const Result<void> closed = guarded(path, "cannot be written", [&] { state_->file->close(); }); !closed)
    return closed;
  const UniqueFd fd(::open(state_->temporary.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd || ::fsync(fd.get()) != 0) return error_of(path, "cannot be written: " + system_reason());
  if (::rename(state_->temporary.path().c_str(), path.c_str()) != 0)
    return error_of(path, "cannot be written: " + system_reason());
  state_->temporary.release();
  // The name survives a crash of the machine only if the directory is on disk, too. Some file systems cannot
  // sync directories; the data is safe in any case.
  const UniqueFd directory_fd(::open(state_->directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory_fd) ::fsync(directory_fd.get());
  return {};
}

Result<void> write_file(const std::filesystem::path& path, const char* format,
                        const std::function<void(h5::Group& root)>& fill) {
  Result<NewFile> file = NewFile::create(path, format);
  if (!file) return file.error();
  if (const Result<void> written = file.value().write(fill); !written) return written;
  return file.value().finish();
}

Result<std::vector<std::byte>> image_of_file(const std::filesystem::path& path, const char* format,
                                             const std::function<void(h5::Group& root)>& fill) {
  std::vector<std::byte> image;
  const Result<void> made = guarded(path, "cannot be written", [&] {
    image = h5::File::image_of([&](h5::Group& root) {
      write_format(root, format);
      fill(root);
    });
  });
  if (!made) return made.error();
  return image;
}

Result<void> reading(const std::filesystem::path& path, const std::function<void()>& use) {
  return guarded(path, "cannot be read", use);
}

Result<h5::File> open_file(const std::filesystem::path& path, const char* format) {
  std::optional<h5::File> file;
  const Result<void> opened = reading(path, [&] {
    const std::optional<std::vector<std::byte>> image = read_newest_copy(path);
    file = image ? h5::File::open_image(*image) : h5::File::open(path);
    check_format(file->root(), format);
  });
  if (!opened) return opened.error();
  return std::move(*file);
}

Result<void> read_file(const std::filesystem::path& path, const char* format,
                       const std::function<void(const h5::Group& root)>& use) {
  const Result<h5::File> file = open_file(path, format);
  if (!file) return file.error();
  return reading(path, [&] { use(file.value().root()); });
}

}  // namespace clusterprof::shard
