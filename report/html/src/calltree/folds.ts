// SPDX-License-Identifier: BSD-3-Clause
// Library code in trees: a stretch of library frames is one row, which is called after what the user called there, and
// opens. The interpreter's own frames and what imports or starts other code are left out where more is below them.
import { PathTable, kNone } from "./path_table";

export const enum Owner {
  own = 0,
  library = 1,
  interpreter = 2,
}

export interface FoldedFrames {
  owner: ArrayLike<number>; // by frame
  machinery: ArrayLike<number>;
  hides(frame: number): boolean; // regions that are not wanted
  isRegion(frame: number): boolean;
  isMpi(frame: number): boolean; // shown wherever it is
  isOpen(frame: number): boolean; // stretches that begin with it
}

// By path: itself, or the nearest one further out that is shown.
export function foldedPaths(table: PathTable, frames: FoldedFrames): Uint32Array {
  const shown = new Uint32Array(table.paths);
  const folded = new Uint8Array(table.paths); // 1: in a folded stretch, 2: in one that is open
  for (let path = 1; path < table.paths; ++path) {
    const parent = table.parent[path];
    const frame = table.frame[path];
    const join = () => {
      shown[path] = shown[parent];
      folded[path] = folded[parent];
    };
    const show = (state: number) => {
      shown[path] = path;
      folded[path] = state;
    };
    if (frame === kNone) {
      if (folded[parent] === 1) join();
      else show(folded[parent]);
    } else if (frames.isRegion(frame)) {
      if (frames.hides(frame)) join();
      else show(0);
    } else if (frames.isMpi(frame)) show(1);
    else if (folded[parent] === 2 && frames.owner[frame] !== Owner.own) show(2);
    else if (frames.owner[frame] === Owner.interpreter || frames.machinery[frame] !== 0) join();
    else if (frames.owner[frame] === Owner.own) show(0);
    else if (folded[parent] === 1) join();
    else show(frames.isOpen(frame) ? 2 : 1);
  }
  // What would be left out altogether is shown by its outermost frame.
  const below = new Uint8Array(table.paths);
  for (let path = table.paths - 1; path > 0; --path) {
    if (shown[path] === path) below[path] = 1;
    if (below[path]) below[table.parent[path]] = 1;
  }
  for (let path = 1; path < table.paths; ++path)
    if (shown[path] === 0) shown[path] = shown[table.parent[path]] === 0 && !below[path] ? path : shown[table.parent[path]];
  return shown;
}
