// SPDX-License-Identifier: BSD-3-Clause
#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/attach/target.hpp"

namespace clusterprof::cli::attach {
namespace {

namespace fs = std::filesystem;

TargetFacts good() {
  TargetFacts target;
  target.pid = 42;
  target.exists = true;
  target.state = 'S';
  target.uids = {1000, 1000, 1000};
  target.machine = Machine::kX86_64;
  target.knows_objects = true;
  target.objects = {"/usr/bin/train", "/usr/lib/libmpi.so.40.30.4", "/usr/lib/libc.so.6",
                    "/usr/lib/ld-linux-x86-64.so.2"};
  return target;
}

OwnFacts user() {
  OwnFacts own;
  own.uid = 1000;
  return own;
}

// The reason for a process that differs from a good one.
template <typename Change>
std::optional<Refusal> why(Change change, OwnFacts own = user()) {
  TargetFacts target = good();
  change(target);
  const auto refused = refusal_of(target, own);
  if (!refused) return std::nullopt;
  EXPECT_EQ(refused->text.find('\n'), std::string::npos);
  EXPECT_FALSE(refused->text.empty());
  return refused->why;
}

TEST(AttachTarget, AGoodOneIsTried) {
  EXPECT_EQ(why([](TargetFacts&) {}), std::nullopt);
  // What cannot be read is left to the kernel to refuse.
  EXPECT_EQ(why([](TargetFacts& t) {
              t.knows_objects = false;
              t.objects.clear();
              t.machine = Machine::kUnknown;
            }),
            std::nullopt);
}

TEST(AttachTarget, ReasonsToRefuse) {
  EXPECT_EQ(why([](TargetFacts& t) { t.exists = false; }), Refusal::kGone);
  EXPECT_EQ(why([](TargetFacts& t) { t.state = 'Z'; }), Refusal::kGone);
  EXPECT_EQ(why([](TargetFacts& t) { t.state = 'T'; }), Refusal::kStopped);
  EXPECT_EQ(why([](TargetFacts& t) { t.is_kernel_thread = true; }), Refusal::kKernelThread);
  EXPECT_EQ(why([](TargetFacts& t) { t.process = 41; }), Refusal::kThread);
  EXPECT_EQ(why([](TargetFacts& t) { t.process = 42; }), std::nullopt);
  EXPECT_EQ(why([](TargetFacts& t) { t.is_own_program = true; }), Refusal::kOwnProgram);
  EXPECT_EQ(why([](TargetFacts& t) { t.uids = {1001, 1001, 1001}; }), Refusal::kOtherUser);
  EXPECT_EQ(why([](TargetFacts& t) { t.uids = {1000, 0, 0}; }), Refusal::kOtherUser);
  EXPECT_EQ(why([](TargetFacts& t) { t.other_namespace = "mount"; }), Refusal::kNamespace);
  EXPECT_EQ(why([](TargetFacts& t) { t.tracer = 7; }), Refusal::kTraced);
  EXPECT_EQ(why([](TargetFacts& t) { t.machine = Machine::k32Bit; }), Refusal::k32Bit);
  EXPECT_EQ(why([](TargetFacts& t) { t.machine = Machine::kOther; }), Refusal::kOtherMachine);
  EXPECT_EQ(why([](TargetFacts& t) { t.objects = {"/bin/static"}; }), Refusal::kStatic);
  EXPECT_EQ(why([](TargetFacts& t) { t.objects[2] += " (deleted)"; }), Refusal::kReplaced);
  EXPECT_EQ(why([](TargetFacts& t) { t.objects[1] += " (deleted)"; }), std::nullopt);
  EXPECT_EQ(why([](TargetFacts& t) { t.has_shadow_stack = true; }), Refusal::kShadowStack);
  EXPECT_EQ(why([](TargetFacts& t) { t.objects.emplace_back("/usr/lib/libtsan.so.2"); }),
            Refusal::kSanitizer);
  EXPECT_EQ(why([](TargetFacts& t) {
              t.objects = {"/bin/a", "/lib/ld-musl-x86_64.so.1"};
            }),
            Refusal::kOtherLibc);
  EXPECT_EQ(why([](TargetFacts& t) { t.objects = {"/bin/a", "/lib64/libc-2.28.so"}; }), Refusal::kNoThreads);
  EXPECT_EQ(why([](TargetFacts& t) {
              t.objects = {"/bin/a", "/lib64/libc-2.28.so", "/lib64/libpthread-2.28.so"};
            }),
            std::nullopt);
}

TEST(AttachTarget, AUserIsNotHelpedByBeingRoot) {
  OwnFacts root;
  root.uid = 0;
  EXPECT_EQ(why([](TargetFacts&) {}, root), Refusal::kOtherUser);
}

TEST(AttachTarget, FiltersOfSystemCalls) {
  EXPECT_EQ(why([](TargetFacts& t) { t.filter = {1, 0}; }), Refusal::kFilter);
  EXPECT_EQ(why([](TargetFacts& t) { t.filter = {2, 1}; }), Refusal::kFilter);
  // Both are in the same container.
  OwnFacts inside = user();
  inside.filter = {2, 1};
  EXPECT_EQ(why([](TargetFacts& t) { t.filter = {2, 1}; }, inside), std::nullopt);
  EXPECT_EQ(why([](TargetFacts& t) { t.filter = {2, 2}; }, inside), Refusal::kFilter);
  EXPECT_EQ(why([](TargetFacts&) {}, inside), std::nullopt);
}

TEST(AttachTarget, WhyTheKernelSaysNo) {
  const TargetFacts target = good();
  OwnFacts own = user();
  own.ptrace_scope = 1;
  EXPECT_NE(not_permitted(target, own).text.find("ptrace_scope=1"), std::string::npos);
  own.may_trace_all = true;
  EXPECT_EQ(not_permitted(target, own).text.find("ptrace_scope"), std::string::npos);
  own.ptrace_scope = 3;
  EXPECT_NE(not_permitted(target, own).text.find("ptrace_scope=3"), std::string::npos);
  own = user();
  own.filter = {2, 1};
  EXPECT_NE(not_permitted(target, own).text.find("seccomp"), std::string::npos);
  own.filter = {};
  EXPECT_NE(not_permitted(target, own).text.find("capabilities"), std::string::npos);
  EXPECT_EQ(not_permitted(target, own).why, Refusal::kNotPermitted);
}

TEST(AttachTarget, FlavourOfItsMpi) {
  EXPECT_EQ(flavour_of(good()), MpiFlavour::kOpenMpi);
  TargetFacts target = good();
  target.objects[1] = "/opt/lib/libmpich.so.12.2.0";
  EXPECT_EQ(flavour_of(target), MpiFlavour::kMpich);
  // The standard's interface may stand on a library with another one.
  target.objects.push_back("/opt/lib/libmpi_abi.so.1.0.0");
  EXPECT_EQ(flavour_of(target), MpiFlavour::kStandard);
  target.objects.pop_back();
  target.objects.erase(target.objects.begin() + 1);
  EXPECT_EQ(flavour_of(target), MpiFlavour::kNone);
}

class FakeProc : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("attach-target-" + std::to_string(::getpid()));
    fs::create_directories(root_ / "42" / "ns");
    fs::create_directories(root_ / "self" / "ns");
    for (const char* const process : {"42", "self"}) {
      for (const char* const space : {"mnt", "net", "pid", "user", "time"})
        fs::create_symlink(std::string(space) + ":[1]", root_ / process / "ns" / space);
      fs::create_symlink("/", root_ / process / "root");
    }
    write(
        "42/status",
        "Name:\ttrain\nState:\tR (running)\nTracerPid:\t7\nUid:\t1000\t1001\t1002\t1003\nVmSize:\t  100 kB\n"
        "Seccomp:\t2\nSeccomp_filters:\t3\n");
    write("42/maps",
          "55d0-55d1 r--p 00000000 08:01 1 /usr/bin/train\n55d1-55d2 r-xp 00001000 08:01 1 /usr/bin/train\n"
          "7f00-7f01 r-xp 00000000 08:01 2 /usr/lib/a name.so\n7f02-7f03 r-xp 00000000 00:00 0 [vdso]\n"
          "7f01-7f02 r-xp 00001000 08:01 2 /usr/lib/a name.so\n7f04-7f05 rw-p 00000000 08:01 3 /data\n");
    Elf64_Ehdr header{};
    std::copy(ELFMAG, ELFMAG + SELFMAG, header.e_ident);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_machine = EM_X86_64;
    write("42/exe", std::string(reinterpret_cast<const char*>(&header), sizeof header));
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(root_ / name) << text; }
  fs::path root_;
};

