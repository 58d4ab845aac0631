// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/injection.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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
#include "base/stat_fields.hpp"
#include "base/unique_fd.hpp"
#include "cli/attach/first_code.hpp"
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
    const std::vector<std::string> fields = stat_fields(stat);
    if (fields.empty()) continue;
    const long number = leading_number<long>(call).value_or(-1);  // or "running"
    constexpr int kUnknown = 3;  // who may not read it may not trace the thread either, and is told so then
    const int suited = call.empty() ? kUnknown : suits(fields.front()[0], number);
    if (suited >= 0 && !would_be_cut(call, number)) candidates.push_back({tid, suited});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.suits < b.suits; });
  return candidates;
}

// One that ends may not be traced any more.
bool has_ended(pid_t pid, pid_t tid) {
  const std::vector<std::string> fields = stat_fields(read_text(task(pid, tid, "stat")));
  return fields.empty() || fields.front() == "Z" || fields.front() == "X";
}

// Also where its parent has not waited for it yet.
bool is_gone(pid_t pid) {
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/" + std::to_string(pid) + "/task", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (!has_ended(pid, leading_number<pid_t>(entry->path().filename().native()).value_or(0))) return false;
  return true;
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

// Before all that take turns. Not permitted to most users; going back always is, with the nice value of
// before.
bool come_first(pid_t tid, int flags = 0) {
  sched_param first{};
  first.sched_priority = ::sched_get_priority_min(SCHED_FIFO);
  return ::sched_setscheduler(tid, SCHED_FIFO | flags, &first) == 0;
}

// That a thread's children take turns can be asked for by anyone, but only with CAP_SYS_NICE can it be
// undone: tried on this thread.
bool may_undo_reset_on_fork() {
  static const bool may = [] {
    const int policy = ::sched_getscheduler(0);
    sched_param priority{};
    return policy >= 0 && ::sched_getparam(0, &priority) == 0 &&
           ::sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &priority) == 0 &&
           ::sched_setscheduler(0, policy & ~SCHED_RESET_ON_FORK, &priority) == 0;
  }();
  return may;
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

  // Makes it call pthread_create(thread, null, first code, block). A text: what went wrong.
  std::optional<std::string> start_thread(std::uint64_t system_call, std::uint64_t pthread_create,
                                          wire::AttachBlock& block, std::uint64_t& block_at);
  // It goes on where it was stopped, unless it does so already.
  void let_go();

 private:
  enum class Stop : std::uint8_t { kDone, kLate, kEnded };
  Stop wait_for_stop(std::optional<milliseconds> patience);
  bool resume_to_system_call_stop();
  std::optional<long> make_call(std::uint64_t instruction, long number,
                                const std::array<std::uint64_t, 6>& arguments);
  bool run_until(std::uint64_t landed, milliseconds most);
  bool interrupt_and_wait();
  bool is_in_restartable_code();
  bool put_into_new_memory(std::uint64_t to, const void* from, std::size_t bytes);
  void prefer();
  void prefer_no_more();
  void put_back();

  pid_t pid_, tid_;
  bool is_stopped_ = false, changed_ = false, masked_ = false;
  bool with_process_ = false;  // stopped with its process
  int policy_before_ = -1;     // it was preferred
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
  prefer();  // now that it makes no child any more, which would come first for ever
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

// Each time that it is told to do something it would have to wait for its turn: for milliseconds where others
// run on its processor, and for a tenth of a second behind 32 of them. So it comes first while it is held, if
// the kernel permits that.
void HeldThread::prefer() {
  const int policy = ::sched_getscheduler(tid_);
  const bool takes_turns = policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE;
  if (takes_turns && come_first(tid_)) policy_before_ = policy;
}

void HeldThread::prefer_no_more() {
  if (policy_before_ < 0) return;
  constexpr sched_param kNone{};
  ::sched_setscheduler(tid_, policy_before_, &kNone);
  policy_before_ = -1;
}

void HeldThread::let_go() {
  // What it makes between the two is not to come first. Not earlier: the thread that it makes for us is.
  const bool goes_on_first =
      is_stopped_ && policy_before_ >= 0 && may_undo_reset_on_fork() && come_first(tid_, SCHED_RESET_ON_FORK);
  if (!goes_on_first) prefer_no_more();
  put_back();
  prefer_no_more();
}

void HeldThread::put_back() {
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

// Lets it run until it has stored something at `landed`, which is 0, or for that long. It is not stopped to
// find out: one that waits for its turn would stop before it has done anything. If the process is stopped and
// goes on meanwhile, so does the thread.
bool HeldThread::run_until(std::uint64_t landed, milliseconds most) {
  constexpr microseconds kLook{20};
  const auto end = Clock::now() + most;
  if (trace(PTRACE_CONT, tid_) != 0) return false;
  do {
    std::uint32_t stored = 0;
    if (read_memory(pid_, landed, &stored, sizeof stored) && stored != 0) return true;
    int status = 0;
    const pid_t got = ::waitpid(tid_, &status, __WALL | WNOHANG);
    if (got < 0 || (got == tid_ && !WIFSTOPPED(status))) return false;
    if (got == tid_ && trace(PTRACE_CONT, tid_, 0, reinterpret_cast<void*>(passed_on(status))) != 0)
      return false;
    std::this_thread::sleep_for(kLook);
  } while (Clock::now() < end);
  return true;
}

// Which nobody may write to. What is 0 is there already.
bool HeldThread::put_into_new_memory(std::uint64_t to, const void* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const std::uint8_t*>(from) + at, std::min(sizeof word, bytes - at));
    if (word != 0 && trace(PTRACE_POKEDATA, tid_, to + at, reinterpret_cast<void*>(word)) != 0) return false;
  }
  return true;
}

