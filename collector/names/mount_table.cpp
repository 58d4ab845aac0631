// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/mount_table.hpp"

#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>

namespace clusterprof::collector {
namespace {

std::string_view next_field(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// Decodes octal escapes: a blank is written "\040".
std::string unescaped(std::string_view text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

bool lies_in(std::string_view path, std::string_view point) {
  if (point == "/") return path.starts_with('/');
  return path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
}

struct Type {
  std::uint64_t magic;
  std::string_view name;
};
// Numbers of statfs(2). ext2 and ext3 have the number of ext4; smb3 is mounted as cifs.
constexpr Type kTypes[] = {
    {0xef53, "ext4"},      {0xef53, "ext3"},        {0xef53, "ext2"},         {0x58465342, "xfs"},
    {0x9123683e, "btrfs"}, {0x01021994, "tmpfs"},   {0x01021994, "devtmpfs"}, {0x6969, "nfs"},
    {0x6969, "nfs4"},      {0x794c7630, "overlay"}, {0x0bd00bd0, "lustre"},   {0x47504653, "gpfs"},
    {0x00c36400, "ceph"},  {0x19830326, "beegfs"},  {0x2fc12fc1, "zfs"},      {0xff534d42, "cifs"},
    {0xfe534d42, "smb3"},  {0xf2f52010, "f2fs"},    {0x01021997, "9p"},       {0x65735546, "fuse"},
    {0x9fa0, "proc"},      {0x62656572, "sysfs"},   {0x73717368, "squashfs"}, {0x958458f6, "hugetlbfs"},
};

// Returns whether the type of a mount agrees with the number from statfs, as far as we know.
bool agree(std::string_view type, std::uint64_t magic) {
  if (magic == 0) return true;
  bool known = false;
  for (const Type& t : kTypes) {
    if (t.magic != magic) continue;
    known = true;
    if (type == t.name || (t.name == "fuse" && type.starts_with("fuse"))) return true;
  }
  // A number that we do not know can be any type whose number we do not know either.
  return !known &&
         std::none_of(std::begin(kTypes), std::end(kTypes), [&](const Type& t) { return t.name == type; });
}

}  // namespace

MountTable::MountTable(std::string_view mountinfo) {
  while (!mountinfo.empty()) {
    const std::size_t end = std::min(mountinfo.find('\n'), mountinfo.size());
    std::string_view line = mountinfo.substr(0, end);
    mountinfo.remove_prefix(std::min(end + 1, mountinfo.size()));
    // 36 35 98:0 /root /point options [tags] - type source options
    (void)next_field(line);
    (void)next_field(line);
    const std::string_view numbers = next_field(line);
    (void)next_field(line);
    const std::string_view point = next_field(line);
    const std::size_t dash = line.find(" - ");
    if (point.empty() || dash == std::string_view::npos) continue;
    line.remove_prefix(dash + 3);
    const std::string_view type = next_field(line);
    unsigned major = 0, minor = 0;
    const char* const stop = numbers.data() + numbers.size();
    const auto [colon, error] = std::from_chars(numbers.data(), stop, major);
    if (type.empty() || error != std::errc() || colon == stop || *colon != ':' ||
        std::from_chars(colon + 1, stop, minor).ec != std::errc())
      continue;
    mounts_.push_back({makedev(major, minor), unescaped(point), unescaped(type)});
  }
}

std::string MountTable::file_system(std::string_view path, std::uint64_t device, std::uint64_t magic) const {
  const Mount* of_device = nullptr;
  const Mount* of_path = nullptr;
  // The mount with the shortest path: the others may be parts that were mounted again.
  const Mount* only_device = nullptr;
  for (const Mount& mount : mounts_) {
    const bool same_device = device != 0 && mount.device == device;
    if (same_device && (only_device == nullptr || mount.point.size() < only_device->point.size()))
      only_device = &mount;
    if (!lies_in(path, mount.point)) continue;
    const auto longer = [&](const Mount* best) {
      return best == nullptr || mount.point.size() >= best->point.size();
    };
    if (same_device && longer(of_device)) of_device = &mount;
    if (longer(of_path)) of_path = &mount;
  }
  const Mount* found = of_device != nullptr ? of_device : only_device;
  if (found == nullptr && of_path != nullptr && (device != 0 || magic != 0) && agree(of_path->type, magic))
    found = of_path;
  if (found != nullptr) return found->type + " " + found->point;
  for (const Type& t : kTypes)
    if (magic != 0 && t.magic == magic) return std::string(t.name);
  return {};
}

}  // namespace clusterprof::collector
