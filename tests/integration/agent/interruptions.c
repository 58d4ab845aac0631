/* SPDX-License-Identifier: BSD-3-Clause */
/* Every family of calls of signal(7) that can fail with EINTR, each waiting for about WAIT_MS on a thread of
 * its own until its timeout or another thread releases it. Prints "name.result", "name.errno", "name.ms" and
 * "name.lacked_ms": for how long these threads, and the one that starts them, were ready without a processor
 * meanwhile. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "waited_for_processor.h"

#define WAIT_MS 120
#define NOT_HERE (-77) /* the kernel or the machine does not offer it */

struct way;
struct attempt {
  const struct way* way;
  int fds[4];
  pid_t child;
  int id;
  uint32_t word;
  char path[64];
  char bytes[64];
  sem_t begun;
  sem_t semaphore;
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  pthread_t thread;
  mqd_t queue;
  aio_context_t aio;
  long result;
  int error;
  double ms, starting_lacked_ms, waiting_lacked_ms, releasing_lacked_ms;
  int has_ended;
};
struct way {
  const char* name;
  int (*prepare)(struct attempt*);
  long (*wait)(struct attempt*);
  void (*release)(struct attempt*); /* NULL: its own timeout ends it */
};

static const struct timespec kWait = {0, WAIT_MS * 1000000};
static volatile uint64_t sink;

static double now_ms(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}
static void spin_cpu_ms(double ms) {
  const double end = now_ms(CLOCK_THREAD_CPUTIME_ID) + ms;
  while (now_ms(CLOCK_THREAD_CPUTIME_ID) < end)
    for (int i = 0; i < 5000; ++i) sink += (uint64_t)i;
}
static struct timespec until(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  time.tv_nsec += WAIT_MS * 1000000;
  time.tv_sec += time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}
static int here(int result) { return result < 0 ? NOT_HERE : 0; }
static void name_path(struct attempt* a) {
  static int count;
  snprintf(a->path, sizeof a->path, "/tmp/interruptions-%d-%d", (int)getpid(),
           __sync_add_and_fetch(&count, 1));
}
/* pthread functions return their error instead. */
static long as_call(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int with_pipe(struct attempt* a) { return here(pipe(a->fds)); }
static int with_pair(struct attempt* a) { return here(socketpair(AF_UNIX, SOCK_STREAM, 0, a->fds)); }
static int with_datagrams(struct attempt* a) { return here(socketpair(AF_UNIX, SOCK_DGRAM, 0, a->fds)); }
static int with_eventfd(struct attempt* a) {
  a->fds[1] = a->fds[0] = eventfd(0, 0);
  return here(a->fds[0]);
}
static int with_inotify(struct attempt* a) {
  name_path(a);
  a->fds[0] = inotify_init();
  return mkdir(a->path, 0700) != 0 ? NOT_HERE : here(inotify_add_watch(a->fds[0], a->path, IN_CREATE));
}
static int with_pty(struct attempt* a) {
  a->fds[1] = posix_openpt(O_RDWR | O_NOCTTY);
  if (a->fds[1] < 0 || grantpt(a->fds[1]) != 0 || unlockpt(a->fds[1]) != 0) return NOT_HERE;
  a->fds[0] = open(ptsname(a->fds[1]), O_RDWR | O_NOCTTY);
  struct termios raw;
  if (a->fds[0] < 0 || tcgetattr(a->fds[0], &raw) != 0) return NOT_HERE;
  cfmakeraw(&raw);
  return here(tcsetattr(a->fds[0], TCSANOW, &raw));
}
static int with_timerfd(struct attempt* a) {
  a->fds[0] = timerfd_create(CLOCK_MONOTONIC, 0);
  return here(a->fds[0]);
}
static int with_signalfd(struct attempt* a) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 5);
  a->fds[0] = signalfd(-1, &set, 0);
  return here(a->fds[0]);
}
static long by_read(struct attempt* a) { return read(a->fds[0], a->bytes, 8); }
static long by_readv(struct attempt* a) {
  struct iovec parts[2] = {{a->bytes, 4}, {a->bytes + 4, 4}};
  return readv(a->fds[0], parts, 2);
}
static long by_raw_read(struct attempt* a) { return syscall(SYS_read, a->fds[0], a->bytes, 8); }
static long by_timerfd(struct attempt* a) {
  const struct itimerspec time = {{0, 0}, kWait};
  timerfd_settime(a->fds[0], 0, &time, NULL);
  return read(a->fds[0], a->bytes, 8);
}
static void put(struct attempt* a) {
  if (write(a->fds[1], "12345678", 8) != 8) abort();
}
static void put_file(struct attempt* a) {
  char path[80];
  snprintf(path, sizeof path, "%s/x", a->path);
  close(open(path, O_CREAT | O_WRONLY, 0600));
  unlink(path);
}
static long by_inotify(struct attempt* a) {
  char events[512];
  const long result = read(a->fds[0], events, sizeof events);
  return result > 0 ? 1 : result;
}
static long by_signalfd(struct attempt* a) {
  struct signalfd_siginfo info;
  return read(a->fds[0], &info, sizeof info);
}
static void send_signalfd(struct attempt* a) { pthread_kill(a->thread, SIGRTMIN + 5); }

