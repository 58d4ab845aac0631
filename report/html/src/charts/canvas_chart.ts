// SPDX-License-Identifier: BSD-3-Clause
// What charts that draw on a canvas of their own have in common: the canvas, and colours that follow the page's theme.
import { type Ink, ink } from "./drawing";
import { type Pen, Surface } from "./surface";

export interface CanvasOptions {
  height: number;
  label?: string; // what a screen reader says, unless setLabel follows
  interactive?: boolean; // takes the keyboard
}

export abstract class CanvasChart {
  readonly surface: Surface;
  protected colours: Ink = ink();

  constructor(parent: HTMLElement, { height, label = "", interactive = false }: CanvasOptions) {
    // The first picture is drawn in the next frame, when the derived class is complete.
    this.surface = new Surface(parent, {
      height,
      label,
      interactive,
      draw: (pen) => {
        this.colours = ink();
        this.draw(pen);
      },
      drawOver: (pen) => this.drawOver(pen),
    });
  }

  protected abstract draw(pen: Pen): void;

  // What follows the pointer.
  protected drawOver(_pen: Pen): void {}
}
