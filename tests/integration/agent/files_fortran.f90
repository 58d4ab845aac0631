! SPDX-License-Identifier: BSD-3-Clause
! As files.c, with Fortran's formatted and unformatted files.
program files
  implicit none
  character(len=512) :: folder
  character(len=600) :: path
  real(8) :: numbers(1000), back(1000)
  integer :: i, unit
  integer(8) :: bytes
  call get_command_argument(1, folder)
  numbers = [(real(i, 8), i = 1, 1000)]

  path = trim(folder) // '/stream'
  open(newunit=unit, file=trim(path), access='stream', form='unformatted', status='replace', action='readwrite')
  do i = 1, 50
    write(unit) numbers
  end do
  do i = 1, 50
    read(unit, pos=(i - 1) * 8000 + 1) back
    if (any(back /= numbers)) stop 1
  end do
  close(unit)
  inquire(file=trim(path), size=bytes)
  call expect('write', bytes)
  call expect('open', 0_8)

  path = trim(folder) // '/formatted'
  open(newunit=unit, file=trim(path), status='replace', action='write')
  do i = 1, 2000
    write(unit, '(a,i8)') 'number', i
  end do
  close(unit)
  inquire(file=trim(path), size=bytes)
  call expect('write', bytes)
  open(newunit=unit, file=trim(path), status='old', action='read')
  do i = 1, 2000
    read(unit, *)
  end do
  close(unit)
  call expect('read', bytes)
contains
  subroutine expect(operation, bytes)
    character(len=*), intent(in) :: operation
    integer(8), intent(in) :: bytes
    print '(a,1x,a,1x,a,1x,i0,1x,i0)', 'expect', trim(path), operation, merge(1, -1, operation == 'open'), bytes
  end subroutine
end program
