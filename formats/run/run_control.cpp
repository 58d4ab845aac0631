// SPDX-License-Identifier: BSD-3-Clause
#include "formats/run/run_control.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "base/directory.hpp"
#include "base/unique_fd.hpp"
#include "base/write_all.hpp"
#include "formats/shard/run_files.hpp"

namespace clusterprof {
namespace {

constexpr const char* kDirectory = shard::kControlDirectory;
constexpr const char *kRequestName = "request", *kWriteName = "write", *kHangName = "hang",
                     *kWatchName = "watch";
constexpr std::string_view kNodePrefix = "node-", kWrotePrefix = "wrote-", kLivePrefix = "live-",
                           kTemporaryPrefix = ".new-";
constexpr std::string_view kHeader = "clusterprof-control 1\n", kEnd = "end\n";
constexpr std::size_t kMostBytes = 1024;
constexpr std::size_t kMostLiveBytes = std::size_t{1} << 28;
constexpr mode_t kDirectoryMode = 0700, kFileMode = 0600;

bool is_trusted(const struct stat& status) { return status.st_uid == ::geteuid() || status.st_uid == 0; }

UniqueFd open_run(const std::string& run) {
  return UniqueFd(::open(run.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

std::string live_name(const std::string& node) { return std::string(kLivePrefix) + node; }
std::string answer_name(const std::string& node) { return std::string(kNodePrefix) + node; }

// While one lives, root writes in the run of another user as that user. Who owns a directory can put another
// one of root's, or a link to a file of root's, in the place of what root has just looked at.
class ActingAs {
 public:
  explicit ActingAs(const struct stat& owner) {
    if (::geteuid() != 0 || owner.st_uid == 0) return;
    is_other_ = true;
    group_ = static_cast<gid_t>(::setfsgid(owner.st_gid));
    ::setfsuid(owner.st_uid);
    is_allowed_ = static_cast<uid_t>(::setfsuid(kNoChange)) == owner.st_uid;
  }
  ActingAs(const ActingAs&) = delete;
  ActingAs& operator=(const ActingAs&) = delete;
  ~ActingAs() {
    if (!is_other_) return;
    ::setfsuid(0);
    ::setfsgid(group_);
  }
  [[nodiscard]] bool is_allowed() const { return is_allowed_; }

 private:
  static constexpr uid_t kNoChange = ~uid_t{0};
  bool is_other_ = false, is_allowed_ = true;
  gid_t group_ = 0;
};

Error not_as_user(const std::string& run) {
  return Error{run + ": belongs to another user, and this root may not act as that user"};
}

// Not with O_PATH: it is for NFS to ask its server, so that what others have made and renamed is seen.
UniqueFd open_control(const std::string& run) {
  const UniqueFd directory(::open(run.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return {};
  return UniqueFd(::openat(directory.get(), kDirectory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// A file of this user, of root, or of `owner`.
UniqueFd open_trusted(int directory, const std::string& name, uid_t owner) {
  // A pipe of that name must not keep us waiting.
  UniqueFd file(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const auto status = file ? status_of(file.get()) : std::nullopt;
  if (!status || !S_ISREG(status->st_mode) || (!is_trusted(*status) && status->st_uid != owner)) return {};
  return file;
}

std::optional<std::string> read_trusted(int directory, const std::string& name, uid_t owner) {
  const UniqueFd file = open_trusted(directory, name, owner);
  if (!file) return std::nullopt;
  char text[kMostBytes];
  const ssize_t bytes = ::read(file.get(), text, sizeof text);
  return bytes > 0 ? std::optional(std::string(text, static_cast<std::size_t>(bytes))) : std::nullopt;
}

Result<void> replace_file(int directory, const std::string& name, const std::string& text) {
  const std::string temporary = std::string(kTemporaryPrefix) + name + "-" + std::to_string(::getpid()) +
                                "-" + std::to_string(unix_now_ns());
  const auto failed = [&] { return Error{name + ": " + std::strerror(errno)}; };
  UniqueFd file(::openat(directory, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                         kFileMode));
  if (!file) return failed();
  if (write_all(file.get(), text) && ::close(file.release()) == 0 &&
      ::renameat(directory, temporary.c_str(), directory, name.c_str()) == 0)
    return {};
  Error why = failed();
  ::unlinkat(directory, temporary.c_str(), 0);
  return why;
}

// Writes a file of `owner` from its beginning on, and closes it, which is when NFS sends it to the server.
Result<void> rewrite_file(int directory, const std::string& name, std::span<const std::byte> bytes,
                          const struct stat& owner) {
  const auto failed = [&] { return Error{name + ": " + std::strerror(errno)}; };
  UniqueFd file(
      ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, kFileMode));
  if (!file) return failed();
  const auto status = status_of(file.get());
  if (!status || !S_ISREG(status->st_mode)) return Error{name + ": is not a file"};
  if (status->st_uid != owner.st_uid || status->st_nlink != 1)
    return Error{name + ": is a file of another user, or has another name"};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!write_all(file.get(), text) || ::close(file.release()) != 0) return failed();
  return {};
}

using Fields = std::map<std::string_view, std::uint64_t>;

std::string text_of_fields(const std::vector<std::pair<std::string_view, std::uint64_t>>& fields) {
  std::string text(kHeader);
  for (const auto& [name, value] : fields) text += std::string(name) + " " + std::to_string(value) + "\n";
  return text + std::string(kEnd);
}

// Lines of a name and a number, each once, between the header and the end.
std::optional<Fields> parse_fields(std::string_view text) {
  if (!text.starts_with(kHeader) || !text.ends_with(kEnd) || text.size() < kHeader.size() + kEnd.size())
    return std::nullopt;
  text.remove_prefix(kHeader.size());
  text.remove_suffix(kEnd.size());
  Fields fields;
  while (!text.empty()) {
    const std::size_t end = text.find('\n'), blank = text.find(' ');
    if (end == std::string_view::npos || blank >= end || blank == 0) return std::nullopt;
    std::uint64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data() + blank + 1, text.data() + end, value);
    if (error != std::errc() || stop != text.data() + end) return std::nullopt;
    if (!fields.emplace(text.substr(0, blank), value).second) return std::nullopt;
    text.remove_prefix(end + 1);
  }
  return fields;
}

// The fields of these names, in their order; no value: others are there, or some are missing.
template <std::size_t kCount>
std::optional<std::array<std::uint64_t, kCount>> take_fields(
    std::string_view text, const std::array<std::string_view, kCount>& names) {
  const std::optional<Fields> fields = parse_fields(text);
  if (!fields || fields->size() != kCount) return std::nullopt;
  std::array<std::uint64_t, kCount> values{};
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto found = fields->find(names[i]);
    if (found == fields->end()) return std::nullopt;
    values[i] = found->second;
  }
  return values;
}

constexpr std::array<std::string_view, 4> kRequestFields = {"sequence", "open", "at_unix_ns", "lasting_ns"};
constexpr std::array<std::string_view, 1> kWatchFields = {"watch"};
constexpr std::array<std::string_view, 4> kAnswerFields = {"sequence", "light", "open", "ranks"};
constexpr std::array<std::string_view, 1> kWriteFields = {"sequence"};
constexpr std::array<std::string_view, 2> kHangFields = {"lasted_s", "end_ranks"};

std::string text_of_number(std::uint64_t number) { return text_of_fields({{kWriteFields[0], number}}); }
std::uint64_t parse_number(std::string_view text) {
  const auto values = take_fields(text, kWriteFields);
  return values ? (*values)[0] : 0;
}

struct Control {
  UniqueFd directory;
  struct stat status = {};
};

// Opens the directory to write to it, as its owner, and makes it if it is missing. One that root makes
// belongs to the user of the run, whose collectors are to answer there.
Result<Control> make_control(const std::string& run) {
  const UniqueFd directory = open_run(run);
  const auto owner = directory ? status_of(directory.get()) : std::nullopt;
  if (!owner) return Error{run + ": " + std::strerror(errno)};
  {
    const ActingAs user(*owner);
    if (!user.is_allowed()) return not_as_user(run);
    if (::mkdirat(directory.get(), kDirectory, kDirectoryMode) != 0 && errno != EEXIST)
      return Error{run + "/" + kDirectory + ": " + std::strerror(errno)};
  }
  UniqueFd control = open_directory(directory.get(), kDirectory);
  const auto status = control ? status_of(control.get()) : std::nullopt;
  if (!status || (!is_trusted(*status) && (::geteuid() != 0 || status->st_uid != owner->st_uid)))
    return Error{run + ": belongs to another user, who alone can ask for this"};
  return Control{std::move(control), *status};
}

// Does what writes to the directory, which returns a Result<void>, as its owner.
template <typename Write>
Result<void> write_as_owner(const std::string& run, const Control& control, Write write) {
  const ActingAs user(control.status);
  if (!user.is_allowed()) return not_as_user(run);
  const Result<void> written = write(control.directory.get());
  return written ? written : Error{run + "/" + kDirectory + "/" + written.error().message};
}

}  // namespace

std::int64_t unix_now_ns() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

std::string text_of(const ControlRequest& request) {
  return text_of_fields({{kRequestFields[0], request.sequence},
                         {kRequestFields[1], request.open ? 1 : 0},
                         {kRequestFields[2], static_cast<std::uint64_t>(request.at_unix_ns)},
                         {kRequestFields[3], request.lasting_ns}});
}

std::string text_of(const ControlAnswer& answer) {
  return text_of_fields({{kAnswerFields[0], answer.sequence},
                         {kAnswerFields[1], answer.light ? 1 : 0},
                         {kAnswerFields[2], answer.open ? 1 : 0},
                         {kAnswerFields[3], answer.ranks}});
}

std::optional<ControlRequest> parse_request(std::string_view text) {
  const auto values = take_fields(text, kRequestFields);
  if (!values) return std::nullopt;
  const auto [sequence, open, at, lasting] = *values;
  if (sequence == 0 || open > 1 || at > static_cast<std::uint64_t>(INT64_MAX) - 2 * kLongestWindow_ns ||
      lasting > kLongestWindow_ns)
    return std::nullopt;
  return ControlRequest{sequence, open == 1, static_cast<std::int64_t>(at), lasting};
}

std::optional<ControlAnswer> parse_answer(std::string_view text, std::string node) {
  const auto values = take_fields(text, kAnswerFields);
  if (!values) return std::nullopt;
  const auto [sequence, light, open, ranks] = *values;
  if (light > 1 || open > 1 || ranks > UINT32_MAX) return std::nullopt;
  return ControlAnswer{std::move(node), sequence, light == 1, open == 1, static_cast<std::uint32_t>(ranks)};
}

std::string text_of(const HangNotice& notice) {
  return text_of_fields({{kHangFields[0], notice.lasted_s}, {kHangFields[1], notice.end_ranks ? 1 : 0}});
}

std::optional<HangNotice> parse_hang_notice(std::string_view text) {
  const auto values = take_fields(text, kHangFields);
  if (!values || (*values)[1] > 1) return std::nullopt;
  return HangNotice{(*values)[0], (*values)[1] == 1};
}

ControlFiles read_control(const std::string& run) {
  ControlFiles files;
  const UniqueFd control = open_control(run);
  if (!control) return files;
  files.any = true;
  const auto read = [&](const char* name) { return read_trusted(control.get(), name, ::geteuid()); };
  if (const auto text = read(kRequestName)) files.window = parse_request(*text);
  if (const auto text = read(kWriteName)) files.write = parse_number(*text);
  if (const auto text = read(kHangName)) files.hang = parse_hang_notice(*text);
  return files;
}

std::optional<ControlRequest> read_request(const std::string& run) { return read_control(run).window; }

Result<std::uint64_t> request_write(const std::string& run) {
  const Result<Control> control = make_control(run);
  if (!control) return control.error();
  std::uint64_t number = 0;
  const Result<void> written = write_as_owner(run, control.value(), [&](int directory) {
    const auto text = read_trusted(directory, kWriteName, control.value().status.st_uid);
    const std::uint64_t before = text ? parse_number(*text) : 0;
    number = std::max(before + 1, static_cast<std::uint64_t>(unix_now_ns()));
    return replace_file(directory, kWriteName, text_of_number(number));
  });
  if (!written) return written.error();
  return number;
}

Result<void> write_answer(const std::string& run, const WriteAnswer& answer) {
  const Result<Control> control = make_control(run);
  if (!control) return control.error();
  return write_as_owner(run, control.value(), [&](int directory) {
    return replace_file(directory, std::string(kWrotePrefix) + answer.node, text_of_number(answer.number));
  });
}

Result<void> write_hang_notice(const std::string& run, const HangNotice& notice) {
  const Result<Control> control = make_control(run);
  if (!control) return control.error();
  return write_as_owner(run, control.value(), [&](int directory) -> Result<void> {
    if (status_of(directory, kHangName)) return {};
    return replace_file(directory, kHangName, text_of(notice));
  });
}

Result<ControlRequest> write_request(const std::string& run, ControlRequest request) {
  UniqueFd directory = open_control(run);
  const auto status = directory ? status_of(directory.get()) : std::nullopt;
  if (!status) return Error{run + ": is not recorded with --standby or --mode light", ErrorKind::kNotFound};
  if (status->st_uid != ::geteuid() && ::geteuid() != 0)
    return Error{run + ": belongs to another user, who alone can start and stop its recording"};
  const Control control{std::move(directory), *status};
  const Result<void> written = write_as_owner(run, control, [&](int opened) {
    const auto text = read_trusted(opened, kRequestName, status->st_uid);
    const auto before = text ? parse_request(*text) : std::nullopt;
    request.sequence = std::max(before ? before->sequence + 1 : 1, static_cast<std::uint64_t>(unix_now_ns()));
    return replace_file(opened, kRequestName, text_of(request));
  });
  if (!written) return written.error();
  return request;
}

Result<void> write_answer(const std::string& run, const ControlAnswer& answer) {
  const UniqueFd directory = open_run(run);
  if (!directory) return Error{run + ": " + std::strerror(errno)};
  if (::mkdirat(directory.get(), kDirectory, kDirectoryMode) != 0 && errno != EEXIST)
    return Error{run + "/" + kDirectory + ": " + std::strerror(errno)};
  const UniqueFd control = open_directory(directory.get(), kDirectory);
  const auto status = control ? status_of(control.get()) : std::nullopt;
  if (!status || !is_trusted(*status)) return Error{run + "/" + kDirectory + ": belongs to another user"};
  return replace_file(control.get(), answer_name(answer.node), text_of(answer));
}

void withdraw_answer(const std::string& run, const std::string& node) {
  const UniqueFd directory = open_run(run);
  if (!directory) return;
  {
    const UniqueFd control = open_directory(directory.get(), kDirectory);
    if (!control) return;
    ::unlinkat(control.get(), (std::string(kWrotePrefix) + node).c_str(), 0);
    if (::unlinkat(control.get(), answer_name(node).c_str(), 0) != 0) return;  // of a run without windows
    if (!entries_of(control.get(), [](const std::string& name) {
           return name.starts_with(kNodePrefix);
         }).empty())
      return;
  }
  remove_control(directory.get());
}

namespace {

// The node and the text of each file of a node's answer.
std::vector<std::pair<std::string, std::string>> answers_of_nodes(const std::string& run,
                                                                  std::string_view prefix) {
  std::vector<std::pair<std::string, std::string>> answers;
  const UniqueFd control = open_control(run);
  if (!control) return answers;
  std::vector<std::string> names =
      entries_of(control.get(), [&](const std::string& name) { return name.starts_with(prefix); });
  std::sort(names.begin(), names.end());
  const auto owner = status_of(control.get());
  for (const std::string& name : names)
    if (auto text = owner ? read_trusted(control.get(), name, owner->st_uid) : std::nullopt)
      answers.emplace_back(name.substr(prefix.size()), std::move(*text));
  return answers;
}

}  // namespace

std::vector<ControlAnswer> read_answers(const std::string& run) {
  std::vector<ControlAnswer> answers;
  for (auto& [node, text] : answers_of_nodes(run, kNodePrefix))
    if (auto answer = parse_answer(text, std::move(node))) answers.push_back(std::move(*answer));
  return answers;
}

std::vector<WriteAnswer> read_write_answers(const std::string& run) {
  std::vector<WriteAnswer> answers;
  for (auto& [node, text] : answers_of_nodes(run, kWrotePrefix))
    if (const std::uint64_t number = parse_number(text); number != 0)
      answers.push_back({std::move(node), number});
  return answers;
}

Result<void> write_watch(const std::string& run, std::uint64_t number) {
  const UniqueFd directory = open_run(run);
  const auto owner = directory ? status_of(directory.get()) : std::nullopt;
  if (!owner) return Error{run + ": " + std::strerror(errno)};
  if (owner->st_uid != ::geteuid() && ::geteuid() != 0)
    return Error{run + ": belongs to another user, who alone can ask its nodes what they do now"};
  const Result<Control> control = make_control(run);
  if (!control) return control.error();
  const std::string text = text_of_fields({{kWatchFields[0], number}});
  return write_as_owner(run, control.value(), [&](int opened) {
    return rewrite_file(opened, kWatchName, std::as_bytes(std::span(text)), control.value().status);
  });
}

void end_watch(const std::string& run) {
  const UniqueFd directory = open_run(run);
  const auto owner = directory ? status_of(directory.get()) : std::nullopt;
  if (!owner) return;
  const ActingAs user(*owner);
  if (!user.is_allowed()) return;
  {
    const UniqueFd control = open_directory(directory.get(), kDirectory);
    if (!control) return;
    ::unlinkat(control.get(), kWatchName, 0);
  }
  ::unlinkat(directory.get(), kDirectory, AT_REMOVEDIR);  // fails where something else is there
}

std::optional<std::uint64_t> read_watch(const std::string& run) {
  const UniqueFd control = open_control(run);
  const auto text = control ? read_trusted(control.get(), kWatchName, ::geteuid()) : std::nullopt;
  const auto values = text ? take_fields(*text, kWatchFields) : std::nullopt;
  return values ? std::optional((*values)[0]) : std::nullopt;
}

Result<void> write_live(const std::string& run, const std::string& node, std::span<const std::byte> bytes) {
  const UniqueFd control = open_control(run);
  const auto status = control ? status_of(control.get()) : std::nullopt;
  if (!status) return Error{run + "/" + kDirectory + ": " + std::strerror(errno)};
  if (!is_trusted(*status)) return Error{run + "/" + kDirectory + ": belongs to another user"};
  return rewrite_file(control.get(), live_name(node), bytes, *status);
}

void withdraw_live(const std::string& run, const std::string& node) {
  const UniqueFd directory = open_run(run);
  const UniqueFd control = directory ? open_directory(directory.get(), kDirectory) : UniqueFd();
  if (!control) return;
  ::unlinkat(control.get(), live_name(node).c_str(), 0);
  // After the last node's only where there is nothing else: it may be for nodes that go on.
  if (!entries_of(control.get(), [](const std::string& name) { return name != kWatchName; }).empty()) return;
  ::unlinkat(control.get(), kWatchName, 0);
  ::unlinkat(directory.get(), kDirectory, AT_REMOVEDIR);
}

std::vector<std::string> live_nodes(const std::string& run) {
  std::vector<std::string> nodes;
  const UniqueFd control = open_control(run);
  if (!control) return nodes;
  nodes = entries_of(control.get(), [](const std::string& name) { return name.starts_with(kLivePrefix); });
  for (std::string& name : nodes) name.erase(0, kLivePrefix.size());
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

std::optional<std::vector<std::byte>> read_live(const std::string& run, const std::string& node) {
  const UniqueFd control = open_control(run);
  const auto owner = control ? status_of(control.get()) : std::nullopt;
  const UniqueFd file = owner ? open_trusted(control.get(), live_name(node), owner->st_uid) : UniqueFd();
  const auto status = file ? status_of(file.get()) : std::nullopt;
  if (!status || status->st_size < 0) return std::nullopt;
  std::vector<std::byte> bytes(std::min(static_cast<std::size_t>(status->st_size), kMostLiveBytes));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

void remove_control(int run_directory) {
  {
    const UniqueFd control = open_directory(run_directory, kDirectory);
    if (!control) return;
    remove_entries(control.get(), [](const std::string&) { return true; });
  }
  ::unlinkat(run_directory, kDirectory, AT_REMOVEDIR);
}

ControlSchedule schedule_of(const ControlRequest& request, std::int64_t seen_unix_ns, std::int64_t latest_ns,
                            bool late) {
  if (!request.open) return {};
  ControlSchedule schedule;
  const std::int64_t ahead_ns = request.at_unix_ns - seen_unix_ns;
  const bool is_near = ahead_ns >= -latest_ns && ahead_ns <= latest_ns;
  schedule.begin_unix_ns = is_near || (late && ahead_ns < 0) ? request.at_unix_ns : seen_unix_ns;
  if (request.lasting_ns == 0) return schedule;
  // It lasts as long as was asked for from when it really begins.
  const std::int64_t begins = late ? schedule.begin_unix_ns : std::max(schedule.begin_unix_ns, seen_unix_ns);
  schedule.end_unix_ns = begins + static_cast<std::int64_t>(request.lasting_ns);
  return schedule;
}

}  // namespace clusterprof
