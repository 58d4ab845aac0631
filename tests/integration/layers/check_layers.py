"""Checks what includes what:
- a folder includes only from the folders that its row in FOLDERS lists, and lists only rows above its own;
- there is no circle, neither among units (x.hpp with x.cpp) nor among folders;
- libraries, sentences and formatting stay in the folders that may use them.

Usage: check_layers.py SOURCE_DIR. Prints each problem, and for a circle the includes that make it."""

import os
import re
import sys

# Folder -> what it may include besides itself: another folder, a single file of one, or, with "/" at the end, a folder
# and everything below it. The rows are in order: a row lists only folders of rows above it. Every folder with sources in
# it has a row.
FOLDERS = {
    "base": [],
    "include": [],
    "formats/wire": [],
    "formats/h5": ["base"],
    "formats/shard": ["base", "formats/h5", "formats/wire/mpi_event.h"],
    "formats/run": ["base", "formats/shard/run_files.hpp"],
    "formats/profile": ["base", "formats/h5", "formats/shard"],
    "formats/synth": ["formats/shard", "formats/wire/mpi_event.h"],

    "agent": ["formats/wire/memory.h"],
    "agent/pyabi": [],
    "agent/sigsafe": ["formats/wire", "agent", "agent/pyabi"],
    "agent/discovery": ["formats/wire", "agent/pyabi", "agent/sigsafe"],
    "agent/lifecycle": ["formats/wire", "agent", "agent/sigsafe", "agent/discovery"],
    "agent/annotations": ["formats/wire", "agent/sigsafe", "agent/lifecycle"],
    "agent/openmp": ["formats/wire", "agent", "agent/sigsafe", "agent/lifecycle"],

    "mpi-wrap/standard": [],
    "mpi-wrap/src": ["agent/agent_api.h", "agent/sigsafe/spin_wait.h", "formats/wire"],
    "mpi-wrap/generated": ["formats/wire", "mpi-wrap/src"],
    "mpi-wrap/wrappers": ["agent/agent_api.h", "agent/sigsafe/spin_wait.h", "formats/wire", "mpi-wrap/src", "mpi-wrap/generated"],

    "memory-wrap": ["agent/memory_api.h", "agent/discovery/loaded_objects.h", "agent/lifecycle/interpose.h", "agent/sigsafe/raw_syscall.h",
                    "formats/wire"],

    "torch-wrap": ["agent/agent_api.h", "agent/c10d_start.h", "formats/wire", "mpi-wrap/src"],

    "collector/rings": ["base", "formats/wire"],
    "collector/names": ["base", "formats/wire", "formats/shard"],
    "collector/stacks": ["base", "formats/wire", "formats/shard", "collector/rings", "collector/names"],
    "collector/charge": ["base", "formats/wire", "formats/shard", "collector/rings", "collector/names", "collector/stacks"],
    "collector/mpi": ["formats/wire", "formats/shard", "collector/rings", "collector/stacks"],
    "collector/memory": ["formats/wire", "formats/shard", "collector/rings", "collector/stacks", "collector/charge"],
    "collector/process": ["base", "formats/wire", "formats/shard", "collector/rings", "collector/names", "collector/stacks",
                          "collector/charge", "collector/mpi", "collector/memory"],
    "collector/os": ["base", "formats/shard"],
    "collector/node": ["base", "formats/wire", "formats/shard", "collector/rings", "collector/stacks",
                       "collector/charge", "collector/mpi", "collector/memory", "collector/process", "collector/os"],
    "collector/shard": ["base", "formats/wire", "formats/shard", "collector/names", "collector/stacks",
                        "collector/charge", "collector/mpi", "collector/memory", "collector/process", "collector/os",
                        "collector/node"],
    "collector/loop": ["base", "formats/wire", "formats/run", "formats/shard", "collector/os", "collector/node", "collector/shard"],
    "collector": ["base", "formats/wire", "formats/run", "formats/shard", "collector/rings", "collector/os", "collector/node", "collector/loop"],

    "aggregator/waits": ["formats/shard", "formats/wire/mpi_event.h", "formats/wire/c10d_functions.h"],
    "aggregator": ["base", "formats/shard", "formats/profile", "formats/wire/mpi_event.h", "aggregator/waits"],
    "aggregator/whatif": ["base", "formats/shard", "aggregator", "aggregator/waits"],
    "aggregator/mpi": ["aggregator"],

    "report/analysis": ["base", "formats/shard", "formats/profile", "formats/wire/mpi_functions.h",
                        "formats/wire/c10d_functions.h"],
    "report": ["base", "formats/shard", "report/analysis"],
    "report/format": ["base", "formats/shard", "report/analysis"],
    "report/words": ["base", "report/analysis", "report/format"],
    "report/text": ["base", "formats/shard", "report", "report/analysis", "report/format", "report/words"],
    "report/json": ["report", "report/analysis", "report/format", "report/words", "report/text"],
    "report/export": ["base", "formats/shard", "report/analysis", "report/format", "report/json"],
    "report/plain_html": ["report/format"],
    "report/diff": ["base", "report", "report/analysis", "report/format", "report/words", "report/text", "report/json", "report/plain_html"],
    "report/scale": ["base", "report", "report/analysis", "report/format", "report/text", "report/json", "report/plain_html", "report/diff"],
    "report/history": ["base", "formats/shard", "report", "report/analysis", "report/format", "report/words", "report/text", "report/json", "report/plain_html", "report/diff"],
    "report/page": ["base", "formats/shard", "formats/profile", "report/analysis", "report/format"],
    "report/html": ["base", "report", "report/analysis", "report/format", "report/json", "report/page"],
    "report/tui": ["report", "report/analysis", "report/format", "report/words", "report/text", "report/page"],

    "cli/self_test": [],
    "cli": ["base", "formats/wire", "formats/run"],
    "cli/attach": ["base", "cli", "formats/wire", "formats/run"],
    "cli/doctor": ["base", "cli", "formats/wire/preload_entry.h", "formats/wire/site_switch.h", "formats/wire/site_counts.h"],
    "cli/analyze": ["base", "formats/run/run_control.hpp", "formats/shard", "formats/profile", "formats/wire/mpi_event.h", "aggregator", "aggregator/whatif", "report/"],
    "cli/merge": ["aggregator/mpi", "cli/analyze"],
    "cli/tui": ["base", "report/", "cli/analyze"],
    "cli/manual": ["base", "report/", "cli", "cli/analyze", "cli/attach", "cli/doctor"],

    "slurm/start": ["formats/wire/site_switch.h", "formats/wire/site_counts.h"],
    "slurm/activation": ["base", "formats/wire/site_switch.h", "formats/wire/site_counts.h", "slurm/start"],
    "slurm/spank": ["base", "formats/wire/site_counts.h", "slurm/activation"],
}
SYSTEM = {  # library header -> the only folders that may include it
    "hdf5.h": ["formats/h5"],
    "mpi.h": ["mpi-wrap", "aggregator/mpi", "cli/self_test"],
    "boost/asio": ["collector"],
    "curses.h": ["cli/tui"],
    "elfutils/": ["collector", "cli/attach"],
    "papi.h": ["agent", "cli"],
    "CLI/": ["cli", "collector", "formats"],
    "slurm/spank.h": ["slurm/spank"],
    "nlohmann/": ["report", "cli/analyze"],
    "sqlite3.h": ["cli/analyze"],
}
# What makes sentences -> the only files and folders that may include it: those that show them.
SENTENCES = {
    "report/words": ["report/words/", "report/text/", "report/json/", "report/html/", "report/tui/",
                     "report/diff/render_diff_", "report/diff/diff_format.cpp", "report/history/history.cpp", "cli/analyze/"],
}
# Folders that compute, and what they must not include to format anything.
NO_FORMATTING = {"report/analysis": ["fmt/", "<iomanip>", "<format>", "report/format/", "report/text/", "report/words/"]}
# A note is a code with numbers (formats/shard/note.hpp). Who makes one may not format its texts: those are names, and
# words of others, that come as they are.
NOTE = re.compile(r"\bnote_of_(?:run|node|ranks)\s*\(")
FORMATS = re.compile(r'"|\bformat\w*\s*\(|\bto_string\s*\(|\s\+\s')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
STAGES = sorted({folder.split("/")[0] for folder in FOLDERS})


