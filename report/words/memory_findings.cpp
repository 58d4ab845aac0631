// SPDX-License-Identifier: BSD-3-Clause
// Sentences about the memory that ranks hold.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "report/format/numbers.hpp"
#include "report/words/finding_phrases.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report::words {
namespace {

class MemorySentences : private FindingPhrases {
 public:
  using FindingPhrases::FindingPhrases;

  [[nodiscard]] std::optional<FindingText> text() const {
    switch (f_.kind) {
      case Kind::kOutOfMemory:
        return out_of_memory();
      case Kind::kMemoryImbalance:
        return imbalance();
      case Kind::kMemoryGrowth:
        return growth();
      case Kind::kMemoryRequested:
        return FindingText{fmt::format("The job asked for {} of memory on node {}, and used {} at most, "
                                       "files that it read included.",
                                       bytes(Key::kRequested), node(), bytes(Key::kUsed)),
                           ""};
      case Kind::kMemoryOfAllocator:
        return of_allocator();
      case Kind::kPythonNumbers:
        return FindingText{
            fmt::format(
                "{} of Python objects that {} bytes are taken for each are held{}: that is the size of "
                "numbers in a list.",
                bytes(Key::kHeld), static_cast<int>(e_.number(Key::kBytesPerObject)), made_in()),
            ""};
      default:
        return {};
    }
  }

 private:
  [[nodiscard]] std::string bytes(Key key) const { return format::bytes(e_.number(key)); }
  // " by load() data.py:7"
  [[nodiscard]] std::string made_in() const {
    const std::string place = name(f_.place, names_);
    return place.empty() ? "" : " by " + place;
  }

  // "4.00 GB by load() data.py:7 on rank 3, 1.00 GB by ..."
  [[nodiscard]] std::string holders() const {
    std::string out;
    for (const HeldShare& held : f_.held) {
      const std::string place = name(held.place, names_);
      out += fmt::format("{}{} by {} on rank {}", out.empty() ? "" : ", ", format::bytes(held.bytes),
                         place.empty() ? "code that is not known" : place, held.rank);
    }
    return out;
  }

  [[nodiscard]] FindingText out_of_memory() const {
    const std::string limit =
        e_.has(Key::kLimit) ? fmt::format(" (it may have {})", bytes(Key::kLimit)) : std::string();
    return {fmt::format("Memory was {} on node {}{}; its ranks held {} at most: {}.",
                        e_.has(Key::kFailure) ? "used up" : "nearly used up", node(), limit,
                        bytes(Key::kHeld), holders()),
            ""};
  }

  [[nodiscard]] FindingText imbalance() const {
    FindingText result{fmt::format("Rank {} holds {} at its peak, the mean rank {}", rank(),
                                   bytes(Key::kPeak), bytes(Key::kMeanPeak)),
                       "Memory has to be asked for as if all ranks needed as much."};
    if (e_.has(Key::kPlaceBytes))
      result.first += fmt::format(": {} of it{}", bytes(Key::kPlaceBytes), made_in());
    result.first += ".";
    return result;
  }

  [[nodiscard]] FindingText growth() const {
    FindingText result{
        fmt::format("On node {}, memory allocated in {} is never freed: it grows by {}/s, to {} at the end.",
                    node(), maker(), bytes(Key::kGrowth), bytes(Key::kHeld)),
        ""};
    if (e_.has(Key::kFullIn) && e_.number(Key::kFullIn) <= 0)
      result.more = fmt::format("All of its {} is used.", bytes(Key::kLimit));
    else if (e_.has(Key::kFullIn))
      result.more = fmt::format("At this rate, all of its {} would be used {} later.", bytes(Key::kLimit),
                                time(Key::kFullIn));
    return result;
  }
  // "cache() data.py:12"
  [[nodiscard]] std::string maker() const {
    const std::string place = name(f_.place, names_);
    return place.empty() ? "code without a line" : place;
  }

  [[nodiscard]] FindingText of_allocator() const {
    return {
        fmt::format("Rank {} occupies {} of RAM on average but uses {}: the allocator keeps the rest (freed "
                    "or fragmented).",
                    rank(), bytes(Key::kAnon), bytes(Key::kLive)),
        e_.number(Key::kThreads) > 8
            ? fmt::format("Each of many threads ({}) may have an arena of its own: MALLOC_ARENA_MAX=2 makes "
                          "them share.",
                          whole(Key::kThreads))
            : ""};
  }
};

}  // namespace

std::optional<FindingText> memory_text(const Finding& finding, const format::ShortPaths& names) {
  return MemorySentences(finding, names).text();
}

}  // namespace clusterprof::report::words
