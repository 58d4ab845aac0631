// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof top` in a terminal: what is on the screen, and what keys do. It knows nothing of terminals and
// files; cli/tui reads the run and shows this with ncurses.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "report/analysis/top.hpp"
#include "report/tui/browser.hpp"

namespace clusterprof::report {

class TopScreen {
 public:
  TopScreen();
  ~TopScreen();

  // What the run does now. Cursor, filter and order stay. Nothing changes while the screen is frozen.
  void update(Top top);
  // The user looks at one state, and the run need not be read.
  [[nodiscard]] bool is_frozen() const;

  // As those of Browser.
  bool press(PressedKey key, std::string_view text = {});
  [[nodiscard]] std::vector<ScreenLine> draw(std::size_t columns, std::size_t rows);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clusterprof::report
