// SPDX-License-Identifier: BSD-3-Clause
// What hotspots, call tree and source compute, on a made-up run.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { makeSample, type SampleOptions } from "../dev/make_sample.mjs";
import { neighbours } from "../src/calltree/callers";
import { inlinedAt, lineTimes } from "../src/calltree/line_time";
import { moduleName, pathFunctions, pathTable, treeOf, withoutAbiTag } from "../src/calltree/of_model";
import { decode } from "../src/core/decode";
import { CATEGORIES, NONE, type Model } from "../src/core/model";
import { RankSet, Store, type Selection } from "../src/core/selection";
import { CATEGORY_COUNT, weights } from "../src/core/weights";
import { functionCategories, matcher } from "../src/charts/code_parts";
import { Subjects } from "../src/balance/subjects";
import { makeColumns } from "../src/hotspots/columns";
import type { Row } from "../src/hotspots/rows";
import { bandOfSeries } from "../src/pages/memory";

const sample = (options: SampleOptions): Promise<Model> =>
  decode(gzipSync(makeSample(options)).toString("base64"));
const storeOf = (model: Model, selection: Partial<Selection> = {}, helperIdle = false): Store => {
  let hash = "";
  const place = {
    get hash() {
      return hash;
    },
    set hash(value: string) {
      hash = value;
    },
    replace(value: string) {
      hash = value;
    },
  };
  const store = new Store(model, place, "hotspots");
  store.setHelperIdle(helperIdle);
  store.select(selection);
  return store;
};
const near = (a: number, b: number, what: string, tolerance = 1e-5): void =>
  assert.ok(
    Math.abs(a - b) <= tolerance * Math.max(1e-3, Math.abs(a), Math.abs(b)),
    `${what}: ${a} and ${b}`,
  );

test("callers and callees agree with the functions' times", async () => {
  const model = await sample({ ranks: 8, paths: 900 });
  const store = storeOf(model, { ranks: RankSet.parse("0-2,5")! });
  const of = weights(store);
  const table = pathTable(model);
  const categories = functionCategories(store);
  let checked = 0;
  for (let f = 0; f < model.functionCount; ++f) {
    if (!(of.functionTotal[f] > 0)) continue;
    const around = neighbours(table, pathFunctions(model), of.self, of.total, f);
    near(around.total_s, of.functionTotal[f], `total of ${f}`);
    near(
      around.self_s,
      categories.subarray(f * CATEGORY_COUNT, (f + 1) * CATEGORY_COUNT).reduce((a, b) => a + b, 0),
      `own time of ${f}`,
    );
    for (const row of [...around.callers, ...around.callees]) {
      assert.ok(row.seconds <= around.total_s * (1 + 1e-9), "a neighbour with more than the total");
    }
    const sums = [around.callers, around.callees].map((rows) => rows.reduce((a, row) => a + row.seconds, 0));
    if (around.recursive_s > 0) assert.ok(Math.min(...sums) >= around.total_s * (1 - 1e-9));
    else sums.forEach((sum) => near(sum, around.total_s, `neighbours of ${f}`));
    ++checked;
  }
  assert.ok(checked > 50);
});

test("the trees have the time of the selection", async () => {
  const model = await sample({ ranks: 8, paths: 900 });
  for (const selection of [
    {},
    { ranks: RankSet.parse("3")! },
    { time: [5, 9] as [number, number] },
    { region: "epoch" },
  ]) {
    const of = weights(storeOf(model, selection));
    for (const by of ["function", "line"] as const) {
      const tree = treeOf(model, by);
      near(tree.accumulate(tree.selfOf(of.self))[0], of.sum, by);
    }
  }
});

test("lines of the whole run are the report's", async () => {
  const model = await sample({ ranks: 8, paths: 900 });
  const times = lineTimes(storeOf(model, {}, true));
  model.report.lines.forEach((row, i) => {
    near(times[i].self, row.self_s, `line ${i}`);
    near(times[i].total, row.total_s, `total of line ${i}`);
    CATEGORIES.forEach((category, c) =>
      near(times[i].parts[c], row[`${category}_s`] ?? 0, `${category} of line ${i}`),
    );
  });
  // Without idle helpers nothing but idling is less.
  lineTimes(storeOf(model)).forEach((line, i) => {
    for (let c = 0; c < CATEGORY_COUNT - 1; ++c) near(line.parts[c], times[i].parts[c], `line ${i}`);
    assert.ok(line.parts[CATEGORY_COUNT - 1] <= times[i].parts[CATEGORY_COUNT - 1] * (1 + 1e-6));
  });
});

