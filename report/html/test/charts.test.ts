// SPDX-License-Identifier: BSD-3-Clause
import assert from "node:assert/strict";
import test from "node:test";

import { FlameIndex, FlameSource, layoutFlame } from "../src/charts/flame_layout";
import { thin } from "../src/charts/sparkline";

// Children of 0: 1 (6), 2 (3), 3 (0.5), 4 (0.5), 5 (0.004); of 1: 6 (4); of 6: 7 (4).
const parents = [0, 0, 0, 0, 0, 0, 1, 6];
const values = [10.004, 6, 3, 0.5, 0.5, 0.004, 4, 4];
const source: FlameSource = {
  parent: (node) => parents[node],
  children: (node) =>
    parents.map((parent, child) => (parent === node && child !== 0 ? child : -1)).filter((c) => c > 0),
  value: (node) => values[node],
};

test("boxes are as wide as their share, and lie within their parents", () => {
  const boxes = layoutFlame(source, 0, 1e-6);
  assert.equal(boxes.length, values.length);
  for (const box of boxes) {
    assert.ok(Math.abs(box.end - box.begin - values[box.node] / values[0]) < 1e-12);
    if (box.node === 0) continue;
    const parent = boxes.find((other) => other.node === parents[box.node])!;
    assert.equal(box.depth, parent.depth + 1);
    assert.ok(box.begin >= parent.begin - 1e-12 && box.end <= parent.end + 1e-12);
  }
  for (let i = 1; i < boxes.length; ++i) {
    if (boxes[i].depth === boxes[i - 1].depth) assert.ok(boxes[i].begin >= boxes[i - 1].end - 1e-12);
  }
});

test("boxes that are too small to draw become one filler", () => {
  const boxes = layoutFlame(source, 0, 0.06);
  const fillers = boxes.filter((box) => box.filler > 0);
  assert.equal(fillers.length, 1);
  assert.equal(fillers[0].filler, 3);
  assert.ok(Math.abs(fillers[0].end - fillers[0].begin - 1.004 / 10.004) < 1e-12);
  assert.deepEqual(
    boxes.filter((box) => box.filler === 0).map((box) => box.node),
    [0, 1, 2, 6, 7],
  );
});

test("a zoomed node is as wide as the chart, below its ancestors", () => {
  const boxes = layoutFlame(source, 6, 1e-6);
  assert.deepEqual(
    boxes.map((box) => [box.node, box.depth, box.begin, box.end]),
    [
      [0, 0, 0, 1],
      [1, 1, 0, 1],
      [6, 2, 0, 1],
      [7, 3, 0, 1],
    ],
  );
});

test("a point and an arrow key find boxes", () => {
  const index = new FlameIndex(layoutFlame(source, 0, 1e-6));
  assert.equal(index.at(1, 0.3)?.node, 1);
  assert.equal(index.at(1, 0.7)?.node, 2);
  assert.equal(index.at(2, 0.7), null);
  assert.equal(index.at(9, 0.7), null);
  const one = index.at(1, 0.3)!;
  assert.equal(index.step(one, "right")?.node, 2);
  assert.equal(index.step(one, "left"), null);
  assert.equal(index.step(one, "down")?.node, 6);
  assert.equal(index.step(one, "up")?.node, 0);
  assert.equal(index.step(index.at(1, 0.7)!, "down"), null);
});

test("without time only the root has a box", () => {
  const empty: FlameSource = { parent: () => 0, children: () => [], value: () => 0 };
  assert.equal(layoutFlame(empty, 0, 0.001).length, 1);
});

test("a thinned series keeps its mean", () => {
  const series = Float32Array.from({ length: 64 }, (_, i) => i);
  assert.deepEqual([...thin(series, 4)], [7.5, 23.5, 39.5, 55.5]);
  assert.deepEqual([...thin(series, 100)], [...series]);
  assert.equal(thin([], 10).length, 0);
});
