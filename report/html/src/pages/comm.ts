// SPDX-License-Identifier: BSD-3-Clause
// Who sends what to whom, in which calls, and who waits for whom. All of it is of the whole run.
import { callsPart } from "../comm/calls_part";
import { MatrixPart } from "../comm/matrix_part";
import { type Part, placeCell, rankLink, shortenedNote } from "../comm/parts";
import { addProblems } from "../comm/problems_part";
import { SizesPart } from "../comm/sizes_part";
import { WaitsPart } from "../comm/waits_part";
import { kindColour } from "../core/colours";
import { el, hideTip, miniBar, ofWholeRun, section } from "../core/dom";
import { table } from "../core/table";
import { count, percent, seconds } from "../core/format";
import type { Model } from "../core/model";
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

// `name`: the list of the report that the card shows, perhaps in part; `what`: one thing in it.
function wholeRunCard(model: Model, title: string, name: string, what: string): HTMLElement {
  return section(title, { class: "chart-card", aside: [shortenedNote(model, name, what), ofWholeRun()] });
}

const emptyCard = (title: string, text: string): HTMLElement =>
  section(title, { class: "chart-card" }, el("p", { class: "empty" }, text));

class CommPage implements PageHandle {
  private readonly parts: Part[] = [];

  constructor(
    private readonly root: HTMLElement,
    private readonly store: Store,
  ) {
    const { calls } = store.model.report.mpi;
    this.addMatrix();
    if (calls && calls.length > 0) this.parts.push(callsPart(root, store, calls));
    this.addWaitsAndSizes();
    this.addCauses();
    addProblems(root, store);
    this.update();
  }

  update(): void {
    for (const part of this.parts) part.update();
  }

  destroy(): void {
    hideTip();
    for (const part of this.parts) part.destroy?.();
  }

  private addMatrix(): void {
    const { root, store } = this;
    const { model } = store;
    if (model.lengthOf("matrix_source") > 0 || model.lengthOf("collective_source") > 0)
      this.parts.push(new MatrixPart(root, store));
    else root.append(emptyCard("Who sends to whom", "No messages from one rank to another were sent."));
  }

  // The kinds of waiting beside the sizes of messages, and below them who waits for whom.
  private addWaitsAndSizes(): void {
    const { root, store } = this;
    const { calls, sizes, waits } = store.model.report.mpi;
    const kinds = el("div");
    const pair = el("div", { class: "chart-columns cards" });
    root.append(pair);
    if (waits) {
      const card = section("Waiting by kind", { class: "chart-card", aside: ofWholeRun() });
      card.append(kinds);
      pair.append(card);
    }
    if (sizes && sizes.length > 0) {
      const card = section("Sizes of messages", { class: "chart-card", aside: ofWholeRun() });
      pair.append(card);
      this.parts.push(new SizesPart(card, sizes));
    }
    if (pair.childElementCount === 0) pair.remove();
    if (waits) this.parts.push(new WaitsPart(kinds, root, store));
    else if (calls) root.append(emptyCard("Who waits for whom", "Waiting was not analysed in this run."));
  }

  private addCauses(): void {
    const { root, store } = this;
    const { root_causes: causes, critical_path: path } = store.model.report;
    if (causes && causes.length > 0) {
      const card = wholeRunCard(store.model, "Where waiting comes from", "root_causes", "cause");
      root.append(card);
      rootCauses(card, store, causes);
    }
    if (path && path.length > 0) {
      const card = wholeRunCard(store.model, "Critical path", "critical_path", "place");
      root.append(card);
      criticalPath(card, store, path);
    }
  }
}

export const page: Page = {
  id: "comm",
  title: "Communication",
  hint: "Who sends to whom, and who waits for whom",
  hidden: (model) => (model.report.mpi.calls?.length ?? 0) === 0 && model.lengthOf("matrix_source") === 0 && model.lengthOf("collective_source") === 0,
  mount: (root, store) => new CommPage(root, store),
};
