// SPDX-License-Identifier: BSD-3-Clause
// Draws the matrix: sources down, destinations across. A drag zooms in, a click selects a pair.
import { CanvasChart } from "../charts/canvas_chart";
import { packed, withAlpha } from "../charts/colour";
import { frame, ink, line, text } from "../charts/drawing";
import { partnersOf } from "../charts/matrix";
import { clamp, logPosition, multiples, niceStep, positiveExtent, type Span } from "../charts/numbers";
import { drawRaster, type Rect } from "../charts/raster";
import type { Pen } from "../charts/surface";
import { rgb, sequentialTable } from "../core/colours";
import { type Child, el, hideTip, replace, showTip } from "../core/dom";
import { bytes, plural } from "../core/format";
import type { Selection } from "../core/selection";
import type { MatrixContent } from "./matrix_content";

export class MatrixChart extends CanvasChart {
  private readonly announcement = el("p", { class: "visually-hidden", "aria-live": "polite" });
  private drag: { x0: number; y0: number; x: number; y: number } | null = null;
  private hover: [number, number] | null = null; // source, destination
  private cursor: [number, number] | null = null;
  private before: { at: number; selection: Selection } | null = null; // the first click of a double click

  constructor(
    parent: HTMLElement,
    private readonly content: MatrixContent,
  ) {
    super(parent, { height: 560, interactive: true });
    parent.append(this.announcement);
    this.listen();
  }

  update(): void {
    this.colours = ink();
    const width = this.surface.root.clientWidth || 600;
    const [[r0, r1]] = this.content.view;
    this.surface.setHeight(
      Math.round(clamp(Math.min(width - 30, window.innerHeight * 0.72, (r1 - r0) * 64 + 48), 180, 640)),
    );
  }

  redraw(): void {
    this.surface.setLabel(this.label());
    this.surface.redraw();
  }

  // What the colours mean.
  legend(): Child {
    const extent = positiveExtent(this.content.values);
    if (!extent) return null;
    const stops = sequentialTable();
    const gradient = Array.from({ length: 9 }, (_, i) =>
      withAlpha(stops[Math.round((0.2 + 0.8 * (i / 8)) * 255)], 1),
    ).join(", ");
    return el(
      "span",
      { class: "scale" },
      this.content.format(this.content.scale === "log" ? extent[0] : 0),
      el("i", { style: { background: `linear-gradient(to right, ${gradient})` } }),
      this.content.format(extent[1]),
    );
  }

  private rect(pen: { width: number }): Rect {
    const left = this.content.level === "nodes" ? 84 : 62;
    const size = Math.max(40, Math.min(pen.width - left - 8, this.surface.height - 48));
    return { x: left, y: 30, width: size, height: size };
  }

  protected override draw(pen: Pen): void {
    const { colours } = this;
    const { values } = this.content;
    const { side } = this.content.matrix;
    const rect = this.rect(pen);
    const [[r0, r1], [c0, c1]] = this.content.view;
    const extent = positiveExtent(values) ?? [1, 1];
    const shades = packed(sequentialTable());
    const log = this.content.scale === "log";
    pen.context.fillStyle = colours.surface;
    pen.context.fillRect(rect.x, rect.y, rect.width, rect.height);
    drawRaster(
      pen,
      rect,
      side,
      side,
      { columns: [c0, c1], rows: [r0, r1] },
      (firstRow, endRow, firstColumn, endColumn) => {
        let most = 0;
        for (let row = firstRow; row < endRow; ++row)
          for (let column = firstColumn; column < endColumn; ++column)
            most = Math.max(most, values[row * side + column]);
        if (most <= 0) return 0;
        const share = log ? logPosition(most, extent[0], extent[1]) : most / extent[1];
        return shades[Math.round((0.2 + 0.8 * share) * 255)];
      },
    );
    this.drawNodeEdges(pen, rect);
    frame(pen, rect, colours.faint);
    this.drawNames(pen, rect);
    text(pen, 0, 7, "from \u2193  to \u2192", { colour: colours.muted, font: colours.font, size: 10 });
  }

  // Lines between nodes, where ranks are shown.
  private drawNodeEdges(pen: Pen, rect: Rect): void {
    const { colours } = this;
    const [[r0, r1], [c0, c1]] = this.content.view;
    if (this.content.level === "ranks" && this.content.model.nodeCount > 1) {
      const edges: number[] = [];
      for (let bin = 1; bin < this.content.binNodes.length; ++bin)
        if (this.content.binNodes[bin] !== this.content.binNodes[bin - 1]) edges.push(bin);
      if (edges.length < rect.width / 10)
        for (const edge of edges) {
          const x = rect.x + ((edge - c0) / (c1 - c0)) * rect.width;
          const y = rect.y + ((edge - r0) / (r1 - r0)) * rect.height;
          if (edge > c0 && edge < c1) line(pen, x, rect.y, x, rect.y + rect.height, colours.grid);
          if (edge > r0 && edge < r1) line(pen, rect.x, y, rect.x + rect.width, y, colours.grid);
        }
    }
  }

