// SPDX-License-Identifier: BSD-3-Clause
// Names of what launchers and collectors put into a run directory, beside the shards, and into its parent
// while they start and work. All but the first two are gone when nobody was killed.
#pragma once

#include <string_view>

namespace clusterprof::shard {

inline constexpr std::string_view kOwnerLink = ".run";  // to the key of the job step; stays
inline constexpr std::string_view kJobLink = ".job";    // to what the batch system calls it ("1234.0"); stays
inline constexpr std::string_view kRendezvousLinkPrefix =
    ".clusterprof-";                                                   // in the parent, behind it the key
inline constexpr std::string_view kExitMarkPrefix = ".left-";          // a node whose ranks have all met
inline constexpr std::string_view kClocksDirectoryPrefix = ".clocks";  // directories
inline constexpr std::string_view kClaimSuffix = ".claim";             // of .node-NAME.claim
inline bool is_claim(std::string_view name) {
  return name.starts_with(".node-") && name.ends_with(kClaimSuffix);
}

}  // namespace clusterprof::shard
