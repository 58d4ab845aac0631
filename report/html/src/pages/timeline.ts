// SPDX-License-Identifier: BSD-3-Clause
// Rank x time as a heat map, below it what all ranks together did; dragging selects for all pages.
import { blend, packed, shades, withAlpha } from "../charts/colour";
import { drawTimeAxis, frame, ink, type Ink, line, text } from "../charts/drawing";
import { clamp, draggedSpan, niceCeiling, type Span, zoomed } from "../charts/numbers";
import { drawRaster, type Rect, type Shade } from "../charts/raster";
import {
  type Band,
  bandOf,
  kNoNode,
  nodeSpans,
  outliersOf,
  reordered,
  rowAt,
  rowLabel,
  rowOrder,
  type Rows,
  rowTicks,
  shareOfPaths,
} from "../charts/rows";
import { type Pen, sharp, Surface } from "../charts/surface";
import {
  canvasCategory,
  categoryColour,
  categoryRgb,
  CATEGORY_HELP,
  CATEGORY_TITLES,
  cssColour,
  rgb,
  sequentialTable,
} from "../core/colours";
import { type Child, type Column, el, hideTip, replace, section, showTip, table } from "../core/dom";
import {
  percent,
  plural,
  printable,
  seriesTitle,
  type SeriesUnit,
  seriesUnit,
  seriesValue,
  timeRange,
} from "../core/format";
import { type Axis, CATEGORIES, type Category, type Model } from "../core/model";
import { binParts, binSeconds, rowSeconds, rowShares } from "../core/over_time";
import type { Page, PageHandle } from "../core/page";
import type { EfficiencyWindow } from "../core/report";
import { bindKeys } from "../core/keys";
import { RankSet, type Store } from "../core/selection";
import { regionMask } from "../core/weights";

const kGutter = 124; // left of what shares the time axis
const kMargin = 118; // right of it
const kBandHeight = 46;
const kShadeSteps = 48;
const kLaneHeight = 17;
const kMostLanes = 8;

interface Series {
  index: number;
  name: string;
  title: string;
  unit: SeriesUnit;
  scale: number; // value of a bin to its unit
  category: Category | null;
  rows: Float32Array; // in the order of the data; of categories their shares
}

const limitText = (limit: number, unit: SeriesUnit): string =>
  unit === "share" ? percent(limit, limit < 0.095 ? 1 : 0) : seriesValue(limit, unit);

function seriesOf(model: Model): Series[] {
  const { axis } = model.header;
  const shares = rowShares(model);
  const all = model.header.series.map((info, index): Series => {
    const unit = seriesUnit(info.name, info.maximum);
    const category = CATEGORIES.find((c) => info.name === `${c}_ns`) ?? null;
    return {
      index,
      name: info.name,
      title: category ? CATEGORY_TITLES[category] : seriesTitle(info.name),
      unit,
      scale: category || unit === "bytes" ? 1 : unit === "share" ? 1e-9 / axis.bin_s : 1 / axis.bin_s,
      category,
      rows: (category && shares[CATEGORIES.indexOf(category)]) ?? model.f32(`series_${index}`),
    };
  });
  const present = all.filter((series) => series.rows.some((value) => value > 0));
  // Categories, what every run has, counters.
  const known = [
    ...CATEGORIES.map((category) => `${category}_ns`),
    "cpu_user_ns",
    "cpu_system_ns",
    "rss_bytes",
    "read_bytes",
    "write_bytes",
    "minor_faults",
    "major_faults",
    "voluntary_switches",
    "involuntary_switches",
  ];
  const order = (series: Series) => (known.includes(series.name) ? known.indexOf(series.name) : known.length);
  return present.sort((a, b) => order(a) - order(b) || a.index - b.index);
}

interface Lane {
  name: string;
  depth: number;
  share: number; // of all ranks' time
  values: Float32Array; // share of each bin of the call paths' time
}

// The regions with most time, parents first.
function lanesOf(model: Model): Lane[] {
  const { time } = model.header;
  if (!time || time.bins === 0) return [];
  const regions = model.report.regions ?? [];
  const least = [...regions].sort((a, b) => b.sampled_s - a.sampled_s)[kMostLanes - 1]?.sampled_s ?? 0;
  return regions
    .filter((region) => region.sampled_s > 0 && region.sampled_s >= least)
    .slice(0, kMostLanes)
    .map((region) => ({
      name: region.name,
      depth: region.name.split("/").length - 1,
      share: region.share,
      values: shareOfPaths(model.f32("path_time"), time.bins, regionMask(model, region.name)),
    }));
}

interface Drag {
  surface: Surface;
  x0: number;
  y0: number;
  x: number;
  y: number;
}

class Timeline {
  private readonly model: Model;
  private readonly axis: Axis;
  private readonly series: Series[];
  private readonly categories: Series[];
  private readonly rows: Rows; // in the order of the map
  private readonly order: Uint32Array; // row of the map -> row of the data
  private readonly outliers: Uint8Array;
  private readonly end_s: number;
  private readonly windows: readonly EfficiencyWindow[];

  private readonly map: Surface;
  private readonly bands: Surface;
  private readonly windowStrip: Surface | null = null;
  private readonly lanes: Lane[];
  private readonly laneStrip: Surface | null = null;
  private readonly unbind: () => void;
  private readonly said = el("p", { class: "visually-hidden", "aria-live": "polite" });
  private readonly legend = el("div", { class: "chart-legend" });
  private readonly zoomButton = el(
    "button",
    { type: "button", on: { click: () => this.zoomToSelection() } },
    "Zoom to selection",
  );
  private readonly outButton = el("button", { type: "button", on: { click: () => this.zoomOut() } }, "Whole run");
  private readonly figures = el("div");
  private readonly bandNote = el("span");
  private readonly regionNote = el("span", { class: "whole-run" });

  private colours: Ink = ink();
  private drag: Drag | null = null;
  private hover: { time: number; row: number | null; band: number | null } | null = null;
  private cursor: { bin: number; row: number } | null = null;
  private anchor: { bin: number; row: number } | null = null;
  private weights: Float64Array = new Float64Array(0); // chosen ranks of each row of the data
  private chosen: Uint32Array | null = null; // rows of the data; null: all
  private bandCache: Band[] = [];
  private seconds: Float64Array[] = []; // by category: of the chosen ranks in each bin
  private bandKey: string | null = null;

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    const { model } = store;
    this.model = model;
    this.axis = model.header.axis;
    this.series = seriesOf(model);
    this.categories = this.series.filter((series) => series.category);
    const data: Rows = {
      first: model.i32("row_first_rank"),
      last: model.i32("row_last_rank"),
      ranks: model.u32("row_ranks"),
      node: model.u32("row_node"),
    };
    this.order = rowOrder(data);
    this.rows = reordered(data, this.order);
    this.outliers = outliersOf(this.rows);
    // The last bin begins before the run's end: what lies behind it is empty.
    const { begin_s, bin_s, bins } = this.axis;
    this.end_s = begin_s + clamp(Math.ceil((model.elapsed - begin_s) / bin_s - 1e-9), 1, bins) * bin_s;
    this.windows = model.report.efficiency_windows ?? [];

