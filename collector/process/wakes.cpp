// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/wakes.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace clusterprof::collector {
namespace {

constexpr auto is_earlier = [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; };

// The first of these, which are in the order of time, that is not before it.
template <typename Events>
auto first_from(Events& events, std::uint64_t time_ns) {
  return std::partition_point(events.begin(), events.end(),
                              [&](const auto& event) { return event.time_ns < time_ns; });
}

}  // namespace

void PlacesOfThread::note(const Look& look, std::uint32_t path, std::uint32_t function) {
  std::uint64_t for_ns = 0;
  if (look.blocked) {
    for_ns = look.waited_ns;
  } else if (last_.time_ns != 0 && look.time_ns > last_.time_ns) {
    const std::uint64_t passed_ns = look.time_ns - last_.time_ns;
    const std::uint64_t ran_ns = look.cpu_ns > last_.cpu_ns ? look.cpu_ns - last_.cpu_ns : 0;
    for_ns = last_.blocked ? std::min(passed_ns, ran_ns) : passed_ns / 2;
  }
  last_ = look;
  const Place* const latest = size_ != 0 ? &blocks_.back()->places[of_last_ - 1] : nullptr;
  if (latest != nullptr && latest->path == path) return;
  const std::uint64_t from_ns = std::max(look.time_ns - std::min(look.time_ns, for_ns),
                                         latest == nullptr ? std::uint64_t{0} : latest->from_ns);
  if (size_ == kMostPlaces) forget_some();
  add({from_ns, path, function});
}

template <typename Take>
void PlacesOfThread::for_each(Take take) const {
  for (std::size_t block = 0; block < blocks_.size(); ++block)
    for (std::size_t i = 0; i < size_of(block); ++i) take(blocks_[block]->places[i]);
}

void PlacesOfThread::add(const Place& place) {
  if (blocks_.empty() || of_last_ == kOfBlock) {
    blocks_.push_back(std::make_shared<Block>());
    of_last_ = 0;
  } else if (blocks_.back()->used != of_last_) {
    // Another copy has added to it.
    blocks_.back() = std::make_shared<Block>(*blocks_.back());
  }
  Block& last = *blocks_.back();
  last.places[of_last_] = place;
  last.used = ++of_last_;
  ++size_;
}

// Every second one of the older half: those where it was in the same function before, or all of them.
void PlacesOfThread::forget_some() {
  std::array<bool, kMostPlaces> stays{};
  std::size_t count = 0;
  for (const bool only_within_functions : {true, false}) {
    std::size_t i = 0;
    std::uint32_t function = 0;  // of the one before that stays
    count = 0;
    for_each([&](const Place& place) {
      const bool may_go = i < kMostPlaces / 2 && i % 2 == 1;
      stays[i] = !may_go || (only_within_functions && place.function != function);
      if (stays[i]) function = place.function, ++count;
      ++i;
    });
    if (count < size_) break;
  }
  std::vector<std::shared_ptr<Block>> kept;
  std::size_t first = 0;
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    const std::size_t size = size_of(block);
    Block left;
    for (std::size_t i = 0; i < size; ++i)
      if (stays[first + i]) left.places[left.used++] = blocks_[block]->places[i];
    first += size;
    if (!kept.empty() && kept.back()->used + left.used <= kOfBlock) {
      auto joined = std::make_shared<Block>(*kept.back());
      std::copy_n(left.places.begin(), left.used, joined->places.begin() + joined->used);
      joined->used += left.used;
      kept.back() = std::move(joined);
    } else if (left.used == blocks_[block]->used) {
      kept.push_back(std::move(blocks_[block]));
    } else {
      kept.push_back(std::make_shared<Block>(left));
    }
  }
  blocks_ = std::move(kept);
  of_last_ = blocks_.back()->used;
  size_ = count;
}

