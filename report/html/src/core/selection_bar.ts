// SPDX-License-Identifier: BSD-3-Clause
// The selection, on every page: what is chosen, and fields to choose by.
import { type Child, el, replace } from "./dom";
import { plural, printable, timeRange } from "./format";
import { RankSet, type Store } from "./selection";
import { type Field, RegionField, TextField } from "./selection_fields";
import { weights } from "./weights";

export function nodeNames(store: Store, nodes: readonly number[]): string {
  const names = nodes.slice(0, 3).map((n) => printable(store.model.nodes[n].name));
  return names.join(", ") + (nodes.length > 3 ? `, … (${nodes.length})` : "");
}

// Names of nodes, or their numbers in the order of the run ("#0-3"); null: none of that.
export function parseNodes(store: Store, text: string): number[] | null {
  const chosen = new Set<number>();
  for (const word of text.split(/[,\s]+/)) {
    if (word === "") continue;
    const before = chosen.size;
    if (word.startsWith("#"))
      for (const [first, last] of RankSet.parse(word.slice(1))?.ranges ?? [])
        for (let n = first; n <= Math.min(last, store.model.nodeCount - 1); ++n) chosen.add(n);
    else
      store.model.nodes.forEach((node, i) => {
        const star = word.endsWith("*");
        if (star ? node.name.startsWith(word.slice(0, -1)) : node.name === word || printable(node.name) === word) chosen.add(i);
      });
    if (chosen.size === before) return null;
  }
  return chosen.size ? [...chosen].sort((a, b) => a - b) : null;
}

export function parseTime(text: string): [number, number] | null {
  const match = /^\s*(-?[\d.]+)\s*s?\s*(?:-|–|\.\.|to|,)\s*(-?[\d.]+)\s*s?\s*$/.exec(text);
  if (!match) return null;
  const [a, b] = [Number(match[1]), Number(match[2])];
  return Number.isFinite(a) && Number.isFinite(b) && a < b ? [a, b] : null;
}

function timeField(store: Store): TextField {
  return new TextField({
    name: "Time",
    placeholder: "whole run",
    help: "seconds since the start: 1.5-3.25; or drag over a chart",
    width: 11,
    shown: () => (store.selection.time ? timeRange(store.selection.time) : ""),
    take(text) {
      const range = parseTime(text);
      if (range) store.select({ time: range });
      return range !== null;
    },
    clear: () => store.select({ time: null }),
  });
}

function rankField(store: Store): TextField {
  return new TextField({
    name: "Ranks",
    placeholder: `all ${store.model.rankCount.toLocaleString("en-US")}`,
    help: "for instance 0-15,37",
    width: 10,
    shown: () => store.selection.ranks?.toString() ?? "",
    take(text) {
      const set = RankSet.parse(text);
      if (set) store.select({ ranks: set });
      return set !== null;
    },
    clear: () => store.select({ ranks: null }),
  });
}

function nodeField(store: Store): TextField {
  return new TextField({
    name: "Nodes",
    placeholder: `all ${store.model.nodeCount.toLocaleString("en-US")}`,
    help: "names, with * at the end for all that begin so; #0-3 for the first four",
    width: 8,
    shown: () => (store.selection.nodes ? nodeNames(store, store.selection.nodes) : ""),
    take(text) {
      const list = parseNodes(store, text);
      if (list) store.select({ nodes: list });
      return list !== null;
    },
    clear: () => store.select({ nodes: null }),
  });
}

export class SelectionBar {
  readonly root: HTMLElement;
  private readonly time: TextField;
  private readonly ranks: TextField;
  private readonly fields: Field[];
  private readonly status = el("span", { class: "selection-status", role: "status" });
  private readonly clearButton: HTMLButtonElement;
  private readonly idleBox: HTMLInputElement; // whether idle helper threads count

  constructor(private readonly store: Store) {
    const { model } = store;
    this.time = timeField(store);
    this.ranks = rankField(store);
    this.fields = [this.time, this.ranks];
    if (model.nodeCount > 1) this.fields.push(nodeField(store));
    const regions = model.report.regions ?? [];
    if (regions.length > 0) this.fields.push(new RegionField(store, regions));
    this.idleBox = el("input", { type: "checkbox", on: { change: () => store.setHelperIdle(this.idleBox.checked) } });
    this.clearButton = el(
      "button",
      { type: "button", class: "plain clear", tip: "Choose everything again (x)", on: { click: () => store.clear() } },
      "Clear",
    );
    this.root = el(
      "div",
      { class: "selection", role: "group", "aria-label": "Selection" },
      this.fields.map((field) => field.root),
      this.clearButton,
      this.status,
      model.f32("path_helper_idle_s").some((s) => s > 0) ? this.idleLabel() : null,
    );
  }

  update(): void {
    const { store } = this;
    for (const field of this.fields) field.update();
    this.clearButton.hidden = !this.isAnythingChosen();
    this.idleBox.checked = store.helperIdle;
    replace(this.status, this.ranksText(), this.precision());
  }

  focus(name: "time" | "ranks"): void {
    this[name].focus();
  }

  private isAnythingChosen(): boolean {
    const { time, ranks, nodes, region } = this.store.selection;
    return time !== null || ranks !== null || nodes !== null || region !== null;
  }

  private idleLabel(): HTMLElement {
    return el(
      "label",
      {
        class: "check",
        tip: "Threads other than the main one that wait for work, such as pools of workers. The text report leaves them out as well.",
      },
      this.idleBox,
      "idle helpers",
    );
  }

  // How many ranks are chosen.
  private ranksText(): Child {
    const { ranks, nodes } = this.store.selection;
    const mask = this.store.rankMask();
    if (!mask) return ranks || nodes ? "all ranks" : null;
    const count = mask.reduce((sum, one) => sum + one, 0);
    return el("span", { class: count === 0 ? "bad" : null }, count === 0 ? "no such rank" : plural(count, "rank"));
  }

  // What the times of call paths are worth under this selection.
  private precision(): Child {
    const { store } = this;
    const { model, selection } = store;
    if (selection.time && !model.header.time.bins)
      return el(
        "span",
        {
          class: "badge",
          tip: "This run was recorded without the time of call paths: functions and call paths do not follow a range of time.",
        },
        "call paths: whole run",
      );
    if (!this.isAnythingChosen() || !weights(store).isEstimate) return null;
    return el(
      "span",
      {
        class: "badge",
        tip: "How call paths divide the chosen time is known from samples; which ranks and which time together, from the product of the two shares.",
      },
      "estimate",
    );
  }
}
