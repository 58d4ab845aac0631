// SPDX-License-Identifier: BSD-3-Clause
// The call tree as rings: what is zoomed in the middle, callees (bottom-up: callers) around it.
import { type Rgb, css, mix } from "../core/colours";
import { type NodeLook, textOn } from "./canvas_parts";
import { type FlameBox, FlameIndex, layoutFlame } from "./flame_layout";
import { type Drawing, TreeChart, type TreeChartEvents } from "./tree_chart";

const RINGS = 12; // at most
const TURN = 2 * Math.PI;

// Letter by letter along the arc around `angle` (0: up); upright in the lower half as well.
function drawAlongArc(context: CanvasRenderingContext2D, text: string, angle: number, radius: number): void {
  const below = angle > Math.PI / 2 && angle < 1.5 * Math.PI;
  const sign = below ? -1 : 1;
  const letters = [...text];
  const widths = letters.map((letter) => context.measureText(letter).width);
  let at = angle - (sign * widths.reduce((a, b) => a + b, 0)) / (2 * radius);
  letters.forEach((letter, i) => {
    const half = (sign * widths[i]) / (2 * radius);
    at += half;
    context.save();
    context.rotate(at);
    context.translate(0, -radius);
    if (below) context.rotate(Math.PI);
    context.fillText(letter, 0, 0);
    context.restore();
    at += half;
  });
}

export class SunburstChart extends TreeChart {
  private base = 0; // depth of what is zoomed
  private rings = 1;

  constructor(events: TreeChartEvents) {
    super(events, {
      className: "sunburst",
      shape: "sunburst",
      keys: "Left and right move along a ring, up and down between rings, Enter zooms in, Backspace out.",
    });
    this.root.append(this.canvas);
  }

  private side(): number {
    return Math.min(this.root.clientWidth, this.root.clientHeight);
  }

  // Radii: the middle is as wide as one ring and a half.
  private thickness(): number {
    return (this.side() / 2 - 4) / (this.rings + 1.5);
  }
  private inner(depth: number): number {
    return depth === this.base ? 0 : (depth - this.base + 0.5) * this.thickness();
  }
  private outer(depth: number): number {
    return (depth - this.base + 1.5) * this.thickness();
  }

  protected override layout(): void {
    const { source, focused } = this;
    if (!source) return;
    this.laidOutFor = this.side();
    const around = Math.max(1, this.laidOutFor * Math.PI);
    const base = this.zoomDepth(source);
    const boxes = layoutFlame(source, this.zoomed, 1 / around, base + 1 + RINGS).filter((box) => box.depth >= base);
    // As many rings fill the circle as have something to see; thin spikes end at its edge.
    const wide = boxes.filter((box) => box.end - box.begin >= 0.01);
    const rings = Math.max(3, wide.reduce((deepest, box) => Math.max(deepest, box.depth), base) - base + 1);
    this.base = base;
    this.rings = rings;
    this.boxes = boxes.filter((box) => box.depth - base <= rings);
    this.index = new FlameIndex(this.boxes);
    this.focused = focused
      ? (this.boxes.find((box) => box.node === focused.node && box.filler === focused.filler) ?? null)
      : null;
    this.hovered = null;
  }

  protected override draw(): void {
    const { source, look } = this;
    if (!source || !look) return;
    const side = this.side();
    const drawing = this.beginDrawing(side, side, 11);
    if (!drawing) return;
    if (this.laidOutFor !== side) this.layout();
    const { context, scale, colours } = drawing;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.translate(side / 2, side / 2);
    context.font = colours.font;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineWidth = 1;
    context.strokeStyle = css(colours.card);
    for (const box of this.boxes) this.drawBox(drawing, box, look);
    for (const box of this.outlined()) this.drawOutline(drawing, box);
  }

  private drawBox(drawing: Drawing, box: FlameBox, look: NodeLook): void {
    const { context, pattern } = drawing;
    const fill = this.fillOf(drawing, box, look);
    this.trace(context, box);
    context.fillStyle = fill ? css(fill) : pattern;
    context.fill();
    if (box.depth > this.base && (box.end - box.begin) * TURN * this.outer(box.depth) > 2) context.stroke();
    if (box.filler > 0) return;
    if (box.depth === this.base) this.drawMiddleLabel(drawing, look.label(box.node));
    else this.drawLabel(drawing, box, look.label(box.node), fill);
  }

  // Null: hatched.
  private fillOf({ colours }: Drawing, box: FlameBox, look: NodeLook): Rgb | null {
    if (box.filler > 0 || look.hatched(box.node)) return null;
    if (box.depth === this.base) return colours.card;
    const colour = look.colour(box.node);
    return look.matched(box.node) ? colour : mix(colour, colours.card, 0.78);
  }

  private trace(context: CanvasRenderingContext2D, box: FlameBox): void {
    const from = box.begin * TURN - Math.PI / 2;
    const to = box.end * TURN - Math.PI / 2;
    context.beginPath();
    context.arc(0, 0, this.outer(box.depth), from, to);
    if (box.depth > this.base) context.arc(0, 0, this.inner(box.depth), to, from, true);
    context.closePath();
  }

  private drawMiddleLabel({ context, colours, fitter }: Drawing, label: string): void {
    const text = fitter.fit(label, 2 * this.outer(this.base) - 6);
    context.fillStyle = colours.text;
    context.fillText(text, 0, 0);
  }

  private drawLabel({ context, colours, fitter }: Drawing, box: FlameBox, label: string, fill: Rgb | null): void {
    const [inner, outer] = [this.inner(box.depth), this.outer(box.depth)];
    if (outer - inner < 14) return;
    const middle = (inner + outer) / 2;
    const text = fitter.fit(label, (box.end - box.begin) * TURN * middle - 10);
    if (text === "") return;
    context.fillStyle = fill ? textOn(fill, colours) : colours.text;
    drawAlongArc(context, text, ((box.begin + box.end) / 2) * TURN, middle);
  }

  private drawOutline({ context, colours }: Drawing, box: FlameBox): void {
    const isFocused = box === this.focused;
    this.trace(context, box);
    context.lineWidth = isFocused ? 2.5 : 1.5;
    context.strokeStyle = isFocused ? colours.focus : colours.text;
    context.stroke();
  }

  protected override boxAt(event: MouseEvent): FlameBox | null {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left - box.width / 2;
    const y = event.clientY - box.top - box.height / 2;
    const radius = Math.hypot(x, y);
    const { base } = this;
    const ring = radius < this.outer(base) ? base : base + Math.floor(radius / this.thickness() - 0.5);
    const turn = (Math.atan2(y, x) + Math.PI / 2 + TURN) % TURN;
    return this.index.at(ring, turn / TURN);
  }

  protected override firstBox(): FlameBox | null {
    return this.boxes[0] ?? null;
  }

  protected override reveal(box: FlameBox): boolean {
    return box.depth >= this.base;
  }
}
