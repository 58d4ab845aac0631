// SPDX-License-Identifier: BSD-3-Clause
// One helper thread per process. It finds threads that do not run, and does regular work that must not be
// done in signal handlers.
#pragma once

namespace clusterprof::agent {

void start_watcher() noexcept;

// Gives the calling thread an empty table of descriptors of its own. False: the kernel does not let it.
bool leave_descriptor_table() noexcept;

// While an object lives there is no watcher: for what the program may do, or see, only while it has a single
// thread. In a child of vfork, which has our memory but no watcher, it does nothing.
class WatcherStopped {
 public:
  WatcherStopped() noexcept;
  ~WatcherStopped();
  WatcherStopped(const WatcherStopped&) = delete;
  WatcherStopped& operator=(const WatcherStopped&) = delete;

 private:
  bool locked_ = false, comes_back_ = false;
};

// Permanent. The main thread ends, and libc lets the last of the other threads end the process. The watcher
// must not be that last thread.
void stop_watcher_for_good() noexcept;
// Takes that back, for a process that is attached to again.
void allow_watcher() noexcept;

// While the watcher is paused, no tick of it is in progress. Waits for a bounded time. False: the watcher is
// stuck waiting for a lock of the loader.
bool pause_watcher() noexcept;
void resume_watcher() noexcept;
void reset_watcher_after_fork() noexcept;

}  // namespace clusterprof::agent
