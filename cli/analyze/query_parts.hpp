// SPDX-License-Identifier: BSD-3-Clause
// What the answers of `clusterprof query` have in common: the opened profile, labels of call paths, JSON and
// tables.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/analyze/output.hpp"
#include "cli/analyze/query.hpp"
#include "formats/profile/profile_reader.hpp"
#include "report/json/json_writer.hpp"
#include "report/text/table.hpp"

namespace clusterprof::cli {

// The profile of a run, and its tables without the rows of the matrix.
struct OpenedProfile {
  profile::ProfileReader profile;
  const shard::ShardData* data;
};
Result<OpenedProfile> open_for_query(const std::string& run);

template <typename T>
std::optional<T> number_of(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

inline double seconds_of(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// Writes to stdout.
struct JsonOutput {
  Output output;
  report::JsonSink sink = [this](std::string_view piece) { output(piece); };
};

// The answer to one question, as a JSON document.
class QueryJson : private JsonOutput, public report::JsonWriter {
 public:
  explicit QueryJson(const char* question) : JsonWriter(sink) {
    begin_object();
    (*this)("schema", "clusterprof.query/1")("question", question);
  }
  // Ends the document. Returns the exit status.
  int print() {
    end_object();
    finish();
    return output.finish();
  }
};

std::string id_text(const shard::PathId& id);
std::string frame_label(const shard::ShardData& data, std::uint32_t path);
// "leaf() train.py:57 < step() < main()", as much of it as fits into `room` columns.
std::string path_label(const shard::ShardData& data, std::uint32_t path, std::size_t room);
// "train.py:57"; empty without a file.
std::string short_place(const shard::ShardData& data, const shard::Frame& frame);
void write_frame(QueryJson& json, const shard::ShardData& data, std::uint32_t path);
const std::string& node_name(const shard::ShardData& data, const shard::Rank& rank);

// As wide as the terminal.
report::text::Page new_page();
// Prints a table whose last column takes the room that is left: `fill(table, room)` adds the rows.
template <typename Fill>
void print_table(report::text::Page& page, const std::vector<report::text::Table::Column>& titles,
                 const Fill& fill) {
  report::text::Table narrow(titles);
  fill(narrow, 0);
  report::text::Table table(titles);
  fill(table, narrow.room(page.width()));
  table.print(page);
}
void note_the_rest(report::text::Page& page, std::size_t shown, std::size_t all);
std::string count_text(std::uint64_t number);
std::string bytes_text(std::uint64_t number);
// In %, without the sign.
std::string share_text(double part, double whole);
// How many of `all` rows are printed.
std::size_t rows_of(const QueryOptions& options, std::size_t all);

}  // namespace clusterprof::cli
