// SPDX-License-Identifier: BSD-3-Clause
// Sums under the selection that do not come from call paths.
import { CATEGORIES, type Model } from "./model";
import { hasCategoriesOverTime, rowSeconds, rowTimeParts } from "./over_time";
import type { Store } from "./selection";
import { categorySeconds, weights } from "./weights";

export interface CategoryTotals {
  seconds: Float64Array; // by category; NaN: not measured
  sum: number; // of all categories
  whole: number; // what shares are of: where that is known, all recorded time, also what is in no category
  source: "ranks" | "series" | "paths";
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

// Of the chosen ranks.
function recordedSeconds(store: Store): number {
  const mask = store.rankMask();
  return store.model.f32("rank_recorded_s").reduce((sum, value, i) => (!mask || mask[i] ? sum + value : sum), 0);
}

// Main threads where that is known: of ranks as the report has it, of a range of time by their series.
// In a region: all threads in it, of call paths.
export function categoryTotals(store: Store): CategoryTotals {
  const { model, selection } = store;
  const seconds = new Float64Array(CATEGORIES.length);
  let source: CategoryTotals["source"] = "paths";
  if (selection.region !== null || (selection.time && !hasCategoriesOverTime(model))) {
    seconds.set(categorySeconds(store));
  } else if (!selection.time) {
    source = "ranks";
    const values = model.f32("rank_category_s");
    const mask = store.rankMask();
    for (let i = 0; i < model.rankCount; ++i)
      if (!mask || mask[i])
        for (let c = 0; c < CATEGORIES.length; ++c) {
          const value = values[i * CATEGORIES.length + c];
          if (!Number.isNaN(value)) seconds[c] += value;
        }
  } else {
    source = "series";
    rowSeconds(store).forEach((value, at) => (seconds[at % CATEGORIES.length] += value));
  }
  if (source !== "paths") seconds.forEach((_, c) => isMeasured(model, c) || (seconds[c] = NaN));
  const sum = seconds.reduce((s, v) => s + (Number.isNaN(v) ? 0 : v), 0);
  return { seconds, sum, whole: (source === "ranks" && recordedSeconds(store)) || sum, source };
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

// Main threads' categories by node, of chosen ranks and, where it is known, of the chosen time.
export function nodeCategories(store: Store): Float64Array {
  const { model } = store;
  const count = CATEGORIES.length;
  const sums = new Float64Array(model.nodeCount * count);
  const parts = store.selection.time && hasCategoriesOverTime(model) ? rowTimeParts(store) : null;
  const rowOf = model.u32("row_of_rank");
  const values = model.f32("rank_category_s");
  const nodeOf = model.u32("rank_node");
  const mask = store.rankMask();
  for (let i = 0; i < model.rankCount; ++i) {
    if (mask && !mask[i]) continue;
    for (let c = 0; c < count; ++c) {
      const value = values[i * count + c] * (parts ? parts[rowOf[i] * count + c] : 1);
      if (!Number.isNaN(value)) sums[nodeOf[i] * count + c] += value;
    }
  }
  return sums;
}

// A series of bins where it ends: what lies behind the run's end is no measurement.
export function shownBins(model: Model): number {
  const { bins, bin_s, begin_s } = model.header.axis;
  return Math.max(0, Math.min(bins, Math.ceil((model.elapsed - begin_s) / bin_s)));
}

// What curves over ranks have of ranks that share a row of the data: of what is counted their mean, of levels their
// largest value. Empty where each rank has a row of its own.
export function rangesNote(model: Model, counted: boolean, levels: boolean): string {
  if (model.header.rows >= model.rankCount) return "";
  if (!levels) return "of ranges of ranks their mean";
  return counted ? "of ranges of ranks their mean, of memory their largest value" : "of ranges of ranks their largest value";
}
