// SPDX-License-Identifier: BSD-3-Clause
// The sizes of messages: how many there were of each power of two, by MPI function.
import { CanvasChart } from "../charts/canvas_chart";
import { withAlpha } from "../charts/colour";
import { line, text } from "../charts/drawing";
import { clamp, multiples, niceCeiling, niceStep } from "../charts/numbers";
import type { Rect } from "../charts/raster";
import type { Pen } from "../charts/surface";
import { nameColour, rgb } from "../core/colours";
import { el, hideTip, replace, showTip } from "../core/dom";
import { binBytes, count, plural, printable } from "../core/format";
import type { Part } from "./parts";

type SizeRow = { op: string; le_bytes: number; count: number }; // messages of at most so many bytes

const kLeft = 46;
const kRight = 8;
const kWidestBar = 46;
const kLabelWidth = 54;

// The power of two that a size is up to; -1: nothing was sent.
const powerOf = (bound_bytes: number): number => (bound_bytes <= 0 ? -1 : Math.round(Math.log2(bound_bytes)));

// Counts by bin: a bin for each power of two, those without messages included.
class SizeBins {
  readonly ops: string[]; // that with most messages first
  readonly size: number;
  readonly counts: Float64Array[]; // by operation and bin
  readonly totals: Float64Array;
  private readonly first: number; // power of the first bin
  private readonly bounds_bytes: number[];

  constructor(rows: readonly SizeRow[]) {
    const sums = new Map<string, number>();
    for (const row of rows) sums.set(row.op, (sums.get(row.op) ?? 0) + row.count);
    this.ops = [...sums.keys()].sort((a, b) => sums.get(b)! - sums.get(a)!);
    this.bounds_bytes = [...new Set(rows.map((row) => row.le_bytes))].sort((a, b) => a - b);
    this.first = powerOf(this.bounds_bytes[0]);
    this.size = powerOf(this.bounds_bytes[this.bounds_bytes.length - 1]) - this.first + 1;
    this.counts = this.ops.map(() => new Float64Array(this.size));
    this.totals = new Float64Array(this.size);
    for (const row of rows) {
      const bin = powerOf(row.le_bytes) - this.first;
      this.counts[this.ops.indexOf(row.op)][bin] += row.count;
      this.totals[bin] += row.count;
    }
  }

  boundText(bin: number): string {
    return bin + this.first < 0 ? "0 B" : binBytes(2 ** (bin + this.first));
  }

  rangeText(bin: number): string {
    return bin + this.first <= 0
      ? `up to ${this.boundText(bin)}`
      : `more than ${binBytes(2 ** (bin + this.first - 1))}, up to ${this.boundText(bin)}`;
  }

  label(): string {
    const messages = plural(
      this.totals.reduce((a, b) => a + b, 0),
      "message",
    );
    const smallest = this.bounds_bytes
      .slice(0, 6)
      .map((bound) => `up to ${binBytes(bound)} ${count(this.totals[powerOf(bound) - this.first])}`);
    return `Messages by size: ${messages}. ${smallest.join(", ")}.`;
  }
}

class SizesChart extends CanvasChart {
  private hovered: number | null = null; // bin

  constructor(
    parent: HTMLElement,
    private readonly bins: SizeBins,
  ) {
    super(parent, { height: 206, label: bins.label(), interactive: true });
    this.listen();
  }

  private rectOf(width: number): Rect {
    return { x: kLeft, y: 8, width: Math.max(10, width - kLeft - kRight), height: 172 };
  }

  protected override draw(pen: Pen): void {
    const rect = this.rectOf(pen.width);
    const limit = niceCeiling(Math.max(...this.bins.totals));
    const y = (value: number) => rect.y + (1 - value / limit) * rect.height;
    this.drawGrid(pen, rect, limit, y);
    const width = rect.width / this.bins.size;
    const labelled = Math.ceil(kLabelWidth / width); // every so many bins
    for (let bin = 0; bin < this.bins.size; ++bin) {
      const middle = rect.x + (bin + 0.5) * width;
      this.drawBar(pen, bin, middle, Math.min(width - 2, kWidestBar), y);
      if ((this.bins.size - 1 - bin) % labelled === 0) this.drawBound(pen, bin, middle, rect);
    }
  }

