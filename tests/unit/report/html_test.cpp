// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <gtest/gtest.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "profile_builder.hpp"
#include "random_profile.hpp"
#include "report/html/render_html.hpp"
#include "report/page/page_builder.hpp"
#include "report/page/page_sources.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using shard::Category;
using shard::ShardData;
using testing::ProfileBuilder;

std::string html_of(ShardData data, const PageOptions& options = {}) {
  aggregator::correct_times(data);
  const Analysis analysis = analyse(data);
  const PageData page = make_page_data(data, shard::InMemoryRows(data), analysis, options);
  const Result<std::string> html = render_html(analysis, page, options);
  EXPECT_TRUE(html.ok());
  return html.value();
}

std::size_t count(std::string_view text, std::string_view word) {
  std::size_t number = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) ++number;
  return number;
}

std::string between(const std::string& text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

std::string from_base64(std::string_view text) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const std::size_t digit = kDigits.find(c);
    EXPECT_NE(digit, std::string_view::npos) << c;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    bytes += static_cast<char>(bits >> have & 0xff);
  }
  return bytes;
}

struct Data {
  json header;
  std::string arrays;
};

// As the page reads it.
Data data_of(const std::string& html) {
  const std::string block =
      between(html, "<script id=\"clusterprof-data\" type=\"application/octet-stream\">", "</script>");
  const std::string gzip = from_base64(block);
  std::uint32_t plain_bytes = 0;
  std::memcpy(&plain_bytes, gzip.data() + gzip.size() - 4, 4);
  std::string plain(plain_bytes, '\0');
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> decompressor(
      libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
  EXPECT_EQ(libdeflate_gzip_decompress(decompressor.get(), gzip.data(), gzip.size(), plain.data(),
                                       plain.size(), nullptr),
            LIBDEFLATE_SUCCESS);
  EXPECT_TRUE(plain.starts_with("CPPAGE1\n"));
  std::uint32_t header_bytes = 0;
  std::memcpy(&header_bytes, plain.data() + 8, 4);
  Data data;
  data.header = json::parse(plain.substr(12, header_bytes));
  data.arrays = plain.substr((12 + header_bytes + 7) / 8 * 8);
  return data;
}

template <typename T>
std::vector<T> array_of(const Data& data, const std::string& name) {
  const json& entry = data.header.at("arrays").at(name);
  std::vector<T> values(entry.at("length").get<std::size_t>());
  const auto offset = entry.at("offset").get<std::size_t>();
  EXPECT_LE(offset + values.size() * sizeof(T), data.arrays.size());
  std::memcpy(values.data(), data.arrays.data() + offset, values.size() * sizeof(T));
  return values;
}

TEST(Html, HasTheDataThatFormatMdDescribes) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const ShardData run = testing::random_profile(seed);
    const PageData page = make_page_data(run, shard::InMemoryRows(run), analyse(run), {});
    const Data data = data_of(html_of(run));
    const json& header = data.header;
    EXPECT_EQ(header.at("schema"), "clusterprof.page/1");
    EXPECT_EQ(header.at("report").at("schema"), "clusterprof.report/1");
    EXPECT_TRUE(header.at("report").at("timeline").is_null());
    EXPECT_EQ(header.at("paths"), page.paths.size());
    const std::size_t ranks = run.ranks.size(), paths = page.paths.size();
    static const std::map<std::string, std::size_t> kSizes{
        {"u8", 1}, {"u32", 4}, {"i32", 4}, {"f32", 4}, {"f64", 8}};
    std::size_t end = 0;
    for (const auto& [name, entry] : header.at("arrays").items()) {
      const auto offset = entry.at("offset").get<std::size_t>();
      EXPECT_EQ(offset % 8, 0u) << name;
      end = std::max(end, offset + entry.at("length").get<std::size_t>() * kSizes.at(entry.at("type")));
    }
    EXPECT_EQ(end, data.arrays.size());
    const auto length = [&](const char* name) {
      return header.at("arrays").at(name).at("length").get<std::size_t>();
    };
    EXPECT_EQ(length("path_self_s"), paths * shard::kCategories);
    EXPECT_EQ(length("path_helper_idle_s"), paths);
    EXPECT_EQ(length("path_line"), paths);
    EXPECT_EQ(length("path_own_line"), paths);
    EXPECT_EQ(header.at("categories").size(), shard::kCategories);
    EXPECT_EQ(length("rank_off_cpu_s"), ranks * header.at("off_cpu_kinds").size());
    EXPECT_EQ(length("rank_wait_kind_s"), ranks * header.at("wait_kinds").size());
    EXPECT_EQ(length("cell_offset"), header.at("groups").get<std::size_t>() + 1);
    EXPECT_EQ(length("cell_helper_idle_s"), length("cell_path"));
    EXPECT_EQ(length("rank_category_s"), ranks * shard::kCategories);
    EXPECT_EQ(length("row_node"), header.at("rows"));
    EXPECT_EQ(length("path_time"), paths * header.at("time").at("bins").get<std::size_t>());
    EXPECT_EQ(length("function_row_s"),
              header.at("row_functions").get<std::size_t>() * header.at("rows").get<std::size_t>());

    const std::size_t strings = header.at("strings").size();
    const auto functions = array_of<std::uint32_t>(data, "function_name_string");
    for (std::size_t i = 0; i < functions.size(); ++i) {
      ASSERT_LT(functions[i], strings);
      EXPECT_EQ(header.at("strings").at(functions[i]), page.functions[i].name);
    }
    const auto self = array_of<float>(data, "path_self_s");
    for (std::size_t i = 0; i < self.size(); ++i)
      EXPECT_EQ(self[i],
                static_cast<float>(page.paths[i / shard::kCategories].self_s[i % shard::kCategories]));
    const auto offsets = array_of<std::uint32_t>(data, "cell_offset");
    const auto cells = array_of<float>(data, "cell_self_s");
    ASSERT_EQ(offsets.back(), cells.size());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      EXPECT_NEAR(cells[i], page.cells[i].self_s, page.cells[i].self_s / 1024);
      EXPECT_GE(i, offsets[page.cells[i].group]);
      EXPECT_LT(i, offsets[page.cells[i].group + 1]);
    }
    const auto recorded = array_of<float>(data, "rank_recorded_s");
    ASSERT_EQ(recorded.size(), ranks);
    for (std::size_t i = 0; i < ranks; ++i)
      EXPECT_EQ(recorded[i], static_cast<float>(analyse(run).ranks[i].recorded_s));
    const auto useful = array_of<float>(data, "rank_useful_s");
    for (std::size_t i = 0; i < ranks; ++i) {
      const Seconds known = analyse(run).ranks[i].useful_s;
      EXPECT_EQ(std::isnan(useful[i]), !known);
    }
  }
}

