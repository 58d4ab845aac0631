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
import { FlameChart } from "../charts/flame";
import { SunburstChart } from "../charts/sunburst";
import type { TreeChart, TreeChartEvents } from "../charts/tree_chart";
import { TreeTable } from "../charts/tree_table";
import { css } from "../core/colours";
import { type Child, choice, el, replace } from "../core/dom";
import { percent, plural, shortenMiddle } from "../core/format";
import { bindKeys } from "../core/keys";
import { NONE } from "../core/model";
import type { Page, PageHandle } from "../core/page";
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

class TreePage implements PageHandle {
  private readonly input = searchField("Search names, files, modules");
  private readonly foundNote = el("span", { class: "page-note", "aria-live": "polite" });
  private readonly toolbar = el("div", { class: "toolbar tools" });
  private readonly trail = el("div", { role: "navigation", class: "crumbs", "aria-label": "Zoomed to" });
  private readonly holder = el("div", { class: "tree-holder" });
  private readonly status = el("p", { class: "tree-status", "aria-live": "polite" });
  private readonly legend = el("div", { class: "tree-legend" });
  private readonly frames: Frames;
  private readonly imbalances: Imbalances;
  private readonly unbind: () => void;
  private view: TreeView | null = null;
  private shown: ShownTree | null = null;
  private chart: TreeChart | null = null;
  private rows: TreeTable | null = null;
  private zoomed = 0; // the node at the top
  private found: SearchResult | null = null;
  private typing = 0;
  private readonly events: TreeChartEvents = {
    label: "Call tree",
    zoom: (node) => this.zoom(node),
    out: () => {
      if (this.shown && this.zoomed !== 0) this.zoom(this.shown.view.source.parent(this.zoomed));
    },
    tip: (box) => (this.shown ? tipOf(this.shown, box.node, box.filler) : null),
    at: (box) => {
      if (this.shown) replace(this.status, statusOf(this.shown, box));
    },
  };

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    this.frames = new Frames(store.model);
    this.imbalances = new Imbalances(store);
    root.append(
      el(
        "div",
        { class: "tree-page" },
        this.toolbar,
        el("div", { class: "tree-where" }, this.trail, this.foundNote),
        this.holder,
        el("div", { class: "tree-foot" }, this.status, this.legend),
      ),
    );
    this.listenToSearch();
    this.unbind = bindKeys([
      { key: "/", help: "Search the call tree", run: () => this.input.select() },
      {
        key: "f",
        help: "To the chart; then arrow keys move, Enter zooms in, Escape or Backspace out",
        run: () => (this.chart ? this.chart.focus() : this.rows?.focus()),
      },
      { key: "Backspace", help: "Zoom out", run: () => this.events.out() },
    ]);
    this.update();
  }

  destroy(): void {
    this.unbind();
    window.clearTimeout(this.typing);
    this.chart?.destroy();
  }

  update(): void {
    const { store } = this;
    const next = stateOf(store);
    const before = this.shown?.state ?? null;
    const same = (...names: (keyof TreeState)[]): boolean =>
      before !== null && names.every((name) => before[name] === next[name]);
    if (same("weights", "direction", "view", "colour", "by", "shown", "query", "at", "theme")) return;
    if (!same("direction", "view", "colour", "by", "shown")) this.updateControls(next);
    if (document.activeElement !== this.input) this.input.value = next.query;
    if (this.view === null || !same("weights", "direction", "by", "shown"))
      this.view = viewOf(store, next, this.imbalances);
    const tree = new ShownTree(store.model, next, this.view, this.frames);
    this.shown = tree;
    if (!same("weights", "query", "by", "direction", "shown")) this.runSearch(tree);
    this.zoomed = tree.nodeAt(next.at);
    replace(this.trail, crumbs(tree, this.zoomed, (node) => this.zoom(node)));
    replace(this.legend, legendOf(tree));
    if (!same("view")) this.makeChart(next, before !== null && this.holder.contains(document.activeElement));
    this.holder.className = `tree-holder ${next.view}-view`;
    this.draw(tree);
    const isEmpty = !(tree.view.source.value(0) > 0);
    this.holder.classList.toggle("nothing", isEmpty);
    replace(this.status, isEmpty ? "No time under this selection." : statusOf(tree, null));
  }

  private listenToSearch(): void {
    const { input, store } = this;
    input.addEventListener("input", () => {
      window.clearTimeout(this.typing);
      this.typing = window.setTimeout(() => store.setParam("q", input.value.trim() || null), 120);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.chart?.focus();
      if (event.key !== "Escape") return;
      event.stopPropagation();
      input.value = "";
      store.setParam("q", null);
      input.blur();
    });
  }

  // Not while one of them has the focus.
  private updateControls(state: TreeState): void {
    const focusedHere = this.toolbar.contains(document.activeElement) && document.activeElement !== this.input;
    if (!focusedHere) replace(this.toolbar, controls(this.store, state, this.input));
  }

  // Opens the library code that a node stands for, everywhere in the tree.
  private unfold(tree: ShownTree, node: number): void {
    const open = this.store.param("unfold");
    const at = tree.state.direction === "down" ? tree.textOf(node) : null;
    this.store.setParams({ unfold: `${open ? `${open}.` : ""}${tree.view.frame(node)}`, at }, { replace: false });
  }

  private zoom(node: number): void {
    const { shown } = this;
    if (!shown) return;
    if (shown.isFold(node)) this.unfold(shown, node);
    else this.store.setParam("at", shown.textOf(node), { replace: false });
  }

  private runSearch(tree: ShownTree): void {
    const match = matcher(tree.state.query);
    this.found = match ? searchTree(tree, match) : null;
    replace(
      this.foundNote,
      match === false ? "not a regular expression" : null,
      this.found
        ? [
            el("strong", null, percent(this.found.share)),
            ` of the time in ${plural(this.found.keys.size, tree.state.by === "line" ? "matching line" : "matching function")}`,
          ]
        : null,
    );
  }

  private makeChart(state: TreeState, focusChart: boolean): void {
    this.chart?.destroy();
    this.chart = null;
    this.rows = null;
    if (state.view === "table") {
      this.rows = new TreeTable(this.store);
      this.holder.replaceChildren(this.rows.root);
    } else {
      this.chart = state.view === "icicle" ? new FlameChart(this.events) : new SunburstChart(this.events);
      this.holder.replaceChildren(this.chart.root);
    }
    if (focusChart) this.chart?.focus();
  }

  private draw(tree: ShownTree): void {
    const { state, view } = tree;
    const { found, zoomed } = this;
    const colours = lookOf(tree, found?.keys ?? null);
    this.chart?.show(view.source, zoomed, colours);
    this.rows?.show({
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
      zoom: (node) => this.zoom(node),
      unfold: (node) => (tree.isFold(node) ? () => this.unfold(tree, node) : null),
      id: (node) => `${state.direction} ${state.by} ${view.trail(node).map(view.key).join(".")}`,
    });
  }
}

export const page: Page = {
  id: "tree",
  title: "Call tree",
  hint: "Call paths, Python and native merged: icicle, sunburst or table",
  hidden: (model) => model.pathCount < 2,
  mount: (root, store) => new TreePage(root, store),
};
