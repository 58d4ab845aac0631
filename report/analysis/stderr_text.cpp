// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/stderr_text.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace clusterprof::report {
namespace {

constexpr std::string_view kTraceback = "Traceback (most recent call last):";
constexpr std::size_t kMaxFrames = 1000;

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// '  File "FILE", line LINE, in FUNCTION'
std::optional<UncaughtException::Frame> frame_in(std::string_view line) {
  if (!take(line, "  File \"")) return std::nullopt;
  const std::size_t quote = line.rfind("\", line ");
  if (quote == std::string_view::npos || quote == 0) return std::nullopt;
  UncaughtException::Frame frame;
  frame.file = line.substr(0, quote);
  line.remove_prefix(quote + std::string_view("\", line ").size());
  const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), frame.line);
  if (error != std::errc()) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(rest - line.data()));
  if (!take(line, ", in ") || line.empty()) return std::nullopt;
  frame.function = line;
  return frame;
}

bool is_type_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// "TYPE" or "TYPE: MESSAGE"
bool read_exception(std::string_view line, UncaughtException& into) {
  const std::size_t end = std::min(line.find(':'), line.size());
  const std::string_view type = line.substr(0, end);
  if (type.empty() || !std::ranges::all_of(type, is_type_letter) || (type[0] >= '0' && type[0] <= '9'))
    return false;
  line.remove_prefix(end);
  if (!line.empty() && line != ":" && !take(line, ": ")) return false;
  into.type = type;
  into.message = line == ":" ? std::string_view() : line;
  return true;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return is_type_letter(c) && c != '.'; });
}

// What follows " *** " or stands at the beginning of the line; empty: it is another line.
std::string_view behind_stars(std::string_view line) {
  constexpr std::string_view kStars = "*** ";
  const std::size_t at = line.find(kStars);
  if (at == std::string_view::npos || (at != 0 && line[at - 1] != ' ')) return {};
  return line.substr(at + kStars.size());
}

std::optional<FatalMpiError> error_of_open_mpi(std::string_view text) {
  constexpr std::string_view kBegin = "*** An error occurred in ";
  constexpr int kLines = 6;  // that may follow: "reported by process", "on communicator", ...
  const std::size_t begin = text.rfind(kBegin);
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin + kBegin.size());
  FatalMpiError found;
  found.op = next_line(text);
  if (!is_name(found.op)) return std::nullopt;
  for (int i = 0; i < kLines && !text.empty(); ++i) {
    std::string_view line = behind_stars(next_line(text));
    if (!line.starts_with("MPI_ERR_")) continue;
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos || !is_name(line.substr(0, colon))) continue;
    found.error_class = line.substr(0, colon);
    found.text = line.substr(colon + 2);
    break;
  }
  return found;
}

// MPICH's words for the classes that a message or a call's arguments lead to.
constexpr std::pair<std::string_view, std::string_view> kMpichTexts[] = {
    {"Invalid buffer pointer", "MPI_ERR_BUFFER"},
    {"Invalid count", "MPI_ERR_COUNT"},
    {"Invalid datatype", "MPI_ERR_TYPE"},
    {"Invalid tag", "MPI_ERR_TAG"},
    {"Invalid communicator", "MPI_ERR_COMM"},
    {"Invalid rank", "MPI_ERR_RANK"},
    {"Invalid root", "MPI_ERR_ROOT"},
    {"Message truncated", "MPI_ERR_TRUNCATE"},
    {"Invalid group", "MPI_ERR_GROUP"},
    {"Invalid MPI_Op", "MPI_ERR_OP"},
    {"Invalid MPI_Request", "MPI_ERR_REQUEST"},
    {"Invalid argument", "MPI_ERR_ARG"},
    {"Other MPI error", "MPI_ERR_OTHER"},
    {"Internal MPI error!", "MPI_ERR_INTERN"},
    {"See the MPI_ERROR field in MPI_Status for the error code", "MPI_ERR_IN_STATUS"}};

// "internal_Recv" and "PMPI_Recv" are MPI_Recv.
std::string mpi_function(std::string_view name) {
  if (take(name, "internal_")) return "MPI_" + std::string(name);
  if (name.starts_with("PMPI_")) name.remove_prefix(1);
  return name.starts_with("MPI_") ? std::string(name) : std::string();
}

std::optional<FatalMpiError> error_of_mpich(std::string_view text) {
  constexpr std::string_view kBegin = "Fatal error in ", kStack = ", error stack:";
  const std::size_t begin = text.rfind(kBegin);
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin + kBegin.size());
  std::string_view line = next_line(text);
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos || !is_name(line.substr(0, colon))) return std::nullopt;
  FatalMpiError found;
  found.op = mpi_function(line.substr(0, colon));
  if (found.op.empty()) return std::nullopt;
  line.remove_prefix(colon + 2);
  if (line.ends_with(kStack)) line.remove_suffix(kStack.size());
  found.text = line;
  for (const auto& [words, error_class] : kMpichTexts)
    if (line == words) found.error_class = error_class;
  return found;
}

}  // namespace

std::optional<FatalMpiError> fatal_mpi_error(std::string_view text) {
  auto found = error_of_open_mpi(text);
  return found ? found : error_of_mpich(text);
}

std::optional<UncaughtException> python_exception(std::string_view text) {
  const std::size_t begin = text.rfind(kTraceback);
  if (begin == std::string_view::npos || (begin != 0 && text[begin - 1] != '\n')) return std::nullopt;
  text.remove_prefix(begin);
  if (next_line(text) != kTraceback) return std::nullopt;
  UncaughtException found;
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    // Source lines, marks below them, and "  [Previous line repeated 9 more times]" are indented, too.
    if (line.starts_with("  ")) {
      if (const auto frame = frame_in(line); frame && found.frames.size() < kMaxFrames)
        found.frames.push_back(*frame);
      continue;
    }
    return !found.frames.empty() && read_exception(line, found) ? std::optional(found) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<UncaughtException> cpp_exception(std::string_view text) {
  constexpr std::string_view kBegin = "terminate called after throwing an instance of '",
                             kWhat = "  what():  ";
  const std::size_t begin = text.rfind(kBegin);
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin + kBegin.size());
  std::string_view type = next_line(text);
  if (!type.ends_with('\'') || type.size() < 2) return std::nullopt;
  type.remove_suffix(1);
  UncaughtException found;
  found.type = type;
  std::string_view what = next_line(text);
  if (take(what, kWhat)) found.message = what;
  return found;
}

}  // namespace clusterprof::report
