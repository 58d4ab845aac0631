// SPDX-License-Identifier: BSD-3-Clause
// Who sends what to whom, in which calls, and who waits for whom. All of it is of the whole run.
import { callsPart, sizesPart } from "../comm/calls_part";
import { MatrixPart } from "../comm/matrix_part";
import { type Part, placeCell, rankLink, shortenedNote } from "../comm/parts";
import { WaitsPart } from "../comm/waits_part";
import { kindColour } from "../core/colours";
import { el, hideTip, miniBar, ofWholeRun, section } from "../core/dom";
import { table } from "../core/table";
import { count, percent, seconds } from "../core/format";
import type { Page, PageHandle } from "../core/page";
import type { CriticalRow, RootCause } from "../core/report";
import type { Store } from "../core/selection";

// --- Causes and the critical path

function rootCauses(root: HTMLElement, store: Store, causes: readonly RootCause[]): void {
  const most = Math.max(0, ...causes.map((row) => row.wait_s));
  const { model } = store;
  root.append(
    table<RootCause>(
      [
        {
          id: "rank",
          title: "Rank",
          class: "nowrap",
          value: (row) => row.rank,
          cell: (row) => rankLink(store, row.rank),
        },
        {
          id: "place",
          title: "was in",
          value: (row) => row.function ?? row.op ?? "",
          cell: (row) => placeCell(model, row),
        },
        {
          id: "wait",
          title: "Waiting",
          numeric: true,
          help: "Of all ranks, that goes back to it directly or through ranks that had to wait in turn",
          value: (row) => row.wait_s,
          cell: (row) => seconds(row.wait_s),
        },
        { id: "bar", title: "", cell: (row) => miniBar(most > 0 ? row.wait_s / most : 0, "var(--cat-mpi)") },
        {
          id: "share",
          title: "of rank time",
          numeric: true,
          value: (row) => row.share,
          cell: (row) => percent(row.share),
        },
        {
          id: "ranks",
          title: "Ranks",
          numeric: true,
          help: "So many waited, at least",
          value: (row) => row.waiting_ranks,
          cell: (row) => count(row.waiting_ranks),
        },
      ],
      causes,
      { label: "Root causes of waiting", sort: { column: "wait", descending: true }, limit: 10, empty: "None." },
    ),
  );
}

function criticalPath(root: HTMLElement, store: Store, rows: readonly CriticalRow[]): void {
  const { model } = store;
  const most = Math.max(0, ...rows.map((row) => row.time_s));
  root.append(
    table<CriticalRow>(
      [
        {
          id: "place",
          title: "Place",
          value: (row) => row.function ?? row.op ?? "",
          cell: (row) => [
            el("span", {
              class: "swatch lead",
              style: { background: row.kind ? kindColour(row.kind) : "var(--cat-idle)" },
            }),
            placeCell(model, row, row.kind ?? "native"),
          ],
        },
        {
          id: "time",
          title: "On the path",
          numeric: true,
          value: (row) => row.time_s,
          cell: (row) => seconds(row.time_s),
        },
        { id: "bar", title: "", cell: (row) => miniBar(most > 0 ? row.time_s / most : 0) },
        { id: "share", title: "of the path", numeric: true, value: (row) => row.share, cell: (row) => percent(row.share) },
        {
          id: "mean",
          title: "Mean rank",
          numeric: true,
          value: (row) => row.mean_s ?? null,
          cell: (row) => seconds(row.mean_s),
        },
        {
          id: "imbalance",
          title: "Imbalance",
          numeric: true,
          help: "Time on the path / mean rank. Well above 1: better balance would help; near 1 only faster code.",
          value: (row) => row.imbalance ?? null,
          cell: (row) => (row.imbalance === null || row.imbalance === undefined ? "\u2013" : row.imbalance.toFixed(2)),
        },
        {
          id: "rank",
          title: "Mostly on",
          class: "nowrap",
          value: (row) => row.rank_max,
          cell: (row) => rankLink(store, row.rank_max),
        },
      ],
      rows,
      { label: "Critical path", sort: { column: "time", descending: true }, limit: 10 },
    ),
  );
}

export const page: Page = {
  id: "comm",
  title: "Communication",
  hint: "Who sends to whom, and who waits for whom",
  hidden: (model) => (model.report.mpi.calls?.length ?? 0) === 0 && model.lengthOf("matrix_source") === 0 && model.lengthOf("collective_source") === 0,
  mount(root, store): PageHandle {
    const { model } = store;
    const { report } = model;
    const parts: Part[] = [];
    if (model.lengthOf("matrix_source") > 0 || model.lengthOf("collective_source") > 0) parts.push(new MatrixPart(root, store));
    else
      root.append(
        section(
          "Who sends to whom",
          { class: "chart-card" },
          el("p", { class: "empty" }, "No messages from one rank to another were sent."),
        ),
      );
    if (report.mpi.calls && report.mpi.calls.length > 0) parts.push(callsPart(root, store, report.mpi.calls));

    const kinds = el("div");
    const pair = el("div", { class: "chart-columns cards" });
    root.append(pair);
    if (report.mpi.waits)
      pair.append(
        section(
          "Waiting by kind",
          { class: "chart-card", aside: [shortenedNote(model, "mpi.waits", "wait"), ofWholeRun()] },
          kinds,
        ),
      );
    if (report.mpi.sizes && report.mpi.sizes.length > 0) {
      const box = section("Sizes of messages", { class: "chart-card", aside: ofWholeRun() });
      pair.append(box);
      parts.push(sizesPart(box, report.mpi.sizes));
    }
    if (pair.childElementCount === 0) pair.remove();
    if (report.mpi.waits) parts.push(new WaitsPart(kinds, root, store));
    else if (report.mpi.calls)
      root.append(
        section(
          "Who waits for whom",
          { class: "chart-card" },
          el("p", { class: "empty" }, "Waiting was not analysed in this run."),
        ),
      );
    if (report.root_causes && report.root_causes.length > 0) {
      const box = section("Where waiting comes from", {
        class: "chart-card",
        aside: [shortenedNote(model, "root_causes", "cause"), ofWholeRun()],
      });
      root.append(box);
      rootCauses(box, store, report.root_causes);
    }
    if (report.critical_path && report.critical_path.length > 0) {
      const box = section("Critical path", {
        class: "chart-card",
        aside: [shortenedNote(model, "critical_path", "place"), ofWholeRun()],
      });
      root.append(box);
      criticalPath(box, store, report.critical_path);
    }
    const update = () => {
      for (const part of parts) part.update();
    };
    update();
    return {
      update,
      destroy() {
        hideTip();
        for (const part of parts) part.destroy?.();
      },
    };
  },
};