/* --- writing ---------------------------------------------------------------------------------- */

static int fill(int fd, const char* bytes, size_t count) {
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  while (write(fd, bytes, count) > 0) {
  }
  fcntl(fd, F_SETFL, flags);
  return errno == EAGAIN ? 0 : NOT_HERE;
}
static int with_full_pipe(struct attempt* a) {
  return pipe(a->fds) != 0 ? NOT_HERE : fill(a->fds[1], (char[512]){0}, 512);
}
static int with_full_pair(struct attempt* a) {
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, a->fds) != 0) return NOT_HERE;
  const struct timeval time = {0, WAIT_MS * 1000};
  setsockopt(a->fds[1], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  return fill(a->fds[1], (char[64]){0}, 64);
}
static int with_full_pair_timeout(struct attempt* a) {
  const int result = with_full_pair(a);
  const struct timeval time = {0, WAIT_MS * 1000};
  setsockopt(a->fds[1], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  return result;
}
static void drain(struct attempt* a) {
  char bytes[4096];
  fcntl(a->fds[0], F_SETFL, O_NONBLOCK);
  while (read(a->fds[0], bytes, sizeof bytes) > 0) {
  }
}
static long by_write(struct attempt* a) { return write(a->fds[1], "12345678", 8); }
static long by_writev(struct attempt* a) {
  struct iovec parts[2] = {{a->bytes, 4}, {a->bytes + 4, 4}};
  return writev(a->fds[1], parts, 2);
}
static long by_send(struct attempt* a) { return send(a->fds[1], "12345678", 8, 0); }
static long by_sendto(struct attempt* a) { return sendto(a->fds[1], "12345678", 8, 0, NULL, 0); }
static long by_sendmsg(struct attempt* a) {
  struct iovec part = {a->bytes, 8};
  struct msghdr message = {0};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return sendmsg(a->fds[1], &message, 0);
}
static long by_sendmmsg(struct attempt* a) {
  struct iovec part = {a->bytes, 8};
  struct mmsghdr messages[1];
  memset(messages, 0, sizeof messages);
  messages[0].msg_hdr.msg_iov = &part;
  messages[0].msg_hdr.msg_iovlen = 1;
  return sendmmsg(a->fds[1], messages, 1, 0);
}

/* --- sockets ---------------------------------------------------------------------------------- */

static int with_pair_timeout(struct attempt* a) {
  const struct timeval time = {0, WAIT_MS * 1000};
  return with_pair(a) != 0 ? NOT_HERE
                           : here(setsockopt(a->fds[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
}
static int with_pair_long_timeout(struct attempt* a) {
  const struct timeval time = {5, 0};
  return with_pair(a) != 0 ? NOT_HERE
                           : here(setsockopt(a->fds[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
}
static long by_recv(struct attempt* a) { return recv(a->fds[0], a->bytes, 8, 0); }
static long by_recvfrom(struct attempt* a) { return recvfrom(a->fds[0], a->bytes, 8, 0, NULL, NULL); }
static long by_recvmsg(struct attempt* a) {
  struct iovec part = {a->bytes, 8};
  struct msghdr message = {0};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return recvmsg(a->fds[0], &message, 0);
}
static long by_recvmmsg(struct attempt* a) {
  struct iovec part = {a->bytes, 8};
  struct mmsghdr messages[1];
  memset(messages, 0, sizeof messages);
  messages[0].msg_hdr.msg_iov = &part;
  messages[0].msg_hdr.msg_iovlen = 1;
  return recvmmsg(a->fds[0], messages, 1, 0, NULL);
}
static int listening(struct attempt* a, int backlog) {
  struct sockaddr_un address = {AF_UNIX, ""};
  name_path(a);
  strcpy(address.sun_path, a->path);
  a->fds[0] = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(a->fds[0], (struct sockaddr*)&address, sizeof address) != 0) return NOT_HERE;
  return here(listen(a->fds[0], backlog));
}
static int connect_to(const struct attempt* a, int fd) {
  struct sockaddr_un address = {AF_UNIX, ""};
  strcpy(address.sun_path, a->path);
  return connect(fd, (struct sockaddr*)&address, sizeof address);
}
static int with_listener(struct attempt* a) { return listening(a, 4); }
static int with_listener_timeout(struct attempt* a) {
  const struct timeval time = {0, WAIT_MS * 1000};
  return listening(a, 4) != 0 ? NOT_HERE
                              : here(setsockopt(a->fds[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
}
static int with_full_listener(struct attempt* a) { /* one may wait; another one has to */
  if (listening(a, 0) != 0) return NOT_HERE;
  a->fds[2] = socket(AF_UNIX, SOCK_STREAM, 0);
  return here(connect_to(a, a->fds[2]));
}
static long by_accept(struct attempt* a) { return accept(a->fds[0], NULL, NULL) < 0 ? -1 : 0; }
static long by_accept4(struct attempt* a) {
  return accept4(a->fds[0], NULL, NULL, SOCK_CLOEXEC) < 0 ? -1 : 0;
}
static void come(struct attempt* a) {
  a->fds[1] = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect_to(a, a->fds[1]) != 0) abort();
}
static long by_connect(struct attempt* a) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  return connect_to(a, fd);
}
static long by_connect_timeout(struct attempt* a) {
  const struct timeval time = {0, WAIT_MS * 1000};
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  return connect_to(a, fd);
}
static void take_one(struct attempt* a) { close(accept(a->fds[0], NULL, NULL)); }
static int with_lingering(struct attempt* a) { /* a connection whose data cannot be sent yet */
  struct sockaddr_in address = {0};
  socklen_t bytes = sizeof address;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr*)&address, sizeof address) != 0 || listen(listener, 1) != 0)
    return NOT_HERE;
  getsockname(listener, (struct sockaddr*)&address, &bytes);
  a->fds[1] = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(a->fds[1], (struct sockaddr*)&address, sizeof address) != 0) return NOT_HERE;
  a->fds[0] = accept(listener, NULL, NULL);
  close(listener);
  const struct linger linger = {1, 5};
  setsockopt(a->fds[1], SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
  return fill(a->fds[1], (char[4096]){0}, 4096);
}
static long by_close(struct attempt* a) { return close(a->fds[1]); }
static void drain_to_end(struct attempt* a) {
  char bytes[65536];
  while (read(a->fds[0], bytes, sizeof bytes) > 0) {
  }
}

/* --- files, locks, children --------------------------------------------------------------------- */

static int with_fifo(struct attempt* a) {
  name_path(a);
  return here(mkfifo(a->path, 0600));
}
static long by_open(struct attempt* a) { return open(a->path, O_RDONLY) < 0 ? -1 : 0; }
static void open_other_end(struct attempt* a) { a->fds[1] = open(a->path, O_WRONLY); }
static int with_two_files(struct attempt* a) {
  name_path(a);
  a->fds[0] = open(a->path, O_CREAT | O_RDWR, 0600);
  a->fds[1] = open(a->path, O_RDWR);
  return here(a->fds[0]);
}
static int with_flock(struct attempt* a) {
  return with_two_files(a) != 0 ? NOT_HERE : here(flock(a->fds[1], LOCK_EX));
}
static long by_flock(struct attempt* a) { return flock(a->fds[0], LOCK_EX); }
static void unflock(struct attempt* a) { flock(a->fds[1], LOCK_UN); }
static const struct flock kWhole = {F_WRLCK, SEEK_SET, 0, 0, 0};
static int with_ofd_lock(struct attempt* a) {
  struct flock lock = kWhole;
  return with_two_files(a) != 0 ? NOT_HERE : here(fcntl(a->fds[1], F_OFD_SETLK, &lock));
}
static long by_ofd_lock(struct attempt* a) {
  struct flock lock = kWhole;
  return fcntl(a->fds[0], F_OFD_SETLKW, &lock);
}
static void unlock_ofd(struct attempt* a) {
  struct flock lock = kWhole;
  lock.l_type = F_UNLCK;
  fcntl(a->fds[1], F_OFD_SETLK, &lock);
}
static pid_t make_child(struct attempt* a, int takes_lock) { /* it lives until its pipe is closed */
  int go[2], ready[2];
  if (pipe(go) != 0 || pipe(ready) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    struct flock lock = kWhole;
    char byte = 0;
    close(go[1]);
    if (takes_lock && fcntl(a->fds[0], F_SETLK, &lock) != 0) _exit(1);
    if (write(ready[1], "x", 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte;
  if (read(ready[0], &byte, 1) != 1) abort();
  close(go[0]);
  close(ready[0]);
  close(ready[1]);
  a->fds[2] = go[1];
  a->child = child;
  return child;
}
static int with_child(struct attempt* a) { return here(make_child(a, 0)); }
static int with_locking_child(struct attempt* a) {
  return with_two_files(a) != 0 ? NOT_HERE : here(make_child(a, 1));
}
static void end_child(struct attempt* a) {
  if (write(a->fds[2], "x", 1) != 1) abort();
}
static long by_lock(struct attempt* a) {
  struct flock lock = kWhole;
  const long result = fcntl(a->fds[0], F_SETLKW, &lock);
  const int error = errno;
  waitpid(a->child, NULL, 0);
  errno = error;
  return result;
}
static long by_waitpid(struct attempt* a) {
  int status = -1;
  return waitpid(a->child, &status, 0) == a->child ? status : -1;
}
static long by_wait4(struct attempt* a) {
  int status = -1;
  return wait4(a->child, &status, 0, NULL) == a->child ? status : -1;
}
static long by_waitid(struct attempt* a) {
  siginfo_t info;
  return waitid(P_PID, (id_t)a->child, &info, WEXITED) == 0 ? info.si_status : -1;
}

/* --- queues and semaphores of the system ---------------------------------------------------------- */

static int with_queue(struct attempt* a) {
  struct mq_attr attributes = {0};
  attributes.mq_maxmsg = 1;
  attributes.mq_msgsize = 8;
  name_path(a);
  char name[80];
  snprintf(name, sizeof name, "/%s", a->path + 5);
  a->queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes);
  if (a->queue == (mqd_t)-1) return NOT_HERE;
  mq_unlink(name);
  return 0;
}
static int with_full_queue(struct attempt* a) {
  return with_queue(a) != 0 ? NOT_HERE : here(mq_send(a->queue, "12345678", 8, 0));
}
static long by_mq_receive(struct attempt* a) { return mq_receive(a->queue, a->bytes, 8, NULL); }
static long by_mq_send(struct attempt* a) { return mq_send(a->queue, "12345678", 8, 0); }
static long by_mq_timedreceive(struct attempt* a) {
  const struct timespec time = until(CLOCK_REALTIME);
  return mq_timedreceive(a->queue, a->bytes, 8, NULL, &time);
}
static long by_mq_timedsend(struct attempt* a) {
  const struct timespec time = until(CLOCK_REALTIME);
  return mq_timedsend(a->queue, "12345678", 8, 0, &time);
}
static void put_message(struct attempt* a) { mq_send(a->queue, "12345678", 8, 0); }
static void take_message(struct attempt* a) { mq_receive(a->queue, a->bytes + 32, 8, NULL); }

struct text {
  long type;
  char bytes[8];
};
static int with_messages(struct attempt* a) {
  a->id = msgget(IPC_PRIVATE, 0600);
  return here(a->id);
}
static int with_full_messages(struct attempt* a) {
  const struct text message = {1, ""};
  if (with_messages(a) != 0) return NOT_HERE;
  while (msgsnd(a->id, &message, 8, IPC_NOWAIT) == 0) {
  }
  return 0;
}
static long by_msgrcv(struct attempt* a) {
  struct text message;
  const long result = msgrcv(a->id, &message, 8, 0, 0);
  const int error = errno;
  msgctl(a->id, IPC_RMID, NULL);
  errno = error;
  return result;
}
static long by_msgsnd(struct attempt* a) {
  const struct text message = {1, ""};
  const long result = msgsnd(a->id, &message, 8, 0);
  const int error = errno;
  msgctl(a->id, IPC_RMID, NULL);
  errno = error;
  return result;
}
static void give_text(struct attempt* a) {
  const struct text message = {1, ""};
  msgsnd(a->id, &message, 8, IPC_NOWAIT);
}
static void take_text(struct attempt* a) {
  struct text message;
  msgrcv(a->id, &message, 8, 0, IPC_NOWAIT);
}
static int with_semaphores(struct attempt* a) {
  a->id = semget(IPC_PRIVATE, 1, 0600);
  return here(a->id);
}
static long by_semop(struct attempt* a) {
  struct sembuf down = {0, -1, 0};
  const long result = semop(a->id, &down, 1);
  const int error = errno;
  semctl(a->id, 0, IPC_RMID);
  errno = error;
  return result;
}
static long by_semtimedop(struct attempt* a) {
  struct sembuf down = {0, -1, 0};
  const long result = semtimedop(a->id, &down, 1, &kWait);
  const int error = errno;
  semctl(a->id, 0, IPC_RMID);
  errno = error;
  return result;
}
static void up(struct attempt* a) {
  struct sembuf one = {0, 1, 0};
  semop(a->id, &one, 1);
}

/* --- futexes ------------------------------------------------------------------------------------- */

static long by_futex(struct attempt* a) { return syscall(SYS_futex, &a->word, FUTEX_WAIT_PRIVATE, 0, NULL); }
static long by_futex_relative(struct attempt* a) {
  return syscall(SYS_futex, &a->word, FUTEX_WAIT_PRIVATE, 0, &kWait);
}
static long by_futex_absolute(struct attempt* a) {
  const struct timespec time = until(CLOCK_MONOTONIC);
  return syscall(SYS_futex, &a->word, FUTEX_WAIT_BITSET_PRIVATE, 0, &time, NULL, FUTEX_BITSET_MATCH_ANY);
}
static long by_inline_futex(struct attempt* a) { /* as run-time libraries do */
  long result = SYS_futex;
  register const struct timespec* timeout __asm__("r10") = &kWait;
  __asm__ volatile("mov %1, %%eax\n\tsyscall"
                   : "=&a"(result)
                   : "i"(SYS_futex), "D"(&a->word), "S"(FUTEX_WAIT_PRIVATE), "d"(0), "r"(timeout)
                   : "rcx", "r11", "memory");
  if (result >= 0) return result;
  errno = (int)-result;
  return -1;
}
static void wake_futex(struct attempt* a) {
  __atomic_store_n(&a->word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &a->word, FUTEX_WAKE_PRIVATE, 1, NULL);
}
static int with_semaphore(struct attempt* a) { return here(sem_init(&a->semaphore, 0, 0)); }
static long by_sem_wait(struct attempt* a) { return sem_wait(&a->semaphore); }
static long by_sem_timedwait(struct attempt* a) {
  const struct timespec time = until(CLOCK_REALTIME);
  return sem_timedwait(&a->semaphore, &time);
}
static void post(struct attempt* a) { sem_post(&a->semaphore); }
static int with_mutex(struct attempt* a) {
  pthread_mutex_init(&a->mutex, NULL);
  pthread_cond_init(&a->condition, NULL);
  return 0;
}
static long by_cond_wait(struct attempt* a) {
  pthread_mutex_lock(&a->mutex);
  int error = 0;
  while (a->word == 0 && error == 0) error = pthread_cond_wait(&a->condition, &a->mutex);
  pthread_mutex_unlock(&a->mutex);
  return as_call(error);
}
static void signal_condition(struct attempt* a) {
  pthread_mutex_lock(&a->mutex);
  a->word = 1;
  pthread_cond_signal(&a->condition);
  pthread_mutex_unlock(&a->mutex);
}
static long by_cond_timedwait(struct attempt* a) {
  const struct timespec time = until(CLOCK_REALTIME);
  pthread_mutex_lock(&a->mutex);
  const int error = pthread_cond_timedwait(&a->condition, &a->mutex, &time);
  pthread_mutex_unlock(&a->mutex);
  return as_call(error);
}
static long by_cond_clockwait(struct attempt* a) {
  const struct timespec time = until(CLOCK_MONOTONIC);
  pthread_mutex_lock(&a->mutex);
  const int error = pthread_cond_clockwait(&a->condition, &a->mutex, CLOCK_MONOTONIC, &time);
  pthread_mutex_unlock(&a->mutex);
  return as_call(error);
}
static void* hold_mutex(void* given) {
  struct attempt* const a = given;
  pthread_mutex_lock(&a->mutex);
  sem_post(&a->semaphore);
  const struct timespec time = until(CLOCK_MONOTONIC);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
  pthread_mutex_unlock(&a->mutex);
  return NULL;
}
static long by_mutex_lock(struct attempt* a) {
  pthread_t holder;
  pthread_create(&holder, NULL, hold_mutex, a);
  while (sem_wait(&a->semaphore) != 0) {
  }
  const int error = pthread_mutex_lock(&a->mutex);
  pthread_mutex_unlock(&a->mutex);
  pthread_join(holder, NULL);
  return as_call(error);
}
static int with_mutex_and_semaphore(struct attempt* a) {
  with_mutex(a);
  return with_semaphore(a);
}

/* --- time ---------------------------------------------------------------------------------------- */

static long by_nanosleep(struct attempt* a) {
  (void)a;
  struct timespec left;
  return nanosleep(&kWait, &left);
}
static long by_nanosleep_without_rest(struct attempt* a) {
  (void)a;
  return nanosleep(&kWait, NULL);
}
static long by_clock_nanosleep(struct attempt* a) {
  (void)a;
  struct timespec left;
  return as_call(clock_nanosleep(CLOCK_MONOTONIC, 0, &kWait, &left));
}
static long by_clock_nanosleep_until(struct attempt* a) {
  (void)a;
  const struct timespec time = until(CLOCK_REALTIME);
  return as_call(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, NULL));
}
static long by_usleep(struct attempt* a) {
  (void)a;
  return usleep(WAIT_MS * 1000);
}
static long by_raw_nanosleep(struct attempt* a) {
  (void)a;
  return syscall(SYS_nanosleep, &kWait, NULL);
}
static long by_sleep(struct attempt* a) {
  (void)a;
  const double lacked = waited_for_processor_ms(), start = now_ms(CLOCK_MONOTONIC);
  if (sleep(1) != 0) return -1;
  const double rest_ms = now_ms(CLOCK_MONOTONIC) - start - 1000;
  return rest_ms < -0.1 ? -2 : rest_ms - (waited_for_processor_ms() - lacked) > 400 ? -3 : 0;
}

/* --- several at once -------------------------------------------------------------------------------- */

static long by_poll(struct attempt* a) {
  (void)a;
  return poll(NULL, 0, WAIT_MS);
}
static long by_raw_poll(struct attempt* a) {
  (void)a;
  return syscall(SYS_poll, NULL, 0, WAIT_MS);
}
static long by_poll_for_ever(struct attempt* a) {
  struct pollfd one = {a->fds[0], POLLIN, 0};
  return poll(&one, 1, -1);
}
static long by_ppoll(struct attempt* a) {
  (void)a;
  sigset_t none;
  sigemptyset(&none);
  return ppoll(NULL, 0, &kWait, &none);
}
static long by_select(struct attempt* a) {
  (void)a;
  struct timeval time = {0, WAIT_MS * 1000};
  return select(0, NULL, NULL, NULL, &time);
}
static long by_select_for_ever(struct attempt* a) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(a->fds[0], &set);
  return select(a->fds[0] + 1, &set, NULL, NULL, NULL);
}
static long by_pselect(struct attempt* a) {
  (void)a;
  sigset_t none;
  sigemptyset(&none);
  return pselect(0, NULL, NULL, NULL, &kWait, &none);
}
static int with_epoll(struct attempt* a) {
  struct epoll_event event = {EPOLLIN, {0}};
  if (pipe(a->fds) != 0) return NOT_HERE;
  a->fds[2] = epoll_create1(0);
  return here(epoll_ctl(a->fds[2], EPOLL_CTL_ADD, a->fds[0], &event));
}
static long by_epoll_wait(struct attempt* a) {
  struct epoll_event event;
  return epoll_wait(a->fds[2], &event, 1, WAIT_MS);
}
static long by_epoll_for_ever(struct attempt* a) {
  struct epoll_event event;
  return epoll_wait(a->fds[2], &event, 1, -1);
}
static long by_epoll_pwait(struct attempt* a) {
  struct epoll_event event;
  sigset_t none;
  sigemptyset(&none);
  return epoll_pwait(a->fds[2], &event, 1, WAIT_MS, &none);
}
static long by_epoll_pwait2(struct attempt* a) {
  struct epoll_event event;
  return epoll_pwait2(a->fds[2], &event, 1, &kWait, NULL);
}
static int with_aio(struct attempt* a) { return here((int)syscall(SYS_io_setup, 1, &a->aio)); }
static long by_io_getevents(struct attempt* a) {
  struct io_event event;
  struct timespec time = kWait;
  const long result = syscall(SYS_io_getevents, a->aio, 1, 1, &event, &time);
  const int error = errno;
  syscall(SYS_io_destroy, a->aio);
  errno = error;
  return result;
}

/* --- signals: the program's own still end what they should --------------------------------------------- */

static volatile sig_atomic_t own_signals;
static void on_own(int signal) {
  (void)signal;
  ++own_signals;
}
/* More than once: without a processor the thread may not have come to its wait. */
static void kill_until_it_ends(struct attempt* a, int number) {
  static const struct timespec soon = {0, 20000000};
  do {
    pthread_kill(a->thread, number);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &soon, NULL);
  } while (!__atomic_load_n(&a->has_ended, __ATOMIC_ACQUIRE));
}
static void kill_it(struct attempt* a) { kill_until_it_ends(a, SIGUSR1); }
static void kill_softly(struct attempt* a) { kill_until_it_ends(a, SIGUSR2); }
static long by_pause(struct attempt* a) {
  (void)a;
  return pause();
}
static long by_sigsuspend(struct attempt* a) {
  (void)a;
  sigset_t none;
  sigemptyset(&none);
  return sigsuspend(&none);
}
static long by_poll_and_signal(struct attempt* a) {
  (void)a;
  return poll(NULL, 0, 5000);
}
static long by_restarted_read(
    struct attempt* a) { /* its handler has SA_RESTART: goes on, until there is something */
  return read(a->fds[0], a->bytes, 8);
}
static void kill_softly_and_put(struct attempt* a) {
  pthread_kill(a->thread, SIGUSR2);
  put(a);
}
static void wait_set(sigset_t* set) {
  sigemptyset(set);
  sigaddset(set, SIGRTMIN + 6);
}
static void send_wanted(struct attempt* a) { pthread_kill(a->thread, SIGRTMIN + 6); }
static long by_sigtimedwait(struct attempt* a) {
  (void)a;
  sigset_t set;
  wait_set(&set);
  return sigtimedwait(&set, NULL, &kWait);
}
static long by_sigwaitinfo(struct attempt* a) {
  (void)a;
  sigset_t set;
  wait_set(&set);
  return sigwaitinfo(&set, NULL) - SIGRTMIN;
}
static long by_sigwait(struct attempt* a) {
  (void)a;
  sigset_t set;
  int got = 0;
  wait_set(&set);
  const int error = sigwait(&set, &got);
  return error != 0 ? as_call(error) : got - SIGRTMIN;
}

/* --- all of them ------------------------------------------------------------------------------------- */

static const struct way kWays[] = {
    {"read_pipe", with_pipe, by_read, put},
    {"readv_pipe", with_pipe, by_readv, put},
    {"syscall_read_pipe", with_pipe, by_raw_read, put},
    {"read_pty", with_pty, by_read, put},
    {"read_socket", with_pair, by_read, put},
    {"read_eventfd", with_eventfd, by_read, put},
    {"read_inotify", with_inotify, by_inotify, put_file},
    {"read_timerfd", with_timerfd, by_timerfd, NULL},
    {"read_signalfd", with_signalfd, by_signalfd, send_signalfd},
    {"write_pipe", with_full_pipe, by_write, drain},
    {"writev_pipe", with_full_pipe, by_writev, drain},
    {"send", with_full_pair, by_send, drain},
    {"sendto", with_full_pair, by_sendto, drain},
    {"sendmsg", with_full_pair, by_sendmsg, drain},
    {"sendmmsg", with_full_pair, by_sendmmsg, drain},
    {"send_timeout", with_full_pair_timeout, by_send, NULL},
    {"sendmsg_timeout", with_full_pair_timeout, by_sendmsg, NULL},
    {"recv", with_pair, by_recv, put},
    {"recvfrom", with_datagrams, by_recvfrom, put},
    {"recvmsg", with_pair, by_recvmsg, put},
    {"recvmmsg", with_datagrams, by_recvmmsg, put},
    {"recv_timeout", with_pair_timeout, by_recv, NULL},
    {"recvfrom_timeout", with_pair_timeout, by_recvfrom, NULL},
    {"recvmsg_timeout", with_pair_timeout, by_recvmsg, NULL},
    {"recvmmsg_timeout", with_pair_timeout, by_recvmmsg, NULL},
    {"read_timeout", with_pair_timeout, by_read, NULL},
    {"accept", with_listener, by_accept, come},
    {"accept4", with_listener, by_accept4, come},
    {"accept_timeout", with_listener_timeout, by_accept, NULL},
    {"connect", with_full_listener, by_connect, take_one},
    {"connect_timeout", with_full_listener, by_connect_timeout, NULL},
    {"open_fifo", with_fifo, by_open, open_other_end},
    {"flock", with_flock, by_flock, unflock},
    {"setlkw", with_locking_child, by_lock, end_child},
    {"ofd_setlkw", with_ofd_lock, by_ofd_lock, unlock_ofd},
    {"waitpid", with_child, by_waitpid, end_child},
    {"wait4", with_child, by_wait4, end_child},
    {"waitid", with_child, by_waitid, end_child},
    {"close_linger", with_lingering, by_close, drain_to_end}, /* no child has it too */
    {"mq_receive", with_queue, by_mq_receive, put_message},
    {"mq_timedreceive", with_queue, by_mq_timedreceive, NULL},
    {"mq_send", with_full_queue, by_mq_send, take_message},
    {"mq_timedsend", with_full_queue, by_mq_timedsend, NULL},
    {"msgrcv", with_messages, by_msgrcv, give_text},
    {"msgsnd", with_full_messages, by_msgsnd, take_text},
    {"semop", with_semaphores, by_semop, up},
    {"semtimedop", with_semaphores, by_semtimedop, NULL},
    {"syscall_futex", NULL, by_futex, wake_futex},
    {"syscall_futex_relative", NULL, by_futex_relative, NULL},
    {"syscall_futex_absolute", NULL, by_futex_absolute, NULL},
    {"inline_futex", NULL, by_inline_futex, NULL},
    {"sem_wait", with_semaphore, by_sem_wait, post},
    {"sem_timedwait", with_semaphore, by_sem_timedwait, NULL},
    {"cond_wait", with_mutex, by_cond_wait, signal_condition},
    {"cond_timedwait", with_mutex, by_cond_timedwait, NULL},
    {"cond_clockwait", with_mutex, by_cond_clockwait, NULL},
    {"mutex_lock", with_mutex_and_semaphore, by_mutex_lock, NULL},
    {"nanosleep", NULL, by_nanosleep, NULL},
    {"nanosleep_without_rest", NULL, by_nanosleep_without_rest, NULL},
    {"clock_nanosleep", NULL, by_clock_nanosleep, NULL},
    {"clock_nanosleep_until", NULL, by_clock_nanosleep_until, NULL},
    {"usleep", NULL, by_usleep, NULL},
    {"syscall_nanosleep", NULL, by_raw_nanosleep, NULL},
    {"sleep_1", NULL, by_sleep, NULL},
    {"poll", NULL, by_poll, NULL},
    {"syscall_poll", NULL, by_raw_poll, NULL},
    {"poll_for_ever", with_pipe, by_poll_for_ever, put},
    {"ppoll", NULL, by_ppoll, NULL},
    {"select", NULL, by_select, NULL},
    {"select_for_ever", with_pipe, by_select_for_ever, put},
    {"pselect", NULL, by_pselect, NULL},
    {"epoll_wait", with_epoll, by_epoll_wait, NULL},
    {"epoll_for_ever", with_epoll, by_epoll_for_ever, put},
    {"epoll_pwait", with_epoll, by_epoll_pwait, NULL},
    {"epoll_pwait2", with_epoll, by_epoll_pwait2, NULL},
    {"io_getevents", with_aio, by_io_getevents, NULL},
    {"sigtimedwait", NULL, by_sigtimedwait, NULL},
    {"sigwaitinfo", NULL, by_sigwaitinfo, send_wanted},
    {"sigwait", NULL, by_sigwait, send_wanted},
    {"own_pause", NULL, by_pause, kill_it},
    {"own_sigsuspend", NULL, by_sigsuspend, kill_it},
    {"own_poll", NULL, by_poll_and_signal, kill_it},
    {"own_read", with_pipe, by_read, kill_it},
    {"own_restarted_read", with_pipe, by_restarted_read, kill_softly_and_put},
    {"own_recv_timeout", with_pair_long_timeout, by_recv, kill_softly}};
enum { kCount = sizeof kWays / sizeof *kWays };

static struct attempt attempts[kCount];
static int chosen[kCount];

static void* try_it(void* given) {
  struct attempt* const a = given;
  spin_cpu_ms(3); /* it ran, so a wait is something new */
  const double lacked = waited_for_processor_ms(), start = now_ms(CLOCK_MONOTONIC);
  sem_post(&a->begun);
  errno = 0;
  a->result = a->way->wait(a);
  a->error = a->result < 0 ? errno : 0;
  __atomic_store_n(&a->has_ended, 1, __ATOMIC_RELEASE);
  a->ms = now_ms(CLOCK_MONOTONIC) - start;
  a->waiting_lacked_ms = waited_for_processor_ms() - lacked;
  return NULL;
}
static void* release_it(void* given) {
  struct attempt* const a = given;
  while (sem_wait(&a->begun) != 0) {
  }
  const struct timespec time = until(CLOCK_MONOTONIC);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
  if (a->way->release != NULL) a->way->release(a);
  a->releasing_lacked_ms = waited_for_processor_ms(); /* it has just begun */
  return NULL;
}

int main(int argc, char** argv) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_own;
  sigfillset(&action.sa_mask);
  sigaction(SIGUSR1, &action, NULL);
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR2, &action, NULL);
  /* The threads that wait for these signals inherit the mask: one that is sent before the wait stays pending. */
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGRTMIN + 5);
  sigaddset(&awaited, SIGRTMIN + 6);
  pthread_sigmask(SIG_BLOCK, &awaited, NULL);

  enum { kAtOnce = 22 };
  for (int first = 0; first < kCount; first += kAtOnce) {
    const int end = first + kAtOnce < kCount ? first + kAtOnce : kCount;
    pthread_t releasers[kCount];
    for (int i = first; i < end; ++i) {
      struct attempt* const a = &attempts[i];
      a->way = &kWays[i];
      chosen[i] = argc < 2 || strcmp(argv[1], a->way->name) == 0;
      if (!chosen[i]) continue;
      const int prepared = a->way->prepare != NULL ? a->way->prepare(a) : 0;
      if (prepared != 0) {
        chosen[i] = 0;
        printf("%s.missing 1\n", a->way->name);
      }
    }
    for (int i = first; i < end; ++i) {
      if (!chosen[i]) continue;
      const double lacked = waited_for_processor_ms();
      sem_init(&attempts[i].begun, 0, 0);
      pthread_create(&attempts[i].thread, NULL, try_it, &attempts[i]);
      pthread_create(&releasers[i], NULL, release_it, &attempts[i]);
      attempts[i].starting_lacked_ms = waited_for_processor_ms() - lacked;
    }
    for (int i = first; i < end; ++i) {
      if (!chosen[i]) continue;
      pthread_join(releasers[i], NULL); /* first: it sends signals to the other one */
      pthread_join(attempts[i].thread, NULL);
      if (attempts[i].path[0] != 0 && unlink(attempts[i].path) != 0) rmdir(attempts[i].path);
    }
  }
  for (int i = 0; i < kCount; ++i) {
    if (!chosen[i]) continue;
    const struct attempt* const a = &attempts[i];
    printf("%s.result %ld\n%s.errno %d\n%s.ms %.2f\n%s.lacked_ms %.2f\n", a->way->name, a->result,
           a->way->name, a->error, a->way->name, a->ms, a->way->name,
           a->starting_lacked_ms + a->waiting_lacked_ms + a->releasing_lacked_ms);
  }
  return 0;
}
