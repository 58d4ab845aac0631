// SPDX-License-Identifier: BSD-3-Clause
// The bar chart of the largest resident memory by rank.
import { cssColour } from "../core/colours";
import { type Child, el, hideTip, showTip } from "../core/dom";
import { bytes, plural, printable } from "../core/format";
import { RankSet, type Store } from "../core/selection";

const kHeight = 170;
const kLeft = 64; // for the axis
const kRight = 4;
const kBottom = 20;
const kTop = 8;
const kLeastBarWidth = 2;

// Ranks that share a bar: `from` to before `to`.
interface Column {
  from: number;
  to: number;
  largest: number; // the rank with most
  least_bytes: number;
}

// The first of the steps 1, 2, 5, 10 … that leaves room for the labels.
function axisStep(most: number): number {
  const ten = 10 ** Math.floor(Math.log10(most / 3));
  return [1, 2, 5, 10].map((m) => m * ten).find((step) => most / step <= 4.5) ?? most;
}

// One bar per rank; where there are more ranks than columns, the largest of those that share one, and the
// smallest in a lighter colour.
export class RankChart {
  readonly root: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly rss_bytes: Float32Array;
  private readonly numbers: Int32Array;
  private readonly most_bytes: number;
  private readonly observer: ResizeObserver;
  private columns: Column[] = [];
  private width = 0;
  private chosen = -1; // the column that pointer or keys are at

  // `ranks`: by index, in the order of the bars.
  constructor(
    private readonly store: Store,
    private readonly ranks: readonly number[],
  ) {
    const rss_bytes = store.model.f32("rank_max_rss_bytes");
    this.rss_bytes = rss_bytes;
    this.numbers = store.model.i32("rank_number");
    this.most_bytes = ranks.reduce((most, i) => Math.max(most, rss_bytes[i]), 0);
    this.canvas = el("canvas", {
      tabindex: 0,
      role: "img",
      "aria-label": `Largest resident memory of ${plural(ranks.length, "rank")}: arrow keys move, Enter chooses a rank`,
    });
    this.root = el("div", { class: "rank-chart" }, this.canvas);
    this.listen();
    this.observer = new ResizeObserver(() => {
      if (Math.floor(this.root.clientWidth) === this.width) return;
      this.layout();
      this.draw();
    });
    this.observer.observe(this.root);
  }

  destroy(): void {
    this.observer.disconnect();
  }

  private layout(): void {
    this.width = Math.floor(this.root.clientWidth);
    const room = Math.max(1, this.plotWidth());
    const number = Math.min(this.ranks.length, Math.floor(room / kLeastBarWidth));
    this.columns = Array.from({ length: number }, (_, c) => this.column(c, number));
  }

  private plotWidth(): number {
    return this.width - kLeft - kRight;
  }

  private column(c: number, columns: number): Column {
    const { ranks, rss_bytes } = this;
    const from = Math.floor((c * ranks.length) / columns);
    const to = Math.floor(((c + 1) * ranks.length) / columns);
    let [largest, least_bytes] = [from, rss_bytes[ranks[from]]];
    for (let i = from; i < to; ++i) {
      if (rss_bytes[ranks[i]] > rss_bytes[ranks[largest]]) largest = i;
      least_bytes = Math.min(least_bytes, rss_bytes[ranks[i]]);
    }
    return { from, to, largest: ranks[largest], least_bytes };
  }

