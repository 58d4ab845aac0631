! A loop with iterations that take longer and longer, and a serial part. Prints as JSON what the threads measured
! themselves, as openmp.c does. "! line of X" marks the lines that a report has to name.
program openmp_truth
  use omp_lib
  implicit none
  integer, parameter :: most_threads = 64
  double precision :: first(16, most_threads), last(16, most_threads)
  double precision :: start, time_s, work_s, wait_s, begin_s, serial_s, finish
  integer :: r, i, k, threads

  time_s = 0; work_s = 0; wait_s = 0; begin_s = 0; serial_s = 0; threads = 0
  do r = 1, 20
    start = omp_get_wtime()
    call spin(0.010d0) ! line of serial
    serial_s = serial_s + omp_get_wtime() - start
    start = omp_get_wtime()
    !$omp parallel private(i) ! line of fortran
    i = omp_get_thread_num() + 1
    first(1, i) = omp_get_wtime()
    last(1, i) = first(1, i)
    if (i == 1) threads = omp_get_num_threads()
    !$omp do schedule(static)
    do k = 1, 40
      call spin(0.0001d0 * k)
      last(1, i) = omp_get_wtime()
    end do
    !$omp end do
    !$omp end parallel
    finish = omp_get_wtime()
    time_s = time_s + finish - start
    do i = 1, threads
      begin_s = begin_s + first(1, i) - start
      work_s = work_s + last(1, i) - first(1, i)
      wait_s = wait_s + finish - last(1, i)
    end do
  end do
  print '(a,f14.9,a,f14.9,a,f14.9,a,f14.9,a,i0,a,f14.9,a)', '{"time_s":', time_s, ', "work_s":', work_s, ', "wait_s":', &
    wait_s, ', "begin_s":', begin_s, ', "count": 20, "threads": ', threads, ', "serial_s":', serial_s, '}'

contains
  subroutine spin(seconds)
    double precision, intent(in) :: seconds
    double precision :: until
    until = omp_get_wtime() + seconds
    do while (omp_get_wtime() < until)
    end do
  end subroutine spin
end program openmp_truth
