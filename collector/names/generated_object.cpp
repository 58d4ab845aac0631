// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/generated_object.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace clusterprof::collector {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kUserSpaceEnd = std::uint64_t{1} << 47;
constexpr std::uint64_t kCommonPlace = std::uint64_t{1} << 16;  // not 0, which may mean that there is none

template <typename T>
bool read_at(Bytes bytes, std::uint64_t offset, T& to) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (offset > bytes.size() || sizeof to > bytes.size() - offset) return false;
  std::memcpy(&to, bytes.data() + offset, sizeof to);
  return true;
}

template <typename T>
void write_at(std::span<std::uint8_t> bytes, std::uint64_t offset, const T& value) {
  if (offset <= bytes.size() && sizeof value <= bytes.size() - offset)
    std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// The headers of an object, checked: the contents of sections are inside it, and not more than all of it.
struct Object {
  Bytes bytes;
  Elf64_Ehdr header;
  std::vector<Elf64_Shdr> sections;

  [[nodiscard]] Bytes content(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) return {};
    return bytes.subspan(section.sh_offset, section.sh_size);
  }
  // Of code that was loaded.
  [[nodiscard]] bool is_code(std::uint64_t index) const {
    constexpr std::uint64_t kCode = SHF_ALLOC | SHF_EXECINSTR;
    return index < sections.size() && (sections[index].sh_flags & kCode) == kCode &&
           sections[index].sh_addr != 0;
  }
  // What has to be added to the values of symbols of this section.
  [[nodiscard]] std::uint64_t base_of(std::uint64_t index) const {
    return header.e_type == ET_REL && index < sections.size() ? sections[index].sh_addr : 0;
  }
};

std::optional<Object> read_object(Bytes bytes) {
  Object object{bytes, {}, {}};
  Elf64_Ehdr& header = object.header;
  if (!read_at(bytes, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != EM_X86_64 || header.e_shentsize != sizeof(Elf64_Shdr))
    return std::nullopt;
  std::uint64_t content_bytes = 0;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    if (header.e_shoff > bytes.size() || !read_at(bytes, header.e_shoff + i * sizeof section, section))
      return std::nullopt;
    const bool has_content = section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL;
    if (has_content &&
        (section.sh_offset > bytes.size() || section.sh_size > bytes.size() - section.sh_offset))
      return std::nullopt;
    if (has_content) content_bytes += section.sh_size;
    if (content_bytes > bytes.size()) return std::nullopt;
    if (section.sh_addr >= kUserSpaceEnd || section.sh_size >= kUserSpaceEnd) return std::nullopt;
    object.sections.push_back(section);
  }
  return object;
}

// Calls visit(symbol) with the address in place of the value, for each named function with code.
template <typename Visit>
void for_each_function(const Object& object, Visit&& visit) {
  for (const Elf64_Shdr& section : object.sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const Bytes table = object.content(section);
    Elf64_Sym symbol;
    for (std::uint64_t at = 0; read_at(table, at, symbol); at += sizeof symbol) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name == 0 || symbol.st_size == 0) continue;
      if (!object.is_code(symbol.st_shndx)) continue;
      const Elf64_Shdr& code = object.sections[symbol.st_shndx];
      symbol.st_value += object.base_of(symbol.st_shndx);
      const std::uint64_t offset = symbol.st_value - code.sh_addr;
      if (offset <= code.sh_size && symbol.st_size <= code.sh_size - offset) visit(symbol);
    }
  }
}

// One that describes something: the rest was loaded, and is not read.
bool is_kept(const Elf64_Shdr& section) {
  if ((section.sh_flags & SHF_ALLOC) != 0) return false;
  return section.sh_type == SHT_PROGBITS || section.sh_type == SHT_STRTAB || section.sh_type == SHT_SYMTAB;
}

void align(std::vector<std::uint8_t>& bytes) {
  constexpr std::size_t kWord = 8;
  bytes.resize((bytes.size() + kWord - 1) / kWord * kWord);
}

// Gives the symbols of a relocatable object their addresses.
void place_symbols(const Object& object, std::span<std::uint8_t> table) {
  Elf64_Sym symbol;
  for (std::uint64_t at = 0; read_at(table, at, symbol); at += sizeof symbol) {
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= object.sections.size()) continue;
    symbol.st_value += object.base_of(symbol.st_shndx);
    write_at(table, at, symbol);
  }
}