  private drawGrid(pen: Pen, rect: Rect, limit: number, y: (value: number) => number): void {
    const { colours } = this;
    for (const value of multiples(0, limit, niceStep(limit, 4))) {
      line(pen, rect.x, y(value), rect.x + rect.width, y(value), colours.grid);
      text(pen, rect.x - 7, y(value), count(value), { align: "right", colour: colours.muted, font: colours.font });
    }
  }

  private drawBar(pen: Pen, bin: number, middle: number, width: number, y: (value: number) => number): void {
    const { counts, ops } = this.bins;
    let sum = 0;
    ops.forEach((op, i) => {
      const value = counts[i][bin];
      if (value === 0) return;
      pen.context.fillStyle = nameColour(op);
      const top = y(sum + value);
      pen.context.fillRect(middle - width / 2, Math.min(top, y(sum) - 1.5), width, Math.max(1.5, y(sum) - top));
      sum += value;
    });
  }

  private drawBound(pen: Pen, bin: number, middle: number, rect: Rect): void {
    text(pen, middle, rect.y + rect.height + 12, this.bins.boundText(bin), {
      align: "center",
      colour: this.colours.muted,
      font: this.colours.font,
    });
  }

  protected override drawOver(pen: Pen): void {
    if (this.hovered === null) return;
    const rect = this.rectOf(pen.width);
    const { size } = this.bins;
    pen.context.fillStyle = withAlpha(rgb(this.colours.text), 0.06);
    pen.context.fillRect(rect.x + (this.hovered * rect.width) / size, rect.y, rect.width / size, rect.height);
  }

  private listen(): void {
    const { bins, surface } = this;
    const { root } = surface;
    root.addEventListener("pointermove", (event) => {
      const rect = this.rectOf(surface.width);
      const bin = Math.floor(((surface.at(event)[0] - rect.x) / rect.width) * bins.size);
      this.hover(bin, event.clientX, event.clientY);
    });
    root.addEventListener("pointerleave", () => {
      this.hovered = null;
      hideTip();
      surface.redrawOver();
    });
    root.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const bin = clamp((this.hovered ?? -1) + step, 0, bins.size - 1);
      const box = root.getBoundingClientRect();
      const x = box.left + kLeft + ((bin + 0.5) * (surface.width - kLeft - kRight)) / bins.size;
      this.hover(bin, x, box.top + 20);
    });
  }

  // The tip is at a point of the window.
  private hover(bin: number, x: number, y: number): void {
    const hovered = clamp(bin, 0, this.bins.size - 1);
    this.hovered = hovered;
    showTip(() => this.tip(hovered), x, y);
    this.surface.redrawOver();
  }

  private tip(bin: number): HTMLElement {
    const { counts, ops } = this.bins;
    const parts = ops.map((op, i) => ({ op, value: counts[i][bin] })).filter((part) => part.value > 0);
    return el(
      "div",
      { class: "chart-tip" },
      el("b", null, this.bins.rangeText(bin)),
      parts.length === 0
        ? el("div", null, "no messages")
        : el(
            "dl",
            null,
            parts.map(({ op, value }) => [
              el("dt", null, el("i", { style: { background: nameColour(op) } }), printable(op)),
              el("dd", null, count(value)),
            ]),
          ),
    );
  }
}

export class SizesPart implements Part {
  private readonly bins: SizeBins;
  private readonly chart: SizesChart;
  private readonly legend = el("div", { class: "chart-legend spaced" });

  constructor(parent: HTMLElement, sizes: readonly SizeRow[]) {
    this.bins = new SizeBins(sizes);
    this.chart = new SizesChart(parent, this.bins);
    parent.append(this.legend);
  }

  update(): void {
    replace(
      this.legend,
      this.bins.ops.map((op) =>
        el("span", { class: "key" }, el("i", { style: { background: nameColour(op) } }), printable(op)),
      ),
    );
    this.chart.surface.redraw();
  }

  destroy(): void {
    this.chart.surface.destroy();
  }
}
