"""A program that alternates between touching fresh pages and computing says how much CPU time the kernel
took for its page faults; the time charged to page faults must agree, and most of it lie in the function that
touched the pages."""

import recording


class PageFaults(recording.RecordingTest):
    def test_share_and_place(self):
        program = recording.program("plain", "page_faults")
        self.need(program)
        done = self.record([program, "5"], timeout=280)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        own, total = (float(word) for word in done.stdout.split())
        self.measured_above(own / total, 0.1, "faults of the program itself")
        report = self.report()
        found = report["activities"]["page_fault_s"]
        self.measured_near(found / total, own / total, 0.03, "share")
        functions = {f["name"]: f for f in report["functions"]}
        self.assertAlmostEqual(functions["page fault"]["page_fault_s"], found, places=6)
        # The kernel's clock ticks: what ran right after the faults may get a part of them, not most.
        self.measured_above(functions["touch"]["total_s"] - functions["touch"]["self_s"], 0.5 * found, "touch")


if __name__ == "__main__":
    recording.main()