std::vector<PlacesOfThread::Part> PlacesOfThread::parts(std::uint64_t begin_ns, std::uint64_t end_ns) const {
  std::map<std::uint32_t, std::uint64_t> by_path;
  std::uint64_t at_ns = begin_ns;
  std::uint32_t path = 0;  // before the first sample
  const auto until = [&](std::uint64_t time_ns) {
    time_ns = std::min(time_ns, end_ns);
    if (time_ns <= at_ns) return;
    by_path[path] += time_ns - at_ns;
    at_ns = time_ns;
  };
  for_each([&](const Place& place) {
    until(place.from_ns);
    path = place.path;
  });
  until(end_ns);
  std::vector<Part> parts;
  for (const auto& [of, time_ns] : by_path) parts.push_back({of, time_ns});
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.time_ns > b.time_ns; });
  for (; parts.size() > kMostParts; parts.pop_back()) parts.front().time_ns += parts.back().time_ns;
  return parts;
}

void Wakes::add(std::uint64_t address, std::uint32_t offset, Wake wake) {
  if (offset < kMostOffset && offsets_.size() < kMostOffsets) offsets_[address] = offset;
  if (wake_count_ == kMostWakes) forget_oldest();
  ++wake_count_;
  std::deque<Wake>& wakes = of_word_[address];
  // The rings of threads are read one after the other.
  const auto later = std::upper_bound(wakes.begin(), wakes.end(), wake, is_earlier);
  wakes.insert(later, std::move(wake));
}

void Wakes::forget_oldest() {
  const auto oldest = std::min_element(of_word_.begin(), of_word_.end(), [](const auto& a, const auto& b) {
    return is_earlier(a.second.front(), b.second.front());
  });
  oldest->second.pop_front();
  --wake_count_;
  if (oldest->second.empty()) of_word_.erase(oldest);
}

void Wakes::add(std::uint64_t address, const Release& release) {
  if (release_count_ == kMostReleases) {
    std::vector<std::uint64_t> times;
    for (const auto& [word, releases] : releases_)
      for (const Release& other : releases) times.push_back(other.time_ns);
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    forget_releases(*middle + 1);
  }
  releases_[address].push_back(release);
  ++release_count_;
}

void Wakes::forget_releases(std::uint64_t before_ns) {
  release_count_ = 0;
  for (auto& [word, releases] : releases_) {
    std::erase_if(releases, [&](const Release& release) { return release.time_ns < before_ns; });
    release_count_ += releases.size();
  }
  std::erase_if(releases_, [](const auto& word) { return word.second.empty(); });
}

const Wake* Wakes::find(const EndedWait& wait) {
  const auto wakes = of_word_.find(wait.key.address);
  if (wakes == of_word_.end()) return nullptr;
  for (auto wake = first_from(wakes->second, wait.seen_ns);
       wake != wakes->second.end() && wake->time_ns <= wait.end_ns; ++wake) {
    if (wake->tid == wait.tid || (wake->taken && !wake->all)) continue;
    wake->taken = true;
    return &*wake;
  }
  return nullptr;
}

const Release* Wakes::find(const Spin& spin) {
  const auto word = releases_.find(spin.key.address);
  if (word == releases_.end()) return nullptr;
  const std::vector<Release>& releases = word->second;
  const auto after = first_from(releases, spin.seen_ns);
  for (auto release = after; release != releases.end() && release->time_ns <= spin.end_ns; ++release)
    if (release->tid != spin.tid) return &*release;
  if (spin.before_ns == 0) return nullptr;
  for (auto release = after; release != releases.begin();) {
    --release;
    if (release->time_ns < spin.before_ns) break;
    if (release->tid != spin.tid) return &*release;
  }
  return nullptr;
}

void Wakes::ended(const EndedWait& wait) {
  ended_.push_back(wait);
  const auto begin = begins_.find(wait.tid);
  if (begin == begins_.end()) return;
  if (begin->second.seen_ns == wait.seen_ns) ended_.back().add_before(begin->second.before_ns);
  if (begin->second.seen_ns <= wait.seen_ns) begins_.erase(begin);
}

