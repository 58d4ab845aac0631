// SPDX-License-Identifier: BSD-3-Clause
// --sample-on: translates the name of an event to what the kernel is asked for. The launcher does this, so
// that the program need not load the libraries that know the names.
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

// Of --event: those that no counter has, and why, as a person reads it; empty: none. What this machine does
// not count is found by the program's agent.
std::string unknown_counters(const std::vector<std::string>& events);

// For wire::kSampleEventVariable.
std::string sample_event_text(const wire::SampleEvent& event);

}  // namespace clusterprof::cli
