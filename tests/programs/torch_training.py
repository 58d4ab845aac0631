"""Trains with torch, as little as it takes: a loop of products whose operators are known. Prints as JSON the result, how often each
was called, and on which lines the forward operators are. `torch_training.py cost` prints what an operator takes."""

import json
import sys
import time

import torch

STEPS, PRODUCTS = 20, 3
torch.set_num_threads(1)
torch.manual_seed(1)


def line_of(text):
    with open(__file__, encoding="utf-8") as file:
        return next(n for n, line in enumerate(file, 1) if line.rstrip().endswith("# " + text))


def forward(x, weight):
    for _ in range(PRODUCTS):
        x = torch.matmul(x, weight)  # product
        x = torch.relu(x)  # relu
    return x.sum()  # sum


def train():
    weight = torch.rand(8, 8, requires_grad=True)
    data = torch.rand(4, 8)
    layer = torch.nn.Linear(8, 2)
    result = 0.0
    for _ in range(STEPS):
        with torch.autograd.profiler.record_function("forward"):
            loss = forward(data, weight)
        with torch.autograd.profiler.record_function("backward"):
            loss.backward()
        with torch.autograd.profiler.record_function("layer"):
            out = layer(data)  # layer
            out.backward(torch.ones(4, 2))
        result += float(weight.grad.sum()) + float(layer.weight.grad.sum())
        weight.grad = None
    return result


def cost():
    """Nanoseconds of an operator, without a node and with one."""
    rounds, operators = 5, 20_000
    x, y, one = torch.zeros(1), torch.zeros(1, requires_grad=True), torch.ones(1)

    def least(body):
        times = []
        for _ in range(rounds):
            begin = time.perf_counter_ns()
            for _ in range(operators):
                body()
            times.append((time.perf_counter_ns() - begin) / operators)
        return min(times)

    return {"operator_ns": least(lambda: x.add_(one)), "node_ns": least(lambda: y * one), "operators": rounds * operators}


if sys.argv[1:] == ["cost"]:
    print(json.dumps(cost()))
else:
    print(json.dumps({"result": train(), "steps": STEPS, "products": PRODUCTS,
                      "lines": {what: line_of(what) for what in ("product", "relu", "sum", "layer")}}))
