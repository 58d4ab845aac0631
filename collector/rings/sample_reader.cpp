// SPDX-License-Identifier: BSD-3-Clause
#include "collector/rings/sample_reader.hpp"

#include <algorithm>
#include <cstring>

namespace clusterprof::collector {

RecordKind read_record(const wire::RecordHeader& record, const wire::Ring& ring, std::size_t known_words,
                       RingSample& sample) {
  const auto* const from = reinterpret_cast<const std::uint8_t*>(&record);
  const auto offset = static_cast<std::uint32_t>(from - ring.data);
  const std::uint32_t room = wire::kRingBytes - offset;
  wire::SampleRecord& copy = sample.record;
  if (room < sizeof copy) return RecordKind::kTooShort;
  std::memcpy(&copy, from, sizeof copy);
  if (copy.header.bytes < sizeof copy) return RecordKind::kTooShort;
  if (copy.header.type != wire::kSample) return RecordKind::kOther;
  const std::uint32_t new_words = std::uint32_t{copy.frame_words} - copy.shared_words;
  if (copy.counter_count > wire::kMaxCounters || copy.frame_words > wire::kMaxFrameWords ||
      copy.shared_words > std::min<std::size_t>(copy.frame_words, known_words) ||
      copy.task_frames > copy.frame_words || copy.task_name_bytes > wire::kTaskNameBytes ||
      copy.await_words > wire::kMaxAwaitWords ||
      sizeof copy + 8u * (copy.counter_count + new_words + wire::task_name_words(copy.task_name_bytes) +
                          copy.await_words) >
          std::min(copy.header.bytes, room))
    return RecordKind::kDamagedSample;
  std::memcpy(sample.counters.data(), from + sizeof copy, 8u * copy.counter_count);
  sample.new_words = from + sizeof copy + 8u * copy.counter_count;
  sample.new_word_count = new_words;
  sample.task_name = sample.new_words + 8u * new_words;
  sample.await_words = sample.task_name + 8u * wire::task_name_words(copy.task_name_bytes);
  return RecordKind::kSample;
}

std::uint64_t sample_time_ns(const wire::RecordHeader& record, const wire::Ring& ring) {
  const auto* const from = reinterpret_cast<const std::uint8_t*>(&record);
  wire::SampleRecord copy;
  if (wire::kRingBytes - static_cast<std::uint32_t>(from - ring.data) < sizeof copy) return 0;
  std::memcpy(&copy, from, sizeof copy);
  return copy.header.type == wire::kSample && copy.header.bytes >= sizeof copy ? copy.time_ns : 0;
}

bool read_thread_tie(const wire::RecordHeader& record, const wire::Ring& ring, wire::ThreadTie& tie) {
  const auto* const from = reinterpret_cast<const std::uint8_t*>(&record);
  if (wire::kRingBytes - static_cast<std::uint32_t>(from - ring.data) < sizeof tie) return false;
  std::memcpy(&tie, from, sizeof tie);
  return tie.header.bytes >= sizeof tie;
}

void FrameWords::update(const RingSample& sample) {
  // The frames shared with the last sample stay at the end.
  const std::uint32_t added = sample.new_word_count;
  const auto replaced = static_cast<std::ptrdiff_t>(words_.size() - sample.record.shared_words);
  if (replaced < added) {
    words_.insert(words_.begin(), static_cast<std::size_t>(added - replaced), 0);
  } else {
    words_.erase(words_.begin(), words_.begin() + (replaced - added));
  }
  if (added != 0) std::memcpy(words_.data(), sample.new_words, 8u * added);
}

}  // namespace clusterprof::collector
