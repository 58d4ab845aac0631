/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that wait in the middle of what they move, since the other side is slow, each on a thread of its own.
 * Prints "name.result", "name.errno", and "name.sum" of what has arrived, in order.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

extern ssize_t __recv_chk(int, void*, size_t, size_t, int);
extern ssize_t __recvfrom_chk(int, void*, size_t, size_t, int, struct sockaddr*, socklen_t*);

enum { kBytes = 1 << 20, kChunk = 32768, kPauseUs = 3000, kPipeBytes = 65536 };

struct trial;
struct way {
  const char* name;
  int (*connect)(int fds[2]); /* 0: what is read, 1: what is written */
  long (*transfer)(struct trial*);
  void* (*other_side)(void*);
};
struct trial {
  const struct way* way;
  int fds[2];
  pthread_t thread, other;
  unsigned char* bytes;
  size_t expected; /* of the other side */
  volatile int begun;
  long result;
  int error;
  uint64_t sum;
  long extra;
};

static volatile uint64_t sink;
static __thread volatile sig_atomic_t own_signals;
static void on_own(int signal) {
  (void)signal;
  ++own_signals;
}
/* On an alternate stack, above that of the thread. */
enum { kAlternateBytes = 65536 };
static void* alternate;
static int handlers_file;
static int alternate_signal(void) { return SIGRTMIN + 6; }
static void on_alternate(int signal) {
  on_own(signal);
  if (write(handlers_file, "", 1) != 1) abort();
}
static void pause_us(long us) {
  struct timespec rest = {us / 1000000, us % 1000000 * 1000};
  while (nanosleep(&rest, &rest) != 0) {
  }
}
static void spin_cpu_ms(double ms) {
  struct timespec start, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
  do {
    for (int i = 0; i < 5000; ++i) sink += (uint64_t)i;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while ((double)(now.tv_sec - start.tv_sec) * 1e3 + (double)(now.tv_nsec - start.tv_nsec) * 1e-6 < ms);
}
static void fill(unsigned char* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) bytes[i] = (unsigned char)((uint32_t)i * 2654435761u >> 13);
}
static void add(uint64_t* sum, const unsigned char* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) *sum = (*sum ^ bytes[i]) * 1099511628211u;
}

/* --- connections ------------------------------------------------------------------------------------- */

static int by_pipe(int fds[2]) { return pipe2(fds, O_CLOEXEC); }
static int by_pair(int fds[2]) { return socketpair(AF_UNIX, SOCK_STREAM, 0, fds); }
static int by_datagrams(int fds[2]) { return socketpair(AF_UNIX, SOCK_DGRAM, 0, fds); }
static int by_tcp(int fds[2]) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t bytes = sizeof address;
  const int listener = socket(AF_INET, SOCK_STREAM, 0), small = 16384;
  fds[1] = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  if (bind(listener, (struct sockaddr*)&address, sizeof address) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, (struct sockaddr*)&address, &bytes) != 0 ||
      connect(fds[1], (struct sockaddr*)&address, sizeof address) != 0)
    return -1;
  fds[0] = accept(listener, NULL, NULL);
  close(listener);
  return fds[0] < 0 ? -1 : 0;
}
static int by_terminal(int fds[2]) {
  struct termios raw;
  fds[0] = posix_openpt(O_RDWR | O_NOCTTY);
  if (fds[0] < 0 || grantpt(fds[0]) != 0 || unlockpt(fds[0]) != 0) return -1;
  fds[1] = open(ptsname(fds[0]), O_RDWR | O_NOCTTY);
  if (fds[1] < 0 || tcgetattr(fds[1], &raw) != 0) return -1;
  cfmakeraw(&raw);
  return tcsetattr(fds[1], TCSANOW, &raw);
}

/* --- the other side ------------------------------------------------------------------------------------ */