TEST(Html, EqualArgumentsGiveEqualBytes) {
  const ShardData run = testing::training_run();
  EXPECT_EQ(html_of(run), html_of(run));
}

TEST(Html, NamesAreNeverMarkup) {
  const std::string plain = html_of(testing::training_run());
  const std::array<std::string, 6> names{"</script><script>alert(1)</script>", "<!--<script>",
                                         "--><img src=x onerror=1>",           "@SCRIPT@@DATA@",
                                         std::string("a\0b\x1b[31m", 8),       "\xff\xfe'\"&<\xc3"};
  ProfileBuilder b(2);
  b.data.run.id = b.data.nodes[0].name = names[0];
  b.data.run.command = {names.begin(), names.end()};
  for (const std::string& name : names) {
    b.sampled(0, b.path({b.python(name, "/u/" + name, 3, 1), b.native(name, name, name, 8)}),
              Category::kNative, 500);
    b.series(name, 0, {1, 2});
  }
  b.data.run.command.resize(1);
  for (const std::string& command : names) {
    b.data.run.command[0] = command;
    const std::string html = html_of(b.data);
    for (const char* markup : {"<script", "</script", "<!--", "<img", "<style", "<meta", "<title"})
      EXPECT_EQ(count(html, markup), count(plain, markup)) << markup;
    EXPECT_EQ(html.find('\0'), std::string::npos);
    EXPECT_EQ(html.find('\x1b'), std::string::npos);
    EXPECT_EQ(between(html, "<title>", "</title>").find_first_of("<>\""), std::string::npos);
    const Data data = data_of(html);
    bool known = false;
    for (const json& text : data.header.at("strings")) known = known || text == names[0];
    EXPECT_TRUE(known);
  }
}

