// SPDX-License-Identifier: BSD-3-Clause
// The collector as a process, greeted by launchers and agents that the test plays itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/unique_fd.hpp"
#include "formats/shard/shard_reader.hpp"
#include "formats/wire/hello.h"
#include "tests/integration/collector/collector_faults.hpp"
#include "tests/unit/collector/fake_segment.hpp"

namespace clusterprof {
namespace {

using std::chrono::milliseconds;
using test::FakeSegment;
using test::python_word;

constexpr std::uint64_t kMs = 1'000'000;
constexpr int kPatienceMs = 60'000;  // with a machine that has other things to do

std::uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

bool readable(int fd, int timeout_ms) {
  pollfd look{fd, POLLIN, 0};
  return poll(&look, 1, timeout_ms) == 1;
}

sockaddr_un socket_address(const std::string& name, socklen_t& bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

UniqueFd connect_to(const std::string& name) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  socklen_t bytes = 0;
  const sockaddr_un address = socket_address(name, bytes);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) fd.reset();
  return fd;
}

// With a file if it is not -1.
template <typename T>
bool send_with(const UniqueFd& socket, T message, int file) {
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (file >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* const c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &file, sizeof file);
  }
  return sendmsg(socket.get(), &header, MSG_NOSIGNAL) == sizeof message;
}

// The collector's answer, 0 without one.
std::uint8_t announce(const std::string& name, std::int32_t rank, std::int32_t world_size, int file = -1) {
  const UniqueFd fd = connect_to(name);
  const wire::Announce message{
      wire::kAnnounceMagic, wire::kWireMajor, wire::kWireMinor, getpid(), rank, world_size, -1, 0, 0};
  std::uint8_t answer = 0;
  if (!send_with(fd, message, file) || !readable(fd.get(), kPatienceMs) || recv(fd.get(), &answer, 1, 0) != 1)
    return 0;
  return answer;
}

// The socket must stay open as long as the "agent" lives.
UniqueFd hello(const std::string& name, FakeSegment& segment, std::int32_t rank) {
  UniqueFd fd = connect_to(name);
  const wire::Hello message{wire::kHelloMagic, wire::kWireMajor, wire::kWireMinor, getpid(), rank,
                            segment.bytes()};
  if (!send_with(fd, message, segment.fd())) fd.reset();
  return fd;
}

// A filter of system calls, as a kernel before 6.5: who is at the other end of a socket has no descriptor.
void hide_peer_processes() {
  constexpr std::uint32_t kSoPeerPidfd = 77;
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 0, 3),
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kSoPeerPidfd, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{sizeof code / sizeof code[0], code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(98);
}

