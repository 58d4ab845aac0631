// SPDX-License-Identifier: BSD-3-Clause
// Which files were read and written, by which lines, and what it took. All of it is of the whole run.
import { libraryCall, placeCell, rankLink, shortenedNote } from "../comm/parts";
import { type Child, el, miniBar, ofWholeRun, section, stackedBar } from "../core/dom";
import { type Column, table } from "../core/table";
import { bytes, count, percent, plural, printable, seconds, shortenMiddle } from "../core/format";
import type { Page } from "../core/page";
import type { Io, IoAmounts, IoCall, IoGroup, IoFile } from "../core/report";
import type { Store } from "../core/selection";

const PARTS = [
  ["read_s", "reading", "var(--cat-python)"],
  ["write_s", "writing", "var(--cat-io)"],
  ["sync_s", "syncing", "var(--cat-mpi)"],
  ["meta_s", "opening, closing and other calls", "var(--cat-system)"],
] as const;

const timeOf = (row: IoAmounts): number => PARTS.reduce((sum, [name]) => sum + row[name], 0);

function pathCell(path: string | null | undefined, most = 64): Child {
  if (!path) return el("span", { class: "muted" }, "not known");
  const text = printable(path);
  return el("span", { class: "place", tip: text }, shortenMiddle(text, most));
}

function timeColumns<Row extends IoAmounts>(most: number): Column<Row>[] {
  return [
    {
      id: "read",
      title: "Read",
      numeric: true,
      value: (row) => row.read_bytes,
      cell: (row) => (row.read_bytes > 0 ? bytes(row.read_bytes) : ""),
    },
    {
      id: "written",
      title: "Written",
      numeric: true,
      value: (row) => row.written_bytes,
      cell: (row) => (row.written_bytes > 0 ? bytes(row.written_bytes) : ""),
    },
    { id: "time", title: "Time", numeric: true, help: "Of all ranks and threads together", value: timeOf, cell: (row) => seconds(timeOf(row)) },
    {
      id: "bar",
      title: "Kinds of calls",
      class: "wide",
      cell: (row) =>
        el(
          "div",
          { class: "call-bar", style: { width: `${most > 0 ? Math.max(1, (100 * timeOf(row)) / most) : 0}%` } },
          stackedBar(PARTS.map(([name, label, colour]) => ({ value: row[name], colour, label, text: seconds(row[name]) }))),
        ),
    },
  ];
}

function legend(): HTMLElement {
  return el(
    "div",
    { class: "chart-legend spaced" },
    PARTS.map(([, label, colour]) => el("span", { class: "key" }, el("i", { style: { background: colour } }), label)),
  );
}

// The row with the longest call.
export function longestOf(calls: readonly IoCall[]): IoCall | null {
  return calls.reduce<IoCall | null>((most, row) => (most && most.max_s >= row.max_s ? most : row), null);
}

export function whoseLongest(row: IoCall): string {
  return row.longest_rank >= 0 ? `${row.operation}, rank ${row.longest_rank}` : row.operation;
}

function tiles(io: Io): HTMLElement {
  const sum = (of: (row: IoAmounts) => number) => io.file_systems.reduce((all, row) => all + of(row), 0);
  const calls = io.calls.reduce((all, row) => all + row.count, 0);
  const failed = io.calls.reduce((all, row) => all + row.failed, 0);
  const longest = longestOf(io.calls);
  const tile = (name: string, value: Child, detail: Child) =>
    el(
      "div",
      { class: "tile" },
      el("div", { class: "tile-name" }, name),
      el("div", { class: "tile-value" }, value),
      el("div", { class: "tile-detail" }, detail),
    );
  return el(
    "div",
    { class: "tiles" },
    tile("Read", bytes(sum((row) => row.read_bytes)), seconds(sum((row) => row.read_s))),
    tile("Written", bytes(sum((row) => row.written_bytes)), seconds(sum((row) => row.write_s))),
    tile("Time in calls", seconds(sum(timeOf)), "of all ranks and threads"),
    tile("Other calls", seconds(sum((row) => row.meta_s)), sum((row) => row.sync_s) > 0 ? `and ${seconds(sum((row) => row.sync_s))} syncing` : "no syncing"),
    tile("Calls", count(calls), failed > 0 ? `${count(failed)} failed` : "none failed"),
    longest ? tile("Longest call", seconds(longest.max_s), whoseLongest(longest)) : null,
  );
}

