// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/analysis/failure.hpp"
#include "report/analysis/hang.hpp"
#include "report/format/names.hpp"

namespace clusterprof::report::words {

// "Deadlock: ranks 0, 1, 3 wait in MPI_Barrier (train.py:57) on MPI_COMM_WORLD, operation 412, for rank 2,
// which is in MPI_Finalize."; of no deadlock "Ranks 0-2 wait ..., which computes in f() train.py:3."
std::string verdict(const Hang& hang, const format::ShortPaths& names);

// What is wrong with a run that is not getting on, as `stacks` and `top` say it first: its verdict, and
// mismatch_error() where MPI has ended it; empty: neither.
std::string what_is_wrong(const Analysis& run, const format::ShortPaths& names);

// "has different sizes: MPI_Bcast of 40 bytes on rank 0 against MPI_Bcast of 4000 bytes on ranks 1, 2"
std::string differs(const std::vector<MismatchedRanks>& groups);

// "Rank 1 was ended by MPI itself: MPI_ERR_TRUNCATE in MPI_Bcast: message truncated; the operation has
// different sizes: ...", of a failure that has a mismatch.
std::string mismatch_error(const Failure& failure);

// "No rank has made progress for 60 s. Deadlock: ranks ..."
std::string no_progress(double for_s, const std::optional<Hang>& hang, const format::ShortPaths& names);

}  // namespace clusterprof::report::words