    this.lanes = lanesOf(model);
    const tools = el(
      "div",
      { class: "chart-tools" },
      this.measureControl(),
      this.legend,
      el("span", { class: "gap" }),
      el("span", { class: "chart-field" }, this.zoomButton, this.outButton),
    );
    const mapBox = section("Ranks over time", { class: "chart-card", aside: this.hint() }, tools);
    root.append(mapBox);
    if (this.windows.length > 0)
      this.windowStrip = new Surface(mapBox, {
        height: 64,
        label: this.windowsLabel(),
        draw: (pen) => this.drawWindows(pen),
        drawOver: (pen) => this.drawStripOver(pen, 6, 52),
      });
    if (this.lanes.length > 0)
      this.laneStrip = new Surface(mapBox, {
        height: this.lanes.length * kLaneHeight + 6,
        label: `Regions over time: ${this.lanes.map((lane) => `${printable(lane.name)} ${percent(lane.share)}`).join(", ")}. Regions are chosen at the top of the page.`,
        draw: (pen) => this.drawLanes(pen),
        drawOver: (pen) => this.drawStripOver(pen, 1, this.lanes.length * kLaneHeight),
      });
    this.map = new Surface(mapBox, {
      height: this.mapHeight(),
      label: "",
      interactive: true,
      draw: (pen) => this.drawMap(pen),
      drawOver: (pen) => this.drawMapOver(pen),
    });
    mapBox.append(this.said);
    const bandBox = section("Ranks together", { class: "chart-card", aside: this.bandNote });
    root.append(bandBox);
    this.bands = new Surface(bandBox, {
      height: this.series.length * kBandHeight + 22,
      label: `Least, mean and largest value over ranks by time of ${this.series.map((series) => series.title).join(", ")}.`,
      draw: (pen) => this.drawBands(pen),
      drawOver: (pen) => this.drawStripOver(pen, 0, this.series.length * kBandHeight),
    });
    root.append(section("In numbers", { class: "chart-card" }, this.figures));

