// SPDX-License-Identifier: BSD-3-Clause
#include "collector/loop/page_watch.hpp"

#include <boost/asio/post.hpp>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace clusterprof::collector {

struct PageWatch::Shared {
  struct Look {
    std::uint64_t process;
    pid_t pid;
    std::string numa_nodes;
  };
  using Tell =
      std::function<void(std::uint64_t process, std::optional<ProcessMemory> memory, Clock::duration took)>;

  explicit Shared(Read read_memory) : read(std::move(read_memory)) {}

  const Read read;
  std::mutex mutex;
  std::condition_variable wake;
  bool is_closed = false;
  std::optional<Look> wanted;

  // On a thread of its own. `tell` gives the result to the event loop; it is called with the mutex locked.
  static void work(const std::shared_ptr<Shared>& shared, const Tell& tell) {
    std::unique_lock lock(shared->mutex);
    for (;;) {
      shared->wake.wait(lock, [&] { return shared->is_closed || shared->wanted; });
      if (shared->is_closed) return;
      const Look look = std::move(*shared->wanted);
      shared->wanted.reset();
      lock.unlock();
      const Clock::time_point begin = Clock::now();
      std::optional<ProcessMemory> memory;
      try {
        memory = shared->read(look.pid, look.numa_nodes);
      } catch (const std::exception&) {  // no memory: the next look tries again
      }
      const Clock::duration took = Clock::now() - begin;
      lock.lock();
      if (shared->is_closed) return;
      try {
        tell(look.process, memory, took);
      } catch (const std::exception&) {  // then there is no further look
      }
    }
  }
};

PageWatch::PageWatch(boost::asio::io_context& io, Read read, Done done)
    : io_(io), done_(std::move(done)), shared_(std::make_shared<Shared>(std::move(read))) {}

PageWatch::~PageWatch() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_closed = true;
  shared_->wake.notify_all();
}

bool PageWatch::look(std::uint64_t process, pid_t pid, std::string numa_nodes) {
  const std::lock_guard lock(shared_->mutex);
  try {
    if (!has_thread_) {
      const Shared::Tell tell = [this](std::uint64_t of, std::optional<ProcessMemory> memory,
                                       Clock::duration took) {
        boost::asio::post(io_, [this, of, memory, took] {
          is_busy_ = false;
          done_(of, memory, took);
        });
      };
      std::thread([shared = shared_, tell] { Shared::work(shared, tell); }).detach();
      has_thread_ = true;
    }
  } catch (const std::exception&) {
    return false;
  }
  shared_->wanted = Shared::Look{process, pid, std::move(numa_nodes)};
  is_busy_ = true;
  shared_->wake.notify_all();
  return true;
}

}  // namespace clusterprof::collector
