// SPDX-License-Identifier: BSD-3-Clause
// The file is made in memory and renamed into place, and read into memory: file systems without locks, and
// programs that are killed, cannot damage it.
#include "cli/analyze/history_index.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/hex_hash.hpp"
#include "base/unique_fd.hpp"
#include "cli/analyze/write_file.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using report::HistoryRun;

// Of the tables below and what is in them. Raised when they change.
constexpr int kVersion = 4;
constexpr std::size_t kHashDigits = 16;  // of all that is before them: SQLite does not notice wrong values
constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 30;

constexpr const char* kTables =
    "CREATE TABLE run(row INTEGER PRIMARY KEY, name TEXT, stamp TEXT, id TEXT, start INTEGER, ranks INTEGER,"
    " nodes INTEGER, elapsed REAL, complete INTEGER, parallel REAL, load_balance REAL, communication REAL,"
    " serialization REAL, transfer REAL, rss INTEGER, error TEXT,"
    " sample REAL, has_functions INTEGER, threads REAL, callers TEXT, seen TEXT, version TEXT);"
    "CREATE TABLE word(run INTEGER, text TEXT);"
    "CREATE TABLE finding(run INTEGER, text TEXT);"
    "CREATE TABLE setting(run INTEGER, kind INTEGER, name TEXT, value TEXT);"
    "CREATE TABLE followed(row INTEGER PRIMARY KEY, kind INTEGER, name TEXT, file TEXT);"
    "CREATE TABLE metric(run INTEGER, followed INTEGER, value REAL);";

// Each user has one: what others may read of the runs differs.
fs::path index_path(const fs::path& directory) {
  return directory / (".clusterprof-history-" + std::to_string(::geteuid()) + ".sqlite");
}

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

Database in_memory() {
  sqlite3* database = nullptr;
  if (sqlite3_open_v2(":memory:", &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr) !=
      SQLITE_OK) {
    sqlite3_close_v2(database);
    return nullptr;
  }
  return Database(database);
}

