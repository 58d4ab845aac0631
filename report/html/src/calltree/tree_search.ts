// SPDX-License-Identifier: BSD-3-Clause
// Searches the call tree for functions: which ones match, which nodes lead to them, and how much time is below them.
import type { matcher } from "../charts/code_parts";
import { NONE } from "../core/model";
import { search } from "./merged_tree";
import { keysOf, treeOf } from "./of_model";
import type { ShownTree } from "./shown_tree";

export interface SearchResult {
  keys: ReadonlySet<number>; // that match
  leading: Uint8Array | null; // top-down: by node, whether a match is below it
  share: number; // of all time, below matches
}

export function searchTree(tree: ShownTree, match: Exclude<ReturnType<typeof matcher>, false | null>): SearchResult {
  const { model, state: current } = tree;
  const merged = treeOf(model, current.by, current.shown);
  const total = merged.accumulate(merged.selfOf(current.weights.self));
  const keys = keysOf(model, current.by);
  const ofKey = new Map<number, boolean>();
  const found = new Set<number>();
  const frameOfKey = new Uint32Array(keys.count).fill(NONE);
  keys.ofFrame.forEach((key, frame) => {
    if (frameOfKey[key] === NONE) frameOfKey[key] = frame;
  });
  const hit = search(merged, total, (key) => {
    let known = ofKey.get(key);
    if (known === undefined) {
      known = match(tree.frameInfo(frameOfKey[key]));
      ofKey.set(key, known);
      if (known) found.add(key);
    }
    return known;
  });
  let leading: Uint8Array | null = null;
  if (current.direction === "down") {
    leading = new Uint8Array(merged.size);
    for (let node = merged.size - 1; node > 0; --node) {
      if (hit.matched[node] !== 0 || leading[node] !== 0) leading[merged.parent[node]] = 1;
    }
  }
  return { keys: found, leading, share: total[0] > 0 ? hit.seconds / total[0] : 0 };
}