TEST(Html, LongTablesAreShortenedAndSayso) {
  ProfileBuilder b(600);
  for (std::uint32_t i = 0; i < 50; ++i)
    b.sampled(0, b.path({b.native("f" + std::to_string(i), "/a.out", "/u/a.c", i + 1)}), Category::kNative,
              100 + i);
  PageOptions options;
  options.report_functions = 7;
  options.report_lines = 9;
  const Data data = data_of(html_of(b.data, options));
  const json& report = data.header.at("report");
  EXPECT_EQ(report.at("functions").size(), 7u);
  EXPECT_EQ(report.at("lines").size(), 9u);
  EXPECT_EQ(report.at("ranks").size(), 0u);
  const json& shortened = data.header.at("shortened");
  EXPECT_EQ(shortened.at("functions"), (json{{"kept", 7}, {"of", 50}}));
  EXPECT_EQ(shortened.at("lines"), (json{{"kept", 9}, {"of", 50}}));
  EXPECT_EQ(shortened.at("ranks"), (json{{"kept", 0}, {"of", 600}}));
  const auto rows = array_of<std::uint32_t>(data, "function_row");
  ASSERT_EQ(rows.size(), 50u);
  for (std::uint32_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], i < 7 ? i : shard::kNone);
}

TEST(Html, HasHowRanksEndedWhereTheTableOfRanksIsLeftOut) {
  ProfileBuilder b(600);
  b.data.ranks[300].exit_status = 1;
  b.data.ranks[300].flags |= shard::kExitStatusKnown;
  const Data data = data_of(html_of(b.data));
  EXPECT_EQ(data.header.at("report").at("ranks").size(), 0u);
  const auto status = array_of<std::int32_t>(data, "rank_exit_status");
  const auto signal = array_of<std::int32_t>(data, "rank_exit_signal");
  ASSERT_EQ(status.size(), 600u);
  ASSERT_EQ(signal.size(), 600u);
  EXPECT_EQ(status[300], 1);
  EXPECT_EQ(signal[300], -1);
  EXPECT_EQ(std::count(status.begin(), status.end(), 1), 1);
}

