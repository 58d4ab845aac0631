// SPDX-License-Identifier: BSD-3-Clause
// Search: functions, files, pages, ranks, nodes, regions.
import { el, replace } from "./dom";
import { functionLabel, percent, printable, seconds, shortenMiddle } from "./format";
import { icon } from "./icons";
import { functionTarget, lineTarget, nodeTarget, rankTarget } from "./links";
import type { Page } from "./page";
import { RankSet, type Store, type Target } from "./selection";
import { weights } from "./weights";

interface Entry {
  icon: string;
  title: string;
  place: string;
  value: string;
  target(): Target;
}

const MOST = 40;

// 0: no match. Better: at the start of a word, early, in a short name.
export function score(text: string, query: string): number {
  const at = text.indexOf(query);
  if (at >= 0) {
    const word = at === 0 || !/[a-z0-9]/.test(text[at - 1]);
    return 1000 + (word ? 300 : 0) + (at === 0 ? 200 : 0) - Math.min(200, text.length);
  }
  let i = 0;
  let gaps = 0;
  for (let last = -1; i < query.length; ++i) {
    const next = text.indexOf(query[i], last + 1);
    if (next < 0) return 0;
    gaps += next - last - 1;
    last = next;
  }
  return gaps > 3 * query.length ? 0 : Math.max(1, 400 - 10 * gaps - Math.min(200, text.length));
}

export function makePalette(store: Store, pages: readonly Page[]): { open(): void } {
  const { model } = store;
  let lowered: string[] | null = null;
  let entries: Entry[] = [];
  let chosen = 0;

  const input = el("input", {
    type: "text",
    placeholder: "A function, file, page, rank or node",
    "aria-label": "Search",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    "aria-autocomplete": "list",
    spellcheck: "false",
    autocomplete: "off",
  });
  const list = el("ul", { id: "palette-list", role: "listbox", "aria-label": "Found" });
  const dialog = el("dialog", { class: "palette", "aria-label": "Search" }, el("div", { class: "palette-field" }, icon("search"), input), list);

  function find(query: string): Entry[] {
    const found: { entry: Entry; score: number }[] = [];
    const add = (points: number, entry: Entry) => points > 0 && found.push({ entry, score: points });
    const text = query.trim().toLowerCase();
    for (const page of pages)
      add(text === "" ? 1000 : score(page.title.toLowerCase(), text) + 500 * Number(page.title.toLowerCase().startsWith(text)), {
        icon: page.id,
        title: page.title,
        place: "page",
        value: "",
        target: () => store.pageTarget(page.id),
      });
    const ranks = RankSet.parse(text.replace(/^ranks?\s+/, ""));
    if (ranks && model.rankIndex(ranks.ranges[0][0]) >= 0)
      add(3000, { icon: "rank", title: `${ranks.size === 1 ? "Rank" : "Ranks"} ${ranks.toShortString()}`, place: "choose", value: "", target: () => ({ selection: { ranks } }) });
    if (text === "") return found.map((f) => f.entry);

    model.nodes.forEach((node, i) => {
      const points = score(printable(node.name).toLowerCase(), text);
      if (points > 600)
        add(points, { icon: "nodes", title: shortenMiddle(printable(node.name), 60), place: "node", value: percent(node.cpu_busy), target: () => nodeTarget(i) });
    });
    for (const region of model.report.regions ?? [])
      add(score(region.name.toLowerCase(), text), {
        icon: "region", title: shortenMiddle(printable(region.name), 60), place: "region", value: seconds(region.sampled_s), target: () => ({ selection: { region: region.name } }),
      });

    lowered ??= Array.from({ length: model.functionCount }, (_, f) => (model.text(model.u32("function_name_string")[f]) ?? "").toLowerCase());
    const { functionTotal } = weights(store);
    const most = Math.max(1e-9, ...functionTotal.subarray(0, 1), weights(store).sum);
    const hits: { f: number; points: number }[] = [];
    lowered.forEach((name, f) => {
      const points = score(name, text);
      if (points > 0) hits.push({ f, points: points + 300 * Math.min(1, functionTotal[f] / most) });
    });
    hits.sort((a, b) => b.points - a.points);
    for (const { f, points } of hits.slice(0, MOST)) {
      const info = model.function(f);
      add(points, {
        icon: "function",
        title: shortenMiddle(functionLabel(info.name, info.kind), 60),
        place: shortenMiddle(printable(model.place(info.file, info.line) || (info.module ? info.module.slice(info.module.lastIndexOf("/") + 1) : info.kind)), 36),
        value: seconds(functionTotal[f]),
        target: () => functionTarget(f),
      });
    }
    for (const source of model.header.sources) {
      const points = Math.max(score(model.shortFile(source.file).toLowerCase(), text), score(source.file.toLowerCase(), text) - 300);
      add(points, { icon: "file", title: shortenMiddle(printable(model.shortFile(source.file)), 60), place: "file", value: "", target: () => lineTarget(source.file, null) });
    }
    if (/^rank/.test(text) && !ranks) add(500, { icon: "rank", title: "Rank 0", place: "choose", value: "", target: () => rankTarget(0, store.page) });
    found.sort((a, b) => b.score - a.score);
    return found.slice(0, MOST).map((f) => f.entry);
  }

  function mark(next: number): void {
    if (entries.length === 0) return;
    chosen = (next + entries.length) % entries.length;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === chosen)));
    const item = list.children[chosen];
    if (item) {
      input.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    }
  }
  function go(entry: Entry | undefined): void {
    if (!entry) return;
    dialog.close();
    store.go(entry.target());
  }
  function show(): void {
    entries = find(input.value);
    input.removeAttribute("aria-activedescendant");
    replace(
      list,
      entries.map((entry, i) =>
        el(
          "li",
          { id: `palette-${i}`, role: "option", on: { click: () => go(entry), pointermove: () => chosen !== i && mark(i) } },
          icon(entry.icon),
          el("span", { class: "palette-title" }, entry.title),
          el("span", { class: "palette-place" }, entry.place),
          el("span", { class: "palette-value" }, entry.value),
        ),
      ),
      entries.length ? null : el("li", { class: "empty", role: "option", "aria-disabled": "true" }, "Nothing found."),
    );
    mark(0);
  }
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") mark(chosen + 1);
    else if (event.key === "ArrowUp") mark(chosen - 1);
    else if (event.key === "Enter") go(entries[chosen]);
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  return {
    open() {
      input.value = "";
      show();
      dialog.showModal();
      input.focus();
    },
  };
}