class Statement {
 public:
  Statement(sqlite3* database, const char* text) {
    if (sqlite3_prepare_v2(database, text, -1, &statement_, nullptr) != SQLITE_OK) statement_ = nullptr;
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Writes one row.
  template <typename... Values>
  bool insert(const Values&... values) {
    if (statement_ == nullptr) return false;
    sqlite3_reset(statement_);
    int column = 0;
    const bool bound = (bind(++column, values) && ...);
    return bound && sqlite3_step(statement_) == SQLITE_DONE;
  }

  // Whether there is another row.
  bool next() {
    if (statement_ == nullptr) return false;
    result_ = sqlite3_step(statement_);
    return result_ == SQLITE_ROW;
  }
  // Whether next() came to an end because there were no more.
  [[nodiscard]] bool is_complete() const { return result_ == SQLITE_DONE; }
  [[nodiscard]] std::int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }
  [[nodiscard]] double real(int column) const { return sqlite3_column_double(statement_, column); }
  [[nodiscard]] bool is_null(int column) const {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
  }
  [[nodiscard]] std::optional<double> maybe(int column) const {
    return is_null(column) ? std::optional<double>() : real(column);
  }
  [[nodiscard]] std::string text(int column) const {
    const unsigned char* const bytes = sqlite3_column_text(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return bytes == nullptr
               ? std::string()
               : std::string(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  }

 private:
  bool bind(int column, const std::string& value) {
    return sqlite3_bind_text64(statement_, column, value.data(), value.size(), SQLITE_TRANSIENT,
                               SQLITE_UTF8) == SQLITE_OK;
  }
  bool bind(int column, double value) { return sqlite3_bind_double(statement_, column, value) == SQLITE_OK; }
  bool bind(int column, std::int64_t value) {
    return sqlite3_bind_int64(statement_, column, value) == SQLITE_OK;
  }
  template <typename T>
  bool bind(int column, const std::optional<T>& value) {
    return value ? bind(column, *value) : sqlite3_bind_null(statement_, column) == SQLITE_OK;
  }

  sqlite3_stmt* statement_ = nullptr;
  int result_ = SQLITE_OK;
};

std::int64_t number_of(std::uint64_t number) { return static_cast<std::int64_t>(number); }

// 16 hex digits for each.
std::string text_of(const std::vector<std::uint64_t>& hashes) {
  std::string text;
  for (const std::uint64_t hash : hashes) text += as_hex(hash);
  return text;
}
// Empty: the file is damaged.
std::optional<std::vector<std::uint64_t>> hashes_of(const std::string& text) {
  std::vector<std::uint64_t> hashes;
  if (text.size() % kHashDigits != 0) return {};
  for (const char* at = text.data(); at != text.data() + text.size(); at += kHashDigits) {
    const auto read = std::from_chars(at, at + kHashDigits, hashes.emplace_back(), 16);
    if (read.ec != std::errc() || read.ptr != at + kHashDigits) return {};
  }
  return hashes;
}
std::optional<report::FindingKinds> kinds_of(const std::string& bits) {
  if (bits.size() != report::kFindingKinds || bits.find_first_not_of("01") != std::string::npos) return {};
  return report::FindingKinds(bits);
}

bool fill(sqlite3* database, const HistoryIndex& index) {
  Statement run(database,
                "INSERT INTO run VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Statement word(database, "INSERT INTO word VALUES(?, ?)");
  Statement finding(database, "INSERT INTO finding VALUES(?, ?)");
  Statement setting(database, "INSERT INTO setting VALUES(?, ?, ?, ?)");
  Statement followed(database, "INSERT INTO followed VALUES(?, ?, ?, ?)");
  Statement metric(database, "INSERT INTO metric VALUES(?, ?, ?)");
  std::map<report::FollowedMetric, std::int64_t> rows;  // of those that are in the table
  std::int64_t row = 0;
  for (const auto& [name, indexed] : index) {
    const HistoryRun& r = indexed.run;
    const report::Efficiency& e = r.efficiency;
    const std::optional<std::int64_t> rss =
        r.max_rss_bytes ? std::optional(number_of(*r.max_rss_bytes)) : std::nullopt;
    bool good = run.insert(++row, name, indexed.stamp, r.id, r.start_utc_ns, number_of(r.ranks),
                           number_of(r.nodes), r.elapsed_s, std::int64_t{r.complete ? 1 : 0}, e.parallel,
                           e.load_balance, e.communication, e.serialization, e.transfer, rss, r.error,
                           r.sample_s, std::int64_t{r.has_functions ? 1 : 0}, r.threads_s,
                           text_of(r.more_callers), r.seen_findings.to_string(), r.version);
    for (const std::string& text : r.command) good = good && word.insert(row, text);
    for (const std::string& text : r.findings) good = good && finding.insert(row, text);
    for (const shard::Setting& s : r.settings)
      good = good && setting.insert(row, static_cast<std::int64_t>(s.kind), s.name, s.value);
    for (const auto& [m, value] : r.metrics) {
      const auto [known, is_new] = rows.try_emplace(m, static_cast<std::int64_t>(rows.size()) + 1);
      if (is_new)
        good = good && followed.insert(known->second, static_cast<std::int64_t>(m.kind), m.name, m.file);
      good = good && metric.insert(row, known->second, value);
    }
    if (!good) return false;
  }
  return true;
}

// Rows are numbered from 1 on, so that what they belong to is found by its place: there may be millions.
template <typename Rows>
auto* row_of(Rows& rows, std::int64_t number) {
  return number < 1 || number > static_cast<std::int64_t>(rows.size())
             ? nullptr
             : &rows[static_cast<std::size_t>(number - 1)];
}

bool read(sqlite3* database, HistoryIndex& index) {
  std::vector<HistoryRun*> runs;
  Statement run(database, "SELECT * FROM run ORDER BY row");
  while (run.next()) {
    if (run.number(0) != static_cast<std::int64_t>(runs.size()) + 1) return false;
    IndexedRun indexed;
    HistoryRun& r = indexed.run;
    r.name = run.text(1), indexed.stamp = run.text(2), r.id = run.text(3);
    r.start_utc_ns = run.number(4);
    r.ranks = static_cast<std::uint64_t>(run.number(5)), r.nodes = static_cast<std::uint64_t>(run.number(6));
    r.elapsed_s = run.real(7), r.complete = run.number(8) != 0;
    report::Efficiency& e = r.efficiency;
    e.parallel = run.maybe(9), e.load_balance = run.maybe(10), e.communication = run.maybe(11);
    e.serialization = run.maybe(12), e.transfer = run.maybe(13);
    if (!run.is_null(14)) r.max_rss_bytes = static_cast<std::uint64_t>(run.number(14));
    r.error = run.text(15);
    r.sample_s = run.real(16), r.has_functions = run.number(17) != 0;
    r.threads_s = run.real(18), r.version = run.text(21);
    std::optional<std::vector<std::uint64_t>> callers = hashes_of(run.text(19));
    const std::optional<report::FindingKinds> seen = kinds_of(run.text(20));
    if (!callers || !seen) return false;
    r.more_callers = std::move(*callers), r.seen_findings = *seen;
    const std::string name = r.name;
    runs.push_back(&(index[name] = std::move(indexed)).run);
  }
  std::vector<report::FollowedMetric> metrics;
  Statement followed(database, "SELECT * FROM followed ORDER BY row");
  while (followed.next()) {
    const std::int64_t kind = followed.number(1);
    if (followed.number(0) != static_cast<std::int64_t>(metrics.size()) + 1 || kind < 0 ||
        kind >= static_cast<std::int64_t>(report::kFollowedKinds))
      return false;
    metrics.push_back({static_cast<report::FollowedKind>(kind), followed.text(2), followed.text(3)});
  }
  // A row of a run that is not there: the file is damaged.
  const auto rows = [&](Statement& statement, const auto& take) {
    while (statement.next()) {
      HistoryRun* const* const of = row_of(runs, statement.number(0));
      if (of == nullptr || !take(**of)) return false;
    }
    return statement.is_complete();
  };
  Statement word(database, "SELECT * FROM word ORDER BY rowid");
  Statement finding(database, "SELECT * FROM finding ORDER BY rowid");
  Statement setting(database, "SELECT * FROM setting ORDER BY rowid");
  Statement metric(database, "SELECT * FROM metric ORDER BY rowid");
  return run.is_complete() && followed.is_complete() &&
         rows(word,
              [&](HistoryRun& r) {
                r.command.push_back(word.text(1));
                return true;
              }) &&
         rows(finding,
              [&](HistoryRun& r) {
                r.findings.push_back(finding.text(1));
                return true;
              }) &&
         rows(setting,
              [&](HistoryRun& r) {
                const std::int64_t kind = setting.number(1);
                if (kind < 0 || kind >= static_cast<std::int64_t>(shard::kSettingKinds)) return false;
                r.settings.push_back(
                    {static_cast<shard::SettingKind>(kind), setting.text(2), setting.text(3)});
                return true;
              }) &&
         rows(metric, [&](HistoryRun& r) {
           const report::FollowedMetric* const followed_metric = row_of(metrics, metric.number(1));
           if (followed_metric == nullptr) return false;
           r.metrics.emplace_back(*followed_metric, metric.real(2));
           return true;
         });
}

// The user's own file, without the hash behind it; empty if there is none or the hash is another one. Does
// not follow links or wait for pipes: the directory may be another user's.
std::string whole_content(const fs::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != ::geteuid() || static_cast<std::uintmax_t>(status.st_size) > kMostBytes)
    return {};
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t count = ::read(file.get(), content.data() + filled, content.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return {};
    filled += static_cast<std::size_t>(count);
  }
  if (content.size() < kHashDigits) return {};
  const std::string hash = content.substr(content.size() - kHashDigits);
  content.resize(content.size() - kHashDigits);
  return hash == hex_hash(content) ? content : std::string();
}

}  // namespace

HistoryIndex read_history_index(const fs::path& directory) {
  const std::string content = whole_content(index_path(directory));
  const Database database = in_memory();
  if (content.empty() || !database) return {};
  auto* const bytes = static_cast<unsigned char*>(sqlite3_malloc64(content.size()));
  if (bytes == nullptr) return {};
  std::memcpy(bytes, content.data(), content.size());
  // The database frees the bytes, also after an error.
  const auto length = static_cast<sqlite3_int64>(content.size());
  if (sqlite3_deserialize(database.get(), "main", bytes, length, length,
                          SQLITE_DESERIALIZE_READONLY | SQLITE_DESERIALIZE_FREEONCLOSE) != SQLITE_OK)
    return {};
  Statement version(database.get(), "PRAGMA user_version");
  if (!version.next() || version.number(0) != kVersion) return {};
  HistoryIndex index;
  if (!read(database.get(), index)) return {};
  return index;
}

void write_history_index(const fs::path& directory, const HistoryIndex& index) {
  const Database database = in_memory();
  if (!database) return;
  const std::string begin =
      std::string(kTables) + "PRAGMA user_version = " + std::to_string(kVersion) + "; BEGIN;";
  if (sqlite3_exec(database.get(), begin.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK ||
      !fill(database.get(), index) ||
      sqlite3_exec(database.get(), "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK)
    return;
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> bytes(
      sqlite3_serialize(database.get(), "main", &size, 0), &sqlite3_free);
  if (!bytes) return;
  std::string content(reinterpret_cast<const char*>(bytes.get()), static_cast<std::size_t>(size));
  content += hex_hash(content);
  // Nobody else reads it: a file that nobody can read is quoted.
  (void)write_file(index_path(directory), content, {""});
}

}  // namespace clusterprof::cli