def read_sources(top, stages):
    """Path -> text of every source below the folders `stages` of `top`."""
    sources = {}
    for stage in stages:
        for folder, below, names in os.walk(os.path.join(top, stage)):
            below[:] = [name for name in below if name not in ("node_modules", "dist")]
            for name in names:
                if name.endswith((".h", ".hpp", ".cpp", ".c", ".inc")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        sources[os.path.relpath(path, top)] = file.read()
    return sources


def includes_of(text):
    """(line, quote or angle bracket, path) of each include."""
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found.group(1), found.group(2)


def formatted_notes(text):
    """Numbers of the lines where a call of note_of_... has a literal text in it, or puts one together."""
    found = []
    for call in NOTE.finditer(text):
        depth, end = 1, call.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        if FORMATS.search(text[call.end():end].replace('""', "")):
            found.append(text.count("\n", 0, call.start()) + 1)
    return found


def is_listed(target, row):
    """Whether a folder with that row may include the file `target`."""
    return any(target.startswith(entry) if entry.endswith("/") else entry in (target, os.path.dirname(target))
               for entry in row)


def disordered_rows(folders):
    """Rows that list a folder which is not above them."""
    problems, above = [], []
    for folder, row in folders.items():
        for entry in row:
            listed = [f for f in folders if (f + "/").startswith(entry)] if entry.endswith("/") else \
                [f for f in (entry, os.path.dirname(entry)) if f in folders][:1]
            if not listed:
                problems.append(f"the row of {folder} lists {entry}, which is no folder with a row")
            problems += [f"the row of {folder} lists {below}, whose row is not above it" for below in listed
                         if below not in above]
        above.append(folder)
    return problems


def graph(sources, node_of):
    """Node -> {node that it includes: [include, ...]}, without includes within a node."""
    edges = {node_of(path): {} for path in sources}
    for path, text in sources.items():
        for number, kind, target in includes_of(text):
            if kind == '"' and target in sources and node_of(target) != node_of(path):
                edges[node_of(path)].setdefault(node_of(target), []).append(f"{path}:{number} includes {target}")
    return edges


def circles(edges):
    """The sets of nodes that all reach each other, sorted; each with more than one node (Tarjan)."""
    order, lowest, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for target in edges[node]:
            if target not in order:
                visit(target)
                lowest[node] = min(lowest[node], lowest[target])
            elif target in stack:
                lowest[node] = min(lowest[node], order[target])
        if lowest[node] != order[node]:
            return
        circle = stack[stack.index(node):]
        del stack[-len(circle):]
        if len(circle) > 1:
            found.append(sorted(circle))

    for node in edges:
        if node not in order:
            visit(node)
    return sorted(found)


def describe_circle(edges, circle):
    return "\n".join(f"    {include}" for node in circle for target in circle for include in edges[node].get(target, []))


def circle_problems(edges, what):
    return [f"circle of {what}: {', '.join(circle)}\n{describe_circle(edges, circle)}" for circle in circles(edges)]


def include_problems(path, text, folders):
    mine, problems = os.path.dirname(path), []
    for number, kind, target in includes_of(text):
        for folder, users in SENTENCES.items():
            if target.startswith(folder + "/") and not any(path.startswith(u) for u in users):
                problems.append(f"{path}:{number}: {target} makes sentences: only {users} may include it")
        for folder, formatting in NO_FORMATTING.items():
            if path.startswith(folder + "/") and any((target + ">").startswith(f.lstrip("<")) if f[0] == "<" else target.startswith(f) for f in formatting):
                problems.append(f"{path}:{number}: {folder} computes and may not include {target}")
        if kind == "<":
            for header, users in SYSTEM.items():
                if target.startswith(header) and not any(path.startswith(f + "/") for f in users):
                    problems.append(f"{path}:{number}: {target} may be included only in {users}")
        elif "/" in target and os.path.dirname(target) != mine and not is_listed(target, folders[mine]):
            problems.append(f"{path}:{number}: {mine} may not include {target}")
    return problems


def check(sources, folders):
    """The list of problems."""
    problems = disordered_rows(folders)
    missing = sorted({os.path.dirname(path) for path in sources} - set(folders))
    problems += [f"{folder} has no row in FOLDERS" for folder in missing]
    empty = sorted(set(folders) - {os.path.dirname(path) for path in sources})
    problems += [f"the row of {folder} has no sources" for folder in empty]
    for path, text in sorted(sources.items()):
        problems += [f"{path}:{number}: a note is made of a text that is put together here: make it a code"
                     for number in formatted_notes(text)]
        if os.path.dirname(path) in folders:
            problems += include_problems(path, text, folders)
    for what, node_of in (("units", lambda path: os.path.splitext(path)[0]), ("folders", os.path.dirname)):
        problems += circle_problems(graph(sources, node_of), what)
    return problems


def main(top):
    sources = read_sources(top, STAGES)
    problems = check(sources, FOLDERS)
    for problem in problems:
        print(problem)
    print(f"{len(sources)} files, {len(problems)} problems")
    return 1 if problems or len(sources) < 50 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
