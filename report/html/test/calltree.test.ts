// SPDX-License-Identifier: BSD-3-Clause
// Trees of call paths: merged, top-down and bottom-up, with callers, callees and imbalance.
import assert from "node:assert/strict";
import test from "node:test";

import { BottomUpTree } from "../src/calltree/bottom_up";
import { neighbours } from "../src/calltree/callers";
import {
  FrameKeys,
  MergedTree,
  frameKeys,
  imbalanceOfKeys,
  imbalanceOfNodes,
  search,
} from "../src/calltree/merged_tree";
import { PathTable, functionOfPath, inclusive, kNone, shownPaths } from "../src/calltree/path_table";
import { randomPaths } from "./random_paths";

const near = (a: number, b: number, what: string): void =>
  assert.ok(Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b)), `${what}: ${a} and ${b}`);
const sum = (values: Iterable<number>): number => [...values].reduce((a, b) => a + b, 0);

function byFunction(table: PathTable): FrameKeys {
  return frameKeys(table.frameFunction.length, (frame) =>
    table.frameFunction[frame] === kNone ? `region ${frame}` : table.frameFunction[frame],
  );
}

// "a;b;b c": paths of functions by letter, "*" are others; parents are made as needed.
function paths(lines: Record<string, number>): { table: PathTable; self: Float64Array } {
  const names = new Map<string, number>();
  const known = new Map<string, number>([["", 0]]);
  const parent = [0];
  const frame = [kNone];
  const others = [0];
  const self = [0];
  const add = (trail: string[]): number => {
    const id = trail.join(";");
    const there = known.get(id);
    if (there !== undefined) return there;
    const above = add(trail.slice(0, -1));
    const name = trail[trail.length - 1];
    if (name !== "*" && !names.has(name)) names.set(name, names.size);
    parent.push(above);
    frame.push(name === "*" ? kNone : names.get(name)!);
    others.push(name === "*" ? 1 : 0);
    self.push(0);
    known.set(id, parent.length - 1);
    return parent.length - 1;
  };
  for (const [line, seconds] of Object.entries(lines)) self[add(line.split(";"))] += seconds;
  const frameFunction = Uint32Array.from([...names.values()], (_, i) =>
    [...names.keys()][i].startsWith("[") ? kNone : i,
  );
  return {
    table: {
      paths: parent.length,
      parent: Uint32Array.from(parent),
      frame: Uint32Array.from(frame),
      others: Uint8Array.from(others),
      frameFunction,
    },
    self: Float64Array.from(self),
  };
}

test("the merged tree has the time of the paths", () => {
  const { table, self } = randomPaths(7, 3000, 25);
  const total = inclusive(table, self);
  const tree = new MergedTree(table, byFunction(table));
  assert.ok(tree.size < table.paths);
  const nodeSelf = tree.selfOf(self);
  const nodeTotal = tree.accumulate(nodeSelf.slice());
  near(nodeTotal[0], sum(self), "root");
  near(nodeTotal[0], total[0], "root");
  for (let node = 0; node < tree.size; ++node) {
    assert.ok(node === 0 || tree.parent[node] < node);
    near(
      nodeTotal[node],
      nodeSelf[node] + sum([...tree.children(node)].map((c) => nodeTotal[c])),
      `node ${node}`,
    );
    const keys = [...tree.children(node)].map((child) => tree.key[child]);
    assert.equal(new Set(keys).size, keys.length, "children of one node with the same key");
  }
});

test("frames that differ by line alone are one box by function and two by line", () => {
  const { table } = randomPaths(3, 2000, 10);
  const functions = new MergedTree(table, byFunction(table));
  const lines = new MergedTree(
    table,
    frameKeys(table.frameFunction.length, (frame) => frame),
  );
  assert.ok(functions.size < lines.size);
  assert.ok(lines.size <= table.paths);
});

