// SPDX-License-Identifier: BSD-3-Clause
// The map of the timeline: a row for each rank or range of ranks, coloured by the category with most time or by one series.
import { blend, packed, shades, withAlpha } from "../charts/colour";
import { drawTimeAxis, frame, line, text } from "../charts/drawing";
import { clamp } from "../charts/numbers";
import { drawRaster, type Rect, type Shade } from "../charts/raster";
import { kNoNode, nodeSpans, rowTicks } from "../charts/rows";
import { type Pen, sharp } from "../charts/surface";
import { canvasCategory, categoryColour, categoryRgb, CATEGORY_HELP, rgb, sequentialTable } from "../core/colours";
import { type Child, el } from "../core/dom";
import { percent, plural, printable, timeRange } from "../core/format";
import { CATEGORIES } from "../core/model";
import type { Content } from "./content";
import { drawTimeOver } from "./overlay";
import type { Pointer } from "./pointer";
import { limitText, type Series } from "./series";
import { Strip } from "./strip";
import { kMargin, type View } from "./view";

const kShadeSteps = 48;

export class HeatMap extends Strip {
  constructor(parent: HTMLElement, content: Content, view: View, pointer: Pointer) {
    super(parent, content, view, pointer, { height: view.fitMapHeight(), interactive: true });
  }

  override update(): void {
    super.update();
    this.surface.setHeight(this.view.fitMapHeight());
    this.surface.setLabel(this.label());
  }

  // What the colours mean.
  legend(): Child {
    const { measure } = this.view;
    if (!measure)
      return this.content.categories.map((series) =>
        el(
          "span",
          { class: "key", tip: `${CATEGORY_HELP[series.category!]} The stronger the colour, the larger its share.` },
          el("i", { style: { background: categoryColour(series.category!) } }),
          series.title,
        ),
      );
    const stops = this.scaleColours(measure);
    const gradient = Array.from({ length: 9 }, (_, i) =>
      withAlpha(stops[Math.round((i / 8) * (stops.length - 1))], 1),
    ).join(", ");
    return el(
      "span",
      { class: "scale" },
      "0",
      el("i", { style: { background: `linear-gradient(to right, ${gradient})` } }),
      limitText(this.view.limitOf(measure), measure.unit),
    );
  }

  private label(): string {
    const [t0, t1] = this.view.time;
    const by = this.view.measure ? this.view.measure.title : "the category with most time";
    const totals = this.content.categories
      .map((series) => {
        return { title: series.title, share: this.content.meanOf(series) || 0 };
      })
      .sort((a, b) => b.share - a.share);
    const most = totals
      .slice(0, 3)
      .map((part) => `${part.title} ${percent(part.share, 0)}`)
      .join(", ");
    return `Heat map of ${plural(this.content.model.rankCount, "rank")} in ${plural(this.content.rows.first.length, "row")} from ${timeRange([t0, t1])} by ${by}. ${most}. Arrow keys move, Shift and arrow keys select, Enter zooms in, Escape clears.`;
  }

  private scaleColours(series: Series): readonly (readonly [number, number, number])[] {
    if (!series.category) return sequentialTable();
    const ground = rgb(this.colours.surface);
    const colour = rgb(canvasCategory(series.category));
    const end = series.category === "idle" ? blend(colour, rgb(this.colours.text), 0.35) : colour;
    return shades(blend(ground, end, 0.04), end, 64);
  }

  // Calls `visit` for the rows of a pixel: where there are outliers among several rows, for these alone, so that they
  // are seen.
  private eachRow(firstRow: number, endRow: number, visit: (row: number) => void): void {
    const { outliers } = this.content;
    let only = false;
    if (endRow - firstRow > 1) for (let row = firstRow; row < endRow; ++row) if (outliers[row]) only = true;
    for (let row = firstRow; row < endRow; ++row) if (!only || outliers[row]) visit(row);
  }

  // By the values of one series.
  private shadeByValue(measure: Series): Shade {
    const { order, axis } = this.content;
    const colours = packed(this.scaleColours(measure));
    const scale = ((colours.length - 1) * measure.scale) / this.view.limitOf(measure);
    return (firstRow, endRow, firstColumn, endColumn) => {
      let sum = 0;
      let cells = 0;
      let high = 0;
      this.eachRow(firstRow, endRow, (row) => {
        const at = order[row] * axis.bins;
        for (let c = firstColumn; c < endColumn; ++c) {
          const value = measure.rows[at + c];
          if (!(value >= 0)) continue;
          sum += value;
          if (value > high) high = value;
          ++cells;
        }
      });
      if (cells === 0) return 0;
      const value = measure.unit === "bytes" ? high : sum / cells;
      return value > 0 ? colours[clamp(Math.round(value * scale), 0, colours.length - 1)] : 0;
    };
  }

