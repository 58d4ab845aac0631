// SPDX-License-Identifier: BSD-3-Clause
// Time of call paths and functions under the selection.
//
// Of all ranks and the whole run it is what the report has. Of some ranks it is the sum of their cells; of a
// range of time a path's time times the share of its samples that lie in it. With both the product is taken,
// an estimate. A path's time is divided among categories as it is over the whole run. Functions and lines have
// small call paths that are not told apart: of each the report's time is shown, times the chosen part of its paths.
import { CATEGORIES, IDLE, NONE, type Category, type Model } from "./model";
import type { Store } from "./selection";

export const CATEGORY_COUNT = CATEGORIES.length;

export interface Weights {
  self: Float64Array; // by path
  total: Float64Array; // by path, with those below it
  factor: Float64Array; // by path: of its time over the whole run, both without idle helpers unless asked for
  sum: number; // of self
  overall: number; // the part of the whole run's time that sum is
  functionSelf: Float64Array; // by function
  functionTotal: Float64Array; // by function; recursion counts once
  isWhole: boolean; // nothing is chosen: numbers are the report's
  isEstimate: boolean;
}

interface Tables {
  all: Float64Array; // by path: sum of categories
  region: Map<string, Uint8Array>;
  outermost: Uint8Array | null;
  functions: Map<boolean, FunctionSums>; // of the whole run; by helperIdle
  cellScales: { seconds: Float64Array; helper: Float64Array } | null;
}

const tables = new WeakMap<Model, Tables>();

function tablesOf(model: Model): Tables {
  const known = tables.get(model);
  if (known) return known;
  const self = model.f32("path_self_s");
  const all = new Float64Array(model.pathCount);
  for (let path = 0, at = 0; path < all.length; ++path)
    for (let c = 0; c < CATEGORY_COUNT; ++c) all[path] += self[at++];
  const made: Tables = { all, region: new Map<string, Uint8Array>(), outermost: null, functions: new Map(), cellScales: null };
  tables.set(model, made);
  return made;
}

// By path: 1 where no path above it is in the same function.
export function outermost(model: Model): Uint8Array {
  const known = tablesOf(model);
  if (known.outermost) return known.outermost;
  const parents = model.u32("path_parent");
  const frames = model.u32("path_frame");
  const functions = model.u32("frame_function");
  const open = new Uint32Array(model.functionCount);
  const stack: number[] = [];
  const functionOf = (path: number) => (frames[path] === NONE ? NONE : functions[frames[path]]);
  const out = new Uint8Array(model.pathCount);
  for (let path = 1; path < model.pathCount; ++path) {
    while (stack.length && stack[stack.length - 1] !== parents[path]) {
      const f = functionOf(stack.pop()!);
      if (f !== NONE) --open[f];
    }
    const f = functionOf(path);
    if (f !== NONE) {
      if (open[f] === 0) out[path] = 1;
      ++open[f];
    }
    stack.push(path);
  }
  return (known.outermost = out);
}

// By path: 1 in the region of that name ("epoch/step").
export function regionMask(model: Model, name: string): Uint8Array {
  const cache = tablesOf(model).region;
  const known = cache.get(name);
  if (known) return known;
  const parents = model.u32("path_parent");
  const frames = model.u32("path_frame");
  const kinds = model.u8("frame_kind");
  const names = model.u32("frame_name_string");
  const full: (string | null)[] = new Array<string | null>(model.pathCount).fill(null);
  const mask = new Uint8Array(model.pathCount);
  for (let path = 1; path < model.pathCount; ++path) {
    const above = full[parents[path]];
    full[path] = above;
    mask[path] = mask[parents[path]];
    if (frames[path] === NONE || kinds[frames[path]] !== 4) continue;
    const own = model.text(names[frames[path]]) ?? "";
    full[path] = above === null ? own : `${above}/${own}`;
    if (full[path] === name) mask[path] = 1;
  }
  cache.set(name, mask);
  return mask;
}

// By path: what its cells have to be multiplied with to add up to the path's time, which they lost a little of when
// they were rounded.
function cellScales(model: Model): { seconds: Float64Array; helper: Float64Array } {
  const known = tablesOf(model);
  if (known.cellScales) return known.cellScales;
  const helper = model.f32("path_helper_idle_s");
  const scales = { seconds: new Float64Array(model.pathCount), helper: new Float64Array(model.pathCount) };
  const paths = model.u32("cell_path");
  const cells = model.f32("cell_self_s");
  const idle = model.f32("cell_helper_idle_s");
  for (let i = 0; i < paths.length; ++i) {
    scales.seconds[paths[i]] += cells[i];
    scales.helper[paths[i]] += idle[i];
  }
  for (let path = 0; path < model.pathCount; ++path) {
    if (scales.seconds[path] > 0) scales.seconds[path] = known.all[path] / scales.seconds[path];
    if (scales.helper[path] > 0) scales.helper[path] = helper[path] / scales.helper[path];
  }
  return (known.cellScales = scales);
}

