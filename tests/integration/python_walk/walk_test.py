# SPDX-License-Identifier: BSD-3-Clause
"""Walks and merges the stacks of stress.py on every CPython found, and checks that each stack is
one that the program can have.

    walk_test.py RECORDER.so EMBED_HOST [--seconds S] [--rate HZ] [--python EXE ...]

Exit status: 0 all good, 1 a check failed, 77 no interpreter to test with."""
import argparse
import array
import collections
import contextlib
import glob
import os
import re
import struct
import subprocess
import sys
import tempfile
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))
STRESS = os.path.join(HERE, "stress.py")

TAG_MASK, PYTHON_TAG, NOT_STARTED = 0xF << 60, 0x8 << 60, 0xFFFFFFFF
NATIVE_TRUNCATED, PYTHON_TRUNCATED, MERGE_FAILED, HAS_PYTHON, WAITING_FOR_GIL, FINALIZING = 2, 4, 8, 16, 32, 64
PYTHON_FAULT, NATIVE_FAULT, HAS_STATE, HOLDS_GIL = 1, 2, 4, 8
ACTIVE = 1
UNSUPPORTED, VERSION_NOT_SUPPORTED = 2, 2  # wire::PythonState, wire::PythonNote

Code = collections.namedtuple("Code", "name file first_line line_table")


def signed(byte):
    return byte - 256 if byte > 127 else byte


def lnotab_line(code, unit):
    """3.8, 3.9: pairs (byte delta, line delta)."""
    line, address = code.first_line, 0
    for at in range(0, len(code.line_table) - 1, 2):
        address += code.line_table[at]
        if address > unit * 2:
            break
        line += signed(code.line_table[at + 1])
    return line


def linetable_310_line(code, unit):
    """3.10: pairs (length in bytes, line delta), -128: no line."""
    line, address, found = code.first_line, 0, None
    for at in range(0, len(code.line_table) - 1, 2):
        delta = signed(code.line_table[at + 1])
        if delta != -128:
            line += delta
        address += code.line_table[at]
        if unit * 2 < address:
            found = None if delta == -128 else line
            break
    return found


def location_line(code, unit):
    """3.11 and later: PEP 626 location table."""
    table, at, address, line = code.line_table, 0, 0, code.first_line

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = table[at]
            at += 1
            value |= (byte & 63) << shift
            shift += 6
            if not byte & 64:
                return value

    def svarint():
        value = varint()
        return -(value >> 1) if value & 1 else value >> 1

    while at < len(table):
        first = table[at]
        at += 1
        kind, length = (first >> 3) & 15, (first & 7) + 1
        known = True
        if kind == 15:
            known = False
        elif kind == 14:
            line += svarint()
            varint(), varint(), varint()
        elif kind == 13:
            line += svarint()
        elif kind >= 10:
            line += kind - 10
            at += 2
        else:
            at += 1
        address += length
        if unit < address:
            return line if known else None
    return None


class Recording:
    HEADER = "<8sQQQIIQQQQQQQQII"
    RECORD = "<IIIIIIQ"

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        size = struct.calcsize(self.HEADER)
        (magic, log_bytes, slots, arena_bytes, self.state, self.version, self.code_table_full, self.lost,
         *ranges, self.note, _) = struct.unpack_from(self.HEADER, data)
        assert magic == b"PYWALK01", magic
        self.eval, self.interpreter, self.libc = zip(ranges[0::2], ranges[1::2])
        log = data[size:size + log_bytes]
        at = size + log_bytes
        slot_words = array.array("Q", data[at:at + slots * 16])
        arena = data[at + slots * 16:]
        self.codes = {}
        for key, offset in zip(slot_words[0::2], slot_words[1::2]):
            if not key or not offset:
                continue
            code_id, first_line, filename, name, table = struct.unpack_from("<QIIII", arena, offset - 1)
            assert code_id == key, "a slot leads to the entry of another code object"
            text = offset - 1 + 24
            self.codes[key] = Code(arena[text + filename:text + filename + name].decode(),
                                   arena[text:text + filename].decode(), first_line,
                                   arena[text + filename + name:text + filename + name + table])
        self.samples = []
        record, at = struct.calcsize(self.RECORD), 0
        while at + record <= len(log):
            tid, flags, status, words, python, native, ns = struct.unpack_from(self.RECORD, log, at)
            at += record
            self.samples.append((tid, flags, status, python, native, ns, array.array("Q", log[at:at + 8 * words])))
            at += 8 * words
        minor = self.version >> 16 & 255
        self.decode = lnotab_line if minor < 10 else linetable_310_line if minor == 10 else location_line
        self.lines = {}

    def line(self, code_id, unit):
        key = code_id, unit
        if key not in self.lines:
            code = self.codes.get(code_id)
            self.lines[key] = (None if code is None else code.first_line if unit == NOT_STARTED
                               else self.decode(code, unit))
        return self.lines[key]

    def frames(self, words):
        """Root first: ("native", pc) or ("python", code id, unit)."""
        result, at = [], 0
        while at < len(words):
            word = words[at]
            if word & TAG_MASK == PYTHON_TAG:
                result.append(("python", words[at + 1], word & 0xFFFFFFFF))
                at += 2
            else:
                assert word & TAG_MASK == 0, hex(word)
                result.append(("native", word))
                at += 1
        result.reverse()
        return result


