// SPDX-License-Identifier: BSD-3-Clause
// The event loops of threads. A row opens into the lines that blocked the loop. Below them, asyncio's tasks: by name, and
// as a call tree in which a task is below the coroutines and tasks that await it.
import { placeCell, rankLink, shortenedNote } from "../comm/parts";
import { el, ofWholeRun, replace, section } from "../core/dom";
import { count, printable, seconds } from "../core/format";
import type { Page, PageHandle } from "../core/page";
import type { EventLoopRow, LoopBlockRow, TaskRow, TaskTreeRow } from "../core/report";
import type { Store } from "../core/selection";
import { table } from "../core/table";

const KINDS: Record<string, string> = {
  asyncio: "asyncio's own loop, on which tornado, aiohttp and others run, too.",
  uvloop: "uvloop, as asyncio's loop.",
  epoll: "A thread that waits for events with epoll again and again.",
};

class EventLoopsPage implements PageHandle {
  private readonly loops = el("div");
  private readonly tasks = el("div");
  private readonly tree = el("div");

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    root.append(
      section(
        "Event loops",
        { class: "chart-card", aside: [shortenedNote(store.model, "event_loops", "event loop"), ofWholeRun()] },
        el("p", { class: "page-note" }, "A loop is blocked while what it has called takes 50 ms or more: nobody else is served in that time."),
        this.loops,
      ),
    );
    if ((store.model.report.tasks ?? []).length !== 0)
      root.append(
        section("Tasks", { class: "chart-card", aside: [shortenedNote(store.model, "tasks", "task"), ofWholeRun()] }, this.tasks),
        section(
          "Tasks below those that await them",
          { class: "chart-card", aside: [ofWholeRun()] },
          el("p", { class: "page-note" }, "Of all ranks. What a task runs is below its coroutines, and these below the coroutines and tasks that await it."),
          this.tree,
        ),
      );
    this.update();
  }

  update(): void {
    const { model } = this.store;
    const mask = this.store.rankMask();
    const numbers = model.i32("rank_number");
    const chosen = mask && new Set([...numbers].filter((_, index) => mask[index]));
    const rows = model.report.event_loops.filter((row) => !chosen || chosen.has(row.rank));
    this.updateTasks(chosen);
    replace(
      this.loops,
      table<EventLoopRow>(
        [
          { id: "thread", title: "Thread", value: (row) => row.thread ?? "", cell: (row) => `${printable(row.thread ?? "?")} ${row.tid}` },
          { id: "kind", title: "Loop", class: "nowrap", value: (row) => row.kind, cell: (row) => el("span", { tip: KINDS[row.kind] }, row.kind) },
          { id: "rank", title: "Rank", class: "nowrap", value: (row) => row.rank, cell: (row) => rankLink(this.store, row.rank) },
          { id: "blocked", title: "Blocked", numeric: true, value: (row) => row.blocked_s, cell: (row) => seconds(row.blocked_s) },
          { id: "awaited", title: "Awaited", numeric: true, help: "Of the blocked time, while something was ready that waited for the loop", value: (row) => row.awaited_s, cell: (row) => seconds(row.awaited_s) },
          { id: "longest", title: "Longest", numeric: true, help: "The longest time without a look at what is ready", value: (row) => row.longest_block_s, cell: (row) => seconds(row.longest_block_s) },
          { id: "times", title: "Times", numeric: true, help: "How often it was blocked", value: (row) => row.blocked, cell: (row) => count(row.blocked) },
          { id: "turns", title: "Turns", numeric: true, value: (row) => row.turns, cell: (row) => count(row.turns) },
          { id: "busy", title: "Running", numeric: true, value: (row) => row.busy_s, cell: (row) => seconds(row.busy_s) },
          { id: "idle", title: "Idle", numeric: true, help: "Waiting for events", value: (row) => row.idle_s, cell: (row) => seconds(row.idle_s) },
        ],
        rows,
        {
          label: "Event loops",
          sort: { column: "blocked", descending: true },
          limit: 50,
          onOpen: (row) => this.lines(row),
          empty: "These ranks had no event loops.",
        },
      ),
    );
  }

  private updateTasks(chosen: Set<number> | null): void {
    const { model } = this.store;
    replace(
      this.tasks,
      table<TaskRow>(
        [
          { id: "name", title: "Name", help: "That the program has given the task", value: (row) => row.name ?? "", cell: (row) => printable(row.name ?? "–") },
          {
            id: "coroutine",
            title: "Coroutine",
            value: (row) => row.function ?? "",
            cell: (row) => (row.function ? placeCell(model, { ...row, op: null }, "python") : "others"),
          },
          { id: "rank", title: "Rank", class: "nowrap", value: (row) => row.rank, cell: (row) => rankLink(this.store, row.rank) },
          { id: "time", title: "Time", numeric: true, help: "While they ran", value: (row) => row.time_s, cell: (row) => seconds(row.time_s) },
          { id: "cpu", title: "CPU", numeric: true, value: (row) => row.cpu_s, cell: (row) => seconds(row.cpu_s) },
        ],
        (model.report.tasks ?? []).filter((row) => !chosen || chosen.has(row.rank)),
        { label: "Tasks", sort: { column: "time", descending: true }, limit: 50, empty: "These ranks had no tasks." },
      ),
    );
    const rows = model.report.task_tree ?? [];
    const depths: number[] = [];
    for (const row of rows) depths.push(row.parent === null ? 0 : (depths[row.parent] ?? 0) + 1);
    const order = new Map(rows.map((row, index) => [row, index]));
    replace(
      this.tree,
      table<TaskTreeRow>(
        [
          {
            id: "function",
            title: "Function",
            value: (row) => order.get(row) ?? 0,
            cell: (row) =>
              el(
                "span",
                { style: { "padding-left": `${Math.min(depths[order.get(row) ?? 0] ?? 0, 24)}em` } },
                placeCell(model, { function: row.name, file: row.file, line: row.line, op: null }, row.kind),
              ),
          },
          { id: "total", title: "Total", numeric: true, value: (row) => row.total_s, cell: (row) => seconds(row.total_s) },
          { id: "self", title: "Self", numeric: true, value: (row) => row.self_s, cell: (row) => seconds(row.self_s) },
        ],
        rows,
        { label: "Tasks below those that await them", sort: { column: "function", descending: false }, limit: 200, empty: "No task ran." },
      ),
    );
  }

  private lines(loop: EventLoopRow): HTMLElement {
    const { model } = this.store;
    return table<LoopBlockRow>(
      [
        {
          id: "line",
          title: "Blocked by",
          value: (row) => row.function ?? "",
          cell: (row) =>
            row.function || row.file
              ? el("span", null, placeCell(model, { ...row, op: null }, row.file?.endsWith(".py") ? "python" : "native"), row.called ? ` ${printable(row.called)}` : null)
              : "not known",
        },
        { id: "task", title: "Run by the loop", help: "The function that the loop called: of a task, its coroutine", value: (row) => row.task ?? "", cell: (row) => printable(row.task ?? "–") },
        { id: "time", title: "Time", numeric: true, value: (row) => row.time_s, cell: (row) => seconds(row.time_s) },
        { id: "times", title: "Times", numeric: true, help: "Turns that it is the largest part of", value: (row) => row.count, cell: (row) => count(row.count) },
        { id: "longest", title: "Longest", numeric: true, value: (row) => row.longest_s, cell: (row) => seconds(row.longest_s) },
      ],
      loop.blocks,
      { label: "Lines that blocked the loop", sort: { column: "time", descending: true }, limit: 50, empty: "It was never blocked." },
    );
  }
}

export const page: Page = {
  id: "event-loops",
  title: "Event loops",
  hint: "How long event loops were idle, running and blocked; and asyncio's tasks",
  hidden: (model) => (model.report.event_loops ?? []).length === 0 && (model.report.tasks ?? []).length === 0,
  mount: (root, store) => new EventLoopsPage(root, store),
};
