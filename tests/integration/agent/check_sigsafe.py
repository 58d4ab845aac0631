#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks, on object code, what agent/sigsafe/RULES.md promises."""
import argparse
import os
import re
import subprocess
import sys
import tempfile

# What glibc keeps free for libraries that are loaded later is shared with others (docs/design/0025-attach.md).
MOST_THREAD_LOCAL_BYTES = 640
ALLOWED_LIBRARIES = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def allowed_symbols(rules):
    """The first column of the table in the rules' last section."""
    text = open(rules, encoding="utf-8").read().split("## What may be left undefined")[1]
    allowed = set()
    for line in text.splitlines():
        if line.startswith("| `"):
            allowed.update(re.findall(r"`([^`]+)`", line.split("|")[1]))
    return allowed


def undefined_symbols(nm, linker, objects):
    with tempfile.TemporaryDirectory() as folder:
        merged = os.path.join(folder, "sigsafe.o")
        subprocess.run([linker, "-r", "-o", merged, *objects], check=True)
        listing = lines_of(nm, "--undefined-only", "--demangle", merged)
    return {line.strip().split(" ", 1)[1].strip() for line in listing if line.strip()}


def thread_locals(readelf, objects):
    found = set()
    for path in objects:
        for line in lines_of(readelf, "--syms", "--wide", path):
            fields = line.split()
            if len(fields) >= 8 and fields[3] == "TLS" and fields[6] != "UND":
                found.add(fields[7])
    return found


def exported_by_map(path):
    text = re.sub(r"/\*.*?\*/", "", open(path, encoding="utf-8").read(), flags=re.S)
    return set(re.findall(r"(\w+);", text.split("global:")[1].split("local:")[0]))


def main():
    parser = argparse.ArgumentParser()
    for name in ("nm", "ld", "readelf", "rules", "map", "library", "objects"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    objects = [path for path in options.objects.split(";") if path]
    problems = []

    if not objects:
        problems.append("no object files to look at")
    allowed = allowed_symbols(options.rules)
    undefined = undefined_symbols(options.nm, options.ld, objects)
    for symbol in sorted(undefined - allowed):
        problems.append(f"sigsafe code refers to {symbol}, which RULES.md does not allow")
    for symbol in sorted(thread_locals(options.readelf, objects)):
        if symbol != "_ZN11clusterprof5agent9t_contextE":
            problems.append(f"sigsafe code has a thread-local object {symbol}")

    needed = set()
    for line in lines_of(options.readelf, "--dynamic", "--wide", options.library):
        match = re.search(r"\(NEEDED\).*\[(.*)\]", line)
        if match:
            needed.add(match.group(1))
    for library in sorted(needed - ALLOWED_LIBRARIES):
        problems.append(f"the agent needs {library}")

    for line in lines_of(options.readelf, "--program-headers", "--wide", options.library):
        fields = line.split()
        if fields[:1] == ["TLS"] and int(fields[5], 16) > MOST_THREAD_LOCAL_BYTES:
            problems.append(f"the agent has {int(fields[5], 16)} bytes of thread-local data, more than {MOST_THREAD_LOCAL_BYTES}")

    imported = {line.split()[-1].split("@")[0]
                for line in lines_of(options.nm, "--dynamic", "--undefined-only", options.library)}
    if "__tls_get_addr" in imported:
        problems.append("the agent uses __tls_get_addr")
    exported = {line.split()[-1].split("@")[0]
                for line in lines_of(options.nm, "--dynamic", "--defined-only", options.library)
                if not line.split()[-1].startswith("GLIBC_")}
    wanted = exported_by_map(options.map)
    for symbol in sorted(exported - wanted):
        problems.append(f"the agent exports {symbol}")
    for symbol in sorted(wanted - exported):
        problems.append(f"the agent does not export {symbol}")

    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(objects)} objects, {len(undefined)} undefined symbols, {len(exported)} exported")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
