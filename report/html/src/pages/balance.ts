// SPDX-License-Identifier: BSD-3-Clause
// Which ranks need more time than others, and in what: function x rank, and how one value is spread.
import { deviations, markedOutliers, rowMeans, type Spread, spreadOf } from "../charts/balance_rows";
import { packed, withAlpha } from "../charts/colour";
import {
  boxesChart,
  type Distribution,
  type Group,
  histogramChart,
  type Points,
  sortedCurve,
} from "../charts/distribution";
import { fitted, frame, type Ink, ink, line, text } from "../charts/drawing";
import { clamp, draggedSpan, symmetricLimit } from "../charts/numbers";
import { drawRaster, type Rect } from "../charts/raster";
import { kNoNode, nodeSpans, outliersOf, reordered, rowLabel, rowOrder, type Rows, rowTicks } from "../charts/rows";
import { type Pen, Surface } from "../charts/surface";
import { divergingTable, rgb } from "../core/colours";
import { choice, el, hideTip, ofWholeRun, replace, section, showTip, table } from "../core/dom";
import { bytes, functionLabel, percent, plural, printable, seconds, shortenMiddle } from "../core/format";
import { baseName, type Model, NONE } from "../core/model";
import type { Page, PageHandle } from "../core/page";
import { bindKeys } from "../core/keys";
import { RankSet, type Store } from "../core/selection";

const kLabels = 250; // left of the map
const kFigures = 130; // right of it
const kRowHeight = 17;
const kGap = 14; // between values of ranks and functions
const kFewFunctions = 20;

interface Subject {
  id: string;
  label: string;
  place: string; // of the function
  byRow: Float32Array; // in the order of the data's rows
  byRank: Float32Array | null; // exact
  spread: Spread;
  relative: Float32Array; // by row: deviation from the mean
  marks: number[]; // rows of the data that stand out
  format(value: number): string;
  isFunction: boolean;
  lowIsBad: boolean; // waiting: who waits least makes the others wait
}

type Order = "cost" | "time" | "imbalance";

class Balance {
  private readonly model: Model;
  private readonly rows: Rows; // in the order of the map
  private readonly order: Uint32Array;
  private readonly place: Uint32Array; // row of the data -> of the map
  private readonly outliers: Uint8Array;
  private readonly dataRows: Rows;
  private readonly values: Subject[];
  private readonly functions: Subject[];
  private shown: Subject[] = [];
  private limit = 1;

  private readonly map: Surface;
  private readonly legend = el("div", { class: "chart-legend" });
  private readonly more = el("button", {
    type: "button",
    on: { click: () => this.store.setParam("all", this.store.param("all") ? null : "1") },
  });
  private readonly said = el("p", { class: "visually-hidden", "aria-live": "polite" });
  private readonly detail: HTMLElement;
  private readonly detailTitle = el("h2");
  private readonly detailNote = el("div", { class: "aside" });
  private readonly detailBody = el("div");
  private detailOf: string | null = null;
  private parts: Distribution[] = [];

  private colours: Ink = ink();
  private chosen: Float64Array | null = null; // of each row of the data: share of its ranks that are chosen
  private readonly unbind = bindKeys([
    {
      key: "m",
      help: "To the map; arrow keys move, with Shift they select ranks, Enter opens a row",
      run: () => this.map.root.focus(),
    },
  ]);
  private drag: { x0: number; y0: number; x: number; y: number } | null = null;
  private hover: { place: number; row: number } | null = null;
  private cursor: { place: number; row: number } | null = null;
  private anchor: number | null = null;

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    const { model } = store;
    this.model = model;
    this.dataRows = {
      first: model.i32("row_first_rank"),
      last: model.i32("row_last_rank"),
      ranks: model.u32("row_ranks"),
      node: model.u32("row_node"),
    };
    this.order = rowOrder(this.dataRows);
    this.place = new Uint32Array(this.order.length);
    this.order.forEach((row, i) => (this.place[row] = i));
    this.rows = reordered(this.dataRows, this.order);
    this.outliers = outliersOf(this.rows);
    this.values = this.valueSubjects();
    this.functions = this.functionSubjects();

