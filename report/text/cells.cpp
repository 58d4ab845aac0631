// SPDX-License-Identifier: BSD-3-Clause
#include "report/text/cells.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/format/characters.hpp"

namespace clusterprof::report::text {

using namespace format;

std::string share_cell(double part, double whole) {
  return fmt::format("{:.1f}", 100 * share_of(part, whole));
}
std::string count_cell(std::uint64_t number) { return count(static_cast<double>(number)); }
std::string bytes_cell(std::uint64_t number) { return bytes(static_cast<double>(number)); }
std::string known_bytes(std::uint64_t number) { return number == 0 ? "-" : bytes_cell(number); }

std::size_t rows_shown(std::size_t all, const ResourceOptions& options) {
  return std::min(all, options.full ? options.rows : std::min(kFewRows, options.rows));
}

void title(Page& page, std::string_view text) {
  page.blank();
  page.line(fmt::format("  {}", text), Style::kDim);
}

std::string place_of(std::string_view function, shard::FrameKind kind, std::string_view file,
                     std::uint32_t line, const ShortPaths& paths, std::size_t room) {
  if (function.empty() && file.empty()) return shorten_middle("code that is not known", room);
  return name_and_place(function_label(function, kind), paths.place(file, line), room);
}

std::string with_called(std::string place, const std::string& called, std::size_t room) {
  if (called.empty()) return place;
  const std::string behind = fmt::format(" ({})", printable(called));
  return columns(place) + columns(behind) <= room ? place + behind : place;
}

std::string place_cell(const SourceLocation& place, const format::ShortPaths& paths, std::size_t room) {
  if (place.function.empty() && place.file.empty()) return "-";
  return with_called(place_of(place.function, place.kind, place.file, place.line, paths, room), place.called,
                     room);
}

std::string counted_name(std::uint64_t count, const std::string& name, std::size_t columns) {
  const std::string shown = format::shorten_middle(name.empty() ? "?" : format::printable(name), columns);
  return count == 1 ? shown : fmt::format("{} x {}", count, shown);
}

}  // namespace clusterprof::report::text
