// SPDX-License-Identifier: BSD-3-Clause
// fuzz_input_seeds TEXTS SEEDS OBJECT...: what fuzzers of all but HDF5 files begin with. TEXTS has a folder
// of inputs for each target that reads text; objects are for fuzz_symbols.
#include <elf.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

class Seed {
 public:
  Seed& byte(unsigned value) { return number(static_cast<std::uint8_t>(value)); }
  template <typename T>
  Seed& number(T value) {
    const auto* const from = reinterpret_cast<const std::uint8_t*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof value);
    return *this;
  }
  Seed& bytes(std::span<const std::uint8_t> more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    return *this;
  }
  Seed& bytes(std::initializer_list<std::uint8_t> more) {
    bytes_.insert(bytes_.end(), more);
    return *this;
  }
  Seed& zeros(std::size_t count) {
    bytes_.insert(bytes_.end(), count, 0);
    return *this;
  }
  void write(const fs::path& path) const {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

// --- fuzz_unwind: see the layout there -----------------------------------------------------------

constexpr std::size_t kParameterBytes = 160;

// What, and a machine.
Seed unwinding(unsigned what) {
  Seed seed;
  return seed.byte(what).zeros(64).number(std::uint32_t{0x1ffff}).zeros(17);
}

// The vdso's, which every process has: .eh_frame_hdr, .eh_frame behind it, and code.
void write_unwinding(const fs::path& seeds) {
  const auto* const vdso = reinterpret_cast<const std::uint8_t*>(getauxval(AT_SYSINFO_EHDR));
  if (vdso == nullptr) return;
  Elf64_Ehdr header;
  std::memcpy(&header, vdso, sizeof header);
  constexpr std::size_t kMaxBytes = 2048;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, vdso + header.e_phoff + i * sizeof segment, sizeof segment);
    const std::uint8_t* const content = vdso + segment.p_offset;
    if (segment.p_type == PT_GNU_EH_FRAME) {
      const std::span<const std::uint8_t> sections(content, kMaxBytes);
      for (const unsigned row : {0u, 1u, 3u}) {
        for (const unsigned at_the_beginning : {0u, 0x80u}) {
          Seed seed = unwinding(at_the_beginning);
          seed.number(static_cast<std::uint16_t>(segment.p_filesz))
              .number(static_cast<std::uint16_t>(row))
              .number(std::uint16_t{5});
          seed.zeros(kParameterBytes - 6).bytes(sections);
          seed.write(seeds / "unwind" /
                     ("sections-" + std::to_string(row) + "-" + std::to_string(at_the_beginning)));
        }
      }
    }
  }
  // This function is as good as any.
  const std::span<const std::uint8_t> code(reinterpret_cast<const std::uint8_t*>(&write_unwinding), 256);
  unwinding(3).zeros(kParameterBytes).bytes(code).write(seeds / "unwind" / "code");
  unwinding(4).zeros(kParameterBytes).bytes(code).write(seeds / "unwind" / "data");
}

void write_programs(const fs::path& seeds) {
  const auto program = [&](const char* name, std::initializer_list<std::uint8_t> initial,
                           std::initializer_list<std::uint8_t> body, std::int64_t data_align = -8) {
    Seed seed = unwinding(1);
    seed.number(std::uint64_t{1}).number(data_align).byte(0x1b).byte(static_cast<unsigned>(initial.size()));
    seed.number(std::uint16_t{40}).zeros(kParameterBytes - 20);
    seed.bytes(initial).bytes(body).write(seeds / "unwind" / name);
  };
  // def_cfa rsp 8; offset ra. Then pushes, remember and restore, registers, expressions, every other
  // operation.
  program("push", {0x0c, 7, 8, 0x90, 1},
          {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x0a, 0x44, 0x0c, 7, 8, 0x0b});
  program("expression", {0x0c, 7, 8, 0x90, 1},
          {0x0f, 11,   0x77, 8, 0x80, 0,    0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24,
           0x22, 0x10, 3,    2, 0x76, 0x78, 0x16, 6,    3,    0x23, 8,    0x06});
  program("others", {0x12, 7, 0x7f, 0x11, 16, 1},
          {0x05, 3,    2,  0x06, 3, 0x07, 12,   0x08, 13,   0x09, 3, 6,    0x13, 0x7e, 0x14, 6, 2,    0x15, 6,
           0x7f, 0x2e, 16, 0x2f, 3, 1,    0x02, 2,    0x03, 1,    0, 0x04, 1,    0,    0,    0, 0xc3, 0x00});
  // Products that no number holds.
  program("wrap", {0x90, 0xee, 1},
          {0x11, 16,   0xee, 0x81, 0x7f, 0x12, 7,    0xee, 1,    0x13, 0x92, 0x7e, 0x14, 6,    0xee,
           1,    0x15, 6,    0x92, 0x7e, 0x05, 3,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
           0xff, 1,    0x2f, 3,    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1},
          std::int64_t{1} << 56);
  const auto expression = [&](const char* name, std::initializer_list<std::uint8_t> content) {
    unwinding(2)
        .byte(1)
        .number(std::uint64_t{64})
        .zeros(kParameterBytes - 9)
        .bytes(content)
        .write(seeds / "unwind" / name);
  };
  expression("plt", {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22});
  expression("loop", {0x31, 0x1c, 0x12, 0x28, 0xfa, 0xff, 0x13, 0x30});
  expression("load", {0x77, 0,    0x06, 0x0a, 1,    2,    0x0c, 1,    2,    3,    4,    0x15, 0, 0x16, 0x17,
                      0x14, 0x94, 4,    0x1b, 0x1d, 0x1e, 0x1f, 0x19, 0x20, 0x26, 0x2f, 0,    0, 0x96});
}

