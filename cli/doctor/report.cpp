// SPDX-License-Identifier: BSD-3-Clause
// Prints the results of `clusterprof doctor` as text, JSON or notes for node health checks.
#include "cli/doctor/report.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/version.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr std::size_t kLabelColumns = 8, kTitleColumns = 22;

// Bytes of the UTF-8 character at `at`, 0 when there is none.
std::size_t character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  if (length == 3 && ((first == 0xe0 && byte(at + 1) < 0xa0) || (first == 0xed && byte(at + 1) >= 0xa0)))
    return 0;
  if (length == 4 && ((first == 0xf0 && byte(at + 1) < 0x90) || (first == 0xf4 && byte(at + 1) >= 0x90)))
    return 0;
  return length;
}

std::string cut(const std::string& text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  constexpr std::string_view kMark = "...";
  std::size_t at = bytes - kMark.size();
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return text.substr(0, at) + std::string(kMark);
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Wraps `text` into lines from column `indent` on; the caller has already indented the first line.
void wrap(std::string& out, const std::string& text, std::size_t indent, std::size_t width) {
  std::size_t column = indent;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (column > indent && column + 1 + columns(word) > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns(word);
  }
  out += '\n';
}

std::string painted(std::string_view text, Status status, bool colour) {
  if (!colour) return std::string(text);
  const char* const start = status == Status::kOk     ? "\033[32m"
                            : status == Status::kWarn ? "\033[33m"
                                                      : "\033[1;31m";
  return start + std::string(text) + "\033[0m";
}

std::string plural(std::size_t number, const char* word) {
  return std::to_string(number) + " " + word + (number == 1 ? "" : "s");
}

std::string verdict_line(const std::vector<Check>& checks, const std::string& host) {
  const auto count = [&](Status status) {
    return static_cast<std::size_t>(std::count_if(
        checks.begin(), checks.end(), [status](const Check& check) { return check.status == status; }));
  };
  const std::size_t warnings = count(Status::kWarn), failures = count(Status::kFail);
  const std::string of = " of " + plural(checks.size(), "check");
  if (failures > 0)
    return host + ": " + plural(failures, "failure") +
           (warnings > 0 ? " and " + plural(warnings, "warning") : "") + of +
           ": recording does not work here as it should";
  if (warnings > 0) return host + ": " + plural(warnings, "warning") + of + ": recording works here";
  return host + ": all " + plural(checks.size(), "check") + " ok";
}

// Joins names with the same reason in one line: "A, B: why".
std::vector<std::string> grouped(const std::vector<std::string>& details) {
  std::vector<std::pair<std::string, std::string>> groups;
  for (const std::string& detail : details) {
    const std::size_t colon = std::min(detail.find(": "), detail.size());
    const std::string said = detail.substr(colon), name = detail.substr(0, colon);
    if (!groups.empty() && groups.back().second == said) {
      groups.back().first += ", " + name;
    } else {
      groups.emplace_back(name, said);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [names, said] : groups) lines.push_back(names + said);
  return lines;
}

// Marks, embeddings, overrides and isolates of right-to-left text: U+061C, U+200E, U+200F, U+202A to U+202E,
// U+2066 to U+2069.
bool reorders(std::string_view character) {
  static constexpr std::string_view kMarks[] = {"\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c",
                                                "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"};
  return std::find(std::begin(kMarks), std::end(kMarks), character) != std::end(kMarks);
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string printable(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_at(text, at);
    const auto byte = static_cast<unsigned char>(text[at]);
    // C1 control characters take two bytes.
    const bool is_control = byte < 0x20 || byte == 0x7f ||
                            (byte == 0xc2 && length == 2 && static_cast<unsigned char>(text[at + 1]) < 0xa0);
    if (length == 0 || is_control || reorders(std::string_view(text).substr(at, length))) {
      out += byte == '\n' || byte == '\t' ? ' ' : '?';
    } else {
      out += text.substr(at, length);
    }
    at += std::max<std::size_t>(length, 1);
  }
  return out;
}

std::string note_of(const Check& check) {
  std::string text = std::string(name_of(check.status)) + ": " + check.title + ": " + check.found;
  if (check.status != Status::kOk && !check.costs.empty()) text += "; " + check.costs;
  return cut(printable(text), kMaxNoteBytes);
}

std::string text_of(const std::vector<Check>& checks, const TextOptions& options) {
  std::string out, group;
  for (const Check& check : checks) {
    if (!options.verbose && check.status == Status::kOk) continue;
    if (check.group != group) {
      group = check.group;
      out += (out.empty() ? "" : "\n") + group + "\n";
    }
    std::string label = "  " + std::string(name_of(check.status));
    const std::size_t blanks = kLabelColumns - label.size();
    out += painted(label, check.status, options.colour) + std::string(blanks, ' ');
    const std::size_t indent = kLabelColumns + kTitleColumns;
    out += check.title + (columns(check.title) + 2 > kTitleColumns
                              ? "\n" + std::string(indent, ' ')
                              : std::string(kTitleColumns - columns(check.title), ' '));
    wrap(out, printable(check.found), indent, options.width);
    for (const auto& [name, text] : {std::pair("costs", &check.costs), std::pair("fix", &check.fix)}) {
      if (text->empty()) continue;
      const std::string start = std::string(kLabelColumns, ' ') + name;
      out += start + std::string(indent - start.size(), ' ');
      wrap(out, printable(*text), indent, options.width);
    }
    if (!options.verbose) continue;
    for (const std::string& detail : grouped(check.details)) {
      out += std::string(indent, ' ') + "- ";
      wrap(out, printable(detail), indent + 2, options.width);
    }
  }
  if (!out.empty()) out += '\n';
  return out + painted(verdict_line(checks, options.host), verdict_of(checks), options.colour) +
         (options.verbose ? "" : " (--verbose shows all)") + "\n";
}

std::string json_of(const std::vector<std::pair<std::string, std::uint64_t>>& counts) {
  std::string out;
  for (const auto& [name, count] : counts)
    out += (out.empty() ? "" : ", ") + quoted(name) + ": " + std::to_string(count);
  return "{" + out + "}";
}

std::string json_of(const std::vector<Check>& checks, const std::string& host, bool indented) {
  const auto line = [indented](std::size_t depth) {
    return indented ? "\n" + std::string(2 * depth, ' ') : std::string();
  };
  const char* const comma = indented ? "," : ", ";
  std::string out = "{" + line(1) + "\"schema\": \"clusterprof.doctor/1\"" + comma + line(1) +
                    "\"version\": " + quoted(kVersion) + comma + line(1) + "\"host\": " + quoted(host) +
                    comma + line(1) + "\"verdict\": " + quoted(std::string(name_of(verdict_of(checks)))) +
                    comma + line(1) + "\"checks\": [";
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const Check& check = checks[i];
    out += (i == 0 ? "" : comma) + line(2) + "{" + line(3) + "\"id\": " + quoted(check.id);
    const std::pair<const char*, std::string> texts[] = {
        {"group", check.group}, {"title", check.title}, {"status", std::string(name_of(check.status))},
        {"found", check.found}, {"costs", check.costs}, {"fix", check.fix}};
    for (const auto& [key, value] : texts) out += comma + line(3) + "\"" + key + "\": " + quoted(value);
    out += comma + line(3) + "\"details\": [";
    for (std::size_t k = 0; k < check.details.size(); ++k)
      out += (k == 0 ? "" : ", ") + quoted(check.details[k]);
    out += "]" + std::string(comma) + line(3) + "\"facts\": {";
    for (std::size_t k = 0; k < check.facts.size(); ++k)
      out += (k == 0 ? "" : ", ") + quoted(check.facts[k].first) + ": " + quoted(check.facts[k].second);
    out += "}";
    if (!check.counts.empty()) out += std::string(comma) + line(3) + "\"counts\": " + json_of(check.counts);
    out += line(2) + "}";
  }
  return out + line(1) + "]" + line(0) + "}\n";
}

std::string with_prefix(const std::string& text, const std::string& name) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += end > at ? name + ": " + text.substr(at, end - at) : "";
    if (end > at) out += '\n';
    at = end + 1;
  }
  return out;
}

}  // namespace clusterprof::cli::doctor
