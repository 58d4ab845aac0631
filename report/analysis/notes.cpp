// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/notes.hpp"

#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace clusterprof::report {

std::vector<NoteRecord> united_notes(std::vector<shard::Note> notes) {
  unite(notes);
  std::map<std::tuple<shard::NoteCode, std::string_view, std::string_view, std::uint64_t>, NoteRecord>
      records;
  for (const shard::Note& note : notes) {
    // What nodes count one by one is counted for all of them together.
    const bool is_sum = note.code == shard::NoteCode::kUnrecordedPrograms;
    NoteRecord& record = records[{note.code, note.text, note.detail, is_sum ? 0 : note.number}];
    record.code = note.code;
    record.text = note.text;
    record.detail = note.detail;
    record.number = is_sum ? record.number + note.number : note.number;
    if (!note.node.empty() && record.node_count++ < kMaxNoteParts) record.nodes.push_back(note.node);
    if (note.first_rank < 0) continue;
    record.rank_count += static_cast<std::uint64_t>(note.last_rank - note.first_rank) + 1;
    if (record.ranks.size() < kMaxNoteParts) record.ranks.push_back({note.first_rank, note.last_rank});
  }
  std::vector<NoteRecord> united;
  for (auto& [fact, record] : records) united.push_back(std::move(record));
  return united;
}

}  // namespace clusterprof::report
