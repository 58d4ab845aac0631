// SPDX-License-Identifier: BSD-3-Clause
// The map of the page on balance: a row for each value or function, a column for each rank or range of ranks, coloured by the
// deviation from the mean rank.
import { CanvasChart } from "../charts/canvas_chart";
import { packed, withAlpha } from "../charts/colour";
import { fitted, frame, ink, line, text } from "../charts/drawing";
import { clamp, draggedSpan, symmetricLimit } from "../charts/numbers";
import { drawRaster, type Rect } from "../charts/raster";
import { kNoNode, nodeSpans, rowLabel, rowTicks } from "../charts/rows";
import type { Pen } from "../charts/surface";
import { divergingTable, rgb } from "../core/colours";
import { type Child, el, hideTip, replace, showTip } from "../core/dom";
import { percent, plural, printable, shortenMiddle } from "../core/format";
import type { Subject, Subjects } from "./subjects";

const kLabels = 250; // left of the map
const kFigures = 130; // right of it
const kRowHeight = 17;
const kGap = 14; // between values of ranks and functions

interface Cell {
  place: number; // of the subject on the map
  row: number; // of ranks
}

export class BalanceMap extends CanvasChart {
  readonly announcement = el("p", { class: "visually-hidden", "aria-live": "polite" });
  private shown: readonly Subject[] = [];
  private limit = 1; // the deviation at the end of the scale
  private drag: { x0: number; y0: number; x: number; y: number } | null = null;
  private hover: Cell | null = null;
  private cursor: Cell | null = null;
  private anchor: number | null = null;

  constructor(
    parent: HTMLElement,
    private readonly subjects: Subjects,
    private readonly open: () => Subject | null, // whose row is open
    private readonly show: (subject: Subject) => void, // opens its row
  ) {
    super(parent, { height: 100, interactive: true });
    parent.append(this.announcement);
    this.listen();
  }

  update(shown: readonly Subject[]): void {
    this.colours = ink();
    this.shown = shown;
    const cells: number[] = [];
    for (const subject of shown)
      for (let i = 0; i < subject.relative.length; i += Math.max(1, subject.relative.length >> 8))
        cells.push(subject.relative[i]);
    this.limit = Math.min(1, symmetricLimit(cells, 0.97, 0.1));
    this.surface.setHeight(8 + this.top(shown.length) + 30);
    this.surface.setLabel(this.label());
    this.surface.redraw();
  }

  // What the colours mean.
  legend(): Child {
    const stops = divergingTable();
    const gradient = Array.from({ length: 11 }, (_, i) => withAlpha(stops[Math.round((i / 10) * 255)], 1)).join(", ");
    return [
      el(
        "span",
        { class: "scale" },
        `\u2212${percent(this.limit, 0)}`,
        el("i", { style: { background: `linear-gradient(to right, ${gradient})` } }),
        `+${percent(this.limit, 0)} of the row\u2019s mean`,
      ),
      el("span", { class: "key" }, el("i", { class: "dot" }), "outlier"),
    ];
  }

  private label(): string {
    const worst = [...this.subjects.functions].sort((a, b) => b.spread.cost - a.spread.cost).slice(0, 3);
    return `Heat map of ${plural(this.shown.length, "value")} by ${plural(this.subjects.model.rankCount, "rank")}, as deviation from the mean rank. Imbalance costs most in ${worst.map((subject) => `${subject.label}, ${subject.format(subject.spread.cost)}`).join("; ")}. Arrow keys move, Enter opens a row, Shift and arrow keys select ranks.`;
  }

  private top(place: number): number {
    return place * kRowHeight + (place >= this.subjects.values.length && this.subjects.values.length > 0 ? kGap : 0);
  }

  private rect(width: number): Rect {
    const labels = Math.min(kLabels, Math.max(130, width * 0.24));
    return { x: labels, y: 8, width: Math.max(10, width - labels - kFigures), height: this.top(this.shown.length) };
  }

  protected override draw(pen: Pen): void {
    const rect = this.rect(pen.width);
    const functions = this.subjects.values.length;
    this.drawCells(pen, rect, 0, functions);
    this.drawCells(pen, rect, functions, this.shown.length);
    this.shown.forEach((subject, place) => this.drawRow(pen, rect, subject, place));
    this.drawRanks(pen, rect);
  }

  // The rows from `begin` to before `end`.
  private drawCells(pen: Pen, rect: Rect, begin: number, end: number): void {
    if (begin === end) return;
    const { colours } = this;
    const { rows } = this.subjects;
    const columns = rows.first.length;
    const x = (column: number) => rect.x + (column / columns) * rect.width;
    const table = packed(divergingTable());
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
          const value = relative[this.subjects.order[c]];
          if (Number.isNaN(furthest) || Math.abs(value) > Math.abs(furthest)) furthest = value;
        }
        return Number.isNaN(furthest)
          ? 0
          : table[clamp(Math.round((0.5 + furthest / (2 * this.limit)) * 255), 0, 255)];
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

  // The name of a row on the left, its mean and the slowest rank on the right, and its outliers.
  private drawRow(pen: Pen, rect: Rect, subject: Subject, place: number): void {
    const { colours } = this;
    const y = rect.y + this.top(place);
    const middle = y + kRowHeight / 2;
    const open = subject.id === this.open()?.id;
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
    this.drawMarks(pen, rect, subject, y);
  }

