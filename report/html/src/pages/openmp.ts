// SPDX-License-Identifier: BSD-3-Clause
// Parallel regions of OpenMP, what runs outside of them, and how each rank was recorded. A region opens into the
// constructs inside, and its threads by number.
import { libraryCall, placeCell, rankLink, shortenedNote } from "../comm/parts";
import { type Child, el, ofWholeRun, section, stackedBar } from "../core/dom";
import { count, percent, plural, printable, seconds } from "../core/format";
import type { Model } from "../core/model";
import type { Page, PageHandle } from "../core/page";
import type { OpenMp, OpenMpConstructRow, OpenMpFactors, OpenMpRankRow, OpenMpRegionRank, OpenMpRegionRow, OpenMpSerialRow, OpenMpThreadRow } from "../core/report";
import type { Store } from "../core/selection";
import { type Column, table } from "../core/table";

const RECORDED_BY: Record<OpenMpRankRow["recorded_by"], string> = {
  none: "Not at all.",
  ompt: "Through OpenMP's interface for tools.",
  gomp: "In front of the functions of GCC's run time.",
  other_tool: "Not recorded: another tool has OpenMP's interface for tools, or the program is built with ThreadSanitizer.",
};

const placeOf = (model: Model, row: { file: string | null; line: number | null; function: string | null }): HTMLElement =>
  placeCell(model, row, row.file?.endsWith(".py") ? "python" : "native");

const factor = (value: number | null): string => (value === null ? "–" : value.toFixed(2));

// "implicit barrier", "loop (dynamic)"
const kindOf = (row: OpenMpConstructRow): string => [row.kind, ...(row.schedules.length > 0 ? [`(${row.schedules.join(", ")})`] : [])].join(" ").replaceAll("_", " ");

// Work, waiting and what else the threads had of a time that is theirs.
function parts(work: number, wait: number, other: number, whole?: number): HTMLElement {
  return stackedBar(
    [
      { value: work, colour: "var(--good)", label: "Work", text: seconds(work) },
      { value: wait, colour: "var(--bad)", label: "Waiting", text: seconds(wait) },
      { value: other, colour: "var(--warn)", label: "Until they began, and for parts of loops", text: seconds(other) },
    ],
    whole,
  );
}

// What the efficiency is the product of.
const factors = <Row extends OpenMpFactors & Pick<OpenMpRegionRank, "efficiency">>(): Column<Row>[] => [
  { id: "efficiency", title: "Efficiency", numeric: true, help: "Load balance × scheduling × serialization", value: (row) => row.efficiency ?? 0, cell: (row) => percent(row.efficiency) },
  { id: "load_balance", title: "Load balance", numeric: true, help: "Less: threads wait for slower ones", value: (row) => row.load_balance ?? 0, cell: (row) => percent(row.load_balance) },
  { id: "scheduling", title: "Scheduling", numeric: true, help: "Less: threads are started, and parts of loops handed out", value: (row) => row.scheduling ?? 0, cell: (row) => percent(row.scheduling) },
  { id: "serialization", title: "Serialization", numeric: true, help: "Less: one thread works at a time (critical, lock, atomic, ordered, single)", value: (row) => row.serialization ?? 0, cell: (row) => percent(row.serialization) },
];

