"""Slurm tasks without MPI: those of an even number work in even(), the others in odd(), SECONDS (default 0.3) of
processor time each. Every task says who it is: "task NUMBER NODE PID ARGUMENTS...", in JSON.

    srun -n4 tasks.py [SECONDS [ARGUMENTS...]]
"""

import json
import os
import socket
import sys
import time


def even(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def odd(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def main():
    number = int(os.environ["SLURM_PROCID"])
    print(json.dumps(["task", number, socket.gethostname(), os.getpid(), *sys.argv[1:]]), flush=True)
    (odd if number % 2 else even)(float(sys.argv[1]) if len(sys.argv) > 1 else 0.3)


if __name__ == "__main__":
    main()
