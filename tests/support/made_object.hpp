// SPDX-License-Identifier: BSD-3-Clause
// An object file as a compiler keeps it in memory for debuggers: relocatable, with the address to which its
// code was loaded.
#pragma once

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace clusterprof::test {

struct MadeFunction {
  std::string name;
  std::uint64_t offset, bytes;  // in the code
};

inline std::string made_object(std::uint64_t code_address, std::uint64_t code_bytes,
                               const std::vector<MadeFunction>& functions) {
  const auto append = [](std::string& to, const auto& value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::string names(1, '\0'), symbols;
  append(symbols, Elf64_Sym{});
  for (const MadeFunction& function : functions) {
    Elf64_Sym symbol{};
    if (!function.name.empty()) symbol.st_name = static_cast<Elf64_Word>(names.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = 1;
    symbol.st_value = function.offset;
    symbol.st_size = function.bytes;
    append(symbols, symbol);
    names += function.name + '\0';
  }
  const std::string section_names("\0.text\0.symtab\0.strtab\0.shstrtab\0", 33);
  std::array<Elf64_Shdr, 5> sections{};
  std::string object(sizeof(Elf64_Ehdr), '\0');
  const auto place = [&](Elf64_Shdr& section, Elf64_Word name, Elf64_Word type, const std::string& content) {
    object.resize((object.size() + 7) / 8 * 8);
    section.sh_name = name;
    section.sh_type = type;
    section.sh_offset = object.size();
    section.sh_size = content.size();
    section.sh_addralign = 8;
    object += content;
  };
  place(sections[1], 1, SHT_PROGBITS, std::string(code_bytes, '\x90'));
  sections[1].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
  sections[1].sh_addr = code_address;
  place(sections[2], 7, SHT_SYMTAB, symbols);
  sections[2].sh_link = 3;
  sections[2].sh_info = 1;
  sections[2].sh_entsize = sizeof(Elf64_Sym);
  place(sections[3], 15, SHT_STRTAB, names);
  place(sections[4], 23, SHT_STRTAB, section_names);
  object.resize((object.size() + 7) / 8 * 8);
  Elf64_Ehdr header{};
  const std::array<unsigned char, 7> ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
  std::copy(ident.begin(), ident.end(), header.e_ident);
  header.e_type = ET_REL;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_shoff = object.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = sections.size();
  header.e_shstrndx = 4;
  for (const Elf64_Shdr& section : sections) append(object, section);
  object.replace(0, sizeof header, reinterpret_cast<const char*>(&header), sizeof header);
  return object;
}

}  // namespace clusterprof::test
