// SPDX-License-Identifier: BSD-3-Clause
// Mixtures in Oklab: steps between two colours that look equal, without turning grey in between.
import type { Rgb } from "../core/colours";
import { rgba } from "./raster";

const linear = (c: number): number => {
  const x = c / 255;
  return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
};
const gamma = (x: number): number => {
  const c = x <= 0.0031308 ? x * 12.92 : 1.055 * x ** (1 / 2.4) - 0.055;
  return Math.round(Math.min(1, Math.max(0, c)) * 255);
};

function toLab([red, green, blue]: Rgb): [number, number, number] {
  const r = linear(red);
  const g = linear(green);
  const b = linear(blue);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromLab(L: number, A: number, B: number): Rgb {
  const l = (L + 0.3963377774 * A + 0.2158037573 * B) ** 3;
  const m = (L - 0.1055613458 * A - 0.0638541728 * B) ** 3;
  const s = (L - 0.0894841775 * A - 1.291485548 * B) ** 3;
  return [
    gamma(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    gamma(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    gamma(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

export function blend(a: Rgb, b: Rgb, share: number): Rgb {
  const [l1, a1, b1] = toLab(a);
  const [l2, a2, b2] = toLab(b);
  return fromLab(l1 + (l2 - l1) * share, a1 + (a2 - a1) * share, b1 + (b2 - b1) * share);
}

// From a to b.
export function shades(a: Rgb, b: Rgb, steps: number): Rgb[] {
  return Array.from({ length: steps }, (_, i) => blend(a, b, steps > 1 ? i / (steps - 1) : 1));
}

// For rasters.
export const packed = (colours: readonly Rgb[]): Uint32Array =>
  Uint32Array.from(colours, ([r, g, b]) => rgba(Math.round(r), Math.round(g), Math.round(b)));

export const withAlpha = ([r, g, b]: Rgb, alpha: number): string =>
  `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)} / ${alpha})`;
