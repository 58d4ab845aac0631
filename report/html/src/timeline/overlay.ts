// SPDX-License-Identifier: BSD-3-Clause
// What lies over all strips of the timeline: the selected time, the span that is being dragged and the pointer's line.
import { type Ink, line } from "../charts/drawing";
import { withAlpha } from "../charts/colour";
import { clamp } from "../charts/numbers";
import type { Rect } from "../charts/raster";
import type { Pen } from "../charts/surface";
import { rgb } from "../core/colours";
import type { Pointer } from "./pointer";
import type { View } from "./view";

// What is chosen of the time, and where the pointer is.
export function drawTimeOver(pen: Pen, rect: Rect, view: View, pointer: Pointer, colours: Ink): void {
  const { context } = pen;
  const right = rect.x + rect.width;
  const veil = withAlpha(rgb(colours.surface), 0.66);
  const { time } = view.store.selection;
  if (time && !pointer.drag) {
    const a = clamp(view.x(time[0], rect), rect.x, right);
    const b = clamp(view.x(time[1], rect), rect.x, right);
    context.fillStyle = veil;
    context.fillRect(rect.x, rect.y, a - rect.x, rect.height);
    context.fillRect(b, rect.y, right - b, rect.height);
    if (a > rect.x) line(pen, a, rect.y, a, rect.y + rect.height, colours.accent);
    if (b < right) line(pen, b, rect.y, b, rect.y + rect.height, colours.accent);
  }
  const at = pointer.hover?.time;
  if (at !== undefined && !pointer.drag) {
    const x = view.x(at, rect);
    if (x >= rect.x && x <= right)
      line(pen, x, rect.y, x, rect.y + rect.height, withAlpha(rgb(colours.text), 0.45));
  }
}

export function drawDraggedTime(pen: Pen, rect: Rect, view: View, pointer: Pointer, colours: Ink): void {
  const time = pointer.dragged(pen.width)?.time;
  if (!time) return;
  const x0 = view.x(time[0], rect);
  pen.context.fillStyle = withAlpha(rgb(colours.accent), 0.16);
  pen.context.fillRect(x0, rect.y, view.x(time[1], rect) - x0, rect.height);
}
