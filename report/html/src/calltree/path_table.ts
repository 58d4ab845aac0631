// SPDX-License-Identifier: BSD-3-Clause
// Call paths as this folder computes with them: arrays alone, so that it can be tested without a page.

export const kNone = 0xffffffff;

// Preorder: a parent comes before its children. Path 0 is the root, its own parent.
export interface PathTable {
  readonly paths: number;
  readonly parent: Uint32Array;
  readonly frame: Uint32Array; // kNone: the root, or others
  readonly others: Uint8Array;
  readonly frameFunction: Uint32Array; // kNone: regions, what a system call's descriptor was
}

// By path: itself, or the nearest one further out whose frame is shown. `hides`: of a frame.
export function shownPaths(table: PathTable, hides: (frame: number) => boolean): Uint32Array {
  const result = new Uint32Array(table.paths);
  for (let path = 1; path < table.paths; ++path) {
    const frame = table.frame[path];
    result[path] = frame !== kNone && hides(frame) ? result[table.parent[path]] : path;
  }
  return result;
}

// Seconds of a path and all paths below it.
export function inclusive(table: PathTable, self: ArrayLike<number>): Float64Array {
  const total = Float64Array.from(self);
  for (let path = table.paths - 1; path > 0; --path) {
    const parent = table.parent[path];
    total[parent] = total[parent] + total[path];
  }
  return total;
}

// The innermost function on a path, with itself: what its own seconds count for. kNone: none.
export function functionOfPath(table: PathTable): Uint32Array {
  const result = new Uint32Array(table.paths).fill(kNone);
  for (let path = 1; path < table.paths; ++path) {
    const frame = table.frame[path];
    const own = frame === kNone ? kNone : table.frameFunction[frame];
    const unknown = table.others[path] !== 0;
    result[path] = unknown ? kNone : own !== kNone ? own : result[table.parent[path]];
  }
  return result;
}
