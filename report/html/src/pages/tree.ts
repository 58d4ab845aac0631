// SPDX-License-Identifier: BSD-3-Clause
// The call tree: who spent the time, and on whose behalf.
import { BottomUpTree } from "../calltree/bottom_up";
import {
  type Cells,
  type Found,
  MergedTree,
  imbalanceOfKeys,
  imbalanceOfNodes,
  search,
} from "../calltree/merged_tree";
import {
  type MergeBy,
  cellSeconds,
  keysOf,
  moduleName,
  pathTable,
  shownOf,
  treeOf,
  type Shown,
  foldName,
  hasFolds,
  isFolded,
  shownText,
} from "../calltree/of_model";
import { type NodeLook, shade } from "../charts/canvas_parts";
import { type TreeChart, flameChart } from "../charts/flame";
import type { FlameBox, FlameSource } from "../charts/flame_layout";
import { sunburstChart } from "../charts/sunburst";
import type { TreeChartEvents } from "../charts/tree_pointer";
import { type TreeTable, treeTable } from "../charts/tree_table";
import {
  CATEGORY_TITLES,
  KIND_TITLES,
  type Rgb,
  categoryRgb,
  css,
  cssColour,
  kindRgb,
  mix,
  nameColour,
  rgb,
} from "../core/colours";
import { type Child, choice, el, replace } from "../core/dom";
import { percent, plural, printable, seconds, shortenMiddle } from "../core/format";
import { bindKeys } from "../core/keys";
import { CATEGORIES, IDLE, type FrameInfo, FrameKind, KIND_NAMES, type Model, NONE } from "../core/model";
import type { Page } from "../core/page";
import type { Store } from "../core/selection";
import { CATEGORY_COUNT, type Weights, weights } from "../core/weights";
import { categoryBar, functionText, matcher, searchField } from "../charts/code_parts";

type Direction = "down" | "up";
type View = "icicle" | "sunburst" | "table";
type Colour = "kind" | "module" | "category" | "imbalance";

const DIRECTIONS = [
  ["down", "Top-down"],
  ["up", "Bottom-up"],
] as const;
const VIEWS = [
  ["icicle", "Icicle"],
  ["sunburst", "Sunburst"],
  ["table", "Table"],
] as const;
const COLOURS = [
  ["kind", "Kind"],
  ["module", "Module"],
  ["category", "Category"],
  ["imbalance", "Imbalance"],
] as const;
const MERGES = [
  ["function", "Functions"],
  ["line", "Lines"],
] as const;

const MODULES = 9; // with a colour of their own
const LEADING = 0.002; // of all time: smaller ones are not opened by a search
const UNEVEN = 3; // the imbalance at the end of the scale

function oneOf<T extends string>(options: readonly (readonly [T, string])[], value: string | null): T {
  return options.find(([id]) => id === value)?.[0] ?? options[0][0];
}

// One tree under one selection, whichever way it is looked at.
interface TreeView {
  source: FlameSource;
  self(node: number): number; // NaN: has no meaning there
  frame(node: number): number; // NONE: the root, or others
  key(node: number): number;
  isOthers(node: number): boolean;
  trail(node: number): number[];
  category(node: number): Float64Array | null; // seconds
  imbalance(node: number): number;
}

function cellsOf(model: Model, helperIdle: boolean): Cells {
  const ranksOfGroup = new Uint32Array(model.header.groups);
  for (const group of model.u32("group_of_rank")) ++ranksOfGroup[group];
  return {
    offset: model.u32("cell_offset"),
    path: model.u32("cell_path"),
    self: cellSeconds(model, helperIdle),
    ranksOfGroup,
  };
}

// Seconds by category of each path's own time under the selection: paths x categories.
function pathCategories(store: Store, of: Weights): Float64Array {
  const { model } = store;
  const self = model.f32("path_self_s");
  const helper = model.f32("path_helper_idle_s");
  const result = new Float64Array(model.pathCount * CATEGORY_COUNT);
  for (let path = 0; path < model.pathCount; ++path) {
    const factor = of.factor[path];
    if (factor === 0) continue;
    for (let c = 0; c < CATEGORY_COUNT; ++c) {
      result[path * CATEGORY_COUNT + c] = self[path * CATEGORY_COUNT + c] * factor;
    }
    if (!store.helperIdle) {
      const at = path * CATEGORY_COUNT + IDLE;
      result[at] = Math.max(0, result[at] - helper[path] * factor);
    }
  }
  return result;
}

