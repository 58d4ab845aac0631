// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <functional>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Removes what writers of `file` left that were killed: .FILE.<process id>.<random>.tmp beside it. Of those,
// only what is ours, no process of this machine's can be writing, nobody has locked, as writers do
// (shard::NewFile), and nobody has written to for ten minutes (a day where files cannot be locked): the
// directory may be shared with other machines.
void remove_abandoned(const std::filesystem::path& file);

// What is known of a run from its shards.
struct RunProgress {
  bool all_came = false;   // every rank of the job has a record
  bool all_ended = false;  // and every shard is its collector's last
};
RunProgress progress_of(const shard::ShardData& head);

// Removes what launchers and collectors of the run left that were killed (shard::run_files.hpp, half-written
// shards), as soon as nobody can need it: because of how far the run is, or because no shard was written
// to for a minute, which living collectors do every few seconds. `progress` is called when there is
// something to decide. Of a run directory that is not ours nothing is removed: whoever owns it could let a
// name mean something else between two looks.
void remove_leftovers(const std::filesystem::path& run_dir, const std::function<RunProgress()>& progress);

}  // namespace clusterprof::aggregator
