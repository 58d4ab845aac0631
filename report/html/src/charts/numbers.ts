// SPDX-License-Identifier: BSD-3-Clause
// What charts compute before they draw: scales, ticks, boxes, bins. No canvas, no page.

export type Numbers = ArrayLike<number>;
export type Span = [number, number];

export const clamp = (value: number, low: number, high: number): number =>
  value < low ? low : value > high ? high : value;

// 1, 2 or 5 times a power of ten, so that at most about `most` of them fit into `length`.
export function niceStep(length: number, most: number): number {
  if (!(length > 0) || !(most > 0)) return 1;
  const rough = length / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const fraction = rough / power;
  const eps = 1e-9;
  return (fraction <= 1 + eps ? 1 : fraction <= 2 + eps ? 2 : fraction <= 5 + eps ? 5 : 10) * power;
}

const kClock_s = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

// As niceStep, but in minutes and hours where seconds are many.
export function niceTimeStep_s(length_s: number, most: number): number {
  const rough = length_s / most;
  if (rough <= 1) return niceStep(length_s, most);
  for (const step of kClock_s) if (step >= rough) return step;
  return niceStep(length_s / 86400, most) * 86400;
}

export function multiples(from: number, to: number, step: number): number[] {
  const ticks: number[] = [];
  if (!(step > 0) || !(to >= from)) return ticks;
  const first = Math.ceil(from / step - 1e-9) + 0; // -0 is 0
  const last = Math.floor(to / step + 1e-9);
  if (last - first > 1000) return ticks;
  for (let i = first; i <= last; ++i) ticks.push(i * step);
  return ticks;
}

// The smallest nice number that is not below `value`: what an axis ends with.
export function niceCeiling(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const factor of [1, 1.5, 2, 3, 4, 5, 6, 8, 10]) if (factor * power >= value * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

// 0..1 of a logarithmic scale; what is 0 or less is below it.
export function logPosition(value: number, low: number, high: number): number {
  if (!(value > 0)) return -1;
  if (!(high > low)) return 1;
  return clamp(Math.log(value / low) / Math.log(high / low), 0, 1);
}

// Smallest value above 0 and the largest.
export function positiveExtent(values: Numbers): Span | null {
  let low = Infinity;
  let high = 0;
  for (let i = 0; i < values.length; ++i) {
    const value = values[i];
    if (!(value > 0) || value === Infinity) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return high > 0 ? [low, high] : null;
}

// Indices of the values that are known, by ascending value; of equal ones the first first.
export function ascending(values: Numbers): Uint32Array {
  let count = 0;
  for (let i = 0; i < values.length; ++i) if (!Number.isNaN(values[i])) ++count;
  const order = new Uint32Array(count);
  for (let i = 0, out = 0; i < values.length; ++i) if (!Number.isNaN(values[i])) order[out++] = i;
  return order.sort((a, b) => values[a] - values[b] || a - b);
}

export interface Box {
  count: number; // of what the values stand for
  low: number;
  q1: number;
  median: number;
  q3: number;
  high: number;
  mean: number;
  lowWhisker: number; // furthest values within 1.5 times the box's height of it
  highWhisker: number;
  outliers: number[]; // indices of values beyond the whiskers, furthest first
}

// Weights: how many each value stands for; none: one. Quantiles are those of the values written out that often
// (linear between neighbours).
export function boxOf(values: Numbers, weights?: Numbers, indices?: Numbers): Box | null {
  const chosen: number[] = [];
  const candidates = indices?.length ?? values.length;
  for (let i = 0; i < candidates; ++i) {
    const index = indices ? indices[i] : i;
    if (!Number.isNaN(values[index]) && (!weights || weights[index] > 0)) chosen.push(index);
  }
  if (chosen.length === 0) return null;
  chosen.sort((a, b) => values[a] - values[b] || a - b);
  const upTo = new Float64Array(chosen.length);
  let count = 0;
  let sum = 0;
  chosen.forEach((index, i) => {
    const weight = weights ? weights[index] : 1;
    count += weight;
    sum += weight * values[index];
    upTo[i] = count;
  });
  const nth = (n: number): number => {
    let low = 0;
    let high = chosen.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (upTo[middle] > n) high = middle;
      else low = middle + 1;
    }
    return values[chosen[low]];
  };
  const quantile = (share: number): number => {
    const position = share * (count - 1);
    const below = Math.floor(position);
    const a = nth(below);
    return position === below ? a : a + (nth(below + 1) - a) * (position - below);
  };
  const q1 = quantile(0.25);
  const q3 = quantile(0.75);
  const reach = 1.5 * (q3 - q1);
  let lowWhisker = q1;
  let highWhisker = q3;
  const outliers: number[] = [];
  for (const index of chosen) {
    const value = values[index];
    if (value < q1 - reach || value > q3 + reach) outliers.push(index);
    else {
      if (value < lowWhisker) lowWhisker = value;
      if (value > highWhisker) highWhisker = value;
    }
  }
  const distance = (index: number) => (values[index] < q1 ? q1 - values[index] : values[index] - q3);
  outliers.sort((a, b) => distance(b) - distance(a) || a - b);
  return {
    count,
    low: values[chosen[0]],
    q1,
    median: quantile(0.5),
    q3,
    high: values[chosen[chosen.length - 1]],
    mean: sum / count,
    lowWhisker,
    highWhisker,
    outliers,
  };
}

export interface Bins {
  from: number;
  width: number;
  counts: Float64Array;
}

// Bins of equal, nice width over all values. One bin where all are equal.
export function histogram(values: Numbers, most: number, weights?: Numbers): Bins | null {
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < values.length; ++i) {
    if (values[i] < low) low = values[i];
    if (values[i] > high) high = values[i];
  }
  if (!(high >= low)) return null;
  if (high === low) {
    const counts = new Float64Array(1);
    for (let i = 0; i < values.length; ++i) if (values[i] === low) counts[0] += weights ? weights[i] : 1;
    return { from: low, width: 0, counts };
  }
  const width = niceStep(high - low, Math.max(1, most - 1));
  const from = Math.floor(low / width + 1e-9) * width;
  const bins = Math.max(1, Math.ceil((high - from) / width - 1e-9));
  const counts = new Float64Array(bins);
  for (let i = 0; i < values.length; ++i) {
    if (Number.isNaN(values[i])) continue;
    counts[clamp(Math.floor((values[i] - from) / width + 1e-9), 0, bins - 1)] += weights ? weights[i] : 1;
  }
  return { from, width, counts };
}

