// SPDX-License-Identifier: BSD-3-Clause
import { type Rgb, css, cssColour, mix, rgb } from "../core/colours";

// How boxes and arcs of the call tree look, by node.
export interface NodeLook {
  label(node: number): string;
  colour(node: number): Rgb;
  hatched(node: number): boolean; // a sum of what cannot be told apart
  matched(node: number): boolean; // of the search; true for all without one
}

export interface Palette {
  card: Rgb;
  text: string;
  dark: string; // text on light fills
  light: string; // text on dark ones
  line: string;
  focus: string;
  font: string;
}

export function palette(size: number): Palette {
  const family = cssColour("--font") || "sans-serif";
  return {
    card: rgb(cssColour("--card")),
    text: cssColour("--text"),
    dark: "#10161d",
    light: "#ffffff",
    line: cssColour("--line-2"),
    focus: cssColour("--focus"),
    font: `${size}px ${family}`,
  };
}

export function textOn(fill: Rgb, colours: Palette): string {
  // Relative luminance; the crossing point of the contrasts with black and with white.
  const linear = fill.map((value) => {
    const v = value / 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.22 ? colours.dark : colours.light;
}

// Small differences between neighbours of one colour, the same for a name everywhere.
export function shade(colour: Rgb, name: string, towards: Rgb): Rgb {
  let hash = 2166136261;
  for (let i = 0; i < name.length; ++i) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  return mix(colour, towards, 0.12 + (0.2 * ((hash >>> 8) % 16)) / 15);
}

export function hatch(
  context: CanvasRenderingContext2D,
  colours: Palette,
  scale: number,
): CanvasPattern | string {
  const side = Math.round(6 * scale);
  const tile = document.createElement("canvas");
  tile.width = tile.height = side;
  const on = tile.getContext("2d");
  if (!on) return colours.line;
  on.fillStyle = css(mix(colours.card, rgb(colours.line), 0.35));
  on.fillRect(0, 0, side, side);
  on.strokeStyle = colours.line;
  on.lineWidth = Math.max(1, scale);
  on.beginPath();
  for (const shift of [-side, 0, side]) {
    on.moveTo(shift, side);
    on.lineTo(shift + side, 0);
  }
  on.stroke();
  return context.createPattern(tile, "repeat") ?? colours.line;
}

// The text as it fits, shortened in the middle; "" when nothing worth reading does.
export class TextFitter {
  private readonly widths = new Map<string, number>();

  constructor(private readonly context: CanvasRenderingContext2D) {}

  private width(text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  fit(text: string, room: number): string {
    if (room < 14) return "";
    const width = this.width(text);
    if (width <= room) return text;
    const characters = [...text];
    let keep = Math.floor((room / width) * characters.length);
    for (; keep >= 5; --keep) {
      const head = Math.ceil((keep - 1) * 0.6);
      const tail = keep - 1 - head;
      const short = `${characters.slice(0, head).join("")}…${tail > 0 ? characters.slice(-tail).join("") : ""}`;
      if (this.context.measureText(short).width <= room) return short;
    }
    return "";
  }
}

// Makes the canvas as large as its box, in device pixels; null while it is not shown.
export function prepare(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): { context: CanvasRenderingContext2D; scale: number } | null {
  const context = canvas.getContext("2d");
  if (!context || width < 1 || height < 1) return null;
  const scale = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, w, h);
  return { context, scale };
}