function topDown(
  store: Store,
  by: MergeBy,
  shown: Shown,
  of: Weights,
  imbalances: () => Float64Array,
): TreeView {
  const tree = treeOf(store.model, by, shown);
  const self = tree.selfOf(of.self);
  const total = tree.accumulate(self.slice());
  const sorted = new Map<number, Uint32Array>();
  let categories: Float64Array | null = null;
  const categoriesOf = (): Float64Array => {
    if (categories) return categories;
    const ofPath = pathCategories(store, of);
    const made = new Float64Array(tree.size * CATEGORY_COUNT);
    for (let path = 0; path < store.model.pathCount; ++path) {
      const node = tree.nodeOfPath[path];
      for (let c = 0; c < CATEGORY_COUNT; ++c) {
        made[node * CATEGORY_COUNT + c] += ofPath[path * CATEGORY_COUNT + c];
      }
    }
    for (let node = tree.size - 1; node > 0; --node) {
      const above = tree.parent[node];
      for (let c = 0; c < CATEGORY_COUNT; ++c)
        made[above * CATEGORY_COUNT + c] += made[node * CATEGORY_COUNT + c];
    }
    return (categories = made);
  };
  return {
    source: {
      parent: (node) => tree.parent[node],
      value: (node) => total[node],
      children(node) {
        let known = sorted.get(node);
        if (!known) {
          known = tree.children(node).slice();
          known.sort((a, b) => total[b] - total[a] || a - b);
          sorted.set(node, known);
        }
        return known;
      },
    },
    self: (node) => self[node],
    frame: (node) => tree.frame[node],
    key: (node) => tree.key[node],
    isOthers: (node) => tree.others[node] !== 0,
    trail: (node) => tree.trail(node),
    category: (node) => categoriesOf().subarray(node * CATEGORY_COUNT, (node + 1) * CATEGORY_COUNT),
    imbalance: (node) => imbalances()[node],
  };
}

// A node's colour by category or imbalance is that of the function whose own time it is.
function bottomUp(
  store: Store,
  by: MergeBy,
  shown: Shown,
  of: Weights,
  imbalances: () => Float64Array,
): TreeView {
  const { model } = store;
  const keys = keysOf(model, by);
  const tree = new BottomUpTree(pathTable(model), keys, of.self, shownOf(model, shown));
  let categories: Float64Array | null = null;
  const categoriesOf = (): Float64Array => {
    if (categories) return categories;
    const ofPath = pathCategories(store, of);
    const frames = model.u32("path_frame");
    const paths = shownOf(model, shown);
    const made = new Float64Array((keys.count + 1) * CATEGORY_COUNT);
    for (let path = 1; path < model.pathCount; ++path) {
      const frame = frames[paths ? paths[path] : path];
      const key = frame === NONE ? keys.count : keys.ofFrame[frame];
      for (let c = 0; c < CATEGORY_COUNT; ++c) {
        made[key * CATEGORY_COUNT + c] += ofPath[path * CATEGORY_COUNT + c];
      }
    }
    return (categories = made);
  };
  const leafKey = (node: number): number => {
    let at = node;
    while (tree.depth[at] > 1) at = tree.parent[at];
    return tree.key[at] === NONE ? keys.count : tree.key[at];
  };
  return {
    source: {
      parent: (node) => tree.parent[node],
      value: (node) => tree.value[node],
      children: (node) => tree.children(node),
    },
    self: (node) => (tree.depth[node] === 1 ? tree.value[node] : NaN),
    frame: (node) => tree.frame[node],
    key: (node) => tree.key[node],
    isOthers: (node) => tree.others[node],
    trail: (node) => tree.trail(node),
    category(node) {
      if (node === 0) return null;
      const key = leafKey(node);
      return categoriesOf().subarray(key * CATEGORY_COUNT, (key + 1) * CATEGORY_COUNT);
    },
    imbalance: (node) => (node === 0 ? NaN : imbalances()[leafKey(node)]),
  };
}