// Fills in what the debugging information refers to: other sections of it, and code.
void fill_in(const Object& object, const Elf64_Shdr& relocations, Bytes symbols,
             std::span<std::uint8_t> section) {
  const Bytes table = object.content(relocations);
  Elf64_Rela relocation;
  for (std::uint64_t at = 0; read_at(table, at, relocation); at += sizeof relocation) {
    Elf64_Sym symbol;
    const std::uint64_t index = ELF64_R_SYM(relocation.r_info);
    if (!read_at(symbols, index * sizeof symbol, symbol)) continue;
    const std::uint64_t value = symbol.st_value + static_cast<std::uint64_t>(relocation.r_addend);
    switch (ELF64_R_TYPE(relocation.r_info)) {
      case R_X86_64_64:
        write_at(section, relocation.r_offset, value);
        break;
      case R_X86_64_32:
      case R_X86_64_32S:
        write_at(section, relocation.r_offset, static_cast<std::uint32_t>(value));
        break;
      default:
        break;
    }
  }
}

}  // namespace

std::vector<AddressRange> functions_of_object(Bytes bytes) {
  std::vector<AddressRange> ranges;
  const std::optional<Object> object = read_object(bytes);
  if (!object) return ranges;
  for_each_function(*object, [&](const Elf64_Sym& symbol) {
    ranges.push_back({symbol.st_value, symbol.st_value + symbol.st_size});
  });
  std::ranges::sort(ranges, {}, &AddressRange::begin);
  std::size_t joined = 0;
  for (const AddressRange& range : ranges) {
    if (joined != 0 && range.begin <= ranges[joined - 1].end) {
      ranges[joined - 1].end = std::max(ranges[joined - 1].end, range.end);
    } else {
      ranges[joined++] = range;
    }
  }
  ranges.resize(joined);
  return ranges;
}

std::uint64_t common_move(Bytes bytes) {
  const std::optional<Object> object = read_object(bytes);
  if (!object || object->header.e_type != ET_REL) return 0;
  std::uint64_t begin = kUserSpaceEnd;
  for (std::size_t i = 0; i < object->sections.size(); ++i)
    if (object->is_code(i)) begin = std::min(begin, object->sections[i].sh_addr);
  return begin == kUserSpaceEnd ? 0 : begin / kPageBytes * kPageBytes - kCommonPlace;
}

std::optional<std::vector<std::uint8_t>> placed_object(Bytes bytes, std::uint64_t moved_by) {
  std::optional<Object> object = read_object(bytes);
  if (!object) return std::nullopt;
  for (Elf64_Shdr& section : object->sections)
    if ((section.sh_flags & SHF_ALLOC) != 0 && section.sh_addr != 0) section.sh_addr -= moved_by;
  std::vector<Elf64_Shdr> sections = object->sections;
  std::vector<std::uint8_t> placed(sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr));
  for (std::size_t i = 0; i < sections.size(); ++i) {
    Elf64_Shdr& section = sections[i];
    if (is_kept(section)) {
      const Bytes content = object->content(section);
      align(placed);
      section.sh_offset = placed.size();
      placed.insert(placed.end(), content.begin(), content.end());
      continue;
    }
    if (object->is_code(i)) {
      section.sh_type = SHT_NOBITS;
    } else {
      section = {};
    }
    section.sh_offset = 0;
  }
  const auto content_of = [&](const Elf64_Shdr& section) {
    return std::span(placed).subspan(section.sh_offset, section.sh_size);
  };
  for (const Elf64_Shdr& section : sections)
    if (section.sh_type == SHT_SYMTAB) place_symbols(*object, content_of(section));
  for (const Elf64_Shdr& relocations : object->sections) {
    if (relocations.sh_type != SHT_RELA || relocations.sh_link >= sections.size() ||
        relocations.sh_info >= sections.size() || sections[relocations.sh_link].sh_type != SHT_SYMTAB)
      continue;
    const Elf64_Shdr& target = sections[relocations.sh_info];
    if (target.sh_type == SHT_PROGBITS && (target.sh_flags & SHF_COMPRESSED) == 0)
      fill_in(*object, relocations, content_of(sections[relocations.sh_link]), content_of(target));
  }
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_flags = PF_R | PF_X;
  segment.p_align = kPageBytes;
  std::uint64_t begin = kUserSpaceEnd, end = 0;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (!object->is_code(i)) continue;
    begin = std::min(begin, sections[i].sh_addr);
    end = std::max(end, sections[i].sh_addr + sections[i].sh_size);
  }
  if (begin >= end) return std::nullopt;
  segment.p_vaddr = segment.p_paddr = begin / kPageBytes * kPageBytes;
  segment.p_memsz = end - segment.p_vaddr;
  align(placed);
  Elf64_Ehdr header = object->header;
  header.e_type = ET_EXEC;
  header.e_entry = 0;
  header.e_ehsize = sizeof header;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof segment;
  header.e_phnum = 1;
  header.e_shoff = placed.size();
  write_at(placed, 0, header);
  write_at(placed, sizeof header, segment);
  const auto* const rows = reinterpret_cast<const std::uint8_t*>(sections.data());
  placed.insert(placed.end(), rows, rows + sections.size() * sizeof(Elf64_Shdr));
  return placed;
}

}  // namespace clusterprof::collector