TEST(Html, MissingRanksAreCountedWhereNotAllAreListed) {
  ProfileBuilder b(4);
  b.data.run.complete = false;
  for (const std::uint32_t world : {1004u, 2004u, 70'004u}) {
    b.data.run.world_size = world;
    const json header = data_of(html_of(b.data)).header;
    EXPECT_EQ(header.at("report").at("run").at("missing_ranks").size(), 1000u);
    const json note = header.at("shortened").value("run.missing_ranks", json());
    EXPECT_EQ(note, world == 1004 ? json() : json({{"kept", 1000}, {"of", world - 4}}));
  }
}

TEST(Html, HasNoCallsUnderWayOfWhichARunThatHangsHasOneForEachRank) {
  const auto size_with = [](std::uint32_t calls) {
    ProfileBuilder b(1000);
    const auto barrier = b.path({b.native("main", "/a.out", "/u/a.c", 9), b.mpi("MPI_Barrier")});
    for (std::uint32_t r = 0; r < calls; ++r)
      b.data.calls_under_way.push_back({r, 50, true, barrier, shard::kNone, shard::kNone, -1,
                                        shard::CallUnderWay::kNoTag, -1, 0, 9'000'000'000});
    EXPECT_EQ(analyse(b.data).calls_under_way.size(), calls);
    const Data data = data_of(html_of(b.data));
    EXPECT_EQ(data.header.at("report").at("mpi").value("calls_under_way", json::array()).size(), 0u);
    return data.header.dump().size();
  };
  EXPECT_LT(size_with(1000), size_with(1) + 100'000);
}

TEST(Html, WaitingByKindIsOfAllRanksWhereTheTableIsCut) {
  ProfileBuilder b(600);
  const auto main = b.native("main", "/a.out", "/u/a.c", 9);
  const auto receive = b.path({main, b.mpi("MPI_Recv")}), reduce = b.path({main, b.mpi("MPI_Allreduce")});
  for (std::uint32_t r = 1; r < 600; ++r) {
    b.waited(r, receive, shard::WaitKind::kLateSender, 0, receive, 3, 2);
    b.waited(r, reduce, shard::WaitKind::kWaitAtNxN, 0, reduce, 1000 + r, 5);
  }
  ShardData run = b.data;
  aggregator::correct_times(run);
  const Analysis analysis = analyse(run);
  ASSERT_EQ(analysis.waits.size(), 2 * 599u);
  const Data data = data_of(html_of(b.data));
  EXPECT_EQ(data.header.at("shortened").at("mpi.waits"), (json{{"kept", 1'000}, {"of", 1'198}}));
  EXPECT_EQ(data.header.at("wait_kinds"), (json{"late_sender", "wait_at_nxn"}));
  const auto seconds = array_of<float>(data, "rank_wait_kind_s");
  const auto counts = array_of<std::uint32_t>(data, "rank_wait_kind_count");
  ASSERT_EQ(seconds.size(), 2 * 600u);
  ASSERT_EQ(counts.size(), 2 * 600u);
  EXPECT_EQ(seconds[0], 0) << "rank 0 never waited";
  EXPECT_EQ(counts[1], 0u);
  for (const WaitRow& row : analysis.waits) {
    const std::size_t at = 2 * static_cast<std::size_t>(row.rank) + (row.kind == shard::WaitKind::kWaitAtNxN);
    EXPECT_EQ(seconds[at], static_cast<float>(row.wait_s));
    EXPECT_EQ(counts[at], row.count);
  }
}

TEST(Html, MemoryIsInTheReportAndInArrays) {
  const Data without = data_of(html_of(ProfileBuilder(2).data));
  EXPECT_FALSE(without.header.at("report").contains("memory"));
  EXPECT_FALSE(without.header.at("arrays").contains("held_parent"));

  ProfileBuilder b(600);
  const auto main = b.python("<module>", "/u/a.py", 3, 1);
  for (std::uint32_t r = 0; r < 600; ++r)
    b.data.memory_ranks.push_back({r, 65'536, 1'000'000 * (r + 1), 0, 0});
  for (std::uint32_t i = 0; i < 2'500; ++i) {
    shard::MemorySite& site = b.data.memory_sites.emplace_back();
    site.path = b.path({main, b.python("f" + std::to_string(i), "/u/a.py", i + 10, i + 10)});
    site.alloc_bytes = site.rank_peak_bytes = site.node_peak_bytes = 1'000'000 - i;
  }
  b.data.nodes[0].held_peak_bytes = 2'000'000'000;
  b.data.path_axis.bin_ns = 1'000'000'000;
  b.data.path_axis.origin_utc_ns = b.data.run.start_utc_ns;
  for (const shard::MemorySite& site : b.data.memory_sites)
    b.data.memory_series.push_back({site.path, 2, 1000});
  const Analysis analysis = analyse(b.data);
  const Data data = data_of(html_of(b.data));
  const json& memory = data.header.at("report").at("memory");
  EXPECT_EQ(memory.at("lines").size(), 2'000u);
  EXPECT_EQ(memory.at("ranks").size(), 0u);
  EXPECT_EQ(memory.at("over_time").at("lines").size(), 2'000u) << "those of lines that are there";
  EXPECT_EQ(data.header.at("shortened").at("memory.lines"), (json{{"kept", 2'000}, {"of", 2'500}}));
  const auto peaks = array_of<float>(data, "rank_held_peak_bytes");
  ASSERT_EQ(peaks.size(), 600u);
  EXPECT_EQ(peaks[9], 10'000'000.f);
  const auto parents = array_of<std::uint32_t>(data, "held_parent");
  const auto held = array_of<float>(data, "held_node_peak_bytes");
  ASSERT_EQ(parents.size(), analysis.memory->tree.size());
  ASSERT_EQ(held.size(), parents.size());
  EXPECT_EQ(parents[0], shard::kNone);
  for (std::size_t i = 0; i < held.size(); ++i)
    EXPECT_EQ(held[i], static_cast<float>(analysis.memory->tree[i].node_peak_bytes));
}

TEST(Html, CallsOnFilesAddUpWhereFilesAreNotToldApart) {
  ProfileBuilder b(1);
  b.data.ranks[0].flags |= shard::kFilesKnown;
  const auto store = b.path({b.native("store", "/a.out", "/u/a.c", 7)});
  b.sampled(0, store, Category::kIo, 1000);
  for (std::uint32_t i = 0; i < 1'500; ++i)
    b.file_called(0, store, "/scratch/" + std::to_string(i), shard::IoOperation::kWrite, 2, 1, 100);
  const Data data = data_of(html_of(b.data));
  std::uint64_t count = 0, bytes = 0;
  double time_s = 0;
  const json& calls = data.header.at("report").at("io").at("calls");
  for (const json& call : calls) {
    count += call.at("count").get<std::uint64_t>();
    bytes += call.at("bytes").get<std::uint64_t>();
    time_s += call.at("time_s").get<double>();
  }
  EXPECT_EQ(calls.size(), 1'001u);
  EXPECT_EQ(count, 3'000u);
  EXPECT_EQ(bytes, 150'000u);
  EXPECT_NEAR(time_s, 1.5, 1e-9);
  EXPECT_TRUE(calls.back().at("path").is_null());
  EXPECT_EQ(data.header.at("shortened").at("io.calls"), (json{{"kept", 1'000}, {"of", 1'500}}));
}

TEST(Html, CallsOnFilesThatAreNotToldApartHaveTheRankOfTheLongestAndThatWithMost) {
  ProfileBuilder b(3);
  for (shard::Rank& rank : b.data.ranks) rank.flags |= shard::kFilesKnown;
  const auto store = b.path({b.native("store", "/a.out", "/u/a.c", 7)});
  const auto write = [&](std::uint32_t rank, const std::string& file, std::uint64_t ms) -> shard::IoCall& {
    b.file_called(rank, store, file, shard::IoOperation::kWrite, 2, ms, 100);
    return b.data.io_calls.back();
  };
  for (std::uint32_t i = 0; i < 1'000; ++i) write(0, "/scratch/" + std::to_string(i), 100);
  write(0, "/scratch/a", 9);
  write(1, "/scratch/b", 8).max_ns = 7'000'000;
  write(2, "/scratch/c", 6);
  write(2, "/scratch/d", 6);
  const Data data = data_of(html_of(b.data));
  const json rest = data.header.at("report").at("io").at("calls").back();
  EXPECT_TRUE(rest.at("path").is_null());
  EXPECT_EQ(rest.at("count"), 8);
  EXPECT_DOUBLE_EQ(rest.at("max_s").get<double>(), 0.007);
  EXPECT_EQ(rest.at("longest_rank"), 1);
  EXPECT_EQ(rest.at("rank_max"), 2);
}

TEST(Html, NamesSeriesThatAreLeftOut) {
  ProfileBuilder b(2);
  for (std::uint32_t i = 0; i < 100; ++i) b.series("s" + std::to_string(i), i % 2, {1});
  PageOptions options;
  options.series_cells = 100;
  const Data data = data_of(html_of(b.data, options));
  EXPECT_EQ(data.header.at("shortened").at("series"), (json{{"kept", 64}, {"of", 100}}));
  EXPECT_EQ(data.header.at("series").size(), 64u);
  EXPECT_FALSE(data.header.at("shortened").contains("node_series"));
}

TEST(Html, BannerNamesThePageWithinItsLines) {
  const Analysis analysis = analyse(testing::training_run());
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  EXPECT_EQ(render_banner(analysis, "run", 80).find("page"), std::string::npos);
  EXPECT_NE(render_banner(analysis, "run", 80, "run/report.html").find("\n  page        run/report.html\n"),
            std::string::npos);
  const std::string folder(250, 'y');
  const std::string banner = render_banner(analysis, folder, 80, folder + "/report.html");
  EXPECT_LE(lines(banner), 25);
  EXPECT_NE(banner.find("\n  page        report.html in the run's directory\n"), std::string::npos);
}

class Sources : public ::testing::Test {
 protected:
  Sources() { fs::create_directories(folder_); }
  ~Sources() override { fs::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  static std::int64_t later() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return (std::int64_t{now.tv_sec} + 60) * 1'000'000'000;
  }
  static PageSourceFile read(const std::string& path) { return read_source(path, later(), 1'000'000'000); }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("page-sources-" + std::to_string(::getpid()));
};

TEST_F(Sources, AreReadFromRegularFiles) {
  const std::string path = file("a.py", "print(1)\n");
  EXPECT_EQ(read(path).text, "print(1)\n");
  fs::create_symlink(path, folder_ / "link.py");
  EXPECT_EQ(read((folder_ / "link.py").string()).text, "print(1)\n");
  EXPECT_EQ(read(file("empty.c", "")).text, "");
  EXPECT_EQ(read(file("SOLVER.F90", "end\n")).text, "end\n");
  EXPECT_EQ(read(file("script", "#!/usr/bin/env python3\n1\n")).text, "#!/usr/bin/env python3\n1\n");
  EXPECT_EQ(read(file("latin.c", "\xe9t\xe9 // ok\n")).text, "\xef\xbf\xbdt\xef\xbf\xbd // ok\n");
}

TEST_F(Sources, AreNotReadFromOtherThanRegularFiles) {
  EXPECT_EQ(read((folder_ / "none.py").string()).why_not, "not found");
  EXPECT_EQ(read((folder_ / "none" / "a.py").string()).why_not, "not found");
  EXPECT_EQ(read("train.py").why_not, "not found: its directory is not known");
  EXPECT_EQ(read("<string>").why_not, "not a file");
  EXPECT_EQ(read("").why_not, "not a file");
  EXPECT_EQ(read(folder_.string()).why_not, "not a file");
  const std::string fifo = (folder_ / "pipe.py").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(read(fifo).why_not, "not a file");  // and does not wait for a writer
  fs::create_symlink("/dev/zero", folder_ / "zero.c");
  EXPECT_EQ(read((folder_ / "zero.c").string()).why_not, "not a file");
  EXPECT_EQ(read(file("large.c", std::string(2'000'001, 'x'))).why_not, "too large");
  EXPECT_EQ(read(file("binary.c", std::string("a\0b", 3))).why_not, "is no text");
  // A profile from elsewhere may name files that must not be passed on.
  EXPECT_EQ(read(file("id_rsa", "secret\n")).why_not, "does not look like source code");
  EXPECT_EQ(read(file("notes.txt", "secret\n")).why_not, "does not look like source code");
  EXPECT_EQ(read(file(".bashrc", "secret\n")).why_not, "does not look like source code");
  for (const char* meant : {"id_rsa", "notes.txt"}) {
    const fs::path link = folder_ / (std::string(meant) + ".py");
    fs::create_symlink(meant, link);
    EXPECT_EQ(read(link.string()).why_not, "does not look like source code");
  }
  if (::geteuid() != 0) {
    const std::string unreadable = file("mine.c", "x");
    ASSERT_EQ(::chmod(unreadable.c_str(), 0), 0);
    EXPECT_EQ(read(unreadable).why_not, "cannot be read: Permission denied");
  }
}

TEST_F(Sources, ChangedSinceAreNotRead) {
  const std::string path = file("a.py", "1\n");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  const std::int64_t changed = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  EXPECT_EQ(read_source(path, changed, 100).text, "1\n");
  EXPECT_EQ(read_source(path, changed - 1, 100).why_not, "changed after the run began");
  EXPECT_EQ(read_source(path, 0, 100).text, "1\n") << "the start is not known";
  const timespec far[2] = {{0, UTIME_OMIT}, {13'000'000'000, 0}};  // 2381: as nanoseconds it is before 1970
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), far, 0), 0);
  EXPECT_EQ(read_source(path, changed, 100).why_not, "changed after the run began");
}

TEST_F(Sources, AreTheHottestAsFarAsTheyFit) {
  ProfileBuilder b(1);
  b.data.run.start_utc_ns = later();
  for (int i = 0; i < 6; ++i)
    b.sampled(0,
              b.path({b.native("f" + std::to_string(i), "/a.out",
                               file(std::to_string(i) + ".c", std::string(100, 'a')), 7)}),
              Category::kNative, static_cast<std::uint64_t>(100 + i));
  const Analysis analysis = analyse(b.data);
  PageOptions options;
  options.source_files = 5;
  options.source_bytes = 250;
  std::vector<std::uint32_t> of_row;
  const std::vector<PageSourceFile> sources = read_sources(analysis, options, of_row);
  ASSERT_EQ(sources.size(), 5u);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    EXPECT_EQ(sources[i].file, (folder_ / (std::to_string(5 - i) + ".c")).string());
    EXPECT_EQ(sources[i].text.has_value(), i < 2);
  }
  ASSERT_EQ(of_row.size(), 6u);
  for (std::uint32_t row = 0; row < 6; ++row) EXPECT_EQ(of_row[row], row < 5 ? row : shard::kNone);

  options.source = false;
  for (const PageSourceFile& source : read_sources(analysis, options, of_row)) {
    EXPECT_FALSE(source.text);
    EXPECT_EQ(source.why_not, "left out (--no-source)");
  }
}

}  // namespace
}  // namespace clusterprof::report
