// SPDX-License-Identifier: BSD-3-Clause
// What threads were blocked for, outside MPI.
import { placeCell, rankLink, shortenedNote } from "../comm/parts";
import { qualitative } from "../core/colours";
import { type Child, choice, el, miniBar, ofWholeRun, replace, section, stackedBar } from "../core/dom";
import { table } from "../core/table";
import { count, percent, plural, printable, seconds, shortenMiddle } from "../core/format";
import type { Model } from "../core/model";
import type { Page, PageHandle } from "../core/page";
import type { LockRow, MutexRow, OffCpuRow } from "../core/report";
import type { Store } from "../core/selection";

// In the order of their colours, so that those that often meet differ.
export const KINDS: Record<string, { title: string; help: string }> = {
  sleep: { title: "Sleep", help: "sleep, nanosleep and the like." },
  pipe: { title: "Pipe", help: "Reading from or writing to a pipe." },
  lock: { title: "Lock", help: "A mutex, a condition, a semaphore that another thread has to release." },
  gil: { title: "GIL", help: "Python's global interpreter lock: another thread runs Python." },
  poll: { title: "Poll", help: "select, poll, epoll: for an event on any of several descriptors." },
  child: { title: "Child processes", help: "Waiting for processes that were started, or a pool of them." },
  file: { title: "File", help: "Reading, writing, opening or syncing files." },
  network: { title: "Network", help: "Sockets: accept, connect, receive, send." },
  other: { title: "Other", help: "Blocked otherwise." },
  openmp: { title: "OpenMP", help: "Other threads of the team, in a parallel region." },
  join: { title: "Own threads", help: "Waiting for threads of one's own to end, or for a pool of threads." },
};
const kindColour = (kind: string): string => qualitative(Math.max(0, Object.keys(KINDS).indexOf(kind)));
const titleOf = (kind: string): string => KINDS[kind]?.title ?? kind;

// Seconds by kind of the chosen ranks, and by rank (index) and kind.
export function offCpuTotals(store: Store): { sums: Float64Array; ranks: { index: number; sum: number }[] } {
  const { model } = store;
  const count = model.header.off_cpu_kinds.length;
  const values = model.f32("rank_off_cpu_s");
  const mask = store.rankMask();
  const sums = new Float64Array(count);
  const ranks: { index: number; sum: number }[] = [];
  for (let index = 0; index < model.rankCount; ++index) {
    if (mask && !mask[index]) continue;
    let sum = 0;
    for (let k = 0; k < count; ++k) {
      sums[k] += values[index * count + k];
      sum += values[index * count + k];
    }
    ranks.push({ index, sum });
  }
  return { sums, ranks };
}

function bar(model: Model, values: ArrayLike<number>, whole?: number): HTMLElement {
  return stackedBar(
    model.header.off_cpu_kinds.map((kind, k) => ({
      value: values[k],
      colour: kindColour(kind),
      label: titleOf(kind),
      text: seconds(values[k]),
    })),
    whole,
  );
}

