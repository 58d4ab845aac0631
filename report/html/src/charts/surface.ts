// SPDX-License-Identifier: BSD-3-Clause
// A canvas as wide as its parent, sharp at any pixel ratio, drawn anew when its size or the page's theme changes.
// Two layers: the picture, and over it what follows the pointer, so that moving it does not draw the picture again.

export interface Pen {
  context: CanvasRenderingContext2D; // in CSS pixels
  width: number;
  height: number;
  ratio: number; // device pixels of a CSS pixel
}

export interface SurfaceOptions {
  height: number;
  draw: (pen: Pen) => void;
  drawOver?: (pen: Pen) => void;
  label: string; // what a screen reader says
  interactive?: boolean; // takes the keyboard
}

type Layer = { canvas: HTMLCanvasElement; context: CanvasRenderingContext2D };

function makeLayer(className: string): Layer {
  const canvas = document.createElement("canvas");
  canvas.className = className;
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser has no 2D canvas");
  return { canvas, context };
}

export class Surface {
  readonly root: HTMLDivElement;
  width = 0;
  height: number;
  private readonly under = makeLayer("canvas-layer");
  private readonly over = makeLayer("canvas-layer");
  private readonly sizes: ResizeObserver;
  private pending = 0;
  private dirty = false;

  constructor(
    parent: HTMLElement,
    private readonly options: SurfaceOptions,
  ) {
    this.height = options.height;
    this.root = document.createElement("div");
    this.root.className = "canvas";
    this.root.append(this.under.canvas, this.over.canvas);
    this.setLabel(options.label);
    if (options.interactive) {
      this.root.tabIndex = 0;
      this.root.setAttribute("role", "application");
    } else {
      this.root.setAttribute("role", "img");
    }
    this.root.style.height = `${this.height}px`;
    parent.append(this.root);
    this.sizes = new ResizeObserver(() => this.redraw());
    this.sizes.observe(this.root);
    onTheme(this.redraw);
    window.addEventListener("beforeprint", this.paintNow);
    window.addEventListener("afterprint", this.redraw);
    this.redraw();
  }

  setLabel(label: string): void {
    this.root.setAttribute("aria-label", label);
  }

  setHeight(height: number): void {
    if (height === this.height) return;
    this.height = height;
    this.root.style.height = `${height}px`;
    this.redraw();
  }

  redraw = (): void => {
    this.dirty = true;
    this.schedule();
  };

  // Printing does not wait for the next frame.
  private readonly paintNow = (): void => {
    this.dirty = true;
    this.paint();
  };

  redrawOver(): void {
    this.schedule();
  }

  destroy(): void {
    cancelAnimationFrame(this.pending);
    this.sizes.disconnect();
    offTheme(this.redraw);
    window.removeEventListener("beforeprint", this.paintNow);
    window.removeEventListener("afterprint", this.redraw);
    this.root.remove();
  }

  // Of a pointer event, in the canvas' CSS pixels.
  at(event: MouseEvent): [number, number] {
    const box = this.root.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  private schedule(): void {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.paint();
    });
  }

  private paint(): void {
    const width = this.root.clientWidth;
    if (width === 0) return;
    this.width = width;
    const ratio = window.devicePixelRatio || 1;
    if (this.dirty) {
      this.dirty = false;
      this.options.draw(this.prepare(this.under, ratio));
    }
    if (this.options.drawOver) this.options.drawOver(this.prepare(this.over, ratio));
  }

  private prepare(layer: Layer, ratio: number): Pen {
    const w = Math.round(this.width * ratio);
    const h = Math.round(this.height * ratio);
    const { canvas, context } = layer;
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    return { context, width: this.width, height: this.height, ratio };
  }
}

// One observer for all charts: the system's scheme and the page's switch.
const listeners = new Set<() => void>();
let watching = false;

export function onTheme(listener: () => void): void {
  listeners.add(listener);
  if (watching) return;
  watching = true;
  const tell = () => listeners.forEach((one) => one());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  new MutationObserver(tell).observe(document.documentElement, { attributes: true });
}

export function offTheme(listener: () => void): void {
  listeners.delete(listener);
}

// Lines on whole device pixels.
export const sharp = (value: number, ratio: number): number => (Math.round(value * ratio) + 0.5) / ratio;
