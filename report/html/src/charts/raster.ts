// SPDX-License-Identifier: BSD-3-Clause
import { type Cells, stripes } from "./numbers";
import type { Pen } from "./surface";

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface View {
  columns: [number, number]; // fractions of cells: what lies between is drawn
  rows: [number, number];
}

// Colour of the cells [firstRow, endRow) x [firstColumn, endColumn), as rgba() packs it; 0: nothing.
export type Shade = (firstRow: number, endRow: number, firstColumn: number, endColumn: number) => number;

const littleEndian = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

export function rgba(r: number, g: number, b: number, a = 255): number {
  return littleEndian ? ((a << 24) | (b << 16) | (g << 8) | r) >>> 0 : ((r << 24) | (g << 16) | (b << 8) | a) >>> 0;
}

// The pixels of a heat map: each is shaded by all cells below it, each cell is as sharp as the screen.
export function shadePixels(
  width: number,
  height: number,
  rows: number,
  columns: number,
  view: View,
  shade: Shade,
): Uint32Array {
  const pixels = new Uint32Array(width * height);
  const across: Cells = stripes(view.columns[0], view.columns[1], columns, width);
  const down: Cells = stripes(view.rows[0], view.rows[1], rows, height);
  for (let r = 0; r < down.first.length; ++r) {
    const top = down.begin[r] * width;
    for (let c = 0; c < across.first.length; ++c) {
      const colour = shade(down.first[r], down.end[r], across.first[c], across.end[c]);
      if (colour !== 0) pixels.fill(colour, top + across.begin[c], top + across.begin[c + 1]);
    }
    for (let y = down.begin[r] + 1; y < down.begin[r + 1]; ++y) pixels.copyWithin(y * width, top, top + width);
  }
  return pixels;
}

export function drawRaster(pen: Pen, rect: Rect, rows: number, columns: number, view: View, shade: Shade): void {
  const x = Math.round(rect.x * pen.ratio);
  const y = Math.round(rect.y * pen.ratio);
  const width = Math.round((rect.x + rect.width) * pen.ratio) - x;
  const height = Math.round((rect.y + rect.height) * pen.ratio) - y;
  if (width <= 0 || height <= 0 || rows === 0 || columns === 0) return;
  const pixels = shadePixels(width, height, rows, columns, view, shade);
  // Through drawImage, since putImageData would wipe out what lies below transparent pixels.
  const sheet = document.createElement("canvas");
  sheet.width = width;
  sheet.height = height;
  sheet
    .getContext("2d")!
    .putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer as ArrayBuffer), width, height), 0, 0);
  pen.context.save();
  pen.context.setTransform(1, 0, 0, 1, 0, 0);
  pen.context.drawImage(sheet, x, y);
  pen.context.restore();
}
