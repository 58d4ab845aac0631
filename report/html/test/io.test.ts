// SPDX-License-Identifier: BSD-3-Clause
// What the page on file I/O says about calls.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { IoCall } from "../src/core/report";
import { longestOf, sitesOf, whoseLongest } from "../src/pages/io";

const call = (path: string, time_s: number, max_s: number, longest_rank: number, rank_max: number): IoCall => ({
  operation: "write",
  file: "a.py",
  line: 3,
  function: "store",
  library_function: null,
  path,
  count: 10,
  failed: 0,
  bytes: 100,
  time_s,
  max_s,
  longest_rank,
  rank_max,
});

test("the longest call is the rank's that made it, not that of the rank with most time", () => {
  const calls = [call("a", 18, 8, 7, 3), call("b", 20, 0.1, 2, 2)];
  assert.equal(whoseLongest(longestOf(calls)!), "write, rank 7");
  assert.equal(whoseLongest(call("a", 1, 1, -1, -1)), "write");
  const [site] = sitesOf(calls);
  assert.equal(site.longest.max_s, 8);
  assert.equal(site.longest.longest_rank, 7);
  assert.deepEqual(
    site.calls.map((row) => row.path),
    ["b", "a"],
  );
  assert.equal(longestOf([]), null);
});
