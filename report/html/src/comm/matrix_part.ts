// SPDX-License-Identifier: BSD-3-Clause
// The matrix, and who sends most.
import { packed, withAlpha } from "../charts/colour";
import { frame, type Ink, ink, line, text } from "../charts/drawing";
import { type Cells, denseMatrix, type Matrix, nodesOfBins, partnersOf } from "../charts/matrix";
import { clamp, logPosition, multiples, niceStep, positiveExtent, type Span } from "../charts/numbers";
import { drawRaster, type Rect } from "../charts/raster";
import { kNoNode } from "../charts/rows";
import { type Pen, Surface } from "../charts/surface";
import { rgb, sequentialTable } from "../core/colours";
import {
  type Child,
  choice,
  type Column,
  el,
  hideTip,
  miniBar,
  ofWholeRun,
  replace,
  section,
  showTip,
  table,
} from "../core/dom";
import { bytes, count, percent, plural, printable, shortenMiddle } from "../core/format";
import type { Model } from "../core/model";
import { bindKeys } from "../core/keys";
import { RankSet, type Selection, type Store } from "../core/selection";
import { type Part } from "./parts";

type Moved = "addressed" | "collectives";

// How much the matrix that is shown leaves out.
export function leftOutText(
  moved: Moved,
  addressed: Pick<Cells, "bytes">,
  collective: Pick<Cells, "bytes">,
  rows: readonly { op: string; bytes?: number }[] | undefined,
): string {
  const sum = (of: ArrayLike<number>) => Array.from(of).reduce((a, b) => a + b, 0);
  if (moved === "collectives")
    return `What collectives move between ranks is an estimate: the library may divide it otherwise. Left out: ${bytes(sum(addressed.bytes))} addressed to a rank.`;
  const all = sum(collective.bytes);
  if (!(all > 0)) return "";
  const most = [...(rows ?? [])].sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0))[0];
  return `Left out: about ${bytes(all)} that collectives move${most ? `, most of it by ${printable(most.op)}` : ""}.`;
}

