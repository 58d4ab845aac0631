# SPDX-License-Identifier: BSD-3-Clause
"""Prints line tables of the standard library's code objects and what this interpreter says they mean.

One code object per line: first line, table in hex ("-" when empty), then start:end:line for each range of code
units ("-" for no line), as the interpreter itself decodes it.
"""
import dis
import glob
import os
import sys
import types

MODULES = ("abc", "argparse", "ast", "asyncio/*", "collections/*", "ctypes/*", "dataclasses", "decimal", "difflib",
           "email/*", "enum", "functools", "http/*", "inspect", "json/*", "logging/*", "opcode", "os", "pdb",
           "pickle", "random", "re", "shutil", "statistics", "string", "tarfile", "threading", "traceback",
           "typing", "unittest/*", "xml/*/*")


def ranges(code):
    units = len(code.co_code) // 2
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            yield start // 2, end // 2, "-" if line is None else line
        return
    starts = list(dis.findlinestarts(code))
    if not starts or starts[0][0] != 0:
        starts.insert(0, (0, code.co_firstlineno))
    for (start, line), (end, _) in zip(starts, starts[1:] + [(units * 2, None)]):
        yield start // 2, end // 2, line


def dump(code):
    table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
    print(code.co_firstlineno, table.hex() or "-", *("%s:%s:%s" % one for one in ranges(code)))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            dump(constant)


print(sys.version_info[1])
library = os.path.dirname(os.__file__)
for name in MODULES:
    for path in sorted(glob.glob(os.path.join(library, name + ".py"))):
        with open(path, "rb") as source:
            dump(compile(source.read(), path, "exec"))
# No line at all, long jumps between lines, many columns.
dump(compile("x = 1\n" + "\n" * 700 + "y = [i for i in\n" + "\n" * 300 + "range(3)]\nwith x: pass\n", "made", "exec"))
dump(compile("def f(a):\n  try:\n    return " + "a + " * 400 + "a\n  finally:\n    a = 2\n", "made", "exec"))