class Checker:
    def __init__(self, recording):
        self.recording = recording
        with open(STRESS, encoding="utf-8") as file:
            self.source = [""] + file.read().split("\n")
        self.parts = set(re.findall(r"\w+", re.search(r"PARTS = \[(.*?)\]", "\n".join(self.source), re.S).group(1)))
        self.wrong = collections.Counter()
        self.examples = {}
        self.count = collections.Counter()
        self.verdicts = {}

    def fail(self, kind, text):
        self.wrong[kind] += 1
        self.examples.setdefault(kind, text)

    def possible(self, caller, callee):
        """Whether caller (code id, unit), a frame of stress.py, can have called callee."""
        key = caller, callee[0]
        if key not in self.verdicts:
            self.verdicts[key] = self.is_possible(caller, callee)
        return self.verdicts[key]

    def is_possible(self, caller, callee):
        codes = self.recording.codes
        code = codes[callee[0]]
        name = code.name.split(".")[-1]
        caller_code = codes[caller[0]]
        line = self.recording.line(*caller)
        if line is None:
            return True  # bytecode without a line: nothing to check
        text = self.source[line] if line < len(self.source) else ""
        if "anycallee" in text:
            return True
        if code.file != STRESS and not code.file.startswith(("<made", "<string>", "<script>")):
            # Library code is called from where its module is named.
            return bool(re.search(r"\b(import|asyncio|LOOP|threading|thread|stop|re|functools|ctypes|time|Clock|COMPARE|array"
                                  r"|LIBC|print|qsort|compare)\b", text))
        if caller_code.name.split(".")[-1] == "main":
            return name in self.parts and "anypart" in text or name in text
        if name.startswith("fresh_"):
            return "fresh_" in text
        return unicodedata.normalize("NFKC", name) in unicodedata.normalize("NFKC", text) or name == "__bool__" and "CLOCK" in text

    def check(self):
        recording = self.recording
        # Finalizers and the callbacks of weak references run wherever an object dies, hooks on every line.
        anywhere = {"__del__", "finalized", "profile_hook", "trace_hook"}
        of_weak_references = ("weakref.py", "_weakrefset.py")
        for tid, flags, status, python, native, ns, words in recording.samples:
            count = self.count
            count["samples"] += 1
            if status & PYTHON_FAULT:
                count["python faults"] += 1
            if status & NATIVE_FAULT:
                count["native faults"] += 1
            if not flags & HAS_PYTHON:
                count["without python"] += 1
                continue
            count["merges"] += 1
            count["failed merges"] += bool(flags & MERGE_FAILED)
            if flags & NATIVE_TRUNCATED:
                count["native truncated"] += 1
                self.examples.setdefault("native truncated", []).append((native, words))
            count["python truncated"] += bool(flags & PYTHON_TRUNCATED)
            count["waiting for gil"] += bool(flags & WAITING_FOR_GIL)
            count["holding gil"] += bool(status & HOLDS_GIL)
            if flags & WAITING_FOR_GIL and status & HOLDS_GIL:
                self.fail("waits for what it holds", hex(flags))
            count["frames"] += python
            count["walk ns"] += ns
            frames = recording.frames(words)
            chain = [frame[1:] for frame in frames if frame[0] == "python"]
            if any(code_id not in recording.codes for code_id, _ in chain):
                self.fail("undescribed code", [hex(code_id) for code_id, _ in chain])
                continue
            where = [recording.codes[code_id].file for code_id, _ in chain]
            names = [recording.codes[code_id].name.split(".")[-1] for code_id, _ in chain]
            for i in range(len(chain) - 1):
                if where[i] != STRESS or names[i + 1] in anywhere or where[i + 1].endswith(of_weak_references):
                    continue
                if not self.possible(chain[i], chain[i + 1]):
                    line = recording.line(*chain[i])
                    self.fail("impossible caller", (names, line, self.source[line] if line else None))
                    break
            if not flags & (PYTHON_TRUNCATED | FINALIZING) and where[0] == STRESS:
                if names[0] != "<module>" and not names[0].startswith("toggle_"):
                    self.fail("incomplete chain", (names, frames[:3]))
            if flags & MERGE_FAILED:
                self.examples.setdefault("merge failed", (names, native, [hex(f[1]) for f in frames if f[0] == "native"]))
                continue
            self.check_native(frames, names, flags)
        return self

    def check_native(self, frames, names, flags):
        recording = self.recording

        def inside(pc, bounds):
            return bounds[0] <= pc - 1 < bounds[1]

        natives, python = [], 0
        leaf = len(frames)
        while leaf > 0 and frames[leaf - 1][0] == "native":
            leaf -= 1
        for frame in frames[leaf:]:
            if inside(frame[1], recording.eval):
                self.fail("eval loop shown", names)
        for frame in frames[:leaf]:
            if frame[0] == "native":
                natives.append(frame[1])
                if inside(frame[1], recording.interpreter):
                    self.fail("interpreter frame between", (names, hex(frame[1])))
                continue
            if names[python] == "compare_ints" and not flags & NATIVE_TRUNCATED:
                self.count["qsort callbacks"] += 1
                if not any(inside(pc, recording.libc) for pc in natives):
                    self.fail("no qsort below its callback", (names, [hex(pc) for pc in natives]))
            elif natives and python > 0 and names[python] in ("toggle_left", "left_inner", "sort_key", "number"):
                self.fail("native frames from nowhere", (names, [hex(pc) for pc in natives]))
            natives = []
            python += 1


