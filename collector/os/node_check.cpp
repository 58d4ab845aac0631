// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/node_check.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/unique_fd.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::size_t kMaxBytes = 8192, kMaxCheckNotes = 10, kMaxNoteBytes = 240;
constexpr std::pair<std::string_view, shard::NoteCode> kGrades[] = {
    {"warn: ", shard::NoteCode::kNodeCheckWarned}, {"fail: ", shard::NoteCode::kNodeCheckFailed}};

std::string read_beginning(const std::filesystem::path& file) {
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  std::string text(kMaxBytes, '\0');
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const ssize_t got = read(fd.get(), text.data() + bytes, text.size() - bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    bytes += static_cast<std::size_t>(got);
  }
  text.resize(bytes);
  return text;
}

// Keeps only characters that every terminal and file format can take, in one line.
std::string plain(std::string_view text) {
  std::string out(text.substr(0, kMaxNoteBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

}  // namespace

std::vector<shard::Note> node_check_notes(const std::filesystem::path& file, const std::string& node) {
  const std::string text = read_beginning(file);
  std::vector<shard::Note> notes;
  for (std::size_t begin = 0; begin < text.size() && notes.size() < kMaxCheckNotes;) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    for (const auto& [grade, code] : kGrades) {
      if (line.starts_with(grade) && line.size() > grade.size())
        notes.push_back(shard::note_of_node(code, node, 0, plain(line.substr(grade.size()))));
    }
  }
  return notes;
}

std::filesystem::path node_check_file(const char* slurm_job_id) {
  const std::string_view job = slurm_job_id == nullptr ? "" : slurm_job_id;
  if (job.empty() || job.size() > 20 || job.find_first_not_of("0123456789") != std::string_view::npos)
    return {};
  return std::filesystem::path("/run/clusterprof") / job / "node-check";
}

}  // namespace clusterprof::collector
