/* SPDX-License-Identifier: BSD-3-Clause */
/* Works on files below the folder that it is given, and tells on stdout what it did:
 *   expect PATH OPERATION COUNT BYTES    a count of -1 is not told
 *   place PATH OPERATION START END       the only place it came from is code between these addresses */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define OWN __attribute__((noinline, noclone))

static char g_folder[512];

static char* path_of(const char* name) {
  static __thread char paths[8][640];
  static __thread unsigned next;
  char* path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", g_folder, name);
  return path;
}

static void expect(const char* name, const char* operation, long count, long bytes) {
  const char* path = strcmp(name, ".") == 0 ? g_folder : name[0] == '/' ? name : path_of(name);
  dprintf(1, "expect %s %s %ld %ld\n", path, operation, count, bytes);
}

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

static char g_buffer[1 << 16];
static volatile unsigned long g_nowhere = 8;

/* --- posix --- */

static OWN int place_of_pwrite(int file) {
  int moved = 0;
  for (int i = 0; i < 100; ++i) moved += (int)pwrite(file, g_buffer, 10, i * 10);
  __asm__ volatile("");
  return moved;
}
static OWN void behind_place_of_pwrite(void) { __asm__ volatile("nop"); }

static void posix(void) {
  const char* path = path_of("posix");
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  check(file >= 0, "open");
  check(place_of_pwrite(file) == 1000, "pwrite");
  dprintf(1, "place %s write %lu %lu\n", path, (unsigned long)place_of_pwrite,
          (unsigned long)behind_place_of_pwrite);
  behind_place_of_pwrite();
  check(write(file, g_buffer, 50) == 50, "write");
  struct iovec parts[] = {{g_buffer, 100}, {g_buffer, 200}};
  check(writev(file, parts, 2) == 300, "writev");
  check(pwritev(file, parts, 2, 2000) == 300, "pwritev");
  check(pwritev2(file, parts, 2, 3000, 0) == 300, "pwritev2");
  check(lseek(file, 0, SEEK_SET) == 0, "lseek");
  check(read(file, g_buffer, 77) == 77, "read");
  check(readv(file, parts, 2) == 300, "readv");
  check(preadv(file, parts, 2, 0) == 300, "preadv");
  check(preadv2(file, parts, 2, 0, 0) == 300, "preadv2");
  check(pread(file, g_buffer, 5, 0) == 5, "pread");
  check(pread64(file, g_buffer, 6, 0) == 6, "pread64");
  check(read(file, (void*)g_nowhere, 10) == -1 && errno == EFAULT, "a read that fails");
  check(fsync(file) == 0 && fdatasync(file) == 0, "fsync");
  check(sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE) == 0, "sync_file_range");
  check(ftruncate(file, 8192) == 0, "ftruncate");
  struct stat status;
  check(fstat(file, &status) == 0 && status.st_size == 8192, "fstat");
  char* memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  check(memory != MAP_FAILED, "mmap");
  memory[5000] = 1;
  check(msync(memory, 8192, MS_SYNC) == 0, "msync");
  munmap(memory, 8192);
  int copy = open(path_of("copied"), O_RDWR | O_CREAT | O_TRUNC, 0600);
  check(lseek(file, 0, SEEK_SET) == 0 && sendfile(copy, file, NULL, 4000) == 4000, "sendfile");
  const int copied = copy_file_range(file, NULL, copy, NULL, 1000, 0) == 1000;
  int ends[2];
  check(pipe(ends) == 0, "pipe");
  check(splice(file, NULL, ends[1], NULL, 500, 0) == 500, "splice");
  check(read(ends[0], g_buffer, 500) == 500, "read of a pipe");
  check(close(ends[0]) == 0 && close(ends[1]) == 0, "close of a pipe");
  check(close(copy) == 0 && close(file) == 0, "close");
  expect("posix", "open", 1, 0);
  expect("posix", "write", 100 + 4, 1000 + 50 + 900);
  expect("posix", "read", 7 + 2 + copied, 77 + 900 + 11 + 4000 + 500 + 1000 * copied);
  expect("posix", "seek", 2, 0);
  expect("posix", "sync", 4, 0);
  expect("posix", "metadata", 2, 0);
  expect("posix", "map", 1, 8192);
  expect("posix", "close", 1, 0);
  expect("copied", "write", 1 + copied, 4000 + 1000 * copied);

  /* The kernel's own files are one; we read some ourselves, which do not count. */
  file = open("/proc/self/stat", O_RDONLY);
  const long told = read(file, g_buffer, sizeof g_buffer);
  check(told > 0 && close(file) == 0, "read of /proc");
  expect("/proc", "open", 1, 0);
  expect("/proc", "read", 1, told);

  /* Names count for the directory that holds them. */
  check(mkdir(path_of("names"), 0700) == 0, "mkdir");
  check(chdir(path_of("names")) == 0, "chdir");
  file = open("one", O_WRONLY | O_CREAT, 0600);
  check(file >= 0 && close(file) == 0, "open");
  check(stat("one", &status) == 0 && stat("./one", &status) == 0 && lstat("one", &status) == 0, "stat");
  check(access("one", R_OK) == 0, "access");
  check(rename("one", "two") == 0, "rename");
  check(open("one", O_RDONLY) == -1 && errno == ENOENT, "open of nothing");
  check(stat((const char*)g_nowhere, &status) == -1 && errno == EFAULT, "stat of no name");
  check(truncate("two", 10) == 0, "truncate");
  check(unlink(path_of("names/two")) == 0, "unlink");
  check(chdir(g_folder) == 0 && stat("posix", &status) == 0, "chdir");
  check(rmdir("names") == 0, "rmdir");
  expect("names/one", "open", 1, 0);
  expect("names", "open", 1, 0);
  expect("names", "metadata", 7, 0);
  expect(".", "metadata", 3, 0);
}

