// SPDX-License-Identifier: BSD-3-Clause
// Categories over time. Series say when a rank was in a category; how much it was is what the report has of the rank.
// A rank without a series of a category was not in it. Shares are of all categories of the chosen ranks together.
import { CATEGORIES, type Axis, type Model } from "./model";
import type { Store } from "./selection";

const COUNT = CATEGORIES.length;

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

// How much of a bin lies in the run: less than 1 for the first and the last one.
export function partInRun(axis: Axis, elapsed: number, bin: number): number {
  const begin = axis.begin_s + bin * axis.bin_s;
  return Math.max(0, Math.min(begin + axis.bin_s, elapsed) - Math.max(begin, 0)) / axis.bin_s;
}

// By bin, how much of what happened in it lies in the range: all of it happened in the run.
export function partsOfRun(axis: Axis, elapsed: number, range: readonly [number, number]): Float64Array {
  const within: [number, number] = [Math.max(range[0], 0), Math.min(range[1], elapsed)];
  return binParts(axis, within).map((part, b) => (part > 0 ? Math.min(1, part / partInRun(axis, elapsed, b)) : 0));
}

interface Series {
  values: (Float32Array | null)[]; // by category: rows x bins; null: nobody was in it
  sums: Float64Array; // rows x categories: of these values
}

const seriesOfModel = new WeakMap<Model, Series>();

function seriesOf(model: Model): Series {
  const known = seriesOfModel.get(model);
  if (known) return known;
  const { rows, axis, series } = model.header;
  const values = CATEGORIES.map((category) => {
    const index = series.findIndex((one) => one.name === `${category}_ns`);
    return index < 0 ? null : model.f32(`series_${index}`);
  });
  const sums = new Float64Array(rows * COUNT);
  values.forEach((of, c) => {
    if (of) for (let i = 0; i < rows * axis.bins; ++i) sums[Math.floor(i / axis.bins) * COUNT + c] += of[i];
  });
  const made = { values, sums };
  seriesOfModel.set(model, made);
  return made;
}

// Whether the run has categories over time.
export function hasCategoriesOverTime(model: Model): boolean {
  return seriesOf(model).values.some((of) => of !== null);
}

// Rows x categories: seconds of the chosen ranks for one unit of the row's series; `mask` null: of all ranks.
export function rowScales(model: Model, mask: Uint8Array | null): Float64Array {
  const { sums } = seriesOf(model);
  const scales = new Float64Array(sums.length);
  const rowOf = model.u32("row_of_rank");
  const seconds = model.f32("rank_category_s");
  for (let i = 0; i < rowOf.length; ++i) {
    if (mask && !mask[i]) continue;
    for (let c = 0; c < COUNT; ++c) {
      const at = rowOf[i] * COUNT + c;
      const value = seconds[i * COUNT + c];
      if (sums[at] > 0 && !Number.isNaN(value)) scales[at] += value / sums[at];
    }
  }
  return scales;
}

// By category: rows x bins, the share of the row's time in the bin; NaN where the row has none. null: no such series.
export function rowShares(model: Model): (Float32Array | null)[] {
  const { values } = seriesOf(model);
  const { rows, axis } = model.header;
  const scales = rowScales(model, null);
  const shares = values.map((of) => (of ? new Float32Array(rows * axis.bins) : null));
  for (let row = 0, i = 0; row < rows; ++row)
    for (let bin = 0; bin < axis.bins; ++bin, ++i) {
      let all = 0;
      for (let c = 0; c < COUNT; ++c) all += (values[c]?.[i] ?? 0) * scales[row * COUNT + c];
      for (let c = 0; c < COUNT; ++c)
        if (shares[c]) shares[c]![i] = all > 0 ? (values[c]![i] * scales[row * COUNT + c]) / all : NaN;
    }
  return shares;
}

// Rows x categories: seconds of the chosen ranks in the chosen time.
export function rowSeconds(store: Store): Float64Array {
  const { model } = store;
  const { values } = seriesOf(model);
  const { rows, axis } = model.header;
  const parts = binParts(axis, store.selection.time);
  const seconds = rowScales(model, store.rankMask());
  for (let row = 0; row < rows; ++row)
    for (let c = 0; c < COUNT; ++c) {
      const of = values[c];
      const at = row * COUNT + c;
      let sum = 0;
      if (of && seconds[at] > 0) for (let b = 0; b < axis.bins; ++b) sum += of[row * axis.bins + b] * parts[b];
      seconds[at] *= sum;
    }
  return seconds;
}

// By category: seconds of the chosen ranks in each bin.
export function binSeconds(store: Store): Float64Array[] {
  const { model } = store;
  const { values } = seriesOf(model);
  const { rows, axis } = model.header;
  const scales = rowScales(model, store.rankMask());
  return values.map((of, c) => {
    const sums = new Float64Array(axis.bins);
    if (of)
      for (let row = 0; row < rows; ++row) {
        const scale = scales[row * COUNT + c];
        if (scale > 0) for (let b = 0; b < axis.bins; ++b) sums[b] += of[row * axis.bins + b] * scale;
      }
    return sums;
  });
}

// Of one rank's time in each category, how much lies in the chosen time; by row and category.
export function rowTimeParts(store: Store): Float64Array {
  const { model } = store;
  const { values, sums } = seriesOf(model);
  const { rows, axis } = model.header;
  const parts = binParts(axis, store.selection.time);
  const result = new Float64Array(rows * COUNT);
  values.forEach((of, c) => {
    if (!of) return;
    for (let row = 0; row < rows; ++row) {
      const at = row * COUNT + c;
      let sum = 0;
      for (let b = 0; b < axis.bins; ++b) sum += of[row * axis.bins + b] * parts[b];
      result[at] = sums[at] > 0 ? sum / sums[at] : 0;
    }
  });
  return result;
}
