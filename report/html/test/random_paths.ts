// SPDX-License-Identifier: BSD-3-Clause
// Call paths for tests: recursion, regions (frames without a function), others.
import { PathTable, kNone } from "../src/calltree/path_table";

export interface RandomPaths {
  table: PathTable;
  self: Float64Array;
}

export function randomPaths(seed: number, paths: number, functions: number): RandomPaths {
  let state = seed;
  const random = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  // Two frames per function, and a region.
  const frameFunction = new Uint32Array(2 * functions + 1);
  for (let frame = 0; frame < 2 * functions; ++frame) frameFunction[frame] = frame >> 1;
  frameFunction[2 * functions] = kNone;
  const parent = new Uint32Array(paths);
  const frame = new Uint32Array(paths).fill(kNone);
  const others = new Uint8Array(paths);
  const self = new Float64Array(paths);
  const stack = [0];
  for (let path = 1; path < paths; ++path) {
    while (
      stack.length > 1 &&
      (random(3) === 0 || stack.length > 12 || others[stack[stack.length - 1]] !== 0)
    ) {
      stack.pop();
    }
    parent[path] = stack[stack.length - 1];
    if (random(20) === 0) others[path] = 1;
    else frame[path] = random(2 * functions + 1);
    self[path] = random(4) === 0 ? 0 : random(1000) / 100;
    stack.push(path);
  }
  return { table: { paths, parent, frame, others, frameFunction }, self };
}
