// SPDX-License-Identifier: BSD-3-Clause
// What the page on balance compares over ranks: times and memory of ranks, and times of functions.
import { deviations, markedOutliers, rowMeans, type Spread, spreadOf } from "../charts/balance_rows";
import { outliersOf, reordered, rowOrder, type Rows } from "../charts/rows";
import { bytes, functionLabel, printable, seconds } from "../core/format";
import { baseName, type Model, NONE } from "../core/model";
import { RankSet, type Store } from "../core/selection";

export interface Subject {
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
  lowIsBad: boolean; // of waiting: the rank that waits least makes the others wait
}

export class Subjects {
  readonly model: Model;
  readonly dataRows: Rows;
  readonly rows: Rows; // in the order of the map
  readonly order: Uint32Array; // row of the map -> row of the data
  readonly place: Uint32Array; // row of the data -> of the map
  readonly outliers: Uint8Array;
  readonly values: Subject[]; // of ranks
  readonly functions: Subject[];
  chosen: Float64Array | null = null; // of each row of the data: share of its ranks that are chosen

  constructor(readonly store: Store) {
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
  }

  // Takes over the selection.
  update(): void {
    const mask = this.store.rankMask();
    this.chosen = null;
    if (!mask) return;
    const rowOfRank = this.model.u32("row_of_rank");
    this.chosen = new Float64Array(this.order.length);
    for (let i = 0; i < rowOfRank.length; ++i)
      if (mask[i]) this.chosen[rowOfRank[i]] += 1 / this.dataRows.ranks[rowOfRank[i]];
  }

  ranksOf(rows: Iterable<number>): RankSet {
    const inside = new Set(rows); // of the data
    const rowOfRank = this.model.u32("row_of_rank");
    const numbers = this.model.i32("rank_number");
    const ranks: number[] = [];
    for (let i = 0; i < rowOfRank.length; ++i) if (inside.has(rowOfRank[i])) ranks.push(numbers[i]);
    return RankSet.of(ranks);
  }

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
      // The slowest rank may be in a range of ranks here: the report has it itself. The rows' times are without idle
      // helper threads.
      const row = info.row === NONE ? null : this.model.report.functions[info.row];
      if (row && row.active_rank_max_s >= subject.spread.max && row.active_rank_mean_s > 0)
        subject.spread = {
          ...subject.spread,
          mean: row.active_rank_mean_s,
          max: row.active_rank_max_s,
          cost: row.active_rank_max_s - row.active_rank_mean_s,
          imbalance: row.active_rank_max_s / row.active_rank_mean_s,
        };
      subjects.push(subject);
    }
    return subjects;
  }
}
