// SPDX-License-Identifier: BSD-3-Clause
// The columns of the table of functions.
import { categoryBar, functionName, functionText, kindMark, placeText, shareCell } from "../charts/code_parts";
import { el } from "../core/dom";
import type { Column } from "../core/table";
import { UNKNOWN, TimeScale, plural, printable, shortenMiddle } from "../core/format";
import type { Model } from "../core/model";
import { type OverRanks, overRanks, type Row } from "./rows";

// `sum`: seconds that shares are of; `isWhole`: the whole run is selected, and ranks' figures, which are always of the
// whole run, need no word about that; `helperIdle`: times are with those of idle helper threads.
export function makeColumns(
  model: Model,
  rows: Row[],
  partsOf: (row: Row) => Float64Array,
  sum: number,
  isWhole: boolean,
  helperIdle: boolean,
): Column<Row>[] {
  const ranksOf = (row: Row): OverRanks | null => (row.whole ? overRanks(row.whole, helperIdle) : null);
  return [
    nameColumn(model),
    ...timeColumns(rows, sum),
    {
      id: "split",
      title: "Own time",
      help: "Python, native, system, MPI, I/O, idle, runnable: shares of the function's own time.",
      class: "split",
      cell: (row) => categoryBar(partsOf(row), undefined, { class: "thin" }),
    },
    ...rankTimeColumns(rows, ranksOf, isWhole),
    ...imbalanceColumns(sum, ranksOf, isWhole),
    {
      id: "module",
      title: "Module",
      class: "fn-module",
      value: (row) => row.module,
      cell: (row) => el("span", { tip: row.module }, shortenMiddle(row.module, 20)),
    },
  ];
}

function nameColumn(model: Model): Column<Row> {
  return {
    id: "name",
    title: "Function",
    class: "fn-cell",
    value: (row) => functionText(row.info),
    cell: (row) => [
      kindMark(row.info.kind),
      row.members ? el("span", { class: "fn-name" }, printable(row.info.name)) : functionName(row.info, 46),
      el(
        "span",
        { class: "fn-place" },
        row.members ? `library, ${plural(row.members.length, "function")}` : placeText(model, row.info.file, row.info.line),
      ),
    ],
  };
}

function timeColumns(rows: Row[], sum: number): Column<Row>[] {
  const scale = new TimeScale(rows.reduce((most, row) => Math.max(most, row.total, row.self), 0));
  return [
    {
      id: "self",
      title: `Self, ${scale.unit}`,
      help: "Time in the function itself, summed over ranks.",
      numeric: true,
      value: (row) => row.self,
      cell: (row) => shareCell(row.self, sum, scale.format(row.self)),
    },
    {
      id: "total",
      title: `Total, ${scale.unit}`,
      help: "Time in the function and what it called, summed over ranks; recursion counts once.",
      numeric: true,
      value: (row) => row.total,
      cell: (row) => shareCell(row.total, sum, scale.format(row.total)),
    },
  ];
}

const wholeRunNote = (isWhole: boolean): string => (isWhole ? "" : " Of the whole run, whatever is selected.");

function rankTimeColumns(rows: Row[], ranksOf: (row: Row) => OverRanks | null, isWhole: boolean): Column<Row>[] {
  const scale = new TimeScale(rows.reduce((most, row) => Math.max(most, ranksOf(row)?.max_s ?? 0), 0));
  const column = (id: string, title: string, help: string, name: "min_s" | "mean_s" | "max_s"): Column<Row> => ({
    id,
    title: `${title}, ${scale.unit}`,
    help: `${help}${wholeRunNote(isWhole)}`,
    numeric: true,
    class: `tight ${isWhole ? "" : "of-whole"} ${id === "rank_max" ? "" : "wide-only"}`,
    value: (row) => ranksOf(row)?.[name] ?? null,
    cell: (row) => {
      const ranks = ranksOf(row);
      return ranks ? scale.format(ranks[name]) : UNKNOWN;
    },
  });
  return [
    column("rank_min", "Rank min", "Total of the rank with least.", "min_s"),
    column("rank_mean", "Rank mean", "Total of the mean rank.", "mean_s"),
    column("rank_max", "Rank max", "Total of the rank with most.", "max_s"),
  ];
}

function imbalanceColumns(sum: number, ranksOf: (row: Row) => OverRanks | null, isWhole: boolean): Column<Row>[] {
  const note = wholeRunNote(isWhole);
  const columnClass = isWhole ? "tight" : "tight of-whole";
  return [
    {
      id: "imbalance",
      title: "Imbal.",
      help: `Largest total of a rank by the mean over all ranks. 1: all have the same.${note}`,
      numeric: true,
      class: columnClass,
      value: (row) => ranksOf(row)?.imbalance,
      cell: (row) => {
        const imbalance = ranksOf(row)?.imbalance;
        if (imbalance === null || imbalance === undefined) return UNKNOWN;
        const matters = imbalance >= 1.5 && row.total > 0.01 * sum;
        return el(
          "span",
          { class: matters ? "warn" : null },
          `${imbalance.toFixed(imbalance < 99.95 ? 2 : 0)}×`,
        );
      },
    },
    {
      id: "rank",
      title: "Slowest",
      help: `The rank with the largest total.${note}`,
      numeric: true,
      class: columnClass,
      value: (row) => ranksOf(row)?.rank,
      cell: (row) => String(ranksOf(row)?.rank ?? UNKNOWN),
    },
  ];
}
