// SPDX-License-Identifier: BSD-3-Clause
// The processes that ranks made, and threads. Those that are alike are one row, which opens.
import { placeCell, rankLink, shortenedNote } from "../comm/parts";
import { el, ofWholeRun, replace, section } from "../core/dom";
import { commandLine, count, printable, seconds, shortenMiddle, signalName } from "../core/format";
import type { Page, PageHandle } from "../core/page";
import type { Place, ProcessGroupRow, ProcessRow, ThreadGroupRow, ThreadRow } from "../core/report";
import type { Store } from "../core/selection";
import { table } from "../core/table";

const HOW: Record<string, string> = {
  unknown: "Not known: made past libc or by an unrecorded program, or its parent had ended.",
  rank: "By the launcher.",
  fork: "A child of fork: of the program, or of Python's multiprocessing.",
  exec: "A program that a child of vfork executed.",
  spawn: "Python's multiprocessing, start method spawn.",
  forkserver: "Python's multiprocessing, start method forkserver.",
  subprocess: "Python's subprocess.",
  posix_spawn: "posix_spawn.",
  shell: "The shell of system() or popen().",
};

const WHY_UNRECORDED: Record<string, string> = {
  not_visible: "clusterprof's files are not there below its root directory (chroot, container)",
  other_c_library: "its C library is not glibc",
  other_architecture: "it is no program for x86-64",
  libraries_missing: "libdl.so.2 or libpthread.so.0 is missing where its loader looks",
  static_program: "it is linked statically",
  privileges: "it gets privileges (set-user-ID, capabilities), and LD_PRELOAD is ignored then",
  other_environment: "it was started with an environment that lacks clusterprof's LD_PRELOAD",
  no_memory: "its limits (ulimit -v, ulimit -f) leave no room for what is recorded",
  ended_early: "it ended before it began to record",
  silent: "nothing came from it",
};

const notRecorded = (reason: string): HTMLElement =>
  el("span", { class: "muted", tip: `Not recorded: ${WHY_UNRECORDED[reason] ?? reason}.` }, `not recorded: ${reason.replaceAll("_", " ")}`);

export const groupName = (group: Pick<ProcessGroupRow, "count" | "program">): string =>
  `${group.count > 1 ? `${count(group.count)} × ` : ""}${printable(group.program ?? "?")}`;

export function ending(row: Pick<ProcessRow, "exit" | "end_s">): string {
  if (row.exit.signal !== null) return signalName(row.exit.signal);
  if (row.exit.status !== null) return `exit ${row.exit.status}`;
  return row.end_s === null ? "running" : "–";
}

const how = (kind: string): HTMLElement => el("span", { tip: HOW[kind] }, kind);

const KIND: Record<ThreadGroupRow["kind"], string> = {
  main: "The main thread of a process.",
  python: "Runs Python.",
  openmp: "Of an OpenMP pool.",
  native: "Runs other native code.",
  helper: "Of MPI, of what MPI communicates with, or of a device's run time.",
};

const threadsName = (group: Pick<ThreadGroupRow, "count" | "name">): string => groupName({ count: group.count, program: group.name });

