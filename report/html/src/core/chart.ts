// SPDX-License-Identifier: BSD-3-Clause
// Lines over time with uPlot, in the page's colours.
import uPlot from "uplot";
import { cssColour } from "./colours";
import { el } from "./dom";
import { clock } from "./format";

export interface ChartSeries {
  label: string;
  colour: string; // a CSS variable: "--cat-mpi"
  values: ArrayLike<number | null>;
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

export interface Chart {
  root: HTMLElement;
  mark(range: readonly [number, number] | null): void;
  destroy(): void;
}

// Steps of the time axis: those that clock() writes exactly.
const TIME_STEPS = [
  ...[-6, -5, -4, -3, -2, -1, 0].flatMap((power) => [1, 2, 5].map((n) => n * 10 ** power)),
  ...[10, 20, 30],
  ...[1, 2, 5, 10, 20, 30].map((minutes) => 60 * minutes),
  ...[1, 2, 6, 12, 24, 48, 120].map((hours) => 3600 * hours),
];

export function lineChart(options: ChartOptions): Chart {
  const root = el("div", { class: "chart", role: "img", "aria-label": options.label });
  const span = options.x.length ? options.x[options.x.length - 1] - options.x[0] : 0;
  let marked = options.marked ?? null;
  let plot: uPlot | null = null;
  const height = options.height ?? 120;

  function make(width: number): uPlot {
    const text = cssColour("--text-2");
    const grid = cssColour("--line");
    const font = `11px ${cssColour("--font")}`;
    const axis = {
      stroke: text,
      font,
      grid: { stroke: grid, width: 1 },
      ticks: { stroke: grid, width: 1, size: 4 },
      gap: 4,
    };
    const made = new uPlot(
      {
        width,
        height,
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
        axes: [
          { ...axis, size: 24, incrs: TIME_STEPS, values: (_u, values) => values.map((v) => clock(v, span)) },
          { ...axis, size: 64, values: (_u, values) => values.map((v) => options.format(v)) },
        ],
        series: [
          { label: "Time", value: (_u, v) => (v === null ? "" : clock(v, span / 100)) },
          ...options.series.map((s) => ({
            label: s.label,
            stroke: cssColour(s.colour),
            width: 1.5,
            ...(s.dashed ? { dash: [4, 3] } : {}),
            points: { show: false },
            value: (_u: uPlot, v: number | null) => (v === null ? "" : options.format(v)),
          })),
        ],
        bands: (options.bands ?? []).map(([upper, lower, colour]) => ({
          series: [upper + 1, lower + 1],
          fill: cssColour(colour),
        })),
        hooks: {
          drawClear: [
            (u) => {
              if (!marked) return;
              const left = Math.max(u.bbox.left, u.valToPos(marked[0], "x", true));
              const right = Math.min(u.bbox.left + u.bbox.width, u.valToPos(marked[1], "x", true));
              if (right <= left) return;
              u.ctx.fillStyle = cssColour("--marked");
              u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
            },
          ],
          setSelect: [
            (u) => {
              if (u.select.width < 3) return;
              const range: [number, number] = [
                u.posToVal(u.select.left, "x"),
                u.posToVal(u.select.left + u.select.width, "x"),
              ];
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              options.onSelect?.(range);
            },
          ],
        },
      },
      [options.x, ...options.series.map((s) => s.values)] as unknown as uPlot.AlignedData,
      root,
    );
    return made;
  }

  const observer = new ResizeObserver(() => {
    const width = Math.floor(root.clientWidth);
    if (width < 10) return;
    if (!plot) plot = make(width);
    else if (plot.width !== width) plot.setSize({ width, height });
  });
  observer.observe(root);
  return {
    root,
    mark(range) {
      marked = range;
      plot?.redraw(false);
    },
    destroy() {
      observer.disconnect();
      plot?.destroy();
    },
  };
}