export class MatrixPart implements Part {
  private readonly model: Model;
  private readonly addressed: Cells;
  private readonly collective: Cells;
  private readonly binRanks: number;
  private readonly binNodes: Uint32Array;
  private readonly mixed: boolean;
  private readonly made = new Map<string, Matrix>();
  private readonly surface: Surface;
  private readonly legend = el("div", { class: "chart-legend" });
  private readonly out = el("button", { type: "button", on: { click: () => this.zoom(null) } }, "Whole matrix");
  private readonly leftOut = el("p", { class: "page-note" });
  private readonly measures: HTMLElement;
  private readonly levelNote = el("span", { class: "note" });
  private readonly side: HTMLElement;
  private readonly said = el("p", { class: "visually-hidden", "aria-live": "polite" });
  private colours: Ink = ink();
  private drag: { x0: number; y0: number; x: number; y: number } | null = null;
  private hover: [number, number] | null = null; // source, destination
  private cursor: [number, number] | null = null;
  private before: { at: number; selection: Selection } | null = null; // the first click of a double click
  private shownKey = "";
  private readonly unbind = bindKeys([
    {
      key: "m",
      help: "To the matrix; arrow keys move, Enter selects, + zooms in, Escape out",
      run: () => this.surface.root.focus(),
    },
  ]);

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    const { model } = store;
    this.model = model;
    this.addressed = {
      source: model.u32("matrix_source"),
      destination: model.u32("matrix_destination"),
      messages: model.f64("matrix_messages"),
      bytes: model.f64("matrix_bytes"),
    };
    const moved = model.f64("collective_bytes");
    this.collective = {
      source: model.u32("collective_source"),
      destination: model.u32("collective_destination"),
      messages: new Float64Array(moved.length),
      bytes: moved,
    };
    this.binRanks = model.header.matrix.bin_ranks;
    const { nodes, mixed } = nodesOfBins(model.i32("rank_number"), model.u32("rank_node"), this.binRanks);
    this.binNodes = nodes;
    this.mixed = mixed;
    const levels: (readonly ["ranks" | "nodes", string])[] = [
      ["ranks", this.binRanks > 1 ? `Groups of ${this.binRanks} ranks` : "Ranks"],
    ];
    if (!mixed && model.nodeCount > 1) levels.push(["nodes", "Nodes"]);
    this.measures = choice<"bytes" | "messages">(
      "Value",
      [
        ["bytes", "Bytes"],
        ["messages", "Messages"],
      ],
      this.measure,
      (value) => this.set({ of: value === "bytes" ? null : value }),
    );
    const tools = el(
      "div",
      { class: "chart-tools" },
      levels.length > 1
        ? choice("Level", levels, this.level, (value) => this.set({ level: value === "ranks" ? null : value, m: null }))
        : null,
      this.addressed.source.length > 0 && this.collective.source.length > 0
        ? choice<Moved>(
            "Moved by",
            [
              ["addressed", "Addressed to a rank"],
              ["collectives", "Moved by collectives"],
            ],
            this.moved,
            (value) => this.set({ moved: value === "addressed" ? null : value }),
          )
        : null,
      this.measures,
      choice<"log" | "linear">(
        "Scale",
        [
          ["log", "Logarithmic"],
          ["linear", "Linear"],
        ],
        this.scale,
        (value) => this.set({ scale: value === "log" ? null : value }),
      ),
      this.legend,
      this.levelNote,
      el("span", { class: "gap" }),
      this.out,
    );
    const picture = el("div");
    this.side = el("div", { class: "chart-part" });
    root.append(
      section(
        "Who sends to whom",
        { class: "chart-card", aside: [ofWholeRun(), " \u00b7 drag zooms in, double click out, a click selects both"] },
        tools,
        this.leftOut,
        el("div", { class: "matrix-columns" }, picture, this.side),
      ),
    );
    this.surface = new Surface(picture, {
      height: 560,
      label: "",
      interactive: true,
      draw: (pen) => this.draw(pen),
      drawOver: (pen) => this.drawOver(pen),
    });
    picture.append(this.said);
    this.listen();
  }

  destroy(): void {
    this.unbind();
    this.surface.destroy();
  }

  update(): void {
    this.colours = ink();
    const width = this.surface.root.clientWidth || 600;
    const cells = this.view[0][1] - this.view[0][0];
    this.surface.setHeight(
      Math.round(clamp(Math.min(width - 30, window.innerHeight * 0.72, cells * 64 + 48), 180, 640)),
    );
    this.out.disabled =
      this.view[0][0] === 0 &&
      this.view[0][1] === this.matrix.side &&
      this.view[1][0] === 0 &&
      this.view[1][1] === this.matrix.side;
    replace(
      this.levelNote,
      this.mixed && this.binRanks > 1 && this.model.nodeCount > 1
        ? "nodes cannot be told apart in groups of ranks"
        : null,
    );
    this.measures.hidden = this.moved === "collectives"; // of which messages are not known
    replace(this.leftOut, leftOutText(this.moved, this.addressed, this.collective, this.model.report.mpi.collectives));
    this.drawLegend();
    this.drawSide();
    this.surface.setLabel(this.label());
    this.surface.redraw();
  }

  private set(values: Record<string, string | null>): void {
    this.store.setParams(values);
  }

  private get level(): "ranks" | "nodes" {
    return this.store.param("level") === "nodes" && !this.mixed && this.model.nodeCount > 1 ? "nodes" : "ranks";
  }
  private get moved(): Moved {
    if (this.collective.source.length === 0) return "addressed";
    return this.addressed.source.length === 0 || this.store.param("moved") === "collectives" ? "collectives" : "addressed";
  }
  private get cells(): Cells {
    return this.moved === "collectives" ? this.collective : this.addressed;
  }
  private get measure(): "bytes" | "messages" {
    return this.store.param("of") === "messages" && this.moved === "addressed" ? "messages" : "bytes";
  }
  private get scale(): "log" | "linear" {
    return this.store.param("scale") === "linear" ? "linear" : "log";
  }

  private get matrix(): Matrix {
    const { level } = this;
    const key = `${level} ${this.moved}`;
    const known = this.made.get(key);
    if (known) return known;
    const made =
      level === "nodes"
        ? denseMatrix(this.cells, this.model.nodeCount, (bin) =>
            bin < this.binNodes.length && this.binNodes[bin] !== kNoNode ? this.binNodes[bin] : -1,
          )
        : denseMatrix(this.cells, this.sideOfRanks(), (bin) => bin);
    this.made.set(key, made);
    return made;
  }

  private sideOfRanks(): number {
    let side = this.binNodes.length;
    for (const cells of [this.addressed, this.collective])
      for (let i = 0; i < cells.source.length; ++i) side = Math.max(side, cells.source[i] + 1, cells.destination[i] + 1);
    return Math.min(side, 4096);
  }

  private get values(): Float64Array {
    return this.measure === "bytes" ? this.matrix.bytes : this.matrix.messages;
  }

  // Sources, destinations.
  private get view(): [Span, Span] {
    const { side } = this.matrix;
    const match = /^(\d+)_(\d+)_(\d+)_(\d+)$/.exec(this.store.param("m") ?? "");
    if (match) {
      const [a, b, c, d] = match.slice(1).map((part) => clamp(Number(part), 0, side));
      if (b > a && d > c)
        return [
          [a, b],
          [c, d],
        ];
    }
    return [
      [0, side],
      [0, side],
    ];
  }

  private zoom(view: [Span, Span] | null): void {
    this.set({ m: view ? view.flat().join("_") : null });
  }

  private format(value: number): string {
    return this.measure === "bytes" ? bytes(value) : count(value);
  }

  private name(place: number, short = false): string {
    if (this.level === "nodes") return printable(this.model.nodes[place]?.name ?? `node ${place}`);
    const first = place * this.binRanks;
    const text = this.binRanks === 1 ? String(first) : `${first}\u2013${first + this.binRanks - 1}`;
    return short ? text : `${this.binRanks === 1 ? "rank" : "ranks"} ${text}`;
  }

  private selectPlaces(places: readonly number[]): void {
    if (this.level === "nodes") this.store.select({ nodes: [...new Set(places)].sort((a, b) => a - b), ranks: null });
    else
      this.store.select({
        ranks: RankSet.ofRanges(
          places.map((place) => [place * this.binRanks, (place + 1) * this.binRanks - 1] as const),
        ),
        nodes: null,
      });
  }

  // By place: 1 where ranks of it are selected; null: all.
  private chosen(): Uint8Array | null {
    const mask = this.store.rankMask();
    if (!mask) return null;
    const chosen = new Uint8Array(this.matrix.side);
    const numbers = this.model.i32("rank_number");
    const nodes = this.model.u32("rank_node");
    for (let i = 0; i < mask.length; ++i)
      if (mask[i]) chosen[this.level === "nodes" ? nodes[i] : Math.floor(numbers[i] / this.binRanks)] = 1;
    return chosen;
  }

  private rect(pen: { width: number }): Rect {
    const left = this.level === "nodes" ? 84 : 62;
    const size = Math.max(40, Math.min(pen.width - left - 8, this.surface.height - 48));
    return { x: left, y: 30, width: size, height: size };
  }

  private drawLegend(): void {
    const extent = positiveExtent(this.values);
    if (!extent) {
      replace(this.legend);
      return;
    }
    const stops = sequentialTable();
    const gradient = Array.from({ length: 9 }, (_, i) =>
      withAlpha(stops[Math.round((0.2 + 0.8 * (i / 8)) * 255)], 1),
    ).join(", ");
    replace(
      this.legend,
      el(
        "span",
        { class: "scale" },
        this.format(this.scale === "log" ? extent[0] : 0),
        el("i", { style: { background: `linear-gradient(to right, ${gradient})` } }),
        this.format(extent[1]),
      ),
    );
  }

  private draw(pen: Pen): void {
    this.colours = ink();
    const { colours, values } = this;
    const { side } = this.matrix;
    const rect = this.rect(pen);
    const [[r0, r1], [c0, c1]] = this.view;
    const extent = positiveExtent(values) ?? [1, 1];
    const shades = packed(sequentialTable());
    const log = this.scale === "log";
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
    // Boundaries of nodes among ranks.
    if (this.level === "ranks" && this.model.nodeCount > 1) {
      const edges: number[] = [];
      for (let bin = 1; bin < this.binNodes.length; ++bin)
        if (this.binNodes[bin] !== this.binNodes[bin - 1]) edges.push(bin);
      if (edges.length < rect.width / 10)
        for (const edge of edges) {
          const x = rect.x + ((edge - c0) / (c1 - c0)) * rect.width;
          const y = rect.y + ((edge - r0) / (r1 - r0)) * rect.height;
          if (edge > c0 && edge < c1) line(pen, x, rect.y, x, rect.y + rect.height, colours.grid);
          if (edge > r0 && edge < r1) line(pen, rect.x, y, rect.x + rect.width, y, colours.grid);
        }
    }
    frame(pen, rect, colours.faint);
    const step = (length: number) =>
      Math.max(
        1,
        Math.round(
          length > 24 && this.level === "ranks"
            ? 2 ** Math.round(Math.log2(niceStep(length, rect.width / 58)))
            : niceStep(length, rect.width / (this.level === "nodes" ? 80 : 40)),
        ),
      );
    for (const place of multiples(Math.ceil(c0), Math.ceil(c1) - 1, step(c1 - c0))) {
      const x = rect.x + ((place + 0.5 - c0) / (c1 - c0)) * rect.width;
      line(pen, x, rect.y - 4, x, rect.y - 1, colours.faint);
      text(pen, x, rect.y - 11, this.level === "nodes" ? this.name(place) : String(place * this.binRanks), {
        align: "center",
        colour: colours.muted,
        font: colours.font,
        most: 76,
      });
    }
    const rows = Math.max(1, Math.round(niceStep(r1 - r0, rect.height / 18)));
    for (const place of multiples(Math.ceil(r0), Math.ceil(r1) - 1, this.level === "nodes" ? rows : step(r1 - r0))) {
      const y = rect.y + ((place + 0.5 - r0) / (r1 - r0)) * rect.height;
      line(pen, rect.x - 5, y, rect.x - 1, y, colours.faint);
      text(pen, rect.x - 9, y, this.level === "nodes" ? this.name(place) : String(place * this.binRanks), {
        align: "right",
        colour: colours.muted,
        font: colours.font,
        most: 72,
      });
    }
    text(pen, 0, 7, "from \u2193  to \u2192", { colour: colours.muted, font: colours.font, size: 10 });
  }

  private drawOver(pen: Pen): void {
    const rect = this.rect(pen);
    const [[r0, r1], [c0, c1]] = this.view;
    const { context } = pen;
    const chosen = this.chosen();
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
    const [[r0, r1], [c0, c1]] = this.view;
    const row = Math.floor(r0 + ((py - rect.y) / rect.height) * (r1 - r0));
    const column = Math.floor(c0 + ((px - rect.x) / rect.width) * (c1 - c0));
    return row >= r0 && row < r1 && column >= c0 && column < c1 ? [row, column] : null;
  }

  private describe([row, column]: [number, number]): string {
    const at = row * this.matrix.side + column;
    const [sent, messages] = [this.matrix.bytes[at], this.matrix.messages[at]];
    const who = `${this.name(row)} \u2192 ${this.name(column)}`;
    return messages === 0 && sent === 0
      ? `${who}: nothing`
      : this.moved === "collectives"
        ? `${who}: about ${bytes(sent)}`
        : `${who}: ${bytes(sent)} in ${plural(messages, "message")}, ${bytes(messages > 0 ? sent / messages : 0)} each`;
  }

  private listen(): void {
    const { root } = this.surface;
    root.classList.add("chart-brush");
    root.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const [x, y] = this.surface.at(event);
      this.drag = { x0: x, y0: y, x, y };
      if (!this.before || event.timeStamp - this.before.at > 600)
        this.before = { at: event.timeStamp, selection: this.store.selection };
      root.setPointerCapture(event.pointerId);
    });
    root.addEventListener("pointermove", (event) => {
      const [x, y] = this.surface.at(event);
      if (this.drag) Object.assign(this.drag, { x, y });
      this.hover = this.cellAt(x, y);
      if (this.hover && !this.drag) showTip(this.describe(this.hover), event.clientX, event.clientY);
      else hideTip();
      this.surface.redrawOver();
    });
    root.addEventListener("pointerup", () => {
      const { drag } = this;
      const dragged = this.isDrag();
      this.drag = null;
      if (drag && dragged) {
        const rect = this.rect({ width: this.surface.width });
        const inside = (x: number, y: number) =>
          this.cellAt(clamp(x, rect.x, rect.x + rect.width - 0.01), clamp(y, rect.y, rect.y + rect.height - 0.01))!;
        const [top, left] = inside(Math.min(drag.x0, drag.x), Math.min(drag.y0, drag.y));
        const [bottom, right] = inside(Math.max(drag.x0, drag.x), Math.max(drag.y0, drag.y));
        this.zoom([
          [top, bottom + 1],
          [left, right + 1],
        ]);
      } else if (drag) {
        const cell = this.cellAt(drag.x, drag.y);
        if (cell && this.values[cell[0] * this.matrix.side + cell[1]] > 0) this.selectPlaces(cell);
      }
      this.surface.redrawOver();
    });
    root.addEventListener("pointercancel", () => (this.drag = null));
    root.addEventListener("pointerleave", () => {
      this.hover = null;
      hideTip();
      this.surface.redrawOver();
    });
    root.addEventListener("dblclick", () => {
      if (this.store.param("m")) {
        // Its clicks are not meant to select.
        if (this.before) this.store.select(this.before.selection, { replace: true });
        this.zoom(null);
      } else this.store.select({ ranks: null, nodes: null });
    });
    root.addEventListener("blur", () => {
      this.cursor = null;
      this.surface.redrawOver();
    });
    root.addEventListener("keydown", (event) => {
      const step = (
        { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] } as Record<
          string,
          [number, number]
        >
      )[event.key];
      const [[r0, r1], [c0, c1]] = this.view;
      if (step) {
        const far = event.ctrlKey ? 10 : 1;
        const from = this.cursor ?? [r0, c0];
        this.cursor = [clamp(from[0] + step[0] * far, r0, r1 - 1), clamp(from[1] + step[1] * far, c0, c1 - 1)];
        replace(this.said, this.describe(this.cursor));
      } else if (event.key === "Enter" && this.cursor) this.selectPlaces(this.cursor);
      else if (event.key === "+" || event.key === "=") {
        const [row, column] = this.cursor ?? [(r0 + r1) >> 1, (c0 + c1) >> 1];
        const half = (at: number, [from, to]: Span): Span => {
          const length = Math.max(2, Math.ceil((to - from) / 2));
          const begin = clamp(at - (length >> 1), from, Math.max(from, to - length));
          return [begin, Math.min(to, begin + length)];
        };
        this.zoom([half(row, [r0, r1]), half(column, [c0, c1])]);
      } else if (event.key === "-" || (event.key === "Escape" && this.store.param("m"))) this.zoom(null);
      else if (event.key === "Escape" && this.store.rankMask()) this.store.select({ ranks: null, nodes: null });
      else return;
      event.preventDefault();
      event.stopPropagation();
      this.surface.redrawOver();
    });
  }

  private label(): string {
    const sources = partnersOf(this.matrix, "source");
    const total = sources.reduce((sum, one) => sum + one.bytes, 0);
    const first = sources[0];
    return `Communication matrix of ${plural(this.matrix.side, this.level === "nodes" ? "node" : this.binRanks > 1 ? "group" : "rank")}: ${bytes(total)} in all. ${first ? `Most is sent by ${this.name(first.place)}: ${bytes(first.bytes)}.` : ""} Arrow keys move, Enter selects, plus zooms in, Escape out.`;
  }

  // What the matrix adds up to, and who sends most.
  private drawSide(): void {
    const key = `${this.level} ${this.measure} ${this.moved}`;
    if (key === this.shownKey) return;
    this.shownKey = key;
    const { matrix } = this;
    const sources = partnersOf(matrix, "source");
    const by = this.measure;
    sources.sort((a, b) => b[by] - a[by] || a.place - b.place);
    const total = sources.reduce((sum, one) => sum + one.bytes, 0);
    const messages = sources.reduce((sum, one) => sum + one.messages, 0);
    let local = 0;
    if (!this.mixed)
      for (let i = 0; i < this.cells.source.length; ++i) {
        const [a, b] = [this.binNodes[this.cells.source[i]], this.binNodes[this.cells.destination[i]]];
        if (a === b && a !== undefined && a !== kNoNode) local += this.cells.bytes[i];
      }
    const most = sources[0]?.[by] ?? 0;
    const facts: [string, Child][] = [
      ...(this.moved === "collectives"
        ? [["Moved", `about ${bytes(total)}`] as [string, Child]]
        : ([
            ["Sent", `${bytes(total)} in ${count(messages)} messages`],
            ["A message", messages > 0 ? bytes(total / messages) : "\u2013"],
          ] satisfies [string, Child][])),
    ];
    if (!this.mixed && this.model.nodeCount > 1)
      facts.push(["Within nodes", total > 0 ? percent(local / total) : "\u2013"]);
    replace(
      this.side,
      el(
        "dl",
        { class: "facts-list" },
        facts.map(([name, value]) => [el("dt", null, name), el("dd", null, value)]),
      ),
      el(
        "h3",
        { class: "apart" },
        this.level === "nodes"
          ? "Nodes that send most"
          : this.binRanks > 1
            ? "Groups of ranks that send most"
            : "Ranks that send most",
      ),
      el(
        "div",
        { class: "scroll-box", tabindex: 0, role: "group", "aria-label": "Senders" },
        table(
          [
            {
              id: "from",
              title: "From",
              value: (row) => row.place,
              cell: (row) =>
                el(
                  "button",
                  { type: "button", class: "link", on: { click: () => this.selectPlaces([row.place]) } },
                  shortenMiddle(this.name(row.place), 24),
                ),
            },
            { id: "bytes", title: "Bytes", numeric: true, value: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
            ...(this.moved === "collectives"
              ? []
              : ([
                  {
                    id: "messages",
                    title: "Messages",
                    numeric: true,
                    value: (row) => row.messages,
                    cell: (row) => count(row.messages),
                  },
                ] satisfies Column<(typeof sources)[number]>[])),
            {
              id: "partners",
              title: "To",
              numeric: true,
              help: "To how many others",
              value: (row) => row.partners,
              cell: (row) => count(row.partners),
            },
            { id: "share", title: "", cell: (row) => miniBar(most > 0 ? row[by] / most : 0) },
          ] satisfies Column<(typeof sources)[number]>[],
          sources,
          { label: "Senders", limit: 12, sort: { column: by, descending: true }, empty: "No messages between ranks." },
        ),
      ),
    );
  }
}