  // By the category with most time, the stronger the larger its share.
  private shadeByCategory(): Shade {
    const { order, axis } = this.content;
    const ground = rgb(this.colours.surface);
    const hues = categoryRgb();
    const parts = this.content.categories.map((series) => series.rows);
    const tables = this.content.categories.map((series) => {
      const hue = hues[CATEGORIES.indexOf(series.category!)];
      return packed(shades(blend(ground, hue, 0.28), hue, kShadeSteps));
    });
    const sums = new Float64Array(parts.length);
    const enough = 0.02;
    const least = 1 / Math.max(3, parts.length);
    return (firstRow, endRow, firstColumn, endColumn) => {
      sums.fill(0);
      let cells = 0;
      this.eachRow(firstRow, endRow, (row) => {
        const at = order[row] * axis.bins;
        for (let c = firstColumn; c < endColumn; ++c) {
          ++cells;
          for (let p = 0; p < parts.length; ++p) {
            const value = parts[p][at + c];
            if (value > 0) sums[p] += value;
          }
        }
      });
      let total = 0;
      let index = 0;
      for (let p = 0; p < sums.length; ++p) {
        total += sums[p];
        if (sums[p] > sums[index]) index = p;
      }
      if (total < enough * cells) return 0;
      const strength = clamp((sums[index] / total - least) / (1 - least), 0, 1);
      return tables[index][Math.round(strength * (kShadeSteps - 1))];
    };
  }

  protected override draw(pen: Pen): void {
    const { colours } = this;
    const rect = this.view.mapRect(pen.width);
    const { measure } = this.view;
    const [t0, t1] = this.view.time;
    const [r0, r1] = this.view.rowSpan;
    pen.context.fillStyle = colours.empty;
    pen.context.fillRect(rect.x, rect.y, rect.width, rect.height);
    const column = (time: number) => (time - this.content.axis.begin_s) / this.content.axis.bin_s;
    drawRaster(
      pen,
      rect,
      this.content.rows.first.length,
      this.content.axis.bins,
      { columns: [column(t0), column(t1)], rows: [r0, r1] },
      measure ? this.shadeByValue(measure) : this.shadeByCategory(),
    );
    this.drawNodes(pen, rect);
    frame(pen, rect, colours.faint);
    this.drawRanks(pen, rect);
    text(pen, 0, rect.y + 6, "Rank", { colour: colours.muted, font: colours.font });
    drawTimeAxis(pen, rect, [t0, t1], colours);
  }

  // Lines between the nodes, and their names on the right.
  private drawNodes(pen: Pen, rect: Rect): void {
    const { colours } = this;
    const [r0, r1] = this.view.rowSpan;
    const y = (row: number) => rect.y + ((row - r0) / (r1 - r0)) * rect.height;
    const spans = nodeSpans(this.content.rows).filter((span) => span.end > r0 && span.begin < r1);
    const nodesFit = spans.length <= rect.height / 10;
    if (nodesFit)
      for (let i = 1; i < spans.length; ++i)
        if (spans[i].node !== kNoNode && spans[i - 1].node !== kNoNode)
          line(
            pen,
            rect.x,
            y(spans[i].begin),
            rect.x + rect.width,
            y(spans[i].begin),
            withAlpha(rgb(colours.surface), 0.75),
          );
    let labelled = -Infinity;
    for (const span of spans) {
      const top = Math.max(rect.y, y(span.begin));
      const bottom = Math.min(rect.y + rect.height, y(span.end));
      const middle = (top + bottom) / 2;
      if (span.node === kNoNode || middle - labelled < 14) continue;
      labelled = middle;
      text(pen, rect.x + rect.width + 8, middle, printable(this.content.model.nodes[span.node]?.name ?? ""), {
        colour: colours.muted,
        font: colours.font,
        most: kMargin - 12,
      });
      if (bottom - top > 6 && nodesFit)
        line(pen, rect.x + rect.width + 3, top + 1, rect.x + rect.width + 3, bottom - 1, colours.faint);
    }
  }

