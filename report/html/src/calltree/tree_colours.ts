// SPDX-License-Identifier: BSD-3-Clause
// The colours of the call tree, by kind of code, module, category or imbalance, and their legend.
import { type NodeLook, shade } from "../charts/canvas_parts";
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
import { type Child, el } from "../core/dom";
import { printable, shortenMiddle } from "../core/format";
import { CATEGORIES, type FrameInfo, KIND_NAMES, type Model, NONE } from "../core/model";
import type { Weights } from "../core/weights";
import { moduleName } from "./of_model";
import type { ShownTree } from "./shown_tree";

const MODULES = 9; // with a colour of their own
const UNEVEN = 3; // the imbalance at the end of the scale

// Different colours for the modules with most time.
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

export function frameModule(info: FrameInfo): string {
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

// How nodes look; `matched`: the keys that a search found, null without one.
export function lookOf(tree: ShownTree, matched: ReadonlySet<number> | null): NodeLook {
  const { state: current, view } = tree;
  const card = rgb(cssColour("--card"));
  const plain = mix(rgb(cssColour("--text-3")), card, 0.45);
  const rootColour = mix(rgb(cssColour("--line-2")), card, 0.3);
  const kinds = kindRgb();
  const categories = categoryRgb();
  const modules = current.colour === "module" ? moduleColours(tree.model, current.weights) : null;
  const cache = new Map<number, Rgb>();
  const base = (node: number): Rgb => {
    if (node === 0) return rootColour;
    const frame = view.frame(node);
    if (frame === NONE) return plain;
    const info = tree.frameInfo(frame);
    let colour: Rgb = plain;
    if (current.colour === "kind") colour = kinds[KIND_NAMES.indexOf(info.kind)];
    else if (info.kind === "region" && current.colour === "module")
      colour = kinds[KIND_NAMES.indexOf("region")];
    else if (current.colour === "module") colour = modules?.get(frameModule(info)) ?? plain;
    else if (current.colour === "category") {
      const parts = view.category(node);
      if (parts)
        colour = categories[parts.reduce((best, value, c) => (value > parts[best] ? c : best), 0)];
    } else {
      const uneven = view.imbalance(node);
      if (Number.isNaN(uneven)) return plain;
      return mix(imbalanceColour(uneven), card, 0.12);
    }
    return shade(colour, info.name, card);
  };
  return {
    label: (node) => tree.label(node),
    hatched: (node) => view.isOthers(node),
    matched: (node) => matched === null || node === 0 || matched.has(view.key(node)),
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

export function legendOf(tree: ShownTree): Child {
  const { model, state: current } = tree;
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