  private drawMarks(pen: Pen, rect: Rect, subject: Subject, y: number): void {
    const { colours } = this;
    const columns = this.subjects.rows.first.length;
    const x = (column: number) => rect.x + (column / columns) * rect.width;
    const width = rect.width / columns;
    const middle = y + kRowHeight / 2;
    for (const row of subject.marks) {
      const at = x(this.subjects.place[row] + 0.5);
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
  }

  // Below the map: round numbers of ranks, and triangles at outliers.
  private drawRanks(pen: Pen, rect: Rect): void {
    const { colours } = this;
    const { rows } = this.subjects;
    const columns = rows.first.length;
    const x = (column: number) => rect.x + (column / columns) * rect.width;
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
    for (const tick of rowTicks(rows, this.subjects.outliers, 0, columns, Math.max(2, rect.width / 60))) {
      line(pen, x(tick.row), bottom + 1, x(tick.row), bottom + 5, colours.faint);
      text(pen, x(tick.row), headY, String(tick.rank), { align: "center", colour: colours.muted, font: colours.font });
    }
    text(pen, rect.x - 10, headY, "rank", { align: "right", colour: colours.muted, font: colours.font });
    pen.context.fillStyle = colours.accent;
    for (let row = 0; row < columns; ++row) {
      if (!this.subjects.outliers[row]) continue;
      pen.context.beginPath();
      pen.context.moveTo(x(row + 0.5) - 3, bottom + 6);
      pen.context.lineTo(x(row + 0.5), bottom + 1);
      pen.context.lineTo(x(row + 0.5) + 3, bottom + 6);
      pen.context.fill();
    }
  }

  protected override drawOver(pen: Pen): void {
    const rect = this.rect(pen.width);
    const { context } = pen;
    const columns = this.subjects.rows.first.length;
    const x = (column: number) => rect.x + (column / columns) * rect.width;
    if (this.subjects.chosen) {
      context.fillStyle = withAlpha(rgb(this.colours.surface), 0.62);
      let begin = -1;
      for (let i = 0; i <= columns; ++i) {
        const hidden = i < columns && !(this.subjects.chosen[this.subjects.order[i]] > 0);
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

  private at(x: number, y: number): Cell | null {
    const rect = this.rect(this.surface.width);
    const columns = this.subjects.rows.first.length;
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
    const columns = this.subjects.rows.first.length;
    const column = (x: number) => ((x - rect.x) / rect.width) * columns;
    return draggedSpan(column(this.drag.x0), column(this.drag.x), 0, columns, 0, 0, 1);
  }

  private selectSpan([from, to]: [number, number]): void {
    this.subjects.store.select({ ranks: this.subjects.ranksOf(this.subjects.order.slice(from, to)), nodes: null });
  }

  private listen(): void {
    const { root } = this.surface;
    root.classList.add("chart-pick");
    root.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const [x, y] = this.surface.at(event);
      this.drag = { x0: x, y0: y, x, y };
      root.setPointerCapture(event.pointerId);
    });
    root.addEventListener("pointermove", (event) => {
      const [x, y] = this.surface.at(event);
      if (this.drag) {
        this.drag.x = x;
        this.drag.y = y;
      }
      const at = this.at(x, y);
      this.hover = at && at.row >= 0 ? at : null;
      if (at && !this.drag) this.showTipAt(at, event.clientX, event.clientY);
      else hideTip();
      this.surface.redrawOver();
    });
    root.addEventListener("pointerup", (event) => {
      const span = this.drag ? this.dragged(this.rect(this.surface.width)) : null;
      this.drag = null;
      if (span) this.selectSpan(span);
      else {
        const at = this.at(...this.surface.at(event));
        if (at) this.show(this.shown[at.place]);
      }
      this.surface.redrawOver();
    });
    root.addEventListener("pointercancel", () => (this.drag = null));
    root.addEventListener("pointerleave", () => {
      this.hover = null;
      hideTip();
      this.surface.redrawOver();
    });
    root.addEventListener("dblclick", () => this.subjects.store.select({ ranks: null, nodes: null }));
    root.addEventListener("blur", () => {
      this.cursor = null;
      this.anchor = null;
      this.surface.redrawOver();
    });
    root.addEventListener("keydown", (event) => this.onKey(event));
  }

  private onKey(event: KeyboardEvent): void {
    const step = (
      { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] } as Record<
        string,
        [number, number]
      >
    )[event.key];
    if (step) {
      const far = event.ctrlKey ? 10 : 1;
      const from = this.cursor ?? { place: Math.max(0, this.shown.indexOf(this.open()!)), row: 0 };
      if (!event.shiftKey) this.anchor = null;
      else this.anchor ??= from.row;
      this.cursor = {
        place: clamp(from.place + step[1], 0, this.shown.length - 1),
        row: clamp(from.row + step[0] * far, 0, this.subjects.rows.first.length - 1),
      };
      if (this.anchor !== null)
        this.selectSpan([Math.min(this.anchor, this.cursor.row), Math.max(this.anchor, this.cursor.row) + 1]);
      replace(this.announcement, this.cellText(this.cursor));
    } else if (event.key === "Enter" && this.cursor) this.show(this.shown[this.cursor.place]);
    else if (event.key === "Escape" && this.subjects.chosen) this.subjects.store.select({ ranks: null, nodes: null });
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.surface.redrawOver();
  }

  private cellText({ place, row }: Cell): string {
    const subject = this.shown[place];
    const value = subject.byRow[this.subjects.order[row]];
    const relative = subject.relative[this.subjects.order[row]];
    const node = this.subjects.rows.node[row];
    const name = node === kNoNode ? "" : ` on ${printable(this.subjects.model.nodes[node]?.name ?? "")}`;
    return `${rowLabel(this.subjects.rows, row)}${name}: ${subject.format(value)}, ${relative >= 0 ? "+" : "\u2212"}${percent(Math.abs(relative), 0)} of the mean`;
  }

  private showTipAt(at: Cell, x: number, y: number): void {
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
}
