// SPDX-License-Identifier: BSD-3-Clause
// Names of the files that launchers and collectors create in a run directory besides the shards, and in its
// parent directory. The first two and kStartsDirectory stay; the others are removed, unless somebody was
// killed.
#pragma once

#include <cstdint>
#include <string>
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
inline constexpr const char* kControlDirectory =
    ".control";  // requests from outside (formats/run/run_control.hpp)
inline constexpr std::string_view kStartsDirectory = ".starts";  // of ranks that their launcher starts again
inline constexpr std::string_view kClaimSuffix = ".claim";       // .node-NAME.claim
inline bool is_claim(std::string_view name) {
  return name.starts_with(".node-") && name.ends_with(kClaimSuffix);
}

// Runs of more nodes have their shards in subdirectories: file servers keep one directory on one machine, and
// slow down where many create files in it.
inline constexpr std::uint32_t kMostNodesInOneDirectory = 256, kShardDirectories = 64;
inline constexpr std::string_view kShardDirectoryPrefix = "shards-";  // and two hex digits
// The subdirectory of a node's shard; empty: the run directory itself.
inline std::string shard_directory(std::string_view node, std::uint32_t nodes) {
  if (nodes <= kMostNodesInOneDirectory) return {};
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;  // FNV-1a
  for (const char c : node) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  const auto number = static_cast<unsigned>((hash ^ hash >> 32) % kShardDirectories);
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string(kShardDirectoryPrefix) + kDigits[number / 16] + kDigits[number % 16];
}
inline bool is_shard_directory(std::string_view name) {
  return name.size() == kShardDirectoryPrefix.size() + 2 && name.starts_with(kShardDirectoryPrefix) &&
         name.find_first_not_of("0123456789abcdef", kShardDirectoryPrefix.size()) == std::string_view::npos;
}

// The shard that a claim is for, both with what leads to them.
inline std::string shard_of_claim(std::string_view claim) {
  const std::size_t name = claim.rfind('/') + 1;  // 0 if there is none
  return std::string(claim.substr(0, name)) +
         std::string(claim.substr(name + 1, claim.size() - name - 1 - kClaimSuffix.size())) + ".h5";
}

// node-NAME.h5
inline bool is_shard_name(std::string_view name) {
  return name.size() > 8 && name.starts_with("node-") && name.ends_with(".h5");
}

}  // namespace clusterprof::shard
