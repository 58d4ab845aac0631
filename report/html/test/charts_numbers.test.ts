// SPDX-License-Identifier: BSD-3-Clause
import assert from "node:assert/strict";
import test from "node:test";
import {
  ascending,
  boxOf,
  dominant,
  draggedSpan,
  histogram,
  logPosition,
  multiples,
  niceCeiling,
  niceStep,
  niceTimeStep_s,
  positiveExtent,
  stripes,
  symmetricLimit,
  thinned,
  zoomed,
} from "../src/charts/numbers";

test("steps of axes are round and not too many", () => {
  assert.equal(niceStep(100, 10), 10);
  assert.equal(niceStep(100, 7), 20);
  assert.equal(niceStep(0.0123, 4), 0.005);
  assert.equal(niceTimeStep_s(200, 6), 60);
  assert.equal(niceTimeStep_s(7200, 8), 900);
  assert.equal(niceTimeStep_s(0.5, 5), 0.1);
  assert.ok(niceTimeStep_s(1e7, 5) % 86400 === 0);
  assert.deepEqual(multiples(-0.5, 2.1, 1), [0, 1, 2]);
  assert.deepEqual(multiples(0, 1, 0), []);
  assert.equal(niceCeiling(0.83), 1);
  assert.equal(niceCeiling(1.2e9), 1.5e9);
  assert.equal(niceCeiling(0), 1);
});

test("a logarithmic scale puts 0 below everything", () => {
  assert.equal(logPosition(0, 1, 100), -1);
  assert.equal(logPosition(1, 1, 100), 0);
  assert.equal(logPosition(10, 1, 100), 0.5);
  assert.equal(logPosition(1000, 1, 100), 1);
  assert.equal(logPosition(5, 5, 5), 1);
  assert.deepEqual(positiveExtent([0, 3, NaN, 12, -1]), [3, 12]);
  assert.equal(positiveExtent([0, 0]), null);
});

test("boxes have the quartiles of the values, and their outliers furthest first", () => {
  const box = boxOf([1, 2, 3, 4, 5, 6, 7, 8, 100, -40]);
  assert.ok(box);
  assert.equal(box.median, 4.5);
  assert.equal(box.q1, 2.25);
  assert.equal(box.q3, 6.75);
  assert.equal(box.lowWhisker, 1);
  assert.equal(box.highWhisker, 8);
  assert.deepEqual(box.outliers, [8, 9]);
  assert.equal(box.low, -40);
  assert.equal(box.high, 100);
});

test("a value with a weight of n counts like n values", () => {
  const weighted = boxOf([5, 1, 3], [1, 4, 2]);
  const written = boxOf([1, 1, 1, 1, 3, 3, 5]);
  assert.ok(weighted && written);
  assert.deepEqual({ ...weighted, outliers: [] }, { ...written, outliers: [] });
});

test("boxes leave out unmeasured values, and without values there is no box", () => {
  assert.equal(boxOf([NaN, NaN]), null);
  assert.equal(boxOf([NaN, 4])?.median, 4);
  assert.equal(boxOf([1, 2, 3, 4], undefined, [1, 3])?.mean, 3);
  assert.deepEqual([...ascending([3, NaN, 1, 3])], [2, 0, 3]);
});

test("histograms count every value once", () => {
  const values = [0, 0.1, 0.5, 0.999, 1, 2.5, NaN, 9.99, 10];
  const bins = histogram(values, 10);
  assert.ok(bins);
  assert.ok(bins.counts.length <= 11);
  assert.equal(
    bins.counts.reduce((a, b) => a + b),
    8,
  );
  assert.ok(bins.from <= 0 && bins.from + bins.width * bins.counts.length >= 10);
  assert.equal(histogram([4, 4, 4], 10)?.counts[0], 3);
  assert.equal(histogram([NaN], 10), null);
  assert.equal(
    histogram([1, 2], 2, [10, 5])?.counts.reduce((a, b) => a + b),
    15,
  );
});

test("stripes of pixels cover all cells of the view once", () => {
  // Several cells in a pixel.
  const dense = stripes(0, 1024, 1024, 300);
  assert.equal(dense.first.length, 300);
  let at = 0;
  for (let i = 0; i < 300; ++i) {
    assert.equal(dense.first[i], at);
    at = dense.end[i];
  }
  assert.equal(at, 1024);
  // Several pixels of a cell.
  const wide = stripes(0, 5, 5, 1001);
  assert.deepEqual([...wide.first], [0, 1, 2, 3, 4]);
  assert.equal(wide.begin[0], 0);
  assert.equal(wide.begin[5], 1001);
  // A part of the cells.
  const part = stripes(2.5, 4, 5, 30);
  assert.deepEqual([...part.first], [2, 3]);
  assert.equal(part.begin[1], 10);
});

test("a cell shows its dominant part", () => {
  assert.deepEqual(dominant([1, 6, 3]), { index: 1, share: 0.6, total: 10 });
  assert.deepEqual(dominant([0, 0]), { index: -1, share: 0, total: 0 });
  assert.equal(dominant([NaN, 2]).index, 1);
});

test("a drag selects whole bins within the axis; a click nothing", () => {
  assert.deepEqual(draggedSpan(7.2, 3.9, 0, 20, 0.5, 0, 1), [3, 8]);
  assert.deepEqual(draggedSpan(-5, 2.5, 0, 20, 0.5), [0, 2.5]);
  assert.deepEqual(draggedSpan(0.3, 1.1, -0.25, 20, 0.1, -0.25, 0.5), [0.25, 1.25]);
  assert.equal(draggedSpan(4, 4.2, 0, 20, 0.5, 0, 1), null);
  assert.equal(draggedSpan(25, 29, 0, 20, 0.5), null);
});

test("zooming keeps the centre and the limits", () => {
  const [from, to] = zoomed([0, 100], 25, 0.5, 0, 100, 1);
  assert.equal(from, 12.5);
  assert.equal(to, 62.5);
  assert.deepEqual(zoomed([40, 60], 50, 100, 0, 100, 1), [0, 100]);
  assert.deepEqual(zoomed([40, 60], 50, 1e-6, 0, 100, 1), [49.5, 50.5]);
});

test("the limit of a diverging scale is round and does not follow outliers", () => {
  const values = Array.from({ length: 1000 }, (_, i) => (i === 0 ? 50 : 0.18 * Math.sin(i)));
  assert.equal(symmetricLimit(values, 0.98, 0.05), 0.2);
  assert.equal(symmetricLimit([], 0.98, 0.05), 0.05);
  assert.equal(symmetricLimit([0.001, NaN], 0.98, 0.05), 0.05);
});

test("thinning a line keeps its extremes and ends", () => {
  const values = Array.from({ length: 10_000 }, (_, i) => (i === 7777 ? 9 : i === 1234 ? -9 : Math.sin(i)));
  const kept = thinned(values.length, 100, (i) => values[i]);
  assert.ok(kept.length <= 202);
  assert.ok(kept.includes(7777) && kept.includes(1234));
  assert.equal(kept[0], 0);
  assert.equal(kept[kept.length - 1], 9999);
  assert.ok(kept.every((index, i) => i === 0 || index > kept[i - 1]));
});
