// SPDX-License-Identifier: BSD-3-Clause
// Memory that the program names by space and label, as tables: each space opens to what its labels held at its peak.
import { shortenedNote } from "../comm/parts";
import { type Child, el } from "../core/dom";
import { bytes, count, printable, seconds, shortenMiddle } from "../core/format";
import { rankTarget } from "../core/links";
import type { MemoryCopiesRow, MemoryLabelRow, MemorySpaceRow } from "../core/report";
import type { Store } from "../core/selection";
import { table } from "../core/table";
import { amount } from "./held_tables";

const rankCell = (store: Store, rank: number): Child =>
  store.model.rankIndex(rank) >= 0 ? el("a", { href: store.href(rankTarget(rank, "memory")) }, `rank ${rank}`) : `rank ${rank}`;

const named = (name: string, most: number): Child => el("span", { tip: printable(name) }, shortenMiddle(printable(name), most));

function labelsTable(store: Store, space: MemorySpaceRow): HTMLElement {
  const rows = space.labels;
  return table<MemoryLabelRow>(
    [
      { id: "label", title: "Label", value: (row) => row.label ?? "", cell: (row) => (row.label === null ? el("span", { class: "muted" }, "no label") : named(row.label, 60)) },
      amount(rows, "held", "At the peaks", "Held when the space held the most, summed over ranks.", (row) => row.space_peak_bytes),
      { id: "most", title: "Most on", help: "The rank that held most of it at its peak.", value: (row) => (row.rank_max_bytes > 0 ? row.rank_max : null), cell: (row) => (row.rank_max_bytes > 0 ? rankCell(store, row.rank_max) : null) },
      amount(rows, "own", "Own peak", "The most that a rank held of it at one time.", (row) => row.peak_bytes, false),
      amount(rows, "live", "At the end", "Not freed in the end.", (row) => row.live_end_bytes, false),
      amount(rows, "alloc", "Allocated", "In all.", (row) => row.alloc_bytes, false),
      { id: "count", title: "Times", help: "How often it was allocated.", numeric: true, value: (row) => row.allocations, cell: (row) => count(row.allocations) },
    ],
    rows,
    { label: `Labels of ${printable(space.name)}`, sort: { column: "held", descending: true }, limit: 24 },
  );
}

export function spacesTable(store: Store, spaces: readonly MemorySpaceRow[]): Child {
  return [
    table<MemorySpaceRow>(
      [
        { id: "name", title: "Space", value: (row) => row.name, cell: (row) => named(row.name, 40) },
        amount(spaces, "peak", "Peak of a rank", "The most that a rank held at one time.", (row) => row.rank_max_bytes),
        { id: "rank", title: "Rank", value: (row) => row.rank_max, cell: (row) => (row.rank_max === null ? null : rankCell(store, row.rank_max)) },
        { id: "at", title: "After", numeric: true, value: (row) => row.rank_max_at_s, cell: (row) => seconds(row.rank_max_at_s) },
        amount(spaces, "peaks", "Peaks of all ranks", "Their sum; they may be at different times.", (row) => row.peaks_bytes),
        amount(spaces, "node", "Of a node", "The largest sum of the peaks of a node's ranks.", (row) => row.node_max_bytes, false),
        amount(spaces, "live", "At the end", "Not freed in the end.", (row) => row.live_end_bytes, false),
        { id: "count", title: "Allocations", numeric: true, value: (row) => row.allocations, cell: (row) => count(row.allocations) },
        { id: "frees", title: "Frees", numeric: true, value: (row) => row.frees, cell: (row) => count(row.frees) },
      ],
      spaces,
      { label: "Memory spaces", sort: { column: "peaks", descending: true }, limit: 12, onOpen: (row) => labelsTable(store, row), open: (row) => row === spaces[0] },
    ),
    shortenedNote(store.model, "labelled_memory.labels", "label"),
  ];
}

export function copiesTable(store: Store, copies: readonly MemoryCopiesRow[]): Child {
  return table<MemoryCopiesRow>(
    [
      { id: "from", title: "From", value: (row) => row.from, cell: (row) => named(row.from, 40) },
      { id: "to", title: "To", value: (row) => row.to, cell: (row) => named(row.to, 40) },
      amount(copies, "bytes", "Bytes", "Of all ranks together.", (row) => row.bytes),
      { id: "count", title: "Copies", numeric: true, value: (row) => row.count, cell: (row) => count(row.count) },
      { id: "rank", title: "Most on", value: (row) => row.rank_max, cell: (row) => [rankCell(store, row.rank_max), el("span", { class: "where" }, ` ${bytes(row.rank_max_bytes)}`)] },
    ],
    copies,
    { label: "Deep copies between memory spaces", sort: { column: "bytes", descending: true }, limit: 12 },
  );
}
