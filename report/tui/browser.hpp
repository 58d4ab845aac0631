// SPDX-License-Identifier: BSD-3-Clause
// The terminal browser: what is on the screen, and what keys do. It knows nothing of terminals, so that it
// can be tested; cli/tui shows it with ncurses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/page/page_data.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report {

inline constexpr std::size_t kMinColumns = 60, kMinRows = 20;  // of a screen

enum class PressedKey {
  kUp,
  kDown,
  kLeft,
  kRight,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kBack,
  kTab,
  kBackTab,
  kErase,
  kText
};

struct ScreenLine {
  std::vector<text::Span> spans;  // printable; together at most as wide as the screen
  bool selected = false;          // the cursor is on it
};

class Browser {
 public:
  // Refers to both.
  Browser(const Analysis& analysis, const PageData& data, bool unicode);
  ~Browser();

  // A key, and what was typed (UTF-8) with PressedKey::kText. False: the user quits.
  bool press(PressedKey key, std::string_view text = {});

  // As many lines as the screen has rows. Of a screen that is too small: what would be needed.
  [[nodiscard]] std::vector<ScreenLine> draw(std::size_t columns, std::size_t rows);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clusterprof::report