// A view of cells from..to of an axis (fractions: parts of cells) on `pixels` pixels.
export interface Cells {
  first: Uint32Array; // of a stripe
  end: Uint32Array; // past the last one
  begin: Uint32Array; // its first pixel; one more at the end
}

// Stripes of pixels that show the same cells: several pixels of a cell, or several cells in a pixel.
export function stripes(from: number, to: number, cells: number, pixels: number): Cells {
  const first: number[] = [];
  const end: number[] = [];
  const begin: number[] = [];
  const scale = (to - from) / pixels;
  if (scale >= 1) {
    for (let p = 0; p < pixels; ++p) {
      const a = clamp(Math.floor(from + p * scale + 1e-9), 0, cells - 1);
      const b = p + 1 === pixels ? Math.ceil(to - 1e-9) : Math.floor(from + (p + 1) * scale + 1e-9);
      first.push(a);
      end.push(clamp(b, a + 1, cells));
      begin.push(p);
    }
  } else {
    for (let p = 0; p < pixels; ++p) {
      const cell = clamp(Math.floor(from + (p + 0.5) * scale), 0, cells - 1);
      if (first.length > 0 && first[first.length - 1] === cell) continue;
      first.push(cell);
      end.push(cell + 1);
      begin.push(p);
    }
  }
  begin.push(pixels);
  return { first: Uint32Array.from(first), end: Uint32Array.from(end), begin: Uint32Array.from(begin) };
}

export interface Dominant {
  index: number; // of the largest part
  share: number; // of all parts
  total: number;
}

// The largest of `parts` values, and its share of them. Index -1: all are 0.
export function dominant(parts: Numbers): Dominant {
  let index = -1;
  let total = 0;
  for (let i = 0; i < parts.length; ++i) {
    const part = parts[i];
    if (!(part > 0)) continue;
    total += part;
    if (index < 0 || part > parts[index]) index = i;
  }
  return { index, share: index < 0 ? 0 : parts[index] / total, total };
}

// A range dragged from a to b on an axis: in ascending order, within low..high, ends on multiples of `step` from
// `origin` (whole bins). null: shorter than `least`, that is a click.
export function draggedSpan(
  a: number,
  b: number,
  low: number,
  high: number,
  least: number,
  origin = 0,
  step = 0,
): Span | null {
  let from = Math.min(a, b);
  let to = Math.max(a, b);
  if (to - from < least) return null;
  if (step > 0) {
    from = origin + Math.floor((from - origin) / step + 1e-9) * step;
    to = origin + Math.ceil((to - origin) / step - 1e-9) * step;
  }
  from = clamp(from, low, high);
  to = clamp(to, low, high);
  return to > from ? [from, to] : null;
}

// `span` made `factor` times as long about `centre`, within low..high and at least `least` long.
export function zoomed(span: Span, centre: number, factor: number, low: number, high: number, least: number): Span {
  const length = clamp((span[1] - span[0]) * factor, Math.min(least, high - low), high - low);
  const share = span[1] > span[0] ? (centre - span[0]) / (span[1] - span[0]) : 0.5;
  const from = clamp(centre - share * length, low, high - length);
  return [from, from + length];
}

// Deviation that the strongest colour of a diverging scale stands for: the quantile `share` of the absolute
// values, rounded up, and at least `least`.
export function symmetricLimit(values: Numbers, share: number, least: number): number {
  const sizes: number[] = [];
  for (let i = 0; i < values.length; ++i) if (Number.isFinite(values[i])) sizes.push(Math.abs(values[i]));
  if (sizes.length === 0) return least;
  sizes.sort((a, b) => a - b);
  return Math.max(least, niceCeiling(sizes[Math.min(sizes.length - 1, Math.floor(share * sizes.length))]));
}

// Points of a line through many values: of each of `most` stretches the least and the largest stay.
export function thinned(length: number, most: number, value: (index: number) => number): number[] {
  if (length <= 2 * most) return Array.from({ length }, (_, i) => i);
  const kept: number[] = [];
  for (let s = 0; s < most; ++s) {
    const begin = Math.floor((s * length) / most);
    const end = Math.floor(((s + 1) * length) / most);
    let low = begin;
    let high = begin;
    for (let i = begin; i < end; ++i) {
      if (value(i) < value(low)) low = i;
      if (value(i) > value(high)) high = i;
    }
    kept.push(Math.min(low, high));
    if (low !== high) kept.push(Math.max(low, high));
  }
  if (kept[0] !== 0) kept.unshift(0);
  if (kept[kept.length - 1] !== length - 1) kept.push(length - 1);
  return kept;
}
