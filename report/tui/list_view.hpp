// SPDX-License-Identifier: BSD-3-Clause
// A view whose items are texts that refresh() makes: titles, notes and rows.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/tui/views.hpp"

namespace clusterprof::report::tui {

class ListView : public View {
 public:
  explicit ListView(const Run& run) : run_(run) {}
  std::size_t size() const override { return items_.size(); }
  Spans heading(std::size_t) const override { return {}; }
  Spans render(std::size_t item, std::size_t) const override { return items_[item].spans; }
  bool selectable(std::size_t item) const override { return items_[item].selectable; }
  ViewRequest open(std::size_t item) override { return items_[item].request; }

 protected:
  struct Item {
    Spans spans;
    bool selectable = false;
    ViewRequest request;
  };

  void blank_and_title(std::string_view title, std::string_view remark = {}) {
    if (!items_.empty()) items_.push_back({});
    items_.push_back({{{std::string(title), text::Style::kTitle},
                       {remark.empty() ? "" : "  " + std::string(remark), text::Style::kDim}},
                      false,
                      {}});
  }
  void note(std::string_view text) {
    items_.push_back({{{"  " + std::string(text), text::Style::kDim}}, false, {}});
  }
  void row(std::string numbers, const text::Span& label, ViewRequest request, std::string remark = {}) {
    items_.push_back(
        {{{std::move(numbers), text::Style::kPlain}, label, {std::move(remark), text::Style::kDim}},
         true,
         std::move(request)});
  }

  const Run& run_;
  std::vector<Item> items_;
};

}  // namespace clusterprof::report::tui
