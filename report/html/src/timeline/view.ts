// SPDX-License-Identifier: BSD-3-Clause
// Which part of the timeline is shown, and where: the time and the rows that the reader zoomed to, the series that colours
// the map, and the coordinates that all strips share.
import { clamp, niceCeiling, type Span, zoomed } from "../charts/numbers";
import type { Rect } from "../charts/raster";
import { rowAt } from "../charts/rows";
import type { Store } from "../core/selection";
import type { Content } from "./content";
import type { Series } from "./series";

export const kGutter = 124; // left of what shares the time axis
export const kMargin = 118; // right of it

// The part of a strip that shares the time axis.
export const plotRect = (width: number, top: number, height: number): Rect => ({
  x: kGutter,
  y: top,
  width: Math.max(10, width - kGutter - kMargin),
  height,
});

const zoomParam = (span: Span): string => `${Number(span[0].toPrecision(9))}_${Number(span[1].toPrecision(9))}`;

export class View {
  mapHeight = 0;

  constructor(
    readonly store: Store,
    private readonly content: Content,
  ) {}

  get time(): Span {
    const match = /^(-?[\d.e-]+)_(-?[\d.e-]+)$/.exec(this.store.param("zoom") ?? "");
    if (match) {
      const from = clamp(Number(match[1]), this.content.axis.begin_s, this.content.end_s);
      const to = clamp(Number(match[2]), this.content.axis.begin_s, this.content.end_s);
      if (to > from) return [from, to];
    }
    return [this.content.axis.begin_s, this.content.end_s];
  }

  get rowSpan(): Span {
    const count = this.content.rows.first.length;
    const match = /^(\d+)_(\d+)$/.exec(this.store.param("rows") ?? "");
    if (match) {
      const from = clamp(Number(match[1]), 0, count);
      const to = clamp(Number(match[2]), 0, count);
      if (to > from) return [from, to];
    }
    return [0, count];
  }

  get measure(): Series | null {
    const name = this.store.param("by");
    return (
      this.content.series.find((series) => series.name === name) ??
      (this.content.categories.length > 0 ? null : (this.content.series[0] ?? null))
    );
  }

  // The largest value that the colours and charts of a series tell apart.
  limitOf(series: Series): number {
    if (series.unit === "share" && series.category) return 1;
    return niceCeiling(series.rows.reduce((high, value) => (value > high ? value : high), 0) * series.scale);
  }

  fitMapHeight(): number {
    const [from, to] = this.rowSpan;
    const most = clamp(Math.round(window.innerHeight * 0.46), 240, 520);
    const each = clamp(160 / (to - from), 18, 32);
    this.mapHeight = clamp(Math.round((to - from) * each), 32, most) + 34;
    return this.mapHeight;
  }

  mapRect(width: number): Rect {
    return plotRect(width, 8, this.mapHeight - 34);
  }

  x(time: number, rect: Rect): number {
    const [t0, t1] = this.time;
    return rect.x + ((time - t0) / (t1 - t0)) * rect.width;
  }

  timeAt(x: number, width: number): number {
    const [t0, t1] = this.time;
    return t0 + ((x - kGutter) / Math.max(10, width - kGutter - kMargin)) * (t1 - t0);
  }

  rowAtY(y: number, width: number): number {
    const rect = this.mapRect(width);
    const [r0, r1] = this.rowSpan;
    return rowAt(r0, r1, (y - rect.y) / rect.height, this.content.rows.first.length);
  }

  zoomOut(): void {
    this.store.setParams({ zoom: null, rows: null });
  }

  zoomToSelection(): void {
    const { time } = this.store.selection;
    const values: Record<string, string> = {};
    if (time) {
      const { bin_s } = this.content.axis;
      const span: Span =
        time[1] - time[0] < 4 * bin_s
          ? zoomed(time, (time[0] + time[1]) / 2, (4 * bin_s) / (time[1] - time[0]), this.content.axis.begin_s, this.content.end_s, 0)
          : time;
      values.zoom = zoomParam(span);
    }
    if (this.content.chosen && this.content.chosen.length > 0) {
      const chosen = new Set(this.content.chosen);
      let low = Infinity;
      let high = 0;
      this.content.order.forEach((row, i) => {
        if (!chosen.has(row)) return;
        low = Math.min(low, i);
        high = i + 1;
      });
      values.rows = `${low}_${high}`;
    }
    this.store.setParams(values);
  }

  zoomAbout(centre: number, factor: number): void {
    const [from, to] = zoomed(this.time, centre, factor, this.content.axis.begin_s, this.content.end_s, 4 * this.content.axis.bin_s);
    const whole = from <= this.content.axis.begin_s + 1e-12 && to >= this.content.end_s - 1e-12;
    this.store.setParam("zoom", whole ? null : zoomParam([from, to]));
  }
}
