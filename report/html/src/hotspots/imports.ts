// SPDX-License-Identifier: BSD-3-Clause
// What the imports of Python packages take.
import { placeCell, rankLink, shortenedNote } from "../comm/parts";
import { el, ofWholeRun, section } from "../core/dom";
import { percent, printable, seconds, shortenMiddle } from "../core/format";
import type { ImportRow } from "../core/report";
import type { Store } from "../core/selection";
import { table } from "../core/table";

const NOT_KNOWN = "not known";

const nameOf = (row: ImportRow): string => (row.package === null ? NOT_KNOWN : printable(row.package));

function nameCell(row: ImportRow): HTMLElement {
  const by = row.direct ? "The program imports it." : "Other packages or the interpreter import it.";
  return el("span", { tip: row.package === null ? "Modules whose package is not known, such as built-in ones." : `${nameOf(row)}. ${by}` }, shortenMiddle(nameOf(row), 40));
}

// Null where the run imported nothing.
export function importsSection(store: Store): HTMLElement | null {
  const { model } = store;
  const { imports, import_time: all } = model.report;
  if ((imports ?? []).length === 0) return null;
  const rankTime = model.report.ranks.reduce((sum, rank) => sum + rank.elapsed_s - rank.paused_s, 0);
  const ofRanks = model.header.shortened?.ranks || rankTime === 0 ? "" : `, ${percent(all.main_thread_s / rankTime)} of rank time`;
  return section(
    "Imports",
    { class: "chart-card", aside: [shortenedNote(model, "imports", "package"), ofWholeRun()] },
    el("p", { class: "page-note" }, `Importing packages takes main threads ${seconds(all.main_thread_s)}${ofRanks}; ${seconds(all.main_thread_io_s)} of it in calls on files.`),
    table<ImportRow>(
      [
        { id: "package", title: "Package", value: nameOf, cell: nameCell },
        { id: "total", title: "Total", numeric: true, help: "Of all threads, with what the package imports in turn", value: (row) => row.time_s, cell: (row) => seconds(row.time_s) },
        { id: "self", title: "Self", numeric: true, help: "Finding, loading and running the package's own modules", value: (row) => row.self_s, cell: (row) => seconds(row.self_s) },
        { id: "main", title: "Main threads", numeric: true, help: "Of the total", value: (row) => row.main_thread_s, cell: (row) => seconds(row.main_thread_s) },
        { id: "mean", title: "Mean rank", numeric: true, value: (row) => row.rank_mean_s, cell: (row) => seconds(row.rank_mean_s) },
        { id: "max", title: "Max rank", numeric: true, value: (row) => row.rank_max_s, cell: (row) => seconds(row.rank_max_s) },
        { id: "rank", title: "Most by", class: "nowrap", value: (row) => row.rank_max, cell: (row) => (row.rank_max >= 0 ? rankLink(store, row.rank_max) : "–") },
        { id: "place", title: "Imported in", help: "The program's statement that causes most of it", value: (row) => row.line, cell: (row) => (row.file === null ? "–" : placeCell(model, { ...row, op: null }, "python")) },
      ],
      imports,
      { label: "Packages by import time", sort: { column: "total", descending: true }, limit: 12 },
    ),
  );
}
