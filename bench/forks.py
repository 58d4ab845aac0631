#!/usr/bin/env python3
"""How much longer a program takes that does nothing but start children and wait for them.

    fork              the child calls _exit
    vfork + exec      the child executes a program that does nothing
    posix_spawn       the same by posix_spawn

Runs without clusterprof, with it, and with --no-children alternate; everything is pinned together on one core. Printed are, per child,
the elapsed time and the CPU time of the program with its children, as medians and as medians of the ratios to the mean of the two
neighbouring runs without clusterprof; and the CPU time of everything else, which is launcher and collector with their start and end.

    bench/forks.py [--build DIR] [--pairs N] [--children N] [--cpu N|all] [--only fork,vfork,spawn]
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

PROGRAM = r'''
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern char** environ;
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}
static double cpu(int who) {
  struct rusage used;
  getrusage(who, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}
int main(int argc, char** argv) {
  if (argc < 3) return 0;
  const int children = atoi(argv[2]);
  char* const nothing[] = {argv[0], NULL};
  const double begin = now();
  for (int i = 0; i < children; ++i) {
    pid_t child = -1;
    if (strcmp(argv[1], "fork") == 0) {
      child = fork();
      if (child == 0) _exit(0);
    } else if (strcmp(argv[1], "vfork") == 0) {
      child = vfork();
      if (child == 0) {
        execve(nothing[0], nothing, environ);
        _exit(1);
      }
    } else if (posix_spawn(&child, nothing[0], NULL, NULL, nothing, environ) != 0) {
      return 1;
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  printf("%.9f %.9f\n", now() - begin, cpu(RUSAGE_SELF) + cpu(RUSAGE_CHILDREN));
  return 0;
}
'''


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command, folder, cpu, children):
    """Microseconds per child: elapsed, CPU time of the program with its children, CPU time of all else."""
    pin = (lambda: os.sched_setaffinity(0, {cpu})) if cpu is not None else None
    before_s = cpu_s()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, preexec_fn=pin)
    all_s = cpu_s() - before_s
    shutil.rmtree(os.path.join(folder, "out"), ignore_errors=True)
    if done.returncode != 0:
        sys.exit(f"{command} failed: {done.returncode} {done.stderr}")
    elapsed_s, program_s = (float(word) for word in done.stdout.split())
    return tuple(1e6 * seconds / children for seconds in (elapsed_s, program_s, all_s - program_s))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--children", type=int, default=1000)
    parser.add_argument("--cpu", default="1", help="the core to pin everything on, or all")
    parser.add_argument("--only", default="fork,vfork,spawn")
    arguments = parser.parse_args()
    cpu = None if arguments.cpu == "all" else int(arguments.cpu)
    tool = os.path.join(os.path.abspath(arguments.build), "bin", "clusterprof")
    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        source, program = os.path.join(folder, "children.c"), os.path.join(folder, "children")
        with open(source, "w", encoding="ascii") as file:
            file.write(PROGRAM)
        subprocess.run(["cc", "-O2", "-o", program, source], check=True)
        print("| children by | under | elapsed, µs | ratio | CPU, µs | ratio | launcher and collector, CPU, µs |\n|---|---|---|---|---|---|---|")
        for way, name in (("fork", "fork"), ("vfork", "vfork + exec"), ("spawn", "posix_spawn")):
            if way not in arguments.only.split(","):
                continue
            command = [program, way, str(arguments.children)]
            ways = {"clusterprof": (), "clusterprof --no-children": ("--no-children",)}
            bare, with_us, ratios = [run(command, folder, cpu, arguments.children)], {w: [] for w in ways}, {w: [] for w in ways}
            for _ in range(arguments.pairs):
                for under, options in ways.items():
                    ours = run([tool, "-q", "-o", "out", *options, "--", *command], folder, cpu, arguments.children)
                    bare.append(run(command, folder, cpu, arguments.children))
                    with_us[under].append(ours)
                    ratios[under].append([2 * ours[i] / (bare[-2][i] + bare[-1][i]) for i in (0, 1)])
            median = lambda rows, i: statistics.median(row[i] for row in rows)
            print(f"| {name} | | {median(bare, 0):.0f} | | {median(bare, 1):.0f} | | |")
            for under in ways:
                print(f"| {name} | {under} | {median(with_us[under], 0):.0f} | {median(ratios[under], 0):.2f} | "
                      f"{median(with_us[under], 1):.0f} | {median(ratios[under], 1):.2f} | {median(with_us[under], 2):.0f} |", flush=True)


if __name__ == "__main__":
    main()
