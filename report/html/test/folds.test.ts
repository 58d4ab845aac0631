// SPDX-License-Identifier: BSD-3-Clause
// Library code folded to one row.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { makeSample } from "../dev/make_sample.mjs";
import { packageTotals, packagesOf } from "../src/calltree/packages";
import { Owner, foldedPaths } from "../src/calltree/folds";
import { foldName, isFolded, shownOf, shownText, treeOf } from "../src/calltree/of_model";
import type { PathTable } from "../src/calltree/path_table";
import { decode } from "../src/core/decode";
import { NONE } from "../src/core/model";

// A chain of frames, each called by the one before: letters say whose they are.
function shownOfChain(text: string, open: number[] = []): string {
  const letters = [...text];
  const table: PathTable = {
    paths: letters.length + 1,
    parent: Uint32Array.from([0, ...letters.map((_, i) => i)]),
    frame: Uint32Array.from([NONE, ...letters.map((letter, i) => (letter === "?" ? NONE : i))]),
    others: Uint8Array.from([0, ...letters.map((letter) => (letter === "?" ? 1 : 0))]),
    frameFunction: Uint32Array.from(letters.keys()),
  };
  const owners: Record<string, number> = { o: Owner.own, l: Owner.library, i: Owner.interpreter, m: Owner.library, c: Owner.library, r: Owner.own };
  const shown = foldedPaths(table, {
    owner: letters.map((letter) => owners[letter] ?? 0),
    machinery: letters.map((letter) => (letter === "c" ? 1 : 0)),
    isRegion: (frame) => letters[frame] === "r",
    hides: () => true,
    isMpi: (frame) => letters[frame] === "m",
    isOpen: (frame) => open.includes(frame),
  });
  return letters.map((letter, i) => (shown[i + 1] === i + 1 ? letter : "-")).join("");
}

test("consecutive library frames fold into the first one", () => {
  assert.equal(shownOfChain("olll"), "ol--");
  assert.equal(shownOfChain("ollolll"), "ol-ol--"); // the library calls back
  assert.equal(shownOfChain("oilil"), "o-l--"); // the interpreter in between is nothing
  assert.equal(shownOfChain("oclll"), "o-l--"); // importing is its caller's
  assert.equal(shownOfChain("ollmll"), "ol-m--"); // MPI is always seen
  assert.equal(shownOfChain("oll?"), "ol--");
  assert.equal(shownOfChain("o?"), "o?");
  assert.equal(shownOfChain("orlrl"), "o-l--");
  assert.equal(shownOfChain("olilo", [1]), "olilo"); // open
  assert.equal(shownOfChain("iii"), "i--"); // nothing else to show
  assert.equal(shownOfChain("iio"), "--o");
});

test("folding leaves all the time in the tree", async () => {
  const model = await decode(gzipSync(makeSample({ ranks: 4, paths: 900 })).toString("base64"));
  const folded = shownText(true, true, "");
  const whole = treeOf(model, "function");
  const fewer = treeOf(model, "function", folded);
  assert.ok(fewer.size < whole.size);
  const self = Float64Array.from({ length: model.pathCount }, (_, path) => path % 7);
  const sum = (tree: typeof whole) => tree.accumulate(tree.selfOf(self))[0];
  assert.equal(sum(fewer), sum(whole));
  // What is folded has a name, and opens.
  const folds = [...fewer.frame.keys()].filter((node) => isFolded(model, folded, fewer.frame[node]));
  assert.ok(folds.length > 0);
  for (const node of folds) assert.ok(foldName(model, fewer.frame[node]), String(node));
  const many = folds.find((node) => {
    const paths = [...fewer.nodeOfPath.keys()].filter((path) => fewer.nodeOfPath[path] === node);
    return paths.length > 1 && fewer.frame[node] !== NONE;
  })!;
  const opened = shownText(true, true, String(fewer.frame[many]));
  assert.ok(treeOf(model, "function", opened).size > fewer.size);
  assert.equal(isFolded(model, opened, fewer.frame[many]), false);
  assert.equal(shownOf(model, shownText(true, false, "")), undefined);
});

test("a package has the time of its functions, once", async () => {
  const model = await decode(gzipSync(makeSample({ ranks: 4, paths: 900 })).toString("base64"));
  const { names, ofFunction } = packagesOf(model);
  assert.ok(names.length > 1);
  const self = Float64Array.from({ length: model.pathCount }, (_, path) => path % 5);
  const total = self.slice();
  const parents = model.u32("path_parent");
  for (let path = total.length - 1; path > 0; --path) total[parents[path]] += total[path];
  const sums = packageTotals(model, total);
  names.forEach((name, number) => {
    let expected = 0;
    for (let path = 1; path < model.pathCount; ++path) {
      let inside = false;
      for (let at = path; at !== 0 && !inside; at = parents[at]) {
        const f = model.functionOfPath(at);
        inside = f !== NONE && ofFunction[f] === number;
      }
      if (inside) expected += self[path];
    }
    assert.equal(sums[number], expected, name);
  });
});
