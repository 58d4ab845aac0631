// SPDX-License-Identifier: BSD-3-Clause
#include "cli/doctor/elf_facts.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr std::uint64_t kMaxSections = 4096;
constexpr std::uint64_t kMaxTableBytes = 16u << 20;

class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status {};
    if (!file_ || ::fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode) || !read(0, header_)) return;
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 || header_.e_ident[EI_CLASS] != ELFCLASS64 ||
        header_.e_ident[EI_DATA] != ELFDATA2LSB)
      return;
    is_elf_ = true;
    if (header_.e_shentsize != sizeof(Elf64_Shdr) || header_.e_shnum > kMaxSections) return;
    sections_.resize(header_.e_shnum);
    if (!read_into(header_.e_shoff, sections_.data(), sections_.size() * sizeof(Elf64_Shdr)))
      sections_.clear();
    if (header_.e_shstrndx < sections_.size()) names_ = contents(sections_[header_.e_shstrndx]);
  }

  [[nodiscard]] bool is_elf() const { return is_elf_; }
  [[nodiscard]] int machine() const { return header_.e_machine; }
  [[nodiscard]] const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  [[nodiscard]] bool is_called(const Elf64_Shdr& section, std::string_view name) const {
    return is_at(names_, section.sh_name, name);
  }

  [[nodiscard]] std::string contents(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS || section.sh_size > kMaxTableBytes) return {};
    std::string bytes(section.sh_size, '\0');
    return read_into(section.sh_offset, bytes.data(), bytes.size()) ? bytes : std::string();
  }
  // Whether `text` is at this position. Reads no more than its length.
  static bool is_at(const std::string& table, std::uint64_t at, std::string_view text) {
    return at < table.size() && table.size() - at > text.size() &&
           table.compare(at, text.size(), text) == 0 && table[at + text.size()] == '\0';
  }
  [[nodiscard]] bool read_into(std::uint64_t offset, void* to, std::size_t bytes) const {
    return ::pread(file_.get(), to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }
  template <typename T>
  [[nodiscard]] bool read(std::uint64_t offset, T& to) const {
    return read_into(offset, &to, sizeof to);
  }

 private:
  UniqueFd file_;
  bool is_elf_ = false;
  Elf64_Ehdr header_ = {};
  std::vector<Elf64_Shdr> sections_;
  std::string names_;
};

std::string build_id_of(const std::string& note) {
  Elf64_Nhdr header;
  if (note.size() < sizeof header) return {};
  std::memcpy(&header, note.data(), sizeof header);
  const std::size_t at = sizeof header + (header.n_namesz + 3) / 4 * 4;
  if (header.n_type != NT_GNU_BUILD_ID || at > note.size() || header.n_descsz > note.size() - at) return {};
  std::string digits;
  for (std::size_t i = 0; i < header.n_descsz; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(note[at + i]);
    digits += kDigits[byte >> 4];
    digits += kDigits[byte & 15];
  }
  return digits;
}

}  // namespace

std::optional<ElfFacts> read_elf_facts(const std::string& path) {
  const ElfFile file(path);
  if (!file.is_elf()) return {};
  ElfFacts facts;
  facts.machine = file.machine();
  for (const Elf64_Shdr& section : file.sections()) {
    if (section.sh_type == SHT_SYMTAB) facts.has_symbols = true;
    if (file.is_called(section, ".debug_line") || file.is_called(section, ".zdebug_line"))
      facts.has_lines = true;
    if (facts.build_id.empty() && file.is_called(section, ".note.gnu.build-id"))
      facts.build_id = build_id_of(file.contents(section));
  }
  return facts;
}

std::optional<std::uint32_t> read_exported_number(const std::string& path, const std::string& symbol) {
  const ElfFile file(path);
  const std::vector<Elf64_Shdr>& sections = file.sections();
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const std::string symbols = file.contents(section), names = file.contents(sections[section.sh_link]);
    for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size(); at += sizeof(Elf64_Sym)) {
      Elf64_Sym entry;
      std::memcpy(&entry, symbols.data() + at, sizeof entry);
      if (!ElfFile::is_at(names, entry.st_name, symbol) || entry.st_shndx >= sections.size()) continue;
      const Elf64_Shdr& home = sections[entry.st_shndx];
      std::uint32_t number = 0;
      if (home.sh_type == SHT_NOBITS || entry.st_value < home.sh_addr ||
          !file.read(home.sh_offset + (entry.st_value - home.sh_addr), number))
        return {};
      return number;
    }
  }
  return {};
}

}  // namespace clusterprof::cli::doctor
