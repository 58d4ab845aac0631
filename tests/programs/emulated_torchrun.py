"""Does what torchrun does to its workers, without torch: RANKS ATTEMPTS COMMAND... in the environment gives them their
variables, ends all when one fails, and starts them again. NODE and NODES in the environment: one of several, each with
RANKS workers. Under the name of another launcher of workers, it sets that one's variables."""

import os
import subprocess
import sys
import time

ranks, attempts, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
launcher = os.path.basename(sys.argv[0])
node, nodes = int(os.environ.get("NODE", 0)), int(os.environ.get("NODES", 1))


def variables_of(local, attempt):
    rank, size = node * ranks + local, nodes * ranks
    if launcher == "horovodrun":  # with gloo
        return {"HOROVOD_RANK": rank, "HOROVOD_SIZE": size, "HOROVOD_LOCAL_RANK": local, "HOROVOD_LOCAL_SIZE": ranks,
                "HOROVOD_CROSS_RANK": node, "HOROVOD_CROSS_SIZE": nodes, "HOROVOD_CONTROLLER": "gloo",
                "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT": 41234}
    common = {"RANK": rank, "LOCAL_RANK": local, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}
    if launcher == "deepspeed":
        return {**common, "LOCAL_SIZE": ranks, "CROSS_RANK": node, "CROSS_SIZE": nodes}
    torch = {**common, "LOCAL_WORLD_SIZE": ranks, "GROUP_RANK": node, "TORCHELASTIC_RUN_ID": "none",
             "TORCHELASTIC_RESTART_COUNT": attempt, "TORCHELASTIC_MAX_RESTARTS": attempts - 1}
    return {**torch, "ACCELERATE_MIXED_PRECISION": "no"} if launcher == "accelerate" else torch


for attempt in range(attempts):
    workers = []
    for local in range(ranks):
        variables = {name: str(value) for name, value in variables_of(local, attempt).items()}
        workers.append(subprocess.Popen(command, env={**os.environ, **variables}))
    while any(worker.poll() is None for worker in workers):
        if any(worker.poll() not in (None, 0) for worker in workers):
            for worker in workers:
                worker.terminate()
        time.sleep(0.01)
    if all(worker.returncode == 0 for worker in workers):
        sys.exit(0)
sys.exit(1)
