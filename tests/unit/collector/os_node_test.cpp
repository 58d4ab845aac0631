// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/os_node.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace clusterprof::collector {
namespace {

// Another machine's /proc and /sys.
class OsNode : public testing::Test {
 protected:
  OsNode() {
    std::string name = (std::filesystem::temp_directory_path() / "os_node_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    root_ = name;
  }
  ~OsNode() override {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void put_machine() {
    put("/sys/devices/system/cpu/online", "0-3,6-7\n");
    put("/sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n");
    put("/sys/devices/system/cpu/cpu0/cache/index2/size", "1024K\n");
    put("/sys/devices/system/cpu/cpu0/cache/index3/size", "32M\n");
    put("/sys/devices/system/node/online", "0,2\n");
    put("/sys/devices/system/node/node0/cpulist", "0-3\n");
    put("/sys/devices/system/node/node2/cpulist", "6-7\n");
    put("/proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Abacus 9000 @ 1 Hz\nprocessor\t: 1\nmodel name\t: other\n");
    put_usage(0);
  }
  void put_usage(std::uint64_t more) {
    const auto n = [&](std::uint64_t value) { return std::to_string(value + more); };
    put("/proc/meminfo",
        "MemTotal:       1000 kB\nMemFree:        10 kB\nMemAvailable:   " + n(400) + " kB\n");
    put("/proc/stat", "cpu  " + n(10) + " 20 30 5000 700 1 2 3 0 0\ncpu0 9 9 9 9 9 9 9 9 0 0\n");
    put("/proc/net/dev",
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"
        "    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n"
        "  eth0:" +
            n(1000) +
            " 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n"
            "  ib0: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\n"
            " bond0: 1010 1 0 0 0 0 0 0 2020 1 0 0 0 0 0 0\n");
    put("/proc/diskstats", "   8       0 sda 10 0 " + n(100) +
                               " 5 20 0 200 5 0 10 20\n"
                               "   8       1 sda1 10 0 100 5 20 0 200 5 0 10 20\n"
                               " 253       0 dm-0 10 0 100 5 20 0 200 5 0 10 20\n"
                               " 259       0 nvme0n1 1 0 8 5 2 0 16 5 0 10 20 0 0 0 0 0 0\n"
                               " 259       1 nvme0n1p1 1 0 8 5 2 0 16 5 0 10 20\n");
  }
  std::string root_;
};

TEST_F(OsNode, ReadsFactsOfTheMachine) {
  put_machine();
  const Machine machine(root_);
  const NodeFacts& facts = machine.facts();
  EXPECT_EQ(facts.cpus, 6u);
  EXPECT_EQ(facts.numa_nodes, 2u);
  EXPECT_EQ(facts.memory_bytes, 1000u * 1024);
  EXPECT_EQ(facts.cache_bytes, 32u << 20);
  EXPECT_EQ(facts.cpu_model, "Abacus 9000 @ 1 Hz");
  EXPECT_EQ(machine.numa_nodes_of({1, 2}), "0");
  EXPECT_EQ(machine.numa_nodes_of({7}), "2");
  EXPECT_EQ(machine.numa_nodes_of({0, 6}), "0,2");
  EXPECT_EQ(machine.numa_nodes_of({100}), "");
}

TEST_F(OsNode, ReadsUsageOfTheMachine) {
  put_machine();
  for (const char* name : {"eth0", "ib0"}) put(std::string("/sys/class/net/") + name + "/device", "");
  Machine machine(root_);
  const auto tick_ns = static_cast<std::uint64_t>(1'000'000'000 / sysconf(_SC_CLK_TCK));
  NodeUsage usage = machine.usage();
  EXPECT_EQ(usage.cpu_busy_ns, (10u + 20 + 30 + 1 + 2 + 3) * tick_ns);
  EXPECT_EQ(usage.memory_used_bytes, 600u * 1024);
  EXPECT_EQ(usage.network_received_bytes, 1010u);  // not once more as the bond's
  EXPECT_EQ(usage.network_sent_bytes, 2020u);
  EXPECT_EQ(usage.disk_read_bytes, (100u + 8) * 512);
  EXPECT_EQ(usage.disk_written_bytes, (200u + 16) * 512);
  put_usage(7);
  usage = machine.usage();
  EXPECT_EQ(usage.cpu_busy_ns, 73 * tick_ns);
  EXPECT_EQ(usage.memory_used_bytes, 593u * 1024);
  EXPECT_EQ(usage.network_received_bytes, 1017u);
  EXPECT_EQ(usage.disk_read_bytes, (107u + 8) * 512);
}

TEST_F(OsNode, AddsUpVirtualInterfacesOfAContainer) {
  put_machine();
  EXPECT_EQ(Machine(root_).usage().network_received_bytes, 1000u + 10 + 1010);
}

TEST_F(OsNode, LeavesHiddenFilesUnknown) {
  Machine machine(root_);
  EXPECT_EQ(machine.facts().cpus, 0u);
  EXPECT_EQ(machine.facts().numa_nodes, 0u);
  EXPECT_EQ(machine.facts().cache_bytes, 0u);
  EXPECT_EQ(machine.facts().cpu_model, "");
  const NodeUsage usage = machine.usage();
  EXPECT_EQ(usage.cpu_busy_ns, 0u);
  EXPECT_EQ(usage.memory_used_bytes, 0u);
  EXPECT_EQ(machine.look_at(getpid()).rss_bytes, 0u);
}

TEST_F(OsNode, LeavesDamagedFilesUnknown) {
  put_machine();
  for (const std::string text :
       {"", "\n\n", ":", "cpu", "cpu x y\n", "a:b:c: 1 2\n", "   8 0 sda", "MemTotal:\n",
        "99999999999999999999999 1 2", "0-", "5-2", "0-4000000000", ",,,"}) {
    for (const char* path :
         {"/proc/stat", "/proc/meminfo", "/proc/net/dev", "/proc/diskstats", "/proc/cpuinfo",
          "/sys/devices/system/cpu/online", "/sys/devices/system/node/online"})
      put(path, text);
    Machine machine(root_);
    EXPECT_LE(machine.facts().cpus, 2u) << text;
    EXPECT_EQ(machine.usage().disk_read_bytes, 0u) << text;
  }
}

TEST(OsNodeLists, RangesOfProcessorsRoundTrip) {
  EXPECT_EQ(number_list({}), "");
  EXPECT_EQ(number_list({3}), "3");
  EXPECT_EQ(number_list({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(parse_number_list("0-2,5,7-8\n"), (std::vector<std::uint32_t>{0, 1, 2, 5, 7, 8}));
  EXPECT_EQ(parse_number_list("4,x"), (std::vector<std::uint32_t>{4}));
}

TEST(OsNodeDisks, CountsWholeDisksAndNoPartitions) {
  for (const char* name :
       {"sda", "sdaa", "vda", "xvdb", "hdc", "nvme0n1", "nvme12n3", "mmcblk0", "pmem1", "dasda"})
    EXPECT_TRUE(is_whole_disk(name)) << name;
  for (const char* name : {"sda1", "vda15", "nvme0n1p2", "nvme0c0n1", "mmcblk0p1", "dm-0", "md127", "loop0",
                           "zram0", "sr0", "ram1", "sd", "nvme", ""})
    EXPECT_FALSE(is_whole_disk(name)) << name;
}

TEST(OsNodeProcess, LooksAtThisProcess) {
  Machine machine;
  EXPECT_GT(machine.facts().cpus, 0u);
  EXPECT_GT(machine.facts().memory_bytes, 1u << 20);
  const std::vector<char> touched(64u << 20, 1);
  const ProcessLook look = machine.look_at(getpid());
  EXPECT_GE(look.rss_bytes, touched.size());
  EXPECT_LT(look.rss_bytes, machine.facts().memory_bytes);
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<std::uint32_t> cpus;
  for (std::uint32_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) cpus.push_back(i);
  EXPECT_EQ(parse_number_list(look.affinity), cpus);
  EXPECT_EQ(machine.look_at(-1).rss_bytes, 0u);
}

}  // namespace
}  // namespace clusterprof::collector
