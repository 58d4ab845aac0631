// SPDX-License-Identifier: BSD-3-Clause
// Formats numbers, names, ranks and places for text output, and makes names from a profile safe to print.
#include "report/format/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>

namespace clusterprof::report::text {
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

std::string three_digits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

std::string decimal_units(double value, double exact_below, std::string_view exact_unit,
                          std::string_view unit) {
  static constexpr std::string_view kPrefixes = "kMGTPE";
  if (value < exact_below) return fmt::format("{:.0f}{}{}", value, exact_unit.empty() ? "" : " ", exact_unit);
  std::size_t step = 0;
  value /= 1000;
  while (value >= 999.5 && step + 1 < kPrefixes.size()) {
    value /= 1000;
    ++step;
  }
  return fmt::format("{} {}{}", three_digits(value), kPrefixes[step], unit);
}

std::string_view base_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
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

std::string seconds(double value) {
  if (value < 0) return fmt::format("-{}", seconds(-value));
  if (value == 0) return "0 s";
  if (value < 999.5e-9) return fmt::format("{:.0f} ns", value * 1e9);
  if (value < 999.5e-6) return three_digits(value * 1e6) + " us";
  if (value < 999.5e-3) return three_digits(value * 1e3) + " ms";
  if (value < 9999.5) return three_digits(value) + " s";
  return three_digits(value / 3600) + " h";
}

std::string bytes(double value) { return decimal_units(value, 999.5, "B", "B"); }
std::string count(double value) { return decimal_units(value, 9999.5, "", ""); }
std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string bin_bytes(std::uint64_t value) {
  static constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (value >= 1024 && value % 1024 == 0 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", value, kUnits[unit]);
}

std::string utc(std::int64_t ns) {
  using namespace std::chrono;
  const sys_seconds time(floor<std::chrono::seconds>(nanoseconds(ns)));
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

namespace {

std::vector<shard::RankRange> ranges_of(const std::vector<std::int32_t>& ascending) {
  std::vector<shard::RankRange> ranges;
  for (const std::int32_t rank : ascending) {
    if (!ranges.empty() && ranges.back().last + 1 == rank)
      ranges.back().last = rank;
    else
      ranges.push_back({rank, rank});
  }
  return ranges;
}

}  // namespace

std::string rank_list(const std::vector<std::int32_t>& ascending, std::size_t most) {
  return range_list(ranges_of(ascending), false, most);
}

std::string range_list(const std::vector<shard::RankRange>& ascending, bool and_more, std::size_t most) {
  std::string out;
  std::size_t groups = 0;
  const auto add = [&](const shard::RankRange& range) {
    if (groups++ == most) return false;
    if (!out.empty()) out += ", ";
    out += range.first == range.last ? fmt::format("{}", range.first)
                                     : fmt::format("{}-{}", range.first, range.last);
    return true;
  };
  for (const auto& [first, last] : ascending) {
    const bool pair = last == first + 1;  // "3, 4" reads better than "3-4"
    if (pair ? !add({first, first}) || !add({last, last}) : !add({first, last})) return out + ", ..";
  }
  return and_more ? out + ", .." : out;
}

std::string missing_ranks(const RunInfo& run, std::size_t most) {
  return range_list(ranges_of(run.missing_ranks), run.missing > run.missing_ranks.size(), most);
}

std::string signal_name(int number) {
  switch (number) {  // the numbers of Linux on x86 and ARM
    case 1:
      return "SIGHUP";
    case 2:
      return "SIGINT";
    case 3:
      return "SIGQUIT";
    case 4:
      return "SIGILL";
    case 5:
      return "SIGTRAP";
    case 6:
      return "SIGABRT";
    case 7:
      return "SIGBUS";
    case 8:
      return "SIGFPE";
    case 9:
      return "SIGKILL";
    case 10:
      return "SIGUSR1";
    case 11:
      return "SIGSEGV";
    case 12:
      return "SIGUSR2";
    case 13:
      return "SIGPIPE";
    case 14:
      return "SIGALRM";
    case 15:
      return "SIGTERM";
    case 24:
      return "SIGXCPU";
    case 25:
      return "SIGXFSZ";
    case 31:
      return "SIGSYS";
    default:
      return fmt::format("signal {}", number);
  }
}

TimeScale::TimeScale(double largest_s) {
  if (largest_s < 0.1) {
    unit_ = "ms", factor_ = 1e3;
  } else if (largest_s >= 99'999.5) {
    unit_ = "h", factor_ = 1.0 / 3600;
  }
  const double largest = largest_s * factor_;
  digits_ = largest < 999.995 ? 2 : largest < 9999.95 ? 1 : 0;
}

std::string TimeScale::operator()(double value_s) const {
  return fmt::format("{:.{}f}", value_s * factor_, digits_);
}

namespace {

constexpr std::size_t kLongName = 32;

// What stands in angle brackets in Python's names.
bool is_python_part(std::string_view inside) {
  static constexpr std::array<std::string_view, 7> kParts = {"locals",   "lambda",  "genexpr", "listcomp",
                                                             "dictcomp", "setcomp", "module"};
  return std::find(kParts.begin(), kParts.end(), inside) != kParts.end();
}

// Where the '<' at `open` is closed; npos: nowhere.
std::size_t closing(std::string_view name, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>' && (i == 0 || name[i - 1] != '-') && --depth == 0) return i;
  }
  return std::string_view::npos;
}

// "std::vector<double, std::allocator<double> >::at" -> "std::vector<>::at"
std::string without_template_arguments(std::string_view name) {
  if (name.find("operator") != std::string_view::npos) return std::string(name);
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    out += name[i];
    if (name[i] != '<') continue;
    const std::size_t end = closing(name, i);
    if (end == std::string_view::npos) return std::string(name);
    const std::string_view inside = name.substr(i + 1, end - i - 1);
    if (is_python_part(inside)) out += inside;
    out += '>';
    i = end;
  }
  return out;
}

// Where the components of a name begin that "::" or "." divide, outside brackets: each may be left out but
// the last.
std::vector<std::size_t> components_of(std::string_view name) {
  std::vector<std::size_t> begins{0};
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '<' || c == '(') ++depth;
    if ((c == '>' || c == ')') && depth > 0) --depth;
    if (depth != 0) continue;
    if (c == '.') begins.push_back(i + 1);
    if (c == ':' && i + 1 < name.size() && name[i + 1] == ':') begins.push_back(++i + 1);
  }
  return begins;
}

