/* SPDX-License-Identifier: BSD-3-Clause */
/* pretend_hardware PROGRAM [ARGUMENTS]: runs the program on a machine that has hardware counters, as far as
 * the program can tell: the kernel asks this process what perf_event_open is to return, and events of
 * hardware are replaced by software events whose number the program knows: cycles by its CPU time,
 * instructions by page faults, branch misses by context switches. There are three counters, and no others of
 * the kernel's names; more in one group is EINVAL. Linked statically, so that no agent is loaded into it.
 * Ends as the program did. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kCounters = 3, kNoHardware = 77 };

static int install_filter(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static int send_descriptor(int socket, int descriptor) {
  char byte = 0, control[CMSG_SPACE(sizeof descriptor)] = {0};
  struct iovec data = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, 0) == 1 ? 0 : -1;
}

static int receive_descriptor(int socket) {
  int descriptor = -1;
  char byte, control[CMSG_SPACE(sizeof descriptor)];
  struct iovec data = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != NULL) memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

static pid_t process_of(pid_t thread) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/status", thread);
  FILE* const file = fopen(path, "re");
  int process = -1;
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "Tgid: %d", &process) == 1) break;
  if (file != NULL) fclose(file);
  return process;
}

/* The program's descriptor as one of ours. */
static int take_descriptor(pid_t thread, int descriptor) {
  const int process = (int)syscall(SYS_pidfd_open, process_of(thread), 0);
  if (process < 0) return -1;
  const int taken = (int)syscall(SYS_pidfd_getfd, process, descriptor, 0);
  close(process);
  return taken;
}

static int members_of(int leader) {
  struct {
    uint64_t count, enabled, running, values[16];
  } group;
  return read(leader, &group, sizeof group) > 0 ? (int)group.count : kCounters;
}

static int replacement(uint64_t config, uint64_t* software) {
  switch (config) {
    case PERF_COUNT_HW_CPU_CYCLES:
      *software = PERF_COUNT_SW_TASK_CLOCK;
      return 0;
    case PERF_COUNT_HW_INSTRUCTIONS:
      *software = PERF_COUNT_SW_PAGE_FAULTS;
      return 0;
    case PERF_COUNT_HW_BRANCH_MISSES:
    case PERF_COUNT_HW_CACHE_REFERENCES:
      *software = PERF_COUNT_SW_CONTEXT_SWITCHES;
      return 0;
    default:
      return -ENOENT;
  }
}

/* A descriptor of ours for what the program asked for, a negative error number, or 1: the kernel may do as
 * asked. */
static int open_for(const struct seccomp_notif* asked) {
  struct perf_event_attr event = {0};
  struct iovec to = {&event, sizeof event}, from = {(void*)(uintptr_t)asked->data.args[0], sizeof event};
  if (process_vm_readv((pid_t)asked->pid, &to, 1, &from, 1, 0) != (ssize_t)sizeof event) return -EFAULT;
  if (event.type != PERF_TYPE_HARDWARE) return 1;
  uint64_t software;
  const int known = replacement(event.config, &software);
  if (known != 0) return known;
  event.type = PERF_TYPE_SOFTWARE;
  event.config = software;
  event.exclude_kernel = 0; /* or the kernel's own work, as page faults are, would not count */
  int leader = (int)asked->data.args[3];
  if (leader >= 0) {
    leader = take_descriptor((pid_t)asked->pid, leader);
    if (leader < 0) return -EBADF;
    if (members_of(leader) >= kCounters) {
      close(leader);
      return -EINVAL;
    }
  }
  const pid_t thread = asked->data.args[1] != 0 ? (pid_t)asked->data.args[1] : (pid_t)asked->pid;
  const int opened = (int)syscall(SYS_perf_event_open, &event, thread, -1, leader, PERF_FLAG_FD_CLOEXEC);
  const int error = errno;
  if (leader >= 0) close(leader);
  return opened >= 0 ? opened : -error;
}

static void answer(int listener) {
  struct seccomp_notif asked = {0};
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) return; /* it has been killed meanwhile */
  const int result = open_for(&asked);
  if (result > 1) {
    struct seccomp_notif_addfd add = {
        .id = asked.id, .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = (uint32_t)result, .newfd_flags = 02000000};
    ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    close(result);
    return;
  }
  struct seccomp_notif_resp response = {.id = asked.id, .error = result < 0 ? result : 0};
  if (result == 1) response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

int main(int count, char** words) {
  int pair[2];
  if (count < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return 2;
  const pid_t program = fork();
  if (program < 0) return 2;
  if (program == 0) {
    const int listener = install_filter();
    if (listener < 0 || send_descriptor(pair[1], listener) != 0) _exit(kNoHardware);
    close(listener);
    execv(words[1], words + 1);
    _exit(127);
  }
  close(pair[1]);
  const int listener = receive_descriptor(pair[0]);
  int status = 0;
  for (;;) {
    struct pollfd ready = {listener, POLLIN, 0};
    if (listener >= 0 && poll(&ready, 1, 20) > 0 && (ready.revents & POLLIN) != 0) answer(listener);
    if (waitpid(program, &status, listener >= 0 ? WNOHANG : 0) == program) break;
  }
  if (!WIFEXITED(status)) return 128 + WTERMSIG(status);
  return WEXITSTATUS(status);
}
