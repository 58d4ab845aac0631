// SPDX-License-Identifier: BSD-3-Clause
// Sums under the selection that do not come from call paths.
import { CATEGORIES, type Axis, type Model } from "./model";
import type { Store } from "./selection";
import { categorySeconds, weights } from "./weights";

export interface CategoryTotals {
  seconds: Float64Array; // by category; NaN: not measured
  sum: number;
  source: "ranks" | "series" | "paths";
}

// By bin, how much of it lies in the range: 0 to 1.
export function binParts(axis: Axis, range: readonly [number, number] | null): Float64Array {
  const parts = new Float64Array(axis.bins).fill(1);
  if (range)
    for (let b = 0; b < axis.bins; ++b) {
      const from = Math.max(range[0], axis.begin_s + b * axis.bin_s);
      const to = Math.min(range[1], axis.begin_s + (b + 1) * axis.bin_s);
      parts[b] = Math.max(0, to - from) / axis.bin_s;
    }
  return parts;
}

// How many chosen ranks are in each row of the heat maps.
export function chosenInRows(store: Store): Float64Array {
  const { model } = store;
  const counts = new Float64Array(model.header.rows);
  const rowOf = model.u32("row_of_rank");
  const mask = store.rankMask();
  for (let i = 0; i < rowOf.length; ++i) if (!mask || mask[i]) ++counts[rowOf[i]];
  return counts;
}

function isMeasured(model: Model, category: number): boolean {
  const values = model.f32("rank_category_s");
  for (let at = category; at < values.length; at += CATEGORIES.length) if (!Number.isNaN(values[at])) return true;
  return false;
}

// Main threads where that is known: of ranks as the report has it, of a range of time from samples.
// In a region: all threads in it, of call paths.
export function categoryTotals(store: Store): CategoryTotals {
  const { model, selection } = store;
  const seconds = new Float64Array(CATEGORIES.length);
  let source: CategoryTotals["source"] = "paths";
  const series = CATEGORIES.map((c) => model.header.series.findIndex((s) => s.name === `${c}_ns`));
  if (selection.region !== null) {
    seconds.set(categorySeconds(store));
  } else if (!selection.time) {
    source = "ranks";
    const values = model.f32("rank_category_s");
    const mask = store.rankMask();
    const known = new Uint8Array(CATEGORIES.length);
    for (let i = 0; i < model.rankCount; ++i) {
      if (mask && !mask[i]) continue;
      for (let c = 0; c < CATEGORIES.length; ++c) {
        const v = values[i * CATEGORIES.length + c];
        if (Number.isNaN(v)) continue;
        known[c] = 1;
        seconds[c] += v;
      }
    }
    known.forEach((k, c) => k || (seconds[c] = NaN));
  } else if (series.some((s) => s >= 0)) {
    source = "series";
    const counts = chosenInRows(store);
    const rows = rowCategories(store);
    series.forEach((s, c) => {
      // A category without any time has no series.
      if (s < 0 || !rows) seconds[c] = isMeasured(model, c) ? 0 : NaN;
      else counts.forEach((ranks, row) => (seconds[c] += ranks * rows[row * CATEGORIES.length + c]));
    });
  } else {
    seconds.set(categorySeconds(store));
  }
  return { seconds, sum: seconds.reduce((s, v) => s + (Number.isNaN(v) ? 0 : v), 0), source };
}

export interface TopFunction {
  index: number;
  self: number;
  share: number;
}

export function topFunctions(store: Store, most: number): TopFunction[] {
  const { functionSelf, sum } = weights(store);
  const list = Array.from(functionSelf, (self, index) => ({ index, self, share: sum > 0 ? self / sum : 0 }));
  return list.filter((f) => f.self > 0).sort((a, b) => b.self - a.self || a.index - b.index).slice(0, most);
}

// Nodes that have chosen ranks; all where nothing is chosen.
export function chosenNodes(store: Store): Uint8Array {
  const { model } = store;
  const mask = store.rankMask();
  const chosen = new Uint8Array(model.nodeCount);
  if (!mask) return chosen.fill(1);
  const nodeOf = model.u32("rank_node");
  for (let i = 0; i < mask.length; ++i) if (mask[i]) chosen[nodeOf[i]] = 1;
  return chosen;
}

// Seconds by row of the heat maps and category in a range of time, of the row's mean rank; null: not recorded.
function rowCategories(store: Store): Float64Array | null {
  const { model, selection } = store;
  const series = CATEGORIES.map((c) => model.header.series.findIndex((s) => s.name === `${c}_ns`));
  if (!selection.time || series.every((s) => s < 0)) return null;
  const parts = binParts(model.header.axis, selection.time);
  const { bins } = model.header.axis;
  const sums = new Float64Array(model.header.rows * CATEGORIES.length);
  series.forEach((s, c) => {
    if (s < 0) return;
    const values = model.f32(`series_${s}`);
    for (let row = 0; row < model.header.rows; ++row) {
      let sum = 0;
      for (let b = 0; b < bins; ++b) if (parts[b]) sum += values[row * bins + b] * parts[b];
      sums[row * CATEGORIES.length + c] = sum * 1e-9;
    }
  });
  return sums;
}

// Main threads' categories by node, of chosen ranks and, where it is known, of the chosen time.
export function nodeCategories(store: Store): Float64Array {
  const { model } = store;
  const count = CATEGORIES.length;
  const sums = new Float64Array(model.nodeCount * count);
  const rows = rowCategories(store);
  const rowOf = model.u32("row_of_rank");
  const values = model.f32("rank_category_s");
  const nodeOf = model.u32("rank_node");
  const mask = store.rankMask();
  for (let i = 0; i < model.rankCount; ++i) {
    if (mask && !mask[i]) continue;
    for (let c = 0; c < count; ++c) {
      const v = rows ? rows[rowOf[i] * count + c] : values[i * count + c];
      if (!Number.isNaN(v)) sums[nodeOf[i] * count + c] += v;
    }
  }
  return sums;
}

// A series of bins where it ends: what lies behind the run's end is no measurement.
export function shownBins(model: Model): number {
  const { bins, bin_s, begin_s } = model.header.axis;
  return Math.max(0, Math.min(bins, Math.ceil((model.elapsed - begin_s) / bin_s)));
}