class OffCpuPage implements PageHandle {
  private readonly model: Model;
  private readonly rows: readonly OffCpuRow[];
  private readonly kinds: readonly string[];
  private readonly note = el("p", { class: "page-note" });
  private readonly overview = el("div");
  private readonly byRank = el("div");
  private readonly places = el("div");
  private readonly kindAside = el("div");
  private readonly rankAside = el("div");

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    const { model } = store;
    this.model = model;
    this.rows = model.report.off_cpu!;
    this.kinds = model.header.off_cpu_kinds;
    root.append(
      this.note,
      section("By what they waited for", { class: "chart-card", aside: this.kindAside }, this.overview),
      section(
        "Where they waited",
        { class: "chart-card", aside: [shortenedNote(model, "off_cpu", "line"), ofWholeRun()] },
        this.places,
      ),
    );
    const mutexes = model.report.mutexes ?? [];
    if (mutexes.length > 0) root.append(section("For mutexes that other threads had", { class: "chart-card", aside: [shortenedNote(model, "mutexes", "line"), ofWholeRun()] }, this.mutexes(mutexes)));
    const locks = model.report.locks ?? [];
    if (locks.length > 0) root.append(section("By lock", { class: "chart-card", aside: [shortenedNote(model, "locks", "lock"), ofWholeRun()] }, this.locks(locks)));
    if (model.rankCount > 1) root.append(section("By rank", { class: "chart-card", aside: this.rankAside }, this.byRank));
    this.update();
  }

  update(): void {
    const { model, store } = this;
    const { sums, ranks } = offCpuTotals(store);
    const all = sums.reduce((a, b) => a + b, 0);
    const wholeTime = () => (store.selection.time || store.selection.region !== null ? ofWholeRun() : null);
    replace(this.kindAside, wholeTime());
    replace(this.rankAside, wholeTime());
    replace(
      this.note,
      `Threads of ${store.rankMask() ? plural(ranks.length, "chosen rank") : plural(model.rankCount, "rank")} were blocked for ${seconds(all)} outside MPI, all threads together.`,
    );
    this.drawKinds(sums, all);
    this.drawRanks(ranks);
    this.drawPlaces();
  }

  private drawKinds(sums: Float64Array, all: number): void {
    const { kinds, model } = this;
    const order = [...kinds.keys()].filter((k) => sums[k] > 0).sort((a, b) => sums[b] - sums[a]);
    replace(
      this.overview,
      order.length === 0 ? el("p", { class: "empty" }, "These ranks were not blocked.") : bar(model, sums),
      order.length === 0
        ? null
        : table<number>(
            [
              {
                id: "kind",
                title: "For",
                class: "nowrap",
                cell: (k) => el("span", { tip: KINDS[kinds[k]]?.help }, el("span", { class: "swatch lead", style: { background: kindColour(kinds[k]) } }), titleOf(kinds[k])),
              },
              { id: "help", title: "Meaning", cell: (k) => el("span", { class: "muted" }, KINDS[kinds[k]]?.help ?? "") },
              { id: "time", title: "Time", numeric: true, cell: (k) => seconds(sums[k]) },
              { id: "share", title: "Share", numeric: true, cell: (k) => percent(all > 0 ? sums[k] / all : 0) },
            ],
            order,
            { label: "Blocked time by kind" },
          ),
    );
  }

  private drawRanks(ranks: readonly { index: number; sum: number }[]): void {
    const { kinds, model, store } = this;
    const numbers = model.i32("rank_number");
    const values = model.f32("rank_off_cpu_s");
    const most = ranks.reduce((a, rank) => Math.max(a, rank.sum), 0);
    replace(
      this.byRank,
      table<{ index: number; sum: number }>(
        [
          { id: "rank", title: "Rank", class: "nowrap", width: "9ch", value: (rank) => numbers[rank.index], cell: (rank) => rankLink(store, numbers[rank.index]) },
          { id: "time", title: "Time", numeric: true, width: "10ch", value: (rank) => rank.sum, cell: (rank) => seconds(rank.sum) },
          {
            id: "bar",
            title: "For",
            width: "75%",
            cell: (rank) =>
              el(
                "div",
                { class: "call-bar", style: { width: `${most > 0 ? Math.max(1, (100 * rank.sum) / most) : 0}%` } },
                bar(model, values.subarray(rank.index * kinds.length, (rank.index + 1) * kinds.length)),
              ),
          },
        ],
        ranks,
        { label: "Blocked time by rank", sort: { column: "time", descending: true }, limit: 16 },
      ),
    );
  }

  private locks(rows: readonly LockRow[]): HTMLElement {
    const { model, store } = this;
    const name = (row: LockRow): string => row.name ?? (row.address === null ? "those that found no room" : `at ${row.address}`);
    const places = (title: string, of: LockRow["lines"]): Child =>
      of.length === 0
        ? null
        : table<LockRow["lines"][number]>(
            [
              { id: "place", title, value: (part) => part.function ?? "", cell: (part) => placeCell(model, part) },
              { id: "wait", title: "Waiting", numeric: true, value: (part) => part.wait_s, cell: (part) => seconds(part.wait_s) },
            ],
            of,
            { label: title, sort: { column: "wait", descending: true }, limit: 10 },
          );
    return table<LockRow>(
      [
        { id: "name", title: "Lock", value: name, cell: (row) => el("span", row.name === null ? { class: "note" } : { class: "mono" }, printable(name(row))) },
        { id: "kind", title: "Kind", class: "nowrap", help: "Waiting for a condition, a semaphore or a barrier is waiting for what another thread does; of a thread without work it is no loss", value: (row) => row.kind, cell: (row) => row.kind.replace("python_lock", "lock of Python") },
        { id: "wait", title: "Waiting", numeric: true, help: "Of all threads", value: (row) => row.wait_s, cell: (row) => seconds(row.wait_s) },
        { id: "waits", title: "Waits", numeric: true, help: "How often a thread was seen to wait", value: (row) => row.waits, cell: (row) => count(row.waits) },
        { id: "longest", title: "Longest", numeric: true, value: (row) => row.longest_s, cell: (row) => seconds(row.longest_s) },
        { id: "holder", title: "Held or ended in", help: "Where the thread was meanwhile that had it, or that ended the wait", cell: (row) => (row.holders.length > 0 ? placeCell(model, row.holders[0]) : "not known") },
        { id: "mutexes", title: "Locks", numeric: true, help: "How many different ones: each rank has its own", value: (row) => row.mutexes ?? 0, cell: (row) => (row.mutexes === null ? "–" : String(row.mutexes)) },
        { id: "rank", title: "Most by", class: "nowrap", value: (row) => row.rank_max, cell: (row) => rankLink(store, row.rank_max) },
      ],
      rows,
      {
        label: "Locks by waiting for them",
        sort: { column: "wait", descending: true },
        limit: 20,
        onOpen: (row) => el("div", null, places("Waited for at", row.lines), places("Held or ended in", row.holders)),
      },
    );
  }

  private mutexes(rows: readonly MutexRow[]): HTMLElement {
    const { model, store } = this;
    return table<MutexRow>(
      [
        { id: "place", title: "Line", value: (row) => row.function ?? "", cell: (row) => placeCell(model, row) },
        { id: "wait", title: "Waiting", numeric: true, help: "Of all threads", value: (row) => row.wait_s, cell: (row) => seconds(row.wait_s) },
        { id: "holder", title: "Held in", help: "Where the thread that had the mutex was then", cell: (row) => (row.holders.length > 0 ? placeCell(model, row.holders[0]) : "not known") },
        { id: "held", title: "of it", numeric: true, value: (row) => row.holders[0]?.wait_s ?? 0, cell: (row) => (row.holders.length > 0 ? percent(row.wait_s > 0 ? row.holders[0].wait_s / row.wait_s : 0) : "") },
        { id: "mutexes", title: "Mutexes", numeric: true, help: "How many different ones", value: (row) => row.mutexes ?? 0, cell: (row) => (row.mutexes === null ? "–" : String(row.mutexes)) },
        { id: "rank", title: "Most by", class: "nowrap", value: (row) => row.rank_max, cell: (row) => rankLink(store, row.rank_max) },
      ],
      rows,
      { label: "Lines by waiting for mutexes", sort: { column: "wait", descending: true }, limit: 20 },
    );
  }

  private drawPlaces(): void {
    const { rows, kinds, model, store } = this;
    const wanted = store.param("kind");
    const shown = rows.filter((row) => !wanted || row.kind === wanted);
    const most = Math.max(0, ...shown.map((row) => row.time_s));
    const all = shown.reduce((sum, row) => sum + row.time_s, 0);
    const mark = (kind: string): Child => [
      el("span", { class: "swatch lead", style: { background: kindColour(kind) } }),
      titleOf(kind),
    ];
    const present = kinds.filter((kind) => rows.some((row) => row.kind === kind));
    replace(
      this.places,
      present.length > 1
        ? el(
            "div",
            { class: "chart-tools" },
            choice("Kind", [["", "All"], ...present.map((kind) => [kind, titleOf(kind)] as const)], wanted ?? "", (kind) =>
              store.setParam("kind", kind || null),
            ),
          )
        : null,
      table<OffCpuRow>(
        [
          { id: "kind", title: "For", class: "nowrap", value: (row) => titleOf(row.kind), cell: (row) => mark(row.kind) },
          { id: "place", title: "Line", value: (row) => row.function ?? "", cell: (row) => placeCell(model, { ...row, op: null }) },
          {
            id: "library",
            title: "Library call",
            help: "The library function that the line called and in which the thread was blocked",
            value: (row) => row.library_function ?? "",
            cell: (row) => (row.library_function ? el("span", { tip: printable(row.library_function) }, shortenMiddle(printable(row.library_function), 40)) : ""),
          },
          { id: "time", title: "All threads", numeric: true, value: (row) => row.time_s, cell: (row) => seconds(row.time_s) },
          { id: "bar", title: "", cell: (row) => miniBar(most > 0 ? row.time_s / most : 0, kindColour(row.kind)) },
          { id: "share", title: "of these rows", numeric: true, value: (row) => row.time_s, cell: (row) => percent(all > 0 ? row.time_s / all : 0) },
          {
            id: "main",
            title: "Main threads",
            numeric: true,
            help: "Of it, what held up the main thread of a rank",
            value: (row) => row.main_thread_s,
            cell: (row) => (row.main_thread_s > 0 ? seconds(row.main_thread_s) : ""),
          },
          { id: "rank", title: "Most by", class: "nowrap", value: (row) => row.rank_max, cell: (row) => (row.rank_max >= 0 ? rankLink(store, row.rank_max) : "–") },
        ],
        shown,
        { label: "Lines by blocked time", sort: { column: "time", descending: true }, limit: 20 },
      ),
    );
  }
}

export const page: Page = {
  id: "offcpu",
  title: "Off-CPU",
  hint: "What threads were blocked for",
  hidden: (model) => (model.report.off_cpu?.length ?? 0) === 0 || model.lengthOf("rank_off_cpu_s") === 0,
  mount: (root, store) => new OffCpuPage(root, store),
};
