// SPDX-License-Identifier: BSD-3-Clause
// The timeline as a table: by series, over the selected time and ranks.
import { rowLabel } from "../charts/rows";
import { categoryColour } from "../core/colours";
import { type Child, el } from "../core/dom";
import { type Column, table } from "../core/table";
import { seriesValue } from "../core/format";
import { CATEGORIES } from "../core/model";
import { binParts, rowSeconds } from "../core/over_time";
import type { Content } from "./content";
import type { Series } from "./series";

interface Figure {
  series: Series;
  mean: number;
  low: { row: number; value: number } | null;
  high: { row: number; value: number } | null;
}

// The value of a series in one row of the data, over the selected time.
function rowValues(content: Content): (series: Series, row: number) => number {
  const { bins } = content.axis;
  const parts = binParts(content.axis, content.store.selection.time);
  const covered = parts.reduce((sum, part, b) => sum + part * content.covered(b), 0);
  const count = CATEGORIES.length;
  const seconds = rowSeconds(content.store);
  return (series: Series, row: number): number => {
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
}

export function figures(content: Content): HTMLElement {
  const all = Array.from(content.chosen ?? content.order);
  const shown = new Map<number, number>(); // row of the data -> of the map
  content.order.forEach((row, i) => shown.set(row, i));
  const valueOf = rowValues(content);
  const rows = content.series.map((series): Figure => {
    let low: Figure["low"] = null;
    let high: Figure["high"] = null;
    for (const row of all) {
      const value = valueOf(series, row);
      if (Number.isNaN(value)) continue;
      if (!low || value < low.value) low = { row, value };
      if (!high || value > high.value) high = { row, value };
    }
    return { series, mean: content.meanOf(series), low, high };
  });
  const who = (end: Figure["low"]): Child => {
    if (!end) return "–";
    const row = shown.get(end.row)!;
    return el(
      "button",
      {
        type: "button",
        class: "link",
        tip: `select ${content.rowTitle(row)}`,
        on: { click: () => content.store.select({ ranks: content.ranksOf([row, row + 1]), nodes: null }) },
      },
      rowLabel(content.rows, row),
    );
  };
  const swatch = (series: Series): Child =>
    el(
      "span",
      { class: "key" },
      el("i", { style: { background: series.category ? categoryColour(series.category) : "var(--accent)" } }),
      series.title,
    );
  return table<Figure>(
    [
      { id: "series", title: "Over time", value: (f) => f.series.title, cell: (f) => swatch(f.series) },
      {
        id: "mean",
        title: "All ranks",
        numeric: true,
        cell: (f) => seriesValue(f.mean, f.series.unit),
        help: "Categories: their part of the time of all these ranks. Else the mean rank; of levels the most within the time.",
      },
      ...(content.model.rankCount > 1
        ? ([
            { id: "low", title: "Least", numeric: true, cell: (f) => seriesValue(f.low?.value, f.series.unit) },
            { id: "lowRank", title: "by", class: "nowrap", cell: (f) => who(f.low) },
            { id: "high", title: "Most", numeric: true, cell: (f) => seriesValue(f.high?.value, f.series.unit) },
            { id: "highRank", title: "by", class: "nowrap", cell: (f) => who(f.high) },
          ] satisfies Column<Figure>[])
        : []),
    ],
    rows,
    { label: "Values over the selected time and ranks" },
  );
}
