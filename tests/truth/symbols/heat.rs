// SPDX-License-Identifier: BSD-3-Clause
// A trait method, a generic function with a closure inlined into it. Usage: heat SECONDS
use std::hint::black_box;
use std::os::raw::{c_int, c_long};

mod solver {
    pub struct Grid<T> {
        pub cells: Vec<T>,
    }
    pub trait Step {
        fn step(&mut self, times: u64);
    }
    impl Step for Grid<f64> {
        #[inline(never)]
        fn step(&mut self, times: u64) {
            for _ in 0..times {
                for i in 0..self.cells.len() {
                    self.cells[i] = std::hint::black_box(self.cells[i] * 0.999 + 1.0); // line of step
                }
            }
        }
    }
    #[inline(never)]
    pub fn each<F: FnMut(u64)>(times: u64, mut visit: F) {
        for i in 0..times {
            visit(i);
        }
    }
}

use solver::Step;

extern "C" {
    fn clock_gettime(clock: c_int, time: *mut [c_long; 2]) -> c_int;
}

fn cpu_seconds() -> f64 {
    const CLOCK_THREAD_CPUTIME_ID: c_int = 3;
    let mut time = [0; 2];
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time[0] as f64 + 1e-9 * time[1] as f64
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let end = cpu_seconds() + seconds;
    let mut grid = solver::Grid { cells: vec![1.0f64; 1000] };
    let mut sum = 0u64;
    while cpu_seconds() < end {
        grid.step(300);
        solver::each(300_000, |i| sum = black_box(sum + i)); // line of closure
    }
    if sum == 1 {
        println!("{}", grid.cells[0]);
    }
}
