"""A rank of torchrun or of another launcher of workers: works, starts a helper process, and writes its number and process id to the file given. With
`fail`, rank 1 fails when it is started for the first time, once the others have done their work."""

import os
import subprocess
import sys
import time

rank = int(os.environ.get("RANK") or os.environ["HOROVOD_RANK"])
restart = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))


def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))


subprocess.run([sys.executable, "-c", "pass"], check=True)
work(0.1)
with open(sys.argv[1], "a", encoding="ascii") as file:
    file.write(f"{restart} {rank} {os.getpid()}\n")
if restart == 0 and "fail" in sys.argv[2:]:
    while True:  # torchrun ends the other ranks
        with open(sys.argv[1], encoding="ascii") as file:
            if rank == 1 and len(file.readlines()) == int(os.environ["WORLD_SIZE"]):
                sys.exit(3)
        time.sleep(0.01)