// Colours of the modules with most time: no two the same.
function moduleColours(model: Model, of: Weights): Map<string, Rgb> {
  const time = new Map<string, number>();
  const frames = model.u32("path_frame");
  const names = new Map<number, string>();
  for (let path = 1; path < model.pathCount; ++path) {
    const frame = frames[path];
    if (frame === NONE) continue;
    let name = names.get(frame);
    if (name === undefined) {
      const info = model.frame(frame);
      name = frameModule(info);
      names.set(frame, name);
    }
    time.set(name, (time.get(name) ?? 0) + of.self[path]);
  }
  const result = new Map<string, Rgb>();
  const used = new Set<string>();
  const largest = [...time].sort((a, b) => b[1] - a[1]).filter(([name, value]) => name !== "" && value > 0);
  for (const [name] of largest.slice(0, MODULES)) {
    // The name's own colour, another one when a larger module has it.
    for (let salt = 0; salt < 64 && !result.has(name); ++salt) {
      const colour = nameColour(salt === 0 ? name : `${name} ${salt}`);
      if (used.has(colour)) continue;
      used.add(colour);
      result.set(name, rgb(colour));
    }
  }
  return result;
}

function frameModule(info: FrameInfo): string {
  if (info.kind === "region") return "";
  if (info.kind === "kernel") return "kernel";
  const name = printable(moduleName(info.file, info.module));
  return name === "" && info.kind === "mpi" ? "MPI" : name;
}

function imbalanceColour(value: number): Rgb {
  const even = rgb(cssColour("--accent"));
  const uneven = rgb(cssColour("--bad"));
  const middle = rgb(cssColour("--cat-system"));
  const t = Math.max(0, Math.min(1, (value - 1) / (UNEVEN - 1)));
  return t < 0.5 ? mix(even, middle, 2 * t) : mix(middle, uneven, 2 * t - 1);
}