/* --- stdio --- */

/* Streams in memory are no file, whatever number their memory held where a descriptor's would be. */
static void write_to_memory(int descriptor) {
  for (size_t bytes = 64; bytes < 1024; bytes += 16) {
    volatile int* const words = malloc(bytes);
    check(words != NULL, "malloc");
    for (size_t i = 0; i < bytes / sizeof *words; ++i) words[i] = descriptor;
    free((void*)words);
  }
  char* text = NULL;
  size_t length = 0;
  FILE* memory = open_memstream(&text, &length);
  check(memory != NULL && fprintf(memory, "%d", 12) == 2 && fputs("ab", memory) >= 0, "open_memstream");
  check(fclose(memory) == 0 && length == 4, "fclose");
  free(text);
}

static void stdio(void) {
  FILE* file = fopen(path_of("stdio"), "w+");
  check(file != NULL, "fopen");
  write_to_memory(fileno(file));
  long bytes = 0, writes = 0;
  for (int i = 0; i < 1000; ++i, ++writes) bytes += fprintf(file, "%d\n", i);
  double numbers[100] = {0};
  check(fwrite(numbers, sizeof *numbers, 100, file) == 100, "fwrite");
  check(fputs("four", file) >= 0, "fputs");
  for (int i = 0; i < 5000; ++i) check(putc('x', file) == 'x', "putc");
  check(fputc('\n', file) == '\n', "fputc");
  bytes += 800 + 4 + 5001;
  writes += 1 + 1 + 5001;
  check(fflush(file) == 0, "fflush");
  check(fseek(file, 0, SEEK_SET) == 0, "fseek");
  char line[32];
  long reads = 0, got = 0;
  for (int i = 0; i < 500; ++i, ++reads) {
    check(fgets(line, sizeof line, file) != NULL, "fgets");
    got += (long)strlen(line);
  }
  int number = 0;
  for (int i = 500; i < 900; ++i, ++reads) {
    check(fscanf(file, "%d", &number) == 1 && number == i, "fscanf");
    got += 4; /* with the newline before it, but for the first */
  }
  got -= 1;
  char* text = NULL;
  size_t room = 0;
  check(getc(file) == '\n', "getc");
  for (int i = 900; i < 1000; ++i) check(getline(&text, &room, file) == 4, "getline");
  free(text);
  got += 1 + 400;
  reads += 101;
  check(fread(numbers, 3 * sizeof *numbers, 30, file) == 30 && ftell(file) == got + 720, "fread");
  got += 720;
  ++reads;
  int character = 0;
  for (; character != EOF; ++reads) {
    character = fgetc(file);
    got += character != EOF;
  }
  check(got == bytes, "what was read");
  check(fclose(file) == 0, "fclose");
  expect("stdio", "open", 1, 0);
  expect("stdio", "write", writes, bytes);
  expect("stdio", "read", reads, bytes);
  expect("stdio", "sync", 1, 0);
  expect("stdio", "seek", 1, 0);
  expect("stdio", "close", 1, 0);

  /* An item that is not complete has been read, too. */
  file = fopen(path_of("copied"), "w+");
  check(fwrite(g_buffer, 1, 1000, file) == 1000, "fwrite");
  rewind(file);
  check(fread(g_buffer, 600, 2, file) == 1 && feof(file), "fread of a part");
  check(freopen(path_of("again"), "w", file) == file, "freopen");
  check(fputs("12345", file) >= 0 && fclose(file) == 0, "fputs");
  expect("copied", "write", 1, 1000);
  expect("copied", "read", 1, 1000);
  expect("again", "open", 1, 0);
  expect("again", "write", 1, 5);
}

