// SPDX-License-Identifier: BSD-3-Clause
// The call tree: who spent the time, and on whose behalf. What is shown is in ../calltree: shown_tree (the choices and the tree),
// tree_colours, tree_texts and tree_search; the charts are in ../charts.
import { DIRECTIONS, COLOURS, Frames, hasRegions, MERGES, ShownTree, stateOf, type TreeState, viewOf, VIEWS } from "../calltree/shown_tree";
import { hasFolds } from "../calltree/of_model";
import { legendOf, lookOf } from "../calltree/tree_colours";
import { type SearchResult, searchTree } from "../calltree/tree_search";
import { statusOf, tipOf } from "../calltree/tree_texts";
import { Imbalances, type TreeView } from "../calltree/tree_view";
import { matcher, searchField } from "../charts/code_parts";
import { type TreeChart, flameChart } from "../charts/flame";
import { sunburstChart } from "../charts/sunburst";
import type { TreeChartEvents } from "../charts/tree_pointer";
import { type TreeTable, treeTable } from "../charts/tree_table";
import { css } from "../core/colours";
import { type Child, choice, el, replace } from "../core/dom";
import { percent, plural, shortenMiddle } from "../core/format";
import { bindKeys } from "../core/keys";
import { NONE } from "../core/model";
import type { Page } from "../core/page";
import type { Store } from "../core/selection";

const LEADING = 0.002; // of all time: a search does not open smaller ones

// The way from the root to the node that is zoomed to; each step zooms out to it.
function crumbs(tree: ShownTree, zoomed: number, zoom: (node: number) => void): Child {
  if (zoomed === 0) return el("span", { class: "muted" }, "All call paths");
  const trail = [0, ...tree.view.trail(zoomed)];
  const hidden = trail.length > 7 ? trail.slice(1, trail.length - 5) : [];
  const shown = trail.filter((node) => !hidden.includes(node));
  return [
    shown.map((node, i) => [
      i > 0 ? el("span", { class: "muted", "aria-hidden": "true" }, "›") : null,
      i === 1 && hidden.length > 0
        ? [
            el("span", { class: "muted", tip: hidden.map((node) => tree.label(node)).join(" › ") }, `… ${hidden.length} …`),
            el("span", { class: "muted", "aria-hidden": "true" }, "›"),
          ]
        : null,
      node === zoomed
        ? el("span", { "aria-current": "location", class: "crumb-here" }, shortenMiddle(tree.label(node), 40))
        : el(
            "button",
            { type: "button", class: "crumb", on: { click: () => zoom(node) } },
            node === 0 ? "All" : shortenMiddle(tree.label(node), 28),
          ),
    ]),
    el(
      "button",
      { type: "button", class: "crumb crumb-reset", on: { click: () => zoom(0) } },
      "Reset zoom",
    ),
  ];
}

// The choices above the chart; `input`: the field to search in.
function controls(store: Store, current: TreeState, input: HTMLElement): Child {
  const set = (name: string, first: string) => (value: string) =>
    store.setParams(
      name === "dir" || name === "by"
        ? { [name]: value === first ? null : value, at: null }
        : { [name]: value === first ? null : value },
    );
  return [
    choice("Direction", DIRECTIONS, current.direction, set("dir", "down")),
    choice("View", VIEWS, current.view, set("view", "icicle")),
    el(
      "label",
      { class: "tool-label" },
      "Colour",
      choice("Colour by", COLOURS, current.colour, set("colour", "kind")),
    ),
    el(
      "label",
      { class: "tool-label" },
      "By",
      choice("A box is a", MERGES, current.by, set("by", "function")),
    ),
    hasRegions(store.model)
      ? el(
          "label",
          { class: "check", tip: "Without regions, what they call is merged." },
          regionBox(store, current.regions),
          "regions",
        )
      : null,
    hasFolds(store.model)
      ? el(
          "label",
          {
            class: "check",
            tip: "Library code is one row, named after what was called; a click opens it. The interpreter's own frames and what imports other code are left out.",
          },
          everythingBox(store, !current.folded),
          "show everything",
        )
      : null,
    input,
  ];
}

function everythingBox(store: Store, checked: boolean): HTMLInputElement {
  const box = el("input", { type: "checkbox", checked });
  box.addEventListener("change", () => store.setParams({ all: box.checked ? "1" : null, unfold: null, at: null }));
  return box;
}

function regionBox(store: Store, checked: boolean): HTMLInputElement {
  const box = el("input", { type: "checkbox", checked });
  box.addEventListener("change", () => store.setParams({ regions: box.checked ? null : "0", at: null }));
  return box;
}

