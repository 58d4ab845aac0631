// SPDX-License-Identifier: BSD-3-Clause
// Parts of sentences that findings and bottlenecks share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/format/names.hpp"

namespace clusterprof::report::words {

// "rank 3 in load_batch() data.py:41"
std::string culprit(std::int32_t rank, const SourceLocation& place, const format::ShortPaths& names);
// "63 ranks", "at least 12 ranks", "rank 0"
std::string who_waited(const Evidence& evidence);
// "compute() train.py:57"; empty: it is not known.
std::string name(const SourceLocation& place, const format::ShortPaths& names);
// "compute (train.py:57)", as a frame of a call path.
std::string frame(const SourceLocation& place);
// "sleep 4.20 s, locks 300 ms": those that matter, largest first.
std::string listed(std::vector<std::pair<const char*, double>> seconds);
std::string idle_kinds(const Evidence& evidence, bool with_gil);
// Why calls of torch.distributed over gloo were not recorded: which libtorch this is.
inline constexpr std::string_view kLibtorchNotKnown =
    "of no release whose objects are known, or linked so that its calls cannot be seen";
// How the time in torch.distributed is known, and why not otherwise; empty: there is none.
std::string_view how_torch_is_known(TorchSource source);
// "12000 fsync calls on out.dat"
std::string io_calls(const Evidence& evidence);
// "data of about 403 MB (estimated from 512 accesses); the largest cache holds 33.6 MB"
std::string memory_use(const Evidence& evidence);

}  // namespace clusterprof::report::words