// A process that plays a rank: runs `body` and ends with its result, when told to.
class Rank {
 public:
  explicit Rank(const std::function<int(const std::function<void()>&)>& body) {
    int go[2], ready[2];
    if (pipe2(go, O_CLOEXEC) != 0 || pipe2(ready, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      // Nothing of the test's own may stay open here: others wait for its end.
      dup2(go[0], 100);
      dup2(ready[1], 101);
      close_range(3, 99, 0);
      close_range(102, ~0u, 0);
      const auto wait = [] {
        (void)!write(101, "r", 1);
        char byte;
        (void)!read(100, &byte, 1);
      };
      _exit(body(wait));
    }
    close(go[0]);
    close(ready[1]);
    go_.reset(go[1]);
    ready_.reset(ready[0]);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    go_.reset();
    if (!waited_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  // It has done its part and waits to be told to end.
  [[nodiscard]] bool is_ready() {
    char byte;
    return readable(ready_.get(), kPatienceMs) && read(ready_.get(), &byte, 1) == 1;
  }
  void go_on() { (void)!write(go_.get(), "g", 1); }
  [[nodiscard]] pid_t pid() const { return pid_; }
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    waited_ = true;
    return status;
  }

 private:
  pid_t pid_ = -1;
  bool waited_ = false;
  UniqueFd go_, ready_;
};

class CollectorProcess : public testing::Test {
 protected:
  CollectorProcess() {
    char name[] = "/tmp/clusterprof-collector-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
    socket_ = "clusterprof-test/" + std::to_string(getpid()) + "/" + directory_.filename().string();
  }
  ~CollectorProcess() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(directory_);
  }

  void start(std::vector<std::string> options = {},
             std::vector<std::string> command = {"./program", "-n", "5"}) {
    UniqueFd listening(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    socklen_t bytes = 0;
    const sockaddr_un address = socket_address(socket_, bytes);
    ASSERT_EQ(bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0);
    ASSERT_EQ(listen(listening.get(), 64), 0);
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    control_.reset(pair[0]);
    fcntl(pair[0], F_SETFD, FD_CLOEXEC);
    UniqueFd theirs(pair[1]);
    std::vector<std::string> words = {COLLECTOR_PATH,
                                      "--listen-fd",
                                      std::to_string(listening.get()),
                                      "--control-fd",
                                      std::to_string(theirs.get()),
                                      "--run-dir",
                                      directory_.string(),
                                      "--run-id",
                                      "run-1",
                                      "--node",
                                      "n0",
                                      "--rate",
                                      "100",
                                      "--clock",
                                      "wall"};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("--");
    words.insert(words.end(), command.begin(), command.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::string errors = (directory_ / "stderr").string();
    const UniqueFd own_namespace(open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
    if (own_pid_namespace_) {
      ASSERT_EQ(unshare(CLONE_NEWPID), 0);
    }
    pid_ = fork();
    if (own_pid_namespace_ && pid_ != 0) {
      ASSERT_EQ(setns(own_namespace.get(), CLONE_NEWPID), 0);
    }
    if (pid_ == 0) {
      const int fd = open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      dup2(errors_ ? errors_.get() : fd, 2);
      // LeakSanitizer takes the thread that it makes for a stranger there.
      if (own_pid_namespace_) setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
      if (hides_peer_processes_) hide_peer_processes();
      if (faults_ != nullptr) {
        setenv("LD_PRELOAD", COLLECTOR_FAULTS, 1);
        setenv(test::kFaultsVariable, (directory_ / "faults").c_str(), 1);
      }
      if (file_limit_ != 0) {
        const rlimit limit{file_limit_ / 2, file_limit_};
        setrlimit(RLIMIT_NOFILE, &limit);
      }
      execv(arguments[0], arguments.data());
      _exit(99);
    }
  }
  // Lets calls of the collector fail. Before start().
  void prepare_faults() {
    const UniqueFd file(open((directory_ / "faults").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(ftruncate(file.get(), sizeof(test::Faults)), 0);
    void* const memory =
        mmap(nullptr, sizeof(test::Faults), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    ASSERT_NE(memory, MAP_FAILED);
    faults_ = static_cast<test::Faults*>(memory);
  }
  void tell(wire::ControlType type, std::int32_t a, std::int32_t b) {
    const wire::Control control{type, a, b};
    ASSERT_EQ(send(control_.get(), &control, sizeof control, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof control));
  }
  // The collector's next message, but for the number of ranks; nothing at its end.
  std::optional<wire::Control> told(int timeout_ms) {
    wire::Control control{};
    do {
      if (!readable(control_.get(), timeout_ms)) return std::nullopt;
      if (recv(control_.get(), &control, sizeof control, 0) != sizeof control) return std::nullopt;
      if (control.type == wire::ControlType::kRanksSeen) ranks_seen_ = control.a;
    } while (control.type == wire::ControlType::kRanksSeen);
    return control;
  }
  // Its exit status; -1 when it does not end in time.
  int finish(int timeout_ms = kPatienceMs) {
    for (int waited = 0; waited < timeout_ms; waited += 10) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
    return -1;
  }
  shard::ShardData shard(const std::string& name = "node-n0.h5") {
    auto read = shard::read_shard(directory_ / name);
    EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().message);
    return read.ok() ? std::move(read).value() : shard::ShardData{};
  }
  // When the shard was written that comes after the one of that time; the time of the first, if that is
  // empty. By then the collector looks at its signals, and has accepted who had connected long before.
  std::filesystem::file_time_type await_shard_after(std::filesystem::file_time_type before) {
    const std::filesystem::path path = directory_ / "node-n0.h5";
    std::error_code error;
    auto written = std::filesystem::file_time_type{};
    for (int waited = 0; waited < kPatienceMs; waited += 10) {
      written = std::filesystem::last_write_time(path, error);
      if (!error && written != before) return written;
      std::this_thread::sleep_for(milliseconds(10));
    }
    ADD_FAILURE() << "no shard within " << kPatienceMs << " ms";
    return written;
  }
  std::string errors() {
    std::ifstream file(directory_ / "stderr");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // What a sampled rank does: greets, samples for 100 ms of its own time, says goodbye.
  int play_rank(std::int32_t rank, int status, const std::function<void()>& wait, bool announced = true,
                bool goodbye = true) {
    if (announced) {
      const UniqueFd self(sends_itself_ ? static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)) : -1);
      if (announce(socket_, rank, 2, self.get()) != wire::kAnnounceAccepted) return 90;
    }
    FakeSegment segment;
    auto& h = segment.header();
    const std::uint64_t start = now_ns() - 1000 * kMs;
    h.pid = getpid();
    h.parent_pid = getppid();
    h.rank = rank;
    h.world_size = 2;
    h.start_mono_ns = start;
    h.start_realtime_ns = static_cast<std::uint64_t>(time(nullptr)) * 1'000'000'000;
    h.mpi_rank = mpi_size_ > 0 ? rank : -1;
    h.mpi_size = mpi_size_;
    if (mpi_size_ > 0) h.mpi_state = static_cast<std::uint32_t>(wire::MpiState::kFinalised);
    segment.code(7, "train.py", "step", 80);
    segment.thread(0, getpid(), start, true);
    const UniqueFd socket = hello(socket_, segment, rank);
    if (!socket) return 91;
    FakeSegment::Sample sample;
    sample.words = {python_word(wire::kInstructionNotStarted), 7};
    for (std::uint64_t i = 1; i <= 10; ++i) {
      sample.time_ns = start + i * 10 * kMs;
      sample.cpu_ns = i * 10 * kMs;
      segment.sample(0, sample);
    }
    segment.communicator(0, 1, 2, "MPI_COMM_WORLD");
    segment.site(0, 16, 0, 4, 400, 100, 100, 32, 0, {python_word(wire::kInstructionNotStarted), 7});
    segment.peer(0, rank, 1 - rank, 4, 32);
    for (std::uint32_t i = 0; i < events_; ++i) {
      wire::MpiEvent event{};
      event.enter_ns = event.start_ns = start + (i + 1) * kMs / 10;
      event.exit_ns = event.enter_ns + kMs / 20;
      event.mpi_ns = i * (kMs / 20);
      event.channel = 1;
      event.op = 16;
      event.kind = wire::MpiEventKind::kCollective;
      event.peer = -1;
      event.sequence = i;
      if (!segment.mpi_event(0, event)) return 92;
    }
    wait();
    for (std::uint64_t i = 11; i <= 10 + late_samples_; ++i) {
      sample.time_ns = start + i * 10 * kMs;
      sample.cpu_ns = i * 10 * kMs;
      segment.sample(0, sample);
    }
    if (!goodbye) return status;
    segment.thread_end(0, start + 100 * kMs, 100 * kMs);
    h.exit_status = status;
    h.exit_flags = wire::kExitStatusKnown;
    h.end_mono_ns = start + 100 * kMs;
    return status;
  }

  std::filesystem::path directory_;
  std::string socket_;
  pid_t pid_ = -1;
  UniqueFd control_;
  int ranks_seen_ = -1;
  rlim_t file_limit_ = 0;           // of the collector; 0: ours
  std::int32_t mpi_size_ = -1;      // of play_rank
  std::uint32_t events_ = 0;        // the same
  std::uint32_t late_samples_ = 0;  // the same: when it has waited
  bool sends_itself_ = false;       // the same: a pidfd comes with its announcement
  bool own_pid_namespace_ = false, hides_peer_processes_ = false;  // of the collector
  UniqueFd errors_;                                                // its stderr in place of a file
  test::Faults* faults_ = nullptr;
};

TEST_F(CollectorProcess, RecordsTwoRanksExactly) {
  start({"--local-ranks", "2", "--world-size", "2"});
  Rank first([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, first.pid(), 0);
  Rank second([&](const auto& wait) { return play_rank(1, 0, wait); });
  ASSERT_TRUE(first.is_ready());
  ASSERT_TRUE(second.is_ready());
  first.go_on();
  tell(wire::ControlType::kChildExited, first.pid(), first.wait());
  second.go_on();
  EXPECT_EQ(second.wait(), 0);
  EXPECT_FALSE(told(kPatienceMs));  // end of file
  EXPECT_EQ(ranks_seen_, 2);
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(errors(), "");

  const shard::ShardData data = shard();
  EXPECT_TRUE(data.run.complete);
  EXPECT_EQ(data.run.id, "run-1");
  EXPECT_EQ(data.run.command, (std::vector<std::string>{"./program", "-n", "5"}));
  EXPECT_EQ(data.run.world_size, 2u);
  EXPECT_TRUE(data.run.notes.empty());
  ASSERT_EQ(data.ranks.size(), 2u);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const shard::Rank& rank = data.ranks[i];
    EXPECT_EQ(rank.rank, static_cast<std::int32_t>(i));
    EXPECT_EQ(rank.pid, i == 0 ? first.pid() : second.pid());
    EXPECT_EQ(rank.samples, 10u);
    EXPECT_EQ(rank.elapsed_ns, 100 * kMs);
    EXPECT_EQ(rank.main_thread_ns[0], 100 * kMs);
    EXPECT_EQ(rank.exit_status, 0);
    EXPECT_NE(rank.flags & shard::kExitStatusKnown, 0u);
    EXPECT_EQ(rank.flags & shard::kLost, 0u);
  }
  ASSERT_EQ(data.values.size(), 2u);
  EXPECT_EQ(data.values[0].wall_ns, 100 * kMs);
  EXPECT_EQ(data.values[0].samples, 10u);
  EXPECT_EQ(data.values[0].path, data.values[1].path);
  const shard::Frame& leaf = data.frames[data.paths[data.values[0].path].frame];
  EXPECT_EQ(data.strings[leaf.name], "step");
  EXPECT_EQ(leaf.line, 80u);
  ASSERT_EQ(data.mpi_calls.size(), 2u);
  EXPECT_EQ(data.mpi_calls[0].count, 4u);
  ASSERT_EQ(data.matrix.size(), 2u);
  EXPECT_EQ(data.matrix[0].bytes, 32u);
  ASSERT_EQ(data.nodes.size(), 1u);
  EXPECT_GT(data.nodes[0].collector_cpu_ns, 0u);
  EXPECT_GT(data.nodes[0].collector_max_rss_bytes, 0u);
}

TEST_F(CollectorProcess, KeepsTheSamplesOfAKilledRank) {
  start({"--local-ranks", "1"});
  Rank rank([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, rank.pid(), 0);
  ASSERT_TRUE(rank.is_ready());
  kill(rank.pid(), SIGKILL);
  tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
  EXPECT_EQ(finish(), 0);
  const shard::ShardData data = shard();
  ASSERT_EQ(data.ranks.size(), 1u);
  EXPECT_EQ(data.ranks[0].samples, 10u);
  EXPECT_EQ(data.ranks[0].exit_signal, SIGKILL);
  EXPECT_NE(data.ranks[0].flags & shard::kLost, 0u);
  // Until its death, not only until its last sample.
  EXPECT_GE(data.ranks[0].main_thread_ns[0], 1000 * kMs);
  EXPECT_EQ(data.ranks[0].main_thread_ns[0], data.ranks[0].elapsed_ns);
}

TEST_F(CollectorProcess, FindsTheExitStatusOfARankThatIsNotAChild) {
  start({"--local-ranks", "1"});
  control_.reset();  // no launcher left
  Rank rank([&](const auto& wait) { return play_rank(0, 7, wait, true, false); });
  ASSERT_TRUE(rank.is_ready());
  rank.go_on();
  EXPECT_EQ(finish(), 0);  // while it is a zombie
  EXPECT_EQ(WEXITSTATUS(rank.wait()), 7);
  const shard::ShardData data = shard();
  ASSERT_EQ(data.ranks.size(), 1u);
  EXPECT_EQ(data.ranks[0].exit_status, 7);
  EXPECT_EQ(data.ranks[0].flags & shard::kLost, 0u);
}

TEST_F(CollectorProcess, RecordsARankWithoutAnAgent) {
  start({"--local-ranks", "1"});
  Rank rank([](const auto& wait) {
    wait();
    return 5;
  });
  tell(wire::ControlType::kChildStarted, rank.pid(), 0);
  ASSERT_TRUE(rank.is_ready());
  await_shard_after({});  // it knows of the rank from before that
  std::this_thread::sleep_for(milliseconds(400));
  rank.go_on();
  tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
  EXPECT_EQ(finish(), 0);
  const shard::ShardData data = shard();
  ASSERT_EQ(data.ranks.size(), 1u);
  EXPECT_EQ(data.ranks[0].exit_status, 5);
  EXPECT_EQ(data.ranks[0].samples, 0u);
  EXPECT_GE(data.ranks[0].elapsed_ns, 100 * kMs);
  ASSERT_EQ(data.run.notes.size(), 1u);
}

TEST_F(CollectorProcess, ReleasesTheLauncherOfAFailedProgramWhileOthersRun) {
  start({"--local-ranks", "2"});
  Rank first([&](const auto& wait) { return play_rank(0, 3, wait, false); });
  tell(wire::ControlType::kChildStarted, first.pid(), 0);
  Rank second([&](const auto& wait) { return play_rank(1, 0, wait); });
  ASSERT_TRUE(first.is_ready());
  ASSERT_TRUE(second.is_ready());
  first.go_on();
  tell(wire::ControlType::kChildExited, first.pid(), first.wait());
  const auto release = told(kPatienceMs);
  ASSERT_TRUE(release);
  EXPECT_EQ(release->type, wire::ControlType::kRelease);
  const shard::ShardData before = shard();  // on disk by then
  EXPECT_FALSE(before.run.complete);
  ASSERT_EQ(before.ranks.size(), 2u);
  EXPECT_EQ(before.ranks[0].exit_status, 3);
  EXPECT_EQ(before.ranks[1].samples, 10u);
  control_.reset();  // the launcher exits
  second.go_on();
  second.wait();
  EXPECT_EQ(finish(), 0);
  EXPECT_TRUE(shard().run.complete);
}

// Where the rank has more to do, the others may wait for that.
TEST_F(CollectorProcess, ReleasesTheLauncherOfARankThatMayGoOn) {
  start({"--local-ranks", "2", "--others-patience", "1"});
  Rank first([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, first.pid(), 0);
  Rank second([&](const auto& wait) { return play_rank(1, 0, wait); });
  ASSERT_TRUE(first.is_ready());
  ASSERT_TRUE(second.is_ready());
  first.go_on();
  tell(wire::ControlType::kChildExited, first.pid(), first.wait());
  const auto release = told(kPatienceMs);
  ASSERT_TRUE(release);
  EXPECT_EQ(release->type, wire::ControlType::kRelease);
  const shard::ShardData before = shard();  // on disk by then
  ASSERT_EQ(before.ranks.size(), 2u);
  EXPECT_EQ(before.ranks[0].exit_status, 0);
  control_.reset();  // the launcher exits
  Rank next([&](const auto& wait) { return play_rank(0, 0, wait); });
  ASSERT_TRUE(next.is_ready());
  second.go_on();
  next.go_on();
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(next.wait(), 0);
  EXPECT_EQ(finish(), 0);
  EXPECT_TRUE(shard().run.complete);
}

TEST_F(CollectorProcess, ReleasesTheLauncherAtOnceWhenAnotherRankHasGoneOn) {
  start({"--local-ranks", "2", "--others-patience", "600"});
  Rank first([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, first.pid(), 0);
  Rank second([&](const auto& wait) { return play_rank(1, 0, wait); });
  ASSERT_TRUE(first.is_ready());
  ASSERT_TRUE(second.is_ready());
  first.go_on();
  tell(wire::ControlType::kChildExited, first.pid(), first.wait());
  Rank next([&](const auto& wait) { return play_rank(1, 0, wait); });
  ASSERT_TRUE(next.is_ready());
  const auto release = told(kPatienceMs);
  ASSERT_TRUE(release);
  EXPECT_EQ(release->type, wire::ControlType::kRelease);
  control_.reset();
  second.go_on();
  next.go_on();
  EXPECT_EQ(finish(), 0);
}

TEST_F(CollectorProcess, KeepsTheLauncherWhoseRankHasEnded) {
  start({"--local-ranks", "2"});
  Rank first([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, first.pid(), 0);
  Rank second([&](const auto& wait) { return play_rank(1, 0, wait); });
  ASSERT_TRUE(first.is_ready());
  ASSERT_TRUE(second.is_ready());
  first.go_on();
  tell(wire::ControlType::kChildExited, first.pid(), first.wait());
  EXPECT_FALSE(readable(control_.get(), 2000));
  second.go_on();
  EXPECT_FALSE(told(kPatienceMs));  // end of file
  EXPECT_EQ(finish(), 0);
}

TEST_F(CollectorProcess, WritesAtOnceOnSigtermAndGoesOn) {
  start({"--checkpoint", "600"});  // none by itself after the first one
  Rank rank([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, rank.pid(), 0);
  ASSERT_TRUE(rank.is_ready());
  const auto first = await_shard_after({});
  kill(pid_, SIGHUP);
  kill(pid_, SIGINT);
  kill(pid_, SIGTERM);
  await_shard_after(first);
  EXPECT_EQ(shard().ranks.at(0).samples, 10u);
  EXPECT_FALSE(shard().run.complete);
  EXPECT_EQ(waitpid(pid_, nullptr, WNOHANG), 0);
  rank.go_on();
  tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
  EXPECT_EQ(finish(), 0);
  EXPECT_TRUE(shard().run.complete);
}

TEST_F(CollectorProcess, IgnoresSignalsMeantForTheProgram) {
  start();
  Rank rank([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, rank.pid(), 0);
  ASSERT_TRUE(rank.is_ready());
  const std::filesystem::path claim = directory_ / ".node-n0.claim";
  for (int i = 0; i < kPatienceMs / 10 && !std::filesystem::exists(claim); ++i)
    std::this_thread::sleep_for(milliseconds(10));  // until it has begun
  ASSERT_TRUE(std::filesystem::exists(claim));
  for (const int number :
       {SIGUSR1, SIGUSR2, SIGQUIT, SIGABRT, SIGSEGV, SIGALRM, SIGXCPU, SIGTSTP, SIGTTIN, SIGRTMIN, SIGRTMAX})
    ASSERT_EQ(kill(pid_, number), 0);
  for (int i = 0; i < kPatienceMs / 10 && !std::filesystem::exists(directory_ / "node-n0.h5"); ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(shard().ranks.at(0).samples, 10u);
  // From here on, killing it leaves nothing to be removed.
  for (int i = 0; i < kPatienceMs / 10 && std::filesystem::exists(claim); ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_FALSE(std::filesystem::exists(claim));
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, WNOHANG | WUNTRACED), 0);
  rank.go_on();
  tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
  EXPECT_EQ(finish(), 0);
  EXPECT_TRUE(shard().run.complete);
}

TEST_F(CollectorProcess, TakesAnotherNameIfTheNodeHasAShard) {
  for (const char* const name : {"node-n0.h5", "node-n0.2.h5"}) {
    start();
    control_.reset();
    EXPECT_EQ(finish(), 0);
    EXPECT_TRUE(shard(name).ranks.empty());
  }
  EXPECT_FALSE(std::filesystem::exists(directory_ / "node-n0.3.h5"));
}

TEST_F(CollectorProcess, TakesAnotherNameIfTheNameIsClaimed) {
  const std::filesystem::path claim = directory_ / ".node-n0.claim";
  std::ofstream(claim) << "x";
  start();
  control_.reset();
  EXPECT_EQ(finish(), 0);
  EXPECT_TRUE(shard("node-n0.2.h5").ranks.empty());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "node-n0.h5"));
  EXPECT_TRUE(std::filesystem::exists(claim));
  EXPECT_FALSE(std::filesystem::exists(directory_ / ".node-n0.2.claim"));
}

TEST_F(CollectorProcess, KeepsTheCommandUnchanged) {
  const std::vector<std::string> command = {"./program", "[a,b]", "--", "-x", "", "--node=y", "{c}"};
  start({}, command);
  control_.reset();
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(shard().run.command, command);
}

TEST_F(CollectorProcess, RecordsOnlyTheRanksAskedFor) {
  start({"--world-size", "4", "--ranks=1,3", "--wait-ranks=2", "--banner-rank=1", "--banner",
         "--analyze=/bin/echo"});
  Rank rank([&](const auto& wait) { return play_rank(1, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, rank.pid(), 1);
  ASSERT_TRUE(rank.is_ready());
  rank.go_on();
  tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
  EXPECT_FALSE(told(kPatienceMs));
  EXPECT_EQ(ranks_seen_, 1);
  EXPECT_EQ(finish(), 0);
  const shard::ShardData data = shard();
  EXPECT_EQ(data.run.world_size, 0u);
  EXPECT_EQ(data.run.notes, std::vector{note_of_run(shard::NoteCode::kOnlySomeRanks, 0, "1,3")});
}

TEST_F(CollectorProcess, DoesNotWaitForRanksThatMpiFinishedWithout) {
  mpi_size_ = 2;
  start({"--local-ranks", "2", "--world-size", "2"});
  Rank rank([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, rank.pid(), 0);
  ASSERT_TRUE(rank.is_ready());
  rank.go_on();
  tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
  EXPECT_EQ(finish(5000), 0);
  EXPECT_EQ(shard().ranks.size(), 1u);
}

TEST_F(CollectorProcess, SurvivesMoreConnectionsThanFileDescriptors) {
  file_limit_ = 64;
  start({"--local-ranks", "1"});
  Rank rank([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, rank.pid(), 0);
  ASSERT_TRUE(rank.is_ready());
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 50; ++i) {
    silent.push_back(connect_to(socket_));
    ASSERT_TRUE(silent.back());
  }
  std::this_thread::sleep_for(milliseconds(700));
  silent.clear();
  // There is room again.
  Rank late([&](const auto& wait) { return play_rank(1, 0, wait); });
  ASSERT_TRUE(late.is_ready());
  late.go_on();
  EXPECT_EQ(late.wait(), 0);
  rank.go_on();
  tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
  EXPECT_EQ(finish(), 0);
  const shard::ShardData data = shard();
  EXPECT_EQ(data.ranks.size(), 2u);
  EXPECT_LT(data.nodes.at(0).collector_cpu_ns, 400 * kMs);  // it did not spin
  EXPECT_EQ(data.run.notes, std::vector{note_of_node(shard::NoteCode::kTooManyFiles, "n0", 64)});
}

TEST_F(CollectorProcess, WritesMpiEventsToCheckpointsAndTheLastShard) {
  events_ = 900;
  mpi_size_ = 2;
  start({"--local-ranks", "2", "--world-size", "2"});
  Rank first([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, first.pid(), 0);
  Rank second([&](const auto& wait) { return play_rank(1, 0, wait); });
  ASSERT_TRUE(first.is_ready());
  ASSERT_TRUE(second.is_ready());
  const auto first_shard = await_shard_after({});
  kill(pid_, SIGTERM);  // writes a shard at once, which has all that is there
  await_shard_after(first_shard);
  const shard::ShardData before = shard();
  EXPECT_FALSE(before.run.complete);
  EXPECT_EQ(before.mpi_events.size(), 1800u);
  first.go_on();
  tell(wire::ControlType::kChildExited, first.pid(), first.wait());
  second.go_on();
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(finish(), 0);

  const shard::ShardData data = shard();
  ASSERT_EQ(data.ranks.size(), 2u);
  ASSERT_EQ(data.mpi_events.size(), 1800u);
  for (std::uint32_t i = 0; i < 1800; ++i) {
    const shard::MpiEvent& event = data.mpi_events[i];
    EXPECT_EQ(event.rank, i / 900);
    EXPECT_EQ(event.sequence, i % 900);
    EXPECT_EQ(data.communicators.at(event.communicator).name, "MPI_COMM_WORLD");
    EXPECT_EQ(data.strings[data.frames[data.paths[event.path].frame].name], data.strings[event.op]);
  }
  // Half of the time between two of them is outside MPI; the last sample covers all.
  ASSERT_EQ(data.event_gaps.size(), 1800u);
  for (std::size_t i = 1; i < 900; ++i) {
    EXPECT_EQ(data.event_gaps[i].event, i);
    EXPECT_EQ(data.event_gaps[i].wall_ns, kMs / 20);
    EXPECT_EQ(data.strings[data.frames[data.paths[data.event_gaps[i].path].frame].name], "step");
  }
  EXPECT_EQ(data.ranks[0].mpi_operations, 900u);
  EXPECT_EQ(data.ranks[0].event_level, 0u);
}

TEST_F(CollectorProcess, TakesTheEventBudgetFromTheEnvironment) {
  for (const auto& [text, most, note] :
       {std::tuple("100", 100u, false), std::tuple("0", 0u, false), std::tuple("many", 900u, true)}) {
    SCOPED_TRACE(text);
    events_ = 900;
    setenv("CLUSTERPROF_EVENT_BUDGET", text, 1);
    start({"--local-ranks", "1"});
    unsetenv("CLUSTERPROF_EVENT_BUDGET");
    Rank rank([&](const auto& wait) { return play_rank(0, 0, wait, false); });
    tell(wire::ControlType::kChildStarted, rank.pid(), 0);
    ASSERT_TRUE(rank.is_ready());
    rank.go_on();
    tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
    EXPECT_EQ(finish(), 0);
    EXPECT_EQ(errors(), "");
    const shard::ShardData data = shard();
    ASSERT_EQ(data.ranks.size(), 1u);
    EXPECT_LE(data.mpi_events.size(), most);
    EXPECT_EQ(data.mpi_events.empty(), most == 0);
    if (most == 900) {
      EXPECT_EQ(data.mpi_events.size(), 900u);
    } else if (most == 0) {
      EXPECT_EQ(data.ranks[0].event_level, 0u);
    } else {
      EXPECT_GT(data.ranks[0].event_level, 2u);
    }
    EXPECT_EQ(data.event_stretches.empty(), most != 100);
    EXPECT_EQ(data.run.notes.size(), note ? 1u : 0u);
    std::filesystem::remove(directory_ / "node-n0.h5");
  }
}

TEST_F(CollectorProcess, RefusesAnUnknownOption) {
  start({"--no-such-option"});
  EXPECT_EQ(finish(), 2);
}

TEST_F(CollectorProcess, FailsIfTheRunDirectoryIsGone) {
  start();
  // Gone while it ran. Renamed first: the collector may be making its first file there.
  const std::filesystem::path elsewhere = std::filesystem::path(directory_).concat(".gone");
  std::filesystem::rename(directory_, elsewhere);
  std::filesystem::remove_all(elsewhere);
  control_.reset();
  EXPECT_EQ(finish(), 125);
}

TEST_F(CollectorProcess, SurvivesNonsenseOnItsSocket) {
  start({"--local-ranks", "1"});
  const UniqueFd silent = connect_to(socket_);
  const UniqueFd noise = connect_to(socket_);
  ASSERT_EQ(send(noise.get(), "hello", 5, MSG_NOSIGNAL), 5);
  char byte;
  ASSERT_TRUE(readable(noise.get(), kPatienceMs));
  EXPECT_EQ(recv(noise.get(), &byte, 1, 0), 0);  // turned away
  FakeSegment broken;
  broken.header().thread_slots_offset = ~0ull;
  const UniqueFd refused = hello(socket_, broken, 0);
  ASSERT_TRUE(readable(refused.get(), kPatienceMs));
  EXPECT_EQ(recv(refused.get(), &byte, 1, 0), 0);
  Rank rank([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, rank.pid(), 0);
  ASSERT_TRUE(rank.is_ready());
  rank.go_on();
  tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(shard().ranks.at(0).samples, 10u);
  ASSERT_EQ(shard().run.notes.size(), 1u);
  EXPECT_EQ(shard().run.notes[0].code, shard::NoteCode::kProcessDamaged);
}

TEST_F(CollectorProcess, NotesAProcessWhoseAgentIsOfAnotherVersion) {
  start({"--local-ranks", "1"});
  Rank rank([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, rank.pid(), 0);
  ASSERT_TRUE(rank.is_ready());
  const UniqueFd other = connect_to(socket_);
  wire::Hello message{wire::kHelloMagic, wire::kWireMajor + 1, 0, getpid(), 0, 4096};
  ASSERT_TRUE(send_with(other, message, -1));
  char byte;
  ASSERT_TRUE(readable(other.get(), kPatienceMs));
  EXPECT_EQ(recv(other.get(), &byte, 1, 0), 0);  // turned away
  rank.go_on();
  tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(shard().run.notes, std::vector{note_of_node(shard::NoteCode::kProcessOfOtherVersion, "n0",
                                                        static_cast<std::uint64_t>(getpid()))});
}

TEST_F(CollectorProcess, RefusesOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  start();
  Rank stranger([&](const auto&) {
    if (setuid(65534) != 0) return 1;
    return announce(socket_, 0, 1) != 0 ? 2 : 3;
  });
  EXPECT_EQ(WEXITSTATUS(stranger.wait()), 3);
  control_.reset();
  EXPECT_EQ(finish(), 0);
  EXPECT_TRUE(shard().ranks.empty());
}

TEST_F(CollectorProcess, RecordsRanksInOtherPidNamespaces) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root for a PID namespace";
  own_pid_namespace_ = true;
  late_samples_ = 5;
  start({"--local-ranks", "2", "--world-size", "2"});
  control_.reset();
  Rank first([&](const auto& wait) { return play_rank(0, 3, wait); });
  Rank second([&](const auto& wait) {
    const int status = play_rank(1, 0, [] {});  // and then becomes another program
    return status == 0 ? play_rank(1, 0, wait, false) : status;
  });
  ASSERT_TRUE(first.is_ready());
  ASSERT_TRUE(second.is_ready());
  Rank helper([&](const auto&) {
    return play_rank(
        1, 0, [] {}, false);
  });
  EXPECT_EQ(WEXITSTATUS(helper.wait()), 0);
  first.go_on();
  EXPECT_EQ(WEXITSTATUS(first.wait()), 3);
  EXPECT_EQ(finish(500), -1);  // one rank's end is not another's
  second.go_on();
  EXPECT_EQ(WEXITSTATUS(second.wait()), 0);
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(errors(), "");
  const shard::ShardData data = shard();
  EXPECT_TRUE(data.run.complete);
  EXPECT_TRUE(data.run.notes.empty());
  ASSERT_EQ(data.ranks.size(), 2u);
  EXPECT_EQ(data.ranks[0].pid, first.pid());
  EXPECT_EQ(data.ranks[0].exit_status, 3);
  EXPECT_EQ(data.ranks[0].samples, 15u);
  EXPECT_EQ(data.ranks[0].processes, 1u);
  EXPECT_EQ(data.ranks[1].pid, second.pid());
  EXPECT_EQ(data.ranks[1].samples, 45u);
  EXPECT_EQ(data.ranks[1].processes, 2u);
  for (const shard::Rank& rank : data.ranks) EXPECT_EQ(rank.flags & shard::kLost, 0u);
}

TEST_F(CollectorProcess, RefusesRanksInOtherPidNamespacesWhoseEndItCannotSee) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root for a PID namespace";
  own_pid_namespace_ = hides_peer_processes_ = sends_itself_ = true;
  late_samples_ = 5;
  start({"--world-size", "2"});
  control_.reset();
  Rank seen([&](const auto& wait) { return play_rank(0, 0, wait); });
  ASSERT_TRUE(seen.is_ready());
  for (const bool with_file : {false, true}) {  // which is of no process
    Rank unseen([&](const auto&) {
      int files[2] = {-1, -1};
      if (with_file && pipe(files) != 0) return 1;
      return announce(socket_, 1, 2, files[0]) == wire::kAnnounceUnseen ? 0 : 2;
    });
    EXPECT_EQ(WEXITSTATUS(unseen.wait()), 0);
  }
  for (int i = 0; i < 3; ++i) {  // not announced: nobody waits for these
    Rank helper([&](const auto&) {
      return play_rank(
          0, 0, [] {}, false);
    });
    EXPECT_EQ(WEXITSTATUS(helper.wait()), 0);
  }
  EXPECT_EQ(finish(300), -1);
  seen.go_on();
  EXPECT_EQ(WEXITSTATUS(seen.wait()), 0);
  EXPECT_EQ(finish(), 0);
  const shard::ShardData data = shard();
  ASSERT_EQ(data.ranks.size(), 1u);
  EXPECT_EQ(data.ranks[0].pid, seen.pid());
  EXPECT_EQ(data.ranks[0].samples, 60u);
  EXPECT_EQ(data.ranks[0].processes, 4u);
  EXPECT_EQ(data.ranks[0].flags & shard::kLost, 0u);
  EXPECT_EQ(data.run.notes, std::vector{note_of_node(shard::NoteCode::kPidNamespaces, "n0")});
  const std::string said = errors();
  EXPECT_TRUE(
      said.starts_with("clusterprof: node n0: processes in PID namespaces of their own are not recorded: "));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

TEST_F(CollectorProcess, TurnsAwayAProcessThatSendsWithoutEnd) {
  start();
  FakeSegment segment;
  segment.header().rank = 0;
  const UniqueFd agent = hello(socket_, segment, 0);
  ASSERT_TRUE(agent);
  int error = 0;
  const auto end = std::chrono::steady_clock::now() + milliseconds(kPatienceMs);
  while ((error == 0 || error == EAGAIN) && std::chrono::steady_clock::now() < end)
    error = send(agent.get(), "more", 4, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
  EXPECT_TRUE(error == EPIPE || error == ECONNRESET) << error;
  control_.reset();
  EXPECT_EQ(finish(), 0);
}

class FaultsOfTheCollector : public CollectorProcess {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer's own functions come first";
#endif
    prepare_faults();
  }
  // One that waits.
  void start_with_rank() {
    start();
    rank_.emplace([&](const auto& wait) { return play_rank(0, 0, wait, false); });
    tell(wire::ControlType::kChildStarted, rank_->pid(), 0);
    ASSERT_TRUE(rank_->is_ready());
  }
  void end_rank() {
    rank_->go_on();
    tell(wire::ControlType::kChildExited, rank_->pid(), rank_->wait());
  }
  static bool comes_true(const std::function<bool()>& condition) {
    for (int i = 0; i < kPatienceMs / 10 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(10));
    return condition();
  }

  std::optional<Rank> rank_;
};

TEST_F(FaultsOfTheCollector, WritesTheLastShardAgainAfterAFailure) {
  faults_->renames = 1;
  start_with_rank();
  end_rank();
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(faults_->renames, 0);
  EXPECT_EQ(errors(), "");
  EXPECT_TRUE(shard().run.complete);
  EXPECT_EQ(shard().ranks.at(0).samples, 10u);
}

TEST_F(FaultsOfTheCollector, SurvivesFullDiskAndClosedStderr) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  errors_.reset(ends[1]);
  constexpr int kMany = 1000;
  faults_->renames = kMany;
  start_with_rank();
  EXPECT_TRUE(comes_true([&] { return faults_->renames < kMany; }));  // the first shard
  std::this_thread::sleep_for(milliseconds(100));
  faults_->renames = 0;
  end_rank();
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(shard().ranks.at(0).samples, 10u);
}

TEST_F(FaultsOfTheCollector, SkipsACheckpointWithoutMemory) {
  constexpr std::size_t kSeries = 4096;  // bytes, and more of them than that
  start_with_rank();
  EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(directory_ / "node-n0.h5"); }));
  faults_->allocations = kSeries;
  kill(pid_, SIGTERM);  // another one
  EXPECT_TRUE(comes_true([&] { return !errors().empty(); }));
  faults_->allocations = 0;
  end_rank();
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(errors(), "clusterprof: cannot write the profile of node n0: std::bad_alloc\n");
  EXPECT_TRUE(shard().run.complete);
  EXPECT_EQ(shard().ranks.at(0).samples, 10u);
}

TEST_F(FaultsOfTheCollector, EndsInOrderWithoutMemory) {
  start_with_rank();
  EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(directory_ / "node-n0.h5"); }));
  faults_->allocations = 1;
  const UniqueFd one_more = connect_to(socket_);
  EXPECT_EQ(finish(), 125);
  EXPECT_EQ(errors(), "clusterprof: collector: std::bad_alloc\n");
  EXPECT_EQ(shard().ranks.at(0).samples, 10u);
}

TEST_F(CollectorProcess, CountsHelpersAndShortLivedProcesses) {
  start({"--local-ranks", "1"});
  Rank main([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, main.pid(), 0);
  ASSERT_TRUE(main.is_ready());
  for (int i = 0; i < 20; ++i) {
    Rank helper([&](const auto&) {
      return play_rank(
          0, 0, [] {}, false);
    });
    EXPECT_EQ(helper.wait(), 0);
  }
  main.go_on();
  tell(wire::ControlType::kChildExited, main.pid(), main.wait());
  EXPECT_EQ(finish(), 0);
  const shard::ShardData data = shard();
  ASSERT_EQ(data.ranks.size(), 1u);
  EXPECT_EQ(data.ranks[0].pid, main.pid());
  EXPECT_EQ(data.ranks[0].processes, 21u);
  EXPECT_EQ(data.ranks[0].samples, 210u);
  EXPECT_EQ(data.ranks[0].main_thread_ns[0], 100 * kMs);
}

TEST_F(CollectorProcess, PrintsTheSummaryOnTheNodeOfRankZero) {
  const std::string script = (directory_ / "analyze").string();
  std::ofstream(script) << "#!/bin/sh\nsleep 0.3\necho \"$@\" >&2\n";
  chmod(script.c_str(), 0755);
  // No limit of memory, whatever there is around the test.
  setenv("CLUSTERPROF_CGROUP_ROOT", directory_.c_str(), 1);
  start({"--local-ranks", "1", "--world-size", "2", "--banner", "--analyze", script});
  unsetenv("CLUSTERPROF_CGROUP_ROOT");
  Rank rank([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, rank.pid(), 0);
  ASSERT_TRUE(rank.is_ready());
  rank.go_on();
  tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
  EXPECT_FALSE(told(kPatienceMs));
  // Printed before the end.
  EXPECT_TRUE(std::regex_match(errors(),
                               std::regex("banner --wait-ranks 2 --timeout (10|[3-9]) --launcher-fd [0-9]+ " +
                                          directory_.string() + "\n")))
      << errors();
  EXPECT_EQ(finish(), 0);
}

TEST_F(CollectorProcess, TellsTheSummaryWhatMemoryTheJobHasLeft) {
  std::stringstream membership;
  membership << std::ifstream("/proc/self/cgroup").rdbuf();
  if (("\n" + membership.str()).find("\n0::") == std::string::npos &&
      membership.str().find(":memory:") == std::string::npos)
    GTEST_SKIP() << "no control groups with a memory controller here";
  const std::filesystem::path groups = directory_ / "groups";
  std::filesystem::create_directories(groups / "memory");
  std::ofstream(groups / "memory.max") << "1000000000\n";
  std::ofstream(groups / "memory.current") << "700000000\n";
  std::ofstream(groups / "memory.stat") << "inactive_file 200000000\n";
  std::ofstream(groups / "memory/memory.limit_in_bytes") << "1000000000\n";
  std::ofstream(groups / "memory/memory.usage_in_bytes") << "700000000\n";
  std::ofstream(groups / "memory/memory.stat") << "total_inactive_file 200000000\n";
  const std::string script = (directory_ / "analyze").string();
  std::ofstream(script) << "#!/bin/sh\necho \"$@\" >&2\n";
  chmod(script.c_str(), 0755);
  setenv("CLUSTERPROF_CGROUP_ROOT", groups.c_str(), 1);
  start({"--local-ranks", "1", "--banner", "--analyze", script});
  unsetenv("CLUSTERPROF_CGROUP_ROOT");
  Rank rank([&](const auto& wait) { return play_rank(0, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, rank.pid(), 0);
  ASSERT_TRUE(rank.is_ready());
  rank.go_on();
  tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
  EXPECT_FALSE(told(kPatienceMs));
  EXPECT_EQ(finish(), 0);
  EXPECT_NE(errors().find(" --memory 400000000 "), std::string::npos) << errors();
}

TEST_F(CollectorProcess, PrintsNoSummaryOnOtherNodes) {
  start({"--local-ranks", "1", "--banner", "--analyze", "/bin/false"});
  Rank rank([&](const auto& wait) { return play_rank(1, 0, wait, false); });
  tell(wire::ControlType::kChildStarted, rank.pid(), 1);
  ASSERT_TRUE(rank.is_ready());
  rank.go_on();
  tell(wire::ControlType::kChildExited, rank.pid(), rank.wait());
  EXPECT_EQ(finish(), 0);
}

}  // namespace
}  // namespace clusterprof
