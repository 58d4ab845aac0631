// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/note.hpp"

#include <algorithm>
#include <utility>

namespace clusterprof::shard {
namespace {

bool are_of_one_fact(const Note& a, const Note& b) {
  return a.code == b.code && a.node == b.node && a.text == b.text && a.detail == b.detail &&
         a.number == b.number;
}

}  // namespace

std::optional<NoteCode> note_code(std::string_view name) {
  const auto* const found = std::find_if(kNoteKinds.begin(), kNoteKinds.end(),
                                         [&](const NoteKind& kind) { return name == kind.name; });
  if (found == kNoteKinds.end()) return std::nullopt;
  return static_cast<NoteCode>(found - kNoteKinds.begin());
}

Note note_of_run(NoteCode code, std::uint64_t number, std::string text, std::string detail) {
  Note note;
  note.code = code;
  note.number = number;
  note.text = std::move(text);
  note.detail = std::move(detail);
  return note;
}

Note note_of_node(NoteCode code, std::string node, std::uint64_t number, std::string text) {
  Note note = note_of_run(code, number, std::move(text));
  note.node = std::move(node);
  return note;
}

Note note_of_ranks(NoteCode code, RankRange ranks, std::uint64_t number) {
  Note note = note_of_run(code, number);
  note.first_rank = ranks.first;
  note.last_rank = ranks.last;
  return note;
}

void unite(std::vector<Note>& notes) {
  std::sort(notes.begin(), notes.end());
  std::vector<Note> united;
  for (Note& note : notes) {
    if (!united.empty() && are_of_one_fact(united.back(), note)) {
      Note& last = united.back();
      if (note.first_rank <= std::int64_t{last.last_rank} + 1) {
        last.last_rank = std::max(last.last_rank, note.last_rank);
        continue;
      }
    }
    united.push_back(std::move(note));
  }
  notes = std::move(united);
}

const char* problem_of(const Note& note) {
  if (static_cast<std::size_t>(note.code) >= kNoteCodes) return "unknown code";
  const NoteKind& kind = kind_of(note.code);
  if (kind.number == nullptr && note.number != 0) return "a number that its code does not have";
  if ((kind.text == nullptr && !note.text.empty()) || (kind.detail == nullptr && !note.detail.empty()))
    return "a text that its code does not have";
  if (kind.scope != NoteScope::kNode && !note.node.empty()) return "a node that its code does not have";
  if (kind.scope != NoteScope::kRanks)
    return note.first_rank == -1 && note.last_rank == -1 ? nullptr : "ranks that its code does not have";
  // Ranks may have any number, even a negative one, and so may the range.
  return note.first_rank <= note.last_rank ? nullptr : "a range of ranks that ends before it begins";
}

}  // namespace clusterprof::shard
