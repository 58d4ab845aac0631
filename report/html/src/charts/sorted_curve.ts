// SPDX-License-Identifier: BSD-3-Clause
// Values by ascending rank of the value; the largest are named. Dragging selects a stretch of it.
import { rgb } from "../core/colours";
import { showTip } from "../core/dom";
import { count, plural } from "../core/format";
import { withAlpha } from "./colour";
import { BrushedDistribution, type Points } from "./distribution";
import { line, text } from "./drawing";
import { ascending, clamp, multiples, niceCeiling, niceStep, thinned } from "./numbers";
import type { Rect } from "./raster";
import type { Pen } from "./surface";

// Where a number of ranks and a value are on the canvas.
interface Axes {
  rect: Rect;
  x(ranks: number): number;
  y(value: number): number;
}

export class SortedCurve extends BrushedDistribution {
  private order: ReturnType<typeof ascending> = ascending([]); // indices of points by ascending value
  private upTo = new Float64Array(1); // ranks before each place of it
  private anchor = -1; // where the keyboard's selection began

  constructor(parent: HTMLElement, points: Points, height = 220) {
    super(parent, points, height);
    this.arrange();
    this.surface.setLabel(this.label());
    this.listenToPointer();
    this.listenToKeys();
  }

  protected arrange(): void {
    this.order = ascending(this.points.values);
    this.upTo = new Float64Array(this.order.length + 1);
    for (let i = 0; i < this.order.length; ++i) this.upTo[i + 1] = this.upTo[i] + this.weightOf(this.order[i]);
  }

  private rectOf(width: number): Rect {
    return { x: 54, y: 10, width: Math.max(10, width - 54 - 104), height: this.height - 34 };
  }

  protected placeAt(x: number): number {
    const rect = this.rectOf(this.surface.width);
    const at = clamp((x - rect.x) / rect.width, 0, 1) * this.upTo[this.order.length];
    let low = 0;
    let high = this.order.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.upTo[middle + 1] > at) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  protected override draw(pen: Pen): void {
    if (this.order.length === 0) return;
    const { points, order, upTo, colours } = this;
    const rect = this.rectOf(pen.width);
    const total = upTo[order.length];
    const limit = niceCeiling(points.values[order[order.length - 1]]);
    const axes: Axes = {
      rect,
      x: (ranks) => rect.x + (ranks / total) * rect.width,
      y: (value) => rect.y + (1 - value / limit) * rect.height,
    };
    for (const value of multiples(0, limit, niceStep(limit, 4))) {
      line(pen, rect.x, axes.y(value), rect.x + rect.width, axes.y(value), colours.grid);
      text(pen, rect.x - 8, axes.y(value), points.format(value), {
        align: "right",
        colour: colours.muted,
        font: colours.font,
      });
    }
    this.drawCurve(pen, axes);
    this.drawMean(pen, axes);
    this.drawSlowest(pen, axes);
    text(pen, rect.x, rect.y + rect.height + 12, "fastest", { colour: colours.muted, font: colours.font });
    text(pen, rect.x + rect.width, rect.y + rect.height + 12, "slowest", {
      align: "right",
      colour: colours.muted,
      font: colours.font,
    });
    text(pen, rect.x + rect.width / 2, rect.y + rect.height + 12, plural(total, "rank"), {
      align: "center",
      colour: colours.muted,
      font: colours.font,
    });
  }

  // The area below it, and the chosen ranks; as steps where points are few.
  private drawCurve(pen: Pen, { rect, x, y }: Axes): void {
    const { points, order, upTo, colours } = this;
    const { context } = pen;
    context.beginPath();
    context.moveTo(rect.x, y(0));
    const few = order.length <= 400;
    for (const i of thinned(order.length, 800, (k) => points.values[order[k]])) {
      const top = y(points.values[order[i]]);
      if (few) context.lineTo(x(upTo[i]), top);
      context.lineTo(x(upTo[i + 1]), top);
    }
    context.lineTo(rect.x + rect.width, y(0));
    context.closePath();
    context.fillStyle = withAlpha(rgb(colours.accent), points.chosen ? 0.12 : 0.22);
    context.fill();
    if (points.chosen) {
      context.fillStyle = withAlpha(rgb(colours.accent), 0.55);
      for (let i = 0; i < order.length; ++i) {
        if (!points.chosen(order[i])) continue;
        const top = y(points.values[order[i]]);
        context.fillRect(x(upTo[i]), top, Math.max(1, x(upTo[i + 1]) - x(upTo[i])), y(0) - top);
      }
    }
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    for (const i of thinned(order.length, 800, (k) => points.values[order[k]])) {
      const top = y(points.values[order[i]]);
      if (few) context.lineTo(x(upTo[i]), top);
      context.lineTo(x(upTo[i + 1]), top);
    }
    context.stroke();
  }

