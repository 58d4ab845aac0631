// SPDX-License-Identifier: BSD-3-Clause
// The ObjectFile answers for one file, from its symbol table and its debug information; the Symbolizer has
// one for each module. Called by the ShardBuilder, on the thread that writes a shard.
#include "collector/names/symbolize.hpp"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/unique_fd.hpp"
#include "collector/names/debug_files.hpp"
#include "collector/names/demangle.hpp"
#include "collector/names/dwarf_functions.hpp"
#include "collector/names/freer.hpp"

namespace clusterprof::collector {
namespace {

using shard::NoteCode;

constexpr std::string_view kVdso = "[vdso]";

struct DwflCloser {
  void operator()(Dwfl* dwfl) const noexcept { dwfl_end(dwfl); }
};
using DwflHandle = std::unique_ptr<Dwfl, DwflCloser>;

std::string hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string normal_path(const char* name, const char* directory) {
  std::filesystem::path path(name);
  if (path.is_relative() && directory != nullptr) path = std::filesystem::path(directory) / path;
  return path.lexically_normal().string();
}

std::chrono::nanoseconds own_cpu_time() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// --- symbols -------------------------------------------------------------------------------

struct Symbol {
  std::uint64_t begin, end;
  const char* name;
  unsigned rank;  // smaller is better among names for one range
};

unsigned rank_of(const GElf_Sym& symbol, const char* name) {
  const unsigned binding = GELF_ST_BIND(symbol.st_info);
  unsigned rank = binding == STB_GLOBAL ? 0 : binding == STB_WEAK ? 1000 : 2000;
  while (*name++ == '_') ++rank;
  return rank;
}

// --- functions of an object file -----------------------------------------------------------

// The functions of one compilation unit with code, sorted by address.
struct Unit {
  Dwarf_Die die;  // has the line table: with -gsplit-dwarf the skeleton
  std::vector<FunctionRange> functions;
  ScopeNames scopes;
};

struct UnitRange {
  std::uint64_t begin, end;
  Dwarf_Off unit;
};

// Finds the range that contains `address`. The ranges are sorted by begin and do not overlap.
template <typename Range>
Range* find_range(std::vector<Range>& ranges, std::uint64_t address) {
  const auto after = std::ranges::upper_bound(ranges, address, {}, &Range::begin);
  if (after == ranges.begin() || address >= std::prev(after)->end) return nullptr;
  return &*std::prev(after);
}

// --- one object file -----------------------------------------------------------------------

class ObjectFile {
 public:
  ObjectFile(std::string path, std::vector<std::uint8_t> build_id, std::vector<shard::Note>& notes)
      : path_(std::move(path)), build_id_(std::move(build_id)), notes_(notes) {
    const std::string file = std::filesystem::path(path_).filename().string();
    if (file.find(".so") != std::string::npos) module_name_ = file.substr(0, file.find('.'));
    has_lines_ = !is_c_library(file);
  }
  // Of code that was made at run time.
  ObjectFile(std::string name, std::shared_ptr<const std::vector<std::uint8_t>> object,
             std::vector<shard::Note>& notes)
      : path_(std::move(name)), object_(std::move(object)), notes_(notes) {}

  [[nodiscard]] bool is_generated() const noexcept { return object_ != nullptr; }
  [[nodiscard]] bool is_open() const noexcept { return dwfl_ != nullptr; }
  // Keeps the answers. It is opened again for others.
  void release() {
    names_.clear();
    inlined_.clear();
    unit_ranges_.clear();
    symbol_names_.reset();
    function_starts_.reset();
    units_listed_ = dwarf_opened_ = opened_ = false;
    close();
  }

  // Adds the CPU time that debug information takes to `time_on_lines`.
  const std::vector<SourceFrame>& resolve(std::uint64_t address, Symbolizer::Detail detail,
                                          std::chrono::nanoseconds& time_on_lines) {
    const auto found = frames_.find(address);
    if (found != frames_.end()) return found->second;
    open_once();
    if (detail == Symbolizer::Detail::kSymbols && has_lines_) {
      by_symbol_.assign(1, from_symbols(address));
      return by_symbol_;
    }
    const std::chrono::nanoseconds begin = own_cpu_time();
    const auto& answer = frames_.emplace(address, look_up(address)).first->second;
    time_on_lines += own_cpu_time() - begin;
    return answer;
  }

