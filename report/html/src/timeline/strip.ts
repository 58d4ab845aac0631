// SPDX-License-Identifier: BSD-3-Clause
// A strip of the timeline: a canvas that shares the time axis, the zoom and the pointer with the other strips.
import { CanvasChart, type CanvasOptions } from "../charts/canvas_chart";
import { ink } from "../charts/drawing";
import type { Rect } from "../charts/raster";
import type { Pen } from "../charts/surface";
import type { Content } from "./content";
import { drawDraggedTime, drawTimeOver } from "./overlay";
import type { Pointer } from "./pointer";
import type { View } from "./view";

export abstract class Strip extends CanvasChart {
  constructor(
    parent: HTMLElement,
    protected readonly content: Content,
    protected readonly view: View,
    protected readonly pointer: Pointer,
    options: CanvasOptions,
  ) {
    super(parent, options);
  }

  // Before what is shown changes, or the theme.
  update(): void {
    this.colours = ink();
  }

  // The selected time, the pointer and the span being dragged, over the part that shares the time axis.
  protected drawTime(pen: Pen, rect: Rect): void {
    drawTimeOver(pen, rect, this.view, this.pointer, this.colours);
    drawDraggedTime(pen, rect, this.view, this.pointer, this.colours);
  }
}
