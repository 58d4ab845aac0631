"""`clusterprof whatif` predicts what a change gains: solve() takes half as long, rank 1 as long as the others, a barrier is gone.
The programs sleep for work, and print how long each rank worked and wanted to work in each round. From that and the pattern of
communication follows what they would take with the change, on a busy machine, too. bench/whatif.py compares with programs in which
the change is really made; so do the tests of networks, which become slower (support/slow_network.py)."""

import itertools
import json
import os
import statistics
import subprocess

import jsonschema

import recording
import slow_network

RATE_HZ = 250
# Open MPI's ranks yield while they wait. MPICH's spin: two of them have a processor each.
RANKS = {"openmpi": 4, "mpich": 2}
CHANGES = {"half": ["function solve x0.5"], "equal": ["rank 1 = mean"], "both": ["function solve x0.5", "rank 1 = mean"]}
SOURCE = f"{recording.SOURCE}/tests/truth/programs/whatif.c"
# Of runs with another network.
PAIRS = 3
# Most of the time is on the network: on a machine that others use, too, the change has to be more than what they take.
LATENCY_S = 0.03
RATE_BITS_PER_S = 100_000_000  # a message of 1 MiB takes 84 ms


def line_of(text):
    with open(SOURCE, encoding="utf-8") as file:
        return next(n for n, line in enumerate(file, 1) if text in line)


def left_late_s(pattern, own):
    """How late each rank left the call of each round in which it waits for all others, or with `rendezvous` for another one, after
    the last of them had come: it had to wait for a processor. That shows where others come last with a change. Not of the last
    round, after which nothing comes."""
    of_rounds = list(zip(zip(*own["began_s"]), zip(*own["solve_s"]), zip(*own["prepare_s"])))
    late_s = []
    for (began, solve, prepare), (left, _, _) in zip(of_rounds, of_rounds[1:]):
        if pattern == "rendezvous":
            ready = list(map(sum, zip(began, solve, prepare)))
            late_s.append([left[rank] - max(ready[rank], ready[rank ^ 1]) for rank in range(len(left))])
        else:
            late_s.append([at - max(map(sum, zip(began, solve))) for at in left])
    return late_s


def elapsed_s(pattern, solve_s, prepare_s, late_s=()):
    """What programs/whatif.c takes if messages take no time, and these are the times of each rank's rounds, and how late ranks leave
    the calls in which they wait."""
    ranks = range(len(solve_s))
    now = [0.0 for _ in ranks]
    for solve, prepare, late in itertools.zip_longest(zip(*solve_s), zip(*prepare_s), late_s, fillvalue=[0.0 for _ in ranks]):
        begin = now
        now = [begin[rank] + solve[rank] for rank in ranks]
        if pattern in ("allreduce", "marked", "barrier"):
            now = [max(now) + late[rank] for rank in ranks]
        elif pattern == "halo":
            now = [max(now[rank], *begin[max(rank - 1, 0):rank + 2]) + prepare[rank] for rank in ranks]
        elif pattern == "rendezvous":
            ready = [now[rank] + prepare[rank] for rank in ranks]
            now = [max(ready[rank], ready[rank ^ 1]) + late[rank] for rank in ranks]
        elif pattern == "pipeline":
            for rank in ranks:
                now[rank] = max([begin[rank], *now[:rank][-1:]]) + solve[rank] + prepare[rank]
    return max(now)


def changed(kind, own):
    """The times of solve() with the change. A rank that is late because it had to wait for a processor is as late with it."""
    wanted_s = own["to_solve_s"]
    factors = [1.0 for _ in wanted_s]
    if kind in ("equal", "both"):
        factors[1] = statistics.mean(sum(times) for rank, times in enumerate(wanted_s) if rank != 1) / sum(wanted_s[1])
    if kind in ("half", "both"):
        factors = [0.5 * factor for factor in factors]
    return [[time - (1 - factor) * wanted for time, wanted in zip(*of_rank)]
            for factor, *of_rank in zip(factors, own["solve_s"], wanted_s)]


def most_late_s(own):
    """What the machine made ranks late by, as far as it can show: in MPI, and in each round what the latest rank was late by.
    Much of this is behind the rank that works longest, and shows when that one becomes faster."""
    in_mpi_s = own["elapsed_s"] - elapsed_s("allreduce", own["solve_s"], own["prepare_s"])
    late_s = [[time - wanted for time, wanted in zip(*of_rank)] for of_rank in zip(own["solve_s"], own["to_solve_s"])]
    return in_mpi_s + sum(max(of_round) for of_round in zip(*late_s))


def gain_s(own, pattern, kind):
    if kind == "nobarrier":  # all that is beside the work is in barriers
        return own["elapsed_s"] - elapsed_s("nobarrier", own["solve_s"], own["prepare_s"])
    late_s = left_late_s(pattern, own)
    before = elapsed_s(pattern, own["solve_s"], own["prepare_s"], late_s)
    return before - elapsed_s(pattern, changed(kind, own), own["prepare_s"], late_s)


