// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

namespace clusterprof::aggregator {

// Removes what writers of `file` left that were killed: .FILE.<process id>.<random>.tmp beside it. Of those,
// only what no process of this machine's can be writing, nobody has locked, as writers do (shard::NewFile),
// and nobody has written to for ten minutes (a day where files cannot be locked): the directory may be shared
// with other machines.
void remove_abandoned(const std::filesystem::path& file);

}  // namespace clusterprof::aggregator
