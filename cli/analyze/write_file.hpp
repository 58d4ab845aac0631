// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/path_resolver.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace clusterprof::cli {

// Replaces the file atomically: even when this process is killed the file has either all of the new content
// or its old one.
//
// quoted: files of which `content` contains text. The new file can be read only by users who may read those.
Result<void> write_file(const std::filesystem::path& path, std::string_view content,
                        const std::vector<std::string>& quoted = {});

// For a name that the user gave: follows links and writes into pipes and devices ("/dev/stdout"), but refuses
// entries that other users have planted in a directory like /tmp. An existing file keeps its mode.
Result<void> write_named_file(const std::filesystem::path& path, std::string_view content,
                              const std::vector<std::string>& quoted = {});

// Opens for writing the pipe, device or unnamed file that a path was resolved to. None, with errno, if
// somebody has replaced it since.
UniqueFd open_resolved(const ResolvedPath& resolved);

// write_named_file() for content that comes in pieces. Without finish() a file stays as it was.
class NamedFileWriter {
 public:
  explicit NamedFileWriter(std::filesystem::path path, const std::vector<std::string>& quoted = {});
  ~NamedFileWriter();
  NamedFileWriter(const NamedFileWriter&) = delete;
  NamedFileWriter& operator=(const NamedFileWriter&) = delete;

  // After an error further pieces are dropped.
  void operator()(std::string_view piece);
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  Result<void> finish();

 private:
  void fail();

  std::filesystem::path path_;    // as given
  UniqueFd directory_;            // of the next two
  std::string name_, temporary_;  // temporary_: empty unless it is a regular file
  UniqueFd fd_;
  std::optional<Error> error_;
};

}  // namespace clusterprof::cli
