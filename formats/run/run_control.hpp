// SPDX-License-Identifier: BSD-3-Clause
// How a run is told something from outside: through files in the run directory, since there is no network
// port.
//
//   DIR/.control/request      a window of recording is to be opened or closed (`clusterprof start`, `stop`);
//                             each request replaces the one before
//   DIR/.control/node-NODE    what node NODE has done of it; the collector of a run with windows makes it at
//                             the start
//   DIR/.control/write        all nodes are to write their shards now (`clusterprof snapshot`)
//   DIR/.control/wrote-NODE   node NODE has done so
//   DIR/.control/hang         no rank makes progress (--hang-after)
//
// Of a run without windows, the directory is there only once somebody has asked for something.
//
// And how a run is told that somebody watches it (`clusterprof top`), and answers:
//
//   DIR/.control/watch        a number that those who watch change about once a second
//   DIR/.control/live-NODE    what node NODE does now (formats/shard/live_state.hpp)
//
// The first two are replaced by renaming, so that nobody reads half of one. The others are rewritten in
// place: a machine that has a directory of a file server in its memory sees a new name late, but asks for
// what is in a file whenever it opens it. A request counts only if it belongs to the user of the run, or to
// root. Any function may take long where the file server does not answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace clusterprof {

// Now, by the clock that requests tell times in.
std::int64_t unix_now_ns();

struct ControlRequest {
  std::uint64_t sequence = 0;    // later ones have larger numbers; never 0
  bool open = false;             // a window of recording
  std::int64_t at_unix_ns = 0;   // when, by the clock of whoever asks
  std::uint64_t lasting_ns = 0;  // then it is to be closed; 0: it stays open
  friend bool operator==(const ControlRequest&, const ControlRequest&) = default;
};

// "60s", "1.5m", "2h"; seconds without a unit. No value: not a time, too short (a second), or too long. In a
// file of its own: reading a real number takes libm, which the program in front of the ranks has no other use
// for.
std::optional<std::uint64_t> parse_lasting_ns(std::string_view text);

// No window lasts longer, so that sums of times cannot overflow.
inline constexpr std::uint64_t kLongestWindow_ns = std::uint64_t{366} * 24 * 3600 * 1'000'000'000;

struct ControlAnswer {
  std::string node;
  std::uint64_t sequence = 0;  // of the request that has been carried out; 0: none yet
  bool light = false;          // outside of windows it records what --mode light does, else nothing
  bool open = false;
  std::uint32_t ranks = 0;  // whose processes have done it
  friend bool operator==(const ControlAnswer&, const ControlAnswer&) = default;
};

std::string text_of(const ControlRequest& request);
std::string text_of(const ControlAnswer& answer);
// No value: it is no such text. `node` comes from the file's name.
std::optional<ControlRequest> parse_request(std::string_view text);
std::optional<ControlAnswer> parse_answer(std::string_view text, std::string node);

// The request that is there; no value: there is none, or it is of another user, or damaged. `run`: a path.
std::optional<ControlRequest> read_request(const std::string& run);
// Writes a request. Its number is the time in ns, or one more than that of the last request if that is
// larger. Fails with kNotFound if no collector of the run can be asked.
Result<ControlRequest> write_request(const std::string& run, ControlRequest request);

// That no rank of the run makes progress, as the one process has found that looked at all of them.
struct HangNotice {
  std::uint64_t lasted_s = 0;
  bool end_ranks = false;  // by SIGABRT
  friend bool operator==(const HangNotice&, const HangNotice&) = default;
};
std::string text_of(const HangNotice& notice);
std::optional<HangNotice> parse_hang_notice(std::string_view text);

// All that a collector may be told.
struct ControlFiles {
  bool any = false;  // somebody has asked for something, or has watched: the directory is there
  std::optional<ControlRequest> window;
  std::uint64_t write = 0;  // number of the latest request to write the shard; 0: there is none
  std::optional<HangNotice> hang;
};
ControlFiles read_control(const std::string& run);

