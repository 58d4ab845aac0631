// SPDX-License-Identifier: BSD-3-Clause
// What the collector and the launcher read of object files: symbols, debugging information, call frame
// information, notes, dynamic sections; and names of symbols (inputs that are no object file). Changes are
// made within a section, or everything behind one would be out of place.
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/elf_facts.hpp"
#include "cli/elf_needed.hpp"
#include "collector/names/demangle.hpp"
#include "collector/names/demangle_cython.hpp"
#include "collector/names/demangle_rust.hpp"
#include "collector/names/generated_object.hpp"
#include "collector/names/symbolize.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size, std::size_t most,
                                               unsigned seed);
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* bytes, std::size_t size, std::size_t most);

namespace {

using namespace clusterprof;

constexpr std::uint64_t kMaxAddresses = 48;

bool is_object(const std::uint8_t* bytes, std::size_t size) {
  return size >= sizeof(Elf64_Ehdr) && std::memcmp(bytes, ELFMAG, SELFMAG) == 0;
}

template <typename T>
bool read_at(const std::uint8_t* bytes, std::size_t size, std::uint64_t at, T& to) {
  if (at > size || sizeof to > size - at) return false;
  std::memcpy(&to, bytes + at, sizeof to);
  return true;
}

// Of sections that have content in the file: where it lies.
struct Part {
  std::uint64_t at, bytes;
};
std::vector<Part> parts_of(const std::uint8_t* bytes, std::size_t size) {
  std::vector<Part> parts;
  Elf64_Ehdr header;
  if (!read_at(bytes, size, 0, header)) return parts;
  parts.push_back({16, sizeof header - 16});
  if (header.e_phoff < size)
    parts.push_back({header.e_phoff,
                     std::min<std::uint64_t>(header.e_phnum * sizeof(Elf64_Phdr), size - header.e_phoff)});
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    const std::uint64_t at = header.e_shoff + i * sizeof section;
    if (!read_at(bytes, size, at, section)) break;
    parts.push_back({at, sizeof section});
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL || section.sh_offset >= size) continue;
    // Code says nothing.
    if ((section.sh_flags & SHF_EXECINSTR) != 0) continue;
    parts.push_back({section.sh_offset, std::min<std::uint64_t>(section.sh_size, size - section.sh_offset)});
  }
  std::erase_if(parts, [](const Part& part) { return part.bytes == 0; });
  return parts;
}

void names(std::string_view name) {
  const auto has_symbol = [](std::string_view other) { return other.size() % 2 == 0; };
  (void)collector::readable_name(name);
  (void)collector::readable_name(name, {"heat", has_symbol});
  (void)collector::readable_generated_name(name);
  (void)collector::demangle_rust_v0(name);
  (void)collector::demangle_rust_legacy(name);
  (void)collector::demangle_cython(name, {"heat", has_symbol});
}

// Addresses of functions in the file as it was built, and some that belong to none.
std::vector<std::uint64_t> addresses_of(const std::uint8_t* bytes, std::size_t size) {
  std::vector<std::uint64_t> addresses = {0, 1, ~std::uint64_t{0}, 0x7fff'ffff'ffff};
  Elf64_Ehdr header;
  if (!read_at(bytes, size, 0, header)) return addresses;
  for (unsigned i = 0; i < std::min<unsigned>(header.e_phnum, 32); ++i) {
    Elf64_Phdr segment;
    if (!read_at(bytes, size, header.e_phoff + i * sizeof segment, segment)) break;
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const std::uint64_t step = std::max<std::uint64_t>(segment.p_memsz / kMaxAddresses, 1);
    for (std::uint64_t n = 0; n < kMaxAddresses; ++n) addresses.push_back(segment.p_vaddr + n * step);
    break;
  }
  return addresses;
}

// The object as a description of code that was made at run time.
void generated(std::span<const std::uint8_t> object) {
  const auto functions = collector::functions_of_object(object);
  const auto placed = collector::placed_object(object);
  if (!placed) return;
  if (placed->size() > 3 * object.size() + 1024) std::abort();
  collector::Symbolizer symbolizer;
  const auto module =
      symbolizer.add_object("[jit]", std::make_shared<const std::vector<std::uint8_t>>(*placed));
  for (std::size_t i = 0; i < std::min<std::size_t>(functions.size(), kMaxAddresses); ++i)
    if (symbolizer.resolve(module, functions[i].begin, false).empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (!is_object(bytes, size)) {
    names({reinterpret_cast<const char*>(bytes), size});
    return 0;
  }
  static const int file = memfd_create("object", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (file < 0 || ftruncate(file, 0) != 0 || pwrite(file, bytes, size, 0) != static_cast<ssize_t>(size))
    std::abort();
  collector::Symbolizer symbolizer;
  const auto module = symbolizer.add_module(path, {});
  for (const std::uint64_t address : addresses_of(bytes, size)) {
    const auto& frames = symbolizer.resolve(module, address, address % 2 == 0);
    if (frames.empty() || frames.back().inlined) std::abort();
  }
  generated({bytes, size});
  (void)cli::doctor::read_elf_facts(path);
  (void)cli::doctor::read_exported_number(path, "plugin_version");
  if (const auto needed = cli::read_elf_dependencies(path))
    for (const std::string& name : needed->needed) (void)cli::find_library(name, path, *needed, "");
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size, std::size_t most,
                                               unsigned seed) {
  const std::vector<Part> parts = is_object(bytes, size) ? parts_of(bytes, size) : std::vector<Part>();
  if (parts.empty()) return LLVMFuzzerMutate(bytes, size, most);
  for (unsigned changes = 1 + seed % 3; changes > 0; --changes) {
    seed = seed * 1'664'525 + 1'013'904'223;
    const Part& part = parts[(seed >> 8) % parts.size()];
    // A stretch of it: of long sections, too, something is to change more than once.
    constexpr std::uint64_t kStretch = 64;
    const std::uint64_t from = part.bytes <= kStretch ? 0 : seed % (part.bytes - kStretch);
    std::vector<std::uint8_t> stretch(bytes + part.at + from,
                                      bytes + part.at + std::min(part.bytes, from + kStretch));
    const std::size_t room = stretch.size();
    std::vector<std::uint8_t> changed = stretch;
    changed.resize(LLVMFuzzerMutate(changed.data(), room, room));
    std::copy(changed.begin(), changed.end(), bytes + part.at + from);
  }
  return size;
}
