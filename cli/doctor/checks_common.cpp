// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>

#include "cli/doctor/checks.hpp"

namespace clusterprof::cli::doctor {

const std::vector<CheckRow>& all_checks() {
  // --quick on a node also runs in this order: the most important checks come first.
  static const std::vector<CheckRow> rows = {
      {check_node, true, false},         {check_node_of_slurm, true, false},
      {check_counts, true, false},       {check_files, true, true},
      {check_libraries, true, true},     {check_access, true, true},
      {check_mpi, true, true},           {check_mpi_commands, false, false},
      {check_merging, true, false},      {check_events, true, true},
      {check_papi, true, false},         {check_papi_library, true, true},
      {check_kernel, true, true},        {check_timers, true, true},
      {check_clock, true, true},         {check_synchronised, true, true},
      {check_frequency, true, true},     {check_virtualisation, true, true},
      {check_ptrace, true, false},       {check_limits, true, true},
      {check_shared_memory, true, true}, {check_cgroup, true, true},
      {check_output, false, false},      {check_slurm, false, false},
      {check_python, false, false},      {check_symbols, true, false},
  };
  return rows;
}

const std::vector<CheckRow>& self_test_checks() {
  static const std::vector<CheckRow> rows = {{check_shares, true, false}, {check_waits, true, false}};
  return rows;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (amount >= 999.5 && unit + 1 < std::size(kUnits)) {
    amount /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, amount < 9.95 && unit > 0 ? "%.1f %s" : "%.0f %s", amount, kUnits[unit]);
  return text;
}

std::string field_of(const std::string& text, const std::string& key) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (text.compare(at, key.size(), key) == 0) {
      // "Seccomp:" as it is in /proc, "PrologFlags  = " as scontrol writes it.
      std::size_t sign = at + key.size();
      while (sign < end && std::isspace(static_cast<unsigned char>(text[sign])) != 0) ++sign;
      if (sign < end && (text[sign] == ':' || text[sign] == '=')) {
        std::size_t from = sign + 1, to = end;
        while (from < to && std::isspace(static_cast<unsigned char>(text[from])) != 0) ++from;
        while (to > from && std::isspace(static_cast<unsigned char>(text[to - 1])) != 0) --to;
        return text.substr(from, to - from);
      }
    }
    at = end + 1;
  }
  return {};
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool is_shared_file_system(const std::string& type) {
  static constexpr const char* kShared[] = {"lustre",  "gpfs",  "nfs",       "nfs4",  "beegfs", "ceph",
                                            "wekafs",  "panfs", "orangefs",  "pvfs2", "afs",    "cifs",
                                            "smb3",    "9p",    "dvs",       "gfs2",  "ocfs2",  "virtiofs",
                                            "quobyte", "daos",  "glusterfs", "gfarm", "sshfs",  "vast"};
  const std::string name = type.starts_with("fuse.") ? type.substr(5) : type;
  return std::find(std::begin(kShared), std::end(kShared), name) != std::end(kShared);
}

std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

std::string variable(const System& system, const char* name) {
  const char* const value = system.environment()(name);
  return value == nullptr ? std::string() : std::string(value);
}

uid_t subject(const System& system) {
  if (system.user() != 0) return system.user();
  for (const char* name : {"SLURM_JOB_UID", "SUDO_UID"}) {
    const std::string text = variable(system, name);
    uid_t user = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), user);
    if (error == std::errc{} && rest == text.data() + text.size() && !text.empty()) return user;
  }
  return system.user();
}

bool acts_for_another(const System& system) { return subject(system) != system.user(); }

std::string in_path(const System& system, const std::string& command) {
  const std::string list = variable(system, "PATH");
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(':', at), list.size());
    const std::string directory = list.substr(at, end - at);
    at = end + 1;
    const std::string path = (directory.empty() ? "." : directory) + "/" + command;
    const FileFacts facts = system.look(path);
    if (facts.error == 0 && !facts.is_directory && facts.may_execute) return path;
  }
  return {};
}

std::string version_in(const std::string& text) {
  const auto is_digit = [&](std::size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_digit(at) || (at > 0 && (is_digit(at - 1) || text[at - 1] == '.'))) continue;
    std::size_t end = at;
    while (is_digit(end) || (text[end] == '.' && is_digit(end + 1))) ++end;
    if (text.substr(at, end - at).find('.') != std::string::npos) return text.substr(at, end - at);
    at = end;
  }
  return {};
}

}  // namespace clusterprof::cli::doctor
