// SPDX-License-Identifier: BSD-3-Clause
// --sample-on: translates the name of an event to the numbers that the kernel needs. The launcher does this,
// so that the program need not load the libraries that know the names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "formats/wire/hello.h"

namespace clusterprof::cli {

struct SampleOn {
  std::string event;         // empty: the clock
  std::uint64_t period = 0;  // 0: by the rate
};

// "EVENT[:PERIOD]"; the message of the error says what is wrong with it.
Result<SampleOn> parse_sample_on(const std::string& text);

// An error says in less than wire::kCounterNameBytes characters why this machine cannot sample on it.
Result<wire::SampleEvent> resolve_sample_event(const SampleOn& sample_on, int rate_hz);

// Lists the names given to --event that no counter has, each with the reason, for people; empty: none. The
// program's agent finds out which counters this machine cannot count.
std::string unknown_counters(const std::vector<std::string>& events);

// For wire::kSampleEventVariable.
std::string sample_event_text(const wire::SampleEvent& event);

}  // namespace clusterprof::cli
