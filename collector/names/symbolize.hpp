// SPDX-License-Identifier: BSD-3-Clause
// From an address in an object file to functions and source lines (elfutils).
//
// What a frame is called, best first:
//   1. DWARF, in the file itself or in a separate debug file found by build-id or debuglink below
//      /usr/lib/debug, with its .dwo and dwz files: function, file, line, and the functions inlined there.
//      Never from the network.
//   2. .symtab or .dynsym, only when the address lies inside [value, value + size) of a symbol with a
//      size: the nearest symbol of a stripped file is usually the wrong one.
//   3. "module+0x12ab": base name of the object file and the ELF address where the function starts (its
//      FDE), or the address itself when no call frame information covers it.
//
// Not thread-safe: one thread uses a Symbolizer. Never throws on bad files: they are case 3, and say why
// in notes().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/shard/note.hpp"

namespace clusterprof::collector {

struct SourceFrame {
  std::string function;             // as in the source (collector/names/demangle.hpp)
  std::string file;                 // as the compiler knew it (absolute when it said so); empty: unknown
  std::uint32_t line = 0;           // executing, or calling the frame before this one; 0: unknown
  std::uint32_t function_line = 0;  // where the function is declared; 0: unknown
  bool inlined = false;             // the compiler put this function into the next one of the list
  bool has_symbol = false;          // false: `function` is "module+0x12ab"
};

class Symbolizer {
 public:
  // Opened by add_module and cheap to copy; only valid with the Symbolizer that made it.
  using ModuleHandle = std::uint32_t;

  Symbolizer();
  ~Symbolizer();
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  // Names an object file. `path` as in wire::ModuleEntry ("[vdso]" for the vdso), `build_id` its bytes
  // (empty when it has none). The same (path, build_id) gives the same handle. The file is opened when
  // the first address is resolved; one whose build-id differs from `build_id` is not used.
  ModuleHandle add_module(std::string_view path, std::span<const std::uint8_t> build_id);

  // Names an object file that is in memory (placed_object()), and is in no other. `name` as in add_module.
  // Few of these are open at a time, since each takes a descriptor and there may be thousands.
  ModuleHandle add_object(std::string_view name, std::shared_ptr<const std::vector<std::uint8_t>> object);

  // The functions at an ELF address (runtime pc - load_bias), innermost first; never empty, and
  // exactly the last one is not `inlined`. With is_return_address the instruction before
  // `elf_address` is meant. Answers are cached by address; the reference is valid until the
  // Symbolizer dies.
  //
  // Reading debug information can take a second for one object file. Asked with Detail::kSymbols for an
  // address that it has not looked up so far, it only looks into the symbol table, and the answer holds until
  // the next one.
  enum class Detail : std::uint8_t { kSymbols, kLines };
  const std::vector<SourceFrame>& resolve(ModuleHandle module, std::uint64_t elf_address,
                                          bool is_return_address, Detail detail = Detail::kLines);

  // The variable that has the ELF address: "queue_lock", "Queue::instance+0x28". Empty: the symbol table has
  // none there.
  std::string variable(ModuleHandle module, std::uint64_t elf_address);

  // CPU time spent on reading debug information so far.
  [[nodiscard]] std::chrono::nanoseconds time_on_lines() const noexcept;

  // Why object files could not be read (for shard::Run::notes). Grows with resolve().
  [[nodiscard]] const std::vector<shard::Note>& notes() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clusterprof::collector
