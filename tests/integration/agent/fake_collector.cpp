// SPDX-License-Identifier: BSD-3-Clause
#include "tests/integration/agent/fake_collector.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "formats/wire/hello.h"

extern char** environ;

namespace clusterprof::agent_test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

wire::ThreadSlot* slots(wire::SegmentHeader& segment) {
  return reinterpret_cast<wire::ThreadSlot*>(reinterpret_cast<std::uint8_t*>(&segment) +
                                             segment.thread_slots_offset);
}

// `before`: of the same thread.
Sample parse(const wire::RecordHeader& header, const std::vector<Sample>& before) {
  Sample sample;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&header);
  std::memcpy(&sample.record, bytes, sizeof sample.record);
  const auto* values = reinterpret_cast<const std::uint64_t*>(bytes + sizeof sample.record);
  sample.counters.assign(values, values + sample.record.counter_count);
  values += sample.record.counter_count;
  const std::uint32_t shared = sample.record.shared_words;
  sample.words.assign(values, values + sample.record.frame_words - shared);
  if (shared != 0) {
    if (before.empty() || before.back().words.size() < shared)
      throw std::runtime_error("a record shares more words than the one before it has");
    sample.words.insert(sample.words.end(), before.back().words.end() - shared, before.back().words.end());
  }
  return sample;
}

class Collector {
 public:
  Collector(const std::string& name, bool drain, bool turned_off, bool changes_windows)
      : drain_(drain),
        turned_off_(turned_off),
        changes_windows_(changes_windows),
        listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), bytes) != 0 || listen(listener_, 64) != 0)
      throw std::runtime_error("cannot listen");
    thread_ = std::thread([this] { loop(); });
  }
  ~Collector() {
    if (thread_.joinable()) finish();
    close(listener_);
    for (const int connection : connections_) close(connection);
  }

  std::vector<ProcessLog> finish() {
    stop_ = true;
    thread_.join();
    take_greetings();
    drain();
    note_look();
    for (Process& process : processes_)
      for (auto& [index, log] : process.live) process.log.threads.push_back(log);
    std::vector<ProcessLog> logs;
    for (Process& process : processes_) logs.push_back(process.log);
    return logs;
  }

  // After finish().
  const std::vector<wire::Refusal>& refusals() const { return refusals_; }
  double longest_unread_s() const { return std::chrono::duration<double>(longest_unread_).count(); }

 private:
  struct Process {
    ProcessLog log;
    std::map<std::uint32_t, ThreadLog> live;
  };

  void loop() {
    // Before the other tests, if that is permitted: at a high rate a ring is full in less than a second.
    (void)setpriority(PRIO_PROCESS, 0, -20);  // of this thread
    while (!stop_) {
      pollfd waiting = {listener_, POLLIN, 0};
      poll(&waiting, 1, changes_windows_ ? 3 : 20);
      take_greetings();
      if (changes_windows_) change_windows();
      if (drain_) drain();
      note_look();
    }
  }

  void change_windows() {
    ++window_;
    for (Process& process : processes_) {
      std::atomic<std::uint32_t>& word = process.log.segment->window_wanted;
      word.store(wire::window_word(window_, window_ % 2 == 1), std::memory_order_release);
      (void)syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
  }

  void note_look() {
    const Clock::time_point now = Clock::now();
    longest_unread_ = std::max(longest_unread_, now - looked_);
    looked_ = now;
  }

  void take_greetings() {
    while (true) {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      pollfd waiting = {listener_, POLLIN, 0};
      if (connection >= 0) greet(connection);
      if (poll(&waiting, 1, 0) <= 0) return;
    }
  }

  void greet(int connection) {
    pollfd waiting = {connection, POLLIN, 0};
    poll(&waiting, 1, 60'000);               // it may lose its processor between connecting and greeting
    alignas(wire::Refusal) char data[2048];  // with a command line
    iovec part = {data, sizeof data};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t bytes = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
    wire::Refusal refusal = {};
    if (bytes >= static_cast<ssize_t>(sizeof refusal)) std::memcpy(&refusal, data, sizeof refusal);
    if (refusal.magic == wire::kRefusalMagic) {
      refusals_.push_back(refusal);
      close(connection);
      return;
    }
    wire::Hello hello = {};
    std::memcpy(&hello, data, sizeof hello);
    const cmsghdr* rights = CMSG_FIRSTHDR(&message);
    if (bytes != sizeof hello || hello.magic != wire::kHelloMagic || rights == nullptr)
      throw std::runtime_error("bad greeting");
    int file = -1;
    std::memcpy(&file, CMSG_DATA(rights), sizeof file);
    void* memory = mmap(nullptr, hello.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) throw std::runtime_error("cannot map the segment");
    Process process;
    const std::size_t size = hello.segment_bytes;
    process.log.segment = std::shared_ptr<wire::SegmentHeader>(
        static_cast<wire::SegmentHeader*>(memory), [size](void* mapped) { munmap(mapped, size); });
    process.log.pid = hello.pid;
    if (turned_off_) process.log.segment->turned_off_ns.store(1, std::memory_order_release);
    processes_.push_back(std::move(process));
    connections_.push_back(connection);
  }

  void drain() {
    for (Process& process : processes_) {
      wire::SegmentHeader& segment = *process.log.segment;
      for (std::uint32_t i = 0; i < segment.thread_slots; ++i) {
        wire::ThreadSlot& slot = slots(segment)[i];
        const auto state = static_cast<wire::ThreadState>(slot.state.load(std::memory_order_acquire));
        if (state == wire::ThreadState::kFree) continue;
        ThreadLog& log = process.live[i];
        log.tid = slot.tid;
        log.is_main = slot.is_main != 0;
        log.name = slot.name;
        log.start_time_ns = slot.start_time_ns;
        log.start_cpu_ns = slot.start_cpu_ns;
        if (!wire::ring_drain(slot.ring, [&](const wire::RecordHeader& header) {
              if (header.type == wire::kSample) log.samples.push_back(parse(header, log.samples));
            }))
          process.log.ring_damaged = true;
        if (state != wire::ThreadState::kEnded) continue;
        log.ended = true;
        process.log.threads.push_back(log);
        process.live.erase(i);
        slot.state.store(static_cast<std::uint32_t>(wire::ThreadState::kFree), std::memory_order_release);
      }
    }
  }

  bool drain_, turned_off_, changes_windows_;
  std::uint32_t window_ = 0;
  int listener_;
  std::atomic<bool> stop_ = false;
  Clock::time_point looked_ = Clock::now();
  Clock::duration longest_unread_{};
  std::vector<Process> processes_;
  std::vector<wire::Refusal> refusals_;
  std::vector<int> connections_;
  std::thread thread_;
};

Outcome execute(const std::vector<std::string>& command, const std::vector<std::string>& added) {
  std::vector<std::string> environment;
  // What is set around the test would be settings of the agent's, or show in what programs print.
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!std::string_view(*entry).starts_with("CLUSTERPROF_")) environment.emplace_back(*entry);
  for (const std::string& variable : added) {  // the last one counts
    const std::string name = variable.substr(0, variable.find('=') + 1);
    std::erase_if(environment, [&](const std::string& other) { return other.starts_with(name); });
    environment.push_back(variable);
  }
  std::vector<char*> arguments, variables;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  for (const std::string& variable : environment) variables.push_back(const_cast<char*>(variable.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const auto start = Clock::now();
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed != 0) throw std::runtime_error("cannot run " + command[0]);
  Outcome outcome;
  char buffer[4096];
  ssize_t bytes = 0;
  while ((bytes = read(ends[0], buffer, sizeof buffer)) > 0)
    outcome.output.append(buffer, static_cast<std::size_t>(bytes));
  close(ends[0]);
  waitpid(pid, &outcome.wait_status, 0);
  outcome.elapsed_s = std::chrono::duration<double>(Clock::now() - start).count();
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    double number = 0;
    if (words >> name >> number) outcome.numbers[name] = number;
  }
  return outcome;
}

}  // namespace

