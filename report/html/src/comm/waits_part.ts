// SPDX-License-Identifier: BSD-3-Clause
// Waiting by kind, and who waits for whom.
import { withAlpha } from "../charts/colour";
import { ink, text } from "../charts/drawing";
import { clamp } from "../charts/numbers";
import { type Pen, Surface } from "../charts/surface";
import { type Edge, type Flows, flowsOf, kOthers, waitChain, waitEdges } from "../charts/wait_graph";
import { rgb } from "../core/colours";
import { type Column, el, hideTip, miniBar, ofWholeRun, replace, section, showTip, table } from "../core/dom";
import { count, percent, printable, seconds } from "../core/format";
import type { Model } from "../core/model";
import type { WaitKind } from "../core/report";
import type { Store } from "../core/selection";
import { type Part, placeCell, placeText, rankLink, shortenedNote } from "./parts";

const WAIT_TITLES: Record<WaitKind, string> = {
  late_sender: "Late sender",
  late_receiver: "Late receiver",
  wait_at_barrier: "Wait at barrier",
  wait_at_nxn: "Wait at all-to-all",
  late_broadcast: "Late broadcast",
  early_reduce: "Early reduce",
  early_scan: "Early scan",
};
const WAIT_HELP: Record<WaitKind, string> = {
  late_sender: "The receiver waited until the message was sent.",
  late_receiver: "The sender waited until the message was received.",
  wait_at_barrier: "A member of a barrier waited for the last one.",
  wait_at_nxn: "All depend on all (allreduce, alltoall, allgather…): a member waited for the last one.",
  late_broadcast: "All but the root waited for the root.",
  early_reduce: "The root waited for the others.",
  early_scan: "A rank waited for those of lower number.",
};

