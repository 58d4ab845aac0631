// SPDX-License-Identifier: BSD-3-Clause
// Messages between the processes of one parallel merge, over MPI. Waiting polls with growing pauses,
// because MPI libraries spin while they block. A member that has gone ends the job with one line instead
// of hanging it.
#include "aggregator/mpi/mpi_team.hpp"

// The bindings for C++ need a library of their own.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace clusterprof::aggregator {
namespace {

constexpr int kFailed = 3;  // exit status of a merge that failed (cli/analyze)

// Tags of messages between members: kSize, answered by kReady, then kPiece. For posted messages kPostedSize,
// then kPosted. The last message is Farewell.
enum Tag : int { kSize = 1, kReady, kPiece, kPostedSize, kPosted, kGone };

struct Farewell {
  int status = 0;
  char node[MPI_MAX_PROCESSOR_NAME] = {};
};

// MPI counts bytes in an int.
constexpr std::size_t kPieceBytes = std::size_t{1} << 26;

// Posted messages that are received while this member does something else.
constexpr std::size_t kMaxIncoming = 8;

// With one write(2), so that lines of members do not mix.
void say(const std::string& text) {
  const std::string line = "clusterprof: merge: " + text + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

// A launcher that ends a job drops output that it has not forwarded by then.
void let_launcher_read() {
  const timespec while_it_reads{0, 200'000'000};
  ::nanosleep(&while_it_reads, nullptr);
}

[[noreturn]] void end_job(const std::string& why) {
  say(why);
  let_launcher_read();
  MPI_Abort(MPI_COMM_WORLD, kFailed);
  std::_Exit(kFailed);
}

void check(int error) {
  if (error == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(error, text, &length);
  std::string why = std::string("MPI failed: ") + text;
  std::replace(why.begin(), why.end(), '\n', ' ');
  end_job(why);
}

// MPI polls without a pause while it waits. Here a wait takes from microseconds (an answer) to minutes
// (another member's merging). So the pauses grow with the time that has passed, and add a tenth to it.
template <typename Poll>
void wait_until(Poll&& done) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kLongest{2000}, kShortest{20};
  const Clock::time_point start = Clock::now();
  while (!done()) {
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
    if (waited < kShortest) continue;
    std::this_thread::sleep_for(std::clamp(waited / 10, kShortest, kLongest));
  }
}

Farewell receive_farewell(int from) {
  Farewell farewell;
  check(MPI_Recv(&farewell, static_cast<int>(sizeof farewell), MPI_BYTE, from, kGone, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE));
  return farewell;
}

bool has_come(int from, Tag tag) {
  int flag = 0;
  check(MPI_Iprobe(from, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
  return flag != 0;
}

template <typename Meanwhile>
void wait_for(int from, Tag tag, Meanwhile&& meanwhile) {
  wait_until([&] {
    meanwhile();
    if (has_come(from, tag)) return true;
    // kGone is the last message of a member, and messages do not overtake each other.
    if (!has_come(from, kGone) || has_come(from, tag)) return false;
    const Farewell farewell = receive_farewell(from);
    end_job("process " + std::to_string(from) + ", on " + farewell.node + ", has given up with status " +
            std::to_string(farewell.status));
  });
}

std::uint64_t receive_number(int from, Tag tag) {
  std::uint64_t number = 0;
  wait_for(from, tag, [] {});
  check(MPI_Recv(&number, 1, MPI_UINT64_T, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  return number;
}

void send_number(int to, Tag tag, std::uint64_t number) {
  check(MPI_Send(&number, 1, MPI_UINT64_T, to, tag, MPI_COMM_WORLD));
}

void out_of_patience(int) {
  constexpr char kText[] =
      "clusterprof: merge: MPI_Init waits in vain for the other processes; they may not run clusterprof "
      "merge, or "
      "without MPI\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  let_launcher_read();
  ::_exit(kFailed);
}

}  // namespace

// A posted message whose size has arrived. Its sender may be busy, and with some transports the sender has to
// take part between its other work, so the pieces travel meanwhile.
struct MpiTeam::Incoming {
  Bytes bytes;
  std::vector<MPI_Request> requests;
  bool is_there() {
    int done = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
    return done != 0;
  }
};

struct MpiTeam::Posted {
  std::uint64_t size = 0;
  Bytes bytes;
  std::vector<MPI_Request> requests;
};

MpiTeam::MpiTeam(unsigned patience_s) {
  std::signal(SIGALRM, out_of_patience);
  ::alarm(patience_s);
  int provided = MPI_THREAD_SINGLE;
  const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  ::alarm(0);
  std::signal(SIGALRM, SIG_DFL);
  check(error);
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_));
  check(MPI_Comm_rank(MPI_COMM_WORLD, &member_));
  if (provided < MPI_THREAD_FUNNELED) end_job("this MPI library does not allow threads");
}

void MpiTeam::send(int to, std::span<const std::byte> bytes) {
  // Without the answer the transfer would begin while the receiver is busy, and both would poll until its
  // end.
  send_number(to, kSize, bytes.size());
  receive_number(to, kReady);
  for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    const std::size_t size = std::min(kPieceBytes, bytes.size() - at);
    check(MPI_Send(bytes.data() + at, static_cast<int>(size), MPI_BYTE, to, kPiece, MPI_COMM_WORLD));
  }
}

Bytes MpiTeam::receive(int from) {
  Bytes bytes(receive_number(from, kSize));
  send_number(from, kReady, 0);
  for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    const std::size_t size = std::min(kPieceBytes, bytes.size() - at);
    check(MPI_Recv(bytes.data() + at, static_cast<int>(size), MPI_BYTE, from, kPiece, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE));
  }
  return bytes;
}

void MpiTeam::post(int to, Bytes bytes) {
  progress();
  Posted& posted = *posted_.emplace_back(std::make_unique<Posted>());
  posted.bytes = std::move(bytes);
  posted.size = posted.bytes.size();
  check(MPI_Isend(&posted.size, 1, MPI_UINT64_T, to, kPostedSize, MPI_COMM_WORLD,
                  &posted.requests.emplace_back()));
  for (std::size_t at = 0; at < posted.bytes.size(); at += kPieceBytes) {
    const std::size_t size = std::min(kPieceBytes, posted.bytes.size() - at);
    check(MPI_Isend(posted.bytes.data() + at, static_cast<int>(size), MPI_BYTE, to, kPosted, MPI_COMM_WORLD,
                    &posted.requests.emplace_back()));
  }
}

void MpiTeam::progress() {
  for (const auto& [from, message] : incoming_) static_cast<void>(message->is_there());
  std::erase_if(posted_, [](const std::unique_ptr<Posted>& posted) {
    int done = 0;
    check(MPI_Testall(static_cast<int>(posted->requests.size()), posted->requests.data(), &done,
                      MPI_STATUSES_IGNORE));
    return done != 0;
  });
}

MpiTeam::Incoming& MpiTeam::incoming(int from) {
  const auto [entry, added] = incoming_.try_emplace(from);
  if (!added) return *entry->second;
  Incoming& message = *(entry->second = std::make_unique<Incoming>());
  std::uint64_t bytes = 0;
  check(MPI_Recv(&bytes, 1, MPI_UINT64_T, from, kPostedSize, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  message.bytes.resize(bytes);
  for (std::size_t at = 0; at < bytes; at += kPieceBytes) {
    const std::size_t size = std::min<std::size_t>(kPieceBytes, bytes - at);
    check(MPI_Irecv(message.bytes.data() + at, static_cast<int>(size), MPI_BYTE, from, kPosted,
                    MPI_COMM_WORLD, &message.requests.emplace_back()));
  }
  return message;
}

bool MpiTeam::has_posted(int from) {
  if (!incoming_.contains(from) && (incoming_.size() >= kMaxIncoming || !has_come(from, kPostedSize)))
    return false;
  return incoming(from).is_there();
}

Bytes MpiTeam::take(int from) {
  if (!incoming_.contains(from)) wait_for(from, kPostedSize, [&] { progress(); });
  Incoming& message = incoming(from);
  wait_until([&] {
    progress();
    return message.is_there();
  });
  Bytes bytes = std::move(message.bytes);
  incoming_.erase(from);
  return bytes;
}

MpiTeam::~MpiTeam() = default;

// Trees are binomial: a member whose number ends, in binary, in k zeros stands for itself and the up to 2^k -
// 1 members behind it.

void MpiTeam::broadcast(Bytes& bytes) {
  int step = 1;
  while (step < size_ && (member_ & step) == 0) step *= 2;
  if (member_ != 0) bytes = receive(member_ - step);
  for (step /= 2; step > 0; step /= 2)
    if (member_ + step < size_) send(member_ + step, bytes);
}

Bytes MpiTeam::reduce(Bytes mine, const std::function<Bytes(Bytes, Bytes)>& join) {
  for (int step = 1; step < size_; step *= 2) {
    if ((member_ & step) != 0) {
      send(member_ - step, mine);
      return {};
    }
    if (member_ + step < size_) {
      Bytes theirs = receive(member_ + step);
      mine = join(std::move(mine), std::move(theirs));
    }
  }
  return mine;
}

int MpiTeam::finish(int status) {
  progress();
  Farewell mine;
  mine.status = status;
  int length = 0;
  check(MPI_Get_processor_name(mine.node, &length));
  std::vector<int> statuses(static_cast<std::size_t>(size_), status);
  for (int other = 0; other < size_; ++other) {
    if (other == member_) continue;
    check(MPI_Send(&mine, static_cast<int>(sizeof mine), MPI_BYTE, other, kGone, MPI_COMM_WORLD));
  }
  for (int other = 0; other < size_; ++other) {
    if (other == member_) continue;
    wait_until([&] { return has_come(other, kGone); });
    statuses[static_cast<std::size_t>(other)] = receive_farewell(other).status;
  }
  check(MPI_Finalize());
  return statuses[0] != 0 ? statuses[0] : *std::max_element(statuses.begin(), statuses.end());
}

}  // namespace clusterprof::aggregator
