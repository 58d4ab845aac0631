// SPDX-License-Identifier: BSD-3-Clause
// The columns of the table of functions.
import { categoryBar, functionName, functionText, kindMark, placeText, shareCell } from "../charts/code_parts";
import { el } from "../core/dom";
import type { Column } from "../core/table";
import { UNKNOWN, TimeScale, plural, printable, shortenMiddle } from "../core/format";
import type { Model } from "../core/model";
import type { FunctionRow } from "../core/report";
import type { Row } from "./rows";

export function makeColumns(
  model: Model,
  rows: Row[],
  partsOf: (row: Row) => Float64Array,
  sum: number,
  isWhole: boolean,
): Column<Row>[] {
  let largest = 0;
  let largestRank = 0;
  for (const row of rows) {
    largest = Math.max(largest, row.total, row.self);
    largestRank = Math.max(largestRank, row.whole?.rank_max_s ?? 0);
  }
  const scale = new TimeScale(largest);
  const rankScale = new TimeScale(largestRank);
  const ofRanks = isWhole ? "" : " Of the whole run, whatever is selected.";
  const rankColumn = (
    id: string,
    title: string,
    help: string,
    value: (row: FunctionRow) => number,
  ): Column<Row> => ({
    id,
    title,
    help: `${help}${ofRanks}`,
    numeric: true,
    class: `tight ${isWhole ? "" : "of-whole"} ${id === "rank_max" ? "" : "wide-only"}`,
    value: (row) => (row.whole ? value(row.whole) : null),
    cell: (row) => (row.whole ? rankScale.format(value(row.whole)) : UNKNOWN),
  });
  return [
    {
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
    },
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
    {
      id: "split",
      title: "Own time",
      help: "Python, native, system, MPI, I/O, idle, runnable: shares of the function's own time.",
      class: "split",
      cell: (row) =>
        categoryBar(partsOf(row), undefined, {
          class: "thin",
        }),
    },
    rankColumn(
      "rank_min",
      `Rank min, ${rankScale.unit}`,
      "Total of the rank with least.",
      (row) => row.rank_min_s,
    ),
    rankColumn(
      "rank_mean",
      `Rank mean, ${rankScale.unit}`,
      "Total of the mean rank.",
      (row) => row.rank_mean_s,
    ),
    rankColumn(
      "rank_max",
      `Rank max, ${rankScale.unit}`,
      "Total of the rank with most.",
      (row) => row.rank_max_s,
    ),
    {
      id: "imbalance",
      title: "Imbal.",
      help: `Largest total of a rank by the mean over all ranks. 1: all have the same.${ofRanks}`,
      numeric: true,
      class: isWhole ? "tight" : "tight of-whole",
      value: (row) => row.whole?.imbalance,
      cell: (row) => {
        const imbalance = row.whole?.imbalance;
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
      help: `The rank with the largest total.${ofRanks}`,
      numeric: true,
      class: isWhole ? "tight" : "tight of-whole",
      value: (row) => row.whole?.rank_max,
      cell: (row) => (row.whole ? String(row.whole.rank_max) : UNKNOWN),
    },
    {
      id: "module",
      title: "Module",
      class: "fn-module",
      value: (row) => row.module,
      cell: (row) => el("span", { tip: row.module }, shortenMiddle(row.module, 20)),
    },
  ];
}
