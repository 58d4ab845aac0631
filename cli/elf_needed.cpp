// SPDX-License-Identifier: BSD-3-Clause
#include "cli/elf_needed.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/unique_fd.hpp"

namespace clusterprof::cli {
namespace {

constexpr std::size_t kMaxStringBytes = 1u << 16;
constexpr std::size_t kMaxNeeded = 1024;  // each of which may be as long as that

// A file mapped read-only; reads outside it give nothing.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0) return;
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return;
    data_ = static_cast<const char*>(data);
    size_ = size;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
  }

  template <typename T>
  [[nodiscard]] bool read(std::uint64_t offset, T& out) const {
    if (offset > size_ || sizeof out > size_ - offset) return false;
    std::memcpy(&out, data_ + offset, sizeof out);
    return true;
  }

  // The NUL-terminated string there; empty when it does not end within the file, or is none that could be a
  // path or a list of some.
  [[nodiscard]] std::string_view string(std::uint64_t offset) const {
    if (offset >= size_) return {};
    const void* const end = std::memchr(data_ + offset, '\0', std::min(size_ - offset, kMaxStringBytes));
    if (end == nullptr) return {};
    return {data_ + offset, static_cast<std::size_t>(static_cast<const char*>(end) - (data_ + offset))};
  }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

// The first directory of a colon-separated list that has the file.
std::string find_in_list(const std::string& list, const std::string& name, const std::string& origin) {
  for (std::size_t at = 0; at <= list.size() && !list.empty();) {
    std::size_t end = list.find(':', at);
    if (end == std::string::npos) end = list.size();
    std::string directory = list.substr(at, end - at);
    for (const std::string_view token : {"$ORIGIN", "${ORIGIN}"}) {
      if (const std::size_t found = directory.find(token); found != std::string::npos) {
        directory.replace(found, token.size(), origin);
      }
    }
    const std::string path = (directory.empty() ? "." : directory) + "/" + name;
    if (::access(path.c_str(), R_OK) == 0) return path;
    at = end + 1;
  }
  return {};
}

}  // namespace

std::optional<ElfDependencies> read_elf_dependencies(const std::string& path) {
  const MappedFile file(path);
  Elf64_Ehdr header{};
  if (!file.read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return std::nullopt;
  }
  ElfDependencies result;
  const auto segment = [&](unsigned index, Elf64_Phdr& out) {
    return file.read(header.e_phoff + std::uint64_t{index} * header.e_phentsize, out);
  };
  Elf64_Phdr dynamic{}, load{};
  bool found = false;
  for (unsigned i = 0; i < header.e_phnum && !found; ++i) {
    if (!segment(i, dynamic)) break;
    if (dynamic.p_type == PT_INTERP) result.interpreter = file.string(dynamic.p_offset);
    found = dynamic.p_type == PT_DYNAMIC;
  }
  if (!found) return result;

  std::uint64_t strings_address = 0, rpath = 0, runpath = 0;
  std::vector<std::uint64_t> needed;
  for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.p_filesz; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry{};
    if (!file.read(dynamic.p_offset + at, entry) || entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED && needed.size() < kMaxNeeded) needed.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_STRTAB) strings_address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_RPATH) rpath = entry.d_un.d_val;
    if (entry.d_tag == DT_RUNPATH) runpath = entry.d_un.d_val;
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    if (!segment(i, load) || load.p_type != PT_LOAD || strings_address < load.p_vaddr ||
        strings_address - load.p_vaddr >= load.p_filesz) {
      continue;
    }
    const std::uint64_t strings = load.p_offset + (strings_address - load.p_vaddr);
    for (const std::uint64_t offset : needed) result.needed.emplace_back(file.string(strings + offset));
    if (rpath != 0) result.rpath = file.string(strings + rpath);
    if (runpath != 0) result.runpath = file.string(strings + runpath);
    break;
  }
  return result;
}

// Its present format is a header of 48 bytes, then 24 bytes for each library. Before glibc 2.32, ldconfig put
// a list of an older format in front: a header of 16 bytes, then 12 bytes for each library.
std::string find_in_loader_cache(const std::string& name, const std::string& cache_file) {
  const MappedFile cache(cache_file);
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1", kOlderMagic = "ld.so-1.7.0";
  char magic[kMagic.size()];
  std::uint64_t start = 0;
  std::uint32_t count = 0;
  if (cache.read(0, magic) && std::string_view(magic, kOlderMagic.size()) == kOlderMagic) {
    if (!cache.read(12, count)) return {};
    start = (16 + std::uint64_t{count} * 12 + 7) / 8 * 8;
  }
  if (!cache.read(start, magic) || std::string_view(magic, sizeof magic) != kMagic ||
      !cache.read(start + 20, count))
    return {};
  for (std::uint32_t i = 0; i < count; ++i) {
    struct {
      std::int32_t flags;
      std::uint32_t key, value, os_version;
      std::uint64_t hardware;
    } entry{};
    static_assert(sizeof entry == 24);
    if (!cache.read(start + 48 + std::uint64_t{i} * 24, entry)) return {};
    constexpr std::int32_t kElfLibc6 = 3, kType = 0xff;
    constexpr std::int32_t kX86_64 = 0x300, kAarch64 = 0xa00, kArchitecture = 0xff00;
#if defined(__aarch64__)
    constexpr std::int32_t kHere = kAarch64;
    (void)kX86_64;
#else
    constexpr std::int32_t kHere = kX86_64;
    (void)kAarch64;
#endif
    if ((entry.flags & kType) != kElfLibc6 || (entry.flags & kArchitecture) != kHere) continue;
    if (cache.string(start + entry.key) == name) return std::string(cache.string(start + entry.value));
  }
  return {};
}

std::string find_library(const std::string& name, const std::string& path, const ElfDependencies& object,
                         const std::string& library_path) {
  if (name.find('/') != std::string::npos) return name;
  const std::size_t slash = path.rfind('/');
  const std::string origin = slash == std::string::npos ? "." : path.substr(0, slash);
  std::string found;
  if (object.runpath.empty()) found = find_in_list(object.rpath, name, origin);
  if (found.empty()) found = find_in_list(library_path, name, origin);
  if (found.empty()) found = find_in_list(object.runpath, name, origin);
  if (found.empty()) found = find_in_loader_cache(name, "/etc/ld.so.cache");
  if (found.empty()) {
    // Debian's loader looks in the first two.
    constexpr const char* kDefaults =
        "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib";
    found = find_in_list(kDefaults, name, origin);
  }
  return found;
}

}  // namespace clusterprof::cli
