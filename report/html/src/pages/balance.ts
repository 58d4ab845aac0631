// SPDX-License-Identifier: BSD-3-Clause
// Which ranks need more time than others, and in what: function x rank, and how one value is spread. The parts are in ../balance.
import { BalanceDetail } from "../balance/detail";
import { BalanceMap } from "../balance/balance_map";
import { type Subject, Subjects } from "../balance/subjects";
import { choice, el, hideTip, ofWholeRun, replace, section } from "../core/dom";
import { bindKeys } from "../core/keys";
import type { Page, PageHandle } from "../core/page";
import type { Store } from "../core/selection";

const kFewFunctions = 20;

type Order = "cost" | "time" | "imbalance";

class Balance {
  private readonly subjects: Subjects;
  private shown: Subject[] = [];
  private readonly map: BalanceMap;
  private readonly detail: BalanceDetail;
  private readonly legend = el("div", { class: "chart-legend" });
  private readonly more = el("button", {
    type: "button",
    on: { click: () => this.store.setParam("all", this.store.param("all") ? null : "1") },
  });
  private readonly unbind = bindKeys([
    {
      key: "m",
      help: "To the map; arrow keys move, with Shift they select ranks, Enter opens a row",
      run: () => this.map.surface.root.focus(),
    },
  ]);

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    this.subjects = new Subjects(store);
    const tools = el(
      "div",
      { class: "chart-tools" },
      el(
        "span",
        { class: "chart-field" },
        "Order",
        choice<Order>(
          "Order of functions",
          [
            ["cost", "Cost of imbalance"],
            ["time", "Time"],
            ["imbalance", "Imbalance"],
          ],
          this.sorting,
          (value) => this.store.setParam("sort", value === "cost" ? null : value),
        ),
      ),
      this.legend,
      el("span", { class: "gap" }),
      this.more,
    );
    const box = section(
      "Ranks against the mean rank",
      { class: "chart-card", aside: [ofWholeRun(), " \u00b7 click a row for its ranks, drag across to select ranks"] },
      tools,
    );
    root.append(box);
    this.map = new BalanceMap(
      box,
      this.subjects,
      () => this.open,
      (subject) => this.show(subject),
    );
    this.detail = new BalanceDetail(this.subjects);
    root.append(this.detail.root);
    this.update();
  }

  destroy(): void {
    hideTip();
    this.unbind();
    this.map.surface.destroy();
    this.detail.destroy();
  }

  update(): void {
    this.subjects.update();
    const by: Record<Order, (subject: Subject) => number> = {
      cost: (subject) => subject.spread.cost,
      time: (subject) => subject.spread.mean,
      imbalance: (subject) => subject.spread.imbalance,
    };
    const key = by[this.sorting];
    const sorted = [...this.subjects.functions].sort((a, b) => key(b) - key(a) || b.spread.mean - a.spread.mean);
    const all = this.store.param("all") !== null;
    this.shown = [...this.subjects.values, ...(all ? sorted : sorted.slice(0, kFewFunctions))];
    this.more.hidden = this.subjects.functions.length <= kFewFunctions;
    this.more.textContent = all ? `Only the first ${kFewFunctions}` : `All ${this.subjects.functions.length} functions`;
    this.map.update(this.shown);
    replace(this.legend, this.map.legend());
    this.detail.update(this.open);
  }

  private get sorting(): Order {
    const sort = this.store.param("sort");
    return sort === "time" || sort === "imbalance" ? sort : "cost";
  }

  // The value or function whose ranks are shown in detail.
  private get open(): Subject | null {
    const id = this.store.param("row");
    const all = [...this.subjects.values, ...this.subjects.functions];
    return (
      all.find((subject) => subject.id === id) ?? this.shown.find((subject) => subject.isFunction) ?? all[0] ?? null
    );
  }

  private show(subject: Subject): void {
    this.store.setParam("row", subject.id);
    this.detail.root.scrollIntoView({ block: "nearest" });
  }
}

export const page: Page = {
  id: "balance",
  title: "Balance",
  hint: "Which ranks need more time than others",
  hidden: (model) => model.rankCount < 2,
  mount(root, store): PageHandle {
    const balance = new Balance(root, store);
    return { update: () => balance.update(), destroy: () => balance.destroy() };
  },
};
