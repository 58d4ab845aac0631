// SPDX-License-Identifier: BSD-3-Clause
// Looks now and then whether somebody asks for something from outside (formats/run/run_control.hpp),
// has it done, and answers. The event loop's timer decides when; a thread of its own reads and writes the
// files, because a file server may not answer. That thread uses no processor time while it waits, and none
// after the event loop has ended: who watches over this process takes processor time for a sign of life.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "formats/run/run_control.hpp"

namespace clusterprof::collector {

class ControlWatch {
 public:
  // A rank that is stopped, or has no processor, is not waited for longer before the node answers.
  static constexpr std::chrono::seconds kDonePatience{5};

  struct Node {
    // Opens or closes a window. The number grows with each call.
    std::function<void(std::uint32_t number, bool open)> change;
    // How many ranks have done what the latest call said, and how many there are.
    struct Done {
      std::uint32_t done = 0, all = 0;
    };
    std::function<Done()> done;
    // Writes the shard, and calls wrote() when that is done.
    std::function<void(std::uint64_t number)> write;
    // Once.
    std::function<void(const HangNotice&)> hang;
    // Somebody has asked for anything, or watches. At each look.
    std::function<void()> any;
  };
  enum class Windows : std::uint8_t { kNone, kOfLight, kOfStandby };

  // nodes: of the job, as far as it is known.
  ControlWatch(boost::asio::io_context& io, std::string run_directory, std::string node_name,
               std::uint32_t nodes, Windows windows, Node node);
  ~ControlWatch();
  ControlWatch(const ControlWatch&) = delete;
  ControlWatch& operator=(const ControlWatch&) = delete;

  // `open`: recording is on already, and may be ended from outside.
  void begin(bool open = false);
  // The shard has all that was known when this request to write it was there.
  void wrote(std::uint64_t number);
  // After the event loop has ended: removes the node's answers. Waits for that for a bounded time.
  void withdraw();
  [[nodiscard]] bool is_open() const { return is_open_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Files;  // shared with the thread that reads and writes them

  void look();
  void seen(const ControlFiles& files);
  void follow(const std::optional<ControlRequest>& request);
  bool follow_schedule();  // whether a window was opened or closed
  void answer_when_done();
  void wait_for_look();

  boost::asio::io_context& io_;
  const std::string node_name_;
  const std::chrono::nanoseconds interval_;
  const Windows windows_;
  const Node node_;
  boost::asio::steady_timer look_timer_, edge_timer_, answer_timer_;
  std::shared_ptr<Files> files_;
  bool has_looked_ = false;
  ControlRequest request_;
  // What is asked for, by our own clock.
  std::optional<Clock::time_point> opens_, closes_;
  bool is_open_ = false;
  std::uint32_t number_ = 0;
  Clock::time_point answer_by_;
  std::optional<ControlAnswer> answer_;  // to be written, like the next one
  std::optional<WriteAnswer> write_answer_;
  std::uint64_t write_asked_ = 0;
  bool has_answered_ = false, has_seen_ = false, knows_of_hang_ = false;
};

}  // namespace clusterprof::collector
