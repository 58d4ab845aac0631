// SPDX-License-Identifier: BSD-3-Clause
import { PathTable, kNone } from "./path_table";

export interface Neighbour {
  function: number; // kNone: see `role`
  role: "function" | "itself" | "self" | "others" | "top";
  seconds: number;
  paths: number;
}

export interface Neighbours {
  self_s: number;
  total_s: number;
  recursive_s: number; // of total_s: the function is on the path more than once
  deepest: number; // most times on one path
  callers: Neighbour[]; // largest first
  callees: Neighbour[]; // and its own seconds, role "self"
}

// Each is the time in which this caller called the function, or the function this callee, anywhere on the
// path: counted once however often recursion repeats the pair. So none exceeds the function's total, and
// without recursion they add up to it.
// `functions`: functionOfPath(table); `total`: inclusive(table, self).
export function neighbours(
  table: PathTable,
  functions: Uint32Array,
  self: ArrayLike<number>,
  total: ArrayLike<number>,
  wanted: number,
): Neighbours {
  const callers = new Map<string, Neighbour>();
  const callees = new Map<string, Neighbour>();
  const add = (to: Map<string, Neighbour>, role: Neighbour["role"], fn: number, seconds: number): void => {
    const key = `${role} ${fn}`;
    const known = to.get(key);
    if (known) {
      known.seconds += seconds;
      ++known.paths;
    } else {
      to.set(key, { function: fn, role, seconds, paths: 1 });
    }
  };
  const result: Neighbours = { self_s: 0, total_s: 0, recursive_s: 0, deepest: 0, callers: [], callees: [] };

  // Does the path enter a function, and from which one?
  const enters = (path: number): boolean => {
    const frame = table.frame[path];
    return frame !== kNone && table.frameFunction[frame] !== kNone;
  };
  // Whether the pair (caller, callee) was already there further out on the path of `path`.
  const repeated = (path: number, caller: number, callee: number): boolean => {
    for (let above = table.parent[path]; above !== 0; above = table.parent[above]) {
      if (enters(above) && functions[above] === callee && functions[table.parent[above]] === caller)
        return true;
    }
    return false;
  };

  for (let path = 1; path < table.paths; ++path) {
    const seconds = total[path];
    const parent = table.parent[path];
    const above = parent === 0 ? kNone : functions[parent];
    if (table.others[path] !== 0) {
      // Of what is in there nothing is known but where it was called.
      if (above === wanted) add(callees, "others", kNone, seconds);
      continue;
    }
    if (functions[path] === wanted) result.self_s += self[path];
    if (!enters(path)) continue;
    const own = functions[path];
    if (own === wanted) {
      let times = 1;
      for (let up = parent; up !== 0; up = table.parent[up]) {
        if (enters(up) && functions[up] === wanted) ++times;
      }
      if (times === 1) result.total_s += seconds;
      if (times === 2) result.recursive_s += seconds;
      if (times > result.deepest) result.deepest = times;
      if (!repeated(path, above, own)) {
        add(callers, above === kNone ? "top" : above === wanted ? "itself" : "function", above, seconds);
      }
    }
    if (above === wanted && own !== wanted && !repeated(path, above, own))
      add(callees, "function", own, seconds);
    if (above === wanted && own === wanted && !repeated(path, above, own))
      add(callees, "itself", own, seconds);
  }
  if (result.self_s > 0) add(callees, "self", kNone, result.self_s);
  const bySeconds = (a: Neighbour, b: Neighbour): number => b.seconds - a.seconds || a.function - b.function;
  const shown = (from: Map<string, Neighbour>): Neighbour[] =>
    [...from.values()].filter((row) => row.seconds > 0).sort(bySeconds);
  result.callers = shown(callers);
  result.callees = shown(callees);
  return result;
}
