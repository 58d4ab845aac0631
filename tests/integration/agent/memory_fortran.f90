! SPDX-License-Identifier: BSD-3-Clause
! Allocates 40 MB and keeps 16 MB of them, in one subroutine.
module work
  implicit none
  real(8), allocatable, save :: kept(:)
contains
  subroutine fill()
    real(8), allocatable :: dropped(:)
    integer :: i
    allocate(kept(2000000))
    kept = 1.0d0
    do i = 1, 3
      allocate(dropped(1000000))
      dropped = 2.0d0
      kept(i) = dropped(i)
      deallocate(dropped)
    end do
  end subroutine fill
end module work

program memory
  use work
  implicit none
  call fill()
  print '(a)', 'fortran 40000000 16000000'
  if (sum(kept) < 0) stop 1
end program memory
