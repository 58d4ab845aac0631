"""Data-parallel training of a small neural network with mpi4py and numpy.

Every rank trains on its own batches; after each step the ranks average their gradients. One
rank, the last, reads data that needs cleaning first. That is the deliberate mistake here:
all other ranks wait for it in average(), and a profile should say so.

    mpirun -n 4 clusterprof python3 examples/train.py [STEPS]
"""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
is_straggler = rank == size - 1

BATCH, INPUTS, HIDDEN, OUTPUTS = 256, 256, 256, 10
rng = np.random.default_rng(seed=rank)


def load_batch():
    """One batch of made-up samples, and which class each belongs to."""
    samples = rng.standard_normal((BATCH, INPUTS), dtype=np.float32)
    labels = rng.integers(0, OUTPUTS, BATCH)
    if is_straggler:
        samples = clean(samples)
    return samples, labels


def clean(samples):
    """Replaces outliers one by one in Python where numpy.clip would do: the line at fault."""
    for row in samples[:40]:
        for i, value in enumerate(row):
            row[i] = min(max(value, -2.0), 2.0)
    return np.clip(samples, -2.0, 2.0)


def gradients(weights, samples, labels):
    """Loss of a two-layer network and the gradient of both weight matrices."""
    first, second = weights
    hidden = np.maximum(samples @ first, 0.0)
    scores = hidden @ second
    scores -= scores.max(axis=1, keepdims=True)
    probability = np.exp(scores)
    probability /= probability.sum(axis=1, keepdims=True)
    loss = -np.log(probability[np.arange(BATCH), labels]).mean()
    probability[np.arange(BATCH), labels] -= 1.0
    back = (probability @ second.T) * (hidden > 0)
    return loss, [samples.T @ back / BATCH, hidden.T @ probability / BATCH]


def average(gradient):
    """The mean of `gradient` over all ranks."""
    mean = np.empty_like(gradient)
    world.Allreduce(gradient, mean, op=MPI.SUM)
    return mean / size


def step(weights):
    samples, labels = load_batch()
    loss, gradient = gradients(weights, samples, labels)
    for weight, own in zip(weights, gradient):
        weight -= 0.1 * average(own)
    return loss


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    start = np.random.default_rng(seed=0)
    weights = [start.standard_normal((INPUTS, HIDDEN), dtype=np.float32) * 0.05,
               start.standard_normal((HIDDEN, OUTPUTS), dtype=np.float32) * 0.05]
    for number in range(steps):
        loss = step(weights)
        if number % 100 == 99 or number == steps - 1:
            mean = world.allreduce(float(loss)) / size
            if rank == 0:
                print(f"step {number + 1}: loss {mean:.3f}", flush=True)


if __name__ == "__main__":
    main()
