// SPDX-License-Identifier: BSD-3-Clause
// The rows of heat maps: ranks, or ranges of ranks with their outliers as rows of their own.
import { multiples, niceStep, type Numbers } from "./numbers";

export interface Rows {
  first: Numbers; // rank numbers
  last: Numbers;
  ranks: Numbers; // in the row
  node: Numbers; // kNoNode: of several
}

export const kNoNode = 0xffffffff;

// As they are drawn: by first rank, a range before the outliers in it.
export function rowOrder(rows: Rows): Uint32Array {
  const order = Uint32Array.from({ length: rows.first.length }, (_, i) => i);
  return order.sort((a, b) => rows.first[a] - rows.first[b] || rows.last[b] - rows.last[a] || a - b);
}

export function reordered(rows: Rows, order: Uint32Array): Rows {
  return {
    first: Int32Array.from(order, (row) => rows.first[row]),
    last: Int32Array.from(order, (row) => rows.last[row]),
    ranks: Uint32Array.from(order, (row) => rows.ranks[row]),
    node: Uint32Array.from(order, (row) => rows.node[row]),
  };
}

// 1: a rank that was taken out of the range around it. `rows` in the order they are drawn in.
export function outliersOf(rows: Rows): Uint8Array {
  const marks = new Uint8Array(rows.first.length);
  let reached = -Infinity;
  for (let row = 0; row < marks.length; ++row) {
    if (rows.ranks[row] === 1 && rows.last[row] <= reached) marks[row] = 1;
    else reached = Math.max(reached, rows.last[row]);
  }
  return marks;
}

export function rowLabel(rows: Rows, row: number): string {
  return rows.first[row] === rows.last[row]
    ? `rank ${rows.first[row]}`
    : `ranks ${rows.first[row]}\u2013${rows.last[row]}`;
}

export interface RowTick {
  row: number; // middle of it, or the place in a range, in rows
  rank: number;
}

// Round rank numbers that lie in the rows from..to.
export function rowTicks(rows: Rows, outliers: Numbers, from: number, to: number, most: number): RowTick[] {
  const begin = Math.max(0, Math.floor(from));
  const end = Math.min(rows.first.length, Math.ceil(to));
  if (begin >= end) return [];
  let low = Infinity;
  let high = -Infinity;
  for (let row = begin; row < end; ++row) {
    low = Math.min(low, rows.first[row]);
    high = Math.max(high, rows.last[row]);
  }
  let step = Math.max(1, Math.round(niceStep(high - low + 1, most)));
  // Ranks come in powers of two.
  const power = 2 ** Math.ceil(Math.log2(Math.max(1, (high - low + 1) / most)));
  if (high - low + 1 > 2 * most) step = power;
  const ticks: RowTick[] = [];
  let row = begin;
  for (const rank of multiples(low, high, step)) {
    while (row < end && (outliers[row] || rows.last[row] < rank)) ++row;
    if (row === end) break;
    if (rows.first[row] > rank) continue; // such a rank is not in the run
    const length = rows.last[row] - rows.first[row] + 1;
    const at = row + (length === 1 ? 0.5 : (rank - rows.first[row]) / length);
    if (at >= from && at <= to) ticks.push({ row: at, rank });
  }
  return ticks;
}

export interface NodeSpan {
  node: number;
  begin: number; // rows
  end: number;
}

// Stretches of rows of the same node.
export function nodeSpans(rows: Rows): NodeSpan[] {
  const spans: NodeSpan[] = [];
  for (let row = 0; row < rows.node.length; ++row) {
    const last = spans[spans.length - 1];
    if (last && last.node === rows.node[row]) last.end = row + 1;
    else spans.push({ node: rows.node[row], begin: row, end: row + 1 });
  }
  return spans;
}

export interface Band {
  min: Float64Array;
  mean: Float64Array;
  max: Float64Array;
}

// By column: least, mean and largest over the chosen rows. Mean over ranks, as rows stand for several.
export function bandOf(values: Numbers, columns: number, chosen: Numbers, weights: Numbers): Band {
  const band: Band = {
    min: new Float64Array(columns).fill(NaN),
    mean: new Float64Array(columns).fill(NaN),
    max: new Float64Array(columns).fill(NaN),
  };
  for (let column = 0; column < columns; ++column) {
    let sum = 0;
    let weight = 0;
    let min = Infinity;
    let max = -Infinity;
    for (let i = 0; i < chosen.length; ++i) {
      const row = chosen[i];
      const value = values[row * columns + column];
      if (Number.isNaN(value)) continue;
      sum += value * weights[row];
      weight += weights[row];
      if (value < min) min = value;
      if (value > max) max = value;
    }
    if (weight === 0) continue;
    band.min[column] = min;
    band.mean[column] = sum / weight;
    band.max[column] = max;
  }
  return band;
}

// By bin: the part of all paths' time that lies in the chosen ones; NaN where there is no time.
export function shareOfPaths(times: Numbers, bins: number, chosen: Numbers): Float32Array {
  const sums = new Float64Array(bins);
  const totals = new Float64Array(bins);
  for (let path = 0; path < chosen.length; ++path)
    for (let bin = 0; bin < bins; ++bin) {
      const time = times[path * bins + bin];
      totals[bin] += time;
      if (chosen[path]) sums[bin] += time;
    }
  return Float32Array.from(sums, (sum, bin) => (totals[bin] > 0 ? sum / totals[bin] : NaN));
}

// The row at a place of the view from..to, kept within `count` rows.
export function rowAt(from: number, to: number, share: number, count: number): number {
  return Math.min(count - 1, Math.max(0, Math.floor(from + (to - from) * share)));
}
