// SPDX-License-Identifier: BSD-3-Clause
// Reads the records of a thread's ring (formats/wire/sample.h, ring.h). Copies each sample and checks every
// length in the copy before anything is used, because the ring belongs to another process, which may write to
// it meanwhile.
//
// Input: a record inside a ring, as wire::ring_drain() visits them. Output: a RingSample, and with FrameWords
// the words of its call path. Nothing is thrown but for a lack of memory. The thread that polls the process
// calls this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/wire/segment.h"
#include "formats/wire/thread_tie.h"

namespace clusterprof::collector {

struct RingSample {
  wire::SampleRecord record;  // its lengths are checked
  std::array<std::uint64_t, wire::kMaxCounters> counters;
  // The frames that the sample before it does not have; they are still in the ring.
  const std::uint8_t* new_words = nullptr;
  std::uint32_t new_word_count = 0;
  // Of the asyncio task that runs, if record.task_frames != 0; likewise in the ring.
  const std::uint8_t* task_name = nullptr;
  const std::uint8_t* await_words = nullptr;

  [[nodiscard]] std::span<const std::uint64_t> counter_values() const noexcept {
    return {counters.data(), record.counter_count};
  }
};

enum class RecordKind : std::uint8_t {
  kSample,
  kOther,          // an unknown type of record, of a later minor version
  kTooShort,       // damaged: not even a sample's fixed part
  kDamagedSample,  // a sample whose lengths do not fit. The thread's next ones may build on it
};

// `known_words`: how many frame words of the thread's previous sample are known, which this one may share.
[[nodiscard]] RecordKind read_record(const wire::RecordHeader& record, const wire::Ring& ring,
                                     std::size_t known_words, RingSample& sample);

// When a sample was taken. 0: it is no sample, or not a whole one.
[[nodiscard]] std::uint64_t sample_time_ns(const wire::RecordHeader& record, const wire::Ring& ring);

// Of a record of type kThreadTie. False: it is damaged.
[[nodiscard]] bool read_thread_tie(const wire::RecordHeader& record, const wire::Ring& ring,
                                   wire::ThreadTie& tie);

// The frame words of a thread's last sample, leaf first. The next sample contains only the words that differ.
class FrameWords {
 public:
  // Replaces them by those of `sample`, which read_record() returned with known_words == size().
  void update(const RingSample& sample);
  // Forgets them after a loss or a pause: the next sample must contain all of its words.
  void clear() noexcept { words_.clear(); }
  [[nodiscard]] std::size_t size() const noexcept { return words_.size(); }
  [[nodiscard]] std::span<const std::uint64_t> words() const noexcept { return words_; }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace clusterprof::collector
