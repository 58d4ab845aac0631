# SPDX-License-Identifier: BSD-3-Clause
"""Mounts a file system that never answers: python3 hanging_mount.py DIRECTORY...

Prints "hangs" when it is there. Until its standard input ends, everything that opens, looks for or asks about a file
below these directories waits; then it fails, and the mounts are removed. It is FUSE without a server, for root alone."""

import ctypes
import os
import sys

MS_NOSUID, MS_NODEV, MNT_DETACH = 2, 4, 2


def main(directories):
    libc = ctypes.CDLL(None, use_errno=True)
    servers = []
    for directory in directories:
        server = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={server},rootmode=40000,user_id=0,group_id=0,allow_other"
        if libc.mount(b"hangs", directory.encode(), b"fuse", MS_NOSUID | MS_NODEV, options.encode()) != 0:
            sys.exit(f"{directory}: {os.strerror(ctypes.get_errno())}")
        servers.append(server)
    print("hangs", flush=True)
    sys.stdin.read()
    for directory in directories:
        libc.umount2(directory.encode(), MNT_DETACH)
    for server in servers:
        os.close(server)


main(sys.argv[1:])
