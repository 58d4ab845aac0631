// SPDX-License-Identifier: BSD-3-Clause
// The Python files of libraries through which threads and processes pass data to each other.
#pragma once

#include <string_view>

namespace clusterprof::report {

enum class ChannelFile : unsigned char {
  kNone,
  kThreadQueue,   // queue
  kProcessQueue,  // multiprocessing.Queue
  kConnection,    // multiprocessing's pipes
  kDataLoader,    // PyTorch's; with pinned memory, a thread passes on what processes have made
};

constexpr ChannelFile channel_file(std::string_view file) {
  if (file.ends_with("/queue.py")) return ChannelFile::kThreadQueue;
  if (file.ends_with("/multiprocessing/queues.py")) return ChannelFile::kProcessQueue;
  if (file.ends_with("/multiprocessing/connection.py")) return ChannelFile::kConnection;
  if (file.ends_with("/torch/utils/data/dataloader.py")) return ChannelFile::kDataLoader;
  return ChannelFile::kNone;
}

constexpr bool is_between_processes(ChannelFile file) {
  return file != ChannelFile::kNone && file != ChannelFile::kThreadQueue;
}

}  // namespace clusterprof::report
