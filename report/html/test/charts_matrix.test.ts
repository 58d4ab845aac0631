// SPDX-License-Identifier: BSD-3-Clause
import assert from "node:assert/strict";
import test from "node:test";
import { leftOutText } from "../src/comm/matrix_content";
import { deviations, markedOutliers, rowMeans, spreadOf } from "../src/charts/balance_rows";
import { extremeBoxes } from "../src/charts/boxes_chart";
import { denseMatrix, nodesOfBins, partnersOf } from "../src/charts/matrix";
import { kNoNode } from "../src/charts/rows";

const cells = {
  source: [0, 0, 1, 2, 3],
  destination: [1, 2, 0, 3, 3],
  messages: [10, 1, 10, 4, 2],
  bytes: [1000, 50, 900, 0, 7],
};

test("the matrix between ranks, and between nodes", () => {
  const ranks = denseMatrix(cells, 4, (bin) => bin);
  assert.equal(ranks.bytes[0 * 4 + 1], 1000);
  assert.equal(ranks.messages[2 * 4 + 3], 4);
  const nodes = denseMatrix(cells, 2, (bin) => bin >> 1);
  assert.deepEqual([...nodes.bytes], [1900, 50, 0, 7]);
  assert.deepEqual([...nodes.messages], [20, 1, 0, 6]);
  // A rank that is not in the run.
  assert.equal(
    denseMatrix(cells, 4, (bin) => (bin === 1 ? -1 : bin)).bytes.reduce((a, b) => a + b),
    57,
  );
});

test("bins with ranks of several nodes are marked", () => {
  assert.deepEqual(nodesOfBins([0, 1, 2, 3], [0, 0, 1, 1], 2), { nodes: Uint32Array.of(0, 1), mixed: false });
  assert.deepEqual(nodesOfBins([0, 1, 2, 5], [0, 1, 1, 1], 2), { nodes: Uint32Array.of(kNoNode, 1, 1), mixed: true });
  assert.equal(nodesOfBins([0, 4], [0, 1], 2).nodes[1], kNoNode);
});

test("sources and destinations are sorted by their bytes", () => {
  const matrix = denseMatrix(cells, 4, (bin) => bin);
  assert.deepEqual(partnersOf(matrix, "source"), [
    { place: 0, bytes: 1050, messages: 11, partners: 2, largest: 1 },
    { place: 1, bytes: 900, messages: 10, partners: 1, largest: 0 },
    { place: 3, bytes: 7, messages: 2, partners: 1, largest: 3 },
    { place: 2, bytes: 0, messages: 4, partners: 1, largest: 3 },
  ]);
  assert.deepEqual(
    partnersOf(matrix, "destination").map((one) => one.place),
    [1, 0, 2, 3],
  );
});

test("the cost of imbalance is what the slowest has above the mean", () => {
  const spread = spreadOf([1, NaN, 3, 8]);
  assert.ok(spread);
  assert.deepEqual(spread, { mean: 4, max: 8, high: 3, cost: 4, imbalance: 2 });
  assert.equal(spreadOf([2, 8], [5, 1])?.mean, 3);
  assert.equal(spreadOf([NaN]), null);
  assert.deepEqual([...deviations([2, 6], 4)], [-0.5, 0.5]);
  assert.ok(Number.isNaN(deviations([0], 0)[0]));
});

test("outliers are marked when they deviate enough", () => {
  const values = [10, 10, 10.1, 9.9, 10, 10, 10.05, 20, 10.8];
  assert.deepEqual(markedOutliers(values, undefined, 11.2, 0.1, 5), [7]);
  assert.deepEqual(markedOutliers(values, undefined, 0, 0.1, 5), []);
  const ones = new Array<number>(20).fill(1);
  assert.deepEqual(markedOutliers([7, ...ones, 9, 8], undefined, 2, 0.1, 2), [21, 22]);
});

test("rows have the mean of their ranks' values", () => {
  const means = rowMeans([1, 3, NaN, 8], [0, 0, 0, 1], 3);
  assert.deepEqual([...means.subarray(0, 2)], [2, 8]);
  assert.ok(Number.isNaN(means[2]));
});

test("with many nodes the extreme ones have boxes", () => {
  const values = Array.from({ length: 100 }, (_, i) => i);
  const groups = Array.from({ length: 10 }, (_, n) => ({
    name: `n${n}`,
    indices: Array.from({ length: 10 }, (_, i) => n * 10 + i),
    pick() {},
  }));
  const few = extremeBoxes({ values, weights: null }, groups, 4);
  assert.deepEqual(
    few.boxes.map(({ group }) => group.name),
    ["n9", "n8", "n1", "n0"],
  );
  assert.equal(few.cut, 2);
  assert.equal(few.left, 6);
  const all = extremeBoxes({ values, weights: null }, groups, 10);
  assert.equal(all.boxes.length, 10);
  assert.equal(all.cut, null);
  assert.equal(all.boxes[0].box.median, 94.5);
});

test("the matrix says how much it leaves out", () => {
  const addressed = { bytes: [3000, 1800] };
  const collective = { bytes: [1e9, 5e7] };
  const rows = [{ op: "MPI_Bcast", bytes: 5e7 }, { op: "MPI_Allreduce", bytes: 1e9 }];
  assert.equal(leftOutText("addressed", addressed, collective, rows), "Not shown: about 1.05 GB moved by collective operations, most of it by MPI_Allreduce.");
  assert.match(leftOutText("collectives", addressed, collective, rows), /estimate.*Left out: 4\.80 kB addressed to a rank\./);
  assert.equal(leftOutText("addressed", addressed, { bytes: [] }, []), "");
});
