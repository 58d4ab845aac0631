// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/shard/note.hpp"

namespace clusterprof::collector {

// What the site's job prolog found wrong with this node, as notes for its shard. The file (slurm/prolog) has
// lines "warn: TEXT" and "fail: TEXT". It is not trusted: other lines are ignored, and the number, length and
// characters of notes are limited. Empty if there is no file.
std::vector<shard::Note> node_check_notes(const std::filesystem::path& file, const std::string& node);

// The file of the Slurm job that this process belongs to; empty outside of one.
std::filesystem::path node_check_file(const char* slurm_job_id);

}  // namespace clusterprof::collector
