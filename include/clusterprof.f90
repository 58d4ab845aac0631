! SPDX-License-Identifier: BSD-3-Clause
! clusterprof.h for Fortran: compile this file along with the program. The functions are found at run time if
! the program runs under clusterprof; otherwise the calls do nothing. Needs dlsym (-ldl before glibc 2.34).
module clusterprof
  use, intrinsic :: iso_c_binding, only: c_char, c_funptr, c_int64_t, c_null_char, c_null_ptr, c_ptr, &
                                         c_associated, c_f_procpointer
  implicit none
  private
  public :: region_begin, region_end, pause_recording, resume_recording

  abstract interface
    subroutine begin_function(name, n) bind(c)
      import :: c_char, c_int64_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: n
    end subroutine
    subroutine end_function(name) bind(c)
      import :: c_char
      character(kind=c_char), intent(in) :: name(*)
    end subroutine
    subroutine plain_function() bind(c)
    end subroutine
  end interface

  interface
    function dlsym(handle, name) bind(c, name="dlsym") result(address)
      import :: c_char, c_funptr, c_ptr
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr) :: address
    end function
  end interface

  procedure(begin_function), pointer, save :: begin_found => null()
  procedure(end_function), pointer, save :: end_found => null()
  procedure(plain_function), pointer, save :: pause_found => null(), resume_found => null()
  logical, save :: looked = .false.

contains

  ! n: a number that tells instances apart, such as that of a time step.
  subroutine region_begin(name, n)
    character(len=*), intent(in) :: name
    integer(c_int64_t), intent(in), optional :: n
    if (.not. looked) call look
    if (.not. associated(begin_found)) return
    if (present(n)) then
      call begin_found(trim(name)//c_null_char, n)
    else
      call begin_found(trim(name)//c_null_char, -1_c_int64_t)
    end if
  end subroutine

  subroutine region_end(name)
    character(len=*), intent(in) :: name
    if (.not. looked) call look
    if (associated(end_found)) call end_found(trim(name)//c_null_char)
  end subroutine

  subroutine pause_recording()
    if (.not. looked) call look
    if (associated(pause_found)) call pause_found()
  end subroutine

  subroutine resume_recording()
    if (.not. looked) call look
    if (associated(resume_found)) call resume_found()
  end subroutine

  ! Threads that come here at the same time find the same functions.
  subroutine look()
    type(c_funptr) :: address
    address = dlsym(c_null_ptr, "clusterprof_region_begin_v1"//c_null_char)
    if (c_associated(address)) call c_f_procpointer(address, begin_found)
    address = dlsym(c_null_ptr, "clusterprof_region_end_v1"//c_null_char)
    if (c_associated(address)) call c_f_procpointer(address, end_found)
    address = dlsym(c_null_ptr, "clusterprof_pause_v1"//c_null_char)
    if (c_associated(address)) call c_f_procpointer(address, pause_found)
    address = dlsym(c_null_ptr, "clusterprof_resume_v1"//c_null_char)
    if (c_associated(address)) call c_f_procpointer(address, resume_found)
    looked = .true.
  end subroutine

end module