test("bottom-up: children of the root are the functions' own time, and every level adds up", () => {
  const { table, self } = randomPaths(11, 3000, 25);
  const keys = byFunction(table);
  const ofKey = new Map<number, number>();
  for (let path = 1; path < table.paths; ++path) {
    const key = table.others[path] ? kNone : keys.ofFrame[table.frame[path]];
    ofKey.set(key, (ofKey.get(key) ?? 0) + self[path]);
  }
  const tree = new BottomUpTree(table, keys, self);
  near(tree.value[0], sum(self), "root");
  const first = [...tree.children(0)];
  near(sum(first.map((node) => tree.value[node])), sum(self), "first level");
  for (const node of first) near(tree.value[node], ofKey.get(tree.key[node]) ?? 0, `key ${tree.key[node]}`);
  for (let i = 1; i < first.length; ++i) assert.ok(tree.value[first[i - 1]] >= tree.value[first[i]]);

  // Time that ends at a node is that of paths which begin there.
  let ends = 0;
  const walk = (node: number): void => {
    const children = [...tree.children(node)];
    const below = sum(children.map((child) => tree.value[child]));
    assert.ok(below <= tree.value[node] + 1e-9);
    ends += tree.value[node] - below;
    for (const child of children) {
      assert.equal(tree.parent[child], node);
      walk(child);
    }
  };
  walk(0);
  near(ends, sum(self), "all ends");
});

test("bottom-up: callers of a function", () => {
  const { table, self } = paths({ "a;c": 3, "b;c": 1, "a;b;c": 4, c: 2, a: 5 });
  const keys = byFunction(table);
  const tree = new BottomUpTree(table, keys, self);
  const [c, a] = tree.children(0);
  assert.equal(tree.value[c], 10);
  assert.equal(tree.value[a], 5);
  const values = [...tree.children(c)].map((node) => tree.value[node]);
  assert.deepEqual(values, [5, 3]); // b: 1 + 4, a: 3; two end here
  const b = tree.children(c)[0];
  assert.deepEqual(
    [...tree.children(b)].map((node) => tree.value[node]),
    [4],
  );
  assert.deepEqual(tree.trail(tree.children(b)[0]).length, 3);
});

test("without the frames of regions what they call is merged", () => {
  const { table, self } = paths({ "[r];m;f": 1, "m;f": 2, "m;[r];f;[s]": 4, "[r]": 8 });
  const shown = shownPaths(table, (frame) => table.frameFunction[frame] === kNone);
  const keys = byFunction(table);
  const tree = new MergedTree(table, keys, shown);
  const total = tree.accumulate(tree.selfOf(self));
  assert.equal(total[0], 15);
  assert.equal(tree.size, 3);
  const [m] = tree.children(0);
  assert.equal(total[m], 7);
  assert.equal(total[tree.children(m)[0]], 7);
  const up = new BottomUpTree(table, keys, self, shown);
  assert.equal(up.value[0], 15);
  const first = [...up.children(0)];
  assert.deepEqual(
    first.map((node) => up.value[node]),
    [7],
  );
  assert.deepEqual(
    [...up.children(first[0])].map((node) => up.value[node]),
    [7],
  );
});

test("without recursion callers and callees add up to the total", () => {
  const { table, self } = paths({ "m;f": 1, "m;f;g": 2, "m;g;f": 4, "m;f;*": 8, f: 16, "m;[r];f;h": 32 });
  const functions = functionOfPath(table);
  const total = inclusive(table, self);
  const f = table.frameFunction[table.frame[2]];
  const row = neighbours(table, functions, self, total, f);
  assert.equal(row.total_s, 63);
  assert.equal(row.self_s, 21);
  assert.equal(row.recursive_s, 0);
  assert.equal(row.deepest, 1);
  assert.equal(sum(row.callers.map((r) => r.seconds)), 63);
  assert.equal(sum(row.callees.map((r) => r.seconds)), 63);
  assert.deepEqual(
    row.callers.map((r) => [r.role, r.seconds]),
    [
      ["function", 43],
      ["top", 16],
      ["function", 4],
    ],
  );
  assert.deepEqual(
    row.callees.map((r) => [r.role, r.seconds]),
    [
      ["function", 32],
      ["self", 21],
      ["others", 8],
      ["function", 2],
    ],
  );
});