    this.listen(this.map);
    this.listen(this.bands);
    if (this.windowStrip) this.listen(this.windowStrip);
    if (this.laneStrip) this.listen(this.laneStrip);
    this.unbind = bindKeys([
      {
        key: "m",
        help: "To the map of ranks; arrow keys move, with Shift they select, Enter zooms in, Escape clears",
        run: () => this.map.root.focus(),
      },
      { key: "z", help: "Zoom to what is selected", run: () => this.zoomToSelection() },
      { key: "w", help: "Zoom out to the whole run", run: () => this.zoomOut() },
    ]);
    this.map.root.addEventListener("keydown", (event) => this.onKey(event));
    this.map.root.addEventListener("blur", () => {
      this.cursor = this.anchor = null;
      this.overlays();
    });
    this.update();
  }

  destroy(): void {
    hideTip();
    this.unbind();
    for (const surface of this.surfaces()) surface.destroy();
  }

  update(): void {
    this.colours = ink();
    const mask = this.store.rankMask();
    const rowOfRank = this.model.u32("row_of_rank");
    this.weights = new Float64Array(this.rows.first.length);
    for (let i = 0; i < rowOfRank.length; ++i) if (!mask || mask[i]) ++this.weights[rowOfRank[i]];
    this.chosen = mask ? Uint32Array.from(this.weights.keys()).filter((row) => this.weights[row] > 0) : null;
    const key = this.chosen ? Array.from(this.chosen, (row) => `${row}:${this.weights[row]}`).join() : "";
    if (key !== this.bandKey) {
      this.bandKey = key;
      this.seconds = binSeconds(this.store);
      this.bandCache = this.series.map((series) => this.bandFor(series));
    }
    const several = this.rows.first.length < this.model.rankCount;
    replace(
      this.bandNote,
      this.chosen
        ? `least, mean, largest over ${plural(
            this.weights.reduce((a, b) => a + b, 0),
            "selected rank",
          )}${several ? "; of ranges of ranks their mean" : ""}`
        : `least, mean, largest over ${plural(this.model.rankCount, "rank")}`,
    );
    replace(
      this.regionNote,
      this.store.selection.region === null ? null : "of the whole run, not the region alone \u00b7 ",
      mask && (this.windowStrip || this.laneStrip)
        ? `${[this.windowStrip ? "efficiency" : "", this.laneStrip ? "regions" : ""].filter(Boolean).join(" and ")} of all ranks \u00b7 `
        : null,
    );
    this.map.setHeight(this.mapHeight());
    this.map.setLabel(this.mapLabel());
    this.drawLegend();
    this.drawFigures();
    const { time, ranks, nodes } = this.store.selection;
    this.zoomButton.disabled = !(time || ranks || nodes);
    this.outButton.disabled = !this.store.param("zoom") && !this.store.param("rows");
    for (const surface of this.surfaces()) surface.redraw();
  }

  // --- What is shown

  private surfaces(): Surface[] {
    return [this.map, this.bands, this.windowStrip, this.laneStrip].filter((surface) => surface !== null);
  }

  private get timeView(): Span {
    const match = /^(-?[\d.e-]+)_(-?[\d.e-]+)$/.exec(this.store.param("zoom") ?? "");
    if (match) {
      const from = clamp(Number(match[1]), this.axis.begin_s, this.end_s);
      const to = clamp(Number(match[2]), this.axis.begin_s, this.end_s);
      if (to > from) return [from, to];
    }
    return [this.axis.begin_s, this.end_s];
  }

  private get rowView(): Span {
    const count = this.rows.first.length;
    const match = /^(\d+)_(\d+)$/.exec(this.store.param("rows") ?? "");
    if (match) {
      const from = clamp(Number(match[1]), 0, count);
      const to = clamp(Number(match[2]), 0, count);
      if (to > from) return [from, to];
    }
    return [0, count];
  }

  private get measure(): Series | null {
    const name = this.store.param("by");
    return (
      this.series.find((series) => series.name === name) ??
      (this.categories.length > 0 ? null : (this.series[0] ?? null))
    );
  }

  private mapHeight(): number {
    const [from, to] = this.rowView;
    const most = clamp(Math.round(window.innerHeight * 0.46), 240, 520);
    const each = clamp(160 / (to - from), 18, 32);
    return clamp(Math.round((to - from) * each), 32, most) + 34;
  }

  private mapRect(width: number): Rect {
    return { x: kGutter, y: 8, width: Math.max(10, width - kGutter - kMargin), height: this.map.height - 34 };
  }

  private bandFor(series: Series): Band {
    const bins = this.axis.bins;
    const band = bandOf(series.rows, bins, this.chosen ?? this.order, this.weights);
    if (series.category) {
      const own = this.seconds[CATEGORIES.indexOf(series.category)];
      for (let b = 0; b < bins; ++b) {
        const all = this.seconds.reduce((sum, of) => sum + of[b], 0);
        band.mean[b] = all > 0 ? own[b] / all : NaN;
      }
    }
    return band;
  }

  // Of the chosen ranks over the chosen time: of levels the largest of their mean.
  private meanOf(series: Series): number {
    const parts = binParts(this.axis, this.store.selection.time);
    const within = (of: ArrayLike<number>) => parts.reduce((sum, part, b) => sum + (part > 0 ? (of[b] || 0) * part : 0), 0);
    if (series.category) {
      const all = this.seconds.reduce((sum, of) => sum + within(of), 0);
      return all > 0 ? within(this.seconds[CATEGORIES.indexOf(series.category)]) / all : NaN;
    }
    const { mean } = this.bandCache[this.series.indexOf(series)];
    if (series.unit === "bytes") return mean.reduce((most, value, b) => (parts[b] > 0 ? Math.max(most, value || 0) : most), 0);
    const covered = parts.reduce((sum, part, b) => sum + part * this.covered(b), 0);
    return covered > 0 ? (within(mean) * series.scale) / covered : NaN;
  }

  private value(series: Series, row: number, bin: number): number {
    return series.rows[this.order[row] * this.axis.bins + bin] * series.scale;
  }

  private limitOf(series: Series): number {
    if (series.unit === "share" && series.category) return 1;
    return niceCeiling(series.rows.reduce((high, value) => (value > high ? value : high), 0) * series.scale);
  }

  // --- Controls

  private hint(): Child {
    return el(
      "span",
      null,
      this.regionNote,
      "drag to select time and ranks · Enter zooms in · Esc or double click clears",
    );
  }

  private measureControl(): HTMLElement {
    const select = el("select", {
      "aria-label": "Colour by",
      on: { change: () => this.store.setParam("by", select.value === "category" ? null : select.value) },
    });
    const add = (parent: HTMLElement, value: string, title: string) =>
      parent.append(el("option", { value, selected: value === (this.measure?.name ?? "category") }, title));
    if (this.categories.length > 0) {
      add(select, "category", "what there is most of");
      const group = el("optgroup", { label: "Share of time" });
      for (const series of this.categories) add(group, series.name, series.title);
      select.append(group);
    }
    const rest = this.series.filter((series) => !series.category);
    if (rest.length > 0) {
      const group = el("optgroup", { label: "Counted" });
      for (const series of rest) add(group, series.name, series.title);
      select.append(group);
    }
    return el("label", { class: "chart-field" }, "Colour", select);
  }

  private drawLegend(): void {
    const { measure } = this;
    if (!measure) {
      replace(
        this.legend,
        this.categories.map((series) =>
          el(
            "span",
            { class: "key", tip: `${CATEGORY_HELP[series.category!]} The stronger the colour, the larger its share.` },
            el("i", { style: { background: categoryColour(series.category!) } }),
            series.title,
          ),
        ),
      );
      return;
    }
    const stops = this.scaleColours(measure);
    const gradient = Array.from({ length: 9 }, (_, i) =>
      withAlpha(stops[Math.round((i / 8) * (stops.length - 1))], 1),
    ).join(", ");
    replace(
      this.legend,
      el(
        "span",
        { class: "scale" },
        "0",
        el("i", { style: { background: `linear-gradient(to right, ${gradient})` } }),
        limitText(this.limitOf(measure), measure.unit),
      ),
    );
  }

  private scaleColours(series: Series): readonly (readonly [number, number, number])[] {
    if (!series.category) return sequentialTable();
    const ground = rgb(this.colours.surface);
    const colour = rgb(canvasCategory(series.category));
    const end = series.category === "idle" ? blend(colour, rgb(this.colours.text), 0.35) : colour;
    return shades(blend(ground, end, 0.04), end, 64);
  }

  // --- Drawing

  private shade(): Shade {
    const { measure, order, outliers } = this;
    const bins = this.axis.bins;
    // Of several rows in a pixel the outliers are seen.
    const each = (firstRow: number, endRow: number, visit: (row: number) => void) => {
      let only = false;
      if (endRow - firstRow > 1) for (let row = firstRow; row < endRow; ++row) if (outliers[row]) only = true;
      for (let row = firstRow; row < endRow; ++row) if (!only || outliers[row]) visit(row);
    };
    if (measure) {
      const colours = packed(this.scaleColours(measure));
      const scale = ((colours.length - 1) * measure.scale) / this.limitOf(measure);
      return (firstRow, endRow, firstColumn, endColumn) => {
        let sum = 0;
        let cells = 0;
        let high = 0;
        each(firstRow, endRow, (row) => {
          const at = order[row] * bins;
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
    const ground = rgb(this.colours.surface);
    const hues = categoryRgb();
    const parts = this.categories.map((series) => series.rows);
    const tables = this.categories.map((series) => {
      const hue = hues[CATEGORIES.indexOf(series.category!)];
      return packed(shades(blend(ground, hue, 0.28), hue, kShadeSteps));
    });
    const sums = new Float64Array(parts.length);
    const enough = 0.02;
    const least = 1 / Math.max(3, parts.length);
    return (firstRow, endRow, firstColumn, endColumn) => {
      sums.fill(0);
      let cells = 0;
      each(firstRow, endRow, (row) => {
        const at = order[row] * bins;
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

  private drawMap(pen: Pen): void {
    this.colours = ink();
    const { colours } = this;
    const rect = this.mapRect(pen.width);
    const [t0, t1] = this.timeView;
    const [r0, r1] = this.rowView;
    pen.context.fillStyle = colours.empty;
    pen.context.fillRect(rect.x, rect.y, rect.width, rect.height);
    const column = (time: number) => (time - this.axis.begin_s) / this.axis.bin_s;
    drawRaster(
      pen,
      rect,
      this.rows.first.length,
      this.axis.bins,
      { columns: [column(t0), column(t1)], rows: [r0, r1] },
      this.shade(),
    );
    const y = (row: number) => rect.y + ((row - r0) / (r1 - r0)) * rect.height;

    const spans = nodeSpans(this.rows).filter((span) => span.end > r0 && span.begin < r1);
    const rowHeight = rect.height / (r1 - r0);
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
      text(pen, rect.x + rect.width + 8, middle, printable(this.model.nodes[span.node]?.name ?? ""), {
        colour: colours.muted,
        font: colours.font,
        most: kMargin - 12,
      });
      if (bottom - top > 6 && nodesFit)
        line(pen, rect.x + rect.width + 3, top + 1, rect.x + rect.width + 3, bottom - 1, colours.faint);
    }
    frame(pen, rect, colours.faint);
    // Outliers by triangles, and by number where there is room; then round numbers in between.
    pen.context.fillStyle = colours.accent;
    const named: number[] = [];
    for (let row = Math.floor(r0); row < r1; ++row) {
      if (!this.outliers[row]) continue;
      const middle = y(row + 0.5);
      pen.context.fillStyle = colours.accent;
      pen.context.beginPath();
      pen.context.moveTo(rect.x - 6, middle - 3);
      pen.context.lineTo(rect.x - 1, middle);
      pen.context.lineTo(rect.x - 6, middle + 3);
      pen.context.fill();
      if (named.length > 0 && middle - named[named.length - 1] < 13) continue;
      named.push(middle);
      text(pen, rect.x - 9, middle, String(this.rows.first[row]), {
        align: "right",
        colour: colours.accent,
        font: colours.font,
        weight: 500,
      });
    }
    for (const tick of rowTicks(
      this.rows,
      this.outliers,
      r0,
      r1,
      Math.max(2, rect.height / (rowHeight >= 14 ? rowHeight : 26)),
    )) {
      const at = y(tick.row);
      if (named.some((other) => Math.abs(other - at) < 13)) continue;
      line(pen, rect.x - 5, at, rect.x - 1, at, colours.faint);
      text(pen, rect.x - 9, at, String(tick.rank), { align: "right", colour: colours.muted, font: colours.font });
    }
    text(pen, 0, rect.y + 6, "Rank", { colour: colours.muted, font: colours.font });
    drawTimeAxis(pen, rect, [t0, t1], colours);
  }

  private drawMapOver(pen: Pen): void {
    const rect = this.mapRect(pen.width);
    const { context } = pen;
    const [r0, r1] = this.rowView;
    const y = (row: number) => rect.y + ((row - r0) / (r1 - r0)) * rect.height;
    const drag = this.drag;
    const veil = withAlpha(rgb(this.colours.surface), 0.66);
    if (this.chosen) {
      context.fillStyle = veil;
      const chosen = new Set(this.chosen);
      let begin = -1;
      for (let row = Math.floor(r0); row <= Math.ceil(r1); ++row) {
        const hidden = row < Math.ceil(r1) && !chosen.has(this.order[row]);
        if (hidden && begin < 0) begin = row;
        if (!hidden && begin >= 0) {
          const top = Math.max(rect.y, y(begin));
          context.fillRect(rect.x, top, rect.width, Math.min(rect.y + rect.height, y(row)) - top);
          begin = -1;
        }
      }
    }
    this.drawTimeOver(pen, rect);
    const move = drag && drag.surface === this.map ? this.dragged(drag, pen.width) : null;
    if (move) {
      const [a, b] = move.rows ?? [r0, r1];
      const [from, to] = move.time ?? this.timeView;
      const x0 = this.x(from, rect);
      context.fillStyle = withAlpha(rgb(this.colours.accent), 0.16);
      context.fillRect(x0, y(a), this.x(to, rect) - x0, y(b) - y(a));
      context.strokeStyle = this.colours.accent;
      context.lineWidth = 1;
      context.strokeRect(sharp(x0, pen.ratio), sharp(y(a), pen.ratio), this.x(to, rect) - x0, y(b) - y(a));
    }
    const cell =
      this.cursor ??
      (this.hover && this.hover.row !== null ? { row: this.hover.row, bin: this.binAt(this.hover.time) } : null);
    if (cell && !drag) {
      const x0 = clamp(this.x(this.axis.begin_s + cell.bin * this.axis.bin_s, rect), rect.x, rect.x + rect.width);
      const x1 = clamp(this.x(this.axis.begin_s + (cell.bin + 1) * this.axis.bin_s, rect), rect.x, rect.x + rect.width);
      const top = clamp(y(cell.row), rect.y, rect.y + rect.height);
      const height = Math.max(2, clamp(y(cell.row + 1), rect.y, rect.y + rect.height) - top);
      context.strokeStyle = this.colours.text;
      context.lineWidth = this.cursor ? 2 : 1;
      context.strokeRect(x0, top, Math.max(2, x1 - x0), height);
    }
  }

  private x(time: number, rect: Rect): number {
    const [t0, t1] = this.timeView;
    return rect.x + ((time - t0) / (t1 - t0)) * rect.width;
  }

  // What is chosen of the time, and where the pointer is.
  private drawTimeOver(pen: Pen, rect: Rect): void {
    const { context } = pen;
    const right = rect.x + rect.width;
    const veil = withAlpha(rgb(this.colours.surface), 0.66);
    const { time } = this.store.selection;
    if (time && !this.drag) {
      const a = clamp(this.x(time[0], rect), rect.x, right);
      const b = clamp(this.x(time[1], rect), rect.x, right);
      context.fillStyle = veil;
      context.fillRect(rect.x, rect.y, a - rect.x, rect.height);
      context.fillRect(b, rect.y, right - b, rect.height);
      if (a > rect.x) line(pen, a, rect.y, a, rect.y + rect.height, this.colours.accent);
      if (b < right) line(pen, b, rect.y, b, rect.y + rect.height, this.colours.accent);
    }
    const at = this.hover?.time;
    if (at !== undefined && !this.drag) {
      const x = this.x(at, rect);
      if (x >= rect.x && x <= right)
        line(pen, x, rect.y, x, rect.y + rect.height, withAlpha(rgb(this.colours.text), 0.45));
    }
  }

  private drawStripOver(pen: Pen, top: number, height: number): void {
    const rect = { x: kGutter, y: top, width: Math.max(10, pen.width - kGutter - kMargin), height };
    this.drawTimeOver(pen, rect);
    const move = this.drag ? this.dragged(this.drag, pen.width) : null;
    if (move?.time) {
      const x0 = this.x(move.time[0], rect);
      pen.context.fillStyle = withAlpha(rgb(this.colours.accent), 0.16);
      pen.context.fillRect(x0, top, this.x(move.time[1], rect) - x0, height);
    }
    if (top === 0) this.drawBandValues(pen, rect);
  }

  private bandColour(series: Series): string {
    if (!series.category) return this.colours.accent;
    return series.category === "idle" ? cssColour("--text-3") : canvasCategory(series.category);
  }

  private drawBands(pen: Pen): void {
    this.colours = ink();
    const { context } = pen;
    const width = Math.max(10, pen.width - kGutter - kMargin);
    const [t0, t1] = this.timeView;
    const { begin_s, bin_s, bins } = this.axis;
    const first = clamp(Math.floor((t0 - begin_s) / bin_s), 0, bins - 1);
    const last = clamp(Math.ceil((t1 - begin_s) / bin_s), first + 1, bins);
    this.series.forEach((series, i) => {
      const rect = { x: kGutter, y: i * kBandHeight + 7, width, height: kBandHeight - 9 };
      const band = this.bandCache[i];
      let high = 0;
      for (let b = 0; b < bins; ++b) if (band.max[b] > high) high = band.max[b];
      const limit =
        series.unit === "share" && high * series.scale > 0.4
          ? Math.max(1, niceCeiling(high * series.scale))
          : niceCeiling(high * series.scale);
      const bottom = rect.y + rect.height;
      // Of the first and the last bin only a part lies in the run.
      const y = (value: number, b: number) =>
        bottom -
        clamp((value * series.scale) / (limit * (series.category || series.unit === "bytes" ? 1 : this.covered(b))), 0, 1) *
          rect.height;
      const x = (bin: number) => this.x(begin_s + (bin + 0.5) * bin_s, rect);
      line(pen, rect.x, bottom, rect.x + rect.width, bottom, this.colours.grid);
      context.save();
      context.beginPath();
      context.rect(rect.x, rect.y - 2, rect.width, rect.height + 3);
      context.clip();
      const colour = this.bandColour(series);
      const from = Math.max(0, first - 1);
      const to = Math.min(bins, last + 1);
      context.fillStyle = withAlpha(rgb(colour), 0.24);
      context.beginPath();
      for (let b = from; b < to; ++b) context.lineTo(x(b), y(band.max[b] || 0, b));
      for (let b = to - 1; b >= from; --b) context.lineTo(x(b), y(band.min[b] || 0, b));
      context.fill();
      context.strokeStyle = colour;
      context.lineWidth = 1.5;
      context.lineJoin = "round";
      context.beginPath();
      for (let b = from; b < to; ++b) context.lineTo(x(b), y(band.mean[b] || 0, b));
      context.stroke();
      context.restore();
      context.fillStyle = colour;
      context.fillRect(0, rect.y + 3, 3, 12);
      text(pen, 9, rect.y + 9, series.title, {
        colour: this.colours.text,
        font: this.colours.font,
        size: 12,
        weight: 500,
        most: kGutter - 20,
      });
      text(pen, 9, rect.y + 24, `to ${limitText(limit, series.unit)}`, {
        colour: this.colours.muted,
        font: this.colours.font,
        most: kGutter - 20,
      });
    });
    drawTimeAxis(
      pen,
      { x: kGutter, y: 0, width, height: this.series.length * kBandHeight - 2 },
      this.timeView,
      this.colours,
    );
  }

  private covered(bin: number): number {
    const begin = this.axis.begin_s + bin * this.axis.bin_s;
    const inside = Math.min(begin + this.axis.bin_s, this.model.elapsed) - Math.max(begin, 0);
    return clamp(inside / this.axis.bin_s, 0.05, 1);
  }

  private drawBandValues(pen: Pen, rect: Rect): void {
    const bin = this.cursor?.bin ?? (this.hover ? this.binAt(this.hover.time) : null);
    this.series.forEach((series, i) => {
      const band = this.bandCache[i];
      let value = 0;
      let spread = "";
      if (bin !== null) {
        value = band.mean[bin] * series.scale;
        spread = `${seriesValue(band.min[bin] * series.scale, series.unit)} to ${seriesValue(band.max[bin] * series.scale, series.unit)}`;
      } else {
        value = this.meanOf(series);
      }
      const y = i * kBandHeight + 16;
      const left = rect.x + rect.width + 8;
      text(pen, left, y, seriesValue(value, series.unit), {
        colour: this.colours.text,
        font: this.colours.font,
        size: 12,
        weight: 600,
      });
      text(pen, left, y + 15, bin !== null ? spread : series.unit === "bytes" ? "most, of the mean" : series.category ? "of the time" : "mean", {
        colour: this.colours.muted,
        font: this.colours.font,
        size: 10,
        most: kMargin - 8,
      });
    });
  }

  private drawWindows(pen: Pen): void {
    const { context } = pen;
    const colours = ink();
    const rect = { x: kGutter, y: 6, width: Math.max(10, pen.width - kGutter - kMargin), height: 52 };
    text(pen, 0, rect.y + 7, "Efficiency", { colour: colours.text, font: colours.font, size: 12, weight: 500 });
    const y = (share: number) => rect.y + (1 - clamp(share, 0, 1)) * rect.height;
    for (const share of [0, 0.5, 1]) {
      line(pen, rect.x, y(share), rect.x + rect.width, y(share), colours.grid);
      text(pen, rect.x - 9, y(share) + (share === 1 ? 4 : share === 0 ? -4 : 0), percent(share, 0), {
        align: "right",
        colour: colours.muted,
        font: colours.font,
        size: 10,
      });
    }
    const curves: [string, string, number[], (window: EfficiencyWindow) => number | null | undefined][] = [
      ["load balance", cssColour("--cat-python"), [], (window) => window.load_balance],
      ["communication", cssColour("--cat-mpi"), [], (window) => window.communication],
      ["parallel", colours.text, [], (window) => window.parallel],
    ];
    context.save();
    context.beginPath();
    context.rect(rect.x, rect.y - 1, rect.width, rect.height + 2);
    context.clip();
    for (const [name, colour, , value] of curves) {
      context.strokeStyle = colour;
      context.lineWidth = name === "parallel" ? 2 : 1.25;
      context.beginPath();
      let open = false;
      for (const window of this.windows) {
        const share = value(window);
        if (share === null || share === undefined) {
          open = false;
          continue;
        }
        const a = this.x(window.begin_s, rect);
        if (open) context.lineTo(a, y(share));
        else context.moveTo(a, y(share));
        context.lineTo(this.x(window.end_s, rect), y(share));
        open = true;
      }
      context.stroke();
    }
    context.restore();
    curves.reverse().forEach(([name, colour], i) => {
      context.fillStyle = colour;
      context.fillRect(rect.x + rect.width + 8, rect.y + 7 + i * 17, 10, name === "parallel" ? 3 : 2);
      text(pen, rect.x + rect.width + 22, rect.y + 8 + i * 17, name, {
        colour: colours.muted,
        font: colours.font,
        most: kMargin - 24,
      });
    });
  }

  private drawLanes(pen: Pen): void {
    const colours = ink();
    const { time } = this.model.header;
    const [t0, t1] = this.timeView;
    const width = Math.max(10, pen.width - kGutter - kMargin);
    const shade = packed(
      shades(blend(rgb(colours.surface), rgb(cssColour("--kind-region")), 0.1), rgb(cssColour("--kind-region")), 64),
    );
    const column = (at: number) => (at - time.begin_s) / time.bin_s;
    const view: Span = [clamp(column(t0), 0, time.bins), clamp(column(t1), 0, time.bins)];
    const { region } = this.store.selection;
    this.lanes.forEach((lane, i) => {
      const top = i * kLaneHeight + 2;
      const full: Rect = { x: kGutter, y: top, width, height: kLaneHeight - 3 };
      pen.context.fillStyle = colours.empty;
      pen.context.fillRect(full.x, full.y, full.width, full.height);
      const left = this.x(time.begin_s + view[0] * time.bin_s, full);
      const rect = { ...full, x: left, width: this.x(time.begin_s + view[1] * time.bin_s, full) - left };
      if (view[1] > view[0])
        drawRaster(pen, rect, 1, time.bins, { columns: view, rows: [0, 1] }, (_row, _end, first, end) => {
          let share = 0;
          for (let bin = first; bin < end; ++bin) if (lane.values[bin] > share) share = lane.values[bin];
          return share > 0.005 ? shade[clamp(Math.round(share * 63), 0, 63)] : 0;
        });
      const chosen = region === lane.name;
      const own = lane.name.slice(lane.name.lastIndexOf("/") + 1);
      const indent = lane.depth * 9;
      text(pen, 9 + indent, top + 7, printable(own), {
        colour: chosen ? colours.accent : colours.text,
        font: colours.font,
        weight: chosen ? 600 : 400,
        most: kGutter - 18 - indent,
      });
      text(pen, kGutter + width + 8, top + 7, percent(lane.share), { colour: colours.muted, font: colours.font });
      if (chosen) {
        pen.context.fillStyle = colours.accent;
        pen.context.fillRect(0, top + 1, 3, 12);
      }
    });
  }

  private laneAt(y: number): Lane | null {
    return this.lanes[Math.floor((y - 1) / kLaneHeight)] ?? null;
  }

  // --- Pointer and keys

  private binAt(time: number): number {
    return clamp(Math.floor((time - this.axis.begin_s) / this.axis.bin_s), 0, this.axis.bins - 1);
  }

  private listen(surface: Surface): void {
    const { root } = surface;
    root.classList.add("chart-brush");
    root.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const [x, y] = surface.at(event);
      this.drag = { surface, x0: x, y0: y, x, y };
      root.setPointerCapture(event.pointerId);
      hideTip();
    });
    root.addEventListener("pointermove", (event) => {
      const [x, y] = surface.at(event);
      if (this.drag) {
        this.drag.x = x;
        this.drag.y = y;
      }
      this.point(surface, x, y);
      if (this.drag) hideTip();
      else this.showTipAt(surface, event);
      this.overlays();
    });
    root.addEventListener("pointerup", () => this.drop());
    root.addEventListener("pointercancel", () => {
      this.drag = null;
      this.overlays();
    });
    root.addEventListener("pointerleave", () => {
      this.hover = null;
      hideTip();
      this.overlays();
    });
    root.addEventListener("dblclick", () => this.clear());
    root.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        const [x] = surface.at(event);
        this.zoomAbout(this.timeAt(x, surface.width), event.deltaY < 0 ? 0.8 : 1.25);
      },
      { passive: false },
    );
  }

  private timeAt(x: number, width: number): number {
    const [t0, t1] = this.timeView;
    return t0 + ((x - kGutter) / Math.max(10, width - kGutter - kMargin)) * (t1 - t0);
  }

  private rowAtY(y: number): number {
    const rect = this.mapRect(this.map.width);
    const [r0, r1] = this.rowView;
    return rowAt(r0, r1, (y - rect.y) / rect.height, this.rows.first.length);
  }

  private point(surface: Surface, x: number, y: number): void {
    const [t0, t1] = this.timeView;
    const time = this.timeAt(x, surface.width);
    const rect = this.mapRect(this.map.width);
    const inside = y >= rect.y && y <= rect.y + rect.height;
    if (time < t0 || time > t1) this.hover = null;
    else
      this.hover = {
        time,
        row: surface === this.map && inside ? this.rowAtY(y) : null,
        band: surface === this.bands ? clamp(Math.floor(y / kBandHeight), 0, this.series.length - 1) : null,
      };
  }

  // Across: time; down: ranks; both: both. From the axis of the ranks: ranks.
  private dragged(drag: Drag, width: number): { time: Span | null; rows: Span | null } | null {
    const { begin_s, bin_s } = this.axis;
    const [t0, t1] = this.timeView;
    const [r0, r1] = this.rowView;
    const across = Math.abs(drag.x - drag.x0) >= 4 && drag.x0 >= kGutter - 2;
    const time = across
      ? draggedSpan(this.timeAt(drag.x0, width), this.timeAt(drag.x, width), t0, t1, 0, begin_s, bin_s)
      : null;
    let rows: Span | null = null;
    if (drag.surface === this.map) {
      const rect = this.mapRect(width);
      const rowHeight = rect.height / (r1 - r0);
      const row = (y: number) => r0 + ((y - rect.y) / rect.height) * (r1 - r0);
      // A drag across that is a little slanted is meant for the time.
      const down = Math.abs(drag.y - drag.y0);
      const meant = across ? down > Math.max(14, rowHeight * 0.75) : down >= 4;
      if (meant) rows = draggedSpan(row(drag.y0), row(drag.y), r0, r1, 0, 0, 1);
    }
    return time || rows ? { time, rows } : null;
  }

  private drop(): void {
    const { drag } = this;
    this.drag = null;
    if (!drag) return;
    const move = this.dragged(drag, drag.surface.width);
    const lane = !move && drag.surface === this.laneStrip ? this.laneAt(drag.y) : null;
    if (lane) this.store.select({ region: this.store.selection.region === lane.name ? null : lane.name });
    if (move) {
      this.store.select({
        ...(move.time ? { time: move.time } : {}),
        ...(move.rows ? { ranks: this.ranksOf(move.rows), nodes: null } : {}),
      });
    }
    this.overlays();
  }

  private ranksOf([from, to]: Span): RankSet {
    const inside = new Set<number>();
    for (let row = Math.floor(from); row < to; ++row) inside.add(this.order[row]);
    const rowOfRank = this.model.u32("row_of_rank");
    const numbers = this.model.i32("rank_number");
    const ranks: number[] = [];
    for (let i = 0; i < rowOfRank.length; ++i) if (inside.has(rowOfRank[i])) ranks.push(numbers[i]);
    return RankSet.of(ranks);
  }

  private overlays(): void {
    for (const surface of this.surfaces()) surface.redrawOver();
  }

  private clear(): void {
    const { time, ranks, nodes } = this.store.selection;
    if (time || ranks || nodes) this.store.select({ time: null, ranks: null, nodes: null });
    else this.zoomOut();
  }

  private zoomOut(): void {
    this.store.setParams({ zoom: null, rows: null });
  }

  private zoomToSelection(): void {
    const { time } = this.store.selection;
    const values: Record<string, string> = {};
    if (time) {
      const { bin_s } = this.axis;
      const span: Span =
        time[1] - time[0] < 4 * bin_s
          ? zoomed(time, (time[0] + time[1]) / 2, (4 * bin_s) / (time[1] - time[0]), this.axis.begin_s, this.end_s, 0)
          : time;
      values.zoom = `${Number(span[0].toPrecision(9))}_${Number(span[1].toPrecision(9))}`;
    }
    if (this.chosen && this.chosen.length > 0) {
      const chosen = new Set(this.chosen);
      let low = Infinity;
      let high = 0;
      this.order.forEach((row, i) => {
        if (!chosen.has(row)) return;
        low = Math.min(low, i);
        high = i + 1;
      });
      values.rows = `${low}_${high}`;
    }
    this.store.setParams(values);
  }

  private zoomAbout(centre: number, factor: number): void {
    const [from, to] = zoomed(this.timeView, centre, factor, this.axis.begin_s, this.end_s, 4 * this.axis.bin_s);
    const whole = from <= this.axis.begin_s + 1e-12 && to >= this.end_s - 1e-12;
    this.store.setParam("zoom", whole ? null : `${Number(from.toPrecision(9))}_${Number(to.toPrecision(9))}`);
  }

  private onKey(event: KeyboardEvent): void {
    const steps: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    };
    const step = steps[event.key];
    const [r0, r1] = this.rowView;
    const [t0, t1] = this.timeView;
    if (step) {
      const far = event.ctrlKey ? 10 : 1;
      const from = this.cursor ?? { bin: this.binAt((t0 + t1) / 2), row: Math.floor((r0 + r1) / 2) };
      if (!event.shiftKey) this.anchor = null;
      else this.anchor ??= from;
      this.cursor = {
        bin: clamp(from.bin + step[0] * far, this.binAt(t0), this.binAt(t1 - 1e-9)),
        row: clamp(from.row + step[1] * far, Math.floor(r0), Math.ceil(r1) - 1),
      };
      if (this.anchor) {
        const { begin_s, bin_s } = this.axis;
        const bins = [this.anchor.bin, this.cursor.bin].sort((a, b) => a - b);
        const rows = [this.anchor.row, this.cursor.row].sort((a, b) => a - b);
        this.store.select(
          {
            ...(step[0] !== 0 ? { time: [begin_s + bins[0] * bin_s, begin_s + (bins[1] + 1) * bin_s] as Span } : {}),
            ...(step[1] !== 0 ? { ranks: this.ranksOf([rows[0], rows[1] + 1]), nodes: null } : {}),
          },
          { replace: true },
        );
      }
      replace(this.said, this.cellText(this.cursor.row, this.cursor.bin));
      this.overlays();
    } else if (event.key === "Enter") this.zoomToSelection();
    else if (event.key === "Escape") {
      if (this.drag) this.drag = null;
      else this.clear();
      this.overlays();
    } else if (event.key === "+" || event.key === "=" || event.key === "-")
      this.zoomAbout(
        this.cursor ? this.axis.begin_s + (this.cursor.bin + 0.5) * this.axis.bin_s : (t0 + t1) / 2,
        event.key === "-" ? 1.5 : 1 / 1.5,
      );
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // --- What it says

  private binRange(bin: number): string {
    const begin = this.axis.begin_s + bin * this.axis.bin_s;
    return timeRange([begin, begin + this.axis.bin_s]);
  }

  private rowTitle(row: number): string {
    const node = this.rows.node[row];
    const name = node === kNoNode ? "" : ` on ${printable(this.model.nodes[node]?.name ?? "")}`;
    return `${rowLabel(this.rows, row)}${this.outliers[row] ? ", an outlier," : ""}${name}`;
  }

  private cellValues(row: number, bin: number): { title: string; value: string; colour: string | null }[] {
    const { measure } = this;
    const shown = measure ? [measure, ...(measure.category ? [] : this.categories)] : this.categories;
    const total = this.categories.reduce((sum, series) => sum + (this.value(series, row, bin) || 0), 0);
    return shown
      .map((series) => {
        const value = this.value(series, row, bin);
        const share = series.category && !measure && total > 0 ? value / total : value;
        return {
          title: series.title,
          number: share,
          value: seriesValue(share, series.unit),
          colour: series.category ? categoryColour(series.category) : null,
        };
      })
      .filter((part, i) => part.number > 0.0005 || (measure && i === 0))
      .sort((a, b) => (measure ? 0 : b.number - a.number));
  }

  private cellText(row: number, bin: number): string {
    const values = this.cellValues(row, bin).map((part) => `${part.title} ${part.value}`);
    return `${this.rowTitle(row)}, ${this.binRange(bin)}: ${values.join(", ") || "nothing recorded"}`;
  }

  private showTipAt(surface: Surface, event: PointerEvent): void {
    const { hover } = this;
    if (surface === this.laneStrip) {
      const lane = this.laneAt(surface.at(event)[1]);
      const { time } = this.model.header;
      const share =
        lane && hover
          ? lane.values[clamp(Math.floor((hover.time - time.begin_s) / time.bin_s), 0, time.bins - 1)]
          : NaN;
      showTip(
        lane
          ? `region ${printable(lane.name)}: ${percent(lane.share)} of all rank time${Number.isNaN(share) ? "" : `, here ${percent(share, 0)} of all threads\u2019 time`}. A click selects it.`
          : "",
        event.clientX,
        event.clientY,
      );
      return;
    }
    if (!hover) {
      hideTip();
      return;
    }
    const bin = this.binAt(hover.time);
    if (surface === this.map && hover.row !== null) {
      const { row } = hover;
      const values = this.cellValues(row, bin);
      showTip(
        () =>
          el(
            "div",
            { class: "chart-tip" },
            el("b", null, this.rowTitle(row)),
            el("div", { class: "when" }, this.binRange(bin)),
            values.length === 0
              ? "nothing recorded"
              : el(
                  "dl",
                  null,
                  values.map((part) => [
                    el("dt", null, part.colour ? el("i", { style: { background: part.colour } }) : null, part.title),
                    el("dd", null, part.value),
                  ]),
                ),
          ),
        event.clientX,
        event.clientY,
      );
    } else if (surface === this.windowStrip) {
      const window = this.windows.find((one) => one.begin_s <= hover.time && hover.time < one.end_s);
      showTip(
        () =>
          window
            ? el(
                "div",
                { class: "chart-tip" },
                el("b", null, timeRange([window.begin_s, window.end_s])),
                el(
                  "dl",
                  null,
                  (
                    [
                      ["parallel", window.parallel],
                      ["load balance", window.load_balance],
                      ["communication", window.communication],
                    ] as const
                  ).map(([name, share]) => [el("dt", null, name), el("dd", null, percent(share))]),
                ),
              )
            : null,
        event.clientX,
        event.clientY,
      );
    } else hideTip();
  }

  private mapLabel(): string {
    const [t0, t1] = this.timeView;
    const by = this.measure ? this.measure.title : "the category with most time";
    const totals = this.categories
      .map((series) => {
        return { title: series.title, share: this.meanOf(series) || 0 };
      })
      .sort((a, b) => b.share - a.share);
    const most = totals
      .slice(0, 3)
      .map((part) => `${part.title} ${percent(part.share, 0)}`)
      .join(", ");
    return `Heat map of ${plural(this.model.rankCount, "rank")} in ${plural(this.rows.first.length, "row")} from ${timeRange([t0, t1])} by ${by}. ${most}. Arrow keys move, Shift and arrow keys select, Enter zooms in, Escape clears.`;
  }

  private windowsLabel(): string {
    const lows = [...this.windows].sort((a, b) => a.parallel - b.parallel);
    return `Efficiencies over time. Parallel efficiency is lowest, ${percent(lows[0].parallel)}, at ${timeRange([lows[0].begin_s, lows[0].end_s])}, and highest, ${percent(lows[lows.length - 1].parallel)}, at ${timeRange([lows[lows.length - 1].begin_s, lows[lows.length - 1].end_s])}.`;
  }

  // The same as a table: by series, over what is chosen.
  private drawFigures(): void {
    const { bins } = this.axis;
    const all = Array.from(this.chosen ?? this.order);
    interface Figure {
      series: Series;
      mean: number;
      low: { row: number; value: number } | null;
      high: { row: number; value: number } | null;
    }
    const shown = new Map<number, number>(); // row of the data -> of the map
    this.order.forEach((row, i) => shown.set(row, i));
    const parts = binParts(this.axis, this.store.selection.time);
    const covered = parts.reduce((sum, part, b) => sum + part * this.covered(b), 0);
    const count = CATEGORIES.length;
    const seconds = rowSeconds(this.store);
    const valueOf = (series: Series, row: number): number => {
      if (series.category) {
        const own = seconds.subarray(row * count, (row + 1) * count);
        return own[CATEGORIES.indexOf(series.category)] / own.reduce((sum, value) => sum + value, 0);
      }
      let value = 0;
      for (let b = 0; b < bins; ++b) {
        if (parts[b] === 0) continue;
        const cell = series.rows[row * bins + b];
        value = series.unit === "bytes" ? Math.max(value, cell) : value + cell * parts[b];
      }
      return series.unit === "bytes" ? value : (value * series.scale) / covered;
    };
    const figures = this.series.map((series): Figure => {
      let low: Figure["low"] = null;
      let high: Figure["high"] = null;
      for (const row of all) {
        const value = valueOf(series, row);
        if (Number.isNaN(value)) continue;
        if (!low || value < low.value) low = { row, value };
        if (!high || value > high.value) high = { row, value };
      }
      return { series, mean: this.meanOf(series), low, high };
    });
    const who = (end: Figure["low"]): Child => {
      if (!end) return "–";
      const row = shown.get(end.row)!;
      return el(
        "button",
        {
          type: "button",
          class: "link",
          tip: `select ${this.rowTitle(row)}`,
          on: { click: () => this.store.select({ ranks: this.ranksOf([row, row + 1]), nodes: null }) },
        },
        rowLabel(this.rows, row),
      );
    };
    const swatch = (series: Series): Child =>
      el(
        "span",
        { class: "key" },
        el("i", { style: { background: series.category ? categoryColour(series.category) : "var(--accent)" } }),
        series.title,
      );
    replace(
      this.figures,
      table<Figure>(
        [
          { id: "series", title: "Over time", value: (f) => f.series.title, cell: (f) => swatch(f.series) },
          {
            id: "mean",
            title: "Ranks together",
            numeric: true,
            cell: (f) => seriesValue(f.mean, f.series.unit),
            help: "Categories: their part of the time of all these ranks. Else the mean rank; of levels the most within the time.",
          },
          ...(this.model.rankCount > 1
            ? ([
                { id: "low", title: "Least", numeric: true, cell: (f) => seriesValue(f.low?.value, f.series.unit) },
                { id: "lowRank", title: "by", class: "nowrap", cell: (f) => who(f.low) },
                { id: "high", title: "Most", numeric: true, cell: (f) => seriesValue(f.high?.value, f.series.unit) },
                { id: "highRank", title: "by", class: "nowrap", cell: (f) => who(f.high) },
              ] satisfies Column<Figure>[])
            : []),
        ],
        figures,
        { label: "Values over the selected time and ranks" },
      ),
    );
  }
}

export const page: Page = {
  id: "timeline",
  title: "Timeline",
  hint: "What each rank did when",
  mount(root, store): PageHandle {
    const { axis, series } = store.model.header;
    if (!axis || axis.bins === 0 || series.length === 0) {
      root.append(el("p", { class: "empty" }, "Nothing was recorded over time in this run."));
      return { update() {} };
    }
    const timeline = new Timeline(root, store);
    return { update: () => timeline.update(), destroy: () => timeline.destroy() };
  },
};
