// SPDX-License-Identifier: BSD-3-Clause
// Names of the files that launchers and collectors create in a run directory besides the shards, and in its
// parent directory. The first two stay; the others are removed, unless somebody was killed.
#pragma once

#include <string_view>

namespace clusterprof::shard {

// Its target is KEY#SECRET: of the job step, and a random number that its ranks share
// (formats/run/run_directory.hpp).
inline constexpr std::string_view kOwnerLink = ".run";
inline constexpr char kSecretMark = '#';
inline std::string_view owner_key(std::string_view target) {
  return target.substr(0, target.rfind(kSecretMark));
}
inline constexpr std::string_view kJobLink =
    ".job";  // its target is what the batch system calls the job step ("1234.0")
inline constexpr std::string_view kRendezvousLinkPrefix =
    ".clusterprof-";                                           // in the parent directory; followed by the key
inline constexpr std::string_view kExitMarkPrefix = ".left-";  // a node whose ranks have all met
inline constexpr std::string_view kClocksDirectoryPrefix = ".clocks";  // directories
inline constexpr std::string_view kClaimSuffix = ".claim";             // .node-NAME.claim
inline bool is_claim(std::string_view name) {
  return name.starts_with(".node-") && name.ends_with(kClaimSuffix);
}

}  // namespace clusterprof::shard
