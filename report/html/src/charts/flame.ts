// SPDX-License-Identifier: BSD-3-Clause
// An icicle: the outermost frames on top, callees (bottom-up: callers) below, as wide as their time.
import { type Rgb, css, mix } from "../core/colours";
import { el } from "../core/dom";
import { type NodeLook, textOn } from "./canvas_parts";
import { type FlameBox, FlameIndex, type FlameSource, layoutFlame } from "./flame_layout";
import { type Drawing, TreeChart, type TreeChartEvents } from "./tree_chart";

const ROW = 21;
const SHOWN_ANCESTORS = 3; // rows above what has just been zoomed to

const isSameBox = (a: FlameBox, b: FlameBox): boolean =>
  a.node === b.node && a.depth === b.depth && a.filler > 0 === b.filler > 0;

// Left and right end in device pixels.
const endsOf = ({ width, scale }: Drawing, box: FlameBox): [number, number] => [
  Math.round(box.begin * width * scale),
  Math.round(box.end * width * scale),
];

// A row of boxes on the canvas, in device pixels.
interface RowPlace {
  y: number;
  height: number;
  isAncestor: boolean; // of what is zoomed
}

export class FlameChart extends TreeChart {
  // As high as all rows: what is seen of it is on the canvas.
  private readonly spacer = el("div", { class: "flame-spacer" }, this.canvas);

  constructor(events: TreeChartEvents) {
    super(events, {
      className: "flame",
      shape: "icicle",
      keys: "Arrow keys move between frames, Enter zooms in, Backspace out.",
    });
    this.root.append(this.spacer);
    this.root.addEventListener("scroll", () => {
      this.hovered = null;
      this.queue();
    });
  }

  override show(source: FlameSource, zoomed: number, look: NodeLook): void {
    const moved = zoomed !== this.zoomed;
    super.show(source, zoomed, look);
    const { root } = this;
    if (moved) root.scrollTop = Math.max(0, (this.zoomDepth(source) - SHOWN_ANCESTORS) * ROW);
    if (document.activeElement === root && !this.focused) this.focused = this.firstBox();
  }

  protected override layout(): void {
    const { source, focused } = this;
    const width = this.root.clientWidth;
    if (!source || width === 0) return;
    this.boxes = layoutFlame(source, this.zoomed, 0.8 / width);
    this.index = new FlameIndex(this.boxes);
    this.laidOutFor = width;
    this.spacer.style.height = `${this.fullHeight()}px`;
    this.focused = focused ? (this.boxes.find((box) => isSameBox(box, focused)) ?? null) : null;
    this.hovered = null;
  }

  private fullHeight(): number {
    return this.index.depths * ROW + 1;
  }

  protected override draw(): void {
    const { look, source, root } = this;
    if (!look || !source) return;
    if (this.laidOutFor !== root.clientWidth) this.layout();
    const height = Math.min(root.clientHeight, this.fullHeight());
    const drawing = this.beginDrawing(root.clientWidth, height, 12);
    if (!drawing) return;
    const { context, scale, colours } = drawing;
    context.font = colours.font.replace(/^12px/, `${12 * scale}px`);
    context.textBaseline = "middle";
    this.drawRows(drawing, look, this.zoomDepth(source));
    for (const box of this.outlined()) this.drawOutline(drawing, box);
  }

  private drawRows(drawing: Drawing, look: NodeLook, zoomDepth: number): void {
    const top = this.root.scrollTop;
    const first = Math.floor(top / ROW);
    const last = Math.min(this.index.depths - 1, Math.ceil((top + drawing.height) / ROW));
    for (let depth = first; depth <= last; ++depth) {
      const y = Math.round((depth * ROW - top) * drawing.scale);
      const bottom = Math.round(((depth + 1) * ROW - top) * drawing.scale);
      const place = { y, height: bottom - y, isAncestor: depth < zoomDepth };
      for (const box of this.index.row(depth)) this.drawBox(drawing, box, place, look);
    }
  }

  private drawBox(drawing: Drawing, box: FlameBox, place: RowPlace, look: NodeLook): void {
    const { context, scale, colours, pattern, fitter } = drawing;
    const [x, end] = endsOf(drawing, box);
    const gap = end - x > 3 * scale ? Math.round(scale) : 0;
    const width = Math.max(1, end - x - gap);
    const height = place.height - Math.round(scale);
    const fill = this.fillOf(drawing, box, place, look);
    context.fillStyle = fill ? css(fill) : pattern;
    context.fillRect(x, place.y, width, height);
    if (box.filler > 0) return;
    const pad = 5 * scale;
    const text = fitter.fit(look.label(box.node), width - 2 * pad);
    if (text === "") return;
    context.fillStyle = fill ? textOn(fill, colours) : colours.text;
    context.fillText(text, x + pad, place.y + height / 2 + 0.5 * scale);
  }

  // Null: hatched.
  private fillOf({ colours }: Drawing, box: FlameBox, { isAncestor }: RowPlace, look: NodeLook): Rgb | null {
    if (box.filler > 0 || look.hatched(box.node)) return null;
    const colour = look.colour(box.node);
    if (!look.matched(box.node)) return mix(colour, colours.card, 0.78);
    return isAncestor ? mix(colour, colours.card, 0.45) : colour;
  }

  private drawOutline(drawing: Drawing, box: FlameBox): void {
    const { context, scale, colours } = drawing;
    const isFocused = box === this.focused;
    const y = Math.round((box.depth * ROW - this.root.scrollTop) * scale);
    const [x, end] = endsOf(drawing, box);
    context.strokeStyle = isFocused ? colours.focus : colours.text;
    context.lineWidth = (isFocused ? 2 : 1.25) * scale;
    const inset = context.lineWidth / 2;
    context.strokeRect(x + inset, y + inset, Math.max(2 * scale, end - x - 2 * inset), ROW * scale - 2 * inset);
  }

  protected override boxAt(event: MouseEvent): FlameBox | null {
    const box = this.canvas.getBoundingClientRect();
    const depth = Math.floor((event.clientY - box.top + this.root.scrollTop) / ROW);
    return this.index.at(depth, (event.clientX - box.left) / Math.max(1, box.width));
  }

  // What is zoomed.
  protected override firstBox(): FlameBox | null {
    return this.boxes.find((box) => box.node === this.zoomed && box.filler === 0) ?? null;
  }

  protected override homeBox(): FlameBox | null {
    return this.boxes[0] ?? null;
  }

  protected override reveal(box: FlameBox): boolean {
    const { root } = this;
    const top = box.depth * ROW;
    if (top < root.scrollTop) root.scrollTop = top;
    else if (top + ROW > root.scrollTop + root.clientHeight) root.scrollTop = top + ROW - root.clientHeight;
    return true;
  }
}
