! SPDX-License-Identifier: BSD-3-Clause
module kernels
  implicit none
contains
  subroutine relax(x, n)
    integer, intent(in) :: n
    real, intent(inout) :: x(n)
    integer :: i
    do i = 2, n
      x(i) = 0.5 * (x(i) + x(i - 1))
    end do
  end subroutine relax
end module kernels
