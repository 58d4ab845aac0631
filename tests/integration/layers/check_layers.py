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
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def owner(path):
    matches = [folder for folder in ALLOWED if path == folder or path.startswith(folder + "/")]
    return max(matches, key=len) if matches else None


def main(top):
    problems, files = [], 0
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
            for number, line in enumerate(open(os.path.join(top, path), encoding="utf-8"), 1):
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
