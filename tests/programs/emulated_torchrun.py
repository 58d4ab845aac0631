"""Does what torchrun does to its workers, without torch: RANKS ATTEMPTS COMMAND... in the environment gives them their
variables, ends all when one fails, and starts them again. NODE and NODES in the environment: one of several, each with
RANKS workers."""

import os
import subprocess
import sys
import time

ranks, attempts, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
node, nodes = int(os.environ.get("NODE", 0)), int(os.environ.get("NODES", 1))

for attempt in range(attempts):
    workers = []
    for local in range(ranks):
        variables = {"RANK": node * ranks + local, "LOCAL_RANK": local, "WORLD_SIZE": nodes * ranks,
                     "LOCAL_WORLD_SIZE": ranks, "GROUP_RANK": node, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500,
                     "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": attempt,
                     "TORCHELASTIC_MAX_RESTARTS": attempts - 1}
        workers.append(subprocess.Popen(command, env={**os.environ, **{k: str(v) for k, v in variables.items()}}))
    while any(worker.poll() is None for worker in workers):
        if any(worker.poll() not in (None, 0) for worker in workers):
            for worker in workers:
                worker.terminate()
        time.sleep(0.01)
    if all(worker.returncode == 0 for worker in workers):
        sys.exit(0)
sys.exit(1)