  std::string variable(std::uint64_t address) {
    open_once();
    if (!variables_) {
      variables_.emplace();
      read_symbols(*variables_, [](unsigned type) { return type == STT_OBJECT; });
    }
    const Symbol* const symbol = find_symbol(*variables_, address);
    if (symbol == nullptr) return {};
    const std::uint64_t offset = address - symbol->begin;
    return offset == 0 ? readable(symbol->name) : fmt::format("{}+{:#x}", readable(symbol->name), offset);
  }

 private:
  void open_once() {
    if (std::exchange(opened_, true)) return;
    if (std::optional<shard::Note> problem = open()) {
      notes_.push_back(std::move(*problem));
      close();
    }
  }

  // Returns the problem, or nothing if there is none.
  std::optional<shard::Note> open() {
    static char* debug_path = nullptr;  // elfutils' default: beside the file, .debug, /usr/lib/debug
    static const Dwfl_Callbacks kCallbacks = [] {
      Dwfl_Callbacks callbacks{};
      callbacks.find_elf = dwfl_build_id_find_elf;
      callbacks.find_debuginfo = find_debug_file;
      callbacks.section_address = dwfl_offline_section_address;
      callbacks.debuginfo_path = &debug_path;
      return callbacks;
    }();

    UniqueFd file;
    if (is_generated()) {
      file = memory_file(path_.c_str(), object_->data(), object_->size());
      if (!file)
        return shard::note_of_run(NoteCode::kFileNotOpened, static_cast<std::uint64_t>(errno), path_);
    } else if (path_ == kVdso) {
      file = vdso_file();
      if (!file) return shard::note_of_run(NoteCode::kVdsoNotReadable, static_cast<std::uint64_t>(errno));
    } else {
      // The file may have been replaced since it was mapped, even by a pipe: do not block on it.
      file.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
      struct stat status {};
      if (!file || ::fstat(file.get(), &status) != 0)
        return shard::note_of_run(NoteCode::kFileNotOpened, static_cast<std::uint64_t>(errno), path_);
      if (!S_ISREG(status.st_mode)) return shard::note_of_run(NoteCode::kFileNotRegular, 0, path_);
    }
    dwfl_.reset(dwfl_begin(&kCallbacks));
    if (!dwfl_) return not_readable();
    dwfl_report_begin(dwfl_.get());
    module_ = dwfl_report_elf(dwfl_.get(), path_.c_str(), path_.c_str(), file.get(), 0, true);
    if (module_ == nullptr) return not_readable();
    static_cast<void>(file.release());  // libdwfl closes it
    dwfl_report_end(dwfl_.get(), nullptr, nullptr);

    GElf_Addr bias = 0;
    Elf* const elf = dwfl_module_getelf(module_, &bias);
    if (elf == nullptr) return not_readable();
    elf_bias_ = bias;
    const void* found_id = nullptr;
    const ssize_t found_bytes = dwelf_elf_gnu_build_id(elf, &found_id);
    if (!build_id_.empty()) {
      const std::span<const std::uint8_t> found(static_cast<const std::uint8_t*>(found_id),
                                                found_bytes > 0 ? static_cast<std::size_t>(found_bytes) : 0);
      if (!std::ranges::equal(found, build_id_))
        return shard::note_of_run(NoteCode::kFileChanged, 0, path_, hex(build_id_));
    }
    read_symbols(symbols_, [](unsigned type) {
      return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
    });
    return std::nullopt;
  }

  [[nodiscard]] shard::Note not_readable() const {
    const char* const message = dwfl_errmsg(-1);
    return shard::note_of_run(NoteCode::kFileNotReadable, 0, path_, message != nullptr ? message : "");
  }

  // Inflates compressed sections, all of them.
  void open_dwarf() {
    if (std::exchange(dwarf_opened_, true) || module_ == nullptr || !has_lines_) return;
    Dwarf_Addr bias = 0;
    dwarf_ = dwfl_module_getdwarf(module_, &bias);
    dwarf_bias_ = bias;
  }

  void close() {
    module_ = nullptr;
    dwarf_ = nullptr;
    symbols_.clear();
    variables_.reset();
    units_.clear();
    dwfl_.reset();
  }