test("lines of parts of the ranks add up to those of all", async () => {
  const model = await sample({ ranks: 8, paths: 900 });
  const whole = lineTimes(storeOf(model, { ranks: RankSet.parse("0-7")! }));
  const parts = ["0-1", "2-5", "6,7"].map((ranks) =>
    lineTimes(storeOf(model, { ranks: RankSet.parse(ranks)! })),
  );
  assert.ok(whole.some((line) => line.self > 0));
  whole.forEach((line, i) => {
    near(
      parts.reduce((sum, part) => sum + part[i].self, 0),
      line.self,
      `line ${i}`,
    );
    near(
      parts.reduce((sum, part) => sum + part[i].total, 0),
      line.total,
      `total of line ${i}`,
    );
  });
});

test("a line never has more time of its own than in total", async () => {
  const model = await sample({ ranks: 8, paths: 900 });
  // A line without a call path that is large enough to be there, and one whose time is mostly idle helpers.
  const lines = model.u32("path_line");
  const own = model.u32("path_own_line");
  for (let path = 0; path < model.pathCount; ++path) if (lines[path] === 3) lines[path] = own[path] = NONE;
  for (const helperIdle of [false, true])
    for (const selection of [
      {},
      { ranks: RankSet.parse("3")! },
      { ranks: RankSet.parse("1-5")! },
      { time: [5, 9] as [number, number] },
      { ranks: RankSet.parse("2")!, time: [5, 9] as [number, number] },
    ]) {
      const store = storeOf(model, selection, helperIdle);
      const of = weights(store);
      lineTimes(store).forEach((line, i) => {
        assert.ok(line.self <= line.total * (1 + 1e-12), `line ${i}: ${line.self} of ${line.total}`);
        near(line.parts.reduce((a, b) => a + b, 0), line.self, `parts of line ${i}`);
      });
      of.functionSelf.forEach((self, f) => assert.ok(self <= of.functionTotal[f] * (1 + 1e-9), `function ${f}`));
    }
});

test("choosing all ranks equals choosing none", async () => {
  const model = await sample({ ranks: 8, ranksPerNode: 4, paths: 900 });
  const none = storeOf(model);
  for (const selection of [{ ranks: RankSet.parse("0-7")! }, { nodes: [0, 1] }, { ranks: RankSet.parse("0-999")! }]) {
    const all = storeOf(model, selection);
    assert.equal(all.rankMask(), null);
    assert.deepEqual(weights(all).functionSelf, weights(none).functionSelf);
    assert.deepEqual(lineTimes(all), lineTimes(none));
  }
  // Ranks one by one are no less than all.
  const each = Array.from({ length: 8 }, (_, r) => lineTimes(storeOf(model, { ranks: RankSet.parse(String(r))! })));
  lineTimes(none).forEach((line, i) => {
    near(each.reduce((sum, rank) => sum + rank[i].self, 0), line.self, `line ${i}`);
    near(each.reduce((sum, rank) => sum + rank[i].total, 0), line.total, `total of line ${i}`);
  });
});

test("memory over time is the mean over ranks, not over rows", async () => {
  // A row has one rank or two, and the second selection takes some rows in part.
  const model = await sample({ ranks: 1500, ranksPerNode: 50, paths: 100 });
  const rowOf = model.u32("row_of_rank");
  assert.ok(model.header.rows < model.rankCount, "every rank has a row of its own");
  const series = model.header.series.findIndex((s) => s.name === "rss_bytes");
  const { bins } = model.header.axis;
  const values = model.f32(`series_${series}`);
  let differs = 0;
  for (const ranks of ["0-1499", "0,7-450,900-1401"]) {
    const chosen = RankSet.parse(ranks)!;
    const store = storeOf(model, { ranks: chosen });
    const band = bandOfSeries(store, series);
    for (let b = 0; b < bins; ++b) {
      const each: number[] = [];
      for (let i = 0; i < model.rankCount; ++i)
        if (chosen.has(model.i32("rank_number")[i])) each.push(values[rowOf[i] * bins + b]);
      const known = each.filter((value) => !Number.isNaN(value));
      if (known.length === 0) {
        assert.ok(Number.isNaN(band.mean[b]));
        continue;
      }
      near(band.mean[b], known.reduce((sum, value) => sum + value, 0) / known.length, `mean in bin ${b}`, 1e-9);
      assert.equal(band.min[b], Math.min(...known));
      assert.equal(band.max[b], Math.max(...known));
      const rows = [...new Set(each)].filter((value) => !Number.isNaN(value));
      if (Math.abs(rows.reduce((sum, value) => sum + value, 0) / rows.length - band.mean[b]) > 1e-6 * band.mean[b]) ++differs;
    }
  }
  assert.ok(differs > bins / 2, "the mean over rows is no different: this run cannot tell");
});

