// SPDX-License-Identifier: BSD-3-Clause
#include "collector/shard/shard_file.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "formats/shard/shard_writer.hpp"

namespace clusterprof::collector {
namespace {

std::uint64_t ns(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_usec) * 1000;
}

// The last shard has all MPI events, perhaps millions. Checkpoints have few.
constexpr std::size_t kMostRowsInMemory = 200'000;

std::size_t rows_of(const shard::ShardData& data) {
  return data.mpi_events.size() + data.event_gaps.size() + data.values.size() + data.path_counters.size();
}

// The libraries that read symbols and write the file do not survive a failed allocation.
bool has_memory_to_write() {
  constexpr std::size_t kBytes = 32 << 20;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory != MAP_FAILED && munmap(memory, kBytes) == 0;
}

}  // namespace

ShardFile::ShardFile(const ShardPlace& place, std::shared_ptr<SharedShardBuilder> builder)
    : name_(place), copies_(name_.path(), name_.claim(), name_.take_file()), builder_(std::move(builder)) {
  if (!place.local) return;
  std::optional<LocalCheckpoints> file =
      LocalCheckpoints::create(name_.claim(), name_.path(), places_for_checkpoints());
  if (!file) {
    lacks_local_place_ = true;
    return;
  }
  shard::TwoCopies copies(file->path(), file->unnamed(), file->take_file(), false);
  // For the report, if nobody brings the shard here.
  std::string where = place.node + ":" + file->path().string() + "\n";
  name_.describe(where);
  local_.emplace(Local{std::move(*file), std::move(copies), std::move(where)});
}

// The launcher takes what is only on the node to the run directory, to the place that the claim keeps.
ShardFile::~ShardFile() {
  if (!local_) return;
  if (local_->copies.has_copy())
    name_.keep();
  else
    local_->file.remove();
}

Result<void> ShardFile::write(const NodeSnapshot& snapshot, Which which,
                              const ShardBuilder::MayReadLines& may_read_lines) {
  Result<void> written = try_to_write(snapshot, which, may_read_lines);
  if (!written && which == Which::kLast) written = try_to_write(snapshot, which, may_read_lines);
  if (written && copies_.has_copy()) name_.became_shard();
  if (written && which == Which::kLast && local_) {
    local_->file.remove();
    local_.reset();
  }
  return written;
}

Result<void> ShardFile::try_to_write(const NodeSnapshot& snapshot, Which which,
                                     const ShardBuilder::MayReadLines& may_read_lines) {
  try {
    if (!has_memory_to_write()) throw std::bad_alloc();
    shard::ShardData data;
    {
      const std::lock_guard lock(builder_->mutex);
      data = builder_->builder.build(snapshot, may_read_lines);
    }
    data.settings = settings_.get(snapshot.settings);
    rusage own{};
    getrusage(RUSAGE_SELF, &own);
    data.nodes[0].collector_cpu_ns = ns(own.ru_utime) + ns(own.ru_stime);
    data.nodes[0].collector_max_rss_bytes = static_cast<std::uint64_t>(own.ru_maxrss) * 1024;
    if (which == Which::kLast) {
      data.nodes[0].as_of_utc_ns = 0;
      data.nodes[0].next_within_ns = 0;
    } else {
      data.nodes[0].collector = own_mark_;
    }
    if (lacks_local_place_) {
      data.run.notes.push_back(note_of_node(shard::NoteCode::kNoLocalCheckpoints, data.nodes[0].name));
      unite(data.run.notes);
    }
    if (which == Which::kLast && rows_of(data) > kMostRowsInMemory) return write_last(data);
    const auto image = shard::shard_image(data, name_.path());
    if (!image) return image.error();
    return write_image(image.value(), which);
  } catch (const std::exception& error) {
    return Error{error.what()};
  }
}

Result<void> ShardFile::write_image(std::span<const std::byte> image, Which which) {
  // Without room on the node, the run directory is the better place.
  if (which == Which::kCheckpoint && local_ && local_->copies.write(image, false)) return {};
  Result<void> written = copies_.write(image, which == Which::kLast);
  // Part of the shard may stand there now.
  if (!written && local_ && !copies_.has_copy()) name_.describe(local_->where);
  return written;
}

// As a file of its own, which is never in memory as a whole.
Result<void> ShardFile::write_last(const shard::ShardData& data) {
  copies_.forget();
  const Result<void> written = shard::write_shard(data, name_.path());
  if (written) name_.give_up();
  return written;
}

}  // namespace clusterprof::collector
