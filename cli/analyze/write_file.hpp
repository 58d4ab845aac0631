// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "base/way.hpp"

namespace clusterprof::cli {

// The file is there with all of its content or as it was before, also when this process is killed. Whatever
// has the name is replaced.
//
// quoted: files that `content` has text of. Nobody else may read it who may not read these as well.
Result<void> write_file(const std::filesystem::path& path, std::string_view content,
                        const std::vector<std::string>& quoted = {});

// For a name that a user gives: writes into pipes and devices ("/dev/stdout"), and into what a link means,
// but not by way of what others have prepared in a directory like /tmp. A file that is there keeps its mode.
Result<void> write_named_file(const std::filesystem::path& path, std::string_view content,
                              const std::vector<std::string>& quoted = {});

// What a way ended at, a pipe, a device or what has no name, opened for writing: the very one, whatever
// somebody has put in its place since. None, with errno, if that is another.
UniqueFd open_as_it_is(const WayEnd& end);

// The same in pieces. Without finish() a file is as it was before.
class NamedFileWriter {
 public:
  explicit NamedFileWriter(std::filesystem::path path, const std::vector<std::string>& quoted = {});
  ~NamedFileWriter();
  NamedFileWriter(const NamedFileWriter&) = delete;
  NamedFileWriter& operator=(const NamedFileWriter&) = delete;

  // After the first piece that cannot be written the others are dropped.
  void operator()(std::string_view piece);
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  Result<void> finish();

 private:
  void fail();

  std::filesystem::path path_;    // as it was given
  UniqueFd place_;                // the directory of the two
  std::string name_, temporary_;  // temporary_: empty for what is no regular file
  UniqueFd fd_;
  std::optional<Error> error_;
};

}  // namespace clusterprof::cli
