// SPDX-License-Identifier: BSD-3-Clause
// Who holds memory, as tables: lines, leaks, the peak of each node, and what the kernel says of ranks and nodes.
import { shortenedNote } from "../comm/parts";
import { type Child, el, miniBar } from "../core/dom";
import { binBytes, bytes, count, functionLabel, percent, printable, seconds, shortenMiddle } from "../core/format";
import { lineTarget, nodeTarget, rankTarget } from "../core/links";
import type { HeldMemory, HeldNode, HeldPlace, HeldRank, MemoryDomain, MemoryLine } from "../core/report";
import type { Store } from "../core/selection";
import { table, type Column } from "../core/table";

export const DOMAINS: Record<MemoryDomain, { title: string; help: string }> = {
  python: { title: "Python", help: "Objects of the interpreter." },
  native: { title: "native", help: "malloc and the like, of C, C++, Fortran and libraries; buffers of numpy, too." },
  mmap: { title: "mmap", help: "Anonymous and shared mappings, from the kernel." },
  mpi: { title: "MPI", help: "Allocated inside MPI calls; windows." },
};

function placeCell(store: Store, place: HeldPlace, library: string | null = null): Child {
  const { model } = store;
  if (!place.function) return el("span", { class: "muted" }, "not known where");
  const at = printable(model.place(place.file, place.line));
  const label = shortenMiddle(functionLabel(place.function, "native"), 48);
  return [
    place.file && place.line
      ? el("a", { href: store.href(lineTarget(place.file, place.line)), tip: printable(place.file) }, label, el("span", { class: "where" }, ` ${shortenMiddle(at, 40)}`))
      : el("span", null, label, at ? el("span", { class: "where" }, ` ${shortenMiddle(at, 40)}`) : null),
    library ? el("span", { class: "where", tip: printable(library) }, ` in ${shortenMiddle(printable(library), 40)}`) : null,
  ];
}

const rankCell = (store: Store, rank: number): Child =>
  store.model.rankIndex(rank) >= 0 ? el("a", { href: store.href(rankTarget(rank, "memory")) }, `rank ${rank}`) : `rank ${rank}`;

const placeText = (place: HeldPlace): string => `${place.file ?? ""}:${String(place.line ?? 0).padStart(6, "0")}:${place.function ?? ""}`;

type Part = HeldNode["held"][number];

// A column of bytes, with bars as parts of the largest.
export function amount<Row>(rows: readonly Row[], id: string, title: string, help: string, pick: (row: Row) => number | null | undefined, bars = true): Column<Row> {
  const most = rows.reduce((m, row) => Math.max(m, pick(row) ?? 0), 0);
  return {
    id,
    title,
    help,
    numeric: true,
    value: pick,
    cell: (row) =>
      bars
        ? [el("span", { class: "bar-number" }, bytes(pick(row))), miniBar(most > 0 ? (pick(row) ?? 0) / most : 0, undefined, { class: "short" })]
        : bytes(pick(row)),
  };
}

const domainColumn = <Row extends { domain: MemoryDomain }>(): Column<Row> => ({
  id: "domain",
  title: "Kind",
  value: (row) => row.domain,
  cell: (row) => el("span", { tip: DOMAINS[row.domain]?.help }, DOMAINS[row.domain]?.title ?? row.domain),
});

export function linesTable(store: Store, memory: HeldMemory): Child {
  const rows = memory.lines;
  const columns: Column<MemoryLine>[] = [
    { id: "line", title: "Line", value: placeText, cell: (row) => placeCell(store, row, row.library_function) },
    domainColumn(),
    amount(rows, "node", "At nodes' peaks", "Held when the ranks of the node held the most together, summed over nodes.", (row) => row.node_peak_bytes),
    amount(rows, "rank", "At ranks' peaks", "Held when the rank held the most, summed over ranks.", (row) => row.rank_peak_bytes),
    amount(rows, "live", "At the end", "Held when the program ended, before exit handlers.", (row) => row.live_end_bytes),
    amount(rows, "alloc", "Allocated", `In all. One byte in ${binBytes(memory.interval_bytes)} was sampled.`, (row) => row.alloc_bytes),
    { id: "error", title: "±", help: "Standard error of what was allocated.", numeric: true, value: (row) => row.error_bytes, cell: (row) => bytes(row.error_bytes) },
    { id: "calls", title: "Calls", help: "How often memory was allocated.", numeric: true, value: (row) => row.alloc_count, cell: (row) => count(row.alloc_count) },
    amount(rows, "soon", "Freed soon", "Freed within 100 ms.", (row) => row.freed_soon_bytes, false),
    amount(rows, "copy", "Copied", "Moved by memcpy, memmove and the like, in libraries, too.", (row) => row.copy_bytes, false),
    { id: "most", title: "Most on", help: "The rank that held most of it at its peak.", value: (row) => (row.rank_max_bytes > 0 ? row.rank_max : null), cell: (row) => (row.rank_max_bytes > 0 ? rankCell(store, row.rank_max) : null) },
  ];
  return [
    table(columns, rows, { label: "Lines by memory", sort: { column: "node", descending: true }, limit: 50 }),
    shortenedNote(store.model, "memory.lines", "line"),
  ];
}