test("functions' times over ranks are without idle helper threads, as their totals are", async () => {
  const model = await sample({ ranks: 8, paths: 900 });
  const infos = Array.from({ length: model.functionCount }, (_, f) => model.function(f));
  const info = infos.find(({ row }) => row !== NONE)!;
  const whole = model.report.functions[info.row];
  Object.assign(whole, { rank_min_s: 1, rank_mean_s: 200, rank_max_s: 800, rank_max: 0, imbalance: 4 });
  const active = { active_rank_min_s: 0.8, active_rank_mean_s: 0.9, active_rank_max_s: 1, active_rank_max: 3 };
  Object.assign(whole, active, { active_imbalance: 1 / 0.9 });
  const row: Row = { index: 0, info, module: "", self: 4, total: 4, whole };
  const shown = (helperIdle: boolean) =>
    makeColumns(model, [row], () => new Float64Array(CATEGORY_COUNT), 100, true, helperIdle)
      .filter(({ id }) => ["rank_min", "rank_mean", "rank_max", "imbalance", "rank"].includes(id))
      .map(({ value }) => value!(row));
  assert.deepEqual(shown(false), [0.8, 0.9, 1, 1 / 0.9, 3]);
  assert.deepEqual(shown(true), [1, 200, 800, 4, 0]);
});

test("the balance of functions is without idle helper threads, as its cells are", async () => {
  const model = await sample({ ranks: 8, ranksPerNode: 4, paths: 900 });
  const rows = model.header.rows;
  const cells = model.f32("function_row_s");
  model.report.functions.forEach((whole) => {
    const mean = whole.active_total_s / model.rankCount;
    const all = { rank_min_s: 0, rank_mean_s: 1000, rank_max_s: 8000, rank_max: 0, imbalance: 8 };
    Object.assign(whole, all, { active_rank_mean_s: mean, active_rank_max_s: 1.001 * mean });
  });
  for (let f = 0; f < model.header.row_functions; ++f) {
    const { row } = model.function(f);
    if (row === NONE) continue;
    cells.fill(model.report.functions[row].active_total_s / model.rankCount, f * rows, (f + 1) * rows);
  }
  const { functions } = new Subjects(storeOf(model));
  assert.ok(functions.length > 0);
  for (const { label, spread } of functions) near(spread.imbalance, 1.001, `imbalance of ${label}`, 1e-6);
});

test("inlined functions are found below the line of their call", async () => {
  const model = await sample({ ranks: 4, paths: 500 });
  const store = storeOf(model);
  const { total } = weights(store);
  const find = inlinedAt(store);
  const frames = model.u32("path_frame");
  const parents = model.u32("path_parent");
  // By call site and function; the sample has no recursion through inlined code.
  const expected = new Map<string, number>();
  for (let path = 1; path < model.pathCount; ++path) {
    if (frames[path] === NONE || frames[parents[path]] === NONE) continue;
    const frame = model.frame(frames[path]);
    const caller = model.frame(frames[parents[path]]);
    if (!frame.inlined || caller.line === 0 || caller.file === null) continue;
    const key = `${caller.line} ${caller.file}`;
    expected.set(key, (expected.get(key) ?? 0) + total[path]);
  }
  assert.ok(expected.size > 0);
  for (const [key, seconds] of expected) {
    const space = key.indexOf(" ");
    const found = find(key.slice(space + 1), Number(key.slice(0, space)));
    near(
      found.reduce((sum, entry) => sum + entry.seconds, 0),
      seconds,
      key,
    );
  }
  assert.deepEqual(find("/nowhere.c", 1), []);
});

test("searching by name, file and expression", () => {
  const info = {
    name: "heat::apply(double)",
    file: "/src/stencil.cpp",
    module: "/lib/_stencil.so",
    kind: "native" as const,
  };
  const finds = (query: string): boolean => {
    const match = matcher(query);
    assert.ok(match);
    return match(info);
  };
  assert.ok(finds("APPLY"));
  assert.ok(finds("stencil.cpp"));
  assert.ok(finds('"heat::apply(double)"'));
  assert.ok(!finds('"apply"'));
  assert.ok(finds("/^heat::a.*y/"));
  assert.ok(!finds("/^apply/"));
  assert.ok(finds("/")); // a slash alone is text: of the file
  assert.equal(matcher("  "), null);
  assert.equal(matcher("/(/"), false);
});

test("modules are grouped by their origin", () => {
  assert.equal(moduleName("/x/lib/libm.c", "/usr/lib/libm.so.6"), "libm.so.6");
  assert.equal(moduleName("/venv/lib/python3.11/site-packages/numpy/core/fromnumeric.py", null), "numpy");
  assert.equal(moduleName("/venv/lib/python3.11/site-packages/six.py", null), "six");
  assert.equal(moduleName("/usr/lib/python3.11/json/decoder.py", null), "json");
  assert.equal(moduleName("<frozen importlib._bootstrap>", null), "importlib");
  assert.equal(moduleName("/home/ada/train.py", null), "train.py");
  assert.equal(moduleName(null, "/np/_umath.cpython-311-x86_64-linux-gnu.so"), "_umath.so");
  assert.equal(withoutAbiTag("_umath.cpython-313t-x86_64-linux-gnu.so+0x1f0"), "_umath.so+0x1f0");
  assert.equal(withoutAbiTag("libfoo.so.3+0x10"), "libfoo.so.3+0x10");
  assert.equal(moduleName(null, null), "");
});
