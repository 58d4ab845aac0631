"""torch_operators.py LIBRARY [SCENARIO]: calls operators of a library that has those functions of libtorch by which they are seen
(tests/integration/torch_ops), as programs with PyTorch do. Prints as JSON on which lines the forward operators were called."""

import ctypes
import json
import sys
import threading
import time

library = ctypes.CDLL(sys.argv[1])
SCENARIO = sys.argv[2] if len(sys.argv) > 2 else "all"
USER = 7  # at::RecordScope::USER_SCOPE
library.fake_next_node.restype = library.fake_thread.restype = ctypes.c_uint64
library.fake_begin.restype = ctypes.c_void_p
library.fake_end.argtypes = [ctypes.c_void_p]
library.fake_backward.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_uint64]
library.fake_cost.restype = ctypes.c_double


def names(*texts):
    return (ctypes.c_char_p * len(texts))(*[text.encode() for text in texts])


MM, LINEAR, NO_NODE = names("aten::mm"), names("aten::linear", "aten::addmm"), names("aten::ones")


def forward_mm():
    library.fake_operators(MM, 1, 1)  # forward of mm


def forward_linear():
    library.fake_operators(LINEAR, 2, 1)  # forward of linear


def forward_elsewhere():
    library.fake_operators(MM, 1, 1)  # forward elsewhere


def line_of(text):
    with open(__file__, encoding="utf-8") as file:
        return next(n for n, line in enumerate(file, 1) if line.rstrip().endswith("# " + text))


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


class Scope:
    """record_function of PyTorch."""

    def __init__(self, name):
        self.name = name.encode()

    def __enter__(self):
        self.record = library.fake_begin(self.name, USER)

    def __exit__(self, *_):
        library.fake_end(self.record)


def everything():
    own = library.fake_thread()
    for n in range(1000):
        forward_mm()
    for n in range(10):
        forward_linear()
        library.fake_operators(NO_NODE, 1, 0)
    with Scope("step"):
        for n in range(3):
            with Scope("inner"):
                library.fake_operators(NO_NODE, 1, 0)
    for n in range(5):
        assert library.fake_throw(b"aten::throws") == 1

    # Backward on a thread of its own. What sums gradients up has no node of its own.
    def backward():
        for n in range(1000):
            library.fake_backward(b"MmBackward0", b"aten::t", n, own)
        for n in range(1000, 1010):
            library.fake_backward(b"AddmmBackward0", b"aten::mm", n, own)
        for n in range(4):
            library.fake_backward(b"torch::autograd::AccumulateGrad", b"aten::detach", -1, 0)

    in_thread(backward)

    # The numbers of another thread's nodes are the same as those of this one.
    numbers = []

    def forward():
        numbers.append(library.fake_thread())
        for n in range(7):
            forward_elsewhere()

    in_thread(forward)
    for n in range(7):
        library.fake_backward(b"MmBackward0", b"aten::t", n, numbers[0])


def lost():
    """The first nodes are forgotten when there are too many."""
    nodes, lot = 65536 + 64, 64
    own = library.fake_thread()
    for n in range(nodes // lot):
        library.fake_operators(MM, 1, lot)
    for n in range(70):
        library.fake_backward(b"MmBackward0", b"aten::t", n, own)


def other_thread():
    """A range that ends on another thread than it has begun on, inside one that ends where it should."""
    forward_mm()
    with Scope("around"):
        record = library.fake_begin(b"asynchronous", USER)
        in_thread(lambda: library.fake_end(record))
    for n in range(3):
        forward_mm()


def nothing():
    """Goes on for long enough to be sampled, which tells what is loaded."""
    end_s = time.process_time() + 0.5
    while time.process_time() < end_s:
        pass


if SCENARIO == "cost":
    print(json.dumps({"pair_ns": min(library.fake_cost(200_000) for _ in range(5))}))
else:
    {"all": everything, "lost": lost, "other_thread": other_thread, "nothing": nothing}[SCENARIO]()
    print(json.dumps({what: line_of("forward " + what) for what in ("of mm", "of linear", "elsewhere")}))
