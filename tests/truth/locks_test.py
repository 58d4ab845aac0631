# SPDX-License-Identifier: BSD-3-Clause
"""Programs that wait for mutexes which other threads keep for long. locks.c: which line waits, for how long, and where the mutex was
held. two_locks.cpp: the same by mutex, one of which is a std::mutex, with their names and the longest wait."""

import json
import os
import subprocess

import measured
import recording
import truth

SOURCE = os.path.join(truth.PROGRAMS, "locks.c")
WAITS = 3  # lock_rounds.h, of each kind
PERIOD_S = 0.014  # of samples, and a tick of the kernel


def line_of(what):
    with open(SOURCE, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if f"/* line of {what} */" in line)


class Locks(recording.RecordingTest):
    def test_holder(self):
        self.need("gcc")
        program = os.path.join(self.directory, "locks")
        subprocess.run(["gcc", "-O1", "-g", "-fno-inline", SOURCE, "-o", program, "-pthread"], check=True)
        done = self.record([program, "5"])
        self.assertEqual(done.returncode, 0, done.stderr)
        own = json.loads(done.stdout)
        own_s, lacked_s = own["waited_s"], own["lacked_s"]
        report = self.report()
        rows = [row for row in report["mutexes"] if row["function"] == "main"]
        row, = rows
        self.assertEqual((os.path.basename(row["file"]), row["line"], row["mutexes"]), ("locks.c", line_of("waiter"), 1))
        # A wait of 500 ms begins up to 40 ms late: until then the thread's sample is that of the short sleep before it. Where the thread is
        # ready without a processor, it may have the mutex already.
        self.measured_near(row["wait_s"], own_s - lacked_s / 2, 0.1 * own_s + lacked_s / 2, "waiting for the mutex")
        held = {}
        for holder in row["holders"]:
            held[holder["function"]] = held.get(holder["function"], 0) + holder["wait_s"]
        self.measured_above(held.get("hold", 0) + held.get("spin", 0) + held.get("now", 0), 0.7 * row["wait_s"], "held in hold()")
        finding, = [finding for finding in report["findings"] if finding["kind"] == "blocked"]
        self.assertEqual(finding["action"], "hold_lock_less")

    def test_two_mutexes(self):
        self.need("g++")
        program = os.path.join(self.directory, "two_locks")
        subprocess.run(["g++", "-std=c++17", "-O1", "-g", os.path.join(truth.PROGRAMS, "two_locks.cpp"), "-o", program, "-pthread"],
                       check=True)
        done = self.record([program, "7"])
        self.assertEqual(done.returncode, 0, done.stderr)
        own, report = json.loads(done.stdout), self.report()
        # The std::mutex is a member: its name is that of the object, and how far it is behind its beginning.
        locks = {}
        for row in report["locks"]:
            if row["name"] is not None:
                locks[row["name"].split("+")[0]] = row
        self.assertLessEqual(set(own), set(locks), report["locks"])
        for name, holds in (("plain_lock", "hold_plain"), ("work::queue", "hold_queue")):
            row, said = locks[name], own[name]
            self.assertEqual((row["mutexes"], row["rank"], row["address"]), (1, None, None))
            # As above, a wait begins up to 40 ms late, and may be over before its thread has a processor.
            doubt_s = said["lacked_s"] / 2
            self.measured_near(row["wait_s"], said["wait_s"] - doubt_s, 0.04 * said["waits"] + 0.03 * said["wait_s"] + doubt_s,
                               f"waiting for {name}")
            self.measured_near(row["longest_s"], said["longest_s"] - doubt_s, 0.04 + 0.03 * said["longest_s"] + doubt_s,
                               f"longest wait for {name}")
            self.measured_near(row["waits"], said["waits"], 2, f"waits for {name}")
            held_s = sum(holder["wait_s"] for holder in row["holders"] if holder["function"] and holds in holder["function"])
            self.measured_above(held_s, 0.7 * row["wait_s"], f"{name} is held in {holds}()")
        queue, = [row["name"] for row in report["locks"] if (row["name"] or "").startswith("work::queue")]
        self.assertEqual(queue, "work::queue+0x8")

    def check_wait(self, row, own, functions):
        """`own`: what lock_rounds.h says of the waits; `functions`: those that the other thread was in meanwhile."""
        # A wait's beginning is known to a period. Where the thread was ready without a processor, in the call before the wait or to handle
        # the profiler's signal, that is no wait. What it lacked one before the call is in the same account, which is read now and then.
        without_s = own["lacked_s"] + own["stops_s"]
        self.measured_near(row["wait_s"], own["wait_s"] + (own["waking_s"] - without_s) / 2,
                           WAITS * PERIOD_S + (own["waking_s"] + without_s) / 2, "waiting")
        self.measured_near(row["waits"], WAITS, 1, "waits")
        for function, said_s in zip(functions, own["parts_s"]):
            in_it_s = sum(holder["wait_s"] for holder in row["holders"] if function in (holder["function"] or ""))
            # Where two functions meet, a half of the time between two samples is in doubt: of a period of its processor's time, once
            # with its longest stop. The first function begins with the wait, and the last one ends with it.
            edges = WAITS * (1 if function == functions[-1] else 2)
            around_s = (without_s if function == functions[0] else 0) + (own["waking_s"] if function == functions[-1] else 0)
            self.measured_near(in_it_s, said_s, edges * PERIOD_S * own["slow"] / 2 + own["longest_stop_s"] + around_s,
                               f"{function}() meanwhile")

    def check_kinds(self, own, wanted):
        """`wanted`: by kind in `own` the kind in the report, the name of the lock, and the functions of the other thread."""
        report = self.report()
        for said, (kind, name, functions) in wanted.items():
            row, = [row for row in report["locks"] if row["kind"] == kind and (row["name"] or "").split("+")[0] == name]
            self.check_wait(row, own[said], functions)
        return report

    def test_kinds_of_pthreads(self):
        self.need("gcc")
        program = os.path.join(self.directory, "lock_kinds")
        subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", os.path.join(truth.PROGRAMS, "lock_kinds.c"), "-o", program, "-pthread"],
                       check=True)
        done = self.record([program])
        self.assertEqual(done.returncode, 0, done.stderr)
        own = json.loads(done.stdout)
        report = self.check_kinds(own, {
            "condition": ("condition", "filled", ("prepare", "compute")),
            "semaphore": ("semaphore", "items", ("make_item",)),
            "rwlock": ("rwlock", "table", ("change_table",)),
            "barrier": ("barrier", "meeting", ("come_late",)),
        })
        # Who comes out of the condition may find that the other thread, which has lost its processor meanwhile, still has the mutex.
        self.assertLessEqual({row["function"] for row in report["mutexes"]}, {"main"})
        # It has gone on by the time that the program says.
        self.measured_below(sum(row["wait_s"] for row in report["mutexes"]), own["condition"]["late_s"] + WAITS * PERIOD_S,
                            "waiting for the mutex of the condition")

    def test_kinds_of_the_standard_library(self):
        self.need("g++")
        program = os.path.join(self.directory, "std_lock_kinds")
        subprocess.run(["g++", "-std=c++20", "-O1", "-g", os.path.join(truth.PROGRAMS, "std_lock_kinds.cpp"), "-o", program, "-pthread"],
                       check=True)
        done = self.record([program])
        self.assertEqual(done.returncode, 0, done.stderr)
        own = json.loads(done.stdout)
        self.check_kinds(own, {
            "condition": ("condition", "filled", ("prepare", "compute")),
            "rwlock": ("rwlock", "table", ("change_table",)),
        })
        # Whether it is seen to be a semaphore depends on what the compiler has put into its caller.
        row, = [row for row in self.report()["locks"] if (row["name"] or "").split("+")[0] == "items"]
        self.assertIn(row["kind"], ("semaphore", "futex"))
        self.check_wait(row, own["items"], ("make_item",))

    def test_spin_locks(self):
        self.need("gcc")
        program = os.path.join(self.directory, "spin_locks")
        subprocess.run(["gcc", "-std=gnu11", "-O1", "-g", os.path.join(truth.PROGRAMS, "spin_locks.c"), "-o", program, "-pthread"], check=True)
        done = self.record([program])
        self.assertEqual(done.returncode, 0, done.stderr)
        own, report = json.loads(done.stdout), self.report()
        # A lock that was always free is not there.
        row, = [row for row in report["locks"] if row["kind"] == "spinlock"]
        lines = {line["function"]: line["wait_s"] for line in row["lines"]}
        self.assertEqual((row["name"], row["mutexes"]), ("shared", 1))
        # Where the main thread loses its processor while it has the lock, the other thread waits.
        self.assertIn(set(lines), ({"main"}, {"main", "hold_shared"}))
        # A period at either end of a wait is uncertain.
        error_s = measured.block_error(own["waits"], 0.01, own["spun_s"]) * own["spun_s"]
        self.measured_near(lines["main"], own["spun_s"], 4 * error_s, "spinning")
        held_s = sum(holder["wait_s"] for holder in row["holders"] if holder["function"] == "hold_shared")
        # Where it comes back after the lock's release, its sample may find the lock free.
        known = 0.9 - 0.3 * own["lacking_s"] / own["spun_s"]
        self.measured_above(held_s, known * lines["main"], "held in hold_shared()")
        # It is a part of the function's CPU time.
        spin, = [function for function in report["functions"] if function["name"].startswith("pthread_spin_lock")]
        self.assertLessEqual(row["wait_s"], spin["cpu_s"])
        self.assertEqual(spin["lock_s"], 0)
        # For other locks, as those of the C library, a thread waits at most while another one that has it lacks a processor.
        others_s = sum(other["wait_s"] for other in [*report["mutexes"], *report["locks"]] if other is not row)
        self.measured_below(others_s, 0.1 * own["spun_s"], "waiting for other locks")

    def test_idle_workers_are_no_finding(self):
        self.need("g++")
        program = os.path.join(self.directory, "idle_pool")
        subprocess.run(["g++", "-std=c++17", "-O1", "-g", os.path.join(truth.PROGRAMS, "idle_pool.cpp"), "-o", program, "-pthread"], check=True)
        done = self.record([program])
        self.assertEqual((done.returncode, done.stdout.strip()), (0, b"5"), done.stderr)
        report = self.report()
        row, = [row for row in report["locks"] if row["wait_s"] > 1]
        self.assertEqual((row["kind"], row["mutexes"]), ("condition", 1))
        self.assertEqual([finding for finding in report["findings"] if finding["kind"] in ("blocked", "waits_for_data")], [])

    def test_conditions_of_old_programs(self):
        self.need("gcc")
        program = os.path.join(self.directory, "old_condition")
        built = subprocess.run(["gcc", "-D_GNU_SOURCE", "-O1", "-g", os.path.join(truth.PROGRAMS, "old_condition.c"), "-o", program, "-pthread"],
                               check=False, capture_output=True, text=True)
        if built.returncode != 0:
            self.skipTest("libc has no conditions of glibc 2.2.5")
        done = self.record([program])
        self.assertEqual((done.returncode, done.stdout.strip()), (0, b"4"), done.stderr)

    def test_first_wake_while_a_library_is_loaded(self):
        self.need("gcc")
        source = os.path.join(truth.PROGRAMS, "starts_a_thread.c")
        library, program = (os.path.join(self.directory, name) for name in ("libstarts.so", "loads"))
        subprocess.run(["gcc", "-O1", "-pthread", "-DLIBRARY", "-shared", "-fPIC", source, "-o", library], check=True)
        subprocess.run(["gcc", "-O1", "-pthread", source, "-o", program, "-ldl"], check=True)
        for more in ([], ["--standby"]):
            done = self.record([program, library], options=["-q", *more], run=f"run-{len(more)}")
            self.assertEqual((done.returncode, done.stdout), (0, b"loaded\n"), done.stderr)


if __name__ == "__main__":
    recording.main()