void Wakes::settle_ended(std::uint64_t until_ns,
                         const std::function<void(const EndedWait&, const Wake*)>& take) {
  // Who was woken first is seen first.
  std::stable_sort(ended_.begin(), ended_.end(),
                   [](const EndedWait& a, const EndedWait& b) { return a.end_ns < b.end_ns; });
  const auto later = std::find_if(ended_.begin(), ended_.end(),
                                  [&](const EndedWait& wait) { return wait.end_ns > until_ns; });
  const auto next_of = [&](const std::vector<EndedWait>::iterator wait) {
    return std::find_if(wait + 1, ended_.end(), [&](const EndedWait& other) {
      return other.tid == wait->tid && other.seen_ns == wait->end_ns;
    });
  };
  const bool is_last = until_ns == std::numeric_limits<std::uint64_t>::max();
  std::vector<EndedWait> left;
  for (auto wait = ended_.begin(); wait != later; ++wait) {
    const Wake* const wake = find(*wait);
    if (wake == nullptr && wait->may_go_on) {
      // Nobody has woken it in between: it is one wait, of which more than one sample was taken.
      if (const auto next = next_of(wait); next != ended_.end()) {
        next->add_before(wait->wait_ns);
        continue;
      }
      if (!is_last && left.size() < kMostOpen) {
        left.push_back(*wait);
        continue;
      }
    } else if (wake != nullptr && wait->between_ns > wake->time_ns - wait->seen_ns) {
      const std::uint64_t before_ns = wait->between_ns - (wake->time_ns - wait->seen_ns);
      if (const auto next = next_of(wait); next != ended_.end())
        next->add_before(before_ns);
      else if (begins_.size() < kMostOpen)
        begins_[wait->tid] = {wait->end_ns, before_ns};
    }
    if (wait->wait_ns != 0) take(*wait, wake);
  }
  ended_.insert(ended_.erase(ended_.begin(), later), left.begin(), left.end());
  if (begins_.size() == kMostOpen)  // of threads that are gone, most likely
    std::erase_if(begins_, [&](const auto& begin) { return begin.second.seen_ns + kKeptNs < until_ns; });
}

void Wakes::settle(std::uint64_t until_ns, const std::function<void(const EndedWait&, const Wake*)>& take,
                   const std::function<void(const Spin&)>& take_spin) {
  settle_ended(until_ns, take);
  for (auto& [word, wakes] : of_word_)
    for (; !wakes.empty() && wakes.front().time_ns + kKeptNs < until_ns; --wake_count_) wakes.pop_front();
  std::erase_if(of_word_, [](const auto& word) { return word.second.empty(); });

  // The rings of threads are read one after the other.
  for (auto& [word, releases] : releases_)
    if (!std::is_sorted(releases.begin(), releases.end(), is_earlier))
      std::stable_sort(releases.begin(), releases.end(), is_earlier);
  const auto others = std::stable_partition(spins_.begin(), spins_.end(),
                                            [&](const Spin& spin) { return spin.end_ns <= until_ns; });
  std::for_each(spins_.begin(), others, take_spin);
  spins_.erase(spins_.begin(), others);
  if (until_ns > kReleasesKeptNs) forget_releases(until_ns - kReleasesKeptNs);
}

RawMutexKey Wakes::of_object(RawMutexKey key) const {
  constexpr std::uint64_t kWord = 4;
  const auto move = [&](std::uint64_t offset) {
    key.address -= offset;
    if (key.elf_address >= offset) key.elf_address -= offset;
    return key;
  };
  if (const auto found = offsets_.find(key.address); found != offsets_.end()) return move(found->second);
  if (const auto found = offsets_.find(key.address + kWord); found != offsets_.end() && found->second > 32)
    return move(found->second - kWord);
  if (const auto found = offsets_.find(key.address - kWord); found != offsets_.end() && found->second >= 32)
    return move(found->second + kWord);
  return key;
}

}  // namespace clusterprof::collector
