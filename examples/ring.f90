! A token travels around all ranks; every rank works on it before passing it on.
!
!     mpifort -O2 -g ring.f90 -o ring
!     mpirun -n 4 clusterprof ./ring [ROUNDS]
program ring
  use mpi
  implicit none
  integer, parameter :: length = 4096
  integer :: rank, ranks, next, previous, rounds, round, error
  integer :: status(MPI_STATUS_SIZE)
  character(len=16) :: argument
  double precision :: token(length)

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  next = mod(rank + 1, ranks)
  previous = mod(rank - 1 + ranks, ranks)
  rounds = 200
  if (command_argument_count() > 0) then
    call get_command_argument(1, argument)
    read (argument, *) rounds
  end if

  token = 0.0d0
  do round = 1, rounds
    if (rank == 0) then
      call work(token)
      call MPI_Send(token, length, MPI_DOUBLE_PRECISION, next, round, MPI_COMM_WORLD, error)
      call MPI_Recv(token, length, MPI_DOUBLE_PRECISION, previous, round, MPI_COMM_WORLD, status, error)
    else
      call MPI_Recv(token, length, MPI_DOUBLE_PRECISION, previous, round, MPI_COMM_WORLD, status, error)
      call work(token)
      call MPI_Send(token, length, MPI_DOUBLE_PRECISION, next, round, MPI_COMM_WORLD, error)
    end if
  end do
  if (rank == 0) print '(a, f12.6)', 'token ', sum(token) / length
  call MPI_Finalize(error)

contains

  subroutine work(values)
    double precision, intent(inout) :: values(:)
    integer :: i, pass
    do pass = 1, 10
      do i = 1, size(values)
        values(i) = sin(values(i) + 0.001d0 * i) + 1.0d0
      end do
    end do
  end subroutine work
end program ring
