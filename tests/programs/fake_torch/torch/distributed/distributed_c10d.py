"""Functions of torch.distributed for two ranks of torchrun, which really wait for each other over a socket."""

import os
import socket
import struct
import time

OWN_S = 0.010  # CPU time of all_reduce itself

_peer = None


def init_process_group(path):
    """path: of the socket at which the ranks meet."""
    global _peer
    if int(os.environ["RANK"]) == 0:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path + ".new")
            listener.listen()
            os.rename(path + ".new", path)
            _peer = listener.accept()[0]
        return
    while not os.path.exists(path):
        time.sleep(0.01)
    _peer = socket.socket(socket.AF_UNIX)
    _peer.connect(path)


def _exchange(value):
    _peer.sendall(struct.pack("d", value))
    data = b""
    while len(data) < 8:
        part = _peer.recv(8 - len(data))
        if not part:
            raise RuntimeError("the other rank has ended")
        data += part
    return struct.unpack("d", data)[0]


def all_reduce(value):
    total = value + _exchange(value)
    end = time.thread_time() + OWN_S
    while time.thread_time() < end:
        for _ in range(1000):
            total += 0.0
    return total


def barrier():
    _exchange(0.0)
