# SPDX-License-Identifier: BSD-3-Clause
"""Prints results of ctest as tables: by interpreter, by MPI library, and what failed or was skipped, with the reason.

    table.py RESULTS...

RESULTS are files that ctest --output-junit has made, named after the label. A test program of Python counts by its
test methods, as far as its output tells them; everything else counts as one. What concerns an interpreter or an MPI library
says so by its name: test_toggle_3_15_2, AgreeWithTheProgram/3_13, mpi_wrap.traffic_openmpi_2."""
import collections
import os
import re
import sys
import xml.etree.ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
Result = collections.namedtuple("Result", "suite name status why")

METHOD = re.compile(r"^(test_\w+) \(([\w.<>]+)\)(?: \.\.\. (?:skipped ['\"](.*)['\"]$)?)?", re.M)
BROKEN = re.compile(r"^(?:FAIL|ERROR): (test_\w+) \(([\w.<>]+)\)(.*)$", re.M)
# What the tests of many interpreters print of each one: "FAILED 3.15.2 (path): why", "3.15.2  1234 ...",
# "timers on python3.14t  3 runs".
ROW = re.compile(r"^(FAILED )?(?:(3\.\d+\.\d+)\+? +(?:\(|\d)|(\w+) on (?:python)?(system|3\.\d+(?:\.\d+)?t?)(?: |:))(.*)$", re.M)


def reason(text):
    """The last line of an output that says anything."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if re.search(r"skipp", line, re.I)] or lines
    return told[-1][:200] if told else ""


def methods(suite, name, output):
    """Results of the test methods that an output of unittest tells of."""
    broken = {}
    for method, place, which in BROKEN.findall(output):
        broken.setdefault((place, method), []).append(which.strip())
    seen = {}
    for method, place, skipped in METHOD.findall(output):
        seen.setdefault((place, method), skipped)
        seen[place, method] = seen[place, method] or skipped
    for (place, method), skipped in seen.items():
        full = f"{name}: {method}"
        if (place, method) in broken:
            # One of several, each of which is named.
            yield from (Result(suite, f"{full} {which}".strip(), FAILED, "") for which in broken[place, method])
        else:
            yield Result(suite, full, SKIPPED if skipped else PASSED, skipped)


def rows(suite, name, output):
    """Results by interpreter that an output tells of."""
    failed, seen = {}, []
    for is_failed, version, what, on, rest in ROW.findall(output):
        key = (what, version or on)
        if is_failed:
            failed.setdefault(key, rest[:200])
        if key not in seen:
            seen.append(key)
    for what, version in seen:
        yield Result(suite, f"{name}: {what or 'on'} {version}", FAILED if (what, version) in failed else PASSED,
                     failed.get((what, version), ""))


def results(path):
    suite = os.path.basename(path).partition(".")[0]
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name, output = case.get("name"), case.findtext("system-out") or ""
        skipped, failure = case.find("skipped"), case.find("failure")
        status = FAILED if failure is not None or case.get("status") == "fail" else SKIPPED if skipped is not None else PASSED
        parts = list(methods(suite, name, output)) or list(rows(suite, name, output))
        # Skipped as a whole, or something else failed than the parts.
        if not parts or status == SKIPPED or status == FAILED and all(part.status != FAILED for part in parts):
            parts = [Result(suite, name, status, reason(output) if status != PASSED else "")]
        yield from parts


def interpreter(name):
    """The interpreter that a test's name names: "3.15", "3.14t", "system"; or None."""
    found = re.search(r"(?<![\d.])3[._](\d+)(?:[._]\d+)?(t?)(?![\d])", name)
    if found:
        return f"3.{found.group(1)}{found.group(2)}"
    return "system" if re.search(r"(?<![a-z])system(?![a-z])", name) else None


def libraries(name):
    plain = name.lower().replace("_", "")
    return [library for library in ("openmpi", "mpich") if library in plain]


def table(head, counted, suites):
    """Lines; `counted` is {row: {suite: Counter}}."""
    def cell(counter):
        return ", ".join(f"{counter[status]} {status}" for status in (PASSED, FAILED, SKIPPED) if counter[status]) or "-"

    lines = [[head, *suites]]
    lines += [[row, *(cell(counted[row][suite]) for suite in suites)] for row in counted]
    widths = [max(len(line[column]) for line in lines) for column in range(len(suites) + 1)]
    return ["| " + " | ".join(text.ljust(width) for text, width in zip(line, widths)) + " |" for line in lines]


def order(row):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", row)]


def main():
    all_results = [result for path in sys.argv[1:] for result in results(path)]
    suites = list(dict.fromkeys(result.suite for result in all_results))
    for head, rows_of in (("interpreter", lambda name: [interpreter(name)] if interpreter(name) else []), ("MPI", libraries),
                          ("all", lambda name: ["all"])):
        counted = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
        for result in all_results:
            for row in rows_of(result.name):
                counted[row][result.suite][result.status] += 1
        print("\n".join(table(head, dict(sorted(counted.items(), key=lambda item: order(item[0]))), suites)), end="\n\n")
    for status in (FAILED, SKIPPED):
        for result in all_results:
            if result.status == status:
                print(f"{status}: {result.suite} {result.name}{': ' + result.why if result.why else ''}")


if __name__ == "__main__":
    main()
