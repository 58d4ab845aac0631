// SPDX-License-Identifier: BSD-3-Clause
// Runs the code that `clusterprof attach` puts into processes in this one, with functions in the place of
// libc's.
#include <gtest/gtest.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "cli/attach/first_code.hpp"

namespace clusterprof::cli::attach {
namespace {

using wire::AttachBlock;
using wire::AttachStatus;

std::vector<std::string> g_called;
void (*g_before_fork)() = nullptr;
void (*g_in_child)() = nullptr;
const char* g_error = nullptr;
char g_handle;
const std::string kRecord = "record " + std::to_string(::sched_getscheduler(0));

std::uint64_t address(auto* function) { return reinterpret_cast<std::uint64_t>(function); }

int register_handlers(void (*before)(), void (*parent)(), void (*child)(), void*) {
  g_called.push_back(parent == nullptr ? "register" : "register with a handler for the parent");
  g_before_fork = before;
  g_in_child = child;
  return 0;
}
void* load(const char* path, int mode) {
  g_called.push_back("load " + std::string(path) + " " + std::to_string(mode));
  return g_error == nullptr ? &g_handle : nullptr;
}
void* recording(void* block) {
  g_called.push_back("record " + std::to_string(::sched_getscheduler(0)));
  return block;
}
void* look_up(void* handle, const char* name) {
  g_called.push_back("look up " + std::string(name) + (handle == &g_handle ? "" : " elsewhere"));
  return reinterpret_cast<void*>(&recording);
}
const char* error_text() { return g_error; }
int let_end(std::uint64_t thread) {
  g_called.push_back("detach " + std::to_string(thread));
  return 0;
}
void remove_handlers(void*) { g_called.push_back("remove"); }

// As in a process, but that the block is writable from the beginning.
class FirstCodeTest : public testing::Test {
 protected:
  void SetUp() override {
    g_called.clear();
    g_error = nullptr;
    memory_ = ::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory_, MAP_FAILED);
    const FirstCode code = first_code();
    ASSERT_LE(code.bytes.size(), kPageBytes);
    std::memcpy(memory_, code.bytes.data(), code.bytes.size());
    block_ = new (static_cast<char*>(memory_) + kBlockAt) AttachBlock{};
    std::strcpy(block_->agent_path, "the agent");
    std::strcpy(block_->name, "its function");
    block_->path = address(block_->agent_path);
    block_->function_name = address(block_->name);
    block_->mode = 2;
    block_->dlopen_address = address(load);
    block_->dlsym_address = address(look_up);
    block_->dlerror_address = address(error_text);
    block_->pthread_detach_address = address(let_end);
    block_->register_atfork_address = address(register_handlers);
    block_->finalize_address = address(remove_handlers);
    block_->thread = 17;
    block_->loading.store(wire::kLoading);
    block_->policy = -1;
  }
  void TearDown() override { ::munmap(memory_, kMemoryBytes); }

  void* start() {
    EXPECT_EQ(::mprotect(memory_, kPageBytes, PROT_READ | PROT_EXEC), 0);
    return reinterpret_cast<void* (*)(void*)>(memory_)(block_);
  }

