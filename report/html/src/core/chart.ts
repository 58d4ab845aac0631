// SPDX-License-Identifier: BSD-3-Clause
// Lines over time with uPlot, in the page's colours.
import uPlot from "uplot";
import { cssColour } from "./colours";
import { el } from "./dom";
import { clock } from "./format";

export interface ChartSeries {
  label: string;
  colour: string; // a CSS variable: "--cat-mpi"; or a colour
  values: ArrayLike<number | null>;
  own?: ArrayLike<number>; // what the legend says, where `values` are of a stack: from its bottom to here
  dashed?: boolean;
}

export interface ChartOptions {
  label: string;
  x: ArrayLike<number>; // seconds
  series: ChartSeries[];
  bands?: [number, number, string][]; // fills between two series: upper, lower, CSS variable
  height?: number;
  maximum?: number | null; // of the y axis; null: that of the data
  format(value: number | null | undefined): string;
  onSelect?(range: [number, number]): void; // dragged
  marked?: readonly [number, number] | null; // the chosen range
  sync?: string; // charts of the same name share the cursor
}

// Steps of the time axis: those that clock() writes exactly.
const TIME_STEPS = [
  ...[-6, -5, -4, -3, -2, -1, 0].flatMap((power) => [1, 2, 5].map((n) => n * 10 ** power)),
  ...[10, 20, 30],
  ...[1, 2, 5, 10, 20, 30].map((minutes) => 60 * minutes),
  ...[1, 2, 6, 12, 24, 48, 120].map((hours) => 3600 * hours),
];

const colourOf = (colour: string): string => (colour.startsWith("--") ? cssColour(colour) : colour);

export class LineChart {
  readonly root: HTMLElement;
  private readonly span: number; // seconds
  private readonly height: number;
  private readonly observer: ResizeObserver;
  private marked: readonly [number, number] | null;
  private plot: uPlot | null = null; // once there is room for it

  constructor(private readonly options: ChartOptions) {
    const { x } = options;
    this.root = el("div", { class: "chart", role: "img", "aria-label": options.label });
    this.span = x.length ? x[x.length - 1] - x[0] : 0;
    this.height = options.height ?? 120;
    this.marked = options.marked ?? null;
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.root);
  }

  mark(range: readonly [number, number] | null): void {
    this.marked = range;
    this.plot?.redraw(false);
  }

  destroy(): void {
    this.observer.disconnect();
    this.plot?.destroy();
  }

  private resize(): void {
    const width = Math.floor(this.root.clientWidth);
    if (width < 10) return;
    if (!this.plot) this.plot = this.makePlot(width);
    else if (this.plot.width !== width) this.plot.setSize({ width, height: this.height });
  }

  private makePlot(width: number): uPlot {
    const { options } = this;
    return new uPlot(
      {
        width,
        height: this.height,
        padding: [6, 8, 0, 0],
        cursor: {
          y: false,
          drag: { x: true, y: false, setScale: false },
          points: { size: 5 },
          ...(options.sync ? { sync: { key: options.sync } } : {}),
        },
        legend: { live: true, markers: { dash: (u, i) => (u.series[i].dash ? "dashed" : "solid") } },
        scales: {
          x: { time: false },
          y: { range: (_u, _min, max) => [0, options.maximum ?? (max > 0 ? max * 1.05 : 1)] },
        },
        axes: this.axes(),
        series: this.series(),
        bands: (options.bands ?? []).map(([upper, lower, colour]) => ({
          series: [upper + 1, lower + 1],
          fill: cssColour(colour),
        })),
        hooks: { drawClear: [(u) => this.drawMarked(u)], setSelect: [(u) => this.take(u)] },
      },
      [options.x, ...options.series.map((s) => s.values)] as unknown as uPlot.AlignedData,
      this.root,
    );
  }

  private axes(): uPlot.Axis[] {
    const { options, span } = this;
    const grid = cssColour("--line");
    const axis = {
      stroke: cssColour("--text-2"),
      font: `11px ${cssColour("--font")}`,
      grid: { stroke: grid, width: 1 },
      ticks: { stroke: grid, width: 1, size: 4 },
      gap: 4,
    };
    return [
      { ...axis, size: 24, incrs: TIME_STEPS, values: (_u, values) => values.map((v) => clock(v, span)) },
      { ...axis, size: 64, values: (_u, values) => values.map((v) => options.format(v)) },
    ];
  }

  private series(): uPlot.Series[] {
    const { options, span } = this;
    return [
      { label: "Time", value: (_u, v) => (v === null ? "" : clock(v, span / 100)) },
      ...options.series.map((s) => ({
        label: s.label,
        stroke: colourOf(s.colour),
        width: s.own ? 1 : 1.5,
        ...(s.own ? { fill: colourOf(s.colour) } : {}),
        ...(s.dashed ? { dash: [4, 3] } : {}),
        points: { show: false },
        value: (_u: uPlot, v: number | null, _s: number, at: number | null) =>
          v === null || v === undefined ? "" : options.format(s.own && at !== null ? s.own[at] : v),
      })),
    ];
  }

  // The chosen range, behind the lines.
  private drawMarked(u: uPlot): void {
    if (!this.marked) return;
    const left = Math.max(u.bbox.left, u.valToPos(this.marked[0], "x", true));
    const right = Math.min(u.bbox.left + u.bbox.width, u.valToPos(this.marked[1], "x", true));
    if (right <= left) return;
    u.ctx.fillStyle = cssColour("--marked");
    u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
  }

  // What was dragged.
  private take(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 3) return;
    const range: [number, number] = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.options.onSelect?.(range);
  }
}
