! SPDX-License-Identifier: BSD-3-Clause
! A module procedure, an internal procedure of it, an OpenMP region and a main program share the time.
! Usage: heat SECONDS
module kernels
  implicit none
contains
  subroutine relax(x, times)
    real(8), intent(inout) :: x(:)
    integer, intent(in) :: times
    integer :: i, k
    do k = 1, times
      do i = 1, size(x)
        x(i) = x(i) * 0.999d0 + k  ! line of relax
      end do
      call shift(k)
    end do
  contains
    subroutine shift(by)
      integer, intent(in) :: by
      integer :: j
      do j = 1, size(x)
        x(j) = x(j) * 0.998d0 + by  ! line of shift
      end do
    end subroutine shift
  end subroutine relax

  subroutine scale(x, times)
    real(8), intent(inout) :: x(:)
    integer, intent(in) :: times
    integer :: i, k
    do k = 1, times
      !$omp parallel do num_threads(1)
      do i = 1, size(x)
        x(i) = x(i) / 1.0001d0 + k  ! line of scale
      end do
      !$omp end parallel do
    end do
  end subroutine scale
end module kernels

program heat
  use kernels
  implicit none
  real(8) :: x(1000), begin, now, seconds
  character(len=32) :: text
  integer :: i, k
  call get_command_argument(1, text)
  read (text, *) seconds
  x = 1
  call cpu_time(begin)
  do
    call relax(x, 200)
    call scale(x, 200)
    do k = 1, 200
      do i = 1, size(x)
        x(i) = x(i) * 0.997d0 + k  ! line of heat
      end do
    end do
    call cpu_time(now)
    if (now - begin > seconds) exit
  end do
  if (x(1) < 0) print *, x(1)
end program heat