std::size_t ThreadLog::count(wire::Trigger trigger) const {
  std::size_t found = 0;
  for (const Sample& sample : samples) found += sample.record.trigger == trigger ? 1 : 0;
  return found;
}

std::uint64_t ThreadLog::ticks() const {
  std::uint64_t sum = 0;
  for (const Sample& sample : samples) sum += sample.record.header.detail;
  return sum;
}

double ThreadLog::seconds() const {
  if (samples.empty()) return 0;
  return static_cast<double>(samples.back().record.time_ns - start_time_ns) * 1e-9;
}

const ThreadLog* ProcessLog::main_thread() const {
  for (const ThreadLog& thread : threads)
    if (thread.is_main) return &thread;
  return nullptr;
}

std::uint64_t ProcessLog::drops(wire::DropReason reason) const {
  return segment->drops[static_cast<std::uint32_t>(reason)].load();
}

Outcome run(const std::vector<std::string>& command, const std::vector<std::string>& environment, bool drain,
            bool turned_off, bool changes_windows) {
  static std::atomic<int> runs = 0;
  const std::string name = "clusterprof-test/" + std::to_string(getpid()) + "/" + std::to_string(++runs);
  std::vector<std::string> added = {std::string(wire::kSocketVariable) + "=" + name,
                                    std::string(wire::kRankVariable) + "=3",
                                    std::string(wire::kWorldSizeVariable) + "=8",
                                    std::string(wire::kPreloadVariable) + "=" + CLUSTERPROF_TEST_AGENT,
                                    std::string("LD_PRELOAD=") + CLUSTERPROF_TEST_AGENT};
  added.insert(added.end(), environment.begin(), environment.end());
  Collector collector(name, drain, turned_off, changes_windows);
  Outcome outcome = execute(command, added);
  outcome.processes = collector.finish();
  outcome.refusals = collector.refusals();
  outcome.longest_unread_s = collector.longest_unread_s();
  return outcome;
}

Outcome run_bare(const std::vector<std::string>& command) { return execute(command, {}); }

}  // namespace clusterprof::agent_test
