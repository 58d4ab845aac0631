#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the specification with the functions that an MPI library's mpi.h declares.

compare_headers.py INCLUDE_DIR [SPEC]

Exits with status 1 and says why
- if the header declares a function that the specification lacks or has with another signature, or
- if the library claims MPI-3.1 and its header does not declare a function of MPI-3.1 that is in the specification.

Each function in the specification is wrapped, or `unwrapped` says why it is not.
"""

import os
import pathlib
import re
import subprocess
import sys

import spec

SPEC = pathlib.Path(__file__).resolve().parent.parent / "spec/mpi_functions.toml"

# Macros in the header of some library, so that no declaration can be seen.
MACROS = re.compile(r"MPI_(Aint_(add|diff)|\w+_(c2f|f2c)|Status_\w+2\w+)")

# What one library alone has, beside the standard: of Open MPI 5.0, a call that only stores an info object.
NOT_OF_THE_STANDARD = {"MPI_Session_set_info"}


def preprocessed(include):
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-E", "-P", f"-I{include}", "-x", "c", "-"]
    done = subprocess.run(command, input="#include <mpi.h>\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return " ".join(done.stdout.split())


def without_attributes(text):
    """Returns the text without __attribute__((...)). Parentheses inside may nest."""
    out, position = [], 0
    for match in re.finditer(r"__attribute__\s*\(", text):
        if match.start() < position:
            continue
        out.append(text[position:match.start()])
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        position = end
    return "".join(out) + text[position:]


def declared(include):
    """Returns {name: (return type, [types])} of all functions that the header declares, and the names of functions
    whose declarations cannot be read here."""
    functions, unreadable = {}, []
    text = without_attributes(preprocessed(include))
    for statement in text.split(";"):
        match = re.fullmatch(r"\s*(?:extern\s+)?([\w ]+?[\s*]+)(P?MPI_\w+)\s*\((.*)\)\s*", statement)
        if match and not match.group(1).startswith("typedef"):
            functions[match.group(2)] = (" ".join(match.group(1).split()), types(match.group(3)))
            continue
        # The first name that arguments follow is the function's; that of a typedef stands in parentheses.
        match = re.match(r"[^(]*?\b(P?MPI_\w+)\s*\(", statement)
        if match and "typedef" not in statement:
            unreadable.append(match.group(1))
    return functions, unreadable


def types(arguments):
    """Returns the types of the arguments. Names are left out, `const` is kept, and arrays become pointers."""
    result = []
    for argument in arguments.split(","):
        text = argument.strip()
        if text in ("void", ""):
            continue
        if text == "...":
            result.append("...")
            continue
        text = re.sub(r"\[\d*\]", "[]", text)
        # Without a name (or with nothing but one word, the type) everything is type.
        match = re.fullmatch(r"(.*?[\s*])(\w+)\s*((?:\[\])*)", text)
        kind, arrays = (match.group(1), match.group(3)) if match else (text, "")
        if kind.strip() == "const":
            kind = text
        # char ***argv and char **argv[] are one.
        result.append(re.sub(r"\s*\*\s*", "*", " ".join(kind.split())) + "*" * arrays.count("[]"))
    return result


def normal(kind):
    """Returns a type as a list of words. MPI_Fint becomes int. `const` is left out: headers differ in it, and calls do not."""
    return ["int" if w == "MPI_Fint" else w for w in re.findall(r"\w+|\*", kind) if w != "const"]


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    include = sys.argv[1]
    specification = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else SPEC
    functions = {f.name: f for f in spec.load(specification.read_text())}
    header, unreadable = declared(include)
    problems = [f"the declaration of {name} cannot be read" for name in unreadable]
    names = {n for n in header if n.startswith("MPI_")}
    if len(names) < 380:
        problems.append(f"only {len(names)} functions could be read from {include}/mpi.h")
    for name in sorted(names):
        # MPI_DUP_FN and the like are callbacks of the library, not calls.
        if name not in functions:
            if name != name.upper() and name not in NOT_OF_THE_STANDARD:
                problems.append(f"{name} is not in the specification")
            continue
        f = functions[name]
        if f.unwrapped is not None and not f.unwrapped.strip():
            problems.append(f"{name} is not wrapped, and no reason is given")
        returned, inner = re.fullmatch(r"(.*?)\s+" + name + r"\((.*)\)", f.prototype).groups()
        ours = [normal(returned)] + [normal(t) for t in types(inner)]
        theirs = [normal(header[name][0])] + [normal(t) for t in header[name][1]]
        if ours != theirs:
            problems.append(f"{name}: the specification says {ours}, the header {theirs}")
        if "P" + name not in header:
            problems.append(f"P{name} is not declared")
    for f in functions.values():
        if f.since == "3.1" and not f.removed and f.name not in names and not MACROS.fullmatch(f.name):
            problems.append(f"{f.name}: MPI-3.1 has it, {include}/mpi.h does not declare it")
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(names)} functions agree")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