def interpreters():
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    found = glob.glob(os.path.join(root, "versions", "3.*", "bin", "python3")) + ["/usr/bin/python3"]
    usable = []
    for path in found:
        if not os.path.exists(path):
            print("SKIPPED: there is no", path)
            continue
        version = subprocess.run([path, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"],
                                 stdout=subprocess.PIPE, check=True).stdout.decode().strip()
        usable.append((tuple(map(int, version.split("."))), path))
    return sorted(usable)


def run(python, arguments, environment, timeout):
    command = [python, "-X", "utf8"] + arguments
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=dict(os.environ, **environment))
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    finally:
        with contextlib.suppress(OSError):  # of -X perf
            os.unlink("/tmp/perf-%d.map" % process.pid)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def test(version, python, options, folder, switches=()):
    """Failures as a list of texts; prints one row. `switches` are the interpreter's."""
    failures = []
    output = os.path.join(folder, "%d.%d.%d" % version + "-" + str(abs(hash(python))))
    recorded = {"LD_PRELOAD": options.recorder, "WALK_OUTPUT": output, "WALK_RATE": str(options.rate)}
    limit = 300 + 10 * options.seconds
    plain = run(python, [*switches, STRESS, "0.1"], {}, limit)
    if plain.returncode != 0:
        return ["stress.py does not run here at all: " + plain.stderr.decode()[-500:]]
    watched = run(python, [*switches, STRESS, str(options.seconds)], recorded, limit)
    if (watched.returncode, watched.stdout, watched.stderr) != (plain.returncode, plain.stdout, plain.stderr):
        failures.append("the program behaves differently: status %d, %s %s" %
                        (watched.returncode, watched.stdout.decode()[-300:], watched.stderr.decode()[-500:]))
        if not os.path.exists(output):
            return failures
    recording = Recording(output)
    os.unlink(output)
    if version < (3, 8, 0):
        if (recording.state, recording.note) != (UNSUPPORTED, VERSION_NOT_SUPPORTED):
            failures.append("state %d, note %r for an unsupported version" % (recording.state, recording.note))
        return failures
    if recording.state != ACTIVE:
        return failures + ["state %d, note %d" % (recording.state, recording.note)]
    if recording.version >> 8 != version[0] << 16 | version[1] << 8 | version[2]:
        failures.append("version %x instead of %s" % (recording.version, version))
    checker = Checker(recording).check()
    count = checker.count
    merged = 100 * (1 - count["failed merges"] / max(1, count["merges"]))
    print("%-8s %9d %9d %8.3f %6d %6d %6d %6d %6d %7.2f" %
          (".".join(map(str, version)) + ("+" if switches else ""), count["samples"], count["merges"], merged, count["native truncated"],
           count["python truncated"], count["python faults"], sum(checker.wrong.values()), count["waiting for gil"],
           count["walk ns"] / max(1, count["frames"])), flush=True)
    if options.verbose:
        print("   ", dict(count), dict(checker.wrong), "merge failed:", checker.examples.get("merge failed"))
    if count["merges"] < options.seconds * 50:
        failures.append("only %d stacks with Python frames" % count["merges"])
    if count["qsort callbacks"] == 0 or count["waiting for gil"] == 0:
        failures.append("never saw a qsort callback or a wait for the GIL")
    if merged < (99.9 if version >= (3, 11) else 99.0):
        failures.append("%.3f %% merged: %s" % (merged, checker.examples.get("merge failed")))
    if recording.lost or recording.code_table_full:
        failures.append("lost %d, code table full %d" % (recording.lost, recording.code_table_full))
    for kind, number in checker.wrong.items():
        failures.append("%s: %d times, first %s" % (kind, number, checker.examples[kind]))
    return failures


