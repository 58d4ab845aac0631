// SPDX-License-Identifier: BSD-3-Clause
// The rows of the table of functions: functions, or all functions of a package together.
import { packageTotals, packagesOf } from "../calltree/packages";
import type { Column } from "../core/table";
import { type FunctionInfo, type Model, NONE } from "../core/model";
import type { FunctionRow } from "../core/report";
import { CATEGORY_COUNT, type Weights } from "../core/weights";

export interface Row {
  index: number; // of the function; packages come after all functions
  info: FunctionInfo;
  module: string;
  self: number;
  total: number;
  whole: FunctionRow | null; // of the whole run
  members?: Row[]; // of a package: its functions
}

export interface OverRanks {
  min_s: number;
  mean_s: number;
  max_s: number;
  rank: number; // with most
  imbalance: number | null | undefined;
}

// How a function's total lies on the ranks, with the idle helper threads or without, as the times beside it.
export function overRanks(row: FunctionRow, helperIdle: boolean): OverRanks {
  return helperIdle
    ? {
        min_s: row.rank_min_s,
        mean_s: row.rank_mean_s,
        max_s: row.rank_max_s,
        rank: row.rank_max,
        imbalance: row.imbalance,
      }
    : {
        min_s: row.active_rank_min_s,
        mean_s: row.active_rank_mean_s,
        max_s: row.active_rank_max_s,
        rank: row.active_rank_max,
        imbalance: row.active_imbalance,
      };
}

// Where the row will be in the sorted table; -1: it is not in it.
export function positionOf(
  columns: Column<Row>[],
  rows: Row[],
  sort: { column: string; descending: boolean },
  index: number,
): number {
  const column = columns.find((c) => c.id === sort.column);
  const row = rows.find((r) => r.index === index);
  if (!row || !column?.value) return -1;
  const own = column.value(row);
  if (typeof own !== "number") return rows.length;
  return rows.filter((other) => {
    const value = column.value!(other);
    return typeof value === "number" && (sort.descending ? value >= own : value <= own);
  }).length;
}

// The own time of a function, or of all functions of a package, by category.
export function partsOf(row: Row, parts: Float64Array): Float64Array {
  if (!row.members) return parts.subarray(row.index * CATEGORY_COUNT, (row.index + 1) * CATEGORY_COUNT);
  const sums = new Float64Array(CATEGORY_COUNT);
  for (const member of row.members) partsOf(member, parts).forEach((value, c) => (sums[c] += value));
  return sums;
}

// The rows with the functions of each package as one row, except for the function that is open.
export function byPackage(model: Model, rows: readonly Row[], of: Weights, open: number): Row[] {
  const { names, ofFunction } = packagesOf(model);
  const totals = packageTotals(model, of.total);
  const members = names.map((): Row[] => []);
  const result: Row[] = [];
  for (const row of rows) {
    const number = ofFunction[row.index];
    if (number < 0 || row.index === open) result.push(row);
    else members[number].push(row);
  }
  members.forEach((list, number) => {
    if (list.length < 2) return result.push(...list);
    const self = list.reduce((sum, row) => sum + row.self, 0);
    result.push({
      index: model.functionCount + number,
      info: { name: names[number], kind: list[0].info.kind, file: null, module: null, line: 0, row: NONE },
      module: names[number],
      self,
      total: Math.max(self, totals[number]),
      whole: null,
      members: list,
    });
  });
  return result;
}
