! SPDX-License-Identifier: BSD-3-Clause
! include/clusterprof.f90 in use.
program regions_f
  use, intrinsic :: iso_c_binding, only: c_int64_t
  use clusterprof
  implicit none
  integer :: step
  call region_begin("outer")
  do step = 0, 2
    call region_begin("inner ", int(step, c_int64_t))
    call pause_recording()
    call resume_recording()
    call region_end("inner")
  end do
  call region_end("outer")
end program
