// SPDX-License-Identifier: BSD-3-Clause
// What the timeline shows, however it is drawn: the series of a run by rows of ranks, the time of its regions and its
// efficiencies, and what of it the selection leaves.
import { clamp, type Span } from "../charts/numbers";
import { type Band, bandOf, kNoNode, outliersOf, reordered, rowLabel, rowOrder, type Rows, shareOfPaths } from "../charts/rows";
import { printable, timeRange } from "../core/format";
import { type Axis, CATEGORIES, type Model } from "../core/model";
import { binParts, binSeconds, partInRun } from "../core/over_time";
import { RankSet, type Store } from "../core/selection";
import { regionMask } from "../core/weights";
import { type Efficiencies, efficienciesOf } from "./efficiency";
import { type Series, seriesOf } from "./series";

const kMostLanes = 8;

export interface Lane {
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

export class Content {
  readonly model: Model;
  readonly axis: Axis;
  readonly series: Series[];
  readonly categories: Series[];
  readonly rows: Rows; // in the order of the map
  readonly order: Uint32Array; // row of the map -> row of the data
  readonly outliers: Uint8Array;
  readonly end_s: number;
  readonly efficiencies: Efficiencies;
  readonly lanes: Lane[];

  // What is selected.
  weights: Float64Array = new Float64Array(0); // chosen ranks of each row of the data
  chosen: Uint32Array | null = null; // rows of the data; null: all
  bands: Band[] = []; // by series, over the chosen ranks
  private seconds: Float64Array[] = []; // by category: of the chosen ranks in each bin
  private bandKey: string | null = null;

  constructor(readonly store: Store) {
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
    this.efficiencies = efficienciesOf(model.report);
    this.lanes = lanesOf(model);
  }

  // Takes over the selection.
  update(): void {
    const mask = this.store.rankMask();
    const rowOfRank = this.model.u32("row_of_rank");
    this.weights = new Float64Array(this.rows.first.length);
    for (let i = 0; i < rowOfRank.length; ++i) if (!mask || mask[i]) ++this.weights[rowOfRank[i]];
    this.chosen = mask ? Uint32Array.from(this.weights.keys()).filter((row) => this.weights[row] > 0) : null;
    const key = this.chosen ? Array.from(this.chosen, (row) => `${row}:${this.weights[row]}`).join() : "";
    if (key === this.bandKey) return;
    this.bandKey = key;
    this.seconds = binSeconds(this.store);
    this.bands = this.series.map((series) => this.bandFor(series));
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

  // The mean of the chosen ranks over the chosen time; of levels the largest mean.
  meanOf(series: Series): number {
    const parts = binParts(this.axis, this.store.selection.time);
    const within = (of: ArrayLike<number>) => parts.reduce((sum, part, b) => sum + (part > 0 ? (of[b] || 0) * part : 0), 0);
    if (series.category) {
      const all = this.seconds.reduce((sum, of) => sum + within(of), 0);
      return all > 0 ? within(this.seconds[CATEGORIES.indexOf(series.category)]) / all : NaN;
    }
    const { mean } = this.bands[this.series.indexOf(series)];
    if (series.unit === "bytes") return mean.reduce((most, value, b) => (parts[b] > 0 ? Math.max(most, value || 0) : most), 0);
    const covered = parts.reduce((sum, part, b) => sum + part * this.covered(b), 0);
    return covered > 0 ? (within(mean) * series.scale) / covered : NaN;
  }

  value(series: Series, row: number, bin: number): number {
    return series.rows[this.order[row] * this.axis.bins + bin] * series.scale;
  }

  // The share of a bin that lies in the run: less than one for the first and the last bin.
  covered(bin: number): number {
    return clamp(partInRun(this.axis, this.model.elapsed, bin), 0.05, 1);
  }

  binAt(time: number): number {
    return clamp(Math.floor((time - this.axis.begin_s) / this.axis.bin_s), 0, this.axis.bins - 1);
  }

  ranksOf([from, to]: Span): RankSet {
    const inside = new Set<number>();
    for (let row = Math.floor(from); row < to; ++row) inside.add(this.order[row]);
    const rowOfRank = this.model.u32("row_of_rank");
    const numbers = this.model.i32("rank_number");
    const ranks: number[] = [];
    for (let i = 0; i < rowOfRank.length; ++i) if (inside.has(rowOfRank[i])) ranks.push(numbers[i]);
    return RankSet.of(ranks);
  }

  binRange(bin: number): string {
    const begin = this.axis.begin_s + bin * this.axis.bin_s;
    return timeRange([begin, begin + this.axis.bin_s]);
  }

  rowTitle(row: number): string {
    const node = this.rows.node[row];
    const name = node === kNoNode ? "" : ` on ${printable(this.model.nodes[node]?.name ?? "")}`;
    return `${rowLabel(this.rows, row)}${this.outliers[row] ? ", an outlier," : ""}${name}`;
  }
}