// Asks all nodes to write their shards. The number is that of the request; later ones have larger numbers.
// Makes the directory if it is missing.
Result<std::uint64_t> request_write(const std::string& run);
struct WriteAnswer {
  std::string node;
  std::uint64_t number = 0;  // of the latest request that was there before it began to write
  friend bool operator==(const WriteAnswer&, const WriteAnswer&) = default;
};
// For a node's collector.
Result<void> write_answer(const std::string& run, const WriteAnswer& answer);
// Of all nodes that have answered any request, sorted by node.
std::vector<WriteAnswer> read_write_answers(const std::string& run);

// Makes the directory if it is missing. A notice that is there already stays.
Result<void> write_hang_notice(const std::string& run, const HangNotice& notice);

// For a node's collector. Makes the directory if it is missing.
Result<void> write_answer(const std::string& run, const ControlAnswer& answer);
// For a node's collector, at its end: removes its answers. Of a run with windows, the last node removes the
// directory; otherwise it is not known who is the last.
void withdraw_answer(const std::string& run, const std::string& node);
// The answers of all nodes, sorted by node.
std::vector<ControlAnswer> read_answers(const std::string& run);

// Tells the run's collectors that somebody watches. Makes the directory if it is missing. Only the user of
// the run and root may.
Result<void> write_watch(const std::string& run, std::uint64_t number);
// Removes that again from a run that has ended, with the directory if nothing else is there.
void end_watch(const std::string& run);
// No value: nobody has watched, or the number is being written at this moment.
std::optional<std::uint64_t> read_watch(const std::string& run);

// For a node's collector. Whoever reads meanwhile may find part of it.
Result<void> write_live(const std::string& run, const std::string& node, std::span<const std::byte> bytes);
// For a node's collector, at its end: removes that file; the last node removes the directory.
void withdraw_live(const std::string& run, const std::string& node);
// The nodes that have such a file, sorted; and the file's content. No value: there is none, or it is of
// another user than the run.
std::vector<std::string> live_nodes(const std::string& run);
std::optional<std::vector<std::byte>> read_live(const std::string& run, const std::string& node);

// Removes DIR/.control.
void remove_control(int run_directory);

// How often each of so many collectors looks for a request where windows may be asked for. Up to 2,048 nodes,
// a file server is asked no more than 256 times a second for one job; in larger jobs each node asks every 8
// s.
constexpr std::int64_t control_interval_ns(std::size_t nodes) {
  constexpr std::int64_t kSecond = 1'000'000'000, kLongest = 8 * kSecond;
  constexpr std::size_t kLooksPerSecond = 256;
  const std::size_t seconds = (nodes + kLooksPerSecond - 1) / kLooksPerSecond;
  return seconds <= 1 ? kSecond : seconds >= 8 ? kLongest : static_cast<std::int64_t>(seconds) * kSecond;
}
// How often each of so many collectors looks for anything else, such as whether somebody watches: every 5 s
// up to 320 nodes; in larger jobs, a file server is asked no more than 64 times a second, up to once a minute
// for each node.
constexpr std::int64_t watch_interval_ns(std::size_t nodes) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  constexpr std::size_t kLooksPerSecond = 64, kShortest = 5, kLongest = 60;
  const std::size_t seconds = (nodes + kLooksPerSecond - 1) / kLooksPerSecond;
  return static_cast<std::int64_t>(seconds < kShortest  ? kShortest
                                   : seconds > kLongest ? kLongest
                                                        : seconds) *
         kSecond;
}
// Requests name a time this far in the future, so that all collectors see them before it.
constexpr std::int64_t control_ahead_ns(std::size_t nodes) {
  return control_interval_ns(nodes) + 500'000'000;
}

// When a window is to be opened and closed, by the clock of whoever carries the request out.
struct ControlSchedule {
  std::int64_t begin_unix_ns = 0, end_unix_ns = 0;  // end 0: none
  [[nodiscard]] bool is_open(std::int64_t now_unix_ns) const {
    return begin_unix_ns != 0 && now_unix_ns >= begin_unix_ns &&
           (end_unix_ns == 0 || now_unix_ns < end_unix_ns);
  }
};
// `seen_unix_ns`: when the request was first seen. The clocks of two machines may differ: a time that is
// further away than `latest_ns` is not waited for. `late`: the request was there before this collector, so
// what has passed of it has passed.
ControlSchedule schedule_of(const ControlRequest& request, std::int64_t seen_unix_ns, std::int64_t latest_ns,
                            bool late);

}  // namespace clusterprof