  void* memory_ = nullptr;
  AttachBlock* block_ = nullptr;
};

TEST_F(FirstCodeTest, LoadsTheAgentAndGoesOnInIt) {
  EXPECT_EQ(start(), block_);
  EXPECT_EQ(g_called, (std::vector<std::string>{"register", "load the agent 2", "look up its function", "remove",
                                                kRecord}));
  EXPECT_EQ(block_->loading.load(), wire::kLoaded);
  EXPECT_EQ(block_->function, address(recording));
  EXPECT_EQ(block_->status.load(), static_cast<std::uint32_t>(AttachStatus::kStarting));
}

TEST_F(FirstCodeTest, DoesNotLoadAnAgentThatIsThere) {
  block_->loading.store(0);
  block_->function = address(recording);
  EXPECT_EQ(start(), block_);
  EXPECT_EQ(g_called, (std::vector<std::string>{kRecord}));
  EXPECT_EQ(block_->loading.load(), 0u);
}

TEST_F(FirstCodeTest, TheThreadTakesThePolicyThatItIsGiven) {
  block_->policy = SCHED_BATCH;
  void* result = nullptr;
  std::thread([&] { result = start(); }).join();  // only that thread
  EXPECT_EQ(result, block_);
  EXPECT_EQ(g_called.back(), "record " + std::to_string(SCHED_BATCH));
}

TEST_F(FirstCodeTest, KeepsWhatTheLoaderSays) {
  g_error = "no such file";
  EXPECT_EQ(start(), nullptr);
  EXPECT_EQ(g_called, (std::vector<std::string>{"register", "load the agent 2", "remove", "detach 17"}));
  EXPECT_STREQ(block_->error, "no such file");
  EXPECT_EQ(block_->status.load(), static_cast<std::uint32_t>(AttachStatus::kNotLoaded));
  EXPECT_EQ(block_->loading.load(), wire::kLoaded);
}

TEST_F(FirstCodeTest, KeepsTheBeginningOfALongText) {
  const std::string text(1000, 'x');
  g_error = text.c_str();
  const std::uint32_t major = block_->wire_major;
  EXPECT_EQ(start(), nullptr);
  EXPECT_EQ(std::string(block_->error), text.substr(0, sizeof block_->error - 1));
  EXPECT_EQ(block_->wire_major, major);  // what comes behind it
}

TEST_F(FirstCodeTest, ForksWaitForTheLoadAndNotForEver) {
  start();
  block_->loading.store(wire::kLoading);
  const auto begin = std::chrono::steady_clock::now();
  std::thread loader([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    block_->loading.store(wire::kLoaded);
  });
  g_before_fork();
  const auto waited = std::chrono::steady_clock::now() - begin;
  loader.join();
  EXPECT_EQ(block_->loading.load(), wire::kLoaded);
  EXPECT_GE(waited, std::chrono::milliseconds(100));
  block_->loading.store(wire::kLoading);
  g_before_fork();  // nobody ends it
  EXPECT_EQ(block_->loading.load(), wire::kLoading);
  g_in_child();
  EXPECT_EQ(block_->loading.load(), wire::kLoaded);
}

// What a thread that is held does, in a process that stays there until it is killed.
class HeldCode : public FirstCodeTest {
 protected:
  struct Made {
    std::uint64_t thread, attributes, function, argument, stack;
  };
  static inline int g_pipe = -1;
  static inline int g_result = 0;
  static int make(std::uint64_t* thread, void* attributes, void* function, void* argument) {
    const Made made{address(thread), address(static_cast<char*>(attributes)),
                    address(static_cast<char*>(function)), address(static_cast<char*>(argument)),
                    reinterpret_cast<std::uint64_t>(__builtin_frame_address(0))};
    return ::write(g_pipe, &made, sizeof made) == sizeof made ? g_result : EIO;
  }

  // The child, which begins with the whole memory not writable, and without the page at `hole`. 0: it has
  // all.
  pid_t run(int pipe, int result, std::size_t hole) {
    const FirstCode code = first_code();
    const pid_t child = ::fork();
    if (child != 0) return child;
    g_pipe = pipe;
    g_result = result;
    ::mprotect(memory_, kMemoryBytes, PROT_READ | PROT_EXEC);
    if (hole != 0) ::munmap(static_cast<char*>(memory_) + hole, kPageBytes);
    const auto begin = reinterpret_cast<std::uint64_t>(memory_) + code.begin;
    asm volatile("mov %0, %%r12\n mov %1, %%r13\n jmp *%2"
                 :
                 : "r"(block_), "r"(&make), "a"(begin)
                 : "r12", "r13", "memory");
    __builtin_unreachable();
  }