static void* read_slowly(void* given) {
  struct trial* const t = given;
  unsigned char* const chunk = malloc(kChunk);
  size_t got = 0;
  while (got < t->expected) {
    const ssize_t now = read(t->fds[0], chunk, kChunk);
    if (now <= 0) break;
    add(&t->sum, chunk, (size_t)now);
    got += (size_t)now;
    pause_us(kPauseUs);
  }
  free(chunk);
  return NULL;
}
static void* write_slowly(void* given) {
  struct trial* const t = given;
  unsigned char* const all = malloc(kBytes);
  fill(all, kBytes);
  for (size_t i = 0; i < kBytes; i += kChunk) {
    pause_us(kPauseUs);
    if (write(t->fds[1], all + i, kChunk) != kChunk) abort();
  }
  free(all);
  return NULL;
}
enum { kMessages = 40, kMessageBytes = 700 };
static void send_some(struct trial* t, int messages) {
  unsigned char* const all = malloc(kBytes);
  fill(all, kBytes);
  for (int i = 0; i < messages; ++i) {
    pause_us(kPauseUs);
    if (send(t->fds[1], all + i * kMessageBytes, kMessageBytes, 0) != kMessageBytes) abort();
  }
  free(all);
}
static void* send_messages(void* given) {
  send_some(given, kMessages);
  return NULL;
}
static void* send_two(void* given) {
  send_some(given, 2);
  return NULL;
}
static void* receive_with_descriptors(void* given) {
  struct trial* const t = given;
  unsigned char* const chunk = malloc(kChunk);
  for (size_t got = 0; got < t->expected;) {
    char control[CMSG_SPACE(8 * sizeof(int))];
    struct iovec part = {chunk, kChunk};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    const ssize_t now = recvmsg(t->fds[0], &message, 0);
    if (now <= 0) break;
    for (struct cmsghdr* c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
      int descriptor;
      memcpy(&descriptor, CMSG_DATA(c), sizeof descriptor);
      close(descriptor);
      ++t->extra;
    }
    add(&t->sum, chunk, (size_t)now);
    got += (size_t)now;
    pause_us(kPauseUs);
  }
  free(chunk);
  return NULL;
}
static void* read_and_close(void* given) {
  struct trial* const t = given;
  unsigned char* const chunk = malloc(kChunk);
  for (int i = 0; i < 8; ++i) {
    size_t got = 0;
    while (got < kChunk) got += (size_t)read(t->fds[0], chunk, kChunk - got);
    pause_us(kPauseUs);
  }
  int waiting = 0;
  if (t->way->connect == by_pipe) {
    while (ioctl(t->fds[0], FIONREAD, &waiting) == 0 && waiting < kPipeBytes) pause_us(1000);
  }
  pause_us(100000);
  close(t->fds[0]);
  free(chunk);
  return NULL;
}
static void wait_until_it_waits(const struct trial* t) {
  while (!t->begun) pause_us(1000);
  pause_us(120000);
}
static void* interrupt(void* given) {
  struct trial* const t = given;
  wait_until_it_waits(t);
  pthread_kill(t->thread, SIGUSR1);
  return NULL;
}
static void* interrupt_softly(void* given) {
  struct trial* const t = given;
  wait_until_it_waits(t);
  pthread_kill(t->thread, SIGUSR2);
  return NULL;
}
static void* interrupt_elsewhere(void* given) {
  struct trial* const t = given;
  wait_until_it_waits(t);
  pthread_kill(t->thread, alternate_signal());
  return NULL;
}
static void* cancel(void* given) {
  struct trial* const t = given;
  wait_until_it_waits(t);
  pthread_cancel(t->thread);
  return NULL;
}

/* --- the calls ----------------------------------------------------------------------------------------- */

