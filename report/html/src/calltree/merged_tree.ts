// SPDX-License-Identifier: BSD-3-Clause
import { PathTable, kNone } from "./path_table";

// Which frames are the same box: every frame has a key, and below one parent what has the same key is one.
export interface FrameKeys {
  readonly ofFrame: Uint32Array;
  readonly count: number;
}

// `identity`: of a frame; what it returns equal is merged.
export function frameKeys(frames: number, identity: (frame: number) => string | number): FrameKeys {
  const known = new Map<string | number, number>();
  const ofFrame = new Uint32Array(frames);
  for (let frame = 0; frame < frames; ++frame) {
    const id = identity(frame);
    let key = known.get(id);
    if (key === undefined) {
      key = known.size;
      known.set(id, key);
    }
    ofFrame[frame] = key;
  }
  return { ofFrame, count: known.size };
}

// The calls from the outermost function down. A parent's number is below its children's; 0 is the root.
export class MergedTree {
  readonly size: number;
  readonly parent: Uint32Array;
  readonly frame: Uint32Array; // one of those merged; kNone: the root, or others
  readonly key: Uint32Array; // kNone likewise
  readonly others: Uint8Array;
  readonly depth: Uint16Array;
  readonly nodeOfPath: Uint32Array;
  private readonly childStart: Uint32Array;
  private readonly childList: Uint32Array;

  // `shown`: shownPaths(); without it all frames are.
  constructor(table: PathTable, keys: FrameKeys, shown?: Uint32Array) {
    const parent: number[] = [0];
    const frame: number[] = [kNone];
    const key: number[] = [kNone];
    const others: number[] = [0];
    const depth: number[] = [0];
    const known = new Map<number, number>();
    this.nodeOfPath = new Uint32Array(table.paths);
    const radix = keys.count + 1;
    for (let path = 1; path < table.paths; ++path) {
      const above = this.nodeOfPath[table.parent[path]];
      if (shown && shown[path] !== path) {
        this.nodeOfPath[path] = above;
        continue;
      }
      const isOthers = table.others[path] !== 0;
      const own = isOthers ? keys.count : keys.ofFrame[table.frame[path]];
      const pair = above * radix + own;
      let node = known.get(pair);
      if (node === undefined) {
        node = parent.length;
        known.set(pair, node);
        parent.push(above);
        frame.push(isOthers ? kNone : table.frame[path]);
        key.push(isOthers ? kNone : own);
        others.push(isOthers ? 1 : 0);
        depth.push(depth[above] + 1);
      }
      this.nodeOfPath[path] = node;
    }
    this.size = parent.length;
    this.parent = Uint32Array.from(parent);
    this.frame = Uint32Array.from(frame);
    this.key = Uint32Array.from(key);
    this.others = Uint8Array.from(others);
    this.depth = Uint16Array.from(depth);
    this.childStart = new Uint32Array(this.size + 1);
    for (let node = 1; node < this.size; ++node) ++this.childStart[this.parent[node] + 1];
    for (let node = 0; node < this.size; ++node) this.childStart[node + 1] += this.childStart[node];
    const next = this.childStart.slice();
    this.childList = new Uint32Array(Math.max(0, this.size - 1));
    for (let node = 1; node < this.size; ++node) this.childList[next[this.parent[node]]++] = node;
  }

  children(node: number): Uint32Array {
    return this.childList.subarray(this.childStart[node], this.childStart[node + 1]);
  }

  selfOf(pathSelf: ArrayLike<number>): Float64Array {
    const self = new Float64Array(this.size);
    for (let path = 0; path < this.nodeOfPath.length; ++path) self[this.nodeOfPath[path]] += pathSelf[path];
    return self;
  }

  // In place: of every node, with all below it.
  accumulate(values: Float64Array): Float64Array {
    for (let node = this.size - 1; node > 0; --node) values[this.parent[node]] += values[node];
    return values;
  }

  // From the outermost to the node, without the root.
  trail(node: number): number[] {
    const result: number[] = [];
    for (let at = node; at !== 0; at = this.parent[at]) result.push(at);
    return result.reverse();
  }
}

export interface Cells {
  offset: ArrayLike<number>; // by group, and one more
  path: ArrayLike<number>;
  self: ArrayLike<number>;
  ranksOfGroup: ArrayLike<number>;
}

// How unevenly time lies on the ranks: the largest of the groups' means per rank, by the mean over all ranks.
// `first`: where a path's time counts first; `next`: where else (the node itself: nowhere). NaN: no time.
function imbalance(
  cells: Cells,
  size: number,
  first: ArrayLike<number>,
  next: (at: number) => number,
): Float64Array {
  const largest = new Float64Array(size);
  const sum = new Float64Array(size);
  const ofGroup = new Float64Array(size);
  const seen = new Uint8Array(size);
  let ranks = 0;
  for (let group = 0; group + 1 < cells.offset.length; ++group) {
    const members = cells.ranksOfGroup[group];
    ranks += members;
    if (members === 0) continue;
    const touched: number[] = [];
    for (let cell = cells.offset[group]; cell < cells.offset[group + 1]; ++cell) {
      const seconds = cells.self[cell];
      for (let at = first[cells.path[cell]]; ;) {
        if (seen[at] === 0) {
          seen[at] = 1;
          touched.push(at);
        }
        ofGroup[at] += seconds;
        const above = next(at);
        if (above === at) break;
        at = above;
      }
    }
    for (const at of touched) {
      sum[at] += ofGroup[at];
      largest[at] = Math.max(largest[at], ofGroup[at] / members);
      ofGroup[at] = 0;
      seen[at] = 0;
    }
  }
  return largest.map((value, at) => (sum[at] > 0 ? (value * ranks) / sum[at] : NaN));
}

// Of every node with all below it.
export function imbalanceOfNodes(tree: MergedTree, cells: Cells): Float64Array {
  return imbalance(cells, tree.size, tree.nodeOfPath, (node) => tree.parent[node]);
}

// Of the own time of all frames with the same key; the last is that of others.
export function imbalanceOfKeys(
  table: PathTable,
  keys: FrameKeys,
  cells: Cells,
  shown?: Uint32Array,
): Float64Array {
  const first = new Uint32Array(table.paths);
  for (let path = 0; path < table.paths; ++path) {
    const frame = table.frame[shown ? shown[path] : path];
    first[path] = frame === kNone ? keys.count : keys.ofFrame[frame];
  }
  return imbalance(cells, keys.count + 1, first, (key) => key);
}

// What a search found: each match, and how much of the time is in at least one of them.
export interface Found {
  matched: Uint8Array; // by node
  count: number;
  seconds: number; // union: a match below a match counts once
}

export function search(tree: MergedTree, total: ArrayLike<number>, matches: (key: number) => boolean): Found {
  const ofKey = new Map<number, boolean>();
  const matched = new Uint8Array(tree.size);
  const inside = new Uint8Array(tree.size);
  const found: Found = { matched, count: 0, seconds: 0 };
  for (let node = 1; node < tree.size; ++node) {
    const key = tree.key[node];
    const above = inside[tree.parent[node]];
    let hit = false;
    if (key !== kNone) {
      const known = ofKey.get(key);
      hit = known ?? matches(key);
      if (known === undefined) ofKey.set(key, hit);
    }
    inside[node] = above !== 0 || hit ? 1 : 0;
    if (!hit) continue;
    matched[node] = 1;
    ++found.count;
    if (above === 0) found.seconds += total[node];
  }
  return found;
}