// Demangled names of function templates begin with the type of the result: "void ns::f<int>" -> "ns::f<int>".
std::string_view without_result(std::string_view name) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<' || name[i] == '(') ++depth;
    if ((name[i] == '>' || name[i] == ')') && depth > 0) --depth;
    if (name[i] == ' ' && depth == 0) begin = i + 1;
  }
  return name.substr(begin);
}

}  // namespace

std::string shorten_name(std::string_view label, std::size_t width) {
  if (columns(label) <= width) return std::string(label);
  const std::string text = without_template_arguments(label);
  if (columns(text) <= width) return text;
  const std::vector<std::size_t> begins = components_of(text);
  const std::string_view view = text;
  for (std::size_t i = 1; i < begins.size(); ++i)
    if (const std::string_view rest = view.substr(begins[i]); columns(rest) + 2 <= width)
      return std::string("..").append(rest);
  std::string_view last = view.substr(begins.back());
  if (last.ends_with("()")) last.remove_suffix(2);
  constexpr std::size_t kBothEnds = 8;  // columns from which on they say more than the beginning alone
  return width >= kBothEnds ? shorten_middle(last, width) : shorten(last, width);
}

std::string function_label(std::string_view name, shard::FrameKind kind) {
  std::string label = printable(name);
  if (label.empty()) return "?";
  if (kind == shard::FrameKind::kMpi || kind == shard::FrameKind::kKernel) return label;
  // "run(int)::{lambda(double)#1}::operator()(double) const", but not a function that has it as an
  // argument
  if (const std::size_t lambda = label.rfind("::{lambda("); lambda != std::string::npos && lambda != 0) {
    const std::string outer = label.substr(0, lambda);
    const auto closed = [&](char open, char close) {
      return std::count(outer.begin(), outer.end(), open) == std::count(outer.begin(), outer.end(), close);
    };
    if (closed('<', '>') && closed('(', ')')) return function_label(outer, kind) + "::{lambda}";
  }
  const bool no_call = label.front() == '<' || label.find("+0x") != std::string::npos ||
                       label.find("operator") != std::string::npos || label == shard::kGarbageName ||
                       label.ends_with(", no names") || label.ends_with(", interpreter");  // a whole module
  if (no_call) return label;
  static constexpr std::string_view kAnonymous = "(anonymous namespace)";
  int depth = 0;
  for (std::size_t i = 0; i < label.size(); ++i) {
    if (label[i] == '<') ++depth;
    if (label[i] == '>') --depth;
    if (label[i] != '(' || depth != 0) continue;
    if (label.compare(i, kAnonymous.size(), kAnonymous) == 0) {
      i += kAnonymous.size() - 1;
      continue;
    }
    label.resize(i);
    if (kind == shard::FrameKind::kNative) label = without_result(label);
    break;
  }
  if (columns(label) > kLongName) label = without_template_arguments(label);
  return label + "()";
}

ShortPaths::ShortPaths(const Analysis& analysis) {
  const auto see = [this](const std::string& path) {
    const auto [known, is_new] = seen_.try_emplace(std::string(base_name(path)), path);
    if (!is_new && known->second != path) known->second.clear();
  };
  for (const auto& row : analysis.functions) see(row.file);
  for (const auto& row : analysis.lines) see(row.file);
  for (const auto& row : analysis.mpi_calls) see(row.file);
  for (const auto& place : analysis.places) see(place.file);
  if (analysis.io)
    for (const auto& row : analysis.io->calls) see(row.file);
}

