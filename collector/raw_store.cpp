// SPDX-License-Identifier: BSD-3-Clause
#include "collector/raw_store.hpp"

#include <initializer_list>
#include <utility>

namespace clusterprof::collector {
namespace {

void append(std::string& key, std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  key.append(reinterpret_cast<const char*>(&size), sizeof size);
  key.append(text);
}

void append(std::string& key, std::uint32_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append(std::string& key, std::uint64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes) {
    if (text.substr(0, prefix.size()) == prefix) return true;
  }
  return false;
}

}  // namespace

ModuleRole module_role(std::string_view path) {
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  if (starts_with_any(name, {"libclusterprof_mpi"})) return ModuleRole::kMpiWrapper;
  if (starts_with_any(name, {"libclusterprof_"})) return ModuleRole::kAgent;
  // libmpi covers libmpich, libmpifort, libmpi_mpifh, libmpi_usempif08, libmpi_cxx.
  if (starts_with_any(name, {"libmpi", "libopen-rte", "libopen-pal", "libprrte", "mca_", "libmca_", "libucp",
                             "libuct", "libucs", "libucm", "libpmi", "libfabric", "libhcoll", "libpsm",
                             "libfmpich", "libibverbs", "libmlx", "librdmacm", "libsharp"})) {
    return ModuleRole::kMpiLibrary;
  }
  if (starts_with_any(name, {"libpython"})) return ModuleRole::kInterpreter;
  if (starts_with_any(name, {"python"}) && name.find(".so") == std::string_view::npos) {
    return ModuleRole::kInterpreter;
  }
  if (starts_with_any(name,
                      {"libc.so", "libc-", "libm.so", "libm-", "libmvec", "libpthread", "libdl.so", "libdl-",
                       "librt.so", "librt-", "ld-", "ld.so", "[vdso]", "linux-vdso", "linux-gate"})) {
    return ModuleRole::kSystem;
  }
  return ModuleRole::kProgram;
}

std::uint32_t RawStore::module(std::string_view path, const std::vector<std::uint8_t>& build_id) {
  std::string key(path);
  key.push_back('\0');
  key.append(build_id.begin(), build_id.end());
  const auto [found, added] =
      modules_.try_emplace(std::move(key), static_cast<std::uint32_t>(tables_.modules.size()));
  if (added) {
    tables_.modules.push_back(
        std::make_shared<const ModuleInfo>(ModuleInfo{std::string(path), build_id, module_role(path)}));
  }
  return found->second;
}

std::uint32_t RawStore::code(CodeInfo info) {
  std::string key;
  append(key, info.file);
  append(key, info.name);
  append(key, info.first_line);
  append(key, info.python_version);
  key.append(info.line_table.begin(), info.line_table.end());
  const auto [found, added] =
      codes_.try_emplace(std::move(key), static_cast<std::uint32_t>(tables_.codes.size()));
  if (added) tables_.codes.push_back(std::make_shared<const CodeInfo>(std::move(info)));
  return found->second;
}

std::uint32_t RawStore::name(const std::string& name) {
  const auto [found, added] = names_.try_emplace(name, static_cast<std::uint32_t>(tables_.names.size()));
  if (added) tables_.names.push_back(std::make_shared<const std::string>(name));
  return found->second;
}

std::uint32_t RawStore::frame(const RawFrame& frame) {
  const std::uint64_t kind = (static_cast<std::uint64_t>(frame.kind) << 32) | frame.a;
  for (std::uint64_t hash = frame.b ^ mix(kind);; ++hash) {
    const std::uint32_t found = frames_.find(hash);
    if (found == FlatIndex::kAbsent) {
      const auto index = static_cast<std::uint32_t>(tables_.frames.size());
      tables_.frames.push_back(frame);
      frames_.insert(hash, index);
      return index;
    }
    if (tables_.frames[found] == frame) return found;
  }
}

std::uint32_t RawStore::node(std::uint32_t parent, std::uint32_t frame) {
  const std::uint64_t key = (static_cast<std::uint64_t>(parent) << 32) | frame;
  if (const std::uint32_t found = nodes_.find(key); found != FlatIndex::kAbsent) return found;
  const auto index = static_cast<std::uint32_t>(tables_.nodes.size());
  tables_.nodes.push_back(RawNode{parent, frame});
  nodes_.insert(key, index);
  return index;
}

std::uint32_t RawStore::counter(std::string_view name) {
  for (std::size_t i = 0; i < tables_.counters.size(); ++i) {
    if (tables_.counters[i] == name) return static_cast<std::uint32_t>(i);
  }
  tables_.counters.emplace_back(name);
  return static_cast<std::uint32_t>(tables_.counters.size() - 1);
}

std::uint32_t RawStore::file(const FileInfo& file) {
  if (file.path.empty() && file.device == 0 && file.file_system == 0) return 0;
  std::string key(file.path);
  key.push_back('\0');
  append(key, file.device);
  append(key, file.file_system);
  if (const auto found = files_.find(key); found != files_.end()) return found->second;
  if (tables_.files.size() >= kMostFiles) return 0;
  const auto index = static_cast<std::uint32_t>(tables_.files.size());
  tables_.files.push_back(std::make_shared<const FileInfo>(file));
  files_.emplace(std::move(key), index);
  return index;
}

std::uint32_t RawStore::add_pending(shard::FrameKind kind) {
  tables_.pending.push_back(PendingFrame{kind, false, {}});
  return frame(RawFrame{RawKind::kPending, static_cast<std::uint32_t>(tables_.pending.size() - 1), 0});
}

void RawStore::resolve_pending(std::uint32_t index, const RawFrame& resolution) {
  tables_.pending[index].resolved = true;
  tables_.pending[index].resolution = resolution;
}

}  // namespace clusterprof::collector
