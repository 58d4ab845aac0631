// SPDX-License-Identifier: BSD-3-Clause
// How many ranks have which value. A click on a bar, or a drag over several, selects their ranks.
import { rgb } from "../core/colours";
import { showTip } from "../core/dom";
import { count, plural } from "../core/format";
import { withAlpha } from "./colour";
import { BrushedDistribution, type Points } from "./distribution";
import { line, text } from "./drawing";
import { clamp, histogram, multiples, niceCeiling, niceStep } from "./numbers";
import type { Rect } from "./raster";
import type { Pen } from "./surface";

type Bins = NonNullable<ReturnType<typeof histogram>>;

export class HistogramChart extends BrushedDistribution {
  private bins: Bins | null = null; // null: no values

  constructor(parent: HTMLElement, points: Points, height = 220) {
    super(parent, points, height);
    this.arrange();
    this.surface.setLabel(this.label());
    this.listenToPointer();
    this.listenToKeys();
  }

  protected arrange(): void {
    this.bins = histogram(this.points.values, 28, this.points.weights ?? undefined);
  }

  private rectOf(width: number): Rect {
    return { x: 40, y: 10, width: Math.max(10, width - 48), height: this.height - 34 };
  }

  private rangeOf(bin: number): [number, number] {
    const { from, width } = this.bins!;
    return [from + bin * width, from + (bin + 1) * width];
  }

  private binOf(value: number): number {
    const { from, width, counts } = this.bins!;
    return width === 0 ? 0 : clamp(Math.floor((value - from) / width + 1e-9), 0, counts.length - 1);
  }

  protected placeAt(x: number): number {
    const rect = this.rectOf(this.surface.width);
    const bars = this.bins!.counts.length;
    return clamp(Math.floor(((x - rect.x) / rect.width) * bars), 0, bars - 1);
  }

  protected override draw(pen: Pen): void {
    const { bins, colours } = this;
    if (!bins) return;
    const rect = this.rectOf(pen.width);
    const limit = niceCeiling(Math.max(...bins.counts));
    const y = (ranks: number) => rect.y + (1 - ranks / limit) * rect.height;
    for (const ranks of multiples(0, limit, Math.max(1, niceStep(limit, 4)))) {
      line(pen, rect.x, y(ranks), rect.x + rect.width, y(ranks), colours.grid);
      text(pen, rect.x - 7, y(ranks), count(ranks), { align: "right", colour: colours.muted, font: colours.font });
    }
    this.drawBars(pen, rect, bins, y);
    this.drawAxis(pen, rect, bins);
  }

  private drawBars(pen: Pen, rect: Rect, bins: Bins, y: (ranks: number) => number): void {
    const { points, colours } = this;
    const width = rect.width / bins.counts.length;
    const chosen = new Float64Array(bins.counts.length);
    if (points.chosen)
      for (let i = 0; i < points.values.length; ++i)
        if (!Number.isNaN(points.values[i]) && points.chosen(i)) chosen[this.binOf(points.values[i])] += this.weightOf(i);
    bins.counts.forEach((ranks, bin) => {
      const x = rect.x + bin * width;
      pen.context.fillStyle = withAlpha(rgb(colours.accent), points.chosen ? 0.25 : 0.7);
      pen.context.fillRect(
        x + 0.5,
        Math.min(y(ranks), ranks > 0 ? y(0) - 1.5 : y(0)),
        Math.max(1, width - 1),
        Math.max(ranks > 0 ? 1.5 : 0, y(0) - y(ranks)),
      );
      if (chosen[bin] > 0) {
        pen.context.fillStyle = colours.accent;
        pen.context.fillRect(
          x + 0.5,
          Math.min(y(chosen[bin]), y(0) - 2),
          Math.max(1, width - 1),
          Math.max(2, y(0) - y(chosen[bin])),
        );
      }
    });
  }

  private drawAxis(pen: Pen, rect: Rect, bins: Bins): void {
    const { points, colours } = this;
    if (bins.width > 0) {
      const end = bins.from + bins.width * bins.counts.length;
      const step = niceStep(end - bins.from, Math.max(2, rect.width / 80));
      for (const value of multiples(bins.from, end, step)) {
        const x = rect.x + ((value - bins.from) / (end - bins.from)) * rect.width;
        text(pen, x, rect.y + rect.height + 12, points.format(value), {
          align: x > rect.x + rect.width - 16 ? "right" : x < rect.x + 12 ? "left" : "center",
          colour: colours.muted,
          font: colours.font,
        });
      }
    } else
      text(pen, rect.x + rect.width / 2, rect.y + rect.height + 12, `all ${points.format(bins.from)}`, {
        align: "center",
        colour: colours.muted,
        font: colours.font,
      });
  }

  protected override drawOver(pen: Pen): void {
    const { bins, drag, hovered, colours } = this;
    if (!bins) return;
    const rect = this.rectOf(pen.width);
    const width = rect.width / bins.counts.length;
    const [a, b] = drag
      ? [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)]
      : hovered !== null
        ? [hovered, hovered]
        : [0, -1];
    if (b < a) return;
    pen.context.fillStyle = withAlpha(rgb(colours.accent), 0.14);
    pen.context.fillRect(rect.x + a * width, rect.y, (b - a + 1) * width, rect.height);
  }

  protected label(): string {
    const { bins, points } = this;
    if (!bins) return "No values.";
    let most = 0;
    bins.counts.forEach((ranks, bin) => {
      if (ranks > bins.counts[most]) most = bin;
    });
    const [from, to] = this.rangeOf(most);
    return `Histogram of the values of ranks: ${plural(
      bins.counts.reduce((a, b) => a + b, 0),
      "rank",
    )}; most, ${bins.counts[most]}, have ${points.format(from)} to ${points.format(to)}.`;
  }

  protected pick(a: number, b: number): void {
    const { points } = this;
    const [from, to] = [Math.min(a, b), Math.max(a, b)];
    const indices: number[] = [];
    for (let i = 0; i < points.values.length; ++i) {
      if (Number.isNaN(points.values[i])) continue;
      const bin = this.binOf(points.values[i]);
      if (bin >= from && bin <= to) indices.push(i);
    }
    if (indices.length > 0) points.pick(indices);
  }

  protected showTipOf(bin: number, clientX: number, clientY: number): void {
    const { points } = this;
    const [from, to] = this.rangeOf(bin);
    const ranks = plural(this.bins!.counts[bin], "rank");
    showTip(`${ranks} with ${points.format(from)} to ${points.format(to)}`, clientX, clientY);
  }

  private listenToKeys(): void {
    const { root } = this.surface;
    root.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const { bins } = this;
      if (!bins) return;
      if (step) {
        this.hovered = clamp((this.hovered ?? -1) + step, 0, bins.counts.length - 1);
        const box = root.getBoundingClientRect();
        const rect = this.rectOf(this.surface.width);
        const x = rect.x + (this.hovered / bins.counts.length) * rect.width;
        this.showTipOf(this.hovered, box.left + x, box.top + rect.y);
      } else if (event.key === "Enter" && this.hovered !== null) this.pick(this.hovered, this.hovered);
      else return;
      event.preventDefault();
      this.surface.redrawOver();
    });
  }
}