// Seconds by path of the chosen ranks. Ranks of one group share its cells by their number.
function ofRanks(model: Model, mask: Uint8Array): { seconds: Float64Array; helper: Float64Array; exact: boolean } {
  const groups = model.header.groups;
  const groupOf = model.u32("group_of_rank");
  const inGroup = new Uint32Array(groups);
  const chosen = new Uint32Array(groups);
  for (let i = 0; i < mask.length; ++i) {
    ++inGroup[groupOf[i]];
    chosen[groupOf[i]] += mask[i];
  }
  const offsets = model.u32("cell_offset");
  const paths = model.u32("cell_path");
  const cells = model.f32("cell_self_s");
  const idle = model.f32("cell_helper_idle_s");
  const scales = cellScales(model);
  const seconds = new Float64Array(model.pathCount);
  const helper = new Float64Array(model.pathCount);
  let exact = true;
  for (let g = 0; g < groups; ++g) {
    if (chosen[g] === 0) continue;
    const share = chosen[g] / inGroup[g];
    if (share < 1) exact = false;
    for (let i = offsets[g]; i < offsets[g + 1]; ++i) {
      seconds[paths[i]] += cells[i] * share * scales.seconds[paths[i]];
      helper[paths[i]] += idle[i] * share * scales.helper[paths[i]];
    }
  }
  return { seconds, helper, exact };
}

// By path: the share of its samples in [begin, end); bins that lie in it in part count in part. Small paths have no
// samples of their own: those of the path above stand for them.
export function timeShares(model: Model, [begin, end]: readonly [number, number]): Float64Array | null {
  const { bins, bin_s, begin_s } = model.header.time;
  if (!bins) return null;
  const series = model.f32("path_time");
  const part = new Float64Array(bins);
  for (let b = 0; b < bins; ++b) {
    const from = Math.max(begin, begin_s + b * bin_s);
    const to = Math.min(end, begin_s + (b + 1) * bin_s);
    part[b] = Math.max(0, to - from) / bin_s;
  }
  const parents = model.u32("path_parent");
  const shares = new Float64Array(model.pathCount);
  for (let path = 0, at = 0; path < shares.length; ++path) {
    let inside = 0;
    let all = 0;
    for (let b = 0; b < bins; ++b, ++at) {
      all += series[at];
      inside += series[at] * part[b];
    }
    if (all > 0) shares[path] = inside / all;
    else if (path > 0) shares[path] = shares[parents[path]];
    else shares[path] = Math.max(0, Math.min(1, part.reduce((sum, p) => sum + p, 0) / bins));
  }
  return shares;
}

// Sums of a subtree: a child comes after its parent.
export function inclusive(model: Model, self: Float64Array): Float64Array {
  const parents = model.u32("path_parent");
  const total = self.slice();
  for (let path = total.length - 1; path > 0; --path) total[parents[path]] += total[path];
  return total;
}

export interface FunctionSums {
  self: Float64Array;
  total: Float64Array; // recursion counts once
}

// By function, of call paths alone.
function functionSums(model: Model, self: Float64Array, total: Float64Array): FunctionSums {
  const sums = { self: new Float64Array(model.functionCount), total: new Float64Array(model.functionCount) };
  const frames = model.u32("path_frame");
  const functions = model.u32("frame_function");
  const first = outermost(model);
  for (let path = 1; path < model.pathCount; ++path) {
    if (frames[path] === NONE) continue;
    const f = functions[frames[path]];
    if (f === NONE) continue;
    sums.self[f] += self[path];
    if (first[path]) sums.total[f] += total[path];
  }
  return sums;
}

// By path, of all ranks over the whole run.
export function wholeSelf(model: Model, helperIdle: boolean): Float64Array {
  const { all } = tablesOf(model);
  const helper = model.f32("path_helper_idle_s");
  return helperIdle ? all : all.map((seconds, path) => Math.max(0, seconds - helper[path]));
}

function wholeFunctions(model: Model, helperIdle: boolean): FunctionSums {
  const { functions } = tablesOf(model);
  let known = functions.get(helperIdle);
  if (!known) {
    const self = wholeSelf(model, helperIdle);
    functions.set(helperIdle, (known = functionSums(model, self, inclusive(model, self))));
  }
  return known;
}

