// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/symbolize.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "collector/names/line_tables.hpp"

namespace clusterprof::collector {
namespace {

std::map<std::string, std::uint64_t> g_recorded;

// Return addresses inside the sample library, as ELF addresses.
std::map<std::string, std::uint64_t> run_sample(const std::string& path, std::uint64_t* entry = nullptr) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  if (library == nullptr) return {};
  g_recorded.clear();
  using Record = void (*)(const char*, void*);
  void* const sample = dlsym(library, "symbolize_sample");
  reinterpret_cast<void (*)(Record)>(sample)(
      [](const char* what, void* pc) { g_recorded[what] = reinterpret_cast<std::uint64_t>(pc); });
  link_map* map = nullptr;
  EXPECT_EQ(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
  for (auto& [what, pc] : g_recorded) pc -= map->l_addr;
  if (entry != nullptr) *entry = reinterpret_cast<std::uint64_t>(sample) - map->l_addr;
  dlclose(library);
  return g_recorded;
}

class SampleTest : public ::testing::TestWithParam<const char*> {};

// Compiled by gcc, by clang (no .debug_aranges), with the debug information in a file of its own.
TEST_P(SampleTest, NamesFunctionsLinesAndInlinedCalls) {
  const std::string path = GetParam();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " was not built: no clang on this machine";
  const auto recorded = run_sample(path);
  ASSERT_EQ(recorded.size(), 3u);
  Symbolizer symbolizer;
  const auto module = symbolizer.add_module(path, {});

  const auto& inlined = symbolizer.resolve(module, recorded.at("inlined"), true);
  ASSERT_EQ(inlined.size(), 3u);
  // Parameters are known only to compilers that give local functions a linkage name.
  EXPECT_TRUE(inlined[0].function.starts_with("sample::(anonymous namespace)::innermost"))
      << inlined[0].function;
  EXPECT_EQ(inlined[0].line, 15u);
  EXPECT_TRUE(inlined[0].inlined);
  EXPECT_NE(inlined[1].function.find("middle<double>"), std::string::npos) << inlined[1].function;
  EXPECT_EQ(inlined[1].line, 21u);
  EXPECT_TRUE(inlined[1].inlined);
  EXPECT_TRUE(inlined[2].function.starts_with("sample::(anonymous namespace)::Counter::outer"))
      << inlined[2].function;
  EXPECT_EQ(inlined[2].line, 28u);
  EXPECT_EQ(inlined[2].function_line, 26u);
  EXPECT_FALSE(inlined[2].inlined);
  for (const SourceFrame& frame : inlined) {
    EXPECT_EQ(frame.file, SAMPLE_SOURCE);
    EXPECT_TRUE(frame.has_symbol);
  }

  const auto& local = symbolizer.resolve(module, recorded.at("local"), true);
  ASSERT_EQ(local.size(), 1u);
  EXPECT_TRUE(local[0].function.starts_with("sample::(anonymous namespace)::local_function"));
  EXPECT_EQ(local[0].line, 35u);
  EXPECT_EQ(local[0].function_line, 34u);

  const auto& exported = symbolizer.resolve(module, recorded.at("exported"), true);
  ASSERT_EQ(exported.size(), 1u);
  EXPECT_EQ(exported[0].function, "symbolize_sample");
  EXPECT_EQ(exported[0].line, 50u);
  EXPECT_TRUE(symbolizer.notes().empty());
}

INSTANTIATE_TEST_SUITE_P(Builds, SampleTest, ::testing::Values(SAMPLE_GCC, SAMPLE_CLANG, SAMPLE_DEBUGLINK));

TEST(SymbolizeTest, NamesOnlySymbolsThatCoverTheAddress) {
  std::uint64_t entry = 0;
  const auto recorded = run_sample(SAMPLE_STRIPPED, &entry);
  ASSERT_EQ(recorded.size(), 3u);
  Symbolizer symbolizer;
  const auto module = symbolizer.add_module(SAMPLE_STRIPPED, {});
  const auto& exported = symbolizer.resolve(module, recorded.at("exported"), true);
  ASSERT_EQ(exported.size(), 1u);
  EXPECT_EQ(exported[0].function, "symbolize_sample");
  EXPECT_TRUE(exported[0].has_symbol);
  EXPECT_EQ(exported[0].line, 0u);
  EXPECT_EQ(exported[0].file, "");

  // A local function of a stripped file: the module and where the function starts, whatever the address in
  // it.
  const auto& local = symbolizer.resolve(module, recorded.at("local"), true);
  ASSERT_EQ(local.size(), 1u);
  EXPECT_FALSE(local[0].has_symbol);
  const std::string base = std::filesystem::path(SAMPLE_STRIPPED).filename().string();
  ASSERT_TRUE(local[0].function.starts_with(base + "+0x")) << local[0].function;
  const std::uint64_t start = std::stoull(local[0].function.substr(base.size() + 1), nullptr, 16);
  EXPECT_LT(start, recorded.at("local"));
  EXPECT_GT(start + 200, recorded.at("local"));
  EXPECT_EQ(symbolizer.resolve(module, start, false)[0].function, local[0].function);
  EXPECT_EQ(symbolizer.resolve(module, entry, false)[0].function, "symbolize_sample");
  // Nothing is there.
  EXPECT_EQ(symbolizer.resolve(module, 0x7f'ffff, false)[0].function, base + "+0x7fffff");
}

TEST(SymbolizeTest, WithoutLinesItNamesBySymbolsUntilAskedForMore) {
  const auto recorded = run_sample(SAMPLE_GCC);
  Symbolizer symbolizer;
  const auto module = symbolizer.add_module(SAMPLE_GCC, {});
  using Detail = Symbolizer::Detail;
  const auto by_symbol = symbolizer.resolve(module, recorded.at("inlined"), true, Detail::kSymbols);
  ASSERT_EQ(by_symbol.size(), 1u);
  EXPECT_TRUE(by_symbol[0].has_symbol);
  EXPECT_FALSE(by_symbol[0].inlined);
  EXPECT_EQ(by_symbol[0].line, 0u);
  EXPECT_EQ(by_symbol[0].file, "");
  EXPECT_EQ(symbolizer.time_on_lines().count(), 0);
  const auto with_lines = symbolizer.resolve(module, recorded.at("inlined"), true);
  EXPECT_GT(with_lines.size(), 1u);
  for (const std::string& name : {by_symbol[0].function, with_lines.back().function})
    EXPECT_TRUE(name.starts_with("sample::(anonymous namespace)::Counter::outer")) << name;
  EXPECT_NE(with_lines.back().line, 0u);
  EXPECT_GT(symbolizer.time_on_lines().count(), 0);
  // Lines that are known already are returned even if only symbols are asked for.
  EXPECT_EQ(symbolizer.resolve(module, recorded.at("inlined"), true, Detail::kSymbols).size(),
            with_lines.size());
}

TEST(SymbolizeTest, NamesTheCLibraryBySymbols) {
  link_map* map = nullptr;
  void* const self = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(self, nullptr);
  ASSERT_EQ(dlinfo(self, RTLD_DI_LINKMAP, &map), 0);
  Symbolizer symbolizer;
  const auto module = symbolizer.add_module(map->l_name, {});
  const auto address = reinterpret_cast<std::uint64_t>(dlsym(self, "qsort")) - map->l_addr;
  const auto& frames = symbolizer.resolve(module, address, false);
  dlclose(self);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_TRUE(frames[0].has_symbol);
  EXPECT_EQ(frames[0].function, "qsort");
  EXPECT_EQ(frames[0].line, 0u);
}

TEST(SymbolizeTest, NamesVariablesThatCoverTheAddress) {
  link_map* map = nullptr;
  void* const self = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(self, nullptr);
  ASSERT_EQ(dlinfo(self, RTLD_DI_LINKMAP, &map), 0);
  Symbolizer symbolizer;
  const auto module = symbolizer.add_module(map->l_name, {});
  const auto stream = reinterpret_cast<std::uint64_t>(dlsym(self, "_IO_2_1_stdout_")) - map->l_addr;
  const auto function = reinterpret_cast<std::uint64_t>(dlsym(self, "qsort")) - map->l_addr;
  dlclose(self);
  EXPECT_EQ(symbolizer.variable(module, stream), "_IO_2_1_stdout_");
  EXPECT_EQ(symbolizer.variable(module, stream + 16), "_IO_2_1_stdout_+0x10");
  EXPECT_EQ(symbolizer.variable(module, function), "");
  EXPECT_EQ(symbolizer.variable(symbolizer.add_module("/nonexistent", {}), stream), "");
}

TEST(SymbolizeTest, LoadsNoClientOfDebuginfod) {
  const auto recorded = run_sample(SAMPLE_STRIPPED);
  Symbolizer symbolizer;
  const auto module = symbolizer.add_module(SAMPLE_STRIPPED, {});
  symbolizer.resolve(module, recorded.at("exported"), true);
  EXPECT_EQ(dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(SymbolizeTest, RemembersAnswers) {
  const auto recorded = run_sample(SAMPLE_GCC);
  Symbolizer symbolizer;
  const auto module = symbolizer.add_module(SAMPLE_GCC, {});
  EXPECT_EQ(symbolizer.add_module(SAMPLE_GCC, {}), module);
  const auto* const first = &symbolizer.resolve(module, recorded.at("local"), true);
  for (std::uint64_t address = 0; address < 5000; ++address) symbolizer.resolve(module, address, false);
  EXPECT_EQ(&symbolizer.resolve(module, recorded.at("local") - 1, false), first);
  EXPECT_NE(symbolizer.resolve(module, recorded.at("local"), false)[0].line, 0u);
}

TEST(SymbolizeTest, RefusesOtherFiles) {
  const auto recorded = run_sample(SAMPLE_GCC);
  Symbolizer symbolizer;
  const std::vector<std::uint8_t> other(20, 0xab);
  const auto module = symbolizer.add_module(SAMPLE_GCC, other);
  const auto& frames = symbolizer.resolve(module, recorded.at("local"), true);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_FALSE(frames[0].has_symbol);
  EXPECT_EQ(frames[0].function, fmt::format("{}+{:#x}", std::filesystem::path(SAMPLE_GCC).filename().string(),
                                            recorded.at("local") - 1));
  std::string build_id;
  for (std::size_t i = 0; i < other.size(); ++i) build_id += "ab";
  EXPECT_EQ(symbolizer.notes(),
            std::vector{note_of_run(shard::NoteCode::kFileChanged, 0, SAMPLE_GCC, build_id)});
  symbolizer.resolve(module, recorded.at("exported"), true);
  EXPECT_EQ(symbolizer.notes().size(), 1u);  // said once
}

TEST(SymbolizeTest, SaysWhichFilesItCannotRead) {
  Symbolizer symbolizer;
  const auto missing = symbolizer.add_module("/nowhere/libmissing.so", {});
  EXPECT_EQ(symbolizer.resolve(missing, 0x1234, false)[0].function, "libmissing.so+0x1234");
  const std::string text_file = ::testing::TempDir() + "not_elf.so";
  std::ofstream(text_file) << "hello";
  const auto damaged = symbolizer.add_module(text_file, {});
  EXPECT_EQ(symbolizer.resolve(damaged, 0x10, true)[0].function, "not_elf.so+0xf");
  ASSERT_EQ(symbolizer.notes().size(), 2u);
  EXPECT_EQ(symbolizer.notes()[0],
            note_of_run(shard::NoteCode::kFileNotOpened, ENOENT, "/nowhere/libmissing.so"));
  EXPECT_EQ(symbolizer.notes()[1].code, shard::NoteCode::kFileNotReadable);
  EXPECT_EQ(symbolizer.notes()[1].text, text_file);
  EXPECT_NE(symbolizer.notes()[1].detail, "");
  std::filesystem::remove(text_file);
}

TEST(SymbolizeTest, DoesNotWaitForAPipeInPlaceOfAFile) {
  const std::string path = ::testing::TempDir() + "symbolize-pipe-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  Symbolizer symbolizer;
  const auto module = symbolizer.add_module(path, {});
  EXPECT_FALSE(symbolizer.resolve(module, 0x1234, false).at(0).has_symbol);
  std::filesystem::remove(path);
  EXPECT_EQ(symbolizer.notes(), std::vector{note_of_run(shard::NoteCode::kFileNotRegular, 0, path)});
}

// 100 000 nested blocks, for which recursion would overflow the stack.
TEST(SymbolizeTest, SurvivesHostileNesting) {
  const std::string stem = ::testing::TempDir() + "symbolize-deep-" + std::to_string(getpid());
  std::ofstream(stem + ".s") << R"(
        .text
        .globl deep
        .type deep, @function
deep:   ret
.Lend:  .size deep, .Lend - deep
        .section .debug_abbrev, "", @progbits
        .byte 1, 0x11, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0  # unit: name, low_pc, high_pc
        .byte 2, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0  # function
        .byte 3, 0x0b, 1, 0, 0                                      # block
        .byte 0
        .section .debug_info, "", @progbits
        .long .Linfo_end - .Linfo
.Linfo: .short 4
        .long 0
        .byte 8, 1
        .asciz "deep.s"
        .quad deep
        .long .Lend - deep
        .byte 2
        .asciz "named_by_dwarf"
        .quad deep
        .long .Lend - deep
        .fill 100000, 1, 3
        .fill 100002, 1, 0
.Linfo_end:
        .section .note.GNU-stack, "", @progbits
)";
  const std::string library = stem + ".so";
  if (std::system(fmt::format("cc -shared -o {0}.so {0}.s", stem).c_str()) != 0)
    GTEST_SKIP() << "no assembler on this machine";
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  link_map* map = nullptr;
  ASSERT_EQ(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
  const std::uint64_t address = reinterpret_cast<std::uint64_t>(dlsym(handle, "deep")) - map->l_addr;
  dlclose(handle);
  Symbolizer symbolizer;
  EXPECT_EQ(symbolizer.resolve(symbolizer.add_module(library, {}), address, false).at(0).function,
            "named_by_dwarf");
  for (const char* const suffix : {".s", ".so"}) std::filesystem::remove(stem + suffix);
}

TEST(SymbolizeTest, KnowsTheVdso) {
  void* const vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (vdso == nullptr) GTEST_SKIP() << "this kernel gives no vdso";
  const auto function = reinterpret_cast<std::uint64_t>(dlsym(vdso, "__vdso_clock_gettime"));
  ASSERT_NE(function, 0u);
  Symbolizer symbolizer;
  const auto module = symbolizer.add_module("[vdso]", {});
  const auto& frames = symbolizer.resolve(module, function - getauxval(AT_SYSINFO_EHDR), false);
  EXPECT_NE(frames[0].function.find("clock_gettime"), std::string::npos) << frames[0].function;
  EXPECT_TRUE(symbolizer.notes().empty()) << name_of(symbolizer.notes()[0].code);
}

TEST(SymbolizeTest, NamesFortranAsTheSourceDoes) {
  if (!std::filesystem::exists(SAMPLE_FORTRAN)) GTEST_SKIP() << "no Fortran compiler on this machine";
  void* const library = dlopen(SAMPLE_FORTRAN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  void* const inside = dlsym(library, "__kernels_MOD_relax");
  ASSERT_NE(inside, nullptr);
  link_map* map = nullptr;
  ASSERT_EQ(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
  Symbolizer symbolizer;
  const auto module = symbolizer.add_module(SAMPLE_FORTRAN, {});
  const auto& frames =
      symbolizer.resolve(module, reinterpret_cast<std::uint64_t>(inside) - map->l_addr, false);
  EXPECT_EQ(frames.back().function, "kernels::relax");
  EXPECT_EQ(frames.back().function_line, 5u);
  dlclose(library);
}

// Addresses come in their thousands, also of files with much debug information (this program's own).
TEST(SymbolizeTest, CostsLittlePerAddress) {
  const std::string path = std::filesystem::read_symlink("/proc/self/exe");
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&python_line), &info), 0);
  const std::uint64_t from =
      reinterpret_cast<std::uint64_t>(&python_line) - reinterpret_cast<std::uint64_t>(info.dli_fbase);
  const auto cpu_s = [] {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  Symbolizer symbolizer;
  const auto module = symbolizer.add_module(path, {});
  const double start = cpu_s();
  std::size_t frames = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) frames += symbolizer.resolve(module, from + 7 * i, false).size();
  const double first = cpu_s() - start;
  EXPECT_GT(frames, 3000u);
  EXPECT_LT(first, 2.0);  // a unit read anew for each address takes minutes
  const double again = cpu_s();
  for (std::uint64_t i = 0; i < 2000; ++i) frames += symbolizer.resolve(module, from + 7 * i, false).size();
  EXPECT_LT(cpu_s() - again, first / 4 + 0.001);
}

// --- against addr2line -----------------------------------------------------------------------

struct Answer {
  std::vector<std::string> functions;
  std::vector<std::uint32_t> lines;
  friend bool operator==(const Answer&, const Answer&) = default;
};

// The bare name of a function: the two demanglers write parameters and local scopes differently.
std::string plain(std::string name) {
  static constexpr std::string_view kAnonymous = "(anonymous namespace)";
  for (std::size_t at = 0; (at = name.find(kAnonymous)) != std::string::npos;)
    name.replace(at, kAnonymous.size(), "anonymous");
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth != 0) continue;
    if (name[i] == '(') return name.substr(begin, i - begin);
    if (name.compare(i, 2, "::") == 0) begin = i + 2;
    if (name[i] == ' ') begin = i + 1;  // after a template's return type
  }
  return name.substr(begin);
}

TEST(SymbolizeTest, AgreesWithAddr2line) {
  if (std::system("addr2line --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no addr2line on this machine";
  const std::string path = std::filesystem::read_symlink("/proc/self/exe");
  Dl_info info{};
  // Code of this program around a function with much inlined into it.
  const auto function = reinterpret_cast<void*>(&python_line);
  ASSERT_NE(dladdr(function, &info), 0);
  const std::uint64_t from =
      reinterpret_cast<std::uint64_t>(function) - reinterpret_cast<std::uint64_t>(info.dli_fbase);
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t address = from - 6000; address < from + 6000; address += 7) addresses.push_back(address);
  const std::string list = ::testing::TempDir() + "symbolize-addresses-" + std::to_string(getpid());
  {
    std::ofstream out(list);
    for (const std::uint64_t address : addresses) out << fmt::format("{:#x}\n", address);
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen(fmt::format("addr2line -a -f -i -C -e {} < {}", path, list).c_str(), "r"), pclose);
  ASSERT_NE(pipe, nullptr);
  std::map<std::uint64_t, Answer> expected;
  std::array<char, 1 << 16> buffer{};
  Answer* answer = nullptr;
  while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe.get()) != nullptr) {
    std::string text(buffer.data());
    text.pop_back();
    if (text.starts_with("0x")) {
      answer = &expected[std::stoull(text, nullptr, 16)];
      continue;
    }
    ASSERT_NE(answer, nullptr);
    if (answer->functions.size() == answer->lines.size()) {
      answer->functions.push_back(plain(text));
    } else {
      const std::string line = text.substr(text.rfind(':') + 1);
      answer->lines.push_back(line.starts_with("?") ? 0 : static_cast<std::uint32_t>(std::stoul(line)));
    }
  }
  std::filesystem::remove(list);
  Symbolizer symbolizer;
  const auto module = symbolizer.add_module(path, {});
  std::size_t compared = 0;
  std::size_t inlined = 0;
  std::size_t between = 0;
  std::vector<std::string> differences;
  for (const std::uint64_t address : addresses) {
    const Answer& wanted = expected.at(address);
    // Without a line its answer is the nearest symbol, which we do not give.
    if (wanted.functions.empty() || wanted.lines[0] == 0) continue;
    // Between functions, where no code runs, its answer is the function before.
    if (!symbolizer.resolve(module, address, false).back().has_symbol) {
      ++between;
      continue;
    }
    Answer got;
    for (const SourceFrame& frame : symbolizer.resolve(module, address, false)) {
      got.functions.push_back(plain(frame.function));
      got.lines.push_back(frame.line);
    }
    ++compared;
    if (got.functions.size() > 1) {
      ++inlined;
      // addr2line calls an inlined local function by the symbol around it.
      if (got.functions.size() == wanted.functions.size()) got.functions[0] = wanted.functions[0];
    }
    if (got != wanted)
      differences.push_back(fmt::format("{:#x}: {} {}; addr2line: {} {}", address,
                                        fmt::join(got.functions, " < "), fmt::join(got.lines, " "),
                                        fmt::join(wanted.functions, " < "), fmt::join(wanted.lines, " ")));
  }
  EXPECT_GT(compared, 500u);
  EXPECT_GT(inlined, 100u);
  EXPECT_LT(between, 20u);
  EXPECT_EQ(differences.size(), 0u) << fmt::format("{}", fmt::join(differences, "\n"));
  std::filesystem::remove(list);
}

}  // namespace
}  // namespace clusterprof::collector
