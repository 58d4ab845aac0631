// SPDX-License-Identifier: BSD-3-Clause
import { FrameKeys } from "./merged_tree";
import { PathTable, kNone } from "./path_table";

interface Cursors {
  paths: Uint32Array; // where the callers go on
  seconds: Float64Array;
}

// From the function whose own time it is, up to its callers. Nodes are made when they are asked for: all of
// them would be as many as the paths are long. 0 is the root: all time.
export class BottomUpTree {
  readonly parent: number[] = [0];
  readonly frame: number[] = [kNone];
  readonly key: number[] = [kNone];
  readonly others: boolean[] = [false];
  readonly depth: number[] = [0];
  readonly value: number[] = [0];
  private readonly cursors: Cursors[];
  private readonly expanded: (Uint32Array | undefined)[] = [undefined];

  constructor(
    private readonly table: PathTable,
    private readonly keys: FrameKeys,
    self: ArrayLike<number>,
    private readonly shown?: Uint32Array, // shownPaths(); without it all frames are
  ) {
    const paths: number[] = [];
    const seconds: number[] = [];
    for (let path = 1; path < table.paths; ++path) {
      if (!(self[path] > 0)) continue;
      paths.push(path);
      seconds.push(self[path]);
      this.value[0] += self[path];
    }
    this.cursors = [{ paths: Uint32Array.from(paths), seconds: Float64Array.from(seconds) }];
  }

  // Largest first. What has no caller ends there: children may add up to less than the node.
  children(node: number): Uint32Array {
    const known = this.expanded[node];
    if (known) return known;
    const { paths, seconds } = this.cursors[node];
    const groups = new Map<number, Map<number, number>>(); // by key: where to go on, and its seconds
    for (let i = 0; i < paths.length; ++i) {
      const path = this.shown ? this.shown[paths[i]] : paths[i];
      if (path === 0) continue;
      const key = this.table.others[path] !== 0 ? kNone : this.keys.ofFrame[this.table.frame[path]];
      let group = groups.get(key);
      if (!group) groups.set(key, (group = new Map()));
      group.set(path, (group.get(path) ?? 0) + seconds[i]);
    }
    const made = [...groups].map(([key, group]) => {
      const up = new Map<number, number>();
      let sum = 0;
      let largest = -1;
      let frame = kNone;
      for (const [path, value] of group) {
        sum += value;
        if (value > largest) {
          largest = value;
          frame = this.table.frame[path];
        }
        const parent = this.table.parent[path];
        up.set(parent, (up.get(parent) ?? 0) + value);
      }
      return { key, up, sum, frame };
    });
    made.sort((a, b) => b.sum - a.sum || a.key - b.key);
    const first = this.parent.length;
    for (const child of made) {
      this.parent.push(node);
      this.frame.push(child.frame);
      this.key.push(child.key);
      this.others.push(child.key === kNone);
      this.depth.push(this.depth[node] + 1);
      this.value.push(child.sum);
      this.cursors.push({
        paths: Uint32Array.from(child.up.keys()),
        seconds: Float64Array.from(child.up.values()),
      });
      this.expanded.push(undefined);
    }
    const result = Uint32Array.from(made, (_, i) => first + i);
    this.expanded[node] = result;
    return result;
  }

  trail(node: number): number[] {
    const result: number[] = [];
    for (let at = node; at !== 0; at = this.parent[at]) result.push(at);
    return result.reverse();
  }
}
