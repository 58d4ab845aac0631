// SPDX-License-Identifier: BSD-3-Clause
import assert from "node:assert/strict";
import test from "node:test";
import { blend, packed, shades } from "../src/charts/colour";
import { rgba, shadePixels } from "../src/charts/raster";
import {
  bandOf,
  kNoNode,
  nodeSpans,
  outliersOf,
  reordered,
  rowLabel,
  rowOrder,
  rowTicks,
  shareOfPaths,
} from "../src/charts/rows";

// Ranks 0-63 without 7 and 40, which are rows of their own at the end, and 64-127.
const mixed = {
  first: [0, 64, 7, 40],
  last: [63, 127, 7, 40],
  ranks: [62, 64, 1, 1],
  node: [0, kNoNode, 0, 0],
};

test("outliers are drawn behind the range that they are from", () => {
  const order = rowOrder(mixed);
  assert.deepEqual([...order], [0, 2, 3, 1]);
  const rows = reordered(mixed, order);
  assert.deepEqual([...outliersOf(rows)], [0, 1, 1, 0]);
  assert.equal(rowLabel(rows, 1), "rank 7");
  assert.equal(rowLabel(rows, 0), "ranks 0–63");
});

test("rows of single ranks are not outliers", () => {
  const single = { first: [0, 1, 2], last: [0, 1, 2], ranks: [1, 1, 1], node: [0, 0, 1] };
  assert.deepEqual([...outliersOf(single)], [0, 0, 0]);
  assert.deepEqual(nodeSpans(single), [
    { node: 0, begin: 0, end: 2 },
    { node: 1, begin: 2, end: 3 },
  ]);
});

test("ticks stand at round ranks, inside their row", () => {
  const many = {
    first: Int32Array.from({ length: 1024 }, (_, i) => i * 4),
    last: Int32Array.from({ length: 1024 }, (_, i) => i * 4 + 3),
    ranks: new Uint32Array(1024).fill(4),
    node: new Uint32Array(1024),
  };
  const ticks = rowTicks(many, new Uint8Array(1024), 0, 1024, 8);
  assert.ok(ticks.length >= 4 && ticks.length <= 9);
  for (const tick of ticks) {
    assert.ok(Math.abs(tick.row - tick.rank / 4) <= 1);
    assert.equal(tick.rank % 512, 0);
  }
  // Zoomed in: fewer ranks, closer ticks, none outside.
  const near = rowTicks(many, new Uint8Array(1024), 100, 104, 20);
  assert.deepEqual(
    near.map((tick) => tick.rank),
    Array.from({ length: 16 }, (_, i) => 400 + i),
  );
  const rows = reordered(mixed, rowOrder(mixed));
  for (const tick of rowTicks(rows, outliersOf(rows), 0, 4, 4)) assert.ok(![1, 2].includes(Math.floor(tick.row)));
});

test("a band is over the chosen rows, its mean over ranks", () => {
  const values = [1, 10, 3, NaN, 8, 30];
  const band = bandOf(values, 2, [0, 1, 2], [3, 1, 1]);
  assert.equal(band.min[0], 1);
  assert.equal(band.max[0], 8);
  assert.equal(band.mean[0], (3 * 1 + 3 + 8) / 5);
  assert.equal(band.mean[1], (3 * 10 + 30) / 4);
  assert.ok(Number.isNaN(bandOf(values, 2, [], [1, 1, 1]).mean[0]));
});

test("the share of some paths is known over time", () => {
  const share = shareOfPaths([1, 0, 0, 3, 4, 0], 2, [1, 0, 1]);
  assert.equal(share[0], 1);
  assert.equal(share[1], 0);
  assert.ok(Number.isNaN(shareOfPaths([0, 0], 1, [1, 1])[0]));
});

test("a heat map shades each pixel by all cells below it", () => {
  // 4 rows in 2 pixels: the largest wins.
  const cells = [1, 9, 2, 3];
  const pixels = shadePixels(3, 2, 4, 1, { columns: [0, 1], rows: [0, 4] }, (firstRow, endRow) => {
    return Math.max(...cells.slice(firstRow, endRow));
  });
  assert.deepEqual([...pixels], [9, 9, 9, 3, 3, 3]);
  assert.equal(rgba(1, 2, 3) >>> 0, rgba(1, 2, 3));
});

test("colours are mixed in even steps", () => {
  assert.deepEqual(blend([0, 0, 0], [255, 255, 255], 1), [255, 255, 255]);
  const middle = blend([0, 0, 0], [255, 255, 255], 0.5);
  assert.ok(middle[0] > 80 && middle[0] < 120 && middle[0] === middle[2]);
  const steps = shades([10, 20, 30], [200, 100, 0], 5);
  assert.equal(steps.length, 5);
  assert.deepEqual(steps[0], [10, 20, 30]);
  assert.deepEqual(steps[4], [200, 100, 0]);
  assert.equal(packed(steps)[0], rgba(10, 20, 30));
});
