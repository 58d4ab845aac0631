// SPDX-License-Identifier: BSD-3-Clause
// Once ControlWatch has seen that there is something from outside: looks now and then whether somebody
// watches the run (formats/run/run_control.hpp), and tells about once a second what the node does while
// somebody does. The event loop's timer decides when; a thread of its own names call paths, and reads and
// writes the files, because a file server may not answer. It uses no processor time while it waits, as the
// one of ControlWatch.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "collector/node/node_snapshot.hpp"
#include "collector/shard/shard_builder.hpp"

namespace clusterprof::collector {

// How long after the last one the node is looked at again: a second, or longer where looks have lately taken
// more than 0.1 % of its processors' time, but never so long that the data could be 3 s old before the next
// are there. `took`: processor time of the last look.
[[nodiscard]] std::chrono::nanoseconds live_interval(std::chrono::nanoseconds took, std::uint32_t processors);

class LiveWatch {
 public:
  // Somebody watches as long as the number changes at least this often.
  static constexpr std::chrono::seconds kWatched{10};

  struct Node {
    // A snapshot of NodeState::live_snapshot(), with the number of the period in which somebody watches;
    // null: there is none. next_within: until the next one.
    std::function<std::shared_ptr<const NodeSnapshot>(std::uint64_t watch,
                                                      std::chrono::nanoseconds next_within)>
        look;
    std::function<void()> nobody_watches;  // any more
  };

  // nodes: of the job, as far as it is known. processors: of this one.
  LiveWatch(boost::asio::io_context& io, std::string run_directory, std::string node_name,
            std::uint32_t nodes, std::uint32_t processors, std::shared_ptr<SharedShardBuilder> builder,
            Node node);
  ~LiveWatch();
  LiveWatch(const LiveWatch&) = delete;
  LiveWatch& operator=(const LiveWatch&) = delete;

  void begin();
  // After the event loop has ended: removes what was written. Waits for that for a bounded time.
  void withdraw();

 private:
  using Clock = std::chrono::steady_clock;
  struct Files;  // shared with the thread that reads and writes them

  void look();
  void done(std::optional<std::uint64_t> number, std::chrono::nanoseconds took);
  void wait_for_look();

  boost::asio::io_context& io_;
  const std::chrono::nanoseconds interval_;  // while nobody watches
  const std::uint32_t processors_;
  const Node node_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<Files> files_;
  std::uint64_t number_ = 0;  // as it was last seen
  Clock::time_point watched_until_, read_again_;
  bool is_watched_ = false;
  std::uint64_t watch_ = 0;
  std::chrono::nanoseconds snapshot_took_{}, live_interval_{};
};

}  // namespace clusterprof::collector