class OpenMpPage implements PageHandle {
  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    const { model } = store;
    const openmp = model.report.openmp!;
    root.append(
      section(
        "Parallel regions",
        { class: "chart-card", aside: [shortenedNote(model, "openmp.regions", "region"), ofWholeRun()] },
        el(
          "p",
          { class: "page-note" },
          `Of the time of all threads outside MPI, ${percent(openmp.efficiency.parallel)} is work: ${seconds(openmp.imbalance_s)} are lost waiting for slower threads, ${seconds(openmp.serialization_s)} while one thread works, ${seconds(openmp.schedule_s)} for starting threads and handing out parts of loops.`,
        ),
        this.regions(openmp),
      ),
      section(
        "While one thread works",
        { class: "chart-card", aside: [shortenedNote(model, "openmp.serial", "line"), ofWholeRun()] },
        el("p", { class: "page-note" }, "Where main threads were outside of parallel regions and MPI: the other threads of their teams have nothing to do."),
        this.serial(openmp),
      ),
      section("Ranks", { class: "chart-card", aside: ofWholeRun() }, this.ranks(openmp)),
    );
  }

  update(): void {}

  private regions(openmp: OpenMp): HTMLElement {
    const { model } = this.store;
    return table<OpenMpRegionRow>(
      [
        {
          id: "region",
          title: "Region",
          value: (row) => row.function ?? "",
          cell: (row) =>
            el("span", null, row.level > 0 ? el("span", { class: "badge", tip: plural(row.level, "region") + " around it" }, "inner") : null, placeOf(model, row), libraryCall(row.called)),
        },
        { id: "threads_s", title: "All threads", numeric: true, help: "Its time, for each thread of the team", value: (row) => row.threads_s, cell: (row) => seconds(row.threads_s) },
        { id: "parts", title: "Work, waiting", help: "Work, waiting, and the time until threads began", value: (row) => row.efficiency ?? 0, cell: (row) => parts(row.work_s, row.wait_s, row.schedule_s, row.threads_s) },
        { id: "wait", title: "Waiting", numeric: true, value: (row) => row.wait_s, cell: (row) => seconds(row.wait_s) },
        { id: "serial", title: "One by one", numeric: true, help: "Of the waiting, where one thread works at a time: critical, lock, atomic, ordered, single", value: (row) => row.serial_s, cell: (row) => seconds(row.serial_s) },
        { id: "imbalance", title: "Imbalance", numeric: true, help: "Work of the thread with most, by the mean", value: (row) => row.imbalance ?? 0, cell: (row) => factor(row.imbalance) },
        ...factors<OpenMpRegionRow>(),
        { id: "count", title: "Times", numeric: true, value: (row) => row.count, cell: (row) => count(row.count) },
        { id: "each", title: "Each", numeric: true, value: (row) => row.time_s / Math.max(1, row.count), cell: (row) => seconds(row.time_s / Math.max(1, row.count)) },
        {
          id: "threads",
          title: "Threads",
          numeric: true,
          value: (row) => row.threads,
          cell: (row) => (row.threads_asked !== null && row.threads_asked > row.threads ? `${row.threads} of ${row.threads_asked} asked for` : String(row.threads)),
        },
        { id: "rank", title: "Most on", class: "nowrap", value: (row) => row.rank_max, cell: (row) => rankLink(this.store, row.rank_max) },
      ],
      openmp.regions,
      { label: "Parallel regions", sort: { column: "threads_s", descending: true }, limit: 50, onOpen: (row) => this.inside(row), empty: "There were none." },
    );
  }

  private inside(region: OpenMpRegionRow): HTMLElement {
    const { model } = this.store;
    return el(
      "div",
      null,
      table<OpenMpConstructRow>(
        [
          { id: "line", title: "Inside", value: (row) => row.function ?? "", cell: (row) => placeOf(model, row) },
          { id: "kind", title: "Kind", class: "nowrap", help: "Of a loop also how its parts are shared out", value: (row) => row.kind, cell: (row) => kindOf(row) },
          { id: "wait", title: "Waiting", numeric: true, value: (row) => row.wait_s, cell: (row) => seconds(row.wait_s) },
          { id: "time", title: "All threads", numeric: true, value: (row) => row.time_s, cell: (row) => seconds(row.time_s) },
          { id: "schedule", title: "Handing out", numeric: true, help: "Asking for the next part of a loop; estimated", value: (row) => row.schedule_s, cell: (row) => seconds(row.schedule_s) },
          { id: "count", title: "Times", numeric: true, help: "That a thread was there", value: (row) => row.count, cell: (row) => count(row.count) },
          { id: "chunks", title: "Chunks", numeric: true, value: (row) => row.chunks ?? 0, cell: (row) => count(row.chunks) },
          { id: "iterations", title: "Iterations", numeric: true, value: (row) => row.iterations ?? 0, cell: (row) => count(row.iterations) },
          { id: "imbalance", title: "Imbalance", numeric: true, value: (row) => row.imbalance ?? 0, cell: (row) => factor(row.imbalance) },
        ],
        region.constructs,
        { label: "Constructs in the region", sort: { column: "wait", descending: true }, limit: 50, empty: "No construct inside was recorded: the threads wait at the end only." },
      ),
      this.threads(region.by_thread, "Threads by their numbers in the team"),
      region.by_rank.length < 2 ? null : this.ranksOf(region),
    );
  }

  private threads(rows: OpenMpThreadRow[], label: string): HTMLElement | null {
    if (rows.length === 0) return null;
    const most = rows.reduce((longest, row) => Math.max(longest, row.work_s + row.wait_s), 0);
    return table<OpenMpThreadRow>(
      [
        { id: "number", title: "Thread", numeric: true, value: (row) => row.number, cell: (row) => String(row.number) },
        { id: "work", title: "Work", numeric: true, value: (row) => row.work_s, cell: (row) => seconds(row.work_s) },
        { id: "wait", title: "Waiting", numeric: true, value: (row) => row.wait_s, cell: (row) => seconds(row.wait_s) },
        { id: "parts", title: "", value: (row) => row.work_s, cell: (row) => parts(row.work_s, row.wait_s, 0, most) },
      ],
      rows,
      { label, sort: { column: "number", descending: false }, limit: 16, empty: "" },
    );
  }

  // A rank opens into its threads.
  private ranksOf(region: OpenMpRegionRow): HTMLElement {
    return table<OpenMpRegionRank>(
      [
        { id: "rank", title: "Rank", class: "nowrap", value: (row) => row.rank, cell: (row) => rankLink(this.store, row.rank) },
        { id: "threads_s", title: "All threads", numeric: true, value: (row) => row.threads_s, cell: (row) => seconds(row.threads_s) },
        { id: "parts", title: "Work, waiting", value: (row) => row.efficiency ?? 0, cell: (row) => parts(row.work_s, row.wait_s, row.schedule_s, row.threads_s) },
        { id: "wait", title: "Waiting", numeric: true, value: (row) => row.wait_s, cell: (row) => seconds(row.wait_s) },
        { id: "serial", title: "One by one", numeric: true, value: (row) => row.serial_s, cell: (row) => seconds(row.serial_s) },
        { id: "imbalance", title: "Imbalance", numeric: true, value: (row) => row.imbalance ?? 0, cell: (row) => factor(row.imbalance) },
        ...factors<OpenMpRegionRank>(),
        { id: "count", title: "Times", numeric: true, value: (row) => row.count, cell: (row) => count(row.count) },
        { id: "threads", title: "Threads", numeric: true, value: (row) => row.threads, cell: (row) => String(row.threads) },
      ],
      region.by_rank,
      {
        label: "Ranks in the region",
        sort: { column: "wait", descending: true },
        limit: 16,
        onOpen: (row) => this.threads(row.by_thread, `Threads of rank ${row.rank}`) ?? undefined,
        empty: "",
      },
    );
  }

  private serial(openmp: OpenMp): HTMLElement {
    const { model } = this.store;
    return table<OpenMpSerialRow>(
      [
        { id: "line", title: "Line", value: (row) => row.function ?? "", cell: (row) => placeOf(model, row) },
        { id: "lost", title: "Lost", numeric: true, help: "Of the other threads, in that time", value: (row) => row.lost_s, cell: (row) => seconds(row.lost_s) },
        { id: "time", title: "Time", numeric: true, value: (row) => row.time_s, cell: (row) => seconds(row.time_s) },
        { id: "native", title: "Native", numeric: true, help: "Of that time, native code that ran or was ready to: regions could take it over", value: (row) => row.native_s, cell: (row) => seconds(row.native_s) },
      ],
      openmp.serial,
      { label: "Lines outside of regions", sort: { column: "lost", descending: true }, limit: 50, empty: "Nothing was seen outside." },
    );
  }

  private ranks(openmp: OpenMp): HTMLElement {
    const runtime = (row: OpenMpRankRow): Child => [
      el("span", { tip: RECORDED_BY[row.recorded_by] }, printable(row.runtime ?? row.recorded_by)),
      row.recorded_by === "other_tool" ? el("span", { class: "badge" }, "not recorded") : null,
      row.other_runtime ? el("span", { class: "badge", tip: "Another OpenMP run time is used as well; its regions are not here." }, "and another one") : null,
    ];
    return table<OpenMpRankRow>(
      [
        { id: "rank", title: "Rank", class: "nowrap", value: (row) => row.rank, cell: (row) => rankLink(this.store, row.rank) },
        { id: "runtime", title: "Run time", value: (row) => row.runtime ?? "", cell: runtime },
        { id: "threads", title: "Threads", numeric: true, value: (row) => row.threads ?? 0, cell: (row) => count(row.threads) },
        { id: "processors", title: "Processors", numeric: true, help: "That they may run on", value: (row) => row.processors ?? 0, cell: (row) => count(row.processors) },
        { id: "region", title: "In regions", numeric: true, help: "Of the main thread", value: (row) => row.region_s, cell: (row) => seconds(row.region_s) },
        { id: "serial", title: "Outside", numeric: true, help: "Of the main thread, without MPI", value: (row) => row.serial_s, cell: (row) => seconds(row.serial_s) },
        { id: "mpi", title: "MPI", numeric: true, help: "Of the main thread, outside of regions", value: (row) => row.mpi_s, cell: (row) => seconds(row.mpi_s) },
        { id: "work", title: "Work", numeric: true, help: "Of all threads, in regions", value: (row) => row.work_s, cell: (row) => seconds(row.work_s) },
        { id: "wait", title: "Waiting", numeric: true, help: "Of all threads, in regions", value: (row) => row.wait_s, cell: (row) => seconds(row.wait_s) },
      ],
      openmp.ranks,
      { label: "Ranks with OpenMP", sort: { column: "rank", descending: false }, limit: 50, empty: "There are too many ranks to list." },
    );
  }
}

export const page: Page = {
  id: "openmp",
  title: "OpenMP",
  hint: "Parallel regions, what their threads wait for, and what one thread does alone",
  hidden: (model) => (model.report.openmp ?? null) === null,
  mount: (root, store) => new OpenMpPage(root, store),
};