  // Destinations above, sources on the left.
  private drawNames(pen: Pen, rect: Rect): void {
    const { colours } = this;
    const [[r0, r1], [c0, c1]] = this.content.view;
    const step = (length: number) =>
      Math.max(
        1,
        Math.round(
          length > 24 && this.content.level === "ranks"
            ? 2 ** Math.round(Math.log2(niceStep(length, rect.width / 58)))
            : niceStep(length, rect.width / (this.content.level === "nodes" ? 80 : 40)),
        ),
      );
    for (const place of multiples(Math.ceil(c0), Math.ceil(c1) - 1, step(c1 - c0))) {
      const x = rect.x + ((place + 0.5 - c0) / (c1 - c0)) * rect.width;
      line(pen, x, rect.y - 4, x, rect.y - 1, colours.faint);
      text(pen, x, rect.y - 11, this.content.level === "nodes" ? this.content.name(place) : String(place * this.content.binRanks), {
        align: "center",
        colour: colours.muted,
        font: colours.font,
        most: 76,
      });
    }
    const rows = Math.max(1, Math.round(niceStep(r1 - r0, rect.height / 18)));
    for (const place of multiples(Math.ceil(r0), Math.ceil(r1) - 1, this.content.level === "nodes" ? rows : step(r1 - r0))) {
      const y = rect.y + ((place + 0.5 - r0) / (r1 - r0)) * rect.height;
      line(pen, rect.x - 5, y, rect.x - 1, y, colours.faint);
      text(pen, rect.x - 9, y, this.content.level === "nodes" ? this.content.name(place) : String(place * this.content.binRanks), {
        align: "right",
        colour: colours.muted,
        font: colours.font,
        most: 72,
      });
    }
  }

  protected override drawOver(pen: Pen): void {
    const rect = this.rect(pen);
    const [[r0, r1], [c0, c1]] = this.content.view;
    const { context } = pen;
    const chosen = this.content.chosen();
    const x = (column: number) => rect.x + ((column - c0) / (c1 - c0)) * rect.width;
    const y = (row: number) => rect.y + ((row - r0) / (r1 - r0)) * rect.height;
    if (chosen) {
      // What neither comes from nor goes to a selected rank.
      context.fillStyle = withAlpha(rgb(this.colours.surface), 0.72);
      const stretches = (from: number, to: number) => {
        const all: Span[] = [];
        for (let place = from; place < to; ++place) {
          if (chosen[place]) continue;
          const last = all[all.length - 1];
          if (last && last[1] === place) last[1] = place + 1;
          else all.push([place, place + 1]);
        }
        return all;
      };
      const down = stretches(r0, r1);
      const across = stretches(c0, c1);
      if (down.length * across.length < 20_000)
        for (const [top, bottom] of down)
          for (const [left, right] of across) context.fillRect(x(left), y(top), x(right) - x(left), y(bottom) - y(top));
    }
    if (this.drag && this.isDrag()) {
      const [top, left] = [Math.min(this.drag.y0, this.drag.y), Math.min(this.drag.x0, this.drag.x)];
      context.fillStyle = withAlpha(rgb(this.colours.accent), 0.18);
      context.strokeStyle = this.colours.accent;
      context.fillRect(left, top, Math.abs(this.drag.x - this.drag.x0), Math.abs(this.drag.y - this.drag.y0));
      context.strokeRect(
        left + 0.5,
        top + 0.5,
        Math.abs(this.drag.x - this.drag.x0),
        Math.abs(this.drag.y - this.drag.y0),
      );
    }
    const cell = this.cursor ?? this.hover;
    if (cell && !(this.drag && this.isDrag())) {
      const [row, column] = cell;
      context.fillStyle = withAlpha(rgb(this.colours.text), 0.07);
      context.fillRect(rect.x, y(row), rect.width, Math.max(1, y(row + 1) - y(row)));
      context.fillRect(x(column), rect.y, Math.max(1, x(column + 1) - x(column)), rect.height);
      context.strokeStyle = this.colours.text;
      context.lineWidth = this.cursor ? 2 : 1;
      context.strokeRect(x(column), y(row), Math.max(2, x(column + 1) - x(column)), Math.max(2, y(row + 1) - y(row)));
    }
  }

  private isDrag(): boolean {
    return this.drag !== null && Math.abs(this.drag.x - this.drag.x0) > 5 && Math.abs(this.drag.y - this.drag.y0) > 5;
  }