// Null: there are none.
export function leaksTable(store: Store, memory: HeldMemory): Child {
  const leaks = memory.lines.filter((row) => row.leak);
  if (leaks.length === 0) return null;
  return table<MemoryLine>(
    [
      { id: "line", title: "Line", value: placeText, cell: (row) => placeCell(store, row, row.library_function) },
      domainColumn(),
      { id: "growth", title: "Grows by", help: "Per second, in the second half of the time, on all ranks together.", numeric: true, value: (row) => row.growth_bytes_per_s, cell: (row) => `${bytes(row.growth_bytes_per_s)}/s` },
      amount(leaks, "live", "At the end", "Held when the program ended.", (row) => row.live_end_bytes),
      { id: "sure", title: "Confidence", help: "Of the eighths of the time, how many left something, less what is by chance.", numeric: true, value: (row) => row.leak_confidence, cell: (row) => percent(row.leak_confidence, 0) },
    ],
    leaks,
    { label: "Lines whose memory is never freed", sort: { column: "growth", descending: true }, limit: 20 },
  );
}

// Opens to who held what at the peak of the node.
export function nodesTable(store: Store, memory: HeldMemory): Child {
  const { model } = store;
  const rows = memory.nodes;
  const index = (row: HeldNode): number => model.nodes.findIndex((node) => node.name === row.name);
  const parts = (row: HeldNode): HTMLElement =>
    table<Part>(
      [
        amount(row.held, "bytes", "Held", "When the ranks of this node held the most.", (part) => part.bytes),
        { id: "rank", title: "Rank", numeric: true, value: (part) => part.rank, cell: (part) => rankCell(store, part.rank) },
        domainColumn(),
        { id: "line", title: "Line", value: placeText, cell: (part) => placeCell(store, part) },
      ],
      row.held,
      { label: "At the peak of this node", limit: 24 },
    );
  return [
    table<HeldNode>(
      [
        { id: "name", title: "Node", value: (row) => row.name, cell: (row) => (index(row) >= 0 ? el("a", { href: store.href(nodeTarget(index(row))) }, shortenMiddle(printable(row.name), 32)) : shortenMiddle(printable(row.name), 32)) },
        amount(rows, "peak", "Held at its peak", "The most that its ranks held together.", (row) => row.peak_bytes),
        { id: "at", title: "After", numeric: true, value: (row) => row.peak_at_s, cell: (row) => seconds(row.peak_at_s) },
        amount(rows, "limit", "Limit", "Of the job's control group on the node.", (row) => row.limit_bytes, false),
        amount(rows, "used", "Most used", "By the job on the node, as the kernel counts it: with files that were read.", (row) => row.max_used_bytes, false),
        amount(rows, "files", "Of files", "Of what was used when that was the most: pages of files, which the kernel can drop.", (row) => row.file_bytes, false),
        { id: "hits", title: "At the limit", help: "How often it was at its limit.", numeric: true, value: (row) => row.limit_hits, cell: (row) => count(row.limit_hits) },
        amount(rows, "asked", "Asked for", "By the job, of the batch system.", (row) => row.requested_bytes, false),
      ],
      rows,
      { label: "Nodes by memory held", sort: { column: "peak", descending: true }, limit: 12, onOpen: parts, open: () => rows.length === 1 },
    ),
    shortenedNote(model, "memory.nodes", "node"),
  ];
}

export function ranksTable(store: Store, memory: HeldMemory): Child {
  const rows = memory.ranks;
  const mask = store.rankMask();
  const chosen = mask ? rows.filter((row) => mask[store.model.rankIndex(row.rank)]) : rows;
  if (chosen.length === 0) return null;
  const unseen = (row: HeldRank): number | null =>
    row.max_anonymous_bytes === null || row.max_anonymous_bytes === undefined
      ? null
      : Math.max(0, row.max_anonymous_bytes - (row.live_at_max_anonymous_bytes ?? 0));
  return table<HeldRank>(
    [
      { id: "rank", title: "Rank", numeric: true, value: (row) => row.rank, cell: (row) => rankCell(store, row.rank) },
      amount(chosen, "peak", "Held at its peak", "The most that its processes held together.", (row) => row.peak_bytes),
      { id: "at", title: "After", numeric: true, value: (row) => row.peak_at_s, cell: (row) => seconds(row.peak_at_s) },
      amount(chosen, "live", "At the end", "Held when it ended, before exit handlers.", (row) => row.live_end_bytes, false),
      amount(chosen, "rss", "Resident", "The most that was in RAM, with libraries, files and shared memory.", (row) => row.max_rss_bytes, false),
      amount(chosen, "unseen", "Unseen", "Anonymous memory in RAM when that was the most, without what was held then: what malloc keeps, stacks, data of libraries.", unseen, false),
      amount(chosen, "pss", "PSS", "In RAM; pages that n processes have count for 1/n.", (row) => row.pss_bytes, false),
      amount(chosen, "dirty", "Private, written", "", (row) => row.private_dirty_bytes, false),
      amount(chosen, "huge", "Huge pages", "", (row) => row.huge_page_bytes, false),
      amount(chosen, "swap", "Swapped", "", (row) => row.swap_bytes, false),
      amount(chosen, "far", "Far", "On the memory of other processors than those that it runs on.", (row) => row.far_bytes, false),
    ],
    chosen,
    { label: "Ranks by memory held", sort: { column: "peak", descending: true }, limit: 12 },
  );
}
