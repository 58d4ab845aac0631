// SPDX-License-Identifier: BSD-3-Clause
// What charts have in common on a canvas: ink of the page's theme, axes, text that fits.
import { cssColour } from "../core/colours";
import { multiples, niceTimeStep_s, type Span } from "./numbers";
import type { Rect } from "./raster";
import { type Pen, sharp } from "./surface";

export interface Ink {
  text: string;
  muted: string;
  faint: string; // axes
  grid: string;
  surface: string; // below the chart
  empty: string; // cells without a value
  accent: string;
  font: string;
}

export function ink(): Ink {
  return {
    text: cssColour("--text"),
    muted: cssColour("--text-2"),
    faint: cssColour("--line-2"),
    grid: cssColour("--line"),
    surface: cssColour("--card"),
    empty: cssColour("--hover"),
    accent: cssColour("--accent"),
    font: getComputedStyle(document.body).fontFamily,
  };
}

export interface TextStyle {
  align?: CanvasTextAlign;
  baseline?: CanvasTextBaseline;
  colour: string;
  size?: number;
  weight?: number;
  most?: number; // CSS pixels; longer text is shortened in the middle
  font: string;
}

export function text(pen: Pen, x: number, y: number, string: string, style: TextStyle): void {
  const { context } = pen;
  context.font = `${style.weight ?? 400} ${style.size ?? 11}px ${style.font}`;
  context.textAlign = style.align ?? "left";
  context.textBaseline = style.baseline ?? "middle";
  context.fillStyle = style.colour;
  context.fillText(style.most === undefined ? string : fitted(context, string, style.most), x, y);
}

export function fitted(context: CanvasRenderingContext2D, string: string, most: number): string {
  if (string.length > 400) string = `${string.slice(0, 200)}\u2026${string.slice(-199)}`;
  if (context.measureText(string).width <= most) return string;
  let low = 0;
  let high = string.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(cut(string, middle)).width <= most) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? "" : cut(string, low);
}

function cut(string: string, kept: number): string {
  const head = Math.ceil(kept / 2);
  return `${string.slice(0, head)}\u2026${string.slice(string.length - (kept - head))}`;
}

// "1.25 s", "2:05", "1:02:00": as exact as the ticks are apart.
export function timeLabel(time_s: number, step_s: number): string {
  if (Math.abs(time_s) < step_s * 1e-6) return "0 s";
  if (step_s < 1e-3) return `${(time_s * 1e6).toFixed(0)} \u00b5s`;
  if (step_s < 1) {
    const decimals = Math.max(0, -Math.floor(Math.log10(step_s) + 1e-9));
    return `${time_s.toFixed(decimals)} s`;
  }
  const sign = time_s < 0 ? "\u2212" : "";
  const whole = Math.round(Math.abs(time_s));
  if (whole < 60 || (whole < 120 && step_s < 30)) return `${sign}${whole} s`;
  const seconds = String(whole % 60).padStart(2, "0");
  const minutes = Math.floor(whole / 60) % 60;
  const hours = Math.floor(whole / 3600);
  return hours > 0 ? `${sign}${hours}:${String(minutes).padStart(2, "0")}:${seconds}` : `${sign}${minutes}:${seconds}`;
}

export function timeTicks(view: Span, width: number): { at: number; label: string }[] {
  const step = niceTimeStep_s(view[1] - view[0], Math.max(2, width / 90));
  return multiples(view[0], view[1], step).map((at) => ({ at, label: timeLabel(at, step) }));
}

// Labels below `rect`, with ticks.
export function drawTimeAxis(pen: Pen, rect: Rect, view: Span, colours: Ink): void {
  const { context, ratio } = pen;
  context.strokeStyle = colours.faint;
  context.lineWidth = 1 / ratio;
  const bottom = rect.y + rect.height;
  for (const tick of timeTicks(view, rect.width)) {
    const x = rect.x + ((tick.at - view[0]) / (view[1] - view[0])) * rect.width;
    context.beginPath();
    context.moveTo(sharp(x, ratio), bottom);
    context.lineTo(sharp(x, ratio), bottom + 4);
    context.stroke();
    const align = x > rect.x + rect.width - 24 ? "right" : x < rect.x + 12 ? "left" : "center";
    text(pen, align === "right" ? Math.min(x + 14, rect.x + rect.width) : x, bottom + 12, tick.label, {
      align,
      colour: colours.muted,
      font: colours.font,
    });
  }
}

export function line(pen: Pen, x1: number, y1: number, x2: number, y2: number, colour: string, width = 1): void {
  const { context, ratio } = pen;
  context.strokeStyle = colour;
  context.lineWidth = width === 1 ? Math.max(1, Math.round(ratio)) / ratio : width;
  context.beginPath();
  context.moveTo(x1 === x2 ? sharp(x1, ratio) : x1, y1 === y2 ? sharp(y1, ratio) : y1);
  context.lineTo(x1 === x2 ? sharp(x2, ratio) : x2, y1 === y2 ? sharp(y2, ratio) : y2);
  context.stroke();
}

export function frame(pen: Pen, rect: Rect, colour: string): void {
  const { context, ratio } = pen;
  context.strokeStyle = colour;
  context.lineWidth = 1 / ratio;
  const x = sharp(rect.x, ratio) - 1 / ratio;
  const y = sharp(rect.y, ratio) - 1 / ratio;
  context.strokeRect(x, y, rect.width + 1 / ratio, rect.height + 1 / ratio);
}
