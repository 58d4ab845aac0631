// SPDX-License-Identifier: BSD-3-Clause
// After Paul Tol's "muted" scheme, moved until categories are told apart with each kind of colour blindness (a distance
// of at least 16 in CIELAB, as Machado and others simulate it). CSS has them as variables
// (style/colours.css), canvases ask here.
import { CATEGORIES, KIND_NAMES, type Category, type KindName } from "./model";

export type Rgb = readonly [number, number, number];

// For CSS.
export const categoryColour = (category: Category): string => `var(--cat-${category})`;
export const kindColour = (kind: KindName): string => `var(--kind-${kind})`;

export const CATEGORY_TITLES: Record<Category, string> = {
  python: "Python",
  native: "Native",
  system: "System",
  mpi: "MPI",
  io: "I/O",
  idle: "Idle",
  runnable: "Runnable",
};
export const CATEGORY_HELP: Record<Category, string> = {
  python: "The interpreter runs bytecode.",
  native: "Other user code: extension modules, libraries, compiled programs.",
  system: "System calls that are not I/O, and page faults.",
  mpi: "Inside an MPI call.",
  io: "In, or blocked in, a file or socket system call outside MPI.",
  idle: "Blocked otherwise: sleep, lock, the GIL, a child.",
  runnable: "Ready to run outside MPI, but no processor was free.",
};
export const KIND_TITLES: Record<KindName, string> = {
  python: "Python",
  native: "Native",
  mpi: "MPI",
  kernel: "Kernel",
  region: "Region",
};

export function isDark(): boolean {
  return document.documentElement.dataset.theme === "dark";
}

// A variable's value now, for canvases: "--text".
export function cssColour(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}
export const canvasCategory = (category: Category): string => cssColour(`--cat-${category}`);
export const canvasKind = (kind: KindName): string => cssColour(`--kind-${kind}`);

export function rgb(colour: string): Rgb {
  const match = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(colour);
  return match ? [parseInt(match[1], 16), parseInt(match[2], 16), parseInt(match[3], 16)] : [128, 128, 128];
}
export const css = ([r, g, b]: Rgb): string => `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)})`;
export const categoryRgb = (): Rgb[] => CATEGORIES.map((c) => rgb(canvasCategory(c)));
export const kindRgb = (): Rgb[] => KIND_NAMES.map((k) => rgb(canvasKind(k)));

export function mix(a: Rgb, b: Rgb, t: number): Rgb {
  return [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t];
}

function ramp(stops: readonly string[]): Rgb[] {
  const colours = stops.map(rgb);
  return Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (colours.length - 1);
    const low = Math.min(Math.floor(at), colours.length - 2);
    return mix(colours[low], colours[low + 1], at - low);
  });
}

// 0 is the background's side, 1 stands out; lightness is even, so that it also prints.
const SEQUENTIAL = {
  light: ramp(["#f4f6f8", "#cfdfee", "#9cc3de", "#5f9fc7", "#2f76ab", "#1a4f86", "#0f2f5c"]),
  dark: ramp(["#1c2128", "#1d3550", "#225180", "#3274ad", "#5b9bcb", "#96c3e0", "#d8ecf8"]),
};
// 0.5 is neutral, 0 less (blue), 1 more (orange).
const DIVERGING = {
  light: ramp(["#2166ac", "#67a9cf", "#c8dfec", "#f5f5f3", "#f5d3b0", "#dd8a44", "#9c4a12"]),
  dark: ramp(["#7db8e8", "#3f7fb5", "#274a68", "#262b31", "#6b4526", "#b8702c", "#f2b26b"]),
};
const scale = (table: Rgb[], t: number): Rgb => table[Math.max(0, Math.min(255, Math.round(t * 255)))];

export const sequential = (t: number): Rgb => scale(isDark() ? SEQUENTIAL.dark : SEQUENTIAL.light, t);
export const diverging = (t: number): Rgb => scale(isDark() ? DIVERGING.dark : DIVERGING.light, t);
// 256 colours at once, for many cells.
export const sequentialTable = (): readonly Rgb[] => (isDark() ? SEQUENTIAL.dark : SEQUENTIAL.light);
export const divergingTable = (): readonly Rgb[] => (isDark() ? DIVERGING.dark : DIVERGING.light);

// A colour for a name among many (modules): the same name has the same one in every report.
const QUALITATIVE = {
  light: ["#4477aa", "#44aa99", "#cc6677", "#ddcc77", "#88ccee", "#999933", "#aa4499", "#117733", "#882255", "#ee8866"],
  dark: ["#6f9fd0", "#5bbfae", "#d98291", "#d6c67a", "#8fcbe6", "#b0b055", "#bf6bb2", "#4f9f6a", "#b35f86", "#e89a7c"],
};
export function qualitative(index: number): string {
  const colours = isDark() ? QUALITATIVE.dark : QUALITATIVE.light;
  return colours[index % colours.length];
}
export function nameColour(name: string): string {
  let hash = 2166136261;
  for (let i = 0; i < name.length; ++i) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  const colours = isDark() ? QUALITATIVE.dark : QUALITATIVE.light;
  return colours[(hash >>> 0) % colours.length];
}
