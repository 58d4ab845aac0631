// SPDX-License-Identifier: BSD-3-Clause
// The selection, on every page: what is chosen, and fields to choose by.
import { el, replace } from "./dom";
import { plural, printable, shortenMiddle, timeRange } from "./format";
import { icon } from "./icons";
import { RankSet, type Store } from "./selection";
import { weights } from "./weights";

interface Field {
  root: HTMLElement;
  input: HTMLInputElement | HTMLSelectElement;
  update(): void;
}

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

export interface SelectionBar {
  root: HTMLElement;
  update(): void;
  focus(field: "time" | "ranks"): void;
}

export function makeSelectionBar(store: Store): SelectionBar {
  const { model } = store;
  const status = el("span", { class: "selection-status", role: "status" });

  // A text field that shows what is chosen; Enter or leaving it takes what was typed.
  function textField(options: {
    name: string;
    placeholder: string;
    help: string;
    width: number;
    shown(): string;
    take(text: string): boolean; // false: cannot be read
    clear(): void;
  }): Field {
    const input = el("input", {
      type: "text",
      "aria-label": `${options.name}: ${options.help}`,
      placeholder: options.placeholder,
      spellcheck: "false",
      autocomplete: "off",
      tip: options.help,
      style: { width: `${options.width}ch` },
    });
    const commit = (): boolean => {
      if (input.value.trim() === options.shown()) return true;
      const read = input.value.trim() === "" ? (options.clear(), true) : options.take(input.value);
      root.classList.toggle("wrong", !read);
      input.setAttribute("aria-invalid", String(!read));
      return read;
    };
    input.addEventListener("keydown", (event) => {
      // To the page, whose keys are of use now.
      if (event.key === "Enter" && commit()) document.getElementById("main")?.focus({ preventScroll: true });
      else if (event.key === "Escape") {
        input.value = options.shown();
        root.classList.remove("wrong");
        input.blur();
      }
    });
    input.addEventListener("change", commit);
    const remove = el("button", { type: "button", class: "remove", "aria-label": `${options.name}: all`, on: { click: () => options.clear() } }, icon("close"));
    const root = el("label", { class: "chip" }, el("span", { class: "chip-name" }, options.name), input, remove);
    return {
      root,
      input,
      update() {
        const shown = options.shown();
        input.value = shown;
        root.classList.remove("wrong");
        root.classList.toggle("set", shown !== "");
        remove.hidden = shown === "";
        input.style.width = `${Math.min(28, Math.max(options.width, options.placeholder.length + 1, shown.length + 1))}ch`;
      },
    };
  }

  const time = textField({
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
  const ranks = textField({
    name: "Ranks",
    placeholder: `all ${model.rankCount.toLocaleString("en-US")}`,
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
  const nodes = textField({
    name: "Nodes",
    placeholder: `all ${model.nodeCount.toLocaleString("en-US")}`,
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
  const fields: Field[] = [time, ranks];
  if (model.nodeCount > 1) fields.push(nodes);

  const regions = model.report.regions ?? [];
  if (regions.length > 0) {
    const select = el(
      "select",
      { "aria-label": "Region", on: { change: () => store.select({ region: select.value === "" ? null : regions[Number(select.value)].name }) } },
      el("option", { value: "" }, "all"),
      regions.map((region, i) => el("option", { value: i }, shortenMiddle(printable(region.name), 40))),
    );
    const remove = el("button", { type: "button", class: "remove", "aria-label": "Region: all", on: { click: () => store.select({ region: null }) } }, icon("close"));
    const root = el("label", { class: "chip" }, el("span", { class: "chip-name" }, "Region"), select, remove);
    fields.push({
      root,
      input: select,
      update() {
        const { region } = store.selection;
        select.value = region === null ? "" : String(regions.findIndex((r) => r.name === region));
        root.classList.toggle("set", region !== null);
        remove.hidden = region === null;
      },
    });
  }

  const hasHelpers = model.f32("path_helper_idle_s").some((s) => s > 0);
  const idle = el("input", { type: "checkbox", on: { change: () => store.setHelperIdle(idle.checked) } });
  const idleLabel = el(
    "label",
    { class: "check", tip: "Threads other than the main one that wait for work, such as pools of workers. The text report leaves them out as well." },
    idle,
    "idle helpers",
  );
  const clear = el("button", { type: "button", class: "plain clear", tip: "Choose everything again (x)", on: { click: () => store.clear() } }, "Clear");

  return {
    root: el("div", { class: "selection", role: "group", "aria-label": "Selection" }, fields.map((f) => f.root), clear, status, hasHelpers ? idleLabel : null),
    update() {
      for (const field of fields) field.update();
      const { time: range, ranks: chosen, nodes: onNodes, region } = store.selection;
      clear.hidden = !range && !chosen && !onNodes && region === null;
      idle.checked = store.helperIdle;
      const parts: (Node | string)[] = [];
      const mask = store.rankMask();
      if ((chosen || onNodes) && !mask) parts.push("all ranks");
      if (mask) {
        const count = mask.reduce((sum, one) => sum + one, 0);
        parts.push(el("span", { class: count === 0 ? "bad" : null }, count === 0 ? "no such rank" : plural(count, "rank")));
      }
      if (range && !model.header.time.bins)
        parts.push(el("span", { class: "badge", tip: "This run was recorded without the time of call paths: functions and call paths do not follow a range of time." }, "call paths: whole run"));
      else if (!clear.hidden && weights(store).isEstimate)
        parts.push(
          el("span", { class: "badge", tip: "How call paths divide the chosen time is known from samples; which ranks and which time together, from the product of the two shares." }, "estimate"),
        );
      replace(status, parts);
    },
    focus(name) {
      const field = name === "time" ? time : ranks;
      field.input.focus();
      if (field.input instanceof HTMLInputElement) field.input.select();
    },
  };
}