/* Parts of many lengths, some empty. */
enum { kParts = 300 };
static int split(struct trial* t, struct iovec parts[kParts]) {
  size_t at = 0;
  for (int i = 0; i < kParts; ++i) {
    size_t length = (size_t)(i % 7 == 3 ? 0 : i * 97 % 6000);
    if (i == kParts - 1 || length > kBytes - at) length = kBytes - at;
    parts[i] = (struct iovec){t->bytes + at, length};
    at += length;
  }
  return kParts;
}
static long do_write(struct trial* t) { return write(t->fds[1], t->bytes, kBytes); }
static long do_writev(struct trial* t) {
  struct iovec parts[kParts];
  return writev(t->fds[1], parts, split(t, parts));
}
static long do_send(struct trial* t) { return send(t->fds[1], t->bytes, kBytes, 0); }
static long do_sendto(struct trial* t) { return sendto(t->fds[1], t->bytes, kBytes, 0, NULL, 0); }
static long do_sendmsg(struct trial* t) {
  struct iovec parts[kParts];
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)split(t, parts)};
  return sendmsg(t->fds[1], &message, 0);
}
static long do_sendmsg_descriptor(struct trial* t) {
  struct iovec parts[kParts];
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  memset(&control, 0, sizeof control);
  struct msghdr message = {.msg_iov = parts,
                           .msg_iovlen = (size_t)split(t, parts),
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(&control.header), &(int){STDERR_FILENO}, sizeof(int));
  return sendmsg(t->fds[1], &message, 0);
}
static long do_sendmmsg(struct trial* t) {
  struct iovec parts[4];
  struct mmsghdr messages[4];
  memset(messages, 0, sizeof messages);
  for (int i = 0; i < 4; ++i) {
    parts[i] = (struct iovec){t->bytes + i * (kBytes / 4), kBytes / 4};
    messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
  }
  const int sent = sendmmsg(t->fds[1], messages, 4, 0);
  for (int i = 0; i < sent; ++i) t->extra += messages[i].msg_len;
  return sent;
}
static long do_sendmmsg_datagrams(struct trial* t) {
  struct iovec parts[kMessages];
  struct mmsghdr messages[kMessages];
  memset(messages, 0, sizeof messages);
  for (int i = 0; i < kMessages; ++i) {
    parts[i] = (struct iovec){t->bytes + i * kMessageBytes, kMessageBytes};
    messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
  }
  t->expected = kMessages * kMessageBytes;
  const int sent = sendmmsg(t->fds[1], messages, kMessages, 0);
  for (int i = 0; i < sent; ++i) t->extra += messages[i].msg_len;
  return sent;
}
static long do_sendfile(struct trial* t) {
  FILE* const file = tmpfile();
  if (file == NULL || fwrite(t->bytes, 1, kBytes, file) != kBytes || fflush(file) != 0) return -2;
  off_t offset = 0;
  const long result = sendfile(t->fds[1], fileno(file), &offset, kBytes);
  t->extra = offset;
  fclose(file);
  return result;
}
static long do_raw_write(struct trial* t) { return syscall(SYS_write, t->fds[1], t->bytes, (size_t)kBytes); }
static long do_raw_sendto(struct trial* t) {
  return syscall(SYS_sendto, t->fds[1], t->bytes, (size_t)kBytes, 0, NULL, 0);
}

/* What was received counts, not what the other side has seen. */
static long received(struct trial* t, long result) {
  if (result > 0) add(&t->sum, t->bytes, (size_t)result);
  return result;
}
static long do_recv(struct trial* t) { return received(t, recv(t->fds[0], t->bytes, kBytes, MSG_WAITALL)); }
static long do_recv_checked(struct trial* t) {
  return received(t, __recv_chk(t->fds[0], t->bytes, kBytes, kBytes, MSG_WAITALL));
}
static long do_recvfrom(struct trial* t) {
  return received(t, recvfrom(t->fds[0], t->bytes, kBytes, MSG_WAITALL, NULL, NULL));
}
static long do_recvfrom_checked(struct trial* t) {
  return received(t, __recvfrom_chk(t->fds[0], t->bytes, kBytes, kBytes, MSG_WAITALL, NULL, NULL));
}
static long do_recvmsg(struct trial* t) {
  struct iovec parts[kParts];
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)split(t, parts)};
  return received(t, recvmsg(t->fds[0], &message, MSG_WAITALL));
}
static long do_raw_recvfrom(struct trial* t) {
  return received(t, syscall(SYS_recvfrom, t->fds[0], t->bytes, (size_t)kBytes, MSG_WAITALL, NULL, NULL));
}
static long do_recv_datagram(struct trial* t) { /* MSG_WAITALL means nothing to those */
  return received(t, recv(t->fds[0], t->bytes, kBytes, MSG_WAITALL));
}
static long do_recvmmsg(struct trial* t) {
  struct iovec parts[kMessages];
  struct mmsghdr messages[kMessages];
  memset(messages, 0, sizeof messages);
  for (int i = 0; i < kMessages; ++i) {
    parts[i] = (struct iovec){t->bytes + i * kMessageBytes, kMessageBytes};
    messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
  }
  const int got = recvmmsg(t->fds[0], messages, kMessages, 0, NULL);
  for (int i = 0; i < got; ++i) t->extra += messages[i].msg_len;
  received(t, got > 0 ? got * (long)kMessageBytes : got);
  return got;
}

