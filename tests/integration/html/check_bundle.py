# SPDX-License-Identifier: BSD-3-Clause
"""check_bundle.py FOLDER: installs the packages of FOLDER's lock file, checks the types, runs the tests and
compares a new bundle with the committed one. Exit status 77: it could not run here, and why."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
LEAST_NODE = 18
# What npm says when there is no way to the registry.
NO_REGISTRY = re.compile(r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|ERR_SOCKET_TIMEOUT")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIP)


def run(folder, *command):
    print("+", *command, flush=True)
    return subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False)


def must(folder, *command):
    done = run(folder, *command)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}failed: {' '.join(command)}")
    return done.stdout


def packages(lock):
    """By folder, the version and the checksum."""
    listed = json.loads(lock.read_text())["packages"]
    return {name: (entry.get("version"), entry.get("integrity")) for name, entry in listed.items() if name}


def is_installed(folder):
    hidden = folder / "node_modules" / ".package-lock.json"
    if not hidden.exists():
        return False
    wanted, there = packages(folder / "package-lock.json"), packages(hidden)
    # Packages for other machines are in the lock file alone.
    return all(wanted.get(name) == entry for name, entry in there.items()) and all(
        name in there for name in ("node_modules/esbuild", "node_modules/typescript", "node_modules/uplot",
                                   "node_modules/highlight.js", "node_modules/@types/node",
                                   "node_modules/playwright-core", "node_modules/axe-core"))


def install(folder):
    # Another test may be at it.
    with open(folder / "package-lock.json", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        install_alone(folder)


def install_alone(folder):
    if is_installed(folder):
        print("the packages of package-lock.json are there")
        return
    done = run(folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    if done.returncode != 0:
        if NO_REGISTRY.search(done.stderr):
            skip("npm cannot reach its registry")
        sys.exit(f"{done.stdout}{done.stderr}failed: npm ci")


def prepare(folder):
    """node, npm and the packages are there, or the program ends as skipped."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            skip(f"there is no {program}")
    version = must(folder, "node", "--version").strip()
    if int(version.lstrip("v").split(".")[0]) < LEAST_NODE:
        skip(f"node {version} is older than {LEAST_NODE}")
    if not os.access(folder, os.W_OK):
        skip(f"{folder} cannot be written")
    install(folder)


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    prepare(folder)
    must(folder, "npm", "run", "--silent", "check")
    tests = must(folder, "npm", "test", "--silent")
    passed = re.search(r"^# pass (\d+)$", tests, re.MULTILINE)
    if not passed or int(passed.group(1)) == 0:
        sys.exit(f"{tests}no test ran")
    print(f"{passed.group(1)} tests passed")

    with tempfile.TemporaryDirectory() as new:
        must(folder, "node", "build.mjs", new)
        names = sorted(path.name for path in pathlib.Path(new).iterdir())
        committed = folder / "dist"
        if sorted(path.name for path in committed.iterdir()) != names:
            sys.exit(f"{committed} does not hold {', '.join(names)}, and nothing else")
        for name in names:
            made, kept = pathlib.Path(new, name).read_bytes(), (committed / name).read_bytes()
            if made != kept:
                sys.exit(f"{committed / name} is not what the sources make ({len(kept)} bytes, not {len(made)}): "
                         "npm run build in report/html")
            # Both stand in an HTML element whose end must be its own.
            end = b"</script" if name.endswith(".js") else b"</style"
            if end in made.lower() or b"<!--" in made:
                sys.exit(f"{name} would end the element it is in")
    print("dist/ is what the sources make")


if __name__ == "__main__":
    main()