export const page: Page = {
  id: "tree",
  title: "Call tree",
  hint: "Call paths, Python and native merged: icicle, sunburst or table",
  hidden: (model) => model.pathCount < 2,
  mount(root, store) {
    const { model } = store;
    const input = searchField("Search names, files, modules");
    const foundNote = el("span", { class: "page-note", "aria-live": "polite" });
    const toolbar = el("div", { class: "toolbar tools" });
    const trail = el("div", { role: "navigation", class: "crumbs", "aria-label": "Zoomed to" });
    const holder = el("div", { class: "tree-holder" });
    const status = el("p", { class: "tree-status", "aria-live": "polite" });
    const legend = el("div", { class: "tree-legend" });
    root.append(
      el(
        "div",
        { class: "tree-page" },
        toolbar,
        el("div", { class: "tree-where" }, trail, foundNote),
        holder,
        el("div", { class: "tree-foot" }, status, legend),
      ),
    );

    const frames = new Frames(model);
    const imbalances = new Imbalances(store);
    let view: TreeView | null = null;
    let shown: ShownTree | null = null;
    let chart: TreeChart | null = null;
    let rows: TreeTable | null = null;
    let zoomed = 0;
    let found: SearchResult | null = null;

    // Opens the library code that a node stands for, everywhere in the tree.
    function unfold(tree: ShownTree, node: number): void {
      const open = store.param("unfold");
      const at = tree.state.direction === "down" ? tree.textOf(node) : null;
      store.setParams({ unfold: `${open ? `${open}.` : ""}${tree.view.frame(node)}`, at }, { replace: false });
    }
    function zoom(node: number): void {
      if (!shown) return;
      if (shown.isFold(node)) unfold(shown, node);
      else store.setParam("at", shown.textOf(node), { replace: false });
    }
    const events: TreeChartEvents = {
      label: "Call tree",
      zoom,
      out: () => {
        if (shown && zoomed !== 0) zoom(shown.view.source.parent(zoomed));
      },
      tip: (box) => (shown ? tipOf(shown, box.node, box.filler) : null),
      at: (box) => {
        if (shown) replace(status, statusOf(shown, box));
      },
    };

    function runSearch(tree: ShownTree): void {
      const match = matcher(tree.state.query);
      found = match ? searchTree(tree, match) : null;
      replace(
        foundNote,
        match === false ? "not a regular expression" : null,
        found
          ? [
              el("strong", null, percent(found.share)),
              ` of the time in ${plural(found.keys.size, tree.state.by === "line" ? "matching line" : "matching function")}`,
            ]
          : null,
      );
    }

    function makeChart(state: TreeState, focusChart: boolean): void {
      chart?.destroy();
      chart = null;
      rows = null;
      if (state.view === "table") {
        rows = treeTable(store);
        holder.replaceChildren(rows.root);
      } else {
        chart = state.view === "icicle" ? flameChart(events) : sunburstChart(events);
        holder.replaceChildren(chart.root);
      }
      if (focusChart) chart?.focus();
    }

    function draw(tree: ShownTree): void {
      const { state, view } = tree;
      const colours = lookOf(tree, found?.keys ?? null);
      chart?.show(view.source, zoomed, colours);
      rows?.show({
        source: view.source,
        top: zoomed,
        whole: view.source.value(0),
        up: state.direction === "up",
        label: (node) => tree.label(node),
        self: view.self,
        info: (node) => (view.frame(node) === NONE ? null : tree.frameInfo(view.frame(node))),
        isOthers: view.isOthers,
        colour: (node) => css(colours.colour(node)),
        matched: colours.matched,
        searching: found !== null,
        leads: (node) =>
          (found?.leading?.[node] ?? 0) !== 0 &&
          view.source.value(node) >= LEADING * view.source.value(0),
        category: view.category,
        imbalance: view.imbalance,
        zoom,
        unfold: (node) => (tree.isFold(node) ? () => unfold(tree, node) : null),
        id: (node) => `${state.direction} ${state.by} ${view.trail(node).map(view.key).join(".")}`,
      });
    }

    function update(): void {
      const next = stateOf(store);
      const before = shown?.state ?? null;
      const same = (...names: (keyof TreeState)[]): boolean =>
        before !== null && names.every((name) => before[name] === next[name]);
      if (same("weights", "direction", "view", "colour", "by", "shown", "query", "at", "theme")) return;
      if (!same("direction", "view", "colour", "by", "shown")) {
        const focusedHere = toolbar.contains(document.activeElement) && document.activeElement !== input;
        if (!focusedHere) replace(toolbar, controls(store, next, input));
      }
      if (document.activeElement !== input) input.value = next.query;
      if (!same("weights", "direction", "by", "shown")) view = viewOf(store, next, imbalances);
      const tree = (shown = new ShownTree(model, next, view!, frames));
      if (!same("weights", "query", "by", "direction", "shown")) runSearch(tree);
      zoomed = tree.nodeAt(next.at);
      replace(trail, crumbs(tree, zoomed, zoom));
      replace(legend, legendOf(tree));
      if (!same("view")) makeChart(next, before !== null && holder.contains(document.activeElement));
      holder.className = `tree-holder ${next.view}-view`;
      draw(tree);
      replace(status, statusOf(tree, null));
      const all = tree.view.source.value(0);
      holder.classList.toggle("nothing", !(all > 0));
      if (!(all > 0)) replace(status, "No time under this selection.");
    }

    let typing = 0;
    input.addEventListener("input", () => {
      window.clearTimeout(typing);
      typing = window.setTimeout(() => store.setParam("q", input.value.trim() || null), 120);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") chart?.focus();
      if (event.key !== "Escape") return;
      event.stopPropagation();
      input.value = "";
      store.setParam("q", null);
      input.blur();
    });
    const unbind = bindKeys([
      { key: "/", help: "Search the call tree", run: () => input.select() },
      {
        key: "f",
        help: "To the chart; then arrow keys move, Enter zooms in, Escape or Backspace out",
        run: () => (chart ? chart.focus() : rows?.focus()),
      },
      { key: "Backspace", help: "Zoom out", run: () => events.out() },
    ]);
    update();
    return {
      update,
      destroy() {
        unbind();
        window.clearTimeout(typing);
        chart?.destroy();
      },
    };
  },
};
