// SPDX-License-Identifier: BSD-3-Clause
// Waiting by kind, and who waits for whom.
import { type Edge, kOthers, waitChain, waitEdges, whoWaits } from "../charts/wait_graph";
import { el, miniBar, ofWholeRun, replace, section } from "../core/dom";
import { table } from "../core/table";
import { seconds } from "../core/format";
import type { Model } from "../core/model";
import type { Store } from "../core/selection";
import { type Part, placeCell, placeText, rankLink, shortenedNote } from "./parts";
import { WaitFlowChart, type WaitSelection } from "./wait_flow_chart";
import { waitKindsTable } from "./wait_kinds";

export class WaitsPart implements Part, WaitSelection {
  private readonly model: Model;
  private readonly kinds = el("div");
  private readonly graph: WaitFlowChart;
  private readonly list = el("div");
  private readonly chain = el("div");
  private readonly note = el("span", { class: "note" });
  private edges: Edge[] = [];

  constructor(
    kindsParent: HTMLElement,
    root: HTMLElement,
    private readonly store: Store,
  ) {
    this.model = store.model;
    kindsParent.append(this.kinds);
    const picture = el("div");
    root.append(
      section(
        "Who waits for whom",
        { class: "chart-card", aside: [this.note, " ", shortenedNote(this.model, "mpi.waits", "wait"), ofWholeRun()] },
        el("div", { class: "matrix-columns waits" }, el("div", null, picture, this.chain), this.list),
      ),
    );
    this.graph = new WaitFlowChart(picture, this.model, this);
  }

  destroy(): void {
    this.graph.surface.destroy();
  }

  update(): void {
    const waits = this.model.report.mpi.waits ?? [];
    const mask = this.store.rankMask();
    const chosen = mask ? (rank: number) => mask[this.model.rankIndex(rank)] === 1 : () => true;
    this.edges = waitEdges(waits, chosen);
    replace(this.note, mask ? "waiting of the selected ranks" : null);
    replace(this.kinds, waitKindsTable(this.model, mask));
    this.graph.update(this.edges);
    this.drawList();
    this.drawChain();
  }

  // Whether the page has the largest waits only.
  private get isCut(): boolean {
    return this.model.header.shortened?.["mpi.waits"] !== undefined;
  }

  get picked(): { waiter: number; cause: number } | null {
    const match = /^(\d+)_(\d+)$/.exec(this.store.param("wait") ?? "");
    return match ? { waiter: Number(match[1]), cause: Number(match[2]) } : null;
  }

  pick(edge: Edge): void {
    const known = this.picked;
    const same = known?.waiter === edge.waiter && known.cause === edge.cause;
    this.store.setParam("wait", same || edge.cause === kOthers ? null : `${edge.waiter}_${edge.cause}`);
  }

  clear(): void {
    this.store.setParam("wait", null);
  }

  private drawList(): void {
    const shown = this.edges.filter((edge) => edge.cause !== kOthers);
    const most = shown[0]?.wait_s ?? 0;
    const picked = this.picked;
    replace(
      this.list,
      table<Edge>(
        [
          {
            id: "waiter",
            title: "Waits",
            class: "nowrap",
            value: (edge) => edge.waiter,
            cell: (edge) =>
              el(
                "button",
                {
                  type: "button",
                  class: "link",
                  tip: "show the chain of waiting from here",
                  "aria-pressed": String(picked?.waiter === edge.waiter && picked.cause === edge.cause),
                  on: { click: () => this.pick(edge) },
                },
                `rank ${edge.waiter}`,
              ),
          },
          {
            id: "cause",
            title: "for",
            class: "nowrap",
            value: (edge) => edge.cause,
            cell: (edge) => `rank ${edge.cause}`,
          },
          {
            id: "time",
            title: "Time",
            numeric: true,
            value: (edge) => edge.wait_s,
            cell: (edge) => seconds(edge.wait_s),
          },
          { id: "bar", title: "", cell: (edge) => miniBar(most > 0 ? edge.wait_s / most : 0, "var(--cat-mpi)") },
          {
            id: "where",
            title: "which was in",
            cell: (edge) =>
              edge.places[0] && (edge.places[0].cause.function || edge.places[0].cause.op)
                ? placeCell(this.model, edge.places[0].cause)
                : el("span", { class: "dim" }, "not known"),
          },
        ],
        shown,
        {
          label: "Who waits for whom",
          limit: 10,
          sort: { column: "time", descending: true },
          empty: this.isCut ? "None of the largest waits." : "No waiting.",
          rowClass: (edge) => (picked?.waiter === edge.waiter && picked.cause === edge.cause ? "picked" : ""),
        },
      ),
    );
  }

  // From the rank that was clicked, or that waits most, back to where the waiting comes from.
  private drawChain(): void {
    const { waiter, isMost } = whoWaits(this.edges);
    const from = this.picked?.waiter ?? waiter;
    const first = this.picked
      ? this.edges.find((edge) => edge.waiter === this.picked!.waiter && edge.cause === this.picked!.cause)
      : null;
    if (from === undefined) {
      replace(this.chain);
      return;
    }
    const rest = first
      ? waitChain(this.edges, first.cause).filter(
          (edge) => edge.cause !== first.waiter && edge.wait_s >= first.wait_s / 2,
        )
      : [];
    const chain = first ? [first, ...rest] : waitChain(this.edges, from);
    const last = chain[chain.length - 1];
    const roots = last ? (this.model.report.root_causes ?? []).filter((cause) => cause.rank === last.cause) : [];
    replace(
      this.chain,
      el(
        "h3",
        { class: "apart" },
        `The chain of waiting from rank ${from}${!this.picked && isMost && !this.isCut ? ", which waits most" : ""}`,
      ),
      el(
        "ol",
        { class: "chain" },
        el(
          "li",
          null,
          el(
            "span",
            { class: "step" },
            rankLink(
              this.store,
              from,
              chain.map((edge) => edge.cause),
            ),
          ),
        ),
        chain.map((edge) =>
          el(
            "li",
            null,
            el("span", { class: "why" }, `waits ${seconds(edge.wait_s)} for`),
            el("span", { class: "step" }, rankLink(this.store, edge.cause)),
            edge.places[0] && (edge.places[0].cause.function || edge.places[0].cause.op)
              ? el("span", { class: "why" }, "in ", placeCell(this.model, edge.places[0].cause))
              : null,
          ),
        ),
      ),
      roots.length > 0
        ? el(
            "p",
            { class: "note" },
            `The cause of ${seconds(roots[0].wait_s)} of all waiting is rank ${roots[0].rank} in ${placeText(this.model, roots[0])}.`,
          )
        : null,
    );
  }
}
