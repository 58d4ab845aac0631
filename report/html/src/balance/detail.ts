// SPDX-License-Identifier: BSD-3-Clause
// How one value is spread over ranks: in order, by node, as a histogram and as a table.
import { spreadOf } from "../charts/balance_rows";
import { BoxesChart, type Group } from "../charts/boxes_chart";
import type { Distribution, Points } from "../charts/distribution";
import { HistogramChart } from "../charts/histogram_chart";
import { SortedCurve } from "../charts/sorted_curve";
import { kNoNode, rowLabel } from "../charts/rows";
import { el, ofWholeRun, replace } from "../core/dom";
import { table } from "../core/table";
import { percent, printable, shortenMiddle } from "../core/format";
import { RankSet } from "../core/selection";
import type { Subject, Subjects } from "./subjects";

export class BalanceDetail {
  private readonly title = el("h2");
  private readonly note = el("div", { class: "aside" });
  private readonly body = el("div");
  readonly root = el("section", { class: "card chart-card" }, el("header", null, this.title, this.note), this.body);
  private shown: string | null = null; // id of the subject
  private parts: Distribution[] = [];

  constructor(private readonly subjects: Subjects) {}

  destroy(): void {
    for (const part of this.parts) part.surface.destroy();
  }

  update(subject: Subject | null): void {
    this.root.hidden = subject === null;
    if (!subject) return;
    const points = this.points(subject);
    replace(
      this.note,
      ofWholeRun(),
      " \u00b7 ",
      subject.place ? `${subject.place} \u00b7 ` : "",
      `mean ${subject.format(subject.spread.mean)}, largest ${subject.format(subject.spread.max)} (${subject.spread.imbalance.toFixed(2)}\u00d7)`,
      subject.lowIsBad ? " \u00b7 who waits least may be whom the others wait for" : "",
      subject.isFunction
        ? [
            " \u00b7 ",
            el("a", { href: this.subjects.store.href({ page: "hotspots", params: { open: subject.id.slice(1) } }) }, "hotspot"),
          ]
        : null,
    );
    if (this.shown === subject.id) {
      for (const part of this.parts) part.update(points);
      return;
    }
    this.shown = subject.id;
    for (const part of this.parts) part.surface.destroy();
    replace(this.title, shortenMiddle(subject.label, 90));
    this.title.title = subject.label;
    const { groups, title } = this.groups(subject);
    const curve = el("div", null, el("h3", null, "Ranks in ascending order"));
    const boxes = el("div", null, el("h3", null, title));
    const bins = el("div", null, el("h3", null, "How many ranks have which value"));
    replace(this.body, el("div", { class: "chart-columns" }, curve, boxes, bins), figures(points));
    this.parts = [
      new SortedCurve(curve, points),
      new BoxesChart(boxes, points, groups),
      new HistogramChart(bins, points),
    ];
  }

  private points(subject: Subject): Points {
    const mask = this.subjects.store.rankMask();
    const { byRank } = subject;
    if (byRank) {
      const numbers = this.subjects.model.i32("rank_number");
      return {
        values: byRank,
        weights: null,
        name: (i) => `rank ${numbers[i]}`,
        chosen: mask ? (i) => mask[i] !== 0 : null,
        format: subject.format,
        pick: (indices) => this.subjects.store.select({ ranks: RankSet.of(indices.map((i) => numbers[i])), nodes: null }),
      };
    }
    const chosen = this.subjects.chosen;
    return {
      values: subject.byRow,
      weights: this.subjects.dataRows.ranks,
      name: (row) => rowLabel(this.subjects.dataRows, row),
      chosen: chosen ? (row) => chosen[row] > 0 : null,
      format: subject.format,
      pick: (rows) => this.subjects.store.select({ ranks: this.subjects.ranksOf(rows), nodes: null }),
    };
  }

  // Points by node; where most rows are of several nodes, by stretches of ranks.
  private groups(subject: Subject): { groups: Group[]; title: string } {
    const nodeOf = subject.byRank ? this.subjects.model.u32("rank_node") : this.subjects.dataRows.node;
    const members = new Map<number, number[]>();
    let known = 0;
    for (let i = 0; i < nodeOf.length; ++i) {
      if (nodeOf[i] === kNoNode) continue;
      known += subject.byRank ? 1 : this.subjects.dataRows.ranks[i];
      const list = members.get(nodeOf[i]);
      if (list) list.push(i);
      else members.set(nodeOf[i], [i]);
    }
    if (known >= 0.9 * this.subjects.model.rankCount)
      return {
        title: members.size === 1 ? "On its node" : "By node",
        groups: [...members].map(([node, indices]) => ({
          name: printable(this.subjects.model.nodes[node]?.name ?? String(node)),
          indices,
          pick: () => this.subjects.store.select({ nodes: [node], ranks: null }),
        })),
      };
    const stretches = Math.min(32, this.subjects.order.length);
    const groups = Array.from({ length: stretches }, (_, i): Group => {
      const rows = Array.from(
        this.subjects.order.subarray(
          Math.floor((i * this.subjects.order.length) / stretches),
          Math.floor(((i + 1) * this.subjects.order.length) / stretches),
        ),
      );
      const last = rows.reduce((most, row) => Math.max(most, this.subjects.dataRows.last[row]), 0);
      return {
        name: `${this.subjects.dataRows.first[rows[0]]}\u2013${last}`,
        indices: rows,
        pick: () => this.subjects.store.select({ ranks: this.subjects.ranksOf(rows), nodes: null }),
      };
    });
    return { title: "By stretches of ranks", groups };
  }
}

// The ranks with their values as a table, the largest first.
function figures(points: Points): HTMLElement {
  interface Row {
    name: string;
    value: number;
    index: number;
  }
  const rows: Row[] = [];
  for (let i = 0; i < points.values.length; ++i)
    if (!Number.isNaN(points.values[i])) rows.push({ name: points.name(i), value: points.values[i], index: i });
  rows.sort((a, b) => b.value - a.value || a.index - b.index);
  const mean = spreadOf(points.values, points.weights ?? undefined)?.mean ?? NaN;
  return el(
    "details",
    { class: "chart-table" },
    el("summary", null, "As a table"),
    table<Row>(
      [
        {
          id: "name",
          title: "Ranks",
          value: (row) => row.index,
          cell: (row) =>
            el("button", { type: "button", class: "link", on: { click: () => points.pick([row.index]) } }, row.name),
        },
        {
          id: "value",
          title: "Value",
          numeric: true,
          value: (row) => row.value,
          cell: (row) => points.format(row.value),
        },
        {
          id: "mean",
          title: "of the mean",
          numeric: true,
          value: (row) => row.value / mean,
          cell: (row) => percent(row.value / mean, 0),
        },
      ],
      rows,
      { label: "Values by rank", sort: { column: "value", descending: true }, limit: 20 },
    ),
  );
}
