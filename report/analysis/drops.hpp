// SPDX-License-Identifier: BSD-3-Clause
// What each reason in Analysis::run.dropped is about; words/drops.hpp says what it means.
#pragma once

#include <cstdint>
#include <string_view>

namespace clusterprof::report {

// What was lost. Counts of different kinds can be neither compared nor added.
enum class Dropped : std::uint8_t { kSamples, kMpiCalls, kMpiEvents, kFileOperations, kOther };

Dropped what_was_dropped(std::string_view reason);

// Whether a report mentions the loss. A few lost samples change nothing; any other loss is mentioned.
bool drop_matters(std::string_view reason, std::uint64_t count, std::uint64_t samples);

}  // namespace clusterprof::report
