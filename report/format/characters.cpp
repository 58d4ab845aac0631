// SPDX-License-Identifier: BSD-3-Clause
// Makes any bytes safe to print, and counts and cuts them by the columns they take in a terminal.
#include "report/format/characters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace clusterprof::report::format {
namespace {

struct Character {
  char32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

// The first character of non-empty text; strict (no overlong forms, surrogates, > U+10FFFF).
Character decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  std::size_t length = 0;
  char32_t code = 0, least = 0;
  if ((lead & 0xe0) == 0xc0) {
    length = 2, code = lead & 0x1f, least = 0x80;
  } else if ((lead & 0xf0) == 0xe0) {
    length = 3, code = lead & 0x0f, least = 0x800;
  } else if ((lead & 0xf8) == 0xf0) {
    length = 4, code = lead & 0x07, least = 0x10000;
  } else {
    return {};
  }
  if (text.size() < length) return {};
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = (code << 6) | (byte(i) & 0x3f);
  }
  if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, length, true};
}

struct Interval {
  char32_t first, last;
};

template <std::size_t N>
bool within(char32_t code, const std::array<Interval, N>& intervals) {
  return std::any_of(intervals.begin(), intervals.end(),
                     [code](const Interval& i) { return code >= i.first && code <= i.last; });
}

// C0 and C1 controls; soft hyphen; marks that hide, join or reorder text; line separators;
// interlinear annotation; tags; non-characters at the end of the basic plane.
bool is_hostile(char32_t code) {
  static constexpr std::array<Interval, 12> kHostile = {{{0x00, 0x1f},
                                                         {0x7f, 0x9f},
                                                         {0xad, 0xad},
                                                         {0x61c, 0x61c},
                                                         {0x180e, 0x180e},
                                                         {0x200b, 0x200f},
                                                         {0x2028, 0x202e},
                                                         {0x2060, 0x206f},
                                                         {0xfeff, 0xfeff},
                                                         {0xfff9, 0xfffb},
                                                         {0xfffe, 0xffff},
                                                         {0xe0000, 0xe0fff}}};
  return within(code, kHostile);
}

std::size_t columns_of(char32_t code) {
  static constexpr std::array<Interval, 6> kCombining = {{{0x300, 0x36f},
                                                          {0x483, 0x489},
                                                          {0x1ab0, 0x1aff},
                                                          {0x1dc0, 0x1dff},
                                                          {0x20d0, 0x20ff},
                                                          {0xfe00, 0xfe2f}}};
  static constexpr std::array<Interval, 13> kWide = {{{0x1100, 0x115f},
                                                      {0x2e80, 0x303e},
                                                      {0x3041, 0x33ff},
                                                      {0x3400, 0x4dbf},
                                                      {0x4e00, 0x9fff},
                                                      {0xa000, 0xa4cf},
                                                      {0xac00, 0xd7a3},
                                                      {0xf900, 0xfaff},
                                                      {0xfe30, 0xfe6f},
                                                      {0xff00, 0xff60},
                                                      {0xffe0, 0xffe6},
                                                      {0x1f300, 0x1faff},
                                                      {0x20000, 0x3fffd}}};
  if (code < 0x300) return 1;
  if (within(code, kCombining)) return 0;
  return within(code, kWide) ? 2 : 1;
}

// Shortest suffix that leaves at most `width` columns.
std::string_view suffix(std::string_view text, std::size_t width) {
  std::size_t over = columns(text);
  std::size_t at = 0;
  while (at < text.size() && over > width) {
    const Character c = decode(text.substr(at));
    over -= c.valid ? columns_of(c.code) : 1;
    at += c.bytes;
  }
  return text.substr(at);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = decode(text);
    if (!c.valid)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else if (!is_hostile(c.code))
      out += text.substr(0, c.bytes);
    else
      out += c.code <= 0xff ? fmt::format("\\x{:02x}", static_cast<std::uint32_t>(c.code))
                            : fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c.code));
    text.remove_prefix(c.bytes);
  }
  return out;
}

std::string_view valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Character c = decode(text.substr(at));
    if (!c.valid) break;
    at += c.bytes;
  }
  return text.substr(0, at);
}

std::string replace_invalid(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view valid = valid_prefix(text);
    out += valid;
    text.remove_prefix(valid.size());
    if (text.empty()) break;
    out += "\xef\xbf\xbd";
    text.remove_prefix(1);
  }
  return out;
}

bool is_printable(std::string_view text) {
  while (!text.empty()) {
    const Character c = decode(text);
    if (!c.valid || is_hostile(c.code)) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

std::string json_string(std::string_view text) {
  static constexpr std::string_view kLetters = "\b\t\n\f\r\"\\";
  static constexpr std::string_view kEscapes = "btnfr\"\\";
  std::string out = "\"";
  while (!text.empty()) {
    const Character c = decode(text);
    if (!c.valid) {
      out += "\xef\xbf\xbd";
    } else if (const std::size_t at = kLetters.find(text[0]); at != std::string_view::npos) {
      out += {'\\', kEscapes[at]};
    } else if (!is_hostile(c.code)) {
      out += text.substr(0, c.bytes);
    } else if (c.code > 0xffff) {  // as UTF-16 has it
      const auto above = static_cast<std::uint32_t>(c.code) - 0x10000;
      out += fmt::format("\\u{:04X}\\u{:04X}", 0xd800 + (above >> 10), 0xdc00 + (above & 0x3ff));
    } else {
      out += fmt::format("\\u{:04X}", static_cast<std::uint32_t>(c.code));
    }
    text.remove_prefix(c.bytes);
  }
  return out += '"';
}

std::size_t columns(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Character c = decode(text);
    width += c.valid ? columns_of(c.code) : 1;
    text.remove_prefix(c.bytes);
  }
  return width;
}

std::string_view prefix(std::string_view text, std::size_t width) {
  std::size_t at = 0, used = 0;
  while (at < text.size()) {
    const Character c = decode(text.substr(at));
    const std::size_t wide = c.valid ? columns_of(c.code) : 1;
    if (used + wide > width) break;
    used += wide;
    at += c.bytes;
  }
  return text.substr(0, at);
}

std::string shorten(std::string_view text, std::size_t width) {
  if (columns(text) <= width) return std::string(text);
  if (width <= 2) return std::string(prefix(text, width));
  return std::string(prefix(text, width - 2)) + "..";
}

std::string shorten_middle(std::string_view text, std::size_t width) {
  if (columns(text) <= width) return std::string(text);
  if (width <= 4) return std::string(prefix(text, width));
  const std::size_t front = (width - 2) / 2;
  return fmt::format("{}..{}", prefix(text, front), suffix(text, width - 2 - front));
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t used = columns(text);
  return std::string(width > used ? width - used : 0, ' ').append(text);
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t used = columns(text);
  return std::string(text).append(width > used ? width - used : 0, ' ');
}

}  // namespace clusterprof::report::format