  private drawMean(pen: Pen, { rect, y }: Axes): void {
    const { points, order, upTo, colours } = this;
    let sum = 0;
    for (const index of order) sum += points.values[index] * this.weightOf(index);
    const mean = sum / upTo[order.length];
    pen.context.setLineDash([4, 3]);
    line(pen, rect.x, y(mean), rect.x + rect.width, y(mean), colours.muted);
    pen.context.setLineDash([]);
    text(pen, rect.x + 4, y(mean) + (y(mean) < rect.y + 16 ? 9 : -8), `mean ${points.format(mean)}`, {
      colour: colours.muted,
      font: colours.font,
    });
  }

  // The slowest by name, one below the other.
  private drawSlowest(pen: Pen, { rect, x, y }: Axes): void {
    const { points, order, upTo, colours } = this;
    let last = -Infinity;
    for (let i = order.length - 1; i >= Math.max(0, order.length - 5); --i) {
      const top = y(points.values[order[i]]);
      const at = Math.max(top, last + 13);
      if (at > rect.y + rect.height) break;
      last = at;
      const right = rect.x + rect.width;
      line(pen, x((upTo[i] + upTo[i + 1]) / 2), top, right + 4, at, withAlpha(rgb(colours.muted), 0.4));
      text(pen, right + 7, at, points.name(order[i]), {
        colour: i === order.length - 1 ? colours.text : colours.muted,
        font: colours.font,
        weight: i === order.length - 1 ? 600 : 400,
        most: 96,
      });
    }
  }

  protected override drawOver(pen: Pen): void {
    if (this.order.length === 0) return;
    const { colours, upTo, drag, hovered } = this;
    const rect = this.rectOf(pen.width);
    const x = (ranks: number) => rect.x + (ranks / upTo[this.order.length]) * rect.width;
    if (drag) {
      const [a, b] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
      pen.context.fillStyle = withAlpha(rgb(colours.accent), 0.2);
      pen.context.fillRect(x(upTo[a]), rect.y, x(upTo[b + 1]) - x(upTo[a]), rect.height);
    } else if (hovered !== null)
      line(
        pen,
        x((upTo[hovered] + upTo[hovered + 1]) / 2),
        rect.y,
        x((upTo[hovered] + upTo[hovered + 1]) / 2),
        rect.y + rect.height,
        colours.muted,
      );
  }

  protected label(): string {
    const { points, order, upTo } = this;
    if (order.length === 0) return "No values.";
    const slowest = Array.from({ length: Math.min(3, order.length) }, (_, i) => order[order.length - 1 - i]);
    return `Values of ${plural(upTo[order.length], "rank")} in ascending order, from ${points.format(points.values[order[0]])} to ${points.format(points.values[slowest[0]])}. Largest: ${slowest.map((i) => `${points.name(i)} ${points.format(points.values[i])}`).join(", ")}.`;
  }

  protected showTipOf(place: number, clientX: number, clientY: number): void {
    const { points, order, upTo } = this;
    const index = order[place];
    const slower =
      place + 1 === order.length ? "the slowest" : `slower than ${count(upTo[place])} of ${count(upTo[order.length])}`;
    showTip(`${points.name(index)}: ${points.format(points.values[index])}, ${slower}`, clientX, clientY);
  }

  protected pick(from: number, to: number): void {
    this.points.pick(Array.from(this.order.slice(Math.min(from, to), Math.max(from, to) + 1)));
  }

  private listenToKeys(): void {
    const { root } = this.surface;
    root.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      if (this.order.length === 0) return;
      if (step !== undefined) {
        const from = this.hovered ?? this.order.length - 1;
        const next = clamp(from + step, 0, this.order.length - 1);
        if (event.shiftKey && this.anchor < 0) this.anchor = from;
        this.hovered = next;
        if (event.shiftKey) this.pick(this.anchor, next);
        else this.anchor = -1;
        const box = root.getBoundingClientRect();
        const rect = this.rectOf(this.surface.width);
        const x = rect.x + (this.upTo[next] / this.upTo[this.order.length]) * rect.width;
        this.showTipOf(next, box.left + x, box.top + rect.y);
      } else if (event.key === "Enter" && this.hovered !== null) this.pick(this.hovered, this.hovered);
      else return;
      event.preventDefault();
      this.surface.redrawOver();
    });
  }
}