/* Devices that move much at once: often, so that some are interrupted. The least result of all. */
enum { kRounds = 12 };
static long least(long (*call)(struct trial*), struct trial* t) {
  long result = kBytes;
  for (int i = 0; i < kRounds; ++i) {
    const long now = call(t);
    if (now < result) result = now;
  }
  return result;
}
static long one_getrandom(struct trial* t) { return getrandom(t->bytes, kBytes, 0); }
static long one_raw_getrandom(struct trial* t) { return syscall(SYS_getrandom, t->bytes, (size_t)kBytes, 0); }
static long one_read(struct trial* t) { return read(t->fds[0], t->bytes, kBytes); }
static long one_readv(struct trial* t) {
  struct iovec parts[kParts];
  return readv(t->fds[0], parts, split(t, parts));
}
static long do_getrandom(struct trial* t) { return least(one_getrandom, t); }
static long do_raw_getrandom(struct trial* t) { return least(one_raw_getrandom, t); }
static long do_device_read(struct trial* t) { return least(one_read, t); }
static long do_device_readv(struct trial* t) { return least(one_readv, t); }
static int by_urandom(int fds[2]) {
  fds[0] = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  fds[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
  return fds[0] < 0 ? -1 : 0;
}
static int by_zero(int fds[2]) {
  fds[0] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  fds[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
  return fds[0] < 0 ? -1 : 0;
}

/* --- what ends them early without us as well ---------------------------------------------------------------
 */

static long do_own(struct trial* t) {
  const long result = write(t->fds[1], t->bytes, kBytes);
  t->extra = own_signals;
  return result;
}
static long do_own_elsewhere(struct trial* t) {
  const stack_t stack = {.ss_sp = alternate, .ss_size = kAlternateBytes};
  if (sigaltstack(&stack, NULL) != 0) return -2;
  return do_own(t);
}
static long do_own_socket(struct trial* t) {
  const long result = send(t->fds[1], t->bytes, kBytes, 0);
  t->extra = own_signals;
  return result > 0 && result < kBytes ? 1 : result;
}
static long do_own_recv(struct trial* t) {
  if (write(t->fds[1], t->bytes, 1000) != 1000) return -2;
  const long result = recv(t->fds[0], t->bytes, kBytes, MSG_WAITALL);
  t->extra = own_signals;
  return result;
}
static long do_nonblocking(struct trial* t) {
  fcntl(t->fds[1], F_SETFL, fcntl(t->fds[1], F_GETFL) | O_NONBLOCK);
  long all = 0, now = 0;
  while ((now = write(t->fds[1], t->bytes, kBytes)) > 0) all += now;
  return errno == EAGAIN ? all : -1;
}
static void note_cleanup(void* given) { ((struct trial*)given)->extra += 1; }
static long do_cancelled(struct trial* t) {
  long result;
  pthread_cleanup_push(note_cleanup, t);
  result = write(t->fds[1], t->bytes, kBytes);
  pthread_cleanup_pop(0);
  return result;
}

static const struct way kWays[] = {
    {"write_pipe", by_pipe, do_write, read_slowly},
    {"write_pair", by_pair, do_write, read_slowly},
    {"write_tcp", by_tcp, do_write, read_slowly},
    {"write_terminal", by_terminal, do_write, read_slowly},
    {"writev_pipe", by_pipe, do_writev, read_slowly},
    {"writev_pair", by_pair, do_writev, read_slowly},
    {"writev_tcp", by_tcp, do_writev, read_slowly},
    {"send_pair", by_pair, do_send, read_slowly},
    {"send_tcp", by_tcp, do_send, read_slowly},
    {"sendto_tcp", by_tcp, do_sendto, read_slowly},
    {"sendmsg_pair", by_pair, do_sendmsg, read_slowly},
    {"sendmsg_tcp", by_tcp, do_sendmsg, read_slowly},
    {"sendmsg_descriptor", by_pair, do_sendmsg_descriptor, receive_with_descriptors},
    {"sendmmsg_pair", by_pair, do_sendmmsg, read_slowly},
    {"sendmmsg_tcp", by_tcp, do_sendmmsg, read_slowly},
    {"sendmmsg_datagrams", by_datagrams, do_sendmmsg_datagrams, read_slowly},
    {"sendfile_pair", by_pair, do_sendfile, read_slowly},
    {"sendfile_tcp", by_tcp, do_sendfile, read_slowly},
    {"syscall_write", by_pipe, do_raw_write, read_slowly},
    {"syscall_sendto", by_tcp, do_raw_sendto, read_slowly},
    {"recv_pair", by_pair, do_recv, write_slowly},
    {"recv_tcp", by_tcp, do_recv, write_slowly},
    {"recv_checked", by_pair, do_recv_checked, write_slowly},
    {"recvfrom_tcp", by_tcp, do_recvfrom, write_slowly},
    {"recvfrom_checked", by_tcp, do_recvfrom_checked, write_slowly},
    {"recvmsg_pair", by_pair, do_recvmsg, write_slowly},
    {"recvmsg_tcp", by_tcp, do_recvmsg, write_slowly},
    {"syscall_recvfrom", by_pair, do_raw_recvfrom, write_slowly},
    {"recv_datagram", by_datagrams, do_recv_datagram, send_two},
    {"recvmmsg", by_datagrams, do_recvmmsg, send_messages},
    {"getrandom", by_zero, do_getrandom, NULL},
    {"syscall_getrandom", by_zero, do_raw_getrandom, NULL},
    {"read_urandom", by_urandom, do_device_read, NULL},
    {"read_zero", by_zero, do_device_read, NULL},
    {"readv_urandom", by_urandom, do_device_readv, NULL},
    {"own_signal", by_pipe, do_own, interrupt},
    {"own_signal_pair", by_pair, do_own_socket, interrupt},
    {"own_signal_recv", by_pair, do_own_recv, interrupt},
    {"own_restarting_signal", by_pipe, do_own, interrupt_softly},
    {"own_restarting_signal_elsewhere", by_pipe, do_own_elsewhere, interrupt_elsewhere},
    {"own_restarting_signal_pair", by_pair, do_own_socket, interrupt_softly},
    {"own_restarting_signal_recv", by_tcp, do_own_recv, interrupt_softly},
    {"nonblocking", by_pipe, do_nonblocking, NULL},
    {"closed_pipe", by_pipe, do_own, read_and_close},
    {"closed_pair", by_pair, do_own_socket, read_and_close},
    {"closed_tcp", by_tcp, do_own_socket, read_and_close},
    {"cancelled", by_pipe, do_cancelled, cancel},
};
enum { kCount = sizeof kWays / sizeof *kWays };

static struct trial trials[kCount];

/* Where less was written than should, the other side would wait for ever. */
static void end_writing(struct trial* t) {
  pause_us(100000);
  close(t->fds[1]);
}

static void* try_it(void* given) {
  struct trial* const t = given;
  spin_cpu_ms(2); /* it ran, so a wait is something new */
  errno = 0;
  t->begun = 1;
  const long result = t->way->transfer(t);
  t->error = result < 0 ? errno : 0;
  t->result = result;
  const int reads_to_end =
      t->way->other_side == read_slowly || t->way->other_side == receive_with_descriptors;
  if (reads_to_end && result < kBytes) end_writing(t);
  return NULL;
}

int main(int argc, char** argv) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_own;
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGPIPE, &action, NULL);
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR2, &action, NULL);
  action.sa_handler = on_alternate;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(alternate_signal(), &action, NULL);
  /* What is mapped earlier is higher up. */
  alternate = mmap(NULL, kAlternateBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  handlers_file = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (alternate == MAP_FAILED || handlers_file < 0) return 1;
  for (int i = 0; i < kCount; ++i) {
    struct trial* const t = &trials[i];
    t->way = &kWays[i];
    if (argc > 1 && strcmp(argv[1], t->way->name) != 0) continue;
    if (t->way->connect(t->fds) != 0 || (t->bytes = malloc(kBytes)) == NULL) return 1;
    fill(t->bytes, kBytes);
    t->expected = kBytes;
    t->sum = 14695981039346656037u;
    t->result = -1;
    if (pthread_create(&t->thread, NULL, try_it, t) != 0) return 1;
    if (t->way->other_side != NULL && pthread_create(&t->other, NULL, t->way->other_side, t) != 0) return 1;
  }
  for (int i = 0; i < kCount; ++i) {
    struct trial* const t = &trials[i];
    if (t->bytes == NULL) continue;
    void* ended = NULL;
    pthread_join(t->thread, &ended);
    if (t->way->other_side != NULL) pthread_join(t->other, NULL);
    if (ended == PTHREAD_CANCELED) t->result = -3;
    printf("%s.result %ld\n%s.errno %d\n%s.extra %ld\n%s.sum %u\n", t->way->name, t->result, t->way->name,
           t->error, t->way->name, t->extra, t->way->name, (unsigned)t->sum);
  }
  return 0;
}