export class WaitsPart implements Part {
  private readonly model: Model;
  private readonly kinds = el("div");
  private readonly graph: Surface;
  private readonly list = el("div");
  private readonly chain = el("div");
  private readonly note = el("span", { class: "note" });
  private edges: Edge[] = [];
  private flows: Flows = { causes: [], waiters: [], flows: [] };
  private hovered: { flow: number | null; cause: number | null; waiter: number | null } | null = null;

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
    this.graph = new Surface(picture, {
      height: 340,
      label: "",
      draw: (pen) => this.draw(pen),
      drawOver: (pen) => this.drawOver(pen),
    });
    this.listen();
  }

  destroy(): void {
    this.graph.destroy();
  }

  update(): void {
    const waits = this.model.report.mpi.waits ?? [];
    const mask = this.store.rankMask();
    const chosen = mask ? (rank: number) => mask[this.model.rankIndex(rank)] === 1 : () => true;
    this.edges = waitEdges(waits, chosen);
    this.flows = flowsOf(this.edges, 10);
    replace(this.note, mask ? "waiting of the selected ranks" : null);
    // Kinds
    const byKind = new Map<WaitKind, { wait_s: number; count: number; ranks: Set<number> }>();
    for (const row of waits) {
      if (!chosen(row.rank)) continue;
      const known = byKind.get(row.kind) ?? { wait_s: 0, count: 0, ranks: new Set<number>() };
      known.wait_s += row.wait_s;
      known.count += row.count;
      known.ranks.add(row.rank);
      byKind.set(row.kind, known);
    }
    const kinds = [...byKind].map(([kind, sums]) => ({ kind, ...sums })).sort((a, b) => b.wait_s - a.wait_s);
    const most = kinds[0]?.wait_s ?? 0;
    let allRanks = 0;
    this.model.f32("rank_elapsed_s").forEach((elapsed, i) => {
      if (!mask || mask[i]) allRanks += elapsed || 0;
    });
    replace(
      this.kinds,
      table(
        [
          {
            id: "kind",
            title: "Kind",
            class: "nowrap",
            value: (row) => WAIT_TITLES[row.kind],
            cell: (row) =>
              el("span", { tip: WAIT_HELP[row.kind], tabindex: 0 }, WAIT_TITLES[row.kind] ?? printable(row.kind)),
          },
          {
            id: "time",
            title: "Time",
            numeric: true,
            help: "Of all ranks together",
            value: (row) => row.wait_s,
            cell: (row) => seconds(row.wait_s),
          },
          { id: "bar", title: "", cell: (row) => miniBar(most > 0 ? row.wait_s / most : 0, "var(--cat-mpi)") },
          {
            id: "share",
            title: "of rank time",
            numeric: true,
            help: "Of the time of all these ranks",
            value: (row) => row.wait_s,
            cell: (row) => percent(allRanks > 0 ? row.wait_s / allRanks : null),
          },
          { id: "count", title: "Waits", numeric: true, value: (row) => row.count, cell: (row) => count(row.count) },
          {
            id: "ranks",
            title: "Ranks",
            numeric: true,
            value: (row) => row.ranks.size,
            cell: (row) => count(row.ranks.size),
          },
        ] satisfies Column<(typeof kinds)[number]>[],
        kinds,
        { label: "Waiting by kind", sort: { column: "time", descending: true }, empty: "No waiting was found." },
      ),
    );
    this.graph.setHeight(clamp(Math.max(this.flows.causes.length, this.flows.waiters.length) * 30 + 40, 120, 360));
    this.graph.setLabel(this.label());
    this.graph.redraw();
    this.drawList();
    this.drawChain();
  }

  private title(rank: number, of: number): string {
    return rank === kOthers ? (of > 0 ? `${count(of)} others` : "others") : `rank ${rank}`;
  }

  private label(): string {
    const top = this.edges.filter((edge) => edge.cause !== kOthers).slice(0, 3);
    return `Who waits for whom: ${top.map((edge) => `rank ${edge.waiter} waits ${seconds(edge.wait_s)} for rank ${edge.cause}`).join("; ") || "no waiting"}.`;
  }

  private get picked(): { waiter: number; cause: number } | null {
    const match = /^(\d+)_(\d+)$/.exec(this.store.param("wait") ?? "");
    return match ? { waiter: Number(match[1]), cause: Number(match[2]) } : null;
  }

  private pick(edge: Edge): void {
    const known = this.picked;
    const same = known?.waiter === edge.waiter && known.cause === edge.cause;
    this.store.setParam("wait", same || edge.cause === kOthers ? null : `${edge.waiter}_${edge.cause}`);
  }

  // Boxes of ranks on both sides, bands between them as thick as the waiting.
  private layout(width: number): {
    left: number;
    right: number;
    causes: { y: number; height: number }[];
    waiters: { y: number; height: number }[];
    bands: { flow: number; from: [number, number]; to: [number, number] }[];
  } {
    const { causes, waiters, flows } = this.flows;
    const top = 26;
    const room = this.graph.height - top - 6;
    const total = causes.reduce((sum, one) => sum + one.wait_s, 0);
    const gap = 9;
    const place = (sums: { wait_s: number }[]) => {
      const free = room - gap * Math.max(0, sums.length - 1);
      const least = 3;
      const scale = total > 0 ? Math.max(0, free - least * sums.length) / total : 0;
      let y = top;
      return sums.map((sum) => {
        const height = least + sum.wait_s * scale;
        const box = { y, height };
        y += height + gap;
        return box;
      });
    };
    const from = place(causes);
    const to = place(waiters);
    const usedFrom = causes.map(() => 0);
    const usedTo = waiters.map(() => 0);
    const order = flows
      .map((_, i) => i)
      .sort((a, b) => flows[a].cause - flows[b].cause || flows[a].waiter - flows[b].waiter);
    const ends = new Map<number, [number, number]>();
    for (const i of order) {
      const flow = flows[i];
      const height = (flow.wait_s / causes[flow.cause].wait_s) * from[flow.cause].height;
      const y = from[flow.cause].y + usedFrom[flow.cause];
      usedFrom[flow.cause] += height;
      ends.set(i, [y, height]);
    }
    order.sort((a, b) => flows[a].waiter - flows[b].waiter || flows[a].cause - flows[b].cause);
    const bands = order.map((i) => {
      const flow = flows[i];
      const height = (flow.wait_s / waiters[flow.waiter].wait_s) * to[flow.waiter].height;
      const y = to[flow.waiter].y + usedTo[flow.waiter];
      usedTo[flow.waiter] += height;
      return { flow: i, from: ends.get(i)!, to: [y, height] as [number, number] };
    });
    return { left: 150, right: Math.max(260, width - 150), causes: from, waiters: to, bands };
  }

  private band(
    context: CanvasRenderingContext2D | Path2D,
    left: number,
    right: number,
    from: [number, number],
    to: [number, number],
  ): void {
    const middle = (left + right) / 2;
    context.moveTo(left, from[0]);
    context.bezierCurveTo(middle, from[0], middle, to[0], right, to[0]);
    context.lineTo(right, to[0] + to[1]);
    context.bezierCurveTo(middle, to[0] + to[1], middle, from[0] + from[1], left, from[0] + from[1]);
    context.closePath();
  }

  private draw(pen: Pen): void {
    const colours = ink();
    const { causes, waiters, flows } = this.flows;
    if (flows.length === 0) {
      text(pen, 0, 20, "No waiting.", { colour: colours.muted, font: colours.font, size: 12 });
      return;
    }
    const { left, right, causes: from, waiters: to, bands } = this.layout(pen.width);
    const { context } = pen;
    text(pen, left, 9, "made others wait", { align: "right", colour: colours.muted, font: colours.font });
    text(pen, right, 9, "waited", { colour: colours.muted, font: colours.font });
    const picked = this.picked;
    for (const band of bands) {
      const flow = flows[band.flow];
      const lit = picked && causes[flow.cause].rank === picked.cause && waiters[flow.waiter].rank === picked.waiter;
      context.fillStyle = withAlpha(rgb(colours.accent), picked ? (lit ? 0.6 : 0.1) : 0.26);
      context.beginPath();
      this.band(context, left + 7, right - 7, band.from, band.to);
      context.fill();
    }
    const side = (sums: typeof causes, boxes: typeof from, x: number, align: "left" | "right") =>
      sums.forEach((sum, place) => {
        const box = boxes[place];
        context.fillStyle = sum.rank === kOthers ? colours.faint : colours.accent;
        context.fillRect(x - 3.5, box.y, 7, Math.max(1, box.height));
        const at = align === "right" ? x - 10 : x + 10;
        const middle = box.y + box.height / 2;
        context.font = `500 12px ${colours.font}`;
        const title = this.title(sum.rank, sum.of);
        text(pen, at, middle, title, {
          align,
          colour: sum.rank === kOthers ? colours.muted : colours.text,
          font: colours.font,
          size: 12,
          weight: 500,
          most: 90,
        });
        context.font = `500 12px ${colours.font}`;
        const used = Math.min(90, context.measureText(title).width) + 8;
        text(pen, align === "right" ? at - used : at + used, middle, seconds(sum.wait_s), {
          align,
          colour: colours.muted,
          font: colours.font,
        });
      });
    side(causes, from, left, "right");
    side(waiters, to, right, "left");
  }

  private drawOver(pen: Pen): void {
    const { hovered } = this;
    if (!hovered) return;
    const { left, right, bands } = this.layout(pen.width);
    pen.context.fillStyle = withAlpha(rgb(ink().accent), 0.5);
    pen.context.beginPath();
    for (const band of bands) {
      const flow = this.flows.flows[band.flow];
      if (band.flow === hovered.flow || flow.cause === hovered.cause || flow.waiter === hovered.waiter)
        this.band(pen.context, left + 7, right - 7, band.from, band.to);
    }
    pen.context.fill();
  }

  private hit(x: number, y: number): WaitsPart["hovered"] {
    if (this.flows.flows.length === 0) return null;
    const { left, right, causes, waiters, bands } = this.layout(this.graph.width);
    const inside = (boxes: typeof causes) => {
      const place = boxes.findIndex((box) => y >= box.y - 4 && y <= box.y + box.height + 4);
      return place < 0 ? null : place;
    };
    if (x < left + 6) {
      const cause = inside(causes);
      return cause === null ? null : { flow: null, cause, waiter: null };
    }
    if (x > right - 6) {
      const waiter = inside(waiters);
      return waiter === null ? null : { flow: null, cause: null, waiter };
    }
    const tester = document.createElement("canvas").getContext("2d")!;
    for (let i = bands.length - 1; i >= 0; --i) {
      const path = new Path2D();
      this.band(path, left + 7, right - 7, bands[i].from, bands[i].to);
      if (tester.isPointInPath(path, x, y)) return { flow: bands[i].flow, cause: null, waiter: null };
    }
    return null;
  }

  private listen(): void {
    const { root } = this.graph;
    root.classList.add("chart-pick");
    root.addEventListener("pointermove", (event) => {
      this.hovered = this.hit(...this.graph.at(event));
      const { causes, waiters, flows } = this.flows;
      if (!this.hovered) hideTip();
      else if (this.hovered.flow !== null) {
        const flow = flows[this.hovered.flow];
        const [cause, waiter] = [causes[flow.cause], waiters[flow.waiter]];
        const edge = this.edges.find((one) => one.cause === cause.rank && one.waiter === waiter.rank);
        const first = edge?.places[0]?.cause;
        showTip(
          `${this.title(waiter.rank, waiter.of)} waited ${seconds(flow.wait_s)} for ${this.title(cause.rank, cause.of)}${first && (first.function || first.op) ? `, which was mostly in ${placeText(this.model, first)}` : ""}`,
          event.clientX,
          event.clientY,
        );
      } else if (this.hovered.cause !== null) {
        const cause = causes[this.hovered.cause];
        showTip(
          `${this.title(cause.rank, cause.of)} made others wait ${seconds(cause.wait_s)}`,
          event.clientX,
          event.clientY,
        );
      } else {
        const waiter = waiters[this.hovered.waiter!];
        showTip(`${this.title(waiter.rank, waiter.of)} waited ${seconds(waiter.wait_s)}`, event.clientX, event.clientY);
      }
      this.graph.redrawOver();
    });
    root.addEventListener("pointerleave", () => {
      this.hovered = null;
      hideTip();
      this.graph.redrawOver();
    });
    root.addEventListener("click", (event) => {
      const hit = this.hit(...this.graph.at(event));
      const { causes, waiters, flows } = this.flows;
      if (!hit) return this.store.setParam("wait", null);
      const edge = this.edges.find((one) =>
        hit.flow !== null
          ? one.cause === causes[flows[hit.flow].cause].rank && one.waiter === waiters[flows[hit.flow].waiter].rank
          : hit.cause !== null
            ? one.cause === causes[hit.cause].rank
            : one.waiter === waiters[hit.waiter!].rank,
      );
      if (edge) this.pick(edge);
    });
  }

  private drawList(): void {
    const shown = this.edges.filter((edge) => edge.cause !== kOthers).slice(0, 400);
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
          empty: "No waiting.",
          rowClass: (edge) => (picked?.waiter === edge.waiter && picked.cause === edge.cause ? "picked" : ""),
        },
      ),
    );
  }

  // From the rank that was clicked, or that waits most, back to where the waiting comes from.
  private drawChain(): void {
    const from = this.picked?.waiter ?? this.edges.find((edge) => edge.cause !== kOthers)?.waiter;
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
        this.picked
          ? `The chain of waiting from rank ${from}`
          : `The chain of waiting from rank ${from}, which waits most`,
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
            `Root of ${seconds(roots[0].wait_s)} of all waiting: rank ${roots[0].rank} in ${placeText(this.model, roots[0])}.`,
          )
        : null,
    );
  }
}