  struct Stayed {
    int error = 0;  // EPERM: this user may not look into its own children
    std::uint32_t landed = 0;
    std::string call;  // that it is in
    user_regs_struct registers{};
    std::vector<std::string> permissions;  // of each page; empty: it is not there
    int status = 0;                        // after SIGKILL
  };
  // Once it stays, as whoever holds the thread looks at it.
  Stayed look_and_kill(pid_t child) {
    Stayed stayed;
    const auto memory = reinterpret_cast<std::uint64_t>(memory_);
    const iovec here{&stayed.landed, sizeof stayed.landed},
        there{reinterpret_cast<void*>(memory + kLandedAt), sizeof stayed.landed};
    const std::string directory = "/proc/" + std::to_string(child);
    for (int i = 0; i < 60'000 && stayed.error == 0 && stayed.call != kPause; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::ifstream(directory + "/syscall") >> stayed.call;
      if (::process_vm_readv(child, &here, 1, &there, 1, 0) < 0) stayed.error = errno;
    }
    int status = 0;
    if (stayed.error == 0 && (::ptrace(PTRACE_SEIZE, child, nullptr, nullptr) != 0 ||
                              ::ptrace(PTRACE_INTERRUPT, child, nullptr, nullptr) != 0 ||
                              ::waitpid(child, &status, __WALL) != child || !WIFSTOPPED(status) ||
                              ::ptrace(PTRACE_GETREGS, child, nullptr, &stayed.registers) != 0))
      stayed.error = errno;
    stayed.permissions.resize(kMemoryBytes / kPageBytes);
    std::ifstream maps(directory + "/maps");
    for (std::string line; std::getline(maps, line);) {
      std::uint64_t begin = 0, end = 0;
      std::array<char, 5> permissions{};
      if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end, permissions.data()) != 3)
        continue;
      for (std::size_t page = 0; page < stayed.permissions.size(); ++page)
        if (const std::uint64_t at = memory + page * kPageBytes; at >= begin && at < end)
          stayed.permissions[page] = permissions.data();
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, &stayed.status, __WALL);
    return stayed;
  }

  // Where it waits for whoever holds the thread.
  [[nodiscard]] bool is_in_landing(const user_regs_struct& registers) const {
    const FirstCode code = first_code();
    const auto memory = reinterpret_cast<std::uint64_t>(memory_);
    return registers.rip >= memory + code.landing && registers.rip < memory + code.bytes.size();
  }
  static constexpr const char* kPause = "34";  // SYS_pause
};

TEST_F(HeldCode, MakesTheThreadOnAStackOfItsOwnAndStays) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = run(pipe[1], EAGAIN, 0);
  ASSERT_GT(child, 0);
  Made made{};
  const auto memory = reinterpret_cast<std::uint64_t>(memory_);
  EXPECT_EQ(::read(pipe[0], &made, sizeof made), static_cast<ssize_t>(sizeof made));
  EXPECT_EQ(made.thread, address(&block_->thread));
  EXPECT_EQ(made.attributes, 0u);
  EXPECT_EQ(made.function, memory);
  EXPECT_EQ(made.argument, address(block_));
  EXPECT_GT(made.stack, memory + kPageBytes);
  EXPECT_LT(made.stack, memory + kBlockAt);
  const Stayed stayed = look_and_kill(child);
  ::close(pipe[0]);
  ::close(pipe[1]);
  if (stayed.error == EPERM) GTEST_SKIP() << "this user may not look into its own children";
  EXPECT_EQ(stayed.error, 0);
  EXPECT_EQ(stayed.landed, 1u);
  EXPECT_EQ(stayed.call, kPause);
  EXPECT_EQ(static_cast<int>(stayed.registers.rbx), EAGAIN) << "what pthread_create returned";
  EXPECT_TRUE(is_in_landing(stayed.registers)) << (stayed.registers.rip - memory);
  EXPECT_EQ(stayed.permissions[0], "r-xp");
  for (std::size_t page = 1; page < stayed.permissions.size(); ++page)
    EXPECT_EQ(stayed.permissions[page], "rw-p") << page;
  EXPECT_TRUE(WIFSIGNALED(stayed.status) && WTERMSIG(stayed.status) == SIGKILL) << stayed.status;
}

TEST_F(HeldCode, CallsNothingWhereItsMemoryCannotBecomeWritable) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  constexpr std::size_t kHole = 8 * kPageBytes;  // of the stack, which would not reach it
  const pid_t child = run(pipe[1], 0, kHole);
  ASSERT_GT(child, 0);
  const Stayed stayed = look_and_kill(child);
  pollfd told{pipe[0], POLLIN, 0};
  EXPECT_EQ(::poll(&told, 1, 0), 0) << "pthread_create was called";
  ::close(pipe[0]);
  ::close(pipe[1]);
  if (stayed.error == EPERM) GTEST_SKIP() << "this user may not look into its own children";
  EXPECT_EQ(stayed.error, 0);
  EXPECT_EQ(stayed.landed, 0u);
  EXPECT_EQ(stayed.call, kPause);
  EXPECT_EQ(static_cast<int>(stayed.registers.rbx), -ENOMEM) << "what mprotect returned";
  EXPECT_TRUE(is_in_landing(stayed.registers));
  EXPECT_EQ(stayed.permissions[0], "r-xp");
  EXPECT_EQ(stayed.permissions[kHole / kPageBytes], "");
  EXPECT_TRUE(WIFSIGNALED(stayed.status) && WTERMSIG(stayed.status) == SIGKILL) << stayed.status;
}

}  // namespace
}  // namespace clusterprof::cli::attach
