"""Checks that a folder includes only from the folders below it in the data flow, and that only
formats/h5 includes HDF5. Usage: check_layers.py SOURCE_DIR"""

import os
import re
import sys

# Longest prefix wins. A folder may always include from itself.
ALLOWED = {
    "base": [],
    "formats/wire": [],
    "formats/h5": ["base"],
    "formats/shard": ["base", "formats/h5", "formats/wire/mpi_event.h"],
    "formats/profile": ["base", "formats/h5", "formats/shard"],
    "agent": ["formats/wire"],
    "mpi-wrap": ["agent/agent_api.h", "formats/wire"],
    "collector": ["base", "formats/wire", "formats/shard"],
    "aggregator": ["base", "formats/shard", "formats/profile", "formats/wire/mpi_event.h"],
    "report": ["base", "formats/shard", "formats/profile", "formats/wire/mpi_functions.h", "report/analysis",
               "report/words"],
    "report/analysis": ["base", "formats/shard", "formats/profile", "formats/wire/mpi_functions.h", "report/report.hpp",
                        "report/analysis_code.hpp"],
    "report/words": ["base", "report/analysis", "report/text/format.hpp"],
    "cli/analyze": ["base", "formats/shard", "formats/profile", "formats/wire/mpi_event.h", "aggregator", "report"],
    "cli/merge": ["aggregator", "cli/analyze"],
    "cli/self_test": [],
    "cli/tui": ["base", "cli/analyze", "report"],
    "cli/manual": ["base", "cli", "report"],
    "cli": ["base", "formats/wire", "formats/shard/run_files.hpp"],
    "slurm/start": [],
    "slurm/activation": ["base", "slurm/start"],
    "slurm/spank": ["base", "slurm/activation"],
}
SYSTEM = {  # library header -> the only folders that may include it
    "hdf5.h": ["formats/h5"],
    "mpi.h": ["mpi-wrap", "aggregator/mpi", "cli/self_test"],
    "boost/asio": ["collector"],
    "curses.h": ["cli/tui"],
    "elfutils/": ["collector"],
    "papi.h": ["agent", "cli"],
    "CLI/": ["cli", "collector", "formats"],
    "slurm/spank.h": ["slurm/spank"],
    "nlohmann/": ["report", "cli/analyze"],
}
# What makes sentences -> the only files and folders that may include it: those that show them.
SENTENCES = {
    "report/words": ["report/words/", "report/text/", "report/json/", "report/html/", "report/tui/",
                     "report/diff/render_diff_", "cli/analyze/"],
}
# Folders that compute, and what they must not include to format anything.
NO_FORMATTING = {"report/analysis": ["fmt/", "<iomanip>", "<format>", "report/text/", "report/words/"]}
# A note is a code with numbers (formats/shard/note.hpp). Who makes one may not format its texts: those are names, and
# words of others, that come as they are.
NOTE = re.compile(r"\bnote_of_(?:run|node|ranks)\s*\(")
FORMATS = re.compile(r'"|\bformat\w*\s*\(|\bto_string\s*\(|\s\+\s')


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


INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def owner(path):
    matches = [folder for folder in ALLOWED if path == folder or path.startswith(folder + "/")]
    return max(matches, key=len) if matches else None


def main(top):
    problems, files = [], 0
    made = "push(\nnote_of_run(Code::kX, 0, %s));"
    for text, wrong in (('"it is full"', [2]), ('fmt::format(kText, a)', [2]), ("a + b", [2]), ("path_", []), ("hex(id), path_", [])):
        assert formatted_notes(made % text) == wrong, text
    for folder, _, names in os.walk(top):
        relative = os.path.relpath(folder, top)
        mine = owner(relative)
        if mine is None:
            continue
        for name in names:
            if not name.endswith((".h", ".hpp", ".cpp", ".c", ".inc")):
                continue
            files += 1
            path = os.path.join(relative, name)
            with open(os.path.join(top, path), encoding="utf-8") as file:
                text = file.read()
            problems += [f"{path}:{number}: a note is made of a text that is put together here: make it a code"
                         for number in formatted_notes(text)]
            for number, line in enumerate(text.splitlines(), 1):
                found = INCLUDE.match(line)
                if not found:
                    continue
                kind, target = found.groups()
                for folder, users in SENTENCES.items():
                    if target.startswith(folder + "/") and not any(path.startswith(u) for u in users):
                        problems.append(f"{path}:{number}: {target} makes sentences: only {users} may include it")
                for folder, formatting in NO_FORMATTING.items():
                    if path.startswith(folder + "/") and any((target + ">").startswith(f.lstrip("<")) if f[0] == "<" else target.startswith(f) for f in formatting):
                        problems.append(f"{path}:{number}: {folder} computes and may not include {target}")
                if kind == "<":
                    for header, folders in SYSTEM.items():
                        if target.startswith(header) and not any(path.startswith(f + "/") for f in folders):
                            problems.append(f"{path}:{number}: {target} may be included only in {folders}")
                    continue
                theirs = owner(target)
                if theirs is None or theirs == mine:
                    continue
                if not any(target == a or target.startswith(a + "/") for a in ALLOWED[mine]):
                    problems.append(f"{path}:{number}: {mine} may not include {target}")
    for problem in problems:
        print(problem)
    print(f"{files} files, {len(problems)} problems")
    return 1 if problems or files < 50 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