/* --- descriptors --- */

static void descriptors(void) {
  int file = open(path_of("doubled"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int other = open(path_of("other"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int copy = dup(file), high = fcntl(file, F_DUPFD_CLOEXEC, 300);
  check(copy >= 0 && high >= 300, "dup");
  check(close(file) == 0, "close");
  check(write(copy, g_buffer, 10) == 10 && write(high, g_buffer, 20) == 20, "write");
  check(dup2(copy, other) == other && write(other, g_buffer, 30) == 30, "dup2");
  check(rename(path_of("doubled"), path_of("renamed")) == 0 && write(copy, g_buffer, 1) == 1, "rename");
  expect("doubled", "write", 4, 61);
  expect("other", "open", 1, 0);
  expect("other", "write", 0, 0);

  /* The numbers are used again. */
  check(close(copy) == 0 && close(high) == 0 && close(other) == 0, "close");
  for (int i = 0; i < 4; ++i) {
    char name[16];
    snprintf(name, sizeof name, "again%d", i);
    file = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    check(write(file, g_buffer, (size_t)i + 1) == i + 1 && close(file) == 0, "write");
    expect(name, "write", 1, i + 1);
    int ends[2];
    check(pipe(ends) == 0 && ends[0] == file, "pipe");
    check(write(ends[1], g_buffer, 100) == 100 && read(ends[0], g_buffer, 100) == 100, "pipe");
    check(close(ends[0]) == 0 && close(ends[1]) == 0, "close");
  }
  for (int way = 0; way < 2; ++way) {
    char name[16];
    snprintf(name, sizeof name, "range%d", way);
    file = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    check(write(file, g_buffer, 7) == 7, "write");
    if (way == 0) {
      check(close_range((unsigned)file, (unsigned)file, 0) == 0, "close_range");
    } else {
      closefrom(file);
    }
    int ends[2];
    check(pipe(ends) == 0 && ends[0] == file, "pipe");
    check(write(ends[1], g_buffer, 100) == 100 && read(ends[0], g_buffer, 100) == 100, "pipe");
    check(close(ends[0]) == 0 && close(ends[1]) == 0, "close");
    expect(name, "write", 1, 7);
    expect(name, "read", 0, 0);
  }
  char name[] = "temporaryXXXXXX";
  check(chdir(g_folder) == 0, "chdir");
  file = mkstemp(name);
  check(file >= 0 && write(file, g_buffer, 9) == 9 && unlink(name) == 0 && write(file, g_buffer, 9) == 9,
        "mkstemp");
  expect(name, "open", 1, 0);
  expect(name, "write", 2, 18);

  /* Opened past libc's function, as inherited ones are. */
  file = (int)syscall(SYS_open, path_of("unseen"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  check(file >= 0 && write(file, g_buffer, 21) == 21 && write(file, g_buffer, 21) == 21 && close(file) == 0,
        "write");
  expect("unseen", "open", 0, 0);
  expect("unseen", "write", 2, 42);
  expect("unseen", "close", 1, 0);

  /* closedir closes what was given to fdopendir. */
  const int names = open(path_of("."), O_RDONLY | O_DIRECTORY);
  DIR* const directory = fdopendir(dup(names));
  const int number_of = dirfd(directory);
  check(directory != NULL && closedir(directory) == 0, "closedir");
  int ends[2];
  check(pipe(ends) == 0 && ends[0] == number_of, "pipe");
  check(write(ends[1], g_buffer, 100) == 100 && read(ends[0], g_buffer, 100) == 100, "pipe");
  check(close(ends[0]) == 0 && close(ends[1]) == 0 && close(names) == 0, "close");
  expect(".", "read", 0, 0);
  expect(".", "close", 2, 0);

  const int folder = open(g_folder, O_RDONLY | O_DIRECTORY);
  file = openat(folder, "below", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  check(file >= 0 && write(file, g_buffer, 3) == 3 && close(file) == 0, "openat");
  expect("below", "open", 1, 0);
  expect("below", "write", 1, 3);

  /* The standard streams may be files. */
  file = open(path_of("output"), O_RDWR | O_CREAT | O_TRUNC, 0600);
  const int out = dup(1), in = dup(0);
  check(out >= 0 && dup2(file, 1) == 1, "dup2");
  check(printf("%d %s\n", 12, "abc") == 7 && puts("line") >= 0 && putchar('x') == 'x' && fflush(stdout) == 0,
        "printf");
  check(lseek(file, 0, SEEK_SET) == 0 && dup2(file, 0) == 0, "dup2");
  int number = 0;
  check(scanf("%d", &number) == 1 && number == 12 && getchar() == ' ', "scanf");
  check(dup2(out, 1) == 1 && (in < 0 || dup2(in, 0) == 0), "dup2");
  expect("output", "write", 3, 7 + 5 + 1);
  expect("output", "read", 2, 3);
}

/* --- processes --- */

static void processes(void) {
  int file = open(path_of("shared"), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  check(write(file, g_buffer, 100) == 100, "write");
  const pid_t child = fork();
  if (child == 0) {
    check(write(file, g_buffer, 11) == 11 && close(file) == 0, "write");
    file = open(path_of("of_child"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    check(write(file, g_buffer, 5) == 5, "write");
    _exit(0);
  }
  int status = 0;
  check(waitpid(child, &status, 0) == child && status == 0, "the child");

  /* It opens, closes and doubles descriptors of its own while it has our memory. */
  int ends[2];
  check(pipe(ends) == 0, "pipe");
  /* Not known yet when the child uses the number for something else. */
  const int unknown = (int)syscall(SYS_openat, AT_FDCWD, path_of("unknown"), O_WRONLY | O_CREAT, 0600);
  check(unknown >= 0, "openat");
  char* const words[] = {"/bin/echo", "hello", NULL};
  const pid_t borrower = vfork();
  if (borrower == 0) {
    dup2(ends[1], unknown);
    if (write(unknown, "x", 1) != 1) _exit(4);
    close(file);
    dup2(ends[1], 1);
    dup2(ends[1], file);
    close(ends[0]);
    if (open(path_of("of_child"), O_RDONLY) >= 0) execve(words[0], words, environ);
    _exit(3);
  }
  check(waitpid(borrower, &status, 0) == borrower && status == 0, "the child of vfork");
  check(read(ends[0], g_buffer, 100) == 7, "its output");
  check(write(unknown, g_buffer, 7) == 7 && close(unknown) == 0, "write");
  check(write(file, g_buffer, 1000) == 1000, "write");
  check(close(file) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0, "close");
  expect("shared", "write", 3, 1111);
  expect("shared", "close", 2, 0);
  expect("unknown", "write", 1, 7);
  expect("of_child", "write", 1, 5);
  expect("of_child", "open", 1, 0);
}

/* --- threads --- */

enum { kThreads = 4, kTurns = 2000 };

static void* write_much(void* given) {
  const int index = *(int*)given;
  char name[16];
  snprintf(name, sizeof name, "thread%d", index);
  int both = open(path_of("all"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  for (int i = 0; i < kTurns; ++i) {
    int own = open(path_of(name), O_WRONLY | O_CREAT | O_APPEND, 0600);
    check(write(own, g_buffer, 3) == 3 && write(both, g_buffer, 2) == 2 && close(own) == 0, "write");
  }
  close(both);
  return NULL;
}

static void threads(void) {
  pthread_t thread[kThreads];
  int index[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    index[i] = i;
    check(pthread_create(&thread[i], NULL, write_much, &index[i]) == 0, "pthread_create");
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(thread[i], NULL);
  for (int i = 0; i < kThreads; ++i) {
    char name[16];
    snprintf(name, sizeof name, "thread%d", i);
    expect(name, "write", kTurns, 3 * kTurns);
    expect(name, "open", kTurns, 0);
    expect(name, "close", kTurns, 0);
  }
  expect("all", "write", kThreads * kTurns, 2L * kThreads * kTurns);
}

/* --- handlers --- */

static int g_log;
static volatile long g_handled;
static sigjmp_buf g_back;

static void on_alarm(int signal) {
  const int error = errno;
  (void)signal;
  if (write(g_log, g_buffer, 1) == 1) ++g_handled;
  errno = error;
}

static void on_fault(int signal) {
  (void)signal;
  if (write(g_log, g_buffer, 1) == 1) ++g_handled;
  siglongjmp(g_back, 1);
}

static void handlers(void) {
  g_log = open(path_of("log"), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  int data = open(path_of("data"), O_RDWR | O_CREAT | O_TRUNC, 0600);
  static char stack[1 << 14];
  const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  check(sigaltstack(&alternate, NULL) == 0, "sigaltstack");
  struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
  check(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
  long writes = 0;
  for (int round = 0; round < 3; ++round) {
    action =
        (struct sigaction){.sa_handler = on_alarm, .sa_flags = SA_RESTART | (round == 1 ? SA_ONSTACK : 0)};
    if (round == 2) sigfillset(&action.sa_mask);
    check(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    const struct itimerval often = {{0, 200}, {0, 200}};
    check(setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer");
    const long goal = g_handled + 300;
    while (g_handled < goal) {
      for (int i = 0; i < 100; ++i, ++writes) check(pwrite(data, g_buffer, 10, i) == 10, "pwrite");
      if (sigsetjmp(g_back, 1) == 0) *(volatile int*)g_nowhere = 1;
      int file = open(path_of("short"), O_WRONLY | O_CREAT, 0600);
      check(file >= 0 && close(file) == 0, "open");
    }
    const struct itimerval never = {{0, 0}, {0, 0}};
    check(setitimer(ITIMER_REAL, &never, NULL) == 0, "setitimer");
  }
  expect("log", "write", g_handled, g_handled);
  expect("data", "write", writes, 10 * writes);
}

/* --- other stacks --- */

static ucontext_t g_main, g_fiber;
static int g_fiber_file;

static void run_fiber(void) {
  for (int i = 0; i < 100; ++i) {
    check(write(g_fiber_file, g_buffer, 4) == 4, "write");
    swapcontext(&g_fiber, &g_main);
  }
}

static void fibers(void) {
  static char stack[1 << 16];
  g_fiber_file = open(path_of("fiber"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  check(getcontext(&g_fiber) == 0, "getcontext");
  g_fiber.uc_stack.ss_sp = stack;
  g_fiber.uc_stack.ss_size = sizeof stack;
  g_fiber.uc_link = &g_main;
  makecontext(&g_fiber, run_fiber, 0);
  for (int i = 0; i < 100; ++i) swapcontext(&g_main, &g_fiber);
  expect("fiber", "write", 100, 400);
}

/* --- more files, and more call paths, than there is room for; what comes late is large --- */

enum { kPiece = 64 * 1024 };
static char g_large[2 * 1024 * 1024];

static void write_late(void) {
  int file = open(path_of("late"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  check(write(file, g_buffer, 13) == 13, "header");
  check(write(file, g_large, sizeof g_large) == (ssize_t)sizeof g_large && close(file) == 0, "large write");
  file = open(path_of("slowly"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (int i = 0; i < 48; ++i) check(write(file, g_large, kPiece) == kPiece, "piece");
  check(close(file) == 0, "close");
  file = open(path_of("late"), O_RDONLY);
  check(read(file, g_large, sizeof g_large) == (ssize_t)sizeof g_large && close(file) == 0, "large read");
}

static void many(void) {
  enum { kFiles = 10000 };
  for (int i = 0; i < kFiles; ++i) {
    char name[16];
    snprintf(name, sizeof name, "file%d", i);
    int file = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    check(write(file, g_buffer, 13) == 13 && close(file) == 0, "write");
  }
  write_late();
  /* The header went to those without a row of their own, and what came before the first megabyte. */
  expect("late", "write", 1, sizeof g_large);
  expect("late", "read", 1, sizeof g_large);
  expect("slowly", "write", 33, 33 * kPiece);
}

/* A call path for each `way`. */
__attribute__((noinline)) static int descend(int depth, unsigned way, int file) {
  if (depth == 0) return write(file, g_buffer, 1) == 1 ? 1 : 0;
  int done;
  if (way & 1) {
    done = descend(depth - 1, way >> 1, file);
    __asm__ volatile("# one way" : "+r"(done));
  } else {
    done = descend(depth - 1, way >> 1, file);
    __asm__ volatile("# the other way" : "+r"(done));
  }
  return done;
}

static void paths(void) {
  enum { kDepth = 15 };
  int file = open(path_of("early"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (unsigned way = 0; way < 1u << kDepth; ++way) check(descend(kDepth, way, file) == 1, "write");
  check(close(file) == 0, "close");
  expect("early", "write", 1 << kDepth, 1 << kDepth);
  file = open(path_of("small"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (int i = 0; i < 7; ++i) check(write(file, g_buffer, 13) == 13, "small");
  check(close(file) == 0, "close");
  expect("small", "write", 7, 7 * 13);
  write_late();
  expect("late", "write", 2, sizeof g_large + 13);
  expect("late", "read", 1, sizeof g_large);
  expect("slowly", "write", 48, 48 * kPiece);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } kModes[] = {{"posix", posix},         {"stdio", stdio},     {"descriptors", descriptors},
                {"processes", processes}, {"threads", threads}, {"handlers", handlers},
                {"fibers", fibers},       {"many", many},       {"paths", paths}};
  check(argc == 3 && realpath(argv[2], g_folder) != NULL, "usage: files MODE FOLDER");
  for (size_t i = 0; i < sizeof kModes / sizeof *kModes; ++i) {
    if (strcmp(kModes[i].name, argv[1]) != 0) continue;
    kModes[i].run();
    return 0;
  }
  return 2;
}