test("recursion counts once", () => {
  // f calls itself, directly and by g.
  const { table, self } = paths({ "m;f;f;f": 1, "m;f;g;f;g": 2, "m;f": 4 });
  const functions = functionOfPath(table);
  const total = inclusive(table, self);
  const f = 1;
  const g = 2;
  const ofF = neighbours(table, functions, self, total, f);
  assert.equal(ofF.total_s, 7);
  assert.equal(ofF.self_s, 5);
  assert.equal(ofF.recursive_s, 3);
  assert.equal(ofF.deepest, 3);
  const shown = (rows: typeof ofF.callers): [string, number, number][] =>
    rows.map((r) => [r.role, r.function, r.seconds]);
  assert.deepEqual(shown(ofF.callers), [
    ["function", 0, 7],
    ["function", g, 2],
    ["itself", f, 1],
  ]);
  assert.deepEqual(shown(ofF.callees), [
    ["self", kNone, 5],
    ["function", g, 2],
    ["itself", f, 1],
  ]);
  const ofG = neighbours(table, functions, self, total, g);
  assert.equal(ofG.total_s, 2);
  assert.deepEqual(shown(ofG.callers), [["function", f, 2]]);
});

test("callers and callees against every sample on its own", () => {
  const { table, self } = randomPaths(23, 1500, 9);
  const functions = functionOfPath(table);
  const total = inclusive(table, self);
  const edges = new Map<string, number>();
  const totals = new Map<number, number>();
  const recursive = new Map<number, number>();
  for (let path = 1; path < table.paths; ++path) {
    const stack: number[] = [];
    for (let at = path; at !== 0; at = table.parent[at]) {
      const frame = table.frame[at];
      if (table.others[at] === 0 && table.frameFunction[frame] !== kNone)
        stack.unshift(table.frameFunction[frame]);
    }
    const seen = new Set<string>();
    stack.forEach((fn, i) => seen.add(`${i === 0 ? kNone : stack[i - 1]}>${fn}`));
    for (const edge of seen) edges.set(edge, (edges.get(edge) ?? 0) + self[path]);
    for (const fn of new Set(stack)) {
      totals.set(fn, (totals.get(fn) ?? 0) + self[path]);
      if (stack.filter((other) => other === fn).length > 1)
        recursive.set(fn, (recursive.get(fn) ?? 0) + self[path]);
    }
  }
  for (let fn = 0; fn < 9; ++fn) {
    const row = neighbours(table, functions, self, total, fn);
    near(row.total_s, totals.get(fn) ?? 0, `total of ${fn}`);
    near(row.recursive_s, recursive.get(fn) ?? 0, `recursion of ${fn}`);
    for (let other = 0; other < 9; ++other) {
      const calls = (from: number, to: number): number => edges.get(`${from}>${to}`) ?? 0;
      const of = (rows: typeof row.callers): number =>
        sum(rows.filter((r) => r.function === other && r.role !== "self").map((r) => r.seconds));
      near(of(row.callers), calls(other, fn), `${other} calls ${fn}`);
      near(of(row.callees), calls(fn, other), `${fn} calls ${other}`);
    }
  }
});

test("the share that a search finds counts nested matches once", () => {
  const { table, self } = paths({ "a;f;g;f": 1, "a;g": 2, "b;f": 4, b: 8 });
  const keys = byFunction(table);
  const tree = new MergedTree(table, keys);
  const total = tree.accumulate(tree.selfOf(self));
  const f = keys.ofFrame[1];
  const g = keys.ofFrame[2];
  const one = search(tree, total, (key) => key === f);
  assert.equal(one.count, 3);
  assert.equal(one.seconds, 5);
  const both = search(tree, total, (key) => key === f || key === g);
  assert.equal(both.seconds, 7);
  assert.equal(search(tree, total, () => true).seconds, total[0]);
  assert.equal(search(tree, total, () => false).seconds, 0);
});

test("imbalance over groups of ranks", () => {
  const { table } = paths({ "a;b": 1, "a;c": 1 });
  const tree = new MergedTree(table, byFunction(table));
  // Two groups of one and three ranks: b on the first alone, c the same on every rank.
  const cells = { offset: [0, 2, 3], path: [2, 3, 3], self: [8, 1, 3], ranksOfGroup: [1, 3] };
  const imbalance = imbalanceOfNodes(tree, cells);
  near(imbalance[tree.nodeOfPath[2]], 4, "b"); // 8 on one rank of four
  near(imbalance[tree.nodeOfPath[3]], 1, "c");
  near(imbalance[tree.nodeOfPath[1]], 3, "a"); // 9 / (12 / 4)
  near(imbalance[0], 3, "all");
  const keys = byFunction(table);
  const own = imbalanceOfKeys(table, keys, cells);
  near(own[keys.ofFrame[table.frame[2]]], 4, "b itself");
  assert.ok(Number.isNaN(own[keys.ofFrame[table.frame[1]]])); // a has no time of its own
});
