# SPDX-License-Identifier: BSD-3-Clause
"""Like files.c, from Python: `function PATH OPERATION NAME [COUNT START END]` says which function did it, itself or by
what it calls, and how often by the code between these instructions; `atleast PATH OPERATION BYTES` what has to be moved, of which some may be moved twice."""
import io
import mmap
import os
import shutil
import subprocess
import sys

FOLDER = os.path.realpath(sys.argv[2])
OUT = []


def path_of(name):
    return os.path.join(FOLDER, name)


def expect(name, operation, count, size):
    OUT.append(f"expect {path_of(name)} {operation} {count} {size}")


def direct_writes(file):
    for i in range(500):
        os.write(file, b"0123456789")


def buffered(path):
    with open(path, "wb") as file:
        for i in range(1000):
            file.write(b"x" * 100)


def plain():
    file = os.open(path_of("direct"), os.O_RDWR | os.O_CREAT)
    direct_writes(file)
    code = direct_writes.__code__
    places = [(start, end) for start, end, line in code.co_lines() if line == code.co_firstlineno + 2]
    first, last = min(places)[0], max(end for _, end in places)
    OUT.append(f"function {path_of('direct')} write direct_writes 500 {first // 2} {last // 2}")
    assert os.pread(file, 100, 0) == b"0123456789" * 10
    assert os.pwrite(file, b"abc", 10) == 3
    os.fsync(file)
    os.close(file)
    expect("direct", "open", 1, 0)
    expect("direct", "write", 501, 5003)
    expect("direct", "read", 1, 100)
    expect("direct", "sync", 1, 0)
    expect("direct", "close", 1, 0)

    buffered(path_of("buffered"))
    expect("buffered", "write", -1, 100000)
    with open(path_of("buffered"), "rb") as file:
        assert len(file.read()) == 100000
    with io.open(path_of("text"), "w", encoding="utf-8") as file:
        for i in range(1000):
            file.write(f"{i}\n")
    expect("text", "write", -1, os.path.getsize(path_of("text")))

    with open(path_of("mapped"), "w+b") as file:
        file.truncate(1 << 20)
        with mmap.mmap(file.fileno(), 1 << 20) as memory:
            memory[5000] = 1
            memory.flush()
    expect("mapped", "map", 1, 1 << 20)
    expect("mapped", "sync", 1, 0)
    shutil.copyfile(path_of("buffered"), path_of("copied"))
    expect("copied", "write", -1, 100000)
    expect("buffered", "open", 3, 0)
    expect("buffered", "read", -1, 200000)  # of which sendfile

    # subprocess makes its child by vfork, which closes and doubles descriptors.
    with open(path_of("inherited"), "wb") as file:
        subprocess.run(["/bin/sh", "-c", "echo hello"], stdout=file, check=True)
        file.write(b"more")
    expect("inherited", "write", -1, 4 + 6)


def numpy():
    import numpy
    data = numpy.arange(10000, dtype=numpy.float64)
    data.tofile(path_of("tofile"))
    assert (numpy.fromfile(path_of("tofile")) == data).all()
    expect("tofile", "write", -1, 80000)
    expect("tofile", "read", -1, 80000)
    numpy.save(path_of("saved.npy"), data)
    assert (numpy.load(path_of("saved.npy")) == data).all()
    size = os.path.getsize(path_of("saved.npy"))
    expect("saved.npy", "write", -1, size)
    OUT.append(f"atleast {path_of('saved.npy')} read {size}")
    mapped = numpy.memmap(path_of("memmap"), dtype=numpy.float64, mode="w+", shape=(1000,))
    mapped[:] = 1
    mapped.flush()
    expect("memmap", "map", 1, 8000)
    expect("memmap", "sync", 1, 0)


def hdf5():
    import h5py
    import numpy
    written = numpy.arange(200000, dtype=numpy.float64)
    with h5py.File(path_of("file.h5"), "w") as file:
        file["data"] = written
    with h5py.File(path_of("file.h5"), "r") as file:
        assert (file["data"][...] == written).all()
    OUT.append(f"atleast {path_of('file.h5')} write {written.nbytes}")
    OUT.append(f"atleast {path_of('file.h5')} read {written.nbytes}")
    OUT.append(f"function {path_of('file.h5')} read hdf5")


try:
    {"plain": plain, "numpy": numpy, "hdf5": hdf5}[sys.argv[1]]()
except ImportError as error:
    OUT = [f"skip {error.name}"]
print("\n".join(OUT))
