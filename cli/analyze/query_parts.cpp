// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/query_parts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::cli {

using namespace report::format;
using namespace report::text;
using profile::ProfileReader;
using shard::ShardData;

namespace {

constexpr std::size_t kRows = 15;
constexpr int kNarrowest = 40;

}  // namespace

Result<OpenedProfile> open_for_query(const std::string& run) {
  const Result<std::filesystem::path> directory = run_directory(run);
  if (!directory) return directory.error();
  Result<ProfileReader> profile = open_profile(directory.value(), nullptr);
  if (!profile) return profile.error();
  const Result<const ShardData*> head = profile.value().paths_head();
  if (!head) return head.error();
  return OpenedProfile{std::move(profile.value()), head.value()};
}

std::string id_text(const shard::PathId& id) { return fmt::format("{:016x}{:016x}", id.high, id.low); }

std::string frame_label(const ShardData& data, std::uint32_t path) {
  if (path == 0) return "(all)";
  const shard::Frame& frame = data.frames[data.paths[path].frame];
  return function_label(data.strings[frame.name], frame.kind);
}

std::string path_label(const ShardData& data, std::uint32_t path, std::size_t room) {
  if (path == 0) return "(outside all calls)";
  const shard::Frame& frame = data.frames[data.paths[path].frame];
  std::string label = frame_label(data, path);
  if (const std::string place = short_place(data, frame); !place.empty()) label += " " + place;
  for (path = data.paths[path].parent; path != 0 && columns(label) < room; path = data.paths[path].parent)
    label += " < " + frame_label(data, path);
  return shorten(label, room);
}

std::string short_place(const ShardData& data, const shard::Frame& frame) {
  const std::string_view file = data.strings[frame.file];
  if (file.empty()) return {};
  return fmt::format("{}:{}", printable(file.substr(file.find_last_of('/') + 1)), frame.line);
}

void write_frame(QueryJson& json, const ShardData& data, std::uint32_t path) {
  const shard::Frame& frame = data.frames[data.paths[path].frame];
  const auto known = [&](shard::StringIndex text) {
    return text == 0 ? std::optional<std::string_view>()
                     : std::optional(std::string_view(data.strings[text]));
  };
  json("name", data.strings[frame.name])("file", known(frame.file));
  json("line", frame.line == 0 ? std::optional<std::uint32_t>() : std::optional(frame.line));
  json("kind", frame_kind_name(frame.kind))("module", known(frame.module));
}

Page new_page() {
  return {static_cast<std::size_t>(std::max(columns_of(STDOUT_FILENO), kNarrowest)),
          wants_colour(STDOUT_FILENO)};
}

void note_the_rest(Page& page, std::size_t shown, std::size_t all) {
  if (all > shown) page.line(fmt::format("  .. and {} more", all - shown), Style::kDim);
}

std::string count_text(std::uint64_t number) { return count(static_cast<double>(number)); }
std::string bytes_text(std::uint64_t number) { return bytes(static_cast<double>(number)); }
std::string share_text(double part, double whole) {
  return fmt::format("{:.1f}", whole > 0 ? 100 * part / whole : 0.0);
}

std::size_t rows_of(const QueryOptions& options, std::size_t all) {
  if (options.top != 0) return std::min(options.top, all);
  return options.json ? all : std::min(kRows, all);
}

const std::string& node_name(const ShardData& data, const shard::Rank& rank) {
  return data.nodes[rank.node].name;
}

}  // namespace clusterprof::cli
