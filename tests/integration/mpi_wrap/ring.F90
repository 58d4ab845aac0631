! SPDX-License-Identifier: BSD-3-Clause
! Every rank sends 1000 doubles to its right neighbour, through one of Fortran's three bindings:
! compiled with -DBINDING=1 (mpif.h), 2 (use mpi) or 3 (use mpi_f08).
program ring
#if BINDING == 2
  use mpi
#elif BINDING == 3
  use mpi_f08
#endif
  implicit none
#if BINDING == 1
  include 'mpif.h'
#endif
#if BINDING == 3
  type(MPI_Request) :: request
  type(MPI_Status) :: status
#else
  integer :: request, status(MPI_STATUS_SIZE)
#endif
  integer :: rank, size, ierror, total
  double precision :: sent(1000), got(1000)

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  sent = rank
  call MPI_Isend(sent, 1000, MPI_DOUBLE_PRECISION, mod(rank + 1, size), 5, MPI_COMM_WORLD, request, ierror)
  call MPI_Recv(got, 1000, MPI_DOUBLE_PRECISION, mod(rank + size - 1, size), 5, MPI_COMM_WORLD, status, ierror)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (got(1000) /= mod(rank + size - 1, size)) call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  if (rank == 0) print '(a,i0)', 'ring done ', total
  call MPI_Finalize(ierror)
end program ring
