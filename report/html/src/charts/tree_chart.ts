// SPDX-License-Identifier: BSD-3-Clause
// What charts of a call tree have in common, whatever their shape: a canvas with a box per node, and what pointer and
// keys do to the boxes.
import { type Child, el, hideTip, showTip } from "../core/dom";
import { type NodeLook, type Palette, TextFitter, hatch, palette, prepare } from "./canvas_parts";
import { type FlameBox, FlameIndex, type FlameSource } from "./flame_layout";

export interface TreeChartEvents {
  label: string; // for screen readers
  zoom(node: number): void;
  out(): void;
  tip(box: FlameBox): Child;
  at(box: FlameBox | null): void; // under the pointer or focused
}

// What one picture is drawn with.
export interface Drawing {
  context: CanvasRenderingContext2D;
  width: number; // CSS pixels
  height: number;
  scale: number; // device pixels of a CSS pixel
  colours: Palette;
  pattern: CanvasPattern | string; // of hatched boxes
  fitter: TextFitter;
}

const DIRECTIONS: Partial<Record<string, "left" | "right" | "up" | "down">> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
};

export abstract class TreeChart {
  readonly root: HTMLElement;
  protected readonly canvas = el("canvas");
  protected source: FlameSource | null = null;
  protected look: NodeLook | null = null;
  protected zoomed = 0; // node
  protected boxes: FlameBox[] = [];
  protected index = new FlameIndex([]);
  protected laidOutFor = 0; // CSS pixels
  protected focused: FlameBox | null = null;
  protected hovered: FlameBox | null = null;
  private queued = 0;
  private readonly observer = new ResizeObserver(() => this.queue());

  constructor(
    private readonly events: TreeChartEvents,
    { className, shape, keys }: { className: string; shape: string; keys: string },
  ) {
    this.root = el("div", {
      class: className,
      tabindex: 0,
      role: "application",
      "aria-roledescription": `${shape} chart`,
      "aria-label": `${events.label}. ${keys}`,
    });
    this.listenToPointer();
    this.listenToKeys();
    this.observer.observe(this.root);
  }

  show(source: FlameSource, zoomed: number, look: NodeLook): void {
    this.source = source;
    this.zoomed = zoomed;
    this.look = look;
    this.layout();
    this.queue();
  }

  focus(): void {
    this.root.focus();
  }

  destroy(): void {
    this.observer.disconnect();
    window.cancelAnimationFrame(this.queued);
  }

  protected abstract layout(): void;
  protected abstract draw(): void;
  protected abstract boxAt(event: MouseEvent): FlameBox | null;
  protected abstract firstBox(): FlameBox | null; // where keys begin
  protected abstract reveal(box: FlameBox): boolean; // false: it cannot be focused
  protected homeBox?(): FlameBox | null;

  protected queue(): void {
    if (this.queued === 0)
      this.queued = window.requestAnimationFrame(() => {
        this.queued = 0;
        this.draw();
      });
  }

  // Depth of what is zoomed: it has as many ancestors.
  protected zoomDepth(source: FlameSource): number {
    let depth = 0;
    for (let at = this.zoomed; source.parent(at) !== at; at = source.parent(at)) ++depth;
    return depth;
  }

  // Null while the canvas is not shown.
  protected beginDrawing(width: number, height: number, textSize: number): Drawing | null {
    const ready = prepare(this.canvas, width, height);
    if (!ready) return null;
    const { context, scale } = ready;
    const colours = palette(textSize);
    const pattern = hatch(context, colours, scale);
    return { context, width, height, scale, colours, pattern, fitter: new TextFitter(context) };
  }

  // The box under the pointer, and the focused one while the chart has the focus.
  protected outlined(): FlameBox[] {
    const boxes: FlameBox[] = [];
    for (const box of [this.hovered, this.focused])
      if (box && (box !== this.focused || document.activeElement === this.root)) boxes.push(box);
    return boxes;
  }

  private listenToPointer(): void {
    const { canvas, events } = this;
    canvas.addEventListener("pointermove", (event) => {
      const box = this.boxAt(event);
      if (box !== this.hovered) {
        this.hovered = box;
        canvas.style.cursor = box ? "pointer" : "default";
        events.at(box ?? this.focused);
        this.queue();
      }
      if (box) showTip(() => events.tip(box), event.clientX, event.clientY);
      else hideTip();
    });
    canvas.addEventListener("pointerleave", () => {
      this.hovered = null;
      hideTip();
      events.at(this.focused);
      this.queue();
    });
    canvas.addEventListener("click", (event) => {
      const box = this.boxAt(event);
      if (!box) return;
      hideTip();
      this.focused = box;
      if (box.node !== this.zoomed) events.zoom(box.node);
      else if (box.filler === 0) events.out();
    });
  }

  private listenToKeys(): void {
    const { root } = this;
    root.addEventListener("focus", () => {
      if (root.matches(":focus-visible")) this.focusBox(this.focused ?? this.firstBox());
      this.queue();
    });
    root.addEventListener("blur", () => this.queue());
    root.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.follow(event.key)) return;
      hideTip();
      event.preventDefault();
    });
  }

  // Whether the key means something here.
  private follow(key: string): boolean {
    const { events } = this;
    const from = this.focused ?? this.firstBox();
    const direction = DIRECTIONS[key];
    if (direction && from) this.focusBox(this.index.step(from, direction) ?? from);
    else if (key === "Enter" && from) {
      if (from.node !== this.zoomed) events.zoom(from.node);
    } else if (key === "Escape" || key === "Backspace") {
      this.focused = null;
      events.out();
    } else if (key === "Home" && this.homeBox) this.focusBox(this.homeBox());
    else return false;
    return true;
  }

  private focusBox(box: FlameBox | null): void {
    if (!box || !this.reveal(box)) return;
    this.focused = box;
    this.events.at(box);
    this.queue();
  }
}
