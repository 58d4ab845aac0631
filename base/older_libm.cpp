// SPDX-License-Identifier: BSD-3-Clause
// Functions of libm that have a newer version from glibc 2.29 on, which differs only in how it sets errno.
// The linker sends all calls of exp, log and pow here (clusterprof_link_with_sysroot in
// cmake/Clusterprof.cmake).
extern "C" {

double clusterprof_old_exp(double x) noexcept;
double clusterprof_old_log(double x) noexcept;
double clusterprof_old_pow(double x, double y) noexcept;
__asm__(
    ".symver clusterprof_old_exp,exp@GLIBC_2.2.5\n"
    ".symver clusterprof_old_log,log@GLIBC_2.2.5\n"
    ".symver clusterprof_old_pow,pow@GLIBC_2.2.5\n");

double __wrap_exp(double x) noexcept { return clusterprof_old_exp(x); }
double __wrap_log(double x) noexcept { return clusterprof_old_log(x); }
double __wrap_pow(double x, double y) noexcept { return clusterprof_old_pow(x, y); }

}  // extern "C"
