// SPDX-License-Identifier: BSD-3-Clause
// One table: name and category of each system call, by number. Called when stacks get a category, by the
// thread that polls, and when they get names, by the thread that builds a shard.
#include "collector/names/syscalls.hpp"

#include <sys/syscall.h>

#include <cstddef>
#include <iterator>

namespace clusterprof::collector {
namespace {

struct Syscall {
  const char* name = nullptr;
  shard::Category category = shard::Category::kSystem;
};

constexpr auto kIo = shard::Category::kIo;
constexpr auto kIdle = shard::Category::kIdle;

// By number; the numbers of a published architecture never change.
constexpr Syscall kSyscalls[] = {
    {"read", kIo},                // 0
    {"write", kIo},               // 1
    {"open", kIo},                // 2
    {"close", kIo},               // 3
    {"stat", kIo},                // 4
    {"fstat", kIo},               // 5
    {"lstat", kIo},               // 6
    {"poll", kIdle},              // 7
    {"lseek", kIo},               // 8
    {"mmap"},                     // 9
    {"mprotect"},                 // 10
    {"munmap"},                   // 11
    {"brk"},                      // 12
    {"rt_sigaction"},             // 13
    {"rt_sigprocmask"},           // 14
    {"rt_sigreturn"},             // 15
    {"ioctl"},                    // 16
    {"pread64", kIo},             // 17
    {"pwrite64", kIo},            // 18
    {"readv", kIo},               // 19
    {"writev", kIo},              // 20
    {"access", kIo},              // 21
    {"pipe"},                     // 22
    {"select", kIdle},            // 23
    {"sched_yield"},              // 24
    {"mremap"},                   // 25
    {"msync", kIo},               // 26
    {"mincore"},                  // 27
    {"madvise"},                  // 28
    {"shmget"},                   // 29
    {"shmat"},                    // 30
    {"shmctl"},                   // 31
    {"dup"},                      // 32
    {"dup2"},                     // 33
    {"pause", kIdle},             // 34
    {"nanosleep", kIdle},         // 35
    {"getitimer"},                // 36
    {"alarm"},                    // 37
    {"setitimer"},                // 38
    {"getpid"},                   // 39
    {"sendfile", kIo},            // 40
    {"socket", kIo},              // 41
    {"connect", kIo},             // 42
    {"accept", kIo},              // 43
    {"sendto", kIo},              // 44
    {"recvfrom", kIo},            // 45
    {"sendmsg", kIo},             // 46
    {"recvmsg", kIo},             // 47
    {"shutdown", kIo},            // 48
    {"bind", kIo},                // 49
    {"listen", kIo},              // 50
    {"getsockname"},              // 51
    {"getpeername"},              // 52
    {"socketpair", kIo},          // 53
    {"setsockopt"},               // 54
    {"getsockopt"},               // 55
    {"clone"},                    // 56
    {"fork"},                     // 57
    {"vfork"},                    // 58
    {"execve"},                   // 59
    {"exit"},                     // 60
    {"wait4", kIdle},             // 61
    {"kill"},                     // 62
    {"uname"},                    // 63
    {"semget"},                   // 64
    {"semop", kIdle},             // 65
    {"semctl"},                   // 66
    {"shmdt"},                    // 67
    {"msgget"},                   // 68
    {"msgsnd", kIdle},            // 69
    {"msgrcv", kIdle},            // 70
    {"msgctl"},                   // 71
    {"fcntl"},                    // 72
    {"flock", kIo},               // 73
    {"fsync", kIo},               // 74
    {"fdatasync", kIo},           // 75
    {"truncate", kIo},            // 76
    {"ftruncate", kIo},           // 77
    {"getdents", kIo},            // 78
    {"getcwd"},                   // 79
    {"chdir"},                    // 80
    {"fchdir"},                   // 81
    {"rename", kIo},              // 82
    {"mkdir", kIo},               // 83
    {"rmdir", kIo},               // 84
    {"creat", kIo},               // 85
    {"link", kIo},                // 86
    {"unlink", kIo},              // 87
    {"symlink", kIo},             // 88
    {"readlink", kIo},            // 89
    {"chmod"},                    // 90
    {"fchmod"},                   // 91
    {"chown"},                    // 92
    {"fchown"},                   // 93
    {"lchown"},                   // 94
    {"umask"},                    // 95
    {"gettimeofday"},             // 96
    {"getrlimit"},                // 97
    {"getrusage"},                // 98
    {"sysinfo"},                  // 99
    {"times"},                    // 100
    {"ptrace"},                   // 101
    {"getuid"},                   // 102
    {"syslog"},                   // 103
    {"getgid"},                   // 104
    {"setuid"},                   // 105
    {"setgid"},                   // 106
    {"geteuid"},                  // 107
    {"getegid"},                  // 108
    {"setpgid"},                  // 109
    {"getppid"},                  // 110
    {"getpgrp"},                  // 111
    {"setsid"},                   // 112
    {"setreuid"},                 // 113
    {"setregid"},                 // 114
    {"getgroups"},                // 115
    {"setgroups"},                // 116
    {"setresuid"},                // 117
    {"getresuid"},                // 118
    {"setresgid"},                // 119
    {"getresgid"},                // 120
    {"getpgid"},                  // 121
    {"setfsuid"},                 // 122
    {"setfsgid"},                 // 123
    {"getsid"},                   // 124
    {"capget"},                   // 125
    {"capset"},                   // 126
    {"rt_sigpending"},            // 127
    {"rt_sigtimedwait", kIdle},   // 128
    {"rt_sigqueueinfo"},          // 129
    {"rt_sigsuspend", kIdle},     // 130
    {"sigaltstack"},              // 131
    {"utime"},                    // 132
    {"mknod"},                    // 133
    {"uselib"},                   // 134
    {"personality"},              // 135
    {"ustat"},                    // 136
    {"statfs", kIo},              // 137
    {"fstatfs", kIo},             // 138
    {"sysfs"},                    // 139
    {"getpriority"},              // 140
    {"setpriority"},              // 141
    {"sched_setparam"},           // 142
    {"sched_getparam"},           // 143
    {"sched_setscheduler"},       // 144
    {"sched_getscheduler"},       // 145
    {"sched_get_priority_max"},   // 146
    {"sched_get_priority_min"},   // 147
    {"sched_rr_get_interval"},    // 148
    {"mlock"},                    // 149
    {"munlock"},                  // 150
    {"mlockall"},                 // 151
    {"munlockall"},               // 152
    {"vhangup"},                  // 153
    {"modify_ldt"},               // 154
    {"pivot_root"},               // 155
    {"_sysctl"},                  // 156
    {"prctl"},                    // 157
    {"arch_prctl"},               // 158
    {"adjtimex"},                 // 159
    {"setrlimit"},                // 160
    {"chroot"},                   // 161
    {"sync", kIo},                // 162
    {"acct"},                     // 163
    {"settimeofday"},             // 164
    {"mount"},                    // 165
    {"umount2"},                  // 166
    {"swapon"},                   // 167
    {"swapoff"},                  // 168
    {"reboot"},                   // 169
    {"sethostname"},              // 170
    {"setdomainname"},            // 171
    {"iopl"},                     // 172
    {"ioperm"},                   // 173
    {"create_module"},            // 174
    {"init_module"},              // 175
    {"delete_module"},            // 176
    {"get_kernel_syms"},          // 177
    {"query_module"},             // 178
    {"quotactl"},                 // 179
    {"nfsservctl"},               // 180
    {"getpmsg"},                  // 181
    {"putpmsg"},                  // 182
    {"afs_syscall"},              // 183
    {"tuxcall"},                  // 184
    {"security"},                 // 185
    {"gettid"},                   // 186
    {"readahead", kIo},           // 187
    {"setxattr"},                 // 188
    {"lsetxattr"},                // 189
    {"fsetxattr"},                // 190
    {"getxattr"},                 // 191
    {"lgetxattr"},                // 192
    {"fgetxattr"},                // 193
    {"listxattr"},                // 194
    {"llistxattr"},               // 195
    {"flistxattr"},               // 196
    {"removexattr"},              // 197
    {"lremovexattr"},             // 198
    {"fremovexattr"},             // 199
    {"tkill"},                    // 200
    {"time"},                     // 201
    {"futex", kIdle},             // 202
    {"sched_setaffinity"},        // 203
    {"sched_getaffinity"},        // 204
    {"set_thread_area"},          // 205
    {"io_setup"},                 // 206
    {"io_destroy"},               // 207
    {"io_getevents", kIo},        // 208
    {"io_submit", kIo},           // 209
    {"io_cancel"},                // 210
    {"get_thread_area"},          // 211
    {"lookup_dcookie"},           // 212
    {"epoll_create"},             // 213
    {"epoll_ctl_old"},            // 214
    {"epoll_wait_old"},           // 215
    {"remap_file_pages"},         // 216
    {"getdents64", kIo},          // 217
    {"set_tid_address"},          // 218
    {"restart_syscall"},          // 219
    {"semtimedop", kIdle},        // 220
    {"fadvise64", kIo},           // 221
    {"timer_create"},             // 222
    {"timer_settime"},            // 223
    {"timer_gettime"},            // 224
    {"timer_getoverrun"},         // 225
    {"timer_delete"},             // 226
    {"clock_settime"},            // 227
    {"clock_gettime"},            // 228
    {"clock_getres"},             // 229
    {"clock_nanosleep", kIdle},   // 230
    {"exit_group"},               // 231
    {"epoll_wait", kIdle},        // 232
    {"epoll_ctl"},                // 233
    {"tgkill"},                   // 234
    {"utimes"},                   // 235
    {"vserver"},                  // 236
    {"mbind"},                    // 237
    {"set_mempolicy"},            // 238
    {"get_mempolicy"},            // 239
    {"mq_open"},                  // 240
    {"mq_unlink"},                // 241
    {"mq_timedsend", kIdle},      // 242
    {"mq_timedreceive", kIdle},   // 243
    {"mq_notify"},                // 244
    {"mq_getsetattr"},            // 245
    {"kexec_load"},               // 246
    {"waitid", kIdle},            // 247
    {"add_key"},                  // 248
    {"request_key"},              // 249
    {"keyctl"},                   // 250
    {"ioprio_set"},               // 251
    {"ioprio_get"},               // 252
    {"inotify_init"},             // 253
    {"inotify_add_watch"},        // 254
    {"inotify_rm_watch"},         // 255
    {"migrate_pages"},            // 256
    {"openat", kIo},              // 257
    {"mkdirat", kIo},             // 258
    {"mknodat"},                  // 259
    {"fchownat"},                 // 260
    {"futimesat"},                // 261
    {"newfstatat", kIo},          // 262
    {"unlinkat", kIo},            // 263
    {"renameat", kIo},            // 264
    {"linkat", kIo},              // 265
    {"symlinkat", kIo},           // 266
    {"readlinkat", kIo},          // 267
    {"fchmodat"},                 // 268
    {"faccessat", kIo},           // 269
    {"pselect6", kIdle},          // 270
    {"ppoll", kIdle},             // 271
    {"unshare"},                  // 272
    {"set_robust_list"},          // 273
    {"get_robust_list"},          // 274
    {"splice", kIo},              // 275
    {"tee", kIo},                 // 276
    {"sync_file_range", kIo},     // 277
    {"vmsplice", kIo},            // 278
    {"move_pages"},               // 279
    {"utimensat"},                // 280
    {"epoll_pwait", kIdle},       // 281
    {"signalfd"},                 // 282
    {"timerfd_create"},           // 283
    {"eventfd"},                  // 284
    {"fallocate", kIo},           // 285
    {"timerfd_settime"},          // 286
    {"timerfd_gettime"},          // 287
    {"accept4", kIo},             // 288
    {"signalfd4"},                // 289
    {"eventfd2"},                 // 290
    {"epoll_create1"},            // 291
    {"dup3"},                     // 292
    {"pipe2"},                    // 293
    {"inotify_init1"},            // 294
    {"preadv", kIo},              // 295
    {"pwritev", kIo},             // 296
    {"rt_tgsigqueueinfo"},        // 297
    {"perf_event_open"},          // 298
    {"recvmmsg", kIo},            // 299
    {"fanotify_init"},            // 300
    {"fanotify_mark"},            // 301
    {"prlimit64"},                // 302
    {"name_to_handle_at"},        // 303
    {"open_by_handle_at"},        // 304
    {"clock_adjtime"},            // 305
    {"syncfs", kIo},              // 306
    {"sendmmsg", kIo},            // 307
    {"setns"},                    // 308
    {"getcpu"},                   // 309
    {"process_vm_readv"},         // 310
    {"process_vm_writev"},        // 311
    {"kcmp"},                     // 312
    {"finit_module"},             // 313
    {"sched_setattr"},            // 314
    {"sched_getattr"},            // 315
    {"renameat2", kIo},           // 316
    {"seccomp"},                  // 317
    {"getrandom"},                // 318
    {"memfd_create"},             // 319
    {"kexec_file_load"},          // 320
    {"bpf"},                      // 321
    {"execveat"},                 // 322
    {"userfaultfd"},              // 323
    {"membarrier"},               // 324
    {"mlock2"},                   // 325
    {"copy_file_range", kIo},     // 326
    {"preadv2", kIo},             // 327
    {"pwritev2", kIo},            // 328
    {"pkey_mprotect"},            // 329
    {"pkey_alloc"},               // 330
    {"pkey_free"},                // 331
    {"statx", kIo},               // 332
    {"io_pgetevents", kIo},       // 333
    {"rseq"},                     // 334
    {},                           // 335
    {},                           // 336
    {},                           // 337
    {},                           // 338
    {},                           // 339
    {},                           // 340
    {},                           // 341
    {},                           // 342
    {},                           // 343
    {},                           // 344
    {},                           // 345
    {},                           // 346
    {},                           // 347
    {},                           // 348
    {},                           // 349
    {},                           // 350
    {},                           // 351
    {},                           // 352
    {},                           // 353
    {},                           // 354
    {},                           // 355
    {},                           // 356
    {},                           // 357
    {},                           // 358
    {},                           // 359
    {},                           // 360
    {},                           // 361
    {},                           // 362
    {},                           // 363
    {},                           // 364
    {},                           // 365
    {},                           // 366
    {},                           // 367
    {},                           // 368
    {},                           // 369
    {},                           // 370
    {},                           // 371
    {},                           // 372
    {},                           // 373
    {},                           // 374
    {},                           // 375
    {},                           // 376
    {},                           // 377
    {},                           // 378
    {},                           // 379
    {},                           // 380
    {},                           // 381
    {},                           // 382
    {},                           // 383
    {},                           // 384
    {},                           // 385
    {},                           // 386
    {},                           // 387
    {},                           // 388
    {},                           // 389
    {},                           // 390
    {},                           // 391
    {},                           // 392
    {},                           // 393
    {},                           // 394
    {},                           // 395
    {},                           // 396
    {},                           // 397
    {},                           // 398
    {},                           // 399
    {},                           // 400
    {},                           // 401
    {},                           // 402
    {},                           // 403
    {},                           // 404
    {},                           // 405
    {},                           // 406
    {},                           // 407
    {},                           // 408
    {},                           // 409
    {},                           // 410
    {},                           // 411
    {},                           // 412
    {},                           // 413
    {},                           // 414
    {},                           // 415
    {},                           // 416
    {},                           // 417
    {},                           // 418
    {},                           // 419
    {},                           // 420
    {},                           // 421
    {},                           // 422
    {},                           // 423
    {"pidfd_send_signal"},        // 424
    {"io_uring_setup"},           // 425
    {"io_uring_enter", kIo},      // 426
    {"io_uring_register"},        // 427
    {"open_tree"},                // 428
    {"move_mount"},               // 429
    {"fsopen"},                   // 430
    {"fsconfig"},                 // 431
    {"fsmount"},                  // 432
    {"fspick"},                   // 433
    {"pidfd_open"},               // 434
    {"clone3"},                   // 435
    {"close_range", kIo},         // 436
    {"openat2", kIo},             // 437
    {"pidfd_getfd"},              // 438
    {"faccessat2", kIo},          // 439
    {"process_madvise"},          // 440
    {"epoll_pwait2", kIdle},      // 441
    {"mount_setattr"},            // 442
    {"quotactl_fd"},              // 443
    {"landlock_create_ruleset"},  // 444
    {"landlock_add_rule"},        // 445
    {"landlock_restrict_self"},   // 446
    {"memfd_secret"},             // 447
    {"process_mrelease"},         // 448
    {"futex_waitv", kIdle},       // 449
    {"set_mempolicy_home_node"},  // 450
    {"cachestat"},                // 451
    {"fchmodat2"},                // 452
    {"map_shadow_stack"},         // 453
    {"futex_wake"},               // 454
    {"futex_wait", kIdle},        // 455
    {"futex_requeue"},            // 456
};

const Syscall* find(std::int32_t number) noexcept {
  if (number < 0 || static_cast<std::size_t>(number) >= std::size(kSyscalls)) return nullptr;
  const Syscall& found = kSyscalls[number];
  return found.name == nullptr ? nullptr : &found;
}

}  // namespace

std::string_view syscall_name(std::int32_t number) noexcept {
  const Syscall* const found = find(number);
  return found == nullptr ? "syscall" : found->name;
}

shard::Category syscall_category(std::int32_t number) noexcept {
  const Syscall* const found = find(number);
  return found == nullptr ? shard::Category::kSystem : found->category;
}

bool waits_for_others(std::int32_t number, std::optional<Descriptor> descriptor) noexcept {
  switch (number) {
    case SYS_accept:
    case SYS_accept4:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
      return true;
    case SYS_read:
    case SYS_readv:
      return descriptor == Descriptor::kSocket || descriptor == Descriptor::kPipe;
    case SYS_write:
    case SYS_writev:
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
      return descriptor == Descriptor::kPipe;
    default:
      return false;
  }
}

}  // namespace clusterprof::collector