// --- fuzz_segment: see act() there ---------------------------------------------------------------

void write_segments(const fs::path& seeds) {
  const fs::path to = seeds / "segment";
  Seed().byte(0).write(to / "good");
  Seed()
      .byte(1)
      .byte(7)
      .number(std::uint16_t{100})
      .byte(14)
      .byte(13)
      .number(std::uint64_t{5000})
      .write(to / "polls");
  for (std::uint8_t part = 0; part < 25; ++part) {
    // A number somewhere in each table, before and after the collector has seen it.
    Seed before, after, between;
    before.byte(part)
        .byte(0)
        .byte(part)
        .number(std::uint16_t{8})
        .byte(7)
        .zeros(4)
        .bytes({0xff, 0xff, 0xff, 0x7f});
    before.byte(7).number(std::uint16_t{50}).write(to / ("before-" + std::to_string(part)));
    after.byte(part).byte(7).number(std::uint16_t{50}).byte(0).byte(part).number(std::uint16_t{0}).byte(3);
    after.bytes({0xff, 0xff, 0xff, 0xff})
        .byte(8)
        .number(std::uint16_t{500})
        .write(to / ("after-" + std::to_string(part)));
    between.byte(part).byte(9).byte(part).number(std::uint16_t{8}).byte(3).byte(1).number(~std::uint64_t{0});
    between.byte(7).number(std::uint16_t{50}).write(to / ("between-" + std::to_string(part)));
  }
  // A sample of two frames and one counter, after others; one of its parts only; a pause.
  for (unsigned trigger = 0; trigger < 6; ++trigger) {
    Seed sample;
    sample.byte(2).byte(7).number(std::uint16_t{10}).byte(4).byte(trigger % 2).byte(0).byte(11).zeros(8);
    sample.number(std::uint64_t{1'260'000'000}).number(std::uint64_t{240'000'000}).number(std::uint32_t{1});
    sample.number(std::int32_t{7}).number(std::uint16_t{0}).number(std::uint16_t{2}).byte(1).byte(trigger);
    sample.number(std::uint16_t{0}).number(std::uint32_t{1}).number(std::uint32_t{900}).zeros(24);
    sample.number(std::uint64_t{77}).number(std::uint64_t{0x10100}).number(std::uint64_t{0x10200});
    sample.byte(8).number(std::uint16_t{20}).write(to / ("sample-" + std::to_string(trigger)));
  }
  Seed event;
  event.byte(0)
      .byte(6)
      .byte(0)
      .byte(0)
      .number(std::uint64_t{230'000'000})
      .number(std::uint64_t{1000})
      .zeros(16);
  event.number(std::uint64_t{1}).number(std::uint64_t{64}).number(std::uint32_t{0}).number(std::uint32_t{30});
  event.number(std::int32_t{1}).number(std::int32_t{5}).number(std::uint16_t{16}).byte(0).byte(0).zeros(4);
  event.byte(7).number(std::uint16_t{20}).write(to / "event");
  Seed ranks;
  ranks.byte(1).byte(11).byte(0).number(std::int32_t{3}).number(std::int32_t{8}).byte(11).byte(1);
  ranks.number(std::int32_t{4})
      .number(std::int32_t{8})
      .byte(12)
      .number(std::int32_t{8})
      .number(std::int32_t{4});
  ranks.byte(7).number(std::uint16_t{5}).byte(15).byte(0).byte(15).byte(1).byte(14).write(to / "ranks");
}

// --- fuzz_tables: line tables --------------------------------------------------------------------

void write_line_tables(const fs::path& seeds) {
  const auto table = [&](const char* name, unsigned minor, std::initializer_list<std::uint8_t> content) {
    Seed()
        .byte('0')
        .byte(minor - 7)
        .number(std::uint32_t{10})
        .number(std::uint32_t{3})
        .bytes(content)
        .write(seeds / "tables" / name);
  };
  table("lnotab", 8, {4, 1, 8, 2, 255, 0, 10, 0xff, 0, 0x7f});
  table("linetable-3.10", 10, {4, 0, 8, 1, 10, 0x80, 2, 0xff, 254, 0x7f});
  table("locations", 12, {0x80, 0x01, 0x02, 0xd9, 0x12, 0x0c, 0xf0, 0x03, 0x01, 0x02,
                          0x03, 0xe8, 0x41, 0x01, 0xf8, 0xdb, 0x00, 0x05, 0x89, 0x11});
}

void put_copy(const fs::path& from, const fs::path& to) {
  fs::create_directories(to.parent_path());
  fs::copy_file(from, to, fs::copy_options::overwrite_existing);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const fs::path texts = argv[1], seeds = argv[2];
  for (const auto& entry : fs::recursive_directory_iterator(texts))
    if (entry.is_regular_file()) put_copy(entry.path(), seeds / fs::relative(entry.path(), texts));
  for (int i = 3; i < argc; ++i) put_copy(argv[i], seeds / "symbols" / ("object-" + std::to_string(i - 3)));
  write_unwinding(seeds);
  write_programs(seeds);
  write_segments(seeds);
  write_line_tables(seeds);
}