  private draw(): void {
    const { canvas, width } = this;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(kHeight * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${kHeight}px`;
    const context = canvas.getContext("2d");
    if (!context || this.columns.length === 0) return;
    context.scale(ratio, ratio);
    context.font = `11px ${cssColour("--font")}`;
    const pixels = (kHeight - kBottom - kTop) / this.most_bytes; // of a byte
    this.drawAxis(context, pixels);
    this.drawBars(context, pixels);
    this.drawEnds(context);
  }

  private drawAxis(context: CanvasRenderingContext2D, pixels: number): void {
    const { most_bytes, width } = this;
    context.fillStyle = cssColour("--text-2");
    context.strokeStyle = cssColour("--line");
    context.textAlign = "right";
    context.textBaseline = "middle";
    const step = axisStep(most_bytes);
    for (let value = 0; value <= most_bytes; value += step) {
      const y = kHeight - kBottom - value * pixels;
      context.beginPath();
      context.moveTo(kLeft, Math.round(y) + 0.5);
      context.lineTo(width, Math.round(y) + 0.5);
      context.stroke();
      context.fillText(value === 0 ? "0" : bytes(value), kLeft - 8, y);
    }
  }

  private drawBars(context: CanvasRenderingContext2D, pixels: number): void {
    const { columns, rss_bytes } = this;
    const step = this.plotWidth() / columns.length;
    const width = Math.max(1, step > 4 ? step - 1 : step);
    const [full, soft, bright] = [cssColour("--cat-python"), cssColour("--accent-soft"), cssColour("--cat-mpi")];
    columns.forEach((column, c) => {
      const x = kLeft + c * step;
      const most = rss_bytes[column.largest];
      const top = kHeight - kBottom - most * pixels;
      context.fillStyle = c === this.chosen ? bright : full;
      context.fillRect(x, top, width, most * pixels);
      if (column.to - column.from > 1 && column.least_bytes < most * 0.98) {
        context.fillStyle = soft;
        context.globalAlpha = 0.45;
        context.fillRect(x, top, width, (most - column.least_bytes) * pixels);
        context.globalAlpha = 1;
      }
    });
  }

  private drawEnds(context: CanvasRenderingContext2D): void {
    const { numbers, ranks, width } = this;
    context.fillStyle = cssColour("--text-2");
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillText(`rank ${numbers[ranks[0]]}`, kLeft, kHeight - 5);
    context.textAlign = "right";
    if (ranks.length > 1)
      context.fillText(`rank ${numbers[ranks[ranks.length - 1]]}`, width - kRight, kHeight - 5);
  }

  private listen(): void {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) =>
      this.point(this.columnAt(event.offsetX), event.clientX, event.clientY),
    );
    canvas.addEventListener("pointerleave", () => this.point(-1, 0, 0));
    canvas.addEventListener("click", () => this.select());
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) this.move(step);
      else if (event.key === "Enter") this.select();
      else return;
      event.preventDefault();
    });
  }

  // -1: none.
  private columnAt(x: number): number {
    const { columns } = this;
    const c = Math.floor(((x - kLeft) / this.plotWidth()) * columns.length);
    return c >= 0 && c < columns.length ? c : -1;
  }

  private move(step: number): void {
    const { columns } = this;
    const next = Math.max(0, Math.min(columns.length - 1, this.chosen + step));
    const box = this.canvas.getBoundingClientRect();
    const x = box.left + kLeft + ((next + 0.5) * (this.width - kLeft)) / columns.length;
    this.point(next, x, box.top + 40);
  }

  // The tip is at a point of the window.
  private point(c: number, x: number, y: number): void {
    if (c !== this.chosen) {
      this.chosen = c;
      this.draw();
    }
    const column = this.columns[c];
    if (column) showTip(() => this.tip(column), x, y);
    else hideTip();
  }

  private tip({ from, to, largest, least_bytes }: Column): Child {
    const { numbers, ranks, rss_bytes } = this;
    const { model } = this.store;
    const several = to - from > 1;
    return [
      several ? [`ranks ${numbers[ranks[from]]}–${numbers[ranks[to - 1]]}`, el("br")] : null,
      el("strong", null, `rank ${numbers[largest]}  ${bytes(rss_bytes[largest])}`),
      el("br"),
      printable(model.nodes[model.u32("rank_node")[largest]]?.name ?? ""),
      several ? `, least ${bytes(least_bytes)}` : null,
    ];
  }

  // Once more: all ranks again.
  private select(): void {
    const column = this.columns[this.chosen];
    if (!column) return;
    const { store } = this;
    const ranks = RankSet.of(this.ranks.slice(column.from, column.to).map((i) => this.numbers[i]));
    hideTip();
    store.select({ ranks: ranks.equals(store.selection.ranks) ? null : ranks });
  }
}
