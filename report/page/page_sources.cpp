// SPDX-License-Identifier: BSD-3-Clause
#include "report/page/page_sources.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/unique_fd.hpp"
#include "report/format/characters.hpp"

namespace clusterprof::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFileBytes = 2'000'000;

constexpr std::string_view kTooMuch = "left out: the page has enough source text already";

// Whether the file name has an ending that a programming language uses.
bool is_source_name(std::string_view file) {
  static constexpr std::array kEndings = std::to_array<std::string_view>(
      {"py",  "pyx", "pxd", "pxi", "pyi", "c",   "h", "cc",  "hh",  "cpp", "hpp", "cxx",  "hxx", "c++", "h++",
       "ipp", "tpp", "inl", "cu",  "cuh", "hip", "f", "f77", "f90", "f95", "f03", "f08",  "for", "ftn", "fpp",
       "inc", "rs",  "jl",  "go",  "m",   "mm",  "s", "asm", "d",   "zig", "nim", "ispc", "cl",  "chpl"});
  const std::size_t name = file.rfind('/') + 1;
  const std::size_t dot = file.rfind('.');
  if (dot == std::string_view::npos || dot <= name) return false;
  std::string ending(file.substr(dot + 1));
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

// A script needs no ending; its first line names its interpreter.
bool is_script(std::string_view text) {
  return text.starts_with("#!") && text.substr(0, text.find('\n')).find("python") != std::string_view::npos;
}

PageSourceFile without_text(const std::string& file, std::string why_not) {
  return {file, {}, std::move(why_not)};
}

}  // namespace

PageSourceFile read_source(const std::string& file, std::int64_t run_start_utc_ns, std::size_t most_bytes) {
  if (file.empty() || file.front() == '<') return without_text(file, "not a file");
  if (file.front() != '/' || file.find('\0') != std::string::npos)
    return without_text(file, "not found: its directory is not known");
  const bool named_as_source = is_source_name(file);
  const bool may_be_script = file.find('.', file.rfind('/')) == std::string::npos;
  if (!named_as_source && !may_be_script) return without_text(file, "does not look like source code");

  const auto unreadable = [&] {
    const bool absent = errno == ENOENT || errno == ENOTDIR;
    return without_text(file, absent ? "not found" : std::string("cannot be read: ") + std::strerror(errno));
  };
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return unreadable();
  if (!S_ISREG(status.st_mode)) return without_text(file, "not a file");
  // The file may have been replaced meanwhile: opening a pipe would block until somebody writes to it.
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd || ::fstat(fd.get(), &status) != 0) return unreadable();
  if (!S_ISREG(status.st_mode)) return without_text(file, "not a file");
  constexpr std::int64_t kSecond_ns = 1'000'000'000;
  const std::pair modified(std::int64_t{status.st_mtim.tv_sec}, std::int64_t{status.st_mtim.tv_nsec});
  if (run_start_utc_ns != 0 &&
      modified > std::pair(run_start_utc_ns / kSecond_ns, run_start_utc_ns % kSecond_ns))
    return without_text(file, "changed after the run began");
  const auto size = static_cast<std::size_t>(std::max<off_t>(status.st_size, 0));
  if (size > kMaxFileBytes) return without_text(file, "too large");
  if (size > most_bytes) return without_text(file, std::string(kTooMuch));

  std::string text(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd.get(), text.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return unreadable();
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  text.resize(done);
  if (text.find('\0') != std::string::npos) return without_text(file, "is no text");
  // A link may have any name: its target must be source code, too.
  std::error_code error;
  const fs::path meant = fs::read_symlink("/proc/self/fd/" + std::to_string(fd.get()), error);
  const bool means_source = named_as_source && (error || is_source_name(meant.native()));
  if (!means_source && !is_script(text)) return without_text(file, "does not look like source code");
  if (format::valid_prefix(text).size() != text.size()) text = format::replace_invalid(text);
  return {file, std::move(text), ""};
}

namespace {

struct Heat {
  double active_s = 0, all_s = 0;
};
using Files = std::vector<std::pair<std::string_view, Heat>>;

// Lines hold memory without taking time.
constexpr std::size_t kHeldFiles = 8;

void add_files_that_hold_memory(const HeldMemory& memory, Files& files) {
  std::size_t left = kHeldFiles;
  for (const MemoryLine& line : memory.lines) {  // the largest first
    if (left == 0) return;
    const auto is_known = [&](const auto& file) { return file.first == line.file; };
    if (line.line == 0 || std::any_of(files.begin(), files.end(), is_known)) continue;
    files.emplace_back(line.file, Heat());
    --left;
  }
}

}  // namespace

std::vector<PageSourceFile> read_sources(const Analysis& analysis, const PageOptions& options,
                                         std::vector<std::uint32_t>& source_of_row) {
  std::map<std::string_view, Heat> heat;
  for (const LineRow& line : analysis.lines) {
    Heat& file = heat[line.file];
    file.active_s += line.active_self_s;
    file.all_s += line.self_s;
  }
  Files files(heat.begin(), heat.end());
  std::stable_sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.active_s, a.second.all_s) > std::pair(b.second.active_s, b.second.all_s);
  });
  files.resize(std::min(files.size(), options.source_files));
  if (analysis.memory) add_files_that_hold_memory(*analysis.memory, files);

  std::vector<PageSourceFile> sources;
  std::map<std::string_view, std::uint32_t> numbers;
  std::size_t left = options.source_bytes;
  for (const auto& [file, of_file] : files) {
    numbers.emplace(file, static_cast<std::uint32_t>(sources.size()));
    const std::string name(file);
    sources.push_back(options.source ? read_source(name, analysis.run.start_utc_ns, left)
                                     : without_text(name, "left out (--no-source)"));
    if (sources.back().text) left -= std::min(left, sources.back().text->size());
  }
  source_of_row.clear();
  const std::size_t rows = std::min(analysis.lines.size(), options.report_lines);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto known = numbers.find(analysis.lines[row].file);
    source_of_row.push_back(known == numbers.end() ? shard::kNone : known->second);
  }
  return sources;
}

}  // namespace clusterprof::report