  // Ranks on the left: outliers by triangles, and by number where there is room; round numbers in between.
  private drawRanks(pen: Pen, rect: Rect): void {
    const { colours } = this;
    const [r0, r1] = this.view.rowSpan;
    const y = (row: number) => rect.y + ((row - r0) / (r1 - r0)) * rect.height;
    const rowHeight = rect.height / (r1 - r0);
    pen.context.fillStyle = colours.accent;
    const named: number[] = [];
    for (let row = Math.floor(r0); row < r1; ++row) {
      if (!this.content.outliers[row]) continue;
      const middle = y(row + 0.5);
      pen.context.fillStyle = colours.accent;
      pen.context.beginPath();
      pen.context.moveTo(rect.x - 6, middle - 3);
      pen.context.lineTo(rect.x - 1, middle);
      pen.context.lineTo(rect.x - 6, middle + 3);
      pen.context.fill();
      if (named.length > 0 && middle - named[named.length - 1] < 13) continue;
      named.push(middle);
      text(pen, rect.x - 9, middle, String(this.content.rows.first[row]), {
        align: "right",
        colour: colours.accent,
        font: colours.font,
        weight: 500,
      });
    }
    for (const tick of rowTicks(
      this.content.rows,
      this.content.outliers,
      r0,
      r1,
      Math.max(2, rect.height / (rowHeight >= 14 ? rowHeight : 26)),
    )) {
      const at = y(tick.row);
      if (named.some((other) => Math.abs(other - at) < 13)) continue;
      line(pen, rect.x - 5, at, rect.x - 1, at, colours.faint);
      text(pen, rect.x - 9, at, String(tick.rank), { align: "right", colour: colours.muted, font: colours.font });
    }
  }

  protected override drawOver(pen: Pen): void {
    const rect = this.view.mapRect(pen.width);
    const { context } = pen;
    const [r0, r1] = this.view.rowSpan;
    const y = (row: number) => rect.y + ((row - r0) / (r1 - r0)) * rect.height;
    const drag = this.pointer.drag;
    const veil = withAlpha(rgb(this.colours.surface), 0.66);
    if (this.content.chosen) {
      context.fillStyle = veil;
      const chosen = new Set(this.content.chosen);
      let begin = -1;
      for (let row = Math.floor(r0); row <= Math.ceil(r1); ++row) {
        const hidden = row < Math.ceil(r1) && !chosen.has(this.content.order[row]);
        if (hidden && begin < 0) begin = row;
        if (!hidden && begin >= 0) {
          const top = Math.max(rect.y, y(begin));
          context.fillRect(rect.x, top, rect.width, Math.min(rect.y + rect.height, y(row)) - top);
          begin = -1;
        }
      }
    }
    drawTimeOver(pen, rect, this.view, this.pointer, this.colours);
    const move = drag && drag.surface === this.surface ? this.pointer.dragged(pen.width) : null;
    if (move) {
      const [a, b] = move.rows ?? [r0, r1];
      const [from, to] = move.time ?? this.view.time;
      const x0 = this.view.x(from, rect);
      context.fillStyle = withAlpha(rgb(this.colours.accent), 0.16);
      context.fillRect(x0, y(a), this.view.x(to, rect) - x0, y(b) - y(a));
      context.strokeStyle = this.colours.accent;
      context.lineWidth = 1;
      context.strokeRect(sharp(x0, pen.ratio), sharp(y(a), pen.ratio), this.view.x(to, rect) - x0, y(b) - y(a));
    }
    const cell =
      this.pointer.cursor ??
      (this.pointer.hover && this.pointer.hover.row !== null ? { row: this.pointer.hover.row, bin: this.content.binAt(this.pointer.hover.time) } : null);
    if (cell && !drag) {
      const x0 = clamp(this.view.x(this.content.axis.begin_s + cell.bin * this.content.axis.bin_s, rect), rect.x, rect.x + rect.width);
      const x1 = clamp(this.view.x(this.content.axis.begin_s + (cell.bin + 1) * this.content.axis.bin_s, rect), rect.x, rect.x + rect.width);
      const top = clamp(y(cell.row), rect.y, rect.y + rect.height);
      const height = Math.max(2, clamp(y(cell.row + 1), rect.y, rect.y + rect.height) - top);
      context.strokeStyle = this.colours.text;
      context.lineWidth = this.pointer.cursor ? 2 : 1;
      context.strokeRect(x0, top, Math.max(2, x1 - x0), height);
    }
  }
}