    const tools = el(
      "div",
      { class: "chart-tools" },
      el(
        "span",
        { class: "chart-field" },
        "Order",
        choice<Order>(
          "Order of functions",
          [
            ["cost", "Cost of imbalance"],
            ["time", "Time"],
            ["imbalance", "Imbalance"],
          ],
          this.sorting,
          (value) => this.store.setParam("sort", value === "cost" ? null : value),
        ),
      ),
      this.legend,
      el("span", { class: "gap" }),
      this.more,
    );
    const box = section(
      "Ranks against the mean rank",
      { class: "chart-card", aside: [ofWholeRun(), " \u00b7 click a row for its ranks, drag across to select ranks"] },
      tools,
    );
    root.append(box);
    this.map = new Surface(box, {
      height: 100,
      label: "",
      interactive: true,
      draw: (pen) => this.drawMap(pen),
      drawOver: (pen) => this.drawMapOver(pen),
    });
    box.append(this.said);
    this.detail = el(
      "section",
      { class: "card chart-card" },
      el("header", null, this.detailTitle, this.detailNote),
      this.detailBody,
    );
    root.append(this.detail);
    this.listen();
    this.update();
  }

  destroy(): void {
    hideTip();
    this.unbind();
    this.map.destroy();
    for (const part of this.parts) part.surface.destroy();
  }

  update(): void {
    this.colours = ink();
    const mask = this.store.rankMask();
    if (mask) {
      const rowOfRank = this.model.u32("row_of_rank");
      this.chosen = new Float64Array(this.order.length);
      for (let i = 0; i < rowOfRank.length; ++i)
        if (mask[i]) this.chosen[rowOfRank[i]] += 1 / this.dataRows.ranks[rowOfRank[i]];
    } else this.chosen = null;

    const by: Record<Order, (subject: Subject) => number> = {
      cost: (subject) => subject.spread.cost,
      time: (subject) => subject.spread.mean,
      imbalance: (subject) => subject.spread.imbalance,
    };
    const key = by[this.sorting];
    const sorted = [...this.functions].sort((a, b) => key(b) - key(a) || b.spread.mean - a.spread.mean);
    const all = this.store.param("all") !== null;
    this.shown = [...this.values, ...(all ? sorted : sorted.slice(0, kFewFunctions))];
    this.more.hidden = this.functions.length <= kFewFunctions;
    this.more.textContent = all ? `Only the first ${kFewFunctions}` : `All ${this.functions.length} functions`;
    const cells: number[] = [];
    for (const subject of this.shown)
      for (let i = 0; i < subject.relative.length; i += Math.max(1, subject.relative.length >> 8))
        cells.push(subject.relative[i]);
    this.limit = Math.min(1, symmetricLimit(cells, 0.97, 0.1));
    this.drawLegend();
    this.map.setHeight(8 + this.top(this.shown.length) + 30);
    this.map.setLabel(this.label());
    this.map.redraw();
    this.drawDetail();
  }

  private get sorting(): Order {
    const sort = this.store.param("sort");
    return sort === "time" || sort === "imbalance" ? sort : "cost";
  }

  // --- Subjects

  private subject(
    id: string,
    label: string,
    place: string,
    byRow: Float32Array,
    byRank: Float32Array | null,
    format: (value: number) => string,
    isFunction: boolean,
    lowIsBad = false,
  ): Subject | null {
    const spread = byRank ? spreadOf(byRank) : spreadOf(byRow, this.dataRows.ranks);
    if (!spread || !(spread.max > 0)) return null;
    return {
      id,
      label,
      place,
      byRow,
      byRank,
      spread,
      relative: deviations(byRow, spread.mean),
      marks: markedOutliers(byRow, this.dataRows.ranks, spread.mean, 0.1, 12),
      format,
      isFunction,
      lowIsBad,
    };
  }

  private valueSubjects(): Subject[] {
    const rowOfRank = this.model.u32("row_of_rank");
    const made = (id: string, label: string, name: string, format: (value: number) => string, lowIsBad = false) => {
      const byRank = this.model.f32(name);
      if (byRank.length === 0) return null;
      return this.subject(
        id,
        label,
        "",
        rowMeans(byRank, rowOfRank, this.order.length),
        byRank,
        format,
        false,
        lowIsBad,
      );
    };
    return [
      made("useful", "Outside MPI (useful)", "rank_useful_s", seconds),
      made("wait", "Waiting in MPI", "rank_mpi_wait_s", seconds, true),
      made("transfer", "Transfer in MPI", "rank_mpi_transfer_s", seconds),
      made("memory", "Largest resident memory", "rank_max_rss_bytes", bytes),
    ].filter((subject) => subject !== null);
  }

  private functionSubjects(): Subject[] {
    const times = this.model.f32("function_row_s");
    const rows = this.order.length;
    const subjects: Subject[] = [];
    for (let i = 0; i < this.model.header.row_functions; ++i) {
      const info = this.model.function(i);
      const subject = this.subject(
        `f${i}`,
        functionLabel(info.name, info.kind),
        printable(this.model.place(info.file, info.line) || baseName(info.module ?? "")),
        times.subarray(i * rows, (i + 1) * rows),
        null,
        seconds,
        true,
      );
      if (!subject) continue;
      // The slowest rank may be in a range of ranks here: the report has it itself.
      const row = info.row === NONE ? null : this.model.report.functions[info.row];
      if (row && row.rank_max_s >= subject.spread.max && row.rank_mean_s > 0)
        subject.spread = {
          ...subject.spread,
          mean: row.rank_mean_s,
          max: row.rank_max_s,
          cost: row.rank_max_s - row.rank_mean_s,
          imbalance: row.rank_max_s / row.rank_mean_s,
        };
      subjects.push(subject);
    }
    return subjects;
  }

  // --- The map

  private top(place: number): number {
    return place * kRowHeight + (place >= this.values.length && this.values.length > 0 ? kGap : 0);
  }

  private rect(width: number): Rect {
    const labels = Math.min(kLabels, Math.max(130, width * 0.24));
    return { x: labels, y: 8, width: Math.max(10, width - labels - kFigures), height: this.top(this.shown.length) };
  }

  private drawLegend(): void {
    const stops = divergingTable();
    const gradient = Array.from({ length: 11 }, (_, i) => withAlpha(stops[Math.round((i / 10) * 255)], 1)).join(", ");
    replace(
      this.legend,
      el(
        "span",
        { class: "scale" },
        `\u2212${percent(this.limit, 0)}`,
        el("i", { style: { background: `linear-gradient(to right, ${gradient})` } }),
        `+${percent(this.limit, 0)} of the row\u2019s mean`,
      ),
      el("span", { class: "key" }, el("i", { class: "dot" }), "outlier"),
    );
  }

  private drawMap(pen: Pen): void {
    this.colours = ink();
    const { colours, rows } = this;
    const rect = this.rect(pen.width);
    const columns = rows.first.length;
    const table_ = packed(divergingTable());
    const x = (column: number) => rect.x + (column / columns) * rect.width;
    const groups: [number, number][] = [
      [0, this.values.length],
      [this.values.length, this.shown.length],
    ];
    for (const [begin, end] of groups) {
      if (begin === end) continue;
      const part: Rect = {
        x: rect.x,
        y: rect.y + this.top(begin),
        width: rect.width,
        height: (end - begin) * kRowHeight,
      };
      pen.context.fillStyle = colours.empty;
      pen.context.fillRect(part.x, part.y, part.width, part.height);
      drawRaster(
        pen,
        part,
        end - begin,
        columns,
        { columns: [0, columns], rows: [0, end - begin] },
        (row, _endRow, first, last) => {
          // Of several ranks in a pixel the one furthest from the mean is seen.
          const { relative } = this.shown[begin + row];
          let furthest = NaN;
          for (let c = first; c < last; ++c) {
            const value = relative[this.order[c]];
            if (Number.isNaN(furthest) || Math.abs(value) > Math.abs(furthest)) furthest = value;
          }
          return Number.isNaN(furthest)
            ? 0
            : table_[clamp(Math.round((0.5 + furthest / (2 * this.limit)) * 255), 0, 255)];
        },
      );
      for (let row = 1; row < end - begin; ++row)
        line(
          pen,
          part.x,
          part.y + row * kRowHeight,
          part.x + part.width,
          part.y + row * kRowHeight,
          withAlpha(rgb(colours.surface), 0.9),
        );
      const spans = nodeSpans(rows);
      if (spans.length > 1 && spans.length < rect.width / 8)
        for (const span of spans.slice(1))
          line(pen, x(span.begin), part.y, x(span.begin), part.y + part.height, withAlpha(rgb(colours.surface), 0.9));
      frame(pen, part, colours.faint);
    }
    const width = rect.width / columns;
    this.shown.forEach((subject, place) => {
      const y = rect.y + this.top(place);
      const middle = y + kRowHeight / 2;
      const open = subject.id === this.open?.id;
      if (open) {
        pen.context.fillStyle = withAlpha(rgb(colours.accent), 0.14);
        pen.context.fillRect(0, y, rect.x - 6, kRowHeight);
        pen.context.fillRect(rect.x + rect.width + 2, y, pen.width - rect.x - rect.width - 2, kRowHeight);
      }
      pen.context.font = `500 12px ${colours.font}`;
      const name = fitted(pen.context, subject.label, rect.x - 14);
      const used = pen.context.measureText(name).width;
      text(pen, 6, middle, name, { colour: colours.text, font: colours.font, size: 12, weight: open ? 600 : 500 });
      if (subject.place && rect.x - 22 - used > 40)
        text(pen, rect.x - 10, middle, subject.place, {
          align: "right",
          colour: colours.muted,
          font: colours.font,
          most: rect.x - 30 - used,
        });
      const right = rect.x + rect.width;
      text(pen, right + 62, middle, subject.format(subject.spread.mean), {
        align: "right",
        colour: colours.muted,
        font: colours.font,
      });
      text(
        pen,
        right + kFigures - 4,
        middle,
        subject.isFunction || subject.id === "useful" ? `+${subject.format(subject.spread.cost)}` : "",
        { align: "right", colour: colours.text, font: colours.font, weight: 500 },
      );
      for (const row of subject.marks) {
        const at = x(this.place[row] + 0.5);
        pen.context.fillStyle = colours.text;
        pen.context.beginPath();
        if (width >= 7) pen.context.arc(at, middle, 2, 0, 2 * Math.PI);
        else {
          pen.context.moveTo(at - 3, y + kRowHeight);
          pen.context.lineTo(at, y + kRowHeight - 4.5);
          pen.context.lineTo(at + 3, y + kRowHeight);
        }
        pen.context.strokeStyle = colours.surface;
        pen.context.lineWidth = 1.5;
        pen.context.stroke();
        pen.context.fill();
      }
    });
    const bottom = rect.y + rect.height;
    const right = rect.x + rect.width;
    const headY = bottom + 14;
    text(pen, right + 62, headY, "mean", { align: "right", colour: colours.muted, font: colours.font, size: 10 });
    text(pen, right + kFigures - 4, headY, "slowest", {
      align: "right",
      colour: colours.muted,
      font: colours.font,
      size: 10,
    });
    for (const tick of rowTicks(rows, this.outliers, 0, columns, Math.max(2, rect.width / 60))) {
      line(pen, x(tick.row), bottom + 1, x(tick.row), bottom + 5, colours.faint);
      text(pen, x(tick.row), headY, String(tick.rank), { align: "center", colour: colours.muted, font: colours.font });
    }
    text(pen, rect.x - 10, headY, "rank", { align: "right", colour: colours.muted, font: colours.font });
    pen.context.fillStyle = colours.accent;
    for (let row = 0; row < columns; ++row) {
      if (!this.outliers[row]) continue;
      pen.context.beginPath();
      pen.context.moveTo(x(row + 0.5) - 3, bottom + 6);
      pen.context.lineTo(x(row + 0.5), bottom + 1);
      pen.context.lineTo(x(row + 0.5) + 3, bottom + 6);
      pen.context.fill();
    }
  }

  private drawMapOver(pen: Pen): void {
    const rect = this.rect(pen.width);
    const { context } = pen;
    const columns = this.rows.first.length;
    const x = (column: number) => rect.x + (column / columns) * rect.width;
    if (this.chosen) {
      context.fillStyle = withAlpha(rgb(this.colours.surface), 0.62);
      let begin = -1;
      for (let i = 0; i <= columns; ++i) {
        const hidden = i < columns && !(this.chosen[this.order[i]] > 0);
        if (hidden && begin < 0) begin = i;
        if (!hidden && begin >= 0) {
          context.fillRect(x(begin), rect.y, x(i) - x(begin), rect.height);
          begin = -1;
        }
      }
    }
    const span = this.drag ? this.dragged(rect) : null;
    if (span) {
      context.fillStyle = withAlpha(rgb(this.colours.accent), 0.2);
      context.fillRect(x(span[0]), rect.y, x(span[1]) - x(span[0]), rect.height);
    }
    const cell = this.cursor ?? this.hover;
    if (cell && !span) {
      context.strokeStyle = this.colours.text;
      context.lineWidth = this.cursor ? 2 : 1;
      const y = rect.y + this.top(cell.place);
      context.strokeRect(x(cell.row), y + 0.5, Math.max(2, x(cell.row + 1) - x(cell.row)), kRowHeight - 1);
    }
  }

  private at(x: number, y: number): { place: number; row: number } | null {
    const rect = this.rect(this.map.width);
    const columns = this.rows.first.length;
    for (let place = 0; place < this.shown.length; ++place) {
      const top = rect.y + this.top(place);
      if (y < top || y >= top + kRowHeight) continue;
      const row = Math.floor(((x - rect.x) / rect.width) * columns);
      return { place, row: row >= 0 && row < columns ? row : -1 };
    }
    return null;
  }

  private dragged(rect: Rect): [number, number] | null {
    if (!this.drag || Math.abs(this.drag.x - this.drag.x0) < 4 || this.drag.x0 < rect.x) return null;
    const columns = this.rows.first.length;
    const column = (x: number) => ((x - rect.x) / rect.width) * columns;
    return draggedSpan(column(this.drag.x0), column(this.drag.x), 0, columns, 0, 0, 1);
  }

  private ranksOf(rows: Iterable<number>): RankSet {
    const inside = new Set(rows); // of the data
    const rowOfRank = this.model.u32("row_of_rank");
    const numbers = this.model.i32("rank_number");
    const ranks: number[] = [];
    for (let i = 0; i < rowOfRank.length; ++i) if (inside.has(rowOfRank[i])) ranks.push(numbers[i]);
    return RankSet.of(ranks);
  }

  private selectSpan([from, to]: [number, number]): void {
    this.store.select({ ranks: this.ranksOf(this.order.slice(from, to)), nodes: null });
  }

  private listen(): void {
    const { root } = this.map;
    root.classList.add("chart-pick");
    root.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const [x, y] = this.map.at(event);
      this.drag = { x0: x, y0: y, x, y };
      root.setPointerCapture(event.pointerId);
    });
    root.addEventListener("pointermove", (event) => {
      const [x, y] = this.map.at(event);
      if (this.drag) {
        this.drag.x = x;
        this.drag.y = y;
      }
      const at = this.at(x, y);
      this.hover = at && at.row >= 0 ? at : null;
      if (at && !this.drag) this.showTipAt(at, event.clientX, event.clientY);
      else hideTip();
      this.map.redrawOver();
    });
    root.addEventListener("pointerup", (event) => {
      const span = this.drag ? this.dragged(this.rect(this.map.width)) : null;
      this.drag = null;
      if (span) this.selectSpan(span);
      else {
        const at = this.at(...this.map.at(event));
        if (at) this.show(this.shown[at.place]);
      }
      this.map.redrawOver();
    });
    root.addEventListener("pointercancel", () => (this.drag = null));
    root.addEventListener("pointerleave", () => {
      this.hover = null;
      hideTip();
      this.map.redrawOver();
    });
    root.addEventListener("dblclick", () => this.store.select({ ranks: null, nodes: null }));
    root.addEventListener("blur", () => {
      this.cursor = null;
      this.anchor = null;
      this.map.redrawOver();
    });
    root.addEventListener("keydown", (event) => {
      const step = (
        { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] } as Record<
          string,
          [number, number]
        >
      )[event.key];
      if (step) {
        const far = event.ctrlKey ? 10 : 1;
        const from = this.cursor ?? { place: Math.max(0, this.shown.indexOf(this.open!)), row: 0 };
        if (!event.shiftKey) this.anchor = null;
        else this.anchor ??= from.row;
        this.cursor = {
          place: clamp(from.place + step[1], 0, this.shown.length - 1),
          row: clamp(from.row + step[0] * far, 0, this.rows.first.length - 1),
        };
        if (this.anchor !== null)
          this.selectSpan([Math.min(this.anchor, this.cursor.row), Math.max(this.anchor, this.cursor.row) + 1]);
        replace(this.said, this.cellText(this.cursor));
      } else if (event.key === "Enter" && this.cursor) this.show(this.shown[this.cursor.place]);
      else if (event.key === "Escape" && this.chosen) this.store.select({ ranks: null, nodes: null });
      else return;
      event.preventDefault();
      event.stopPropagation();
      this.map.redrawOver();
    });
  }

  private show(subject: Subject): void {
    this.store.setParam("row", subject.id);
    this.detail.scrollIntoView({ block: "nearest" });
  }

  private cellText({ place, row }: { place: number; row: number }): string {
    const subject = this.shown[place];
    const value = subject.byRow[this.order[row]];
    const relative = subject.relative[this.order[row]];
    const node = this.rows.node[row];
    const name = node === kNoNode ? "" : ` on ${printable(this.model.nodes[node]?.name ?? "")}`;
    return `${rowLabel(this.rows, row)}${name}: ${subject.format(value)}, ${relative >= 0 ? "+" : "\u2212"}${percent(Math.abs(relative), 0)} of the mean`;
  }

  private showTipAt(at: { place: number; row: number }, x: number, y: number): void {
    const subject = this.shown[at.place];
    showTip(
      () =>
        el(
          "div",
          { class: "chart-tip" },
          el("b", null, shortenMiddle(subject.label, 120)),
          subject.place ? el("div", { class: "when" }, subject.place) : null,
          at.row >= 0 ? el("div", null, this.cellText(at)) : null,
          el(
            "dl",
            null,
            el("dt", null, "mean rank"),
            el("dd", null, subject.format(subject.spread.mean)),
            el("dt", null, "largest"),
            el("dd", null, subject.format(subject.spread.max)),
            el("dt", null, "largest / mean"),
            el("dd", null, subject.spread.imbalance.toFixed(2)),
          ),
        ),
      x,
      y,
    );
  }

  private label(): string {
    const worst = [...this.functions].sort((a, b) => b.spread.cost - a.spread.cost).slice(0, 3);
    return `Heat map of ${plural(this.shown.length, "value")} by ${plural(this.model.rankCount, "rank")}, as deviation from the mean rank. Imbalance costs most in ${worst.map((subject) => `${subject.label}, ${subject.format(subject.spread.cost)}`).join("; ")}. Arrow keys move, Enter opens a row, Shift and arrow keys select ranks.`;
  }

  // --- One value

  private get open(): Subject | null {
    const id = this.store.param("row");
    const all = [...this.values, ...this.functions];
    return (
      all.find((subject) => subject.id === id) ?? this.shown.find((subject) => subject.isFunction) ?? all[0] ?? null
    );
  }

  private points(subject: Subject): Points {
    const mask = this.store.rankMask();
    const { byRank } = subject;
    if (byRank) {
      const numbers = this.model.i32("rank_number");
      return {
        values: byRank,
        weights: null,
        name: (i) => `rank ${numbers[i]}`,
        chosen: mask ? (i) => mask[i] !== 0 : null,
        format: subject.format,
        pick: (indices) => this.store.select({ ranks: RankSet.of(indices.map((i) => numbers[i])), nodes: null }),
      };
    }
    const chosen = this.chosen;
    return {
      values: subject.byRow,
      weights: this.dataRows.ranks,
      name: (row) => rowLabel(this.dataRows, row),
      chosen: chosen ? (row) => chosen[row] > 0 : null,
      format: subject.format,
      pick: (rows) => this.store.select({ ranks: this.ranksOf(rows), nodes: null }),
    };
  }

  // Points by node; where most rows are of several nodes, by stretches of ranks.
  private groups(subject: Subject): { groups: Group[]; title: string } {
    const nodeOf = subject.byRank ? this.model.u32("rank_node") : this.dataRows.node;
    const members = new Map<number, number[]>();
    let known = 0;
    for (let i = 0; i < nodeOf.length; ++i) {
      if (nodeOf[i] === kNoNode) continue;
      known += subject.byRank ? 1 : this.dataRows.ranks[i];
      const list = members.get(nodeOf[i]);
      if (list) list.push(i);
      else members.set(nodeOf[i], [i]);
    }
    if (known >= 0.9 * this.model.rankCount)
      return {
        title: members.size === 1 ? "On its node" : "By node",
        groups: [...members].map(([node, indices]) => ({
          name: printable(this.model.nodes[node]?.name ?? String(node)),
          indices,
          pick: () => this.store.select({ nodes: [node], ranks: null }),
        })),
      };
    const stretches = Math.min(32, this.order.length);
    const groups = Array.from({ length: stretches }, (_, i): Group => {
      const rows = Array.from(
        this.order.subarray(
          Math.floor((i * this.order.length) / stretches),
          Math.floor(((i + 1) * this.order.length) / stretches),
        ),
      );
      const last = rows.reduce((most, row) => Math.max(most, this.dataRows.last[row]), 0);
      return {
        name: `${this.dataRows.first[rows[0]]}\u2013${last}`,
        indices: rows,
        pick: () => this.store.select({ ranks: this.ranksOf(rows), nodes: null }),
      };
    });
    return { title: "By stretches of ranks", groups };
  }

  private drawDetail(): void {
    const subject = this.open;
    this.detail.hidden = subject === null;
    if (!subject) return;
    const points = this.points(subject);
    replace(
      this.detailNote,
      ofWholeRun(),
      " \u00b7 ",
      subject.place ? `${subject.place} \u00b7 ` : "",
      `mean ${subject.format(subject.spread.mean)}, largest ${subject.format(subject.spread.max)} (${subject.spread.imbalance.toFixed(2)}\u00d7)`,
      subject.lowIsBad ? " \u00b7 who waits least may be whom the others wait for" : "",
      subject.isFunction
        ? [
            " \u00b7 ",
            el("a", { href: this.store.href({ page: "hotspots", params: { open: subject.id.slice(1) } }) }, "hotspot"),
          ]
        : null,
    );
    if (this.detailOf === subject.id) {
      for (const part of this.parts) part.update(points);
      return;
    }
    this.detailOf = subject.id;
    for (const part of this.parts) part.surface.destroy();
    replace(this.detailTitle, shortenMiddle(subject.label, 90));
    this.detailTitle.title = subject.label;
    const { groups, title } = this.groups(subject);
    const curve = el("div", null, el("h3", null, "Ranks in order of it"));
    const boxes = el("div", null, el("h3", null, title));
    const bins = el("div", null, el("h3", null, "How many ranks"));
    replace(this.detailBody, el("div", { class: "chart-columns" }, curve, boxes, bins), this.figures(points));
    this.parts = [sortedCurve(curve, points), boxesChart(boxes, points, groups), histogramChart(bins, points)];
  }

  // The same as a table: the slowest and the fastest.
  private figures(points: Points): HTMLElement {
    interface Row {
      name: string;
      value: number;
      index: number;
    }
    const rows: Row[] = [];
    for (let i = 0; i < points.values.length; ++i)
      if (!Number.isNaN(points.values[i])) rows.push({ name: points.name(i), value: points.values[i], index: i });
    rows.sort((a, b) => b.value - a.value || a.index - b.index);
    const mean = spreadOf(points.values, points.weights ?? undefined)?.mean ?? NaN;
    return el(
      "details",
      { class: "chart-table" },
      el("summary", null, "As a table"),
      table<Row>(
        [
          {
            id: "name",
            title: "Ranks",
            value: (row) => row.index,
            cell: (row) =>
              el("button", { type: "button", class: "link", on: { click: () => points.pick([row.index]) } }, row.name),
          },
          {
            id: "value",
            title: "Value",
            numeric: true,
            value: (row) => row.value,
            cell: (row) => points.format(row.value),
          },
          {
            id: "mean",
            title: "of the mean",
            numeric: true,
            value: (row) => row.value / mean,
            cell: (row) => percent(row.value / mean, 0),
          },
        ],
        rows,
        { label: "Values by rank", sort: { column: "value", descending: true }, limit: 20 },
      ),
    );
  }
}

export const page: Page = {
  id: "balance",
  title: "Balance",
  hint: "Which ranks need more time than others",
  hidden: (model) => model.rankCount < 2,
  mount(root, store): PageHandle {
    const balance = new Balance(root, store);
    return { update: () => balance.update(), destroy: () => balance.destroy() };
  },
};
