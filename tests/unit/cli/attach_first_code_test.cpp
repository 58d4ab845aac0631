// SPDX-License-Identifier: BSD-3-Clause
// Runs the code that `clusterprof attach` puts into processes in this one, with functions in the place of
// libc's.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
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
  loader.join();
  EXPECT_EQ(block_->loading.load(), wire::kLoaded);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(100));
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

  // The child, which begins with the whole memory not writable.
  pid_t run(int pipe, int result) {
    const FirstCode code = first_code();
    const pid_t child = ::fork();
    if (child != 0) return child;
    g_pipe = pipe;
    g_result = result;
    ::mprotect(memory_, kMemoryBytes, PROT_READ | PROT_EXEC);
    const auto begin = reinterpret_cast<std::uint64_t>(memory_) + code.begin;
    asm volatile("mov %0, %%r12\n mov %1, %%r13\n jmp *%2"
                 :
                 : "r"(block_), "r"(&make), "a"(begin)
                 : "r12", "r13", "memory");
    __builtin_unreachable();
  }
};

TEST_F(HeldCode, MakesTheThreadOnAStackOfItsOwnAndStays) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = run(pipe[1], EAGAIN);
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
  std::uint32_t landed = 0;
  const iovec here{&landed, sizeof landed}, there{reinterpret_cast<void*>(memory + kLandedAt), sizeof landed};
  std::string call;
  for (int i = 0; i < 10'000 && (landed == 0 || call != "34"); ++i) {  // asleep in pause()
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (::process_vm_readv(child, &here, 1, &there, 1, 0) < 0) break;
    std::ifstream("/proc/" + std::to_string(child) + "/syscall") >> call;
  }
  const int error = errno;
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
  if (landed == 0 && error == EPERM) GTEST_SKIP() << "this user may not look into its own children";
  EXPECT_EQ(landed, 1u);
  EXPECT_EQ(call, "34");
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

}  // namespace
}  // namespace clusterprof::cli::attach