export const page: Page = {
  id: "tree",
  title: "Call tree",
  hint: "Call paths, Python and native merged: icicle, sunburst or table",
  hidden: (model) => model.pathCount < 2,
  mount(root, store) {
    const { model } = store;
    const input = searchField("Search names, files, modules");
    const found = el("span", { class: "page-note", "aria-live": "polite" });
    const controls = el("div", { class: "toolbar tools" });
    const crumbs = el("div", { role: "navigation", class: "crumbs", "aria-label": "Zoomed to" });
    const holder = el("div", { class: "tree-holder" });
    const status = el("p", { class: "tree-status", "aria-live": "polite" });
    const legend = el("div", { class: "tree-legend" });
    root.append(
      el(
        "div",
        { class: "tree-page" },
        controls,
        el("div", { class: "tree-where" }, crumbs, found),
        holder,
        el("div", { class: "tree-foot" }, status, legend),
      ),
    );

    interface State {
      weights: Weights;
      direction: Direction;
      view: View;
      colour: Colour;
      by: MergeBy;
      regions: boolean;
      folded: boolean;
      shown: Shown;
      query: string;
      at: string;
      theme: string | undefined;
    }
    const wanted = (): State => ({
      weights: weights(store),
      direction: oneOf(DIRECTIONS, store.param("dir")),
      view: oneOf(VIEWS, store.param("view")),
      colour: oneOf(COLOURS, store.param("colour")),
      by: oneOf(MERGES, store.param("by")),
      regions: !hasRegions || store.param("regions") !== "0",
      folded: canFold && store.param("all") !== "1",
      shown: shownText(
        !hasRegions || store.param("regions") !== "0",
        canFold && store.param("all") !== "1",
        /^[\d.]*$/.test(store.param("unfold") ?? "") ? (store.param("unfold") ?? "") : "",
      ),
      query: store.param("q") ?? "",
      at: store.param("at") ?? "",
      theme: document.documentElement.dataset.theme,
    });

    let state: State | null = null;
    let view: TreeView | null = null;
    let chart: TreeChart | null = null;
    let rows: TreeTable | null = null;
    let zoomed = 0;
    let leading: Uint8Array | null = null; // top-down: nodes above a match
    let matchedKeys: Set<number> | null = null;
    const canFold = hasFolds(model);
    const hasRegions = model.u8("frame_kind").includes(FrameKind.region);
    const imbalanceCache = new Map<string, Float64Array>();
    const frameCache = new Map<number, FrameInfo>();

    function frameInfo(frame: number): FrameInfo {
      let info = frameCache.get(frame);
      if (!info) {
        info = model.frame(frame);
        frameCache.set(frame, info);
      }
      return info;
    }
    function imbalances(direction: Direction, by: MergeBy, shown: Shown): Float64Array {
      const name = `${direction} ${by} ${shown} ${store.helperIdle}`;
      let known = imbalanceCache.get(name);
      if (!known) {
        const cells = cellsOf(model, store.helperIdle);
        known =
          direction === "down"
            ? imbalanceOfNodes(treeOf(model, by, shown), cells)
            : imbalanceOfKeys(pathTable(model), keysOf(model, by), cells, shownOf(model, shown));
        imbalanceCache.set(name, known);
      }
      return known;
    }

    function label(node: number): string {
      if (node === 0) return `All ${seconds(view!.source.value(0))}`;
      if (view!.isOthers(node)) return "others";
      const info = frameInfo(view!.frame(node));
      if (isFold(node)) {
        const name = foldName(model, view!.frame(node));
        if (name) return `${printable(name)} …`;
      }
      if (info.kind === "region") return `region ${printable(info.name)}`;
      const name = functionText(info);
      return state!.by === "line" && info.line > 0 ? `${name}:${info.line}` : name;
    }

    // --- What is zoomed, in the hash: top-down a path, bottom-up the frames of its trail.
    function parseAt(text: string): number {
      if (text === "" || !state || !view) return 0;
      const numbers = text.split(".").map(Number);
      if (numbers.some((n) => !Number.isInteger(n) || n < 0)) return 0;
      if (state.direction === "down") {
        const path = numbers[0];
        return path < model.pathCount ? treeOf(model, state.by, state.shown).nodeOfPath[path] : 0;
      }
      const keys = keysOf(model, state.by);
      let node = 0;
      for (const frame of numbers) {
        const key = frame < model.frameCount ? keys.ofFrame[frame] : NONE;
        const next = Array.from(view.source.children(node)).find((child) => view!.key(child) === key);
        if (next === undefined) break;
        node = next;
      }
      return node;
    }
    function formatAt(node: number): string | null {
      if (node === 0 || !state || !view) return null;
      if (state.direction === "down")
        return String(treeOf(model, state.by, state.shown).nodeOfPath.indexOf(node));
      const keys = keysOf(model, state.by);
      return view
        .trail(node)
        .map((at) => (view!.key(at) === NONE ? model.frameCount : keys.ofFrame.indexOf(view!.key(at))))
        .join(".");
    }

    function isFold(node: number): boolean {
      return state !== null && view !== null && isFolded(model, state.shown, view.frame(node));
    }
    // The library code that a row stands for, wherever it is.
    function unfold(node: number): void {
      const open = store.param("unfold");
      store.setParams({ unfold: `${open ? `${open}.` : ""}${view!.frame(node)}`, at: state!.direction === "down" ? formatAt(node) : null }, { replace: false });
    }
    function zoom(node: number): void {
      if (isFold(node)) return unfold(node);
      store.setParam("at", formatAt(node), { replace: false });
    }
    const events: TreeChartEvents = {
      label: "Call tree",
      zoom,
      out: () => {
        if (view && zoomed !== 0) zoom(view.source.parent(zoomed));
      },
      tip: (box) => tipOf(box.node, box.filler),
      at: (box) => describe(box),
    };

    function describe(box: FlameBox | null): void {
      if (!box || !view) {
        replace(status, hint());
        return;
      }
      if (box.filler > 0) {
        replace(status, `${plural(box.filler, "frame")} too small to draw, below ${label(box.node)}`);
        return;
      }
      const value = view.source.value(box.node);
      const all = view.source.value(0);
      const above = view.source.value(view.source.parent(box.node));
      const self = view.self(box.node);
      const frame = view.frame(box.node);
      const info = frame === NONE ? null : frameInfo(frame);
      const place = info ? printable(model.place(info.file, info.line || info.function_line)) : "";
      replace(
        status,
        el("strong", null, shortenMiddle(label(box.node), 70)),
        place ? el("span", { class: "muted" }, shortenMiddle(place, 50)) : null,
        `${seconds(value)}, ${percent(all > 0 ? value / all : 0)} of all`,
        box.node === 0
          ? null
          : el(
              "span",
              { class: "muted" },
              `${percent(above > 0 ? value / above : 0)} of its ${state?.direction === "up" ? "callee" : "caller"}`,
            ),
        Number.isNaN(self) || box.node === 0 ? null : el("span", { class: "muted" }, `self ${seconds(self)}`),
      );
    }
    function hint(): string {
      return state?.direction === "up"
        ? "Below each function, those that called it. Click to zoom; f, then arrow keys, Enter and Backspace."
        : "Below each function, those it called. Click to zoom; f, then arrow keys, Enter and Backspace.";
    }

    function tipOf(node: number, filler: number): Child {
      if (!view || !state) return null;
      if (filler > 0) {
        return el(
          "div",
          { class: "tree-tip" },
          `${plural(filler, "frame")} too small to draw. Click to zoom in.`,
        );
      }
      const value = view.source.value(node);
      const all = view.source.value(0);
      const line = (name: string, text: Child): Child => [el("dt", null, name), el("dd", null, text)];
      const share = (of: number): string => `${seconds(of)}, ${percent(all > 0 ? of / all : 0)}`;
      const self = view.self(node);
      const frame = view.frame(node);
      const info = frame === NONE ? null : frameInfo(frame);
      const parts = view.category(node);
      const uneven = view.imbalance(node);
      const up = state.direction === "up";
      const module = info ? frameModule(info) : "";
      const place = info?.file
        ? `${shortenMiddle(printable(info.file), 60)}${info.line || info.function_line ? `:${info.line || info.function_line}` : ""}`
        : "";
      return el(
        "div",
        { class: "tree-tip" },
        el(
          "strong",
          null,
          node === 0
            ? "All call paths"
            : view.isOthers(node)
              ? "Others"
              : shortenMiddle(printable(info?.name ?? ""), 160),
        ),
        view.isOthers(node)
          ? el("p", null, "Call paths that are too small to be told apart, summed up.")
          : null,
        el(
          "dl",
          null,
          line(
            up && node !== 0 ? (view.trail(node).length > 1 ? "Through here" : "Self") : "Total",
            share(value),
          ),
          up || node === 0 || Number.isNaN(self) ? null : line("Self", share(self)),
          isFold(node) ? line("Folded", "library code; a click opens it") : null,
          info ? line("Kind", `${KIND_TITLES[info.kind]}${info.inlined ? ", inlined" : ""}`) : null,
          module ? line("Module", shortenMiddle(module, 50)) : null,
          place ? line("At", place) : null,
          Number.isNaN(uneven) || node === 0
            ? null
            : line("Imbalance", `${uneven.toFixed(2)}×${up ? ", own time" : ""}, of the whole run`),
        ),
        parts && !up ? categoryBar(parts) : null,
      );
    }

    function look(): NodeLook {
      const current = state!;
      const tree = view!;
      const card = rgb(cssColour("--card"));
      const plain = mix(rgb(cssColour("--text-3")), card, 0.45);
      const rootColour = mix(rgb(cssColour("--line-2")), card, 0.3);
      const kinds = kindRgb();
      const categories = categoryRgb();
      const modules = current.colour === "module" ? moduleColours(model, current.weights) : null;
      const cache = new Map<number, Rgb>();
      const base = (node: number): Rgb => {
        if (node === 0) return rootColour;
        const frame = tree.frame(node);
        if (frame === NONE) return plain;
        const info = frameInfo(frame);
        let colour: Rgb = plain;
        if (current.colour === "kind") colour = kinds[KIND_NAMES.indexOf(info.kind)];
        else if (info.kind === "region" && current.colour === "module")
          colour = kinds[KIND_NAMES.indexOf("region")];
        else if (current.colour === "module") colour = modules?.get(frameModule(info)) ?? plain;
        else if (current.colour === "category") {
          const parts = tree.category(node);
          if (parts)
            colour = categories[parts.reduce((best, value, c) => (value > parts[best] ? c : best), 0)];
        } else {
          const uneven = tree.imbalance(node);
          if (Number.isNaN(uneven)) return plain;
          return mix(imbalanceColour(uneven), card, 0.12);
        }
        return shade(colour, info.name, card);
      };
      return {
        label,
        hatched: (node) => tree.isOthers(node),
        matched: (node) => matchedKeys === null || node === 0 || matchedKeys.has(tree.key(node)),
        colour(node) {
          let known = cache.get(node);
          if (!known) {
            known = base(node);
            cache.set(node, known);
          }
          return known;
        },
      };
    }

    function legendItems(): Child {
      const current = state!;
      const item = (colour: string, text: string): HTMLElement =>
        el(
          "span",
          { class: "legend-item" },
          el("span", { class: "swatch", style: { background: colour } }),
          text,
        );
      if (current.colour === "kind") {
        const present = new Set(Array.from(model.u8("frame_kind")));
        return KIND_NAMES.map((kind, k) =>
          present.has(k) ? item(css(kindRgb()[k]), KIND_TITLES[kind]) : null,
        );
      }
      if (current.colour === "category") {
        const colours = categoryRgb();
        return [
          el(
            "span",
            { class: "muted" },
            current.direction === "up" ? "most of its own time:" : "most of its time:",
          ),
          CATEGORIES.map((category, c) => item(css(colours[c]), CATEGORY_TITLES[category])),
        ];
      }
      if (current.colour === "module") {
        return [
          [...moduleColours(model, current.weights)].map(([name, colour]) =>
            item(css(colour), shortenMiddle(name, 24)),
          ),
          item(css(mix(rgb(cssColour("--text-3")), rgb(cssColour("--card")), 0.45)), "other"),
        ];
      }
      const stops = Array.from({ length: 9 }, (_, i) => css(imbalanceColour(1 + ((UNEVEN - 1) * i) / 8)));
      return [
        el(
          "span",
          { class: "muted" },
          `${current.direction === "up" ? "own time" : "total"} of the busiest rank by the mean`,
        ),
        el("span", null, "1×"),
        el("span", {
          class: "legend-scale",
          style: { background: `linear-gradient(90deg, ${stops.join(", ")})` },
        }),
        el("span", null, `${UNEVEN}× or more`),
        el("span", { class: "muted" }, "of the whole run"),
      ];
    }

    function makeCrumbs(): void {
      if (!view || zoomed === 0) {
        replace(crumbs, el("span", { class: "muted" }, "All call paths"));
        return;
      }
      const trail = [0, ...view.trail(zoomed)];
      const hidden = trail.length > 7 ? trail.slice(1, trail.length - 5) : [];
      const shown = trail.filter((node) => !hidden.includes(node));
      replace(
        crumbs,
        shown.map((node, i) => [
          i > 0 ? el("span", { class: "muted", "aria-hidden": "true" }, "›") : null,
          i === 1 && hidden.length > 0
            ? [
                el("span", { class: "muted", tip: hidden.map(label).join(" › ") }, `… ${hidden.length} …`),
                el("span", { class: "muted", "aria-hidden": "true" }, "›"),
              ]
            : null,
          node === zoomed
            ? el("span", { "aria-current": "location", class: "crumb-here" }, shortenMiddle(label(node), 40))
            : el(
                "button",
                { type: "button", class: "crumb", on: { click: () => zoom(node) } },
                node === 0 ? "All" : shortenMiddle(label(node), 28),
              ),
        ]),
        el(
          "button",
          { type: "button", class: "crumb crumb-reset", on: { click: () => zoom(0) } },
          "Reset zoom",
        ),
      );
    }

    function makeControls(current: State): void {
      const set = (name: string, first: string) => (value: string) =>
        store.setParams(
          name === "dir" || name === "by"
            ? { [name]: value === first ? null : value, at: null }
            : { [name]: value === first ? null : value },
        );
      replace(
        controls,
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
        hasRegions
          ? el(
              "label",
              { class: "check", tip: "Without regions, what they call is merged." },
              regionBox(current.regions),
              "regions",
            )
          : null,
        canFold
          ? el(
              "label",
              {
                class: "check",
                tip: "Library code is one row, named after what was called; a click opens it. The interpreter's own frames and what imports other code are left out.",
              },
              everythingBox(!current.folded),
              "show everything",
            )
          : null,
        input,
      );
    }
    function everythingBox(checked: boolean): HTMLInputElement {
      const box = el("input", { type: "checkbox", checked });
      box.addEventListener("change", () => store.setParams({ all: box.checked ? "1" : null, unfold: null, at: null }));
      return box;
    }
    function regionBox(checked: boolean): HTMLInputElement {
      const box = el("input", { type: "checkbox", checked });
      box.addEventListener("change", () => store.setParams({ regions: box.checked ? null : "0", at: null }));
      return box;
    }

    function runSearch(current: State): void {
      const match = matcher(current.query);
      leading = null;
      matchedKeys = null;
      if (match === false) {
        replace(found, "not a regular expression");
        return;
      }
      if (match === null) {
        replace(found);
        return;
      }
      const tree: MergedTree = treeOf(model, current.by, current.shown);
      const total = tree.accumulate(tree.selfOf(current.weights.self));
      const keys = keysOf(model, current.by);
      const ofKey = new Map<number, boolean>();
      matchedKeys = new Set();
      const frameOfKey = new Uint32Array(keys.count).fill(NONE);
      keys.ofFrame.forEach((key, frame) => {
        if (frameOfKey[key] === NONE) frameOfKey[key] = frame;
      });
      const hit: Found = search(tree, total, (key) => {
        let known = ofKey.get(key);
        if (known === undefined) {
          known = match(frameInfo(frameOfKey[key]));
          ofKey.set(key, known);
          if (known) matchedKeys!.add(key);
        }
        return known;
      });
      if (current.direction === "down") {
        leading = new Uint8Array(tree.size);
        for (let node = tree.size - 1; node > 0; --node) {
          if (hit.matched[node] !== 0 || leading[node] !== 0) leading[tree.parent[node]] = 1;
        }
      }
      const whole = total[0];
      replace(
        found,
        el("strong", null, percent(whole > 0 ? hit.seconds / whole : 0)),
        ` of the time in ${plural(matchedKeys.size, current.by === "line" ? "matching line" : "matching function")}`,
      );
    }

    function update(): void {
      const next = wanted();
      const before = state;
      const same = (...names: (keyof State)[]): boolean =>
        before !== null && names.every((name) => before[name] === next[name]);
      if (same("weights", "direction", "view", "colour", "by", "shown", "query", "at", "theme")) return;
      state = next;
      if (!same("direction", "view", "colour", "by", "shown")) {
        const focusedHere = controls.contains(document.activeElement) && document.activeElement !== input;
        if (!focusedHere) makeControls(next);
      }
      if (document.activeElement !== input) input.value = next.query;
      if (!same("weights", "direction", "by", "shown")) {
        view =
          next.direction === "down"
            ? topDown(store, next.by, next.shown, next.weights, () =>
                imbalances("down", next.by, next.shown),
              )
            : bottomUp(store, next.by, next.shown, next.weights, () =>
                imbalances("up", next.by, next.shown),
              );
      }
      if (!same("weights", "query", "by", "direction", "shown")) runSearch(next);
      const tree = view!;
      zoomed = parseAt(next.at);
      makeCrumbs();
      replace(legend, legendItems());
      if (!same("view")) {
        chart?.destroy();
        chart = null;
        rows = null;
        const focusChart = before !== null && holder.contains(document.activeElement);
        if (next.view === "table") {
          rows = treeTable(store);
          holder.replaceChildren(rows.root);
        } else {
          chart = next.view === "icicle" ? flameChart(events) : sunburstChart(events);
          holder.replaceChildren(chart.root);
        }
        if (focusChart) chart?.focus();
      }
      holder.className = `tree-holder ${next.view}-view`;
      const colours = look();
      chart?.show(tree.source, zoomed, colours);
      rows?.show({
        source: tree.source,
        top: zoomed,
        whole: tree.source.value(0),
        up: next.direction === "up",
        label,
        self: tree.self,
        info: (node) => (tree.frame(node) === NONE ? null : frameInfo(tree.frame(node))),
        isOthers: tree.isOthers,
        colour: (node) => css(colours.colour(node)),
        matched: colours.matched,
        searching: matchedKeys !== null,
        leads: (node) =>
          leading !== null &&
          leading[node] !== 0 &&
          tree.source.value(node) >= LEADING * tree.source.value(0),
        category: tree.category,
        imbalance: tree.imbalance,
        zoom,
        unfold: (node) => (isFold(node) ? () => unfold(node) : null),
        id: (node) => `${next.direction} ${next.by} ${tree.trail(node).map(tree.key).join(".")}`,
      });
      describe(null);
      const all = tree.source.value(0);
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
