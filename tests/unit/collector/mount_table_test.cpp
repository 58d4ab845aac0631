// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/mount_table.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <fstream>
#include <sstream>
#include <string>

namespace clusterprof::collector {
namespace {

constexpr const char* kMountInfo =
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "23 22 0:22 / /proc rw - proc proc rw\n"
    "30 22 8:2 / /home rw,relatime master:1 shared:3 - xfs /dev/sda2 rw\n"
    "31 30 0:50 / /home/u/my\\040data rw - nfs4 server:/data rw\n"
    "32 22 0:60 / /data rw - btrfs /dev/sdb rw\n"
    "33 22 8:1 /srv /mnt/srv rw - ext4 /dev/sda1 rw\n"
    "34 22 0:70 / /scratch rw - lustre 10.0.0.1@tcp:/scratch rw\n"
    "35 22 0:71 / /fuse rw - fuse.sshfs host:/ rw\n"
    "36 22 0:72 / /home rw - tmpfs tmpfs rw\n"  // over the other one
    "nonsense\n"
    "37 22 x:y / /bad rw - ext4 /dev/x rw\n"
    "38 22 8:9 / /bad\n";

TEST(MountTable, ChoosesTheLongestMountPointOfTheDevice) {
  const MountTable table(kMountInfo);
  EXPECT_EQ(table.file_system("/etc/passwd", makedev(8, 1), 0xef53), "ext4 /");
  EXPECT_EQ(table.file_system("/mnt/srv/x", makedev(8, 1), 0xef53), "ext4 /mnt/srv");
  EXPECT_EQ(table.file_system("/mnt/srvx", makedev(8, 1), 0xef53), "ext4 /");
  EXPECT_EQ(table.file_system("/scratch", makedev(0, 70), 0), "lustre /scratch");
  EXPECT_EQ(table.file_system("/home/u/my data/a", makedev(0, 50), 0), "nfs4 /home/u/my data");
  // The same mount point twice: the device tells.
  EXPECT_EQ(table.file_system("/home/a", makedev(8, 2), 0), "xfs /home");
  EXPECT_EQ(table.file_system("/home/a", makedev(0, 72), 0), "tmpfs /home");
}

TEST(MountTable, UsesThePathForAnUnknownDeviceIfTheTypeAgrees) {
  const MountTable table(kMountInfo);
  EXPECT_EQ(table.file_system("/data/a", makedev(0, 99), 0x9123683e), "btrfs /data");
  EXPECT_EQ(table.file_system("/fuse/a", makedev(0, 98), 0x65735546), "fuse.sshfs /fuse");
  // The collector does not see that mount: the path alone would say something wrong.
  EXPECT_EQ(table.file_system("/data/a", makedev(0, 99), 0x6969), "nfs");
  EXPECT_EQ(table.file_system("/data/a", makedev(0, 99), 0x12345), "");
}

TEST(MountTable, UsesTheDeviceIfThePathIsUnknown) {
  const MountTable table(kMountInfo);
  EXPECT_EQ(table.file_system("", makedev(8, 1), 0), "ext4 /");
  EXPECT_EQ(table.file_system("", 0, 0), "");
  EXPECT_EQ(table.file_system("relative", 0, 0), "");
  // Mounted elsewhere for the process that told.
  EXPECT_EQ(table.file_system("/inside/a", makedev(0, 70), 0), "lustre /scratch");
}

TEST(MountTable, NamesTheTypeAloneWithoutMounts) {
  const MountTable none;
  EXPECT_EQ(none.file_system("/etc/passwd", 5, 0xef53), "ext4");
  EXPECT_EQ(none.file_system("/etc/passwd", 5, 0), "");
  EXPECT_EQ(MountTable("\\ - \n   -  \n - - - - - - -").file_system("/", 0, 0), "");
}

TEST(MountTable, FindsProcOnThisMachine) {
  std::ifstream file("/proc/self/mountinfo");
  std::stringstream text;
  text << file.rdbuf();
  struct stat status {};
  struct statfs what {};
  ASSERT_EQ(stat("/proc/self/status", &status), 0);
  ASSERT_EQ(statfs("/proc/self/status", &what), 0);
  EXPECT_EQ(MountTable(text.str())
                .file_system("/proc/self/status", status.st_dev, static_cast<std::uint64_t>(what.f_type)),
            "proc /proc");
}

}  // namespace
}  // namespace clusterprof::collector
