// SPDX-License-Identifier: BSD-3-Clause
// A trait method, a generic function with a closure inlined into it. Usage: heat SECONDS
use std::hint::black_box;
use std::time::Instant;

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

fn main() {
    let seconds: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let start = Instant::now();
    let mut grid = solver::Grid { cells: vec![1.0f64; 1000] };
    let mut sum = 0u64;
    while start.elapsed().as_secs_f64() < seconds {
        grid.step(300);
        solver::each(300_000, |i| sum = black_box(sum + i)); // line of closure
    }
    if sum == 1 {
        println!("{}", grid.cells[0]);
    }
}