  template <typename Wanted>
  void read_symbols(std::vector<Symbol>& symbols, const Wanted& wanted) const {
    if (module_ == nullptr) return;
    const int count = dwfl_module_getsymtab(module_);
    for (int i = 0; i < count; ++i) {
      GElf_Sym symbol;
      GElf_Addr value = 0;
      GElf_Word section = 0;
      const char* const name =
          dwfl_module_getsym_info(module_, i, &symbol, &value, &section, nullptr, nullptr);
      const unsigned type = GELF_ST_TYPE(symbol.st_info);
      if (name == nullptr || *name == '\0' || symbol.st_size == 0 || section == SHN_UNDEF) continue;
      if (!wanted(type)) continue;
      const std::uint64_t begin = value - elf_bias_;
      symbols.push_back({begin, begin + symbol.st_size, name, rank_of(symbol, name)});
    }
    // Among symbols with the same address, the best name comes last, because the search begins there.
    std::ranges::sort(symbols, [](const Symbol& left, const Symbol& right) {
      if (left.begin != right.begin) return left.begin < right.begin;
      if (left.end != right.end) return left.end > right.end;
      if (left.rank != right.rank) return left.rank > right.rank;
      const std::size_t left_bytes = std::strlen(left.name);
      const std::size_t right_bytes = std::strlen(right.name);
      if (left_bytes != right_bytes) return left_bytes > right_bytes;
      return std::strcmp(left.name, right.name) > 0;
    });
  }

  static const Symbol* find_symbol(const std::vector<Symbol>& symbols, std::uint64_t address) {
    auto at = std::ranges::upper_bound(symbols, address, {}, &Symbol::begin);
    // Symbols may overlap. Limit the search for one that began far below.
    for (unsigned tries = 0; at != symbols.begin() && tries < 64; ++tries) {
      --at;
      if (address < at->end) return &*at;
    }
    return nullptr;
  }

  Unit* find_unit(std::uint64_t address) {
    Dwarf_Die die;
    if (dwarf_addrdie(dwarf_, address, &die) == nullptr) {
      // There is no .debug_aranges for it (clang writes none), so ask the units themselves, once.
      if (!units_listed_) list_units();
      const UnitRange* const found = find_range(unit_ranges_, address);
      if (found == nullptr || dwarf_offdie(dwarf_, found->unit, &die) == nullptr) return nullptr;
    }
    return &unit_of(die);
  }

  Unit& unit_of(Dwarf_Die& die) {
    const auto [found, fresh] = units_.try_emplace(die.addr);
    Unit& unit = found->second;
    if (fresh) {
      unit.die = die;
      std::uint8_t kind = 0;
      Dwarf_Die split{};
      if (dwarf_cu_info(die.cu, nullptr, &kind, nullptr, &split, nullptr, nullptr, nullptr) != 0) kind = 0;
      Dwarf_Die* functions = &unit.die;
      if (kind == DW_UT_skeleton) {
        if (split.addr != nullptr) {
          functions = &split;
        } else {
          note_missing_split(die);
        }
      }
      collect_functions(*functions, "", unit.functions, unit.scopes);
      std::ranges::sort(unit.functions, {}, &FunctionRange::begin);
    }
    return unit;
  }

  void note_missing_split(Dwarf_Die& unit) {
    if (std::exchange(split_missing_, true)) return;
    Dwarf_Attribute attribute;
    const char* name = nullptr;
    for (const unsigned where : {DW_AT_dwo_name, DW_AT_GNU_dwo_name})
      if (name == nullptr && dwarf_attr(&unit, where, &attribute) != nullptr)
        name = dwarf_formstring(&attribute);
    notes_.push_back(
        shard::note_of_run(NoteCode::kSplitDebugMissing, 0, path_,
                           name != nullptr ? normal_path(name, directory_of(unit)) : std::string()));
  }

  void list_units() {
    units_listed_ = true;
    Dwarf_CU* unit = nullptr;
    Dwarf_Die die;
    while (dwarf_get_units(dwarf_, unit, &unit, nullptr, nullptr, &die, nullptr) == 0)
      for_each_range(die, [&](std::uint64_t begin, std::uint64_t end) {
        unit_ranges_.push_back({begin, end, dwarf_dieoffset(&die)});
      });
    std::ranges::sort(unit_ranges_, {}, &UnitRange::begin);
  }

