// SPDX-License-Identifier: BSD-3-Clause
// Writes functions, files, source locations and commands as readers know them.
#include "report/format/names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/base_name.hpp"
#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::report::format {
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
  if (kind == shard::FrameKind::kMpi || kind == shard::FrameKind::kKernel ||
      kind == shard::FrameKind::kRegion)
    return label;
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
                       label == shard::kRunnableName || label.ends_with(", no names") ||
                       label.ends_with(", interpreter");  // a whole module
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
  if (analysis.memory)
    for (const auto& row : analysis.memory->lines) see(row.file);
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

std::string ShortPaths::place(std::string_view path, std::uint32_t line, bool approximate) const {
  if (path.empty()) return {};
  return line == 0 ? file(path) : fmt::format("{}:{}{}", file(path), approximate ? "~" : "", line);
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

std::string place_and_name(std::string_view place, std::string_view name, std::size_t width) {
  if (columns(place) + 5 > width) return shorten_middle(place, width);
  return fmt::format("{} {}", place, shorten_name(name, width - columns(place) - 1));
}

std::string name_and_module(std::string_view label, std::string_view module) {
  module = base_name(module);
  module = module.substr(0, module.find(".so"));
  if (module.empty() || label.find(module) != std::string_view::npos) return std::string(label);
  if (module.front() == '[') return fmt::format("{} {}", label, printable(module));
  return fmt::format("{} [{}]", label, printable(module));
}

std::string describe(const FunctionRow& row, const ShortPaths& paths, std::size_t width) {
  const std::string name = function_label(row.name, row.kind);
  if (row.kind == shard::FrameKind::kMpi) return shorten_middle(name, width);
  if (row.kind == shard::FrameKind::kKernel && row.name.starts_with("waiting "))  // for the GIL, in OpenMP
    return shorten_middle(name, width);
  if (row.kind == shard::FrameKind::kKernel) return name_and_place(name, "[kernel]", width);
  if (!row.file.empty()) return name_and_place(name, paths.place(row.file, row.line), width);
  const std::string full = name_and_module(name, row.module);
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

const char* frame_kind_name(shard::FrameKind kind) {
  static constexpr std::array<const char*, shard::kFrameKinds> kNames = {"python", "native", "mpi", "kernel",
                                                                         "region"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "native";
}

const char* lock_kind_label(LockKind kind) {
  return kind == LockKind::kPython ? "lock of Python" : kLockKindNames[static_cast<std::size_t>(kind)];
}

std::string lock_label(const LockRow& row) {
  const char* const kind = lock_kind_label(row.kind);
  if (!row.name.empty())
    return row.kind == LockKind::kMutex ? printable(row.name)
                                        : fmt::format("{} ({})", printable(row.name), kind);
  if (row.address == 0 || !row.rank) return "locks that found no room";
  return fmt::format("{} at {:#x} of rank {}", kind, row.address, *row.rank);
}

std::string construct_label(shard::OmpKind kind, std::uint8_t schedules) {
  const std::vector<std::string> names = shard::omp_schedule_names(schedules);
  const char* const name = shard::omp_kind_name(kind);
  return names.empty() ? name : fmt::format("{} ({})", name, fmt::join(names, ", "));
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

std::string command_line(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += ' ';
    out += shell_word(word);
  }
  return out;
}

std::vector<std::string> command_lines(const RunInfo& run, std::size_t most) {
  std::vector<std::string> lines;
  if (run.commands.size() < 2) {
    if (!run.command.empty()) lines.push_back(command_line(run.command));
    return lines;
  }
  for (const CommandRow& row : run.commands) {
    if (lines.size() + 1 == most && run.commands.size() > most) {
      lines.push_back(fmt::format("and {} more commands", run.commands.size() - lines.size()));
      break;
    }
    lines.push_back(fmt::format("{} {}: {}", row.ranks.size() == 1 ? "rank" : "ranks", rank_ranges(row.ranks),
                                command_line(row.words)));
  }
  return lines;
}

std::string command_line(const RunInfo& run) {
  constexpr std::size_t kMost = 16;
  return fmt::format("{}", fmt::join(command_lines(run, kMost), "; "));
}

}  // namespace clusterprof::report::format