// Calls of one operation from one line, whatever the file.
interface Site {
  first: IoCall;
  calls: IoCall[]; // by file, largest first
  count: number;
  failed: number;
  bytes: number;
  time_s: number;
  longest: IoCall; // with the longest call
}

export function sitesOf(calls: readonly IoCall[]): Site[] {
  const sites = new Map<string, Site>();
  for (const call of calls) {
    const key = JSON.stringify([call.operation, call.file, call.line, call.function, call.mpi ?? null, call.background ?? false]);
    let site = sites.get(key);
    if (!site) sites.set(key, (site = { first: call, calls: [], count: 0, failed: 0, bytes: 0, time_s: 0, longest: call }));
    site.calls.push(call);
    site.count += call.count;
    site.failed += call.failed;
    site.bytes += call.bytes;
    site.time_s += call.time_s;
    if (call.max_s > site.longest.max_s) site.longest = call;
  }
  for (const site of sites.values()) site.calls.sort((a, b) => b.time_s - a.time_s);
  return [...sites.values()];
}

function countCell(row: { count: number; failed: number }): Child {
  return [
    count(row.count),
    row.failed > 0 ? el("span", { class: "muted", tip: `${plural(row.failed, "call")} failed` }, ` (${count(row.failed)} failed)`) : null,
  ];
}

function callsCard(store: Store, calls: readonly IoCall[]): HTMLElement {
  const { model } = store;
  const sites = sitesOf(calls);
  const some = model.report.io?.by_file_only;
  const all = sites.reduce((sum, row) => sum + row.time_s, 0);
  const most = Math.max(0, ...sites.map((row) => row.time_s));
  const filesOf = (site: Site): HTMLElement =>
    table<IoCall>(
      [
        { id: "path", title: "File", value: (row) => row.path ?? "", cell: (row) => pathCell(row.path) },
        { id: "count", title: "Calls", numeric: true, value: (row) => row.count, cell: countCell },
        { id: "bytes", title: "Bytes", numeric: true, value: (row) => row.bytes, cell: (row) => (row.bytes > 0 ? bytes(row.bytes) : "") },
        { id: "time", title: "Time", numeric: true, value: (row) => row.time_s, cell: (row) => seconds(row.time_s) },
        { id: "max", title: "Longest", numeric: true, value: (row) => row.max_s, cell: (row) => seconds(row.max_s) },
        { id: "rank", title: "Most by", class: "nowrap", cell: (row) => (row.rank_max >= 0 ? rankLink(store, row.rank_max) : "–") },
      ],
      site.calls,
      { label: "Files of these calls", sort: { column: "time", descending: true }, limit: 10 },
    );
  return section(
    "Calls by line",
    { class: "chart-card", aside: [ofWholeRun(), " · click a row for its files"] },
    some && some.operations > 0
      ? el("p", { class: "page-note" }, `Not listed: ${plural(some.operations, "operation")} (${bytes(some.bytes)}, ${seconds(some.time_s)}), as the table of call sites was full. The files below include them.`)
      : null,
    table<Site>(
      [
        { id: "op", title: "Call", value: (row) => row.first.operation, cell: (row) => el("b", { class: "op" }, printable(row.first.operation)) },
        {
          id: "place",
          title: "Called from",
          value: (row) => row.first.function ?? "",
          cell: (row) => [
            placeCell(model, { ...row.first, op: null }),
            libraryCall(row.first.library_function),
            row.first.mpi ? el("span", { class: "where" }, ` in ${printable(row.first.mpi)}`) : null,
            row.first.background && !row.first.mpi ? el("span", { class: "where" }, " on a file system of the kernel") : null,
          ],
        },
        {
          id: "path",
          title: "File",
          value: (row) => row.calls.length,
          cell: (row) => (row.calls.length === 1 ? pathCell(row.first.path, 36) : plural(row.calls.length, "file")),
        },
        { id: "count", title: "Calls", numeric: true, value: (row) => row.count, cell: countCell },
        { id: "bytes", title: "Bytes", numeric: true, value: (row) => row.bytes, cell: (row) => (row.bytes > 0 ? bytes(row.bytes) : "") },
        { id: "time", title: "Time", numeric: true, help: "Of all ranks together", value: (row) => row.time_s, cell: (row) => seconds(row.time_s) },
        { id: "bar", title: "", cell: (row) => miniBar(most > 0 ? row.time_s / most : 0, "var(--cat-io)") },
        { id: "share", title: "of all file I/O", numeric: true, value: (row) => row.time_s, cell: (row) => percent(all > 0 ? row.time_s / all : 0) },
        { id: "max", title: "Longest", numeric: true, help: "A single call", value: (row) => row.longest.max_s, cell: (row) => seconds(row.longest.max_s) },
        { id: "rank", title: "by", help: "The rank that made the longest call", class: "nowrap", cell: (row) => (row.longest.longest_rank >= 0 ? rankLink(store, row.longest.longest_rank) : "–") },
      ],
      sites,
      {
        label: "Calls on files by line",
        sort: { column: "time", descending: true },
        limit: 20,
        empty: "No calls on files were recorded.",
        onOpen: filesOf,
      },
    ),
  );
}

