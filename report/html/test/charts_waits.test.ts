// SPDX-License-Identifier: BSD-3-Clause
import assert from "node:assert/strict";
import test from "node:test";
import { gzipSync } from "node:zlib";
import { encode } from "../dev/make_sample.mjs";
import { flowsOf, kOthers, largestRanks, waitChain, waitEdges, whoWaits } from "../src/charts/wait_graph";
import { waitSums } from "../src/comm/wait_kinds";
import { decode } from "../src/core/decode";
import { CATEGORIES } from "../src/core/model";
import type { WaitCause, WaitKind, WaitRow } from "../src/core/report";

const cause = (rank: number | null, wait_s: number, name: string, rest?: number): WaitCause => ({
  rank,
  wait_s,
  count: 1,
  op: null,
  file: "a.py",
  line: 1,
  function: name,
  ...(rest === undefined ? {} : { rest }),
});
const wait = (kind: WaitKind, rank: number, ...caused_by: WaitCause[]): WaitRow => ({
  kind,
  rank,
  wait_s: caused_by.reduce((sum, part) => sum + part.wait_s, 0),
  count: 1,
  caused_by,
  where: [],
});

const waits = [
  wait("wait_at_nxn", 1, cause(0, 4, "slow"), cause(2, 1, "f"), cause(null, 0.5, "g", 3)),
  wait("late_sender", 1, cause(0, 2, "slow"), cause(0, 1, "other")),
  wait("late_sender", 2, cause(1, 5, "f")),
  wait("late_sender", 0, cause(3, 0.1, "f")),
];

test("edges sum up the waiting between two ranks", () => {
  const edges = waitEdges(waits);
  assert.deepEqual(
    edges.map((edge) => [edge.waiter, edge.cause, edge.wait_s]),
    [
      [1, 0, 7],
      [2, 1, 5],
      [1, 2, 1],
      [1, kOthers, 0.5],
      [0, 3, 0.1],
    ],
  );
  assert.deepEqual(
    [...edges[0].byKind],
    [
      ["wait_at_nxn", 4],
      ["late_sender", 3],
    ],
  );
  assert.deepEqual(
    edges[0].places.map((place) => [place.cause.function, place.wait_s]),
    [
      ["slow", 6],
      ["other", 1],
    ],
  );
  const total = waits.reduce((sum, row) => sum + row.wait_s, 0);
  assert.ok(Math.abs(edges.reduce((sum, edge) => sum + edge.wait_s, 0) - total) < 1e-12);
  assert.deepEqual(
    waitEdges(waits, (rank) => rank === 2).map((edge) => edge.cause),
    [1],
  );
});

test("the ranks with most, and all others together", () => {
  const edges = waitEdges(waits);
  assert.deepEqual(largestRanks(edges, "cause", 2), [
    { rank: 0, wait_s: 7, of: 1 },
    { rank: 1, wait_s: 5, of: 1 },
    { rank: kOthers, wait_s: 1.6, of: 2 },
  ]);
  assert.deepEqual(
    largestRanks(edges, "waiter", 5).map((sum) => sum.rank),
    [1, 2, 0],
  );
});

test("the rank that waits most is found by all of its waiting", () => {
  const spread = wait("late_sender", 3, ...[0, 1, 2, 4, 5].map((rank) => cause(rank, 2, "f")));
  assert.deepEqual(whoWaits(waitEdges([wait("late_sender", 7, cause(0, 3, "slow")), spread])), {
    waiter: 3,
    isMost: true,
  });
  const forSeveral = wait("wait_at_nxn", 9, cause(null, 20, "g", 3));
  assert.deepEqual(whoWaits(waitEdges([spread, forSeveral])), { waiter: 3, isMost: false });
  assert.equal(whoWaits(waitEdges([forSeveral])).waiter, undefined);
});

test("kinds of waiting are summed up with what the table of waits leaves out", async () => {
  const header = {
    schema: "clusterprof.page/1",
    categories: [...CATEGORIES],
    wait_kinds: ["late_sender", "wait_at_nxn"],
    report: { nodes: [], functions: [], lines: [], mpi: { waits: [wait("wait_at_nxn", 0, cause(1, 5, "f"))] } },
    strings: [],
  };
  const arrays = {
    rank_number: { type: "i32", values: Int32Array.of(0, 1, 2) },
    rank_wait_kind_s: { type: "f32", values: Float32Array.of(0.5, 5, 0.25, 0, 0, 0) },
    rank_wait_kind_count: { type: "u32", values: Uint32Array.of(7, 1, 3, 0, 0, 0) },
  };
  const model = await decode(gzipSync(encode(header, arrays)).toString("base64"));
  assert.deepEqual(waitSums(model, null), [
    { kind: "wait_at_nxn", wait_s: 5, count: 1, ranks: 1 },
    { kind: "late_sender", wait_s: 0.75, count: 10, ranks: 2 },
  ]);
  assert.deepEqual(waitSums(model, Uint8Array.of(0, 1, 1)), [
    { kind: "late_sender", wait_s: 0.25, count: 3, ranks: 1 },
  ]);
});

test("flows keep all waiting and join the small ones", () => {
  const edges = waitEdges(waits);
  const { causes, waiters, flows } = flowsOf(edges, 1);
  assert.deepEqual(
    causes.map((sum) => sum.rank),
    [0, kOthers],
  );
  assert.deepEqual(
    waiters.map((sum) => sum.rank),
    [1, kOthers],
  );
  const total = edges.reduce((sum, edge) => sum + edge.wait_s, 0);
  assert.ok(Math.abs(flows.reduce((sum, flow) => sum + flow.wait_s, 0) - total) < 1e-12);
  for (const [place, cause] of causes.entries()) {
    const sum = flows.filter((flow) => flow.cause === place).reduce((s, flow) => s + flow.wait_s, 0);
    assert.ok(Math.abs(sum - cause.wait_s) < 1e-12);
  }
  assert.equal(flows[0].wait_s, 7);
});

test("a chain ends with the rank that did not wait itself", () => {
  const chain = waitChain(waitEdges(waits), 2);
  assert.deepEqual(
    chain.map((edge) => [edge.waiter, edge.cause]),
    [
      [2, 1],
      [1, 0],
    ],
  );
  // Two ranks that wait for each other: it does not go round.
  const circle = waitEdges([wait("late_sender", 0, cause(1, 1, "f")), wait("late_sender", 1, cause(0, 1, "f"))]);
  assert.deepEqual(
    waitChain(circle, 0).map((edge) => edge.cause),
    [1],
  );
  assert.deepEqual(waitChain(circle, 9), []);
});