TEST_F(FakeProc, IsRead) {
  const TargetFacts target = read_target(42, root_);
  EXPECT_TRUE(target.exists);
  EXPECT_EQ(target.state, 'R');
  EXPECT_FALSE(target.is_kernel_thread);
  EXPECT_EQ(target.uids, (std::vector<uid_t>{1000, 1001, 1002}));
  EXPECT_EQ(target.tracer, 7);
  EXPECT_EQ(target.filter.mode, 2);
  EXPECT_EQ(target.filter.count, 3);
  EXPECT_EQ(target.other_namespace, "");
  EXPECT_FALSE(target.has_shadow_stack);
  EXPECT_EQ(target.machine, Machine::kX86_64);
  EXPECT_TRUE(target.knows_objects);
  EXPECT_EQ(target.objects, (std::vector<std::string>{"/usr/bin/train", "/usr/lib/a name.so"}));
}

TEST_F(FakeProc, AThreadOfTheKernelHasNoMemory) {
  write("42/status", "Name:\tkthreadd\nState:\tS (sleeping)\n");
  write("42/stat", "42 (k) (d) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 2");
  EXPECT_TRUE(read_target(42, root_).is_kernel_thread);
}

TEST_F(FakeProc, NorHasAProcessThatIsEnding) {
  write("42/status", "Name:\ttrain\nState:\tR (running)\n");
  for (const char* const stat : {"42 (train) R 1 42 42 0 -1 4228108 0 0 0 0 0 0 0 0 20 0 1 0 2", ""}) {
    write("42/stat", stat);
    const TargetFacts target = read_target(42, root_);
    EXPECT_FALSE(target.is_kernel_thread);
    EXPECT_EQ(target.state, 'X') << "it has ended";
  }
}