  static std::string call_file(const Unit& unit, std::uint32_t index) {
    Dwarf_Files* files = nullptr;
    std::size_t count = 0;
    Dwarf_Die die = unit.die;
    if (dwarf_getsrcfiles(&die, &files, &count) != 0 || index >= count) return "";
    const char* const name = dwarf_filesrc(files, index, nullptr, nullptr);
    return name != nullptr ? normal_path(name, directory_of(die)) : "";
  }

  static const char* directory_of(Dwarf_Die& unit) {
    Dwarf_Attribute attribute;
    return dwarf_formstring(dwarf_attr(&unit, DW_AT_comp_dir, &attribute));
  }

  // Read once for each function: hundreds of addresses come from few functions.
  InlinedCalls& inlined_into(Dwarf_Die& function) {
    const auto [found, fresh] = inlined_.try_emplace(function.addr);
    if (fresh) {
      collect_inlined(function, found->second);
      std::ranges::sort(found->second, {}, &FunctionRange::begin);
    }
    return found->second;
  }

  std::string function_name(Dwarf_Die& die) {
    const auto [found, fresh] = names_.try_emplace(die.addr);
    if (fresh) found->second = name_in_dwarf(die);
    return found->second;
  }

  std::string name_in_dwarf(Dwarf_Die& die) {
    if (const char* const linkage = full_linkage_name(die, dwarf_attr_integrate)) return readable(linkage);
    const char* const text = dwarf_diename(&die);
    if (text == nullptr) return "";
    // Made by the compiler for an OpenMP region, with the linkage name it would have.
    if (std::strchr(text, '.') != nullptr) return readable(text);
    Dwarf_Die declared = declaration_of(die);
    Dwarf_Die unit;
    if (dwarf_diecu(&declared, &unit, nullptr, nullptr) == nullptr) return readable(text);
    // Under link-time optimisation, and after dwz, the unit may differ from that of the code.
    const ScopeNames& scopes = unit_of(unit).scopes;
    const auto scope = scopes.find(declared.addr);
    return scope != scopes.end() ? scope->second + text : readable(text);
  }

  std::string readable(std::string_view name) {
    const NameContext context = {module_name_, [this](std::string_view other) {
                                   if (!symbol_names_) {
                                     symbol_names_.emplace();
                                     for (const Symbol& symbol : symbols_) symbol_names_->insert(symbol.name);
                                   }
                                   return symbol_names_->contains(other);
                                 }};
    return is_generated() ? readable_generated_name(name, context)
                          : readable_name(without_symbol_version(name), context);
  }

  // Empty if DWARF has nothing about the address.
  std::vector<SourceFrame> from_dwarf(std::uint64_t address) {
    std::vector<SourceFrame> frames;
    open_dwarf();
    if (dwarf_ == nullptr) return frames;
    const std::uint64_t in_dwarf = address + elf_bias_ - dwarf_bias_;
    Unit* const unit = find_unit(in_dwarf);
    if (unit == nullptr) return frames;

    std::string file;
    std::uint32_t line = 0;
    if (Dwarf_Line* const row = dwarf_getsrc_die(&unit->die, in_dwarf)) {
      int number = 0;
      if (const char* const name = dwarf_linesrc(row, nullptr, nullptr))
        file = normal_path(name, directory_of(unit->die));
      if (dwarf_lineno(row, &number) == 0 && number > 0) line = static_cast<std::uint32_t>(number);
    }

    const FunctionRange* const function = find_range(unit->functions, in_dwarf);
    if (function == nullptr) {
      if (line == 0) return frames;
      // Assembler: lines, but no functions.
      SourceFrame frame = from_symbols(address);
      frame.file = std::move(file);
      frame.line = line;
      frames.push_back(std::move(frame));
      return frames;
    }
    std::vector<Dwarf_Die> scopes{function->die};
    while (scopes.size() < kMaxNesting) {
      const FunctionRange* const inlined = find_range(inlined_into(scopes.back()), in_dwarf);
      if (inlined == nullptr) break;
      scopes.push_back(inlined->die);
    }
    for (std::size_t i = scopes.size(); i-- > 0;) {
      Dwarf_Die& die = scopes[i];
      SourceFrame frame;
      frame.function = function_name(die);
      frame.has_symbol = !frame.function.empty();
      if (!frame.has_symbol) {
        SourceFrame by_symbol = from_symbols(address);
        frame.function = std::move(by_symbol.function);
        frame.has_symbol = by_symbol.has_symbol;
      }
      frame.file = std::move(file);
      frame.line = line;
      int declared = 0;
      if (dwarf_decl_line(&die, &declared) == 0 && declared > 0)
        frame.function_line = static_cast<std::uint32_t>(declared);
      frame.inlined = i > 0;
      if (i > 0) {
        line = unsigned_attribute(die, DW_AT_call_line);
        file = call_file(*unit, unsigned_attribute(die, DW_AT_call_file));
      }
      frames.push_back(std::move(frame));
    }
    return frames;
  }