EMBEDDED_CODE = """
def embedded_outer():
    for _ in range(400):
        embedded_inner()
def embedded_inner():
    total = 0
    for value in range(20000):
        total += value
embedded_outer()
"""


def test_embedded(version, python, options, folder):
    """A program that loads libpython late, without making its symbols known."""
    code = ("import os, sysconfig as s; print(os.path.join(s.get_config_var('LIBDIR'), s.get_config_var('LDLIBRARY')));"
            "import sys; print(sys.base_prefix)")
    library, home = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode().split()
    if not os.path.exists(library) or library.endswith(".a"):
        print("SKIPPED: %s has no shared libpython to embed" % python)
        return []
    output = os.path.join(folder, "embedded")
    environment = {"LD_PRELOAD": options.recorder, "WALK_OUTPUT": output, "WALK_RATE": str(options.rate),
                   "PYTHONHOME": home}
    result = subprocess.run([options.embed_host, library, EMBEDDED_CODE], env=dict(os.environ, **environment),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    if result.returncode != 0:
        return ["embed_host: status %d, %s" % (result.returncode, result.stderr.decode())]
    recording = Recording(output)
    if recording.state != ACTIVE:
        return ["embedded: state %d, note %r" % (recording.state, recording.note)]
    good = total = 0
    for _, flags, _, _, _, _, words in recording.samples:
        if not flags & HAS_PYTHON or flags & NATIVE_TRUNCATED:
            continue
        frames = recording.frames(words)
        names = [recording.codes[frame[1]].name for frame in frames if frame[0] == "python"]
        if names[:2] != ["<module>", "embedded_outer"]:
            continue
        total += 1
        # main() of the host has to be there, and nothing of the interpreter above the first Python frame.
        natives = [frame[1] for frame in frames[:frames.index(next(f for f in frames if f[0] == "python"))]]
        outside = [pc for pc in natives if not recording.interpreter[0] <= pc < recording.interpreter[1]]
        good += len(outside) >= 2 and outside == natives and not flags & MERGE_FAILED
    if total < 50 or good < 0.999 * total:
        return ["embedded: %d of %d stacks lead from the host's main() to Python" % (good, total)]
    return []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("recorder")
    parser.add_argument("embed_host")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--python", nargs="*")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.recorder = os.path.abspath(options.recorder)
    found = [item for item in interpreters() if not options.python or item[1] in options.python]
    if not found:
        print("SKIPPED: no CPython to test with")
        return 77
    print("%-8s %9s %9s %8s %6s %6s %6s %6s %6s %7s" %
          ("version", "samples", "merges", "merged %", "n.trun", "p.trun", "faults", "wrong", "gil", "ns/frm"))
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for version, python in found:
            failures = test(version, python, options, folder)
            if version >= (3, 12):
                failures += test(version, python, options, folder, ["-X", "perf"])
            if version >= (3, 8):
                failures += test_embedded(version, python, options, folder)
            for failure in failures:
                print("FAILED %s (%s): %s" % (".".join(map(str, version)), python, failure))
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