class WhatIf(recording.RecordingTest):
    def own_times(self, done):
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return json.loads(done.stdout)

    def whatif(self, run, *options, status=0):
        done = subprocess.run([recording.CLUSTERPROF, "whatif", f"{self.directory}/{run}", "--json", *options],
                              capture_output=True, timeout=120)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        if status:
            return done.stderr.decode()
        result = json.loads(done.stdout)
        with open(f"{recording.SOURCE}/report/json/whatif.schema.json", encoding="utf-8") as file:
            jsonschema.validate(result, json.load(file), jsonschema.Draft7Validator)
        return result

    def predicted(self, run, changes):
        return self.whatif(run, *(word for change in changes for word in ("--change", change)))

    def compare(self, flavour, pattern, kind, change=None, unit_s=0.03):
        """Units are long in comparison with how late a busy machine makes ranks."""
        program = recording.program(flavour, "whatif")
        self.need(program)
        run = f"{flavour}-{pattern}-{kind}"
        own = self.own_times(self.record([program, pattern, "none", str(unit_s)],
                                         before=recording.launcher(flavour, RANKS[flavour]),
                                         options=["-q", "-r", str(RATE_HZ)], run=run))
        result = self.predicted(run, [change] if change else CHANGES[kind])
        self.assertAlmostEqual(result["replayed_s"], result["elapsed_s"], delta=0.01 * result["elapsed_s"])
        real = gain_s(own, pattern, kind)
        # The change must show, or it would be no test: a third of what the ranks took at least.
        self.measured_above(real, 0.1 * own["elapsed_s"], "what is really gained")
        self.near(result["elapsed_s"] - result["predicted_s"], real, result, own, f"gain of {run}")

    def near(self, gain, real, stated, own, what):
        """Within 5 % of the run. Where ranks lacked a processor, nobody knows for how long they would have with the change: then
        the stated error, which has that time in it, is what counts."""
        self.measured_near(gain, real, max(0.05 * own["elapsed_s"], stated["error_s"]), what)

    def test_one_slow_rank_as_the_others(self):
        self.compare("openmpi", "allreduce", "equal")

    def test_half_the_work_of_a_pipeline(self):
        self.compare("openmpi", "pipeline", "half")

    def test_half_the_work_between_halo_exchanges(self):
        # Ranks rest in two functions in turn: for long enough to be seen in both.
        self.compare("openmpi", "halo", "half", unit_s=0.05)

    def test_half_the_work_of_receivers_of_large_messages(self):
        self.compare("mpich", "rendezvous", "half")

    def test_without_a_barrier(self):
        self.compare("openmpi", "barrier", "nobarrier", f"call MPI_Barrier whatif.c:{line_of('if (!nobarrier)')} removed")

    def test_two_changes_at_once(self):
        self.compare("openmpi", "allreduce", "both")

    def test_half_of_what_a_line_calls(self):
        self.compare("openmpi", "allreduce", "half", f"line whatif.c:{line_of('rest(wanted);')} x0.5")

    def test_half_of_a_region(self):
        self.compare("openmpi", "marked", "half", "region load x0.5")

    def compare_networks(self, command, change, before, after):
        """`before`, `after`: how the program is recorded on the network as it was, and on the changed one. The runs take turns. What the
        machine makes ranks late by is never less than nothing: the shortest runs have least of it."""
        own_s, gains_s, errors_s = {"before": [], "after": []}, [], []
        for pair in range(PAIRS):
            for name, how in (("before", before), ("after", after)):
                own = self.own_times(self.record(command, options=["-q", "-r", str(RATE_HZ)], run=f"{name}-{pair}", **how))
                own_s[name].append(own["elapsed_s"])
            result = self.predicted(f"before-{pair}", [change])
            self.assertAlmostEqual(result["replayed_s"], result["elapsed_s"], delta=0.01 * result["elapsed_s"])
            gains_s.append(result["elapsed_s"] - result["predicted_s"])
            errors_s.append(result["error_s"])
        whole = min(own_s["before"])
        real = whole - min(own_s["after"])
        # The change must show, or it would be no test.
        self.measured_below(real, -0.3 * whole, "what is really lost")
        self.near(statistics.median(gains_s), real, {"error_s": statistics.median(errors_s)}, {"elapsed_s": whole}, f"gain of {change}")

    def compare_delays(self, flavour):
        self.need(f"mpicc.{flavour}")
        program = slow_network.with_delays(flavour, SOURCE, self.directory)
        before, after = ({"before": recording.launcher(flavour, 2), "env": slow_network.delay(seconds)}
                         for seconds in (LATENCY_S, 2 * LATENCY_S))
        self.compare_networks([program, "ask", "none"], "latency x2", before, after)

    def test_twice_the_latency(self):
        self.compare_delays("openmpi")

    def test_twice_the_latency_of_mpich(self):
        self.compare_delays("mpich")

    def test_half_the_bandwidth(self):
        program = recording.program("openmpi", "whatif")
        self.need(program, "unshare", "tc", "ip")
        if why := slow_network.why_not_limited():
            self.skipTest(f"there can be no network of limited bandwidth here: {why}")
        launcher = recording.launcher("openmpi", 2)
        before, after = ({"before": [*slow_network.limit(rate), launcher[0], *slow_network.OVER_TCP, *launcher[1:]],
                          "env": slow_network.as_root()} for rate in (RATE_BITS_PER_S, RATE_BITS_PER_S // 2))
        self.compare_networks([program, "bulk", "none"], "bandwidth x0.5", before, after)

    def test_above_the_event_budget(self):
        """A rank makes 1500 calls and keeps 600 events: stretches of time stand for the run."""
        program = recording.program("openmpi", "whatif")
        self.need(program)
        own = self.own_times(self.record([program, "allreduce", "none", "0.002", "1500"],
                                         before=recording.launcher("openmpi", RANKS["openmpi"]),
                                         options=["-q", "-r", str(RATE_HZ)],
                                         env=dict(os.environ, CLUSTERPROF_EVENT_BUDGET="600")))
        # What the machine made ranks late by may go with the change or stay.
        late_s = most_late_s(own)
        for kind, changes in CHANGES.items():
            result = self.predicted("run", changes)
            self.assertEqual(result["method"], "replay")
            self.assertGreaterEqual(result["stretches"]["count"], 3)
            # Half of the budget, or what is left of that when stretches have become shorter: a share of the calls, and on a machine that
            # has no pauses of the time, too.
            share = result["stretches"]["time_s"] / result["elapsed_s"]
            self.measured_above(share, 0.02, "share of the stretches")
            self.measured_below(share, 0.3, "share of the stretches")
            self.assertAlmostEqual(result["replayed_s"], result["elapsed_s"], delta=0.01 * result["elapsed_s"])
            real = gain_s(own, "allreduce", kind)
            self.measured_above(real, 0.1 * own["elapsed_s"], "what is really gained")
            self.measured_near(result["elapsed_s"] - result["predicted_s"], real,
                               min(0.05 * own["elapsed_s"] + late_s, result["error_s"]), f"gain of {' and '.join(changes)}")
        text = subprocess.run([recording.CLUSTERPROF, "whatif", f"{self.directory}/run", "--change", *CHANGES["half"]],
                              capture_output=True, timeout=60, check=True).stdout.decode()
        self.assertIn(f"from {result['stretches']['count']} complete stretches, ", text)
        # The merge has done the same.
        report = json.loads(subprocess.run([recording.CLUSTERPROF, "report", f"{self.directory}/run", "--json"], capture_output=True,
                                           timeout=120, check=True).stdout)
        self.assertEqual(report["whatif"]["stretches"], result["stretches"])
        self.assertGreater(report["wait_analysis"]["event_level"], 0)

    def test_ranking(self):
        program = recording.program("openmpi", "whatif")
        self.need(program)
        done = self.record([program, "allreduce", "none", "0.03"], before=recording.launcher("openmpi", RANKS["openmpi"]),
                           options=["-q", "-r", str(RATE_HZ)])
        own = self.own_times(done)
        result = self.whatif("run")
        self.assertIsNone(result["predicted_s"])
        self.assertIsNone(result["stretches"])
        rows = {row["change"]: row for row in result["candidates"]}
        gains = {change: row["gain_s"] for change, row in rows.items()}
        self.assertEqual(list(gains.values()), sorted(gains.values(), reverse=True))
        self.near(gains["rank 1 = mean"], gain_s(own, "allreduce", "equal"), rows["rank 1 = mean"], own, "gain of rank 1 = mean")
        self.assertIn("rank 1 = mean", subprocess.run([recording.CLUSTERPROF, "whatif", f"{self.directory}/run"],
                                                      capture_output=True, timeout=60, check=True).stdout.decode())
        # The merge has predicted the same, and the findings take their gain from that.
        report = json.loads(subprocess.run([recording.CLUSTERPROF, "report", f"{self.directory}/run", "--json"], capture_output=True,
                                           timeout=120, check=True).stdout)
        self.assertEqual(report["whatif"]["method"], "replay")
        self.assertEqual(report["whatif"]["candidates"], result["candidates"])
        self.assertEqual(report["whatif"]["refused_changes"], result["refused_changes"])
        self.assertEqual(report["whatif"]["tried"] + len(result["refused_changes"]), report["whatif"]["to_try"])
        for key in "elapsed_s", "replayed_s":
            self.assertEqual(report["whatif"][key], result[key])
        # On a busy machine another rank may be late, too, and then the change is about all of them.
        late = [finding for finding in report["findings"] if finding["rank"] == 1 and finding["change"] in gains]
        # Where ranks lacked processors for as long, that may be what the findings say. The kernel does not know of all of that.
        if max(most_late_s(own), *(rank["runnable_s"] or 0 for rank in report["ranks"])) < 0.3 * gains["rank 1 = mean"]:
            self.assertTrue(late, report["findings"])
        for finding in late:
            self.assertEqual((finding["gain_s"], finding["gain_method"]), (gains[finding["change"]], "replay"))
            self.assertIn(finding["kind"], ("delay", "load_imbalance"))
        self.assertIn("no such function", self.whatif("run", "--change", "function nothing x0", status=1))
        self.assertIn("is no change", self.whatif("run", "--change", "faster", status=2))


if __name__ == "__main__":
    recording.main()
