// SPDX-License-Identifier: BSD-3-Clause
// What the page shows of held memory, on a made-up run.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { makeSample } from "../dev/make_sample.mjs";
import { decode } from "../src/core/decode";
import type { HeldOverTime } from "../src/core/report";
import { heldPlace, layersOf } from "../src/memory/held_over_time";
import { AMOUNTS, HeldTree } from "../src/memory/held_tree";
import { heldOfFile } from "../src/source/files";

const model = await decode(gzipSync(makeSample({ ranks: 8, paths: 300 })).toString("base64"));

test("layers add up to what was held", () => {
  const lines = Array.from({ length: 11 }, (_, i) => ({ file: "/u/a.py", line: i + 1, function: "f", bytes: [100 - i, ...(i % 2 ? [] : [7])] }));
  const time: HeldOverTime = { bin_s: 1, begin_s: 0, bins: 3, lines };
  const layers = layersOf(time);
  const sum = (bin: number) => lines.reduce((all, line) => all + (line.bytes[bin] ?? 0), 0);
  assert.equal(layers.length, 9);
  assert.deepEqual(layers[0].top, [sum(0), sum(1), 0]);
  for (let b = 0; b < 3; ++b) {
    assert.equal(layers.reduce((all, layer) => all + layer.own[b], 0), sum(b));
    for (let i = 0; i < layers.length; ++i) assert.equal(layers[i].top[b], layers[i].own[b] + (layers[i + 1]?.top[b] ?? 0));
  }
  assert.equal(layers[8].row, null, "the rest is one");
  assert.deepEqual(layers[8].own, [92 + 91 + 90, 14, 0]);
  assert.deepEqual(layersOf({ ...time, lines: lines.slice(0, 2) }).map((layer) => layer.row), [0, 1]);
});

test("the tree has what its rows hold, the largest first", () => {
  for (const [amount] of AMOUNTS) {
    const tree = new HeldTree(model, amount);
    assert.equal(tree.parent(0), 0);
    let roots = 0;
    for (let node = 1; node < tree.size; ++node) {
      if (tree.parent(node) === 0) roots += tree.value(node);
      const children = Array.from(tree.children(node));
      assert.ok(children.reduce((sum, child) => sum + tree.value(child), 0) <= tree.value(node) * (1 + 1e-5));
      children.forEach((child, i) => {
        assert.equal(tree.parent(child), node);
        if (i > 0) assert.ok(tree.value(child) <= tree.value(children[i - 1]));
      });
    }
    assert.equal(tree.value(0), roots);
  }
  const tree = new HeldTree(model, "node_peak");
  const labels = Array.from({ length: tree.size }, (_, node) => tree.label(node));
  assert.ok(labels[0].startsWith("All "));
  assert.ok(labels.includes("numpy.zeros …") && labels.includes("import numpy") && labels.includes("main()"));
  assert.equal(tree.place(labels.indexOf("main()")), "heat.py:32");
});

test("a line of the source has the rows of all its domains", () => {
  const heat = heldOfFile(model, "/home/ada/heat/heat.py");
  assert.deepEqual([...heat.keys()].sort((a, b) => a - b), [21, 36]);
  assert.equal(heat.get(36)![0].library_function, "numpy.zeros");
  assert.equal(heldOfFile(model, "/no/such.py").size, 0);
});

test("what is not known is said", () => {
  assert.equal(heldPlace(model, { file: null, line: null, function: null }), "not known where");
  assert.equal(heldPlace(model, { file: "/home/ada/heat/heat.py", line: 36, function: "main" }), "main() heat.py:36");
});