TEST_F(FakeProc, AnotherNamespace) {
  fs::remove(root_ / "42" / "ns" / "net");
  fs::create_symlink("net:[2]", root_ / "42" / "ns" / "net");
  EXPECT_EQ(read_target(42, root_).other_namespace, "network");
}

TEST_F(FakeProc, AnotherRoot) {
  fs::remove(root_ / "42" / "root");
  fs::create_symlink("/jail", root_ / "42" / "root");
  EXPECT_EQ(read_target(42, root_).other_namespace, "mount");
}

TEST_F(FakeProc, AShadowStack) {
  write("42/status", "Name:\ttrain\nState:\tR (running)\nx86_Thread_features:\tshstk wrss \n");
  EXPECT_TRUE(read_target(42, root_).has_shadow_stack);
  write("42/status",
        "Name:\ttrain\nState:\tR (running)\nx86_Thread_features:\t\nx86_Thread_features_locked:\tshstk\n");
  EXPECT_FALSE(read_target(42, root_).has_shadow_stack);
}

TEST_F(FakeProc, OtherPrograms) {
  Elf64_Ehdr header{};
  std::copy(ELFMAG, ELFMAG + SELFMAG, header.e_ident);
  header.e_ident[EI_CLASS] = ELFCLASS32;
  write("42/exe", std::string(reinterpret_cast<const char*>(&header), sizeof header));
  EXPECT_EQ(read_target(42, root_).machine, Machine::k32Bit);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = EM_AARCH64;
  write("42/exe", std::string(reinterpret_cast<const char*>(&header), sizeof header));
  EXPECT_EQ(read_target(42, root_).machine, Machine::kOther);
}

TEST_F(FakeProc, AThreadAndAProcessOfOurs) {
  EXPECT_EQ(read_target(42, root_).process, 0);
  EXPECT_FALSE(read_target(42, root_).is_own_program);
  write("42/status", "Name:\ttrain\nState:\tR (running)\nTgid:\t41\n");
  fs::remove(root_ / "42" / "exe");
  fs::create_symlink("/opt/libexec/collector", root_ / "42" / "exe");
  fs::create_symlink("/opt/libexec/attach", root_ / "self" / "exe");
  EXPECT_EQ(read_target(42, root_).process, 41);
  EXPECT_TRUE(read_target(42, root_).is_own_program);
  const auto is_own = [&](const char* program) {
    fs::remove(root_ / "42" / "exe");
    fs::create_symlink(program, root_ / "42" / "exe");
    return read_target(42, root_).is_own_program;
  };
  EXPECT_TRUE(is_own("/usr/bin/clusterprof"));
  EXPECT_FALSE(is_own("/opt/bin/collector"));
}

TEST_F(FakeProc, ThatIsNotThere) { EXPECT_FALSE(read_target(43, root_).exists); }

TEST_F(FakeProc, OurselvesAndTheMachine) {
  fs::create_directories(root_ / "sys/kernel/yama");
  write("sys/kernel/yama/ptrace_scope", "2\n");
  write("self/status", "Name:\tattach\nCapEff:\t0000000000080000\nSeccomp:\t0\n");
  const OwnFacts own = read_own(root_);
  EXPECT_EQ(own.ptrace_scope, 2);
  EXPECT_TRUE(own.may_trace_all);
  EXPECT_EQ(own.filter.mode, 0);
  write("self/status", "Name:\tattach\nCapEff:\t0000000000040000\n");
  fs::remove_all(root_ / "sys");
  EXPECT_FALSE(read_own(root_).may_trace_all);
  EXPECT_EQ(read_own(root_).ptrace_scope, -1);
}

}  // namespace
}  // namespace clusterprof::cli::attach