class ProcessesPage implements PageHandle {
  private readonly groups = el("div");
  private readonly threads = el("div");

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    root.append(
      section(
        "Processes that ranks made",
        { class: "chart-card", aside: [shortenedNote(store.model, "process_groups", "kind of process", "kinds of processes"), ofWholeRun()] },
        this.groups,
      ),
      section(
        "Threads",
        { class: "chart-card", aside: [shortenedNote(store.model, "thread_groups", "kind of thread", "kinds of threads"), ofWholeRun()] },
        this.threads,
      ),
    );
    this.update();
  }

  update(): void {
    const { model } = this.store;
    const mask = this.store.rankMask();
    const numbers = model.i32("rank_number");
    const chosen = mask && new Set([...numbers].filter((_, index) => mask[index]));
    const all = model.report.process_groups;
    const indices = [...all.keys()].filter((i) => all[i].how !== "rank" && (!chosen || chosen.has(all[i].rank)));
    const number = indices.reduce((sum, i) => sum + all[i].count, 0);
    const cpu = indices.reduce((sum, i) => sum + (all[i].cpu_s ?? 0), 0);
    replace(
      this.groups,
      // Of those that the page has, the sum would say nothing.
      model.header.shortened?.process_groups
        ? null
        : el("p", { class: "page-note" }, `${count(number)} ${number === 1 ? "process" : "processes"}, CPU time ${seconds(cpu)} together.`),
      this.table(indices),
    );
    const threads = model.report.thread_groups;
    replace(this.threads, this.threadTable([...threads.keys()].filter((i) => !chosen || chosen.has(threads[i].rank))));
  }

  private place(where: Place | null): HTMLElement | string {
    return where ? placeCell(this.store.model, { ...where, op: null }, where.file?.endsWith(".py") ? "python" : "native") : "–";
  }

  private threadTable(indices: readonly number[]): HTMLElement {
    const all = this.store.model.report.thread_groups;
    return table<number>(
      [
        { id: "name", title: "Threads", value: (i) => threadsName(all[i]), cell: (i) => shortenMiddle(threadsName(all[i]), 48) },
        { id: "kind", title: "Kind", class: "nowrap", value: (i) => all[i].kind, cell: (i) => el("span", { tip: KIND[all[i].kind] }, all[i].kind) },
        { id: "rank", title: "Rank", class: "nowrap", value: (i) => all[i].rank, cell: (i) => rankLink(this.store, all[i].rank) },
        { id: "cpu", title: "CPU time", numeric: true, help: "Of all of them", value: (i) => all[i].cpu_s, cell: (i) => seconds(all[i].cpu_s) },
        { id: "min", title: "Min", numeric: true, help: "CPU time of one of them", value: (i) => all[i].cpu_min_s, cell: (i) => seconds(all[i].cpu_min_s) },
        { id: "mean", title: "Mean", numeric: true, value: (i) => all[i].cpu_mean_s, cell: (i) => seconds(all[i].cpu_mean_s) },
        { id: "max", title: "Max", numeric: true, value: (i) => all[i].cpu_max_s, cell: (i) => seconds(all[i].cpu_max_s) },
        { id: "top", title: "Mostly in", help: "Where they ran, or were in I/O, for the most time", value: (i) => all[i].top?.function, cell: (i) => this.place(all[i].top) },
      ],
      indices,
      {
        label: "Threads that are alike",
        sort: { column: "cpu", descending: true },
        limit: 50,
        onOpen: (i) => this.eachThread(i),
        empty: "No threads of these ranks were recorded.",
      },
    );
  }

  // The threads of one row.
  private eachThread(group: number): HTMLElement {
    const rows = this.store.model.report.threads.filter((row) => row.group === group);
    return table<ThreadRow>(
      [
        { id: "name", title: "Name", value: (row) => row.name, cell: (row) => shortenMiddle(printable(row.name ?? "?"), 48) },
        { id: "tid", title: "Thread", numeric: true, value: (row) => row.tid, cell: (row) => (row.count > 1 ? `${count(row.count)} ended` : String(row.tid)) },
        { id: "pid", title: "Process", numeric: true, value: (row) => row.pid, cell: (row) => String(row.pid) },
        { id: "start", title: "Start", numeric: true, value: (row) => row.start_s, cell: (row) => seconds(row.start_s) },
        { id: "end", title: "End", numeric: true, value: (row) => row.end_s, cell: (row) => (row.end_s === null ? "–" : seconds(row.end_s)) },
        { id: "cpu", title: "CPU time", numeric: true, value: (row) => row.cpu_s, cell: (row) => seconds(row.cpu_s) },
        { id: "top", title: "Mostly in", value: (row) => row.top?.function, cell: (row) => this.place(row.top) },
      ],
      rows,
      { label: "Threads of this row", sort: { column: "start", descending: false }, limit: 50, empty: "They are left out of this page." },
    );
  }

  private table(indices: readonly number[]): HTMLElement {
    const all = this.store.model.report.process_groups;
    return table<number>(
      [
        { id: "name", title: "Processes", value: (i) => groupName(all[i]), cell: (i) => shortenMiddle(groupName(all[i]), 48) },
        { id: "how", title: "Made by", class: "nowrap", value: (i) => all[i].how, cell: (i) => how(all[i].how) },
        { id: "rank", title: "Rank", class: "nowrap", value: (i) => all[i].rank, cell: (i) => rankLink(this.store, all[i].rank) },
        { id: "cpu", title: "CPU time", numeric: true, help: "Of all of them", value: (i) => all[i].cpu_s, cell: (i) => seconds(all[i].cpu_s) },
        { id: "min", title: "Min", numeric: true, help: "CPU time of one of them", value: (i) => all[i].cpu_min_s, cell: (i) => seconds(all[i].cpu_min_s) },
        { id: "mean", title: "Mean", numeric: true, value: (i) => all[i].cpu_mean_s, cell: (i) => seconds(all[i].cpu_mean_s) },
        { id: "max", title: "Max", numeric: true, value: (i) => all[i].cpu_max_s, cell: (i) => seconds(all[i].cpu_max_s) },
        { id: "top", title: "Mostly in", help: "Where they spent the most time, other than idle", value: (i) => all[i].unrecorded ?? all[i].top?.function, cell: (i) => (all[i].unrecorded ? notRecorded(all[i].unrecorded) : this.place(all[i].top)) },
        { id: "line", title: "Made at", help: "The call that made them", value: (i) => all[i].created_by?.line, cell: (i) => this.place(all[i].created_by) },
      ],
      indices,
      {
        label: "Processes that are alike",
        sort: { column: "cpu", descending: true },
        limit: 50,
        onOpen: (i) => this.each(i),
        empty: "These ranks made no processes.",
      },
    );
  }

  // The processes of one row.
  private each(group: number): HTMLElement {
    const { process_groups: groups, processes } = this.store.model.report;
    const rows = processes.filter((row) => row.group === group);
    const path = groups[group].created_by?.call_path ?? [];
    return el(
      "div",
      null,
      path.length > 0 ? el("p", { class: "muted" }, `Made on: ${path.map(printable).join(" › ")}`) : null,
      table<ProcessRow>(
        [
          { id: "pid", title: "Process", numeric: true, value: (row) => row.pid, cell: (row) => (row.count > 1 ? `${count(row.count)} ended` : String(row.pid)) },
          { id: "ppid", title: "Parent", numeric: true, value: (row) => row.ppid, cell: (row) => String(row.ppid) },
          { id: "start", title: "Start", numeric: true, value: (row) => row.start_s, cell: (row) => seconds(row.start_s) },
          { id: "end", title: "End", numeric: true, value: (row) => row.end_s, cell: (row) => (row.end_s === null ? "–" : seconds(row.end_s)) },
          { id: "cpu", title: "CPU time", numeric: true, value: (row) => row.cpu_s, cell: (row) => (row.cpu_s === null ? "–" : seconds(row.cpu_s)) },
          { id: "exit", title: "Ended", class: "nowrap", value: ending, cell: ending },
          {
            id: "command",
            title: "Command",
            value: (row) => commandLine(row.command),
            cell: (row) => el("span", { tip: commandLine(row.command) }, shortenMiddle(commandLine(row.command), 60)),
          },
        ],
        rows,
        { label: "Processes of this row", sort: { column: "start", descending: false }, limit: 50, empty: "They are left out of this page." },
      ),
    );
  }
}

export const page: Page = {
  id: "processes",
  title: "Processes",
  hint: "Processes that ranks made, and threads",
  hidden: (model) =>
    !(model.report.process_groups ?? []).some((group) => group.how !== "rank") &&
    !(model.report.thread_groups ?? []).some((group) => group.kind !== "main"),
  mount: (root, store) => new ProcessesPage(root, store),
};
