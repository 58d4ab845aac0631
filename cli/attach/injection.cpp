// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/injection.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "base/base_name.hpp"
#include "base/leading_number.hpp"
#include "base/unique_fd.hpp"
#include "cli/attach/memory_map.hpp"
#include "cli/attach/read_text.hpp"
#include "cli/attach/stack_rules.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::cli::attach {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr unsigned kEventStop = 128;  // PTRACE_EVENT_STOP
constexpr auto kGetMask = static_cast<__ptrace_request>(0x420a),
               kSetMask = static_cast<__ptrace_request>(0x420b);
constexpr milliseconds kStopPatience{200};     // for a thread that was told to stop
constexpr milliseconds kCallPatience{10'000};  // for a pthread_create that waits for a lock
constexpr std::uint64_t kDirection = 0x400, kTrap = 0x100, kAlignment = 0x40000;  // of the flags

// Where the new thread starts, with the address of the AttachBlock: loads the agent and goes on in its
// function, which returns to libc. If that fails, it copies what dlerror says, which goes with the thread,
// and ends. Forks of the program wait meanwhile, for two seconds at most: one that is made in a constructor
// has the lock that the load waits for.
constexpr std::uint8_t kCode[] = {
    0x53,                                      // push rbx
    0x48, 0x89, 0xfb,                          // mov rbx, rdi
    0x48, 0x8d, 0x3d, 0x82, 0x00, 0x00, 0x00,  // lea rdi, [rip + wait_for_load]
    0x31, 0xf6,                                // xor esi, esi
    0x48, 0x8d, 0x15, 0xa6, 0x00, 0x00, 0x00,  // lea rdx, [rip + in_child]
    0x48, 0x89, 0xd9,                          // mov rcx, rbx             whose handlers these are
    0xff, 0x53, 0x48,                          // call [rbx + 72]          __register_atfork
    0x48, 0x8b, 0x3b,                          // mov rdi, [rbx]           path
    0x8b, 0x73, 0x08,                          // mov esi, [rbx + 8]       mode
    0xff, 0x53, 0x10,                          // call [rbx + 16]          dlopen
    0x48, 0x85, 0xc0,                          // test rax, rax
    0x74, 0x22,                                // je failed
    0x48, 0x89, 0xc7,                          // mov rdi, rax
    0x48, 0x8b, 0x73, 0x18,                    // mov rsi, [rbx + 24]      function_name
    0xff, 0x53, 0x20,                          // call [rbx + 32]          dlsym
    0x48, 0x85, 0xc0,                          // test rax, rax
    0x74, 0x13,                                // je failed
    0x48, 0x89, 0x43, 0x58,                    // mov [rbx + 88], rax      function
    0xe8, 0x40, 0x00, 0x00, 0x00,              // call loaded
    0x48, 0x8b, 0x43, 0x58,                    // mov rax, [rbx + 88]
    0x48, 0x89, 0xdf,                          // mov rdi, rbx
    0x5b,                                      // pop rbx
    0xff, 0xe0,                                // jmp rax
    0xff, 0x53, 0x28,                          // failed: call [rbx + 40]  dlerror
    0x48, 0x85, 0xc0,                          // test rax, rax
    0x74, 0x17,                                // je said
    0x48, 0x8d, 0x7b, 0x70,                    // lea rdi, [rbx + 112]     error
    0xb9, 0x8f, 0x01, 0x00, 0x00,              // mov ecx, 399
    0x8a, 0x10,                                // again: mov dl, [rax]
    0x88, 0x17,                                // mov [rdi], dl
    0x48, 0xff, 0xc0,                          // inc rax
    0x48, 0xff, 0xc7,                          // inc rdi
    0x84, 0xd2,                                // test dl, dl
    0xe0, 0xf2,                                // loopne again
    0xe8, 0x12, 0x00, 0x00, 0x00,              // said: call loaded
    0x48, 0x8b, 0x7b, 0x40,                    // mov rdi, [rbx + 64]      thread
    0xff, 0x53, 0x30,                          // call [rbx + 48]          pthread_detach
    0xc7, 0x43, 0x38, 0x01, 0x00, 0x00, 0x00,  // mov dword [rbx + 56], 1  status = kNotLoaded
    0x5b,                                      // pop rbx
    0x31, 0xc0,                                // xor eax, eax
    0xc3,                                      // ret
    0xc7, 0x43, 0x60, 0x02, 0x00, 0x00, 0x00,  // loaded: mov dword [rbx + 96], 2  loading = kLoaded
    0x48, 0x89, 0xdf,                          // mov rdi, rbx             whose handlers are to go
    0xff, 0x63, 0x50,                          // jmp [rbx + 80]           __cxa_finalize
    // Before a fork.
    0x31, 0xff,                                // wait_for_load: xor edi, edi
    0xb8, 0xc9, 0x00, 0x00, 0x00,              // mov eax, SYS_time
    0x0f, 0x05,                                // syscall
    0x49, 0x89, 0xc0,                          // mov r8, rax
    0x83, 0x3d, 0xc0, 0x0f, 0x01, 0x00, 0x01,  // look: cmp dword [rip + loading], kLoading
    0x75, 0x17,                                // jne go_on
    0xb8, 0x18, 0x00, 0x00, 0x00,              // mov eax, SYS_sched_yield
    0x0f, 0x05,                                // syscall
    0xb8, 0xc9, 0x00, 0x00, 0x00,              // mov eax, SYS_time
    0x0f, 0x05,                                // syscall
    0x4c, 0x29, 0xc0,                          // sub rax, r8
    0x48, 0x83, 0xf8, 0x02,                    // cmp rax, 2
    0x72, 0xe0,                                // jb look
    0xc3,                                      // go_on: ret
    // In the child of a fork, which has no such thread: mov dword [rip + loading], kLoaded
    0xc7, 0x05, 0x9c, 0x0f, 0x01, 0x00, 0x02, 0x00, 0x00, 0x00,  // in_child
    0xc3,                                                        // ret
    // Where pthread_create returns to: keeps its result and sleeps until it is fetched.
    0x89, 0xc3,                    // landing: mov ebx, eax
    0xb8, 0x22, 0x00, 0x00, 0x00,  // again: mov eax, SYS_pause
    0x0f, 0x05,                    // syscall
    0xeb, 0xf7};                   // jmp again
static_assert(sizeof(wire::AttachBlock::error) == 400);
static_assert(static_cast<int>(wire::AttachStatus::kNotLoaded) == 1);
static_assert(wire::kLoading == 1 && wire::kLoaded == 2);
static_assert(SYS_sched_yield == 0x18 && SYS_pause == 0x22 && SYS_time == 0xc9);
constexpr std::size_t kLandingAt = 0xc5, kLandedAt = kLandingAt + 2;
static_assert(sizeof kCode == kLandingAt + 11);

// The memory that the process gets: code, a stack for the call, and the block.
constexpr std::uint64_t kPageBytes = 4096, kCallStackBytes = 64 * 1024;
constexpr std::uint64_t kBlockAt = kPageBytes + kCallStackBytes;
static_assert(kBlockAt + offsetof(wire::AttachBlock, loading) == 0x11060);  // in the code
constexpr std::uint64_t kMemoryBytes =
    kBlockAt + (sizeof(wire::AttachBlock) + kPageBytes - 1) / kPageBytes * kPageBytes;

long trace(__ptrace_request request, pid_t tid, std::uint64_t address = 0, void* data = nullptr) {
  return ::ptrace(request, tid, reinterpret_cast<void*>(address), data);
}

bool read_memory(pid_t pid, std::uint64_t from, void* to, std::size_t bytes) {
  const iovec here{to, bytes}, there{reinterpret_cast<void*>(from), bytes};
  return ::process_vm_readv(pid, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

bool write_memory(pid_t pid, std::uint64_t to, const void* from, std::size_t bytes) {
  const iovec here{const_cast<void*>(from), bytes}, there{reinterpret_cast<void*>(to), bytes};
  return ::process_vm_writev(pid, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

std::string task(pid_t pid, pid_t tid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/" + file;
}

struct Candidate {
  pid_t tid;
  int suits;
};

// A transfer that would return what has come so far. `call`: as in /proc, with the arguments in hexadecimal.
bool would_be_cut(const std::string& call, long number) {
  std::istringstream text(call);
  const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  const std::size_t flags = number == SYS_recvfrom ? 4 : number == SYS_recvmsg ? 3 : 0;
  return flags != 0 && words.size() > flags &&
         (std::strtoull(words[flags].c_str(), nullptr, 16) & MSG_WAITALL) != 0;
}

// The best first.
std::vector<Candidate> candidates_of(pid_t pid) {
  std::vector<Candidate> candidates;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/" + std::to_string(pid) + "/task", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const auto tid = leading_number<pid_t>(entry->path().filename().native()).value_or(0);
    const std::string stat = read_text(task(pid, tid, "stat")), call = read_text(task(pid, tid, "syscall"));
    const std::size_t close = stat.rfind(')');
    if (close == std::string::npos || close + 2 >= stat.size()) continue;
    const long number = leading_number<long>(call).value_or(-1);  // or "running"
    constexpr int kUnknown = 3;  // who may not read it may not trace the thread either, and is told so then
    const int suited = call.empty() ? kUnknown : suits(stat[close + 2], number);
    if (suited >= 0 && !would_be_cut(call, number)) candidates.push_back({tid, suited});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.suits < b.suits; });
  return candidates;
}

// One that ends may not be traced any more.
bool has_ended(pid_t pid, pid_t tid) {
  const std::string stat = read_text(task(pid, tid, "stat"));
  const std::size_t close = stat.rfind(')');
  return close == std::string::npos || close + 2 >= stat.size() || stat[close + 2] == 'Z' ||
         stat[close + 2] == 'X';
}

// A signal waits for it that it does not block and has a handler for. Others end no call.
bool has_signal(pid_t pid, pid_t tid, std::uint64_t blocked) {
  const std::string status = read_text(task(pid, tid, "status"));
  const auto mask = [&](const char* name) {
    const std::size_t at = status.find(name);
    return at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + std::strlen(name), nullptr, 16);
  };
  return ((mask("SigPnd:") | mask("ShdPnd:")) & mask("SigCgt:") & ~blocked) != 0;
}

// One thread, stopped.
class HeldThread {
 public:
  HeldThread(pid_t pid, pid_t tid) : pid_(pid), tid_(tid) {}
  HeldThread(const HeldThread&) = delete;
  HeldThread& operator=(const HeldThread&) = delete;
  ~HeldThread() { let_go(); }

  // 0, or an error number; ESRCH: it has ended; ETIME: it will stop later; EBUSY: is_in_restartable_code();
  // EAGAIN: the whole process is stopped.
  int stop();
  [[nodiscard]] long call() const {
    return static_cast<long>(registers_.orig_rax) >= 0 ? static_cast<long>(registers_.orig_rax) : -1;
  }

  // Makes it call pthread_create(thread, null, first_code, block). A text: what went wrong.
  std::optional<std::string> start_thread(std::uint64_t system_call, std::uint64_t pthread_create,
                                          std::uint64_t start, wire::AttachBlock& block,
                                          std::uint64_t& block_at);
  // It goes on where it was stopped, unless it does so already.
  void let_go();

 private:
  enum class Stop : std::uint8_t { kDone, kLate, kEnded };
  Stop wait_for_stop(std::optional<milliseconds> patience);
  bool resume_to_system_call_stop();
  std::optional<long> make_call(std::uint64_t instruction, long number,
                                std::array<std::uint64_t, 6> arguments);
  bool run_for(microseconds time);
  bool interrupt_and_wait();
  bool is_in_restartable_code();

  pid_t pid_, tid_;
  bool is_stopped_ = false, changed_ = false, masked_ = false;
  bool with_process_ = false;  // stopped with its process
  user_regs_struct registers_{};
  std::uint64_t mask_ = 0;
  alignas(64) std::array<std::uint8_t, 32768> state_{};  // of floating point and vectors
  std::size_t state_bytes_ = 0;
};

// Waits until the thread has stopped because it was told to, or because the whole process was stopped
// meanwhile. Signals that come first are passed on.
HeldThread::Stop HeldThread::wait_for_stop(std::optional<milliseconds> patience) {
  const auto begin = Clock::now();
  for (;;) {
    int status = 0;
    const pid_t got = ::waitpid(tid_, &status, __WALL | WNOHANG);
    if (got == tid_) {
      if (!WIFSTOPPED(status)) return Stop::kEnded;
      with_process_ = WSTOPSIG(status) != SIGTRAP;
      if (static_cast<unsigned>(status) >> 16 == kEventStop) return Stop::kDone;
      const int signal = WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
      trace(PTRACE_CONT, tid_, 0, reinterpret_cast<void*>(static_cast<std::uintptr_t>(signal)));
      continue;
    }
    if (got < 0) return Stop::kEnded;
    if (patience && Clock::now() - begin >= *patience) return Stop::kLate;
    std::this_thread::sleep_for(microseconds(20));
  }
}

int HeldThread::stop() {
  if (trace(PTRACE_SEIZE, tid_, 0, reinterpret_cast<void*>(std::uintptr_t{PTRACE_O_TRACESYSGOOD})) != 0)
    return errno;
  if (trace(PTRACE_INTERRUPT, tid_) != 0) return errno;
  const Stop stop = wait_for_stop(kStopPatience);
  if (stop == Stop::kLate) return ETIME;
  if (stop == Stop::kEnded) return ESRCH;
  is_stopped_ = true;
  if (trace(PTRACE_GETREGS, tid_, 0, &registers_) != 0 || trace(kGetMask, tid_, sizeof mask_, &mask_) != 0)
    return errno;
  iovec state{state_.data(), state_.size()};
  if (trace(PTRACE_GETREGSET, tid_, NT_X86_XSTATE, &state) != 0) return errno;
  state_bytes_ = state.iov_len;
  return with_process_ ? EAGAIN : is_in_restartable_code() ? EBUSY : 0;
}

// Code that the kernel begins again when it was interrupted (rseq(2)). It would not find out that it was,
// since the thread is elsewhere when the kernel looks.
bool HeldThread::is_in_restartable_code() {
  constexpr auto kGetRseq = static_cast<__ptrace_request>(0x420f);  // since Linux 5.13
  struct {
    std::uint64_t area;
    std::uint32_t bytes, signature, flags, padding;
  } configuration{};
  constexpr std::uint64_t kCodeAt = 8;  // in the area: of the code's description
  std::uint64_t code = 0;
  return call() < 0 && trace(kGetRseq, tid_, sizeof configuration, &configuration) > 0 &&
         configuration.area != 0 && read_memory(pid_, configuration.area + kCodeAt, &code, sizeof code) &&
         code != 0;
}

void HeldThread::let_go() {
  if (!is_stopped_) return;
  if (changed_) {
    iovec state{state_.data(), state_bytes_};
    trace(PTRACE_SETREGSET, tid_, NT_X86_XSTATE, &state);
  }
  user_regs_struct back = registers_;
  // The kernel has ended the call, for us alone. Other calls it makes again by itself.
  constexpr std::uint64_t kCallBytes = 2;
  if (call() >= 0 && static_cast<long>(back.rax) == -EINTR && may_stop_in(call()) &&
      !has_signal(pid_, tid_, mask_)) {
    back.rip -= kCallBytes;
    back.rax = back.orig_rax;
    back.orig_rax = ~0ull;
    changed_ = true;
  }
  if (changed_) trace(PTRACE_SETREGS, tid_, 0, &back);
  if (masked_) trace(kSetMask, tid_, sizeof mask_, &mask_);
  trace(PTRACE_DETACH, tid_);
  is_stopped_ = false;
}

// What cannot be blocked (SIGSTOP) is passed on, and takes effect when the thread is let go.
std::uintptr_t passed_on(int status) {
  const bool is_event = static_cast<unsigned>(status) >> 16 == kEventStop;
  return is_event ? 0 : static_cast<std::uintptr_t>(WSTOPSIG(status));
}

bool HeldThread::resume_to_system_call_stop() {
  for (std::uintptr_t signal = 0;;) {
    if (trace(PTRACE_SYSCALL, tid_, 0, reinterpret_cast<void*>(signal)) != 0) return false;
    int status = 0;
    while (::waitpid(tid_, &status, __WALL) < 0)
      if (errno != EINTR) return false;
    if (!WIFSTOPPED(status)) return false;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) return true;
    signal = passed_on(status);
  }
}

// Lets it run, also where the process is stopped and goes on again and again: each time the thread stops, and
// would not get on if it had to wait for the end of the time.
bool HeldThread::run_for(microseconds time) {
  constexpr microseconds kLook{20};
  const auto end = Clock::now() + time;
  if (trace(PTRACE_CONT, tid_) != 0) return false;
  do {
    std::this_thread::sleep_for(kLook);
    int status = 0;
    const pid_t got = ::waitpid(tid_, &status, __WALL | WNOHANG);
    if (got < 0 || (got == tid_ && !WIFSTOPPED(status))) return false;
    if (got == tid_ && trace(PTRACE_CONT, tid_, 0, reinterpret_cast<void*>(passed_on(status))) != 0)
      return false;
  } while (Clock::now() < end);
  return true;
}

std::optional<long> HeldThread::make_call(std::uint64_t instruction, long number,
                                          std::array<std::uint64_t, 6> arguments) {
  user_regs_struct to = registers_;
  to.rip = instruction;
  to.rax = static_cast<std::uint64_t>(number);
  to.orig_rax = ~0ull;
  to.rdi = arguments[0];
  to.rsi = arguments[1];
  to.rdx = arguments[2];
  to.r10 = arguments[3];
  to.r8 = arguments[4];
  to.r9 = arguments[5];
  changed_ = true;
  if (trace(PTRACE_SETREGS, tid_, 0, &to) != 0) return std::nullopt;
  if (!resume_to_system_call_stop() || !resume_to_system_call_stop())
    return std::nullopt;  // its begin, its end
  user_regs_struct after{};
  if (trace(PTRACE_GETREGS, tid_, 0, &after) != 0) return std::nullopt;
  return static_cast<long>(after.rax);
}

// Waits for however long it takes: nobody else can put the thread back where it was.
bool HeldThread::interrupt_and_wait() {
  return trace(PTRACE_INTERRUPT, tid_) == 0 && wait_for_stop({}) == Stop::kDone;
}

std::optional<std::string> HeldThread::start_thread(std::uint64_t system_call, std::uint64_t pthread_create,
                                                    std::uint64_t start, wire::AttachBlock& block,
                                                    std::uint64_t& block_at) {
  std::uint64_t all = ~0ull;
  masked_ = true;
  if (trace(kSetMask, tid_, sizeof all, &all) != 0) return "its signal mask cannot be set";
  const auto mapped =
      make_call(system_call, SYS_mmap,
                {0, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~0ull, 0});
  const auto back_to_stop = [this] {
    // Only in such a stop the kernel looks whether a call is to be made again.
    if (trace(PTRACE_INTERRUPT, tid_) == 0 && trace(PTRACE_CONT, tid_) == 0) (void)wait_for_stop({});
  };
  if (!mapped) return "it does not do what it is told";
  const auto memory = static_cast<std::uint64_t>(*mapped);
  constexpr long kLowestError = -4095;
  if (*mapped >= kLowestError && *mapped < 0) {
    back_to_stop();
    return std::string("it gets no memory: ") + std::strerror(static_cast<int>(-*mapped));
  }
  block_at = memory + kBlockAt;
  block.path = block_at + offsetof(wire::AttachBlock, agent_path);
  block.function_name = block_at + offsetof(wire::AttachBlock, name);
  block.memory = memory;
  block.memory_bytes = kMemoryBytes;

  const std::uint64_t stack = memory + kBlockAt, landing = memory + kLandingAt;
  const bool written = write_memory(pid_, memory, kCode, sizeof kCode) &&
                       write_memory(pid_, stack - sizeof landing, &landing, sizeof landing) &&
                       write_memory(pid_, block_at, &block, sizeof block);
  const auto protection =
      written ? make_call(system_call, SYS_mprotect, {memory, kPageBytes, PROT_READ | PROT_EXEC, 0, 0, 0})
              : std::optional<long>(-EPERM);
  if (!protection || *protection != 0) {
    (void)make_call(system_call, SYS_munmap, {memory, kMemoryBytes, 0, 0, 0, 0});
    back_to_stop();
    return "it may have no memory with code (a rule of the system's security?)";
  }

  user_regs_struct to = registers_;
  to.rip = pthread_create;
  to.rax = 0;
  to.orig_rax = ~0ull;
  to.eflags &= ~(kDirection | kTrap | kAlignment);
  to.rsp = stack - sizeof landing;  // as after a call
  to.rdi = block_at + offsetof(wire::AttachBlock, thread);
  to.rsi = 0;
  to.rdx = start != 0 ? start : memory;
  to.rcx = block_at;
  if (trace(PTRACE_SETREGS, tid_, 0, &to) != 0) return "its registers cannot be set";
  const auto end = Clock::now() + kCallPatience;
  user_regs_struct at{};
  for (microseconds pause{50};; pause = std::min(pause * 2, microseconds(10'000))) {
    if (!run_for(pause)) return "it does not go on";
    if (!interrupt_and_wait() || trace(PTRACE_GETREGS, tid_, 0, &at) != 0) return "it has ended";
    if (at.rip >= memory + kLandedAt && at.rip < memory + sizeof kCode) break;
    // Given up only where it may wait for ever: anywhere else it may hold a lock itself.
    if (Clock::now() >= end && at.orig_rax == SYS_futex) return "pthread_create has not returned";
  }
  const int error = static_cast<int>(at.rbx);
  if (error == 0) return std::nullopt;
  (void)make_call(system_call, SYS_munmap, {memory, kMemoryBytes, 0, 0, 0, 0});
  back_to_stop();
  return std::string("it gets no further thread: ") + std::strerror(error);
}

// The address of a `syscall` instruction in the process's libc.
std::uint64_t find_system_call(pid_t pid, std::uint64_t function) {
  std::array<std::uint8_t, 128> code{};
  constexpr std::array<std::uint8_t, 2> kInstruction = {0x0f, 0x05};
  if (function == 0 || !read_memory(pid, function, code.data(), code.size())) return 0;
  const auto found = std::search(code.begin(), code.end(), kInstruction.begin(), kInstruction.end());
  return found == code.end() ? 0 : function + static_cast<std::uint64_t>(found - code.begin());
}

template <std::size_t kBytes>
bool copy_text(const std::string& text, char (&to)[kBytes]) {
  if (text.size() >= kBytes) return false;
  std::copy(text.begin(), text.end(), to);
  return true;
}

}  // namespace

std::variant<Injected, InjectionFailed> inject(const Injection& injection) {
  const pid_t pid = injection.pid;
  const auto failed = [](InjectionProblem what, std::string text) {
    return InjectionFailed{what, std::move(text)};
  };
  auto map = MemoryMap::read(pid);
  if (!map)
    return failed(UniqueFd(::open(("/proc/" + std::to_string(pid) + "/maps").c_str(), O_RDONLY | O_CLOEXEC))
                      ? InjectionProblem::kOther
                      : InjectionProblem::kNotPermitted,
                  map.error().message);
  const MemoryMap& memory_map = map.value();
  const auto first_of = [&](std::initializer_list<const char*> names) {
    std::uint64_t found = 0;
    for (const char* const name : names)
      if (found == 0) found = memory_map.function_of_libc(name);
    return found;
  };
  auto block = std::make_unique<wire::AttachBlock>();
  block->magic = wire::kAttachMagic;
  block->wire_major = wire::kWireMajor;
  block->wire_minor = wire::kWireMinor;
  constexpr std::uint64_t kDlopenFromWithin = 0x80000000;  // __RTLD_DLOPEN, for libc's own function
  block->dlopen_address = first_of({"dlopen"});
  block->mode = RTLD_NOW | RTLD_LOCAL;
  if (block->dlopen_address == 0) {  // without libdl, before glibc 2.34
    block->dlopen_address = first_of({"__libc_dlopen_mode"});
    block->mode |= kDlopenFromWithin;
  }
  block->dlsym_address = first_of({"dlsym", "__libc_dlsym"});
  block->dlerror_address = first_of({"dlerror"});
  const std::uint64_t pthread_create = first_of({"pthread_create"});
  block->pthread_detach_address = first_of({"pthread_detach"});
  block->register_atfork_address = first_of({"__register_atfork"});
  block->finalize_address = first_of({"__cxa_finalize"});
  const std::uint64_t system_call = find_system_call(pid, first_of({"syscall"}));
  const std::uint64_t there =
      memory_map.function_of(std::string(base_name(injection.agent)), wire::kAttachFunction);
  if (block->dlopen_address == 0 || block->dlsym_address == 0 || pthread_create == 0 ||
      block->pthread_detach_address == 0 || block->register_atfork_address == 0 ||
      block->finalize_address == 0 || system_call == 0)
    return failed(InjectionProblem::kOther, "its libc lacks functions that are needed");
  // Any function without arguments that returns an address does where there is no dlerror.
  if (block->dlerror_address == 0) block->dlerror_address = first_of({"__errno_location"});
  if (injection.options.size() > sizeof block->options || !copy_text(injection.agent, block->agent_path) ||
      !copy_text(wire::kAttachFunction, block->name))
    return failed(InjectionProblem::kOther, "the options are too long");
  std::copy(injection.options.begin(), injection.options.end(), block->options);
  block->options_bytes = static_cast<std::uint32_t>(injection.options.size());
  block->loading.store(there == 0 ? wire::kLoading : 0);
  const bool own_malloc = memory_map.has_own_malloc();

  std::string objection = "all of its threads are in system calls that cannot be interrupted and made again";
  const auto end = Clock::now() + injection.patience;
  milliseconds pause{1};
  Injected injected;
  do {
    const std::vector<Candidate> candidates = candidates_of(pid);
    if (candidates.empty() && ::kill(pid, 0) != 0 && errno == ESRCH)
      return failed(InjectionProblem::kGone, "it has ended");
    constexpr std::size_t kMostAtOnce = 16;
    for (std::size_t i = 0; i < std::min(candidates.size(), kMostAtOnce); ++i) {
      const pid_t tid = candidates[i].tid;
      HeldThread thread(pid, tid);
      const auto begin = Clock::now();
      const int error = thread.stop();
      if (error == EPERM && !has_ended(pid, tid)) return failed(InjectionProblem::kNotPermitted, "");
      if (error == ETIME) return failed(InjectionProblem::kLate, "a thread does not stop");
      std::string against;
      if (error == 0) {
        against = objection_to(memory_map.stack_of(tid, thread.call()), own_malloc);
      } else if (error == EBUSY) {
        against = "it is in code that the kernel may begin again (rseq)";
      } else if (error == EAGAIN) {
        against = "it was stopped";
      } else if (error != ESRCH && error != EPERM) {  // these: it has ended
        against = std::string("a thread does not stop: ") + std::strerror(error);
      }
      const bool is_usable = error == 0 && against.empty();
      if (is_usable) {
        const auto problem = thread.start_thread(system_call, pthread_create, there, *block, injected.block);
        if (problem) return failed(InjectionProblem::kOther, *problem);
      }
      thread.let_go();
      injected.held = std::max<std::chrono::nanoseconds>(injected.held, Clock::now() - begin);
      if (is_usable) return injected;
      if (!against.empty()) objection = std::move(against);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds(50));
  } while (Clock::now() < end);
  return failed(InjectionProblem::kNoThread, objection);
}

AgentAnswer wait_for_agent(pid_t pid, const Injected& injected, milliseconds patience) {
  const auto at = [&](std::size_t place) { return injected.block + place; };
  const auto tell = [&](std::uint32_t released) {
    return write_memory(pid, at(offsetof(wire::AttachBlock, released)), &released, sizeof released);
  };
  AgentAnswer answer;
  if (!tell(1)) return answer;
  const auto end = Clock::now() + patience;
  do {
    std::uint32_t status = 0;
    if (!read_memory(pid, at(offsetof(wire::AttachBlock, status)), &status, sizeof status)) return answer;
    answer.status = static_cast<wire::AttachStatus>(status);
    if (answer.status != wire::AttachStatus::kStarting) break;
    std::this_thread::sleep_for(milliseconds(1));
  } while (Clock::now() < end);
  if (answer.status == wire::AttachStatus::kNotLoaded) {
    char text[sizeof wire::AttachBlock::error] = {};
    (void)read_memory(pid, at(offsetof(wire::AttachBlock, error)), text, sizeof text - 1);
    answer.text = text;
  }
  (void)tell(2);
  return answer;
}

}  // namespace clusterprof::cli::attach