// What the report has of a function or line, of a part of its call paths. Own time and what is below it are taken
// apart, so that the own time is never more than the total. `overall` is the chosen part of all time, for what has
// no call path large enough to be there.
export function partOfRow(
  row: { self: number; total: number },
  chosen: { self: number; total: number },
  whole: { self: number; total: number },
  overall: number,
): { self: number; total: number } {
  const part = (of: number, all: number) => (all > 1e-9 ? Math.max(0, of) / all : overall);
  const self = row.self * part(chosen.self, whole.self);
  const below = Math.max(0, row.total - row.self);
  return { self, total: self + below * part(chosen.total - chosen.self, whole.total - whole.self) };
}

// By category, of the same: what adds up to `own`. `chosen` and `whole` are of call paths.
export function partsOfRow(
  row: Partial<Record<`${Category}_s`, number>>,
  chosen: ArrayLike<number>,
  whole: ArrayLike<number>,
  overall: number,
  own: number,
): Float64Array {
  const parts = Float64Array.from(
    CATEGORIES,
    (category, c) => (row[`${category}_s`] ?? 0) * (whole[c] > 1e-9 ? chosen[c] / whole[c] : overall),
  );
  const sum = parts.reduce((a, b) => a + b, 0);
  return sum > 0 ? parts.map((value) => (value * own) / sum) : parts;
}

export function computeWeights(store: Store): Weights {
  const { model, selection } = store;
  const mask = store.rankMask();
  const ranks = mask ? ofRanks(model, mask) : null;
  const shares = selection.time ? timeShares(model, selection.time) : null;
  const region = selection.region === null ? null : regionMask(model, selection.region);
  const all = wholeSelf(model, store.helperIdle);
  const count = model.pathCount;
  const self = new Float64Array(count);
  const factor = new Float64Array(count);
  let sum = 0;
  let whole = 0;
  for (let path = 0; path < count; ++path) {
    whole += all[path];
    if (region && !region[path]) continue;
    let seconds = all[path];
    if (ranks) seconds = store.helperIdle ? ranks.seconds[path] : ranks.seconds[path] - ranks.helper[path];
    if (shares) seconds *= shares[path];
    self[path] = Math.max(0, seconds);
    factor[path] = all[path] > 0 ? self[path] / all[path] : 0;
    sum += self[path];
  }
  const total = inclusive(model, self);
  const isWhole = store.isWholeRun;
  const overall = whole > 0 ? sum / whole : 0;
  const { self: functionSelf, total: functionTotal } = functionSums(model, self, total);
  const known = wholeFunctions(model, store.helperIdle);
  const rows = model.u32("function_row");
  for (let f = 0; f < functionSelf.length; ++f) {
    const row = rows[f] === NONE ? undefined : model.report.functions[rows[f]];
    if (!row) continue;
    const part = partOfRow(
      store.helperIdle
        ? { self: row.self_s, total: row.total_s }
        : { self: row.active_self_s, total: row.active_total_s },
      { self: functionSelf[f], total: functionTotal[f] },
      { self: known.self[f], total: known.total[f] },
      overall,
    );
    functionSelf[f] = part.self;
    functionTotal[f] = part.total;
  }
  return {
    self,
    total,
    factor,
    sum,
    overall,
    functionSelf,
    functionTotal,
    isWhole,
    isEstimate: (ranks !== null && (shares !== null || !ranks.exact)) || shares !== null,
  };
}

const memo = new WeakMap<Store, { key: readonly unknown[]; weights: Weights }>();

// Those of the current selection; computed once for each.
export function weights(store: Store): Weights {
  const { time, region } = store.selection;
  const key = [time, region, store.rankMask(), store.helperIdle];
  const known = memo.get(store);
  if (known && known.key.every((value, i) => value === key[i])) return known.weights;
  const made = computeWeights(store);
  memo.set(store, { key, weights: made });
  return made;
}

// Seconds by category of some paths (all if not given), idle helpers left out unless asked for.
export function categorySeconds(store: Store, begin = 0, end = store.model.pathCount): Float64Array {
  const { factor } = weights(store);
  const self = store.model.f32("path_self_s");
  const helper = store.model.f32("path_helper_idle_s");
  const sums = new Float64Array(CATEGORY_COUNT);
  for (let path = begin; path < end; ++path) {
    const f = factor[path];
    if (f === 0) continue;
    for (let c = 0; c < CATEGORY_COUNT; ++c) sums[c] += self[path * CATEGORY_COUNT + c] * f;
    if (!store.helperIdle) sums[IDLE] -= helper[path] * f;
  }
  for (let c = 0; c < CATEGORY_COUNT; ++c) sums[c] = Math.max(0, sums[c]);
  return sums;
}
