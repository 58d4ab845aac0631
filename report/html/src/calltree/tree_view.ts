// SPDX-License-Identifier: BSD-3-Clause
// One call tree under one selection, from the root down or from the leaves up: what charts and tables draw.
import type { FlameSource } from "../charts/flame_layout";
import { IDLE, type Model, NONE } from "../core/model";
import type { Store } from "../core/selection";
import { CATEGORY_COUNT, type Weights } from "../core/weights";
import { BottomUpTree } from "./bottom_up";
import { type Cells, imbalanceOfKeys, imbalanceOfNodes } from "./merged_tree";
import { cellSeconds, keysOf, type MergeBy, pathTable, type Shown, shownOf, treeOf } from "./of_model";

export // One tree under one selection, whichever way it is looked at.
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

// The imbalances of a tree, computed when they are first asked for.
export class Imbalances {
  private readonly known = new Map<string, Float64Array>();

  constructor(private readonly store: Store) {}

  of(direction: "down" | "up", by: MergeBy, shown: Shown): Float64Array {
    const { model, helperIdle } = this.store;
    const name = `${direction} ${by} ${shown} ${helperIdle}`;
    let known = this.known.get(name);
    if (!known) {
      const cells = cellsOf(model, helperIdle);
      known =
        direction === "down"
          ? imbalanceOfNodes(treeOf(model, by, shown), cells)
          : imbalanceOfKeys(pathTable(model), keysOf(model, by), cells, shownOf(model, shown));
      this.known.set(name, known);
    }
    return known;
  }
}

export function topDown(
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

// Category and imbalance of a node are those of the function whose own time it is.
export function bottomUp(
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
