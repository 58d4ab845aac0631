// SPDX-License-Identifier: BSD-3-Clause
#include "cli/mpi_flavour.hpp"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "cli/elf_needed.hpp"
#include "fake_environment.hpp"

namespace clusterprof::cli {
namespace {

TEST(MpiFlavour, OfLibraryNames) {
  EXPECT_EQ(flavour_of_library("libmpi.so.40"), MpiFlavour::kOpenMpi);
  EXPECT_EQ(flavour_of_library("libmpi_mpifh.so.40"), MpiFlavour::kOpenMpi);
  EXPECT_EQ(flavour_of_library("/opt/lib/libmpi.so.12"), MpiFlavour::kMpich);
  EXPECT_EQ(flavour_of_library("libmpich.so.12"), MpiFlavour::kMpich);
  EXPECT_EQ(flavour_of_library("libmpichfort.so.12"), MpiFlavour::kMpich);
  EXPECT_EQ(flavour_of_library("libmpi_abi.so.0"), MpiFlavour::kStandard);
  EXPECT_EQ(flavour_of_library("/opt/lib/libmpi_abi.so.1"), MpiFlavour::kStandard);
  EXPECT_EQ(flavour_of_library("libpmpi_abi.so.0"), MpiFlavour::kStandard);
  EXPECT_EQ(flavour_of_library("libm.so.6"), MpiFlavour::kNone);
}

TEST(MpiFlavour, OfLaunchers) {
  EXPECT_EQ(flavour_of_launcher(fake_environment({{"OMPI_COMM_WORLD_SIZE", "2"}})), MpiFlavour::kOpenMpi);
  EXPECT_EQ(flavour_of_launcher(fake_environment({{"PMI_RANK", "0"}})), MpiFlavour::kMpich);
  EXPECT_EQ(flavour_of_launcher(fake_environment({{"PMIX_RANK", "0"}})), MpiFlavour::kOpenMpi);
  EXPECT_EQ(flavour_of_launcher(fake_environment({})), MpiFlavour::kNone);
}

TEST(MpiFlavour, IsThatOfTheProgramFirst) {
  using Chosen = std::vector<MpiFlavour>;
  ProgramFacts program;
  program.is_elf = true;
  const auto by_openmpi = fake_environment({{"OMPI_COMM_WORLD_SIZE", "2"}});
  for (const MpiFlavour linked : {MpiFlavour::kMpich, MpiFlavour::kStandard}) {
    program.linked = linked;
    EXPECT_EQ(choose_flavours(program, false, by_openmpi, true, true, true), Chosen{linked});
  }
  program.linked = MpiFlavour::kNone;
  EXPECT_EQ(choose_flavours(program, false, by_openmpi, true, true, false), Chosen{MpiFlavour::kOpenMpi});
  const auto by_nobody = fake_environment({});
  EXPECT_EQ(choose_flavours(program, false, by_nobody, true, true, true), Chosen{});
  EXPECT_EQ(choose_flavours(program, true, by_nobody, true, true, false), Chosen{MpiFlavour::kOpenMpi});
  EXPECT_EQ(choose_flavours(program, true, by_nobody, false, true, false), Chosen{MpiFlavour::kMpich});
  EXPECT_EQ(choose_flavours(program, true, by_nobody, false, false, false), Chosen{});
}

// An mpi4py that was built for the standard's interface loads libmpi_abi under any launcher.
TEST(MpiFlavour, OfTheStandardComesSecondWhereAnyMpiMayBeLoaded) {
  using Chosen = std::vector<MpiFlavour>;
  ProgramFacts program;
  program.is_elf = true;
  const auto by_mpich = fake_environment({{"PMI_RANK", "0"}}), by_nobody = fake_environment({});
  EXPECT_EQ(choose_flavours(program, true, by_mpich, true, true, true),
            (Chosen{MpiFlavour::kMpich, MpiFlavour::kStandard}));
  EXPECT_EQ(choose_flavours(program, false, by_mpich, true, true, true),
            (Chosen{MpiFlavour::kMpich, MpiFlavour::kStandard}));
  EXPECT_EQ(choose_flavours(program, true, by_nobody, true, true, true),
            (Chosen{MpiFlavour::kOpenMpi, MpiFlavour::kStandard}));
  EXPECT_EQ(choose_flavours(program, true, by_nobody, false, false, true), Chosen{MpiFlavour::kStandard});
}

TEST(ElfDependencies, OfThisTest) {
  const auto object = read_elf_dependencies("/proc/self/exe");
  ASSERT_TRUE(object);
  bool has_libc = false;
  for (const std::string& name : object->needed) has_libc |= name == "libc.so.6";
  EXPECT_TRUE(has_libc);
  EXPECT_EQ(object->interpreter, "/lib64/ld-linux-x86-64.so.2");
  const std::string libc = find_library("libc.so.6", "/proc/self/exe", *object, "");
  EXPECT_TRUE(read_elf_dependencies(libc)) << libc;
}

TEST(ElfDependencies, FollowsOriginAndTheLibraryPath) {
  char directory[] = "/tmp/clusterprof-elf-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/libx.so";
  std::ofstream(path) << "x";
  ElfDependencies object;
  EXPECT_EQ(find_library("libx.so", "/bin/true", object, "/nowhere:" + std::string(directory)), path);
  object.runpath = "/nowhere:$ORIGIN";
  EXPECT_EQ(find_library("libx.so", std::string(directory) + "/program", object, ""), path);
  EXPECT_EQ(find_library("libnone.so", "/bin/true", object, ""), "");
  std::remove(path.c_str());
  ::rmdir(directory);
}

TEST(ElfDependencies, OfDamagedFilesAreSafe) {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(self)), {});
  bytes.resize(std::min<std::size_t>(bytes.size(), 200000));
  char path[] = "/tmp/clusterprof-elf-XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  ::close(fd);
  unsigned random = 1;
  for (int round = 0; round < 300; ++round) {
    std::string damaged = bytes;
    for (int change = 0; change < 8; ++change) {
      random = random * 1103515245u + 12345u;
      damaged[(random >> 8) % 1024] = static_cast<char>(random >> 24);
    }
    if (round % 3 == 0) damaged.resize((random >> 8) % damaged.size());
    std::ofstream(path, std::ios::binary).write(damaged.data(), static_cast<std::streamsize>(damaged.size()));
    if (const auto object = read_elf_dependencies(path)) {
      EXPECT_LT(object->needed.size(), 100000u);
    }
  }
  // A megabyte of entries, each of which asks for the rest of the file.
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  constexpr std::uint64_t kEntries = 1u << 16, kBytes = kEntries * sizeof(Elf64_Dyn);
  const std::uint64_t at = sizeof header + 2 * sizeof(Elf64_Phdr);
  Elf64_Phdr segments[2] = {};
  segments[0].p_type = PT_DYNAMIC;
  segments[1].p_type = PT_LOAD;
  segments[0].p_offset = segments[1].p_offset = segments[1].p_vaddr = at;
  segments[0].p_filesz = kBytes;
  segments[1].p_filesz = 2 * kBytes;
  std::vector<Elf64_Dyn> entries(kEntries, {DT_NEEDED, {kBytes}});
  entries[0] = {DT_STRTAB, {at}};
  std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(&header), sizeof header)
          .write(reinterpret_cast<const char*>(segments), sizeof segments)
          .write(reinterpret_cast<const char*>(entries.data()), kBytes)
      << std::string(60'000, 'x') << '\0' << std::string(kBytes, 'y') << '\0';
  const auto greedy = read_elf_dependencies(path);
  ASSERT_TRUE(greedy);
  EXPECT_EQ(greedy->needed.size(), 1024u);
  EXPECT_EQ(greedy->needed.front().size(), 60'000u);
  EXPECT_FALSE(read_elf_dependencies("/dev/null"));
  EXPECT_FALSE(read_elf_dependencies("/nowhere"));
  std::remove(path);
}

}  // namespace
}  // namespace clusterprof::cli
