// SPDX-License-Identifier: BSD-3-Clause
// The call tree as it is shown: the choices of the reader and the tree that they give, with the names of its nodes and how the
// hash names the node that is zoomed to.
import { functionText } from "../charts/code_parts";
import { printable, seconds } from "../core/format";
import { type FrameInfo, FrameKind, type Model, NONE } from "../core/model";
import type { Store } from "../core/selection";
import { type Weights, weights } from "../core/weights";
import { foldName, hasFolds, isFolded, keysOf, type MergeBy, type Shown, shownText, treeOf } from "./of_model";
import { bottomUp, type Imbalances, topDown, type TreeView } from "./tree_view";

export type Direction = "down" | "up";
export type View = "icicle" | "sunburst" | "table";
export type Colour = "kind" | "module" | "category" | "imbalance";

export const DIRECTIONS = [
  ["down", "Top-down"],
  ["up", "Bottom-up"],
] as const;
export const VIEWS = [
  ["icicle", "Icicle"],
  ["sunburst", "Sunburst"],
  ["table", "Table"],
] as const;
export const COLOURS = [
  ["kind", "Kind"],
  ["module", "Module"],
  ["category", "Category"],
  ["imbalance", "Imbalance"],
] as const;
export const MERGES = [
  ["function", "Functions"],
  ["line", "Lines"],
] as const;

function oneOf<T extends string>(options: readonly (readonly [T, string])[], value: string | null): T {
  return options.find(([id]) => id === value)?.[0] ?? options[0][0];
}

// What the hash says, and what else decides about what is drawn.
export interface TreeState {
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

export const hasRegions = (model: Model): boolean => model.u8("frame_kind").includes(FrameKind.region);

export function stateOf(store: Store): TreeState {
  const { model } = store;
  const regions = !hasRegions(model) || store.param("regions") !== "0";
  const folded = hasFolds(model) && store.param("all") !== "1";
  const unfold = store.param("unfold") ?? "";
  return {
    weights: weights(store),
    direction: oneOf(DIRECTIONS, store.param("dir")),
    view: oneOf(VIEWS, store.param("view")),
    colour: oneOf(COLOURS, store.param("colour")),
    by: oneOf(MERGES, store.param("by")),
    regions,
    folded,
    shown: shownText(regions, folded, /^[\d.]*$/.test(unfold) ? unfold : ""),
    query: store.param("q") ?? "",
    at: store.param("at") ?? "",
    theme: document.documentElement.dataset.theme,
  };
}

export function viewOf(store: Store, state: TreeState, imbalances: Imbalances): TreeView {
  const { by, direction, shown } = state;
  const make = direction === "down" ? topDown : bottomUp;
  return make(store, by, shown, state.weights, () => imbalances.of(direction, by, shown));
}

// Frames by number, as they are looked up again and again.
export class Frames {
  private readonly known = new Map<number, FrameInfo>();

  constructor(private readonly model: Model) {}

  get(frame: number): FrameInfo {
    let info = this.known.get(frame);
    if (!info) {
      info = this.model.frame(frame);
      this.known.set(frame, info);
    }
    return info;
  }
}

export class ShownTree {
  constructor(
    readonly model: Model,
    readonly state: TreeState,
    readonly view: TreeView,
    private readonly frames: Frames,
  ) {}

  frameInfo(frame: number): FrameInfo {
    return this.frames.get(frame);
  }

  label(node: number): string {
    if (node === 0) return `All ${seconds(this.view.source.value(0))}`;
    if (this.view.isOthers(node)) return "others";
    const info = this.frameInfo(this.view.frame(node));
    if (this.isFold(node)) {
      const name = foldName(this.model, this.view.frame(node));
      if (name) return `${printable(name)} …`;
    }
    if (info.kind === "region") return `region ${printable(info.name)}`;
    const name = functionText(info);
    return this.state.by === "line" && info.line > 0 ? `${name}:${info.line}` : name;
  }

  // Whether the node is library code that a click opens.
  isFold(node: number): boolean {
    return isFolded(this.model, this.state.shown, this.view.frame(node));
  }

  // The node that the hash names: top-down by a path, bottom-up by the frames of its trail. 0: the root.
  nodeAt(text: string): number {
    if (text === "") return 0;
    const numbers = text.split(".").map(Number);
    if (numbers.some((n) => !Number.isInteger(n) || n < 0)) return 0;
    if (this.state.direction === "down") {
      const path = numbers[0];
      return path < this.model.pathCount ? treeOf(this.model, this.state.by, this.state.shown).nodeOfPath[path] : 0;
    }
    const keys = keysOf(this.model, this.state.by);
    let node = 0;
    for (const frame of numbers) {
      const key = frame < this.model.frameCount ? keys.ofFrame[frame] : NONE;
      const next = Array.from(this.view.source.children(node)).find((child) => this.view.key(child) === key);
      if (next === undefined) break;
      node = next;
    }
    return node;
  }

  // How the hash names the node; null: the root, which it does not name.
  textOf(node: number): string | null {
    if (node === 0) return null;
    if (this.state.direction === "down")
      return String(treeOf(this.model, this.state.by, this.state.shown).nodeOfPath.indexOf(node));
    const keys = keysOf(this.model, this.state.by);
    return this.view
      .trail(node)
      .map((at) => (this.view.key(at) === NONE ? this.model.frameCount : keys.ofFrame.indexOf(this.view.key(at))))
      .join(".");
  }
}
