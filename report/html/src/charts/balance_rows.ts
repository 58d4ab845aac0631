// SPDX-License-Identifier: BSD-3-Clause
// What the balance map shows: a value of every rank by subject, as deviation from the mean rank's.
import { boxOf, type Numbers } from "./numbers";

export interface Spread {
  mean: number; // over ranks
  max: number;
  high: number; // index of the largest value
  cost: number; // largest - mean: what balance would save
  imbalance: number; // largest / mean
}

export function spreadOf(values: Numbers, weights?: Numbers): Spread | null {
  let sum = 0;
  let ranks = 0;
  let high = -1;
  for (let i = 0; i < values.length; ++i) {
    if (Number.isNaN(values[i])) continue;
    const weight = weights ? weights[i] : 1;
    sum += values[i] * weight;
    ranks += weight;
    if (high < 0 || values[i] > values[high]) high = i;
  }
  if (high < 0 || ranks === 0) return null;
  const mean = sum / ranks;
  return { mean, max: values[high], high, cost: values[high] - mean, imbalance: mean > 0 ? values[high] / mean : NaN };
}

// Deviations from the mean, as shares of it; where the mean is 0 there is none.
export function deviations(values: Numbers, mean: number): Float32Array {
  return Float32Array.from(values, (value) => (mean > 0 ? value / mean - 1 : NaN));
}

// The values furthest from the others, at most `most`, that also deviate by `least` of the mean.
export function markedOutliers(
  values: Numbers,
  weights: Numbers | undefined,
  mean: number,
  least: number,
  most: number,
): number[] {
  const box = boxOf(values, weights);
  if (!box || !(mean > 0)) return [];
  return box.outliers.filter((index) => Math.abs(values[index] / mean - 1) >= least).slice(0, most);
}

// Means of single ranks' values over the ranks of each row.
export function rowMeans(values: Numbers, rowOfRank: Numbers, rows: number): Float32Array {
  const sums = new Float64Array(rows);
  const known = new Float64Array(rows);
  for (let i = 0; i < values.length; ++i) {
    if (Number.isNaN(values[i])) continue;
    sums[rowOfRank[i]] += values[i];
    ++known[rowOfRank[i]];
  }
  return Float32Array.from(sums, (sum, row) => (known[row] > 0 ? sum / known[row] : NaN));
}