std::string ShortPaths::file(std::string_view path) const {
  const std::string_view base = base_name(path);
  const auto known = seen_.find(std::string(base));
  const bool ambiguous =
      base == "__init__.py" || base == "__main__.py" || (known != seen_.end() && known->second.empty());
  if (!ambiguous || base.size() == path.size()) return printable(base);
  const std::string_view folder = path.substr(0, path.size() - base.size() - 1);
  return printable(path.substr(path.size() - base.size() - 1 - base_name(folder).size()));
}

std::string ShortPaths::place(std::string_view path, std::uint32_t line) const {
  if (path.empty()) return {};
  return line == 0 ? file(path) : fmt::format("{}:{}", file(path), line);
}

std::string name_and_place(std::string_view name, std::string_view place, std::size_t width) {
  if (place.empty()) return shorten_name(name, width);
  if (columns(name) + 1 + columns(place) <= width) return fmt::format("{} {}", name, place);
  // The function's own name first, then as much of the place as says something.
  constexpr std::size_t kShortestPlace = 8;
  const std::string bare = without_template_arguments(name);
  const std::size_t own = columns(std::string_view(bare).substr(components_of(bare).back())) + 2;
  if (own + 1 + columns(place) <= width)
    return fmt::format("{} {}", shorten_name(name, width - 1 - columns(place)), place);
  if (own + 1 + kShortestPlace > width) return shorten_name(name, width);
  const std::string short_name = shorten_name(name, own);
  return fmt::format("{} {}", short_name, shorten_middle(place, width - 1 - columns(short_name)));
}

std::string describe(const FunctionRow& row, const ShortPaths& paths, std::size_t width) {
  const std::string name = function_label(row.name, row.kind);
  if (row.kind == shard::FrameKind::kMpi) return shorten_middle(name, width);
  if (row.name == shard::kGilWaitName) return shorten_middle(name, width);
  if (row.kind == shard::FrameKind::kKernel) return name_and_place(name, "[kernel]", width);
  if (!row.file.empty()) return name_and_place(name, paths.place(row.file, row.line), width);
  std::string_view module = base_name(row.module);
  module = module.substr(0, module.find(".so"));
  if (module.empty() || name.find(module) != std::string::npos)
    return shorten_name(name, width);  // "module+0x12ab"
  const std::string full = fmt::format("{} [{}]", name, printable(module));
  return columns(full) <= width ? full : shorten_name(name, width);
}

std::string describe(const MpiCallRow& row, const ShortPaths& paths, std::size_t width) {
  const std::string op = printable(row.op);
  if (row.function.empty()) return shorten_middle(op, width);
  const std::string arrow = op + " <- ";
  const std::size_t used = columns(arrow);
  return arrow + name_and_place(function_label(row.function, shard::FrameKind::kNative),
                                paths.place(row.file, row.line), width > used ? width - used : 0);
}

std::string describe(const SourceLocation& place, const ShortPaths& paths, std::size_t width) {
  if (!place.op.empty()) {
    MpiCallRow row;
    row.op = place.op, row.function = place.function, row.file = place.file, row.line = place.line;
    return describe(row, paths, width);
  }
  if (place.function.empty()) return shorten_middle("code that is not known", width);
  FunctionRow row;
  row.name = place.function, row.file = place.file, row.module = place.module;
  row.line = place.line, row.kind = place.kind;
  if (place.called.empty()) return describe(row, paths, width);
  // Where there is no room for it, the place is what matters.
  const std::string called = fmt::format(" ({})", shorten_name(printable(place.called), kLongName));
  const std::string text = describe(row, paths, width);
  return columns(text) + columns(called) <= width ? text + called : text;
}

const char* wait_kind(shard::WaitKind kind) {
  static constexpr std::array<const char*, shard::kWaitKinds> kLabels = {
      "late sender",    "late receiver", "wait at barrier", "wait at NxN",
      "late broadcast", "early reduce",  "early scan"};
  return kLabels[static_cast<std::size_t>(kind)];
}

std::string shell_word(std::string_view word) {
  const std::string shown = printable(word);
  if (!shown.empty() && shown.find_first_of(" \"'\\$&|;<>()*?[]{}~#`!") == std::string::npos) return shown;
  std::string out = "'";
  for (const char c : shown) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out += '\'';
}

std::string command_line(const RunInfo& run) {
  std::string out;
  for (const std::string& word : run.command) {
    if (!out.empty()) out += ' ';
    out += shell_word(word);
  }
  return out;
}

std::string plural(std::size_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string ranks_and_nodes(const RunInfo& run) {
  const std::string spawned =
      run.spawned_ranks == 0 ? "" : fmt::format(", {} of them spawned,", run.spawned_ranks);
  return fmt::format("{}{} on {}", plural(run.ranks, "rank"), spawned, plural(run.nodes, "node"));
}

}  // namespace clusterprof::report::text