function filesCard(store: Store, files: readonly IoFile[]): HTMLElement {
  const most = Math.max(0, ...files.map(timeOf));
  return section(
    "Files",
    { class: "chart-card", aside: [shortenedNote(store.model, "io.files", "file"), ofWholeRun()] },
    legend(),
    table<IoFile>(
      [
        { id: "path", title: "File", value: (row) => row.path ?? "", cell: (row) => pathCell(row.path) },
        { id: "ranks", title: "Ranks", numeric: true, help: "That used it", value: (row) => row.ranks, cell: (row) => count(row.ranks) },
        { id: "opens", title: "Opened", numeric: true, value: (row) => row.opens, cell: (row) => count(row.opens) },
        { id: "reads", title: "Reads", numeric: true, value: (row) => row.reads, cell: (row) => (row.reads > 0 ? count(row.reads) : "") },
        { id: "writes", title: "Writes", numeric: true, value: (row) => row.writes, cell: (row) => (row.writes > 0 ? count(row.writes) : "") },
        ...timeColumns<IoFile>(most),
      ],
      files,
      { label: "Files by time", sort: { column: "time", descending: true }, limit: 20, empty: "No files were recorded." },
    ),
  );
}

function groupsCard(store: Store, title: string, table_: string, what: string, rows: readonly IoGroup[] | undefined): Child {
  if (!rows || rows.length === 0) return null;
  const most = Math.max(0, ...rows.map(timeOf));
  return section(
    title,
    { class: "chart-card", aside: [shortenedNote(store.model, table_, what), ofWholeRun()] },
    table<IoGroup>(
      [
        { id: "path", title: what[0].toUpperCase() + what.slice(1), value: (row) => row.path ?? "", cell: (row) => pathCell(row.path) },
        { id: "files", title: "Files", numeric: true, value: (row) => row.files ?? null, cell: (row) => count(row.files) },
        { id: "opens", title: "Opened", numeric: true, value: (row) => row.opens ?? null, cell: (row) => count(row.opens) },
        ...timeColumns<IoGroup>(most),
      ],
      rows,
      { label: `${title} by time`, sort: { column: "time", descending: true }, limit: 15 },
    ),
  );
}

function systemsCard(store: Store, io: Io): HTMLElement {
  const most = Math.max(0, ...io.file_systems.map(timeOf));
  return section(
    "File systems",
    { class: "chart-card", aside: [shortenedNote(store.model, "io.file_systems", "file system"), ofWholeRun()] },
    table<Io["file_systems"][number]>(
      [
        { id: "name", title: "File system", value: (row) => row.name ?? "", cell: (row) => pathCell(row.name) },
        ...timeColumns<Io["file_systems"][number]>(most),
      ],
      io.file_systems,
      { label: "File systems by time", sort: { column: "time", descending: true }, limit: 10, empty: "No file systems were recorded." },
    ),
  );
}

export const page: Page = {
  id: "io",
  title: "File I/O",
  hint: "Which files, by which lines, and what it took",
  hidden: (model) => !model.report.io || (model.report.io.files.length === 0 && model.report.io.calls.length === 0),
  mount(root, store) {
    const io = store.model.report.io!;
    root.append(
      el("p", { class: "page-note" }, "Files that the program and its libraries used; what it waited for at sockets and pipes is under Off-CPU. ", ofWholeRun()),
      tiles(io),
      callsCard(store, io.calls),
      filesCard(store, io.files),
    );
    for (const card of [
      groupsCard(store, "Directories", "io.directories", "directory", io.directories),
      groupsCard(store, "Files with similar names", "io.patterns", "name", io.patterns),
      systemsCard(store, io),
    ])
      if (card instanceof Node) root.append(card);
    return { update() {} };
  },
};