  private cellAt(px: number, py: number): [number, number] | null {
    const rect = this.rect({ width: this.surface.width });
    const [[r0, r1], [c0, c1]] = this.content.view;
    const row = Math.floor(r0 + ((py - rect.y) / rect.height) * (r1 - r0));
    const column = Math.floor(c0 + ((px - rect.x) / rect.width) * (c1 - c0));
    return row >= r0 && row < r1 && column >= c0 && column < c1 ? [row, column] : null;
  }

  private listen(): void {
    const { root } = this.surface;
    root.classList.add("chart-brush");
    root.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const [x, y] = this.surface.at(event);
      this.drag = { x0: x, y0: y, x, y };
      if (!this.before || event.timeStamp - this.before.at > 600)
        this.before = { at: event.timeStamp, selection: this.content.store.selection };
      root.setPointerCapture(event.pointerId);
    });
    root.addEventListener("pointermove", (event) => {
      const [x, y] = this.surface.at(event);
      if (this.drag) Object.assign(this.drag, { x, y });
      this.hover = this.cellAt(x, y);
      if (this.hover && !this.drag) showTip(this.content.describe(this.hover), event.clientX, event.clientY);
      else hideTip();
      this.surface.redrawOver();
    });
    root.addEventListener("pointerup", () => this.drop());
    root.addEventListener("pointercancel", () => (this.drag = null));
    root.addEventListener("pointerleave", () => {
      this.hover = null;
      hideTip();
      this.surface.redrawOver();
    });
    root.addEventListener("dblclick", () => {
      if (this.content.store.param("m")) {
        // Its clicks are not meant to select.
        if (this.before) this.content.store.select(this.before.selection, { replace: true });
        this.content.zoom(null);
      } else this.content.store.select({ ranks: null, nodes: null });
    });
    root.addEventListener("blur", () => {
      this.cursor = null;
      this.surface.redrawOver();
    });
    root.addEventListener("keydown", (event) => this.onKey(event));
  }

  // Ends a drag by zooming to it, or a click by selecting its pair.
  private drop(): void {
    const { drag } = this;
    const dragged = this.isDrag();
    this.drag = null;
    if (drag && dragged) {
      const rect = this.rect({ width: this.surface.width });
      const inside = (x: number, y: number) =>
        this.cellAt(clamp(x, rect.x, rect.x + rect.width - 0.01), clamp(y, rect.y, rect.y + rect.height - 0.01))!;
      const [top, left] = inside(Math.min(drag.x0, drag.x), Math.min(drag.y0, drag.y));
      const [bottom, right] = inside(Math.max(drag.x0, drag.x), Math.max(drag.y0, drag.y));
      this.content.zoom([
        [top, bottom + 1],
        [left, right + 1],
      ]);
    } else if (drag) {
      const cell = this.cellAt(drag.x, drag.y);
      if (cell && this.content.values[cell[0] * this.content.matrix.side + cell[1]] > 0) this.content.selectPlaces(cell);
    }
    this.surface.redrawOver();
  }

  private onKey(event: KeyboardEvent): void {
    const step = (
      { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] } as Record<
        string,
        [number, number]
      >
    )[event.key];
    const [[r0, r1], [c0, c1]] = this.content.view;
    if (step) {
      const far = event.ctrlKey ? 10 : 1;
      const from = this.cursor ?? [r0, c0];
      this.cursor = [clamp(from[0] + step[0] * far, r0, r1 - 1), clamp(from[1] + step[1] * far, c0, c1 - 1)];
      replace(this.announcement, this.content.describe(this.cursor));
    } else if (event.key === "Enter" && this.cursor) this.content.selectPlaces(this.cursor);
    else if (event.key === "+" || event.key === "=") {
      const [row, column] = this.cursor ?? [(r0 + r1) >> 1, (c0 + c1) >> 1];
      const half = (at: number, [from, to]: Span): Span => {
        const length = Math.max(2, Math.ceil((to - from) / 2));
        const begin = clamp(at - (length >> 1), from, Math.max(from, to - length));
        return [begin, Math.min(to, begin + length)];
      };
      this.content.zoom([half(row, [r0, r1]), half(column, [c0, c1])]);
    } else if (event.key === "-" || (event.key === "Escape" && this.content.store.param("m"))) this.content.zoom(null);
    else if (event.key === "Escape" && this.content.store.rankMask()) this.content.store.select({ ranks: null, nodes: null });
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.surface.redrawOver();
  }

  private label(): string {
    const sources = partnersOf(this.content.matrix, "source");
    const total = sources.reduce((sum, one) => sum + one.bytes, 0);
    const first = sources[0];
    return `Communication matrix of ${plural(this.content.matrix.side, this.content.level === "nodes" ? "node" : this.content.binRanks > 1 ? "group" : "rank")}: ${bytes(total)} in all. ${first ? `Most is sent by ${this.content.name(first.place)}: ${bytes(first.bytes)}.` : ""} Arrow keys move, Enter selects, plus zooms in, Escape out.`;
  }
}
