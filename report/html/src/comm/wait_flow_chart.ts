// SPDX-License-Identifier: BSD-3-Clause
// Draws who waits for whom: boxes of ranks on both sides, bands between them as thick as the waiting.
import { CanvasChart } from "../charts/canvas_chart";
import { withAlpha } from "../charts/colour";
import { text } from "../charts/drawing";
import { clamp } from "../charts/numbers";
import type { Pen } from "../charts/surface";
import { type Edge, type Flows, flowsOf, kOthers } from "../charts/wait_graph";
import { rgb } from "../core/colours";
import { hideTip, showTip } from "../core/dom";
import { count, seconds } from "../core/format";
import type { Model } from "../core/model";
import { placeText } from "./parts";

// What the chart shows and does with edges.
export interface WaitSelection {
  readonly picked: { waiter: number; cause: number } | null;
  pick(edge: Edge): void;
  clear(): void;
}

interface Box {
  y: number;
  height: number;
}

interface Layout {
  left: number;
  right: number;
  causes: Box[];
  waiters: Box[];
  bands: { flow: number; from: [number, number]; to: [number, number] }[]; // y and height at both ends
}

// What the pointer is on: a band, or a box of one side.
interface Hit {
  flow: number | null;
  cause: number | null;
  waiter: number | null;
}

export class WaitFlowChart extends CanvasChart {
  private edges: readonly Edge[] = [];
  private flows: Flows = { causes: [], waiters: [], flows: [] };
  private hovered: Hit | null = null;

  constructor(
    parent: HTMLElement,
    private readonly model: Model,
    private readonly selection: WaitSelection,
  ) {
    super(parent, { height: 340 });
    this.listen();
  }

  update(edges: readonly Edge[]): void {
    this.edges = edges;
    this.flows = flowsOf(edges, 10);
    const sides = Math.max(this.flows.causes.length, this.flows.waiters.length);
    this.surface.setHeight(clamp(sides * 30 + 40, 120, 360));
    this.surface.setLabel(this.label());
    this.surface.redraw();
  }

  private title(rank: number, of: number): string {
    return rank === kOthers ? (of > 0 ? `${count(of)} others` : "others") : `rank ${rank}`;
  }

  private label(): string {
    const top = this.edges.filter((edge) => edge.cause !== kOthers).slice(0, 3);
    return `Who waits for whom: ${top.map((edge) => `rank ${edge.waiter} waits ${seconds(edge.wait_s)} for rank ${edge.cause}`).join("; ") || "no waiting"}.`;
  }

  private layout(width: number): Layout {
    const { causes, waiters } = this.flows;
    const top = 26;
    const room = this.surface.height - top - 6;
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
    return {
      left: 150,
      right: Math.max(260, width - 150),
      causes: from,
      waiters: to,
      bands: this.bandsBetween(from, to),
    };
  }

  // Each band takes its share of the boxes at both ends, in the order of the boxes at the other.
  private bandsBetween(from: readonly Box[], to: readonly Box[]): Layout["bands"] {
    const { causes, waiters, flows } = this.flows;
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
    return bands;
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

  protected override draw(pen: Pen): void {
    const { colours } = this;
    const { causes, waiters, flows } = this.flows;
    if (flows.length === 0) {
      text(pen, 0, 20, "No waiting.", { colour: colours.muted, font: colours.font, size: 12 });
      return;
    }
    const { left, right, causes: from, waiters: to, bands } = this.layout(pen.width);
    const { context } = pen;
    text(pen, left, 9, "made others wait", { align: "right", colour: colours.muted, font: colours.font });
    text(pen, right, 9, "waited", { colour: colours.muted, font: colours.font });
    const { picked } = this.selection;
    for (const band of bands) {
      const flow = flows[band.flow];
      const lit = picked && causes[flow.cause].rank === picked.cause && waiters[flow.waiter].rank === picked.waiter;
      context.fillStyle = withAlpha(rgb(colours.accent), picked ? (lit ? 0.6 : 0.1) : 0.26);
      context.beginPath();
      this.band(context, left + 7, right - 7, band.from, band.to);
      context.fill();
    }
    this.drawSide(pen, causes, from, left, "right");
    this.drawSide(pen, waiters, to, right, "left");
  }

  // The boxes of one side with their ranks and times.
  private drawSide(
    pen: Pen,
    sums: Flows["causes"],
    boxes: readonly Box[],
    x: number,
    align: "left" | "right",
  ): void {
    const { colours } = this;
    const { context } = pen;
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
  }

  protected override drawOver(pen: Pen): void {
    const { hovered } = this;
    if (!hovered) return;
    const { left, right, bands } = this.layout(pen.width);
    pen.context.fillStyle = withAlpha(rgb(this.colours.accent), 0.5);
    pen.context.beginPath();
    for (const band of bands) {
      const flow = this.flows.flows[band.flow];
      if (band.flow === hovered.flow || flow.cause === hovered.cause || flow.waiter === hovered.waiter)
        this.band(pen.context, left + 7, right - 7, band.from, band.to);
    }
    pen.context.fill();
  }

  private hit(x: number, y: number): Hit | null {
    if (this.flows.flows.length === 0) return null;
    const { left, right, causes, waiters, bands } = this.layout(this.surface.width);
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

  private tipOf(hit: Hit): string {
    const { causes, waiters, flows } = this.flows;
    if (hit.flow !== null) {
      const flow = flows[hit.flow];
      const [cause, waiter] = [causes[flow.cause], waiters[flow.waiter]];
      const edge = this.edges.find((one) => one.cause === cause.rank && one.waiter === waiter.rank);
      const first = edge?.places[0]?.cause;
      const where =
        first && (first.function || first.op) ? `, which was mostly in ${placeText(this.model, first)}` : "";
      return `${this.title(waiter.rank, waiter.of)} waited ${seconds(flow.wait_s)} for ${this.title(cause.rank, cause.of)}${where}`;
    }
    if (hit.cause !== null) {
      const cause = causes[hit.cause];
      return `${this.title(cause.rank, cause.of)} made others wait ${seconds(cause.wait_s)}`;
    }
    const waiter = waiters[hit.waiter!];
    return `${this.title(waiter.rank, waiter.of)} waited ${seconds(waiter.wait_s)}`;
  }

  private listen(): void {
    const { root } = this.surface;
    root.classList.add("chart-pick");
    root.addEventListener("pointermove", (event) => {
      this.hovered = this.hit(...this.surface.at(event));
      if (this.hovered) showTip(this.tipOf(this.hovered), event.clientX, event.clientY);
      else hideTip();
      this.surface.redrawOver();
    });
    root.addEventListener("pointerleave", () => {
      this.hovered = null;
      hideTip();
      this.surface.redrawOver();
    });
    root.addEventListener("click", (event) => {
      const hit = this.hit(...this.surface.at(event));
      const { causes, waiters, flows } = this.flows;
      if (!hit) return this.selection.clear();
      const edge = this.edges.find((one) =>
        hit.flow !== null
          ? one.cause === causes[flows[hit.flow].cause].rank && one.waiter === waiters[flows[hit.flow].waiter].rank
          : hit.cause !== null
            ? one.cause === causes[hit.cause].rank
            : one.waiter === waiters[hit.waiter!].rank,
      );
      if (edge) this.selection.pick(edge);
    });
  }
}