  // A symbol that covers the address, else module+0x....
  SourceFrame from_symbols(std::uint64_t address) {
    SourceFrame frame;
    if (const Symbol* const symbol = find_symbol(symbols_, address)) {
      frame.function = readable(symbol->name);
      frame.has_symbol = true;
      return frame;
    }
    if (is_generated()) {  // the address is another one in every process
      frame.function = "[unknown]";
      return frame;
    }
    const std::string base = path_ == kVdso ? path_ : std::filesystem::path(path_).filename().string();
    frame.function = fmt::format("{}+{:#x}", base, function_start(address).value_or(address));
    return frame;
  }

  std::optional<std::uint64_t> function_start(std::uint64_t address) {
    if (module_ == nullptr) return std::nullopt;
    Dwarf_Addr bias = 0;
    Dwarf_CFI* const cfi = dwfl_module_eh_cfi(module_, &bias);
    Dwarf_Frame* row = nullptr;
    if (cfi == nullptr || dwarf_cfi_addrframe(cfi, address + elf_bias_ - bias, &row) != 0)
      return std::nullopt;
    const std::unique_ptr<Dwarf_Frame, Freer> owner(row);  // an FDE covers the address
    if (!function_starts_) function_starts_ = read_function_starts();
    const auto after = std::ranges::upper_bound(*function_starts_, address);
    if (after == function_starts_->begin()) return std::nullopt;
    return *std::prev(after);
  }

  // The first column of .eh_frame_hdr's sorted table: version, three encodings, .eh_frame's place, number of
  // rows, then pairs of 32-bit distances from the header itself. Other encodings are not in use.
  std::vector<std::uint64_t> read_function_starts() {
    std::vector<std::uint64_t> starts;
    GElf_Addr bias = 0;
    Elf* const elf = dwfl_module_getelf(module_, &bias);
    std::size_t segments = 0;
    if (elf == nullptr || elf_getphdrnum(elf, &segments) != 0) return starts;
    for (std::size_t i = 0; i < segments; ++i) {
      GElf_Phdr segment;
      if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr || segment.p_type != PT_GNU_EH_FRAME)
        continue;
      const Elf_Data* const data = elf_getdata_rawchunk(elf, static_cast<std::int64_t>(segment.p_offset),
                                                        segment.p_filesz, ELF_T_BYTE);
      if (data == nullptr || data->d_size < 12) return starts;
      const auto* const bytes = static_cast<const std::uint8_t*>(data->d_buf);
      if (bytes[0] != 1 || bytes[1] != 0x1b || bytes[2] != 0x03 || bytes[3] != 0x3b) return starts;
      std::uint32_t count = 0;
      std::memcpy(&count, bytes + 8, sizeof(count));
      if (count > (data->d_size - 12) / 8) return starts;
      starts.reserve(count);
      for (std::uint32_t row = 0; row < count; ++row) {
        std::int32_t distance = 0;
        std::memcpy(&distance, bytes + 12 + 8 * std::size_t{row}, sizeof(distance));
        starts.push_back(segment.p_vaddr + static_cast<std::uint64_t>(static_cast<std::int64_t>(distance)));
      }
    }
    return starts;
  }

  std::vector<SourceFrame> look_up(std::uint64_t address) {
    std::vector<SourceFrame> frames = from_dwarf(address);
    if (frames.empty()) frames.push_back(from_symbols(address));
    return frames;
  }

