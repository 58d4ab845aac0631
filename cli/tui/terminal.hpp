// SPDX-License-Identifier: BSD-3-Clause
// A terminal as ncurses has it. Only one at a time.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "report/tui/browser.hpp"

struct screen;  // of ncurses

namespace clusterprof::cli {

// The terminal is what it was again also when something is thrown.
class Terminal {
 public:
  // Leaves the terminal as it is if it cannot be used.
  Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  // False: this machine does not know the terminal. Nothing else may be called then.
  [[nodiscard]] bool is_open() const { return screen_ != nullptr; }

  // Shows what is drawn for the screen's present size.
  using Draw = std::function<std::vector<report::ScreenLine>(std::size_t columns, std::size_t rows)>;
  void show(const Draw& draw) const;

  // Waits for a key, at most so long; below 0: for ever. `press` is told of it, and says whether the user
  // stays. False: the user has left, or the terminal has gone. A change of its size ends the wait.
  using Press = std::function<bool(report::PressedKey key, std::string_view text)>;
  bool await_key(const Press& press, int most_ms = -1) const;

 private:
  screen* screen_;
  bool colour_ = false;
};

}  // namespace clusterprof::cli