std::optional<long> HeldThread::make_call(std::uint64_t instruction, long number,
                                          const std::array<std::uint64_t, 6>& arguments) {
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
                                                    wire::AttachBlock& block, std::uint64_t& block_at) {
  const FirstCode code = first_code();
  std::uint64_t all = ~0ull;
  masked_ = true;
  if (trace(kSetMask, tid_, sizeof all, &all) != 0) return "its signal mask cannot be set";
  const auto mapped = make_call(
      system_call, SYS_mmap, {0, kMemoryBytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, ~0ull, 0});
  const auto back_to_stop = [this] {
    // Only in such a stop the kernel looks whether a call is to be made again.
    if (trace(PTRACE_INTERRUPT, tid_) == 0 && trace(PTRACE_CONT, tid_) == 0) (void)wait_for_stop({});
  };
  if (!mapped) return "it does not do what it is told";
  constexpr long kLowestError = -4095;
  if (*mapped >= kLowestError && *mapped < 0) {
    back_to_stop();
    if (*mapped == -EACCES || *mapped == -EPERM)
      return "it may have no memory with code (a rule of the system's security?)";
    return std::string("it gets no memory: ") + std::strerror(static_cast<int>(-*mapped));
  }
  const auto memory = static_cast<std::uint64_t>(*mapped);
  const auto give_memory_back = [&] {
    (void)make_call(system_call, SYS_munmap, {memory, kMemoryBytes, 0, 0, 0, 0});
    back_to_stop();
  };
  block_at = memory + kBlockAt;
  block.path = block_at + offsetof(wire::AttachBlock, agent_path);
  block.function_name = block_at + offsetof(wire::AttachBlock, name);
  block.memory = memory;
  block.memory_bytes = kMemoryBytes;
  block.policy = policy_before_;
  if (!put_into_new_memory(memory, code.bytes.data(), code.bytes.size()) ||
      !put_into_new_memory(block_at, &block, sizeof block)) {
    give_memory_back();
    return "its memory cannot be written to";
  }

  user_regs_struct to = registers_;
  to.rip = memory + code.begin;
  to.rax = 0;
  to.orig_rax = ~0ull;
  to.eflags &= ~(kDirection | kTrap | kAlignment);
  to.r12 = block_at;
  to.r13 = pthread_create;
  if (trace(PTRACE_SETREGS, tid_, 0, &to) != 0) return "its registers cannot be set";
  const auto end = Clock::now() + kCallPatience;
  user_regs_struct at{};
  for (milliseconds most{50};; most = std::min(most * 2, milliseconds(400))) {
    if (!run_until(memory + kLandedAt, most)) return "it does not go on";
    if (!interrupt_and_wait() || trace(PTRACE_GETREGS, tid_, 0, &at) != 0) return "it has ended";
    if (at.rip >= memory + code.landing && at.rip < memory + code.bytes.size()) break;
    // Given up only where it may wait for ever: anywhere else it may hold a lock itself.
    if (Clock::now() >= end && at.orig_rax == SYS_futex) return "pthread_create has not returned";
  }
  const int error = static_cast<int>(at.rbx);
  if (error == 0) return std::nullopt;
  give_memory_back();
  return error < 0 ? std::string("it may not write to its memory: ") + std::strerror(-error)
                   : std::string("it gets no further thread: ") + std::strerror(error);
}

// The address of a `syscall` instruction in the process's libc.
std::uint64_t find_system_call(pid_t pid, std::uint64_t function) {
  std::array<std::uint8_t, 128> code{};
  constexpr std::array<std::uint8_t, 2> kInstruction = {0x0f, 0x05};
  if (function == 0 || !read_memory(pid, function, code.data(), code.size())) return 0;
  const auto found = std::search(code.begin(), code.end(), kInstruction.begin(), kInstruction.end());
  return found == code.end() ? 0 : function + static_cast<std::uint64_t>(found - code.begin());
}

// While a thread is held, this process has nothing to wait for but that thread.
void be_quick() {
  (void)come_first(0);
  (void)may_undo_reset_on_fork();
  ::prctl(PR_SET_TIMERSLACK, 1UL);
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
  block->function = there;
  block->loading.store(there == 0 ? wire::kLoading : 0);
  const bool own_malloc = memory_map.has_own_malloc();

  std::string objection = "all of its threads are in system calls that cannot be interrupted and made again";
  const auto end = Clock::now() + injection.patience;
  milliseconds pause{1};
  Injected injected;
  be_quick();
  do {
    const std::vector<Candidate> candidates = candidates_of(pid);
    if (candidates.empty() && is_gone(pid)) return failed(InjectionProblem::kGone, "it has ended meanwhile");
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
        const auto problem = thread.start_thread(system_call, pthread_create, *block, injected.block);
        if (problem) return failed(InjectionProblem::kOther, *problem);
      }
      thread.let_go();
      const std::chrono::nanoseconds held = Clock::now() - begin;
      if (is_usable) {
        injected.thread = tid;
        injected.held = held;
        return injected;
      }
      ++injected.refused;
      injected.refused_held = std::max(injected.refused_held, held);
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
  answer.is_gone = !tell(1);
  if (answer.is_gone) return answer;
  const auto end = Clock::now() + patience;
  do {
    std::uint32_t status = 0;
    if (!read_memory(pid, at(offsetof(wire::AttachBlock, status)), &status, sizeof status)) {
      answer.is_gone = true;
      return answer;
    }
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
