// SPDX-License-Identifier: BSD-3-Clause
// What is said about one cell of the map: a row of ranks in one bin of time.
import { categoryColour } from "../core/colours";
import { type Child, el } from "../core/dom";
import { seriesValue } from "../core/format";
import type { Content } from "./content";
import type { Cell } from "./pointer";
import type { View } from "./view";

interface CellValue {
  title: string;
  value: string;
  colour: string | null;
}

// Of the series that colours the map and of the categories, largest first.
function cellValues(content: Content, view: View, { row, bin }: Cell): CellValue[] {
  const { measure } = view;
  const shown = measure ? [measure, ...(measure.category ? [] : content.categories)] : content.categories;
  const total = content.categories.reduce((sum, series) => sum + (content.value(series, row, bin) || 0), 0);
  return shown
    .map((series) => {
      const value = content.value(series, row, bin);
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

export function cellText(content: Content, view: View, cell: Cell): string {
  const values = cellValues(content, view, cell).map((part) => `${part.title} ${part.value}`);
  return `${content.rowTitle(cell.row)}, ${content.binRange(cell.bin)}: ${values.join(", ") || "nothing recorded"}`;
}

export function cellTip(content: Content, view: View, cell: Cell): Child {
  const values = cellValues(content, view, cell);
  return el(
    "div",
    { class: "chart-tip" },
    el("b", null, content.rowTitle(cell.row)),
    el("div", { class: "when" }, content.binRange(cell.bin)),
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
  );
}
