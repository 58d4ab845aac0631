/* SPDX-License-Identifier: BSD-3-Clause */
/* Names parts of a program ("regions") for clusterprof, and pauses its recording. There is nothing to link:
 * the functions are found if the program runs under clusterprof. Otherwise each of them costs one test of a
 * pointer.
 *
 *   clusterprof_region_begin("assemble");
 *   ...
 *   clusterprof_region_end("assemble");
 *
 * Any thread; not in signal handlers that may interrupt these functions themselves. errno is preserved. C99
 * and C++; for Fortran see clusterprof.f90, for Python `import clusterprof`. docs/regions.md says how the
 * report shows regions and pauses. */
#ifndef CLUSTERPROF_H
#define CLUSTERPROF_H

#include <stdint.h>

#if defined(__linux__) && defined(__x86_64__) && defined(__GNUC__)

/* The address is taken from the global offset table: in programs that are not position independent the linker
 * would take a plain weak reference for null. */
#define CLUSTERPROF_FIND_(symbol, found)                                                          \
  __asm__(".weak " #symbol "\n\t{movq " #symbol "@GOTPCREL(%%rip), %0|mov %0, qword ptr " #symbol \
          "@GOTPCREL[rip]}"                                                                       \
          : "=r"(found))

/* The calling thread enters a region, inside its current one if there is any. `name` is copied; its first
 * 95 bytes count. At most 256 regions per process; a name inside another region is a region of its own.
 */
static inline void clusterprof_region_begin_n(const char* name, int64_t n) {
  void (*found)(const char*, int64_t);
  CLUSTERPROF_FIND_(clusterprof_region_begin_v1, found);
  if (found) found(name, n);
}

/* The thread leaves its innermost region of that name, and those inside it that it has not left; with NULL
 * the innermost one. */
static inline void clusterprof_region_end(const char* name) {
  void (*found)(const char*);
  CLUSTERPROF_FIND_(clusterprof_region_end_v1, found);
  if (found) found(name);
}

/* Recording of all threads stops until clusterprof_resume. Pauses nest: the last resume counts. */
static inline void clusterprof_pause(void) {
  void (*found)(void);
  CLUSTERPROF_FIND_(clusterprof_pause_v1, found);
  if (found) found();
}
static inline void clusterprof_resume(void) {
  void (*found)(void);
  CLUSTERPROF_FIND_(clusterprof_resume_v1, found);
  if (found) found();
}

#undef CLUSTERPROF_FIND_

#else

static inline void clusterprof_region_begin_n(const char* name, int64_t n) { (void)name, (void)n; }
static inline void clusterprof_region_end(const char* name) { (void)name; }
static inline void clusterprof_pause(void) {}
static inline void clusterprof_resume(void) {}

#endif

/* n of clusterprof_region_begin_n is a number that tells instances apart, such as that of a time step: the
 * report says which one took longest. Negative: none. */
static inline void clusterprof_region_begin(const char* name) { clusterprof_region_begin_n(name, -1); }

#ifdef __cplusplus

namespace clusterprof {

// A region that lasts as long as the object. `name` is read again at the end.
class scope {
 public:
  explicit scope(const char* name, int64_t n = -1) : name_(name) { clusterprof_region_begin_n(name, n); }
  ~scope() { clusterprof_region_end(name_); }

 private:
  scope(const scope&);
  scope& operator=(const scope&);
  const char* name_;
};

// A pause that lasts as long as the object.
class paused {
 public:
  paused() { clusterprof_pause(); }
  ~paused() { clusterprof_resume(); }

 private:
  paused(const paused&);
  paused& operator=(const paused&);
};

}  // namespace clusterprof

#endif
#endif
