// SPDX-License-Identifier: BSD-3-Clause
// A fuzzer's input, taken apart. What is beyond its end is 0 or empty.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace clusterprof::fuzz {

class Input {
 public:
  Input(const std::uint8_t* bytes, std::size_t size) : rest_(bytes, size) {}

  template <typename T>
  T number() {
    T value{};
    const std::span<const std::uint8_t> from = take(sizeof value);
    if (!from.empty()) std::memcpy(&value, from.data(), from.size());
    return value;
  }
  std::uint8_t byte() { return number<std::uint8_t>(); }
  std::span<const std::uint8_t> take(std::size_t most) {
    const auto taken = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  // Up to the next `end`, which is taken as well.
  std::string_view text_until(char end) {
    const std::string_view all(reinterpret_cast<const char*>(rest_.data()), rest_.size());
    const std::string_view text = all.substr(0, all.find(end));
    (void)take(text.size() + 1);
    return text;
  }
  std::string_view line() { return text_until('\n'); }
  std::string_view text() {
    const auto all = take(rest_.size());
    return {reinterpret_cast<const char*>(all.data()), all.size()};
  }
  std::vector<std::string> lines() {
    std::vector<std::string> lines;
    while (!empty()) lines.emplace_back(line());
    return lines;
  }
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  [[nodiscard]] std::size_t size() const { return rest_.size(); }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace clusterprof::fuzz
