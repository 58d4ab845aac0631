// SPDX-License-Identifier: BSD-3-Clause
// One helper thread per process that finds threads which do not run, and does regular work that must not be
// done in handlers.
#pragma once

namespace clusterprof::agent {

void start_watcher() noexcept;

// While one lives there is no watcher: for what the program may do, or see, only as long as it has one
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

// For the rest of the process: its main thread ends, and libc lets the last thread of the others end the
// process. The watcher must not be that one.
void stop_watcher_for_good() noexcept;

// No tick of the watcher is in progress while this is held. Waits a bounded time: false means that
// the watcher is stuck behind a lock of the loader.
bool pause_watcher() noexcept;
void resume_watcher() noexcept;
void reset_watcher_after_fork() noexcept;

}  // namespace clusterprof::agent