  std::string path_;
  std::vector<std::uint8_t> build_id_;
  std::shared_ptr<const std::vector<std::uint8_t>> object_;  // of generated code
  bool opened_ = false;
  DwflHandle dwfl_;
  Dwfl_Module* module_ = nullptr;
  bool has_lines_ = true, dwarf_opened_ = false;
  Dwarf* dwarf_ = nullptr;
  std::uint64_t elf_bias_ = 0;  // libdwfl address = ELF address + this
  std::uint64_t dwarf_bias_ = 0;
  std::vector<Symbol> symbols_;                   // of functions
  std::optional<std::vector<Symbol>> variables_;  // when one has been asked for
  bool units_listed_ = false;
  std::vector<UnitRange> unit_ranges_;
  std::unordered_map<DieKey, Unit> units_;
  std::unordered_map<DieKey, InlinedCalls> inlined_;
  std::unordered_map<DieKey, std::string> names_;
  std::string module_name_;  // of a Python extension, as import knows it
  std::optional<std::unordered_set<std::string_view>> symbol_names_;
  bool split_missing_ = false;
  std::vector<shard::Note>& notes_;
  std::optional<std::vector<std::uint64_t>> function_starts_;
  std::unordered_map<std::uint64_t, std::vector<SourceFrame>> frames_;
  std::vector<SourceFrame> by_symbol_;  // the last answer without lines
};

}  // namespace

struct Symbolizer::Impl {
  std::chrono::nanoseconds time_on_lines{};
  std::vector<shard::Note> notes;  // outlives the modules, which add to it
  std::vector<std::unique_ptr<ObjectFile>> modules;
  std::deque<ObjectFile*> open_objects;                   // of generated code, the first opened first
  std::unordered_map<std::string, ModuleHandle> handles;  // by path, a zero byte, build-id
};

Symbolizer::Symbolizer() : impl_(std::make_unique<Impl>()) {
  // libdwfl would ask this server for files that it does not find here.
  ::unsetenv("DEBUGINFOD_URLS");
}

Symbolizer::~Symbolizer() = default;

Symbolizer::ModuleHandle Symbolizer::add_module(std::string_view path,
                                                std::span<const std::uint8_t> build_id) {
  std::string key(path);
  key.push_back('\0');
  key.append(build_id.begin(), build_id.end());
  const auto [found, fresh] =
      impl_->handles.try_emplace(std::move(key), static_cast<ModuleHandle>(impl_->modules.size()));
  if (fresh)
    impl_->modules.push_back(std::make_unique<ObjectFile>(
        std::string(path), std::vector<std::uint8_t>(build_id.begin(), build_id.end()), impl_->notes));
  return found->second;
}

Symbolizer::ModuleHandle Symbolizer::add_object(std::string_view name,
                                                std::shared_ptr<const std::vector<std::uint8_t>> object) {
  impl_->modules.push_back(std::make_unique<ObjectFile>(std::string(name), std::move(object), impl_->notes));
  return static_cast<ModuleHandle>(impl_->modules.size() - 1);
}

const std::vector<SourceFrame>& Symbolizer::resolve(ModuleHandle module, std::uint64_t elf_address,
                                                    bool is_return_address, Detail detail) {
  constexpr std::size_t kMostOpen = 32;
  ObjectFile& file = *impl_->modules.at(module);
  const bool was_open = file.is_open();
  const auto& frames =
      file.resolve(is_return_address ? elf_address - 1 : elf_address, detail, impl_->time_on_lines);
  if (!file.is_generated() || was_open || !file.is_open()) return frames;
  impl_->open_objects.push_back(&file);
  if (impl_->open_objects.size() > kMostOpen) {
    impl_->open_objects.front()->release();
    impl_->open_objects.pop_front();
  }
  return frames;
}

std::string Symbolizer::variable(ModuleHandle module, std::uint64_t elf_address) {
  ObjectFile& file = *impl_->modules.at(module);
  return file.is_generated() ? std::string() : file.variable(elf_address);
}

std::chrono::nanoseconds Symbolizer::time_on_lines() const noexcept { return impl_->time_on_lines; }

const std::vector<shard::Note>& Symbolizer::notes() const noexcept { return impl_->notes; }

}  // namespace clusterprof::collector
