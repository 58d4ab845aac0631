// SPDX-License-Identifier: BSD-3-Clause
// Reading the data, numbers and names as text, selections and what they add up to.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { encode, makeSample, type SampleOptions } from "../dev/make_sample.mjs";
import { decode } from "../src/core/decode";
import { bytes, clock, commandLines, count, derivedValue, functionLabel, percent, plural, printable, seconds, seriesTitle, shortenMiddle, TimeScale } from "../src/core/format";
import { CATEGORIES, IDLE, NONE, type Model } from "../src/core/model";
import type { Page } from "../src/core/page";
import { RankSet } from "../src/core/ranges";
import { Search, score } from "../src/core/search";
import { formatHash, parseHash, Store, type Selection, type State } from "../src/core/selection";
import { parseNodes, parseTime } from "../src/core/selection_bar";
import { binSeconds, rowSeconds, rowShares } from "../src/core/over_time";
import { categoryTotals, rangesNote } from "../src/core/totals";
import { barOf, isCut, isSure } from "../src/gains/card";
import { changeOfFunction, commandOf, suggestedChanges } from "../src/gains/command";
import { CATEGORY_COUNT, categorySeconds, computeWeights, weights } from "../src/core/weights";
import { badEnds, shortTables } from "../src/pages/info";
import { makeRows, shownValues } from "../src/pages/nodes";
import { missingRanks, pageOf, qualityOf } from "../src/pages/summary";

const base64 = (data: Uint8Array) => gzipSync(data).toString("base64");
const sample = (options: SampleOptions): Promise<Model> => decode(base64(makeSample(options)));

class FakePlace {
  entries: string[] = [];
  constructor(private text = "") {}
  get hash(): string {
    return this.text;
  }
  set hash(value: string) {
    this.entries.push(this.text);
    this.text = value;
  }
  replace(value: string): void {
    this.text = value;
  }
  back(): void {
    this.text = this.entries.pop() ?? "";
  }
}
const storeOf = (model: Model, selection: Partial<Selection> = {}): Store => {
  const store = new Store(model, new FakePlace(), "summary");
  store.select(selection);
  return store;
};

function close(actual: ArrayLike<number>, expected: ArrayLike<number>, what: string, tolerance = 1e-6): void {
  assert.equal(actual.length, expected.length, what);
  for (let i = 0; i < actual.length; ++i) {
    const error = Math.abs(actual[i] - expected[i]);
    assert.ok(error <= tolerance * Math.max(1, Math.abs(expected[i])), `${what}[${i}]: ${actual[i]}, not ${expected[i]}`);
  }
}

test("arrays and header come back as they were written", async () => {
  const header = { schema: "clusterprof.page/1", categories: [...CATEGORIES], report: { nodes: [], functions: [], lines: [], mpi: {} }, strings: ["a", "ü\u202e<b>"], paths: 3 };
  const arrays = {
    path_parent: { type: "u32", values: Uint32Array.of(0, 0, NONE) },
    frame_kind: { type: "u8", values: Uint8Array.of(4, 3, 2, 1, 0) },
    rank_number: { type: "i32", values: Int32Array.of(-1, 7) },
    matrix_bytes: { type: "f64", values: Float64Array.of(1e300, NaN, 2 ** 53) },
    path_time: { type: "f32", values: Float32Array.of(0.5, NaN) },
    half: { type: "u16", values: Uint16Array.of(65535) },
  };
  const model = await decode(base64(encode({ ...header }, arrays)));
  assert.deepEqual([...model.u32("path_parent")], [0, 0, NONE]);
  assert.deepEqual([...model.u8("frame_kind")], [4, 3, 2, 1, 0]);
  assert.deepEqual([...model.i32("rank_number")], [-1, 7]);
  assert.deepEqual([...model.f64("matrix_bytes")], [1e300, NaN, 2 ** 53]);
  assert.deepEqual([...model.f32("path_time")], [0.5, NaN]);
  assert.deepEqual([...model.arr("half")], [65535]);
  assert.equal(model.f32("not there").length, 0);
  assert.equal(model.has("not there"), false);
  assert.throws(() => model.u32("frame_kind"), /is u8/);
  assert.equal(model.text(1), "ü\u202e<b>");
  assert.equal(model.text(NONE), null);
});

test("arrays are views, not copies", async () => {
  const model = await sample({ ranks: 4, paths: 100 });
  assert.equal(model.f32("path_self_s").buffer, model.u32("path_parent").buffer);
  assert.equal(model.f32("path_self_s"), model.f32("path_self_s"));
});

test("damaged data and data of another version are refused", async () => {
  const good = makeSample({ ranks: 2, paths: 80 });
  await assert.rejects(decode(base64(good).slice(0, 4000)));
  await assert.rejects(decode("bm90IGd6aXA="));
  await assert.rejects(decode(base64(Buffer.from("something else that is long enough"))), /not that of a clusterprof page/);
  await assert.rejects(decode(base64(encode({ schema: "clusterprof.page/2", report: {}, strings: [] }, {}))), /page\/2/);
});

test("the tree's ranges hold the children", async () => {
  const model = await sample({ ranks: 4, paths: 600 });
  const parents = model.u32("path_parent");
  for (let path = 0; path < model.pathCount; ++path) {
    const expected: number[] = [];
    for (let child = 1; child < model.pathCount; ++child) if (parents[child] === path) expected.push(child);
    assert.deepEqual(model.children(path), expected);
  }
});

test("sets of ranks", () => {
  const text = (s: string) => RankSet.parse(s)?.toString() ?? null;
  assert.equal(text("0-15,37"), "0-15,37");
  assert.equal(text(" 3 1,2  9-7 "), "1-3,7-9");
  assert.equal(text("0-3,2-5,6"), "0-6");
  for (const wrong of ["", "a", "1-", "-1", "1,x", "1.5", "99999999999"]) assert.equal(text(wrong), null, wrong);
  const set = RankSet.parse("0-2,5,9-11")!;
  assert.equal(set.size, 7);
  const brute = new Set([0, 1, 2, 5, 9, 10, 11]);
  for (let n = -1; n < 14; ++n) assert.equal(set.has(n), brute.has(n), String(n));
  assert.equal(RankSet.of([4, 2, 3, 3, 9]).toString(), "2-4,9");
  assert.equal(set.union(RankSet.parse("3-4")!).toString(), "0-5,9-11");
});

test("commands of a run", () => {
  const a = { command: ["./a", "two words"], ranks: [0, 1, 4] };
  assert.deepEqual(commandLines({ command: ["./a"] }), ["./a"]);
  assert.deepEqual(commandLines({ command: [], commands: [] }), []);
  assert.deepEqual(commandLines({ command: a.command, commands: [a] }), ["./a 'two words'"]);
  assert.deepEqual(commandLines({ command: a.command, commands: [a, { command: ["./b"], ranks: [2] }] }), ["ranks 0–1, 4: ./a 'two words'", "rank 2: ./b"]);
});

test("a state is restored from its hash", () => {
  let seed = 1;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  for (let i = 0; i < 300; ++i) {
    const begin = Number((random() * 100 - 5).toPrecision(6));
    const state: State = {
      page: ["summary", "hotspots", "a b/ü?&"][i % 3],
      selection: {
        time: random() < 0.5 ? [begin, Number((begin + random() * 10 + 0.01).toPrecision(8))] : null,
        ranks: random() < 0.5 ? RankSet.of(Array.from({ length: 1 + Math.floor(random() * 9) }, () => Math.floor(random() * 70000))) : null,
        nodes: random() < 0.5 ? [...new Set(Array.from({ length: 3 }, () => Math.floor(random() * 40)))].sort((a, b) => a - b) : null,
        region: [null, "epoch/step", "a&b=c#<script>%2C+ \u202e\"'"][Math.floor(random() * 3)],
      },
      params: new Map(random() < 0.5 ? [["q", "operator<<(a, b)&x=1#?"], ["open", "17"]] : []),
      theme: [null, "light", "dark"][i % 3] as State["theme"],
      helperIdle: i % 4 === 0,
    };
    const hash = formatHash(state);
    const back = parseHash(hash);
    assert.equal(formatHash(back), hash);
    assert.deepEqual({ ...back, selection: { ...back.selection, ranks: null } }, { ...state, selection: { ...state.selection, ranks: null } });
    assert.equal(back.selection.ranks?.toString(), state.selection.ranks?.toString());
  }
  for (const strange of ["", "#", "#/", "#/%E0%A4%A", "#/x?t=5_1&r=..&n=-&theme=pink", "#?&&=", "#/x?t=NaN_1&n=0-999999999"]) {
    const state = parseHash(strange);
    assert.equal(state.selection.time, null);
    assert.equal(state.theme, null);
  }
});

test("the store follows the address and leaves a way back", async () => {
  const model = await sample({ ranks: 8, ranksPerNode: 4, paths: 100 });
  const place = new FakePlace("#/hotspots?r=2-3&n=0,7&region=nowhere&q=x");
  const store = new Store(model, place, "summary");
  assert.equal(store.page, "hotspots");
  assert.equal(store.param("q"), "x");
  assert.deepEqual(store.selection.nodes, [0]); // there is no node 7
  assert.equal(store.selection.region, null);
  assert.deepEqual([...store.rankMask()!], [0, 0, 1, 1, 0, 0, 0, 0]);
  let calls = 0;
  const stop = store.subscribe(() => ++calls);
  store.select({ nodes: [1], ranks: null });
  assert.deepEqual([...store.rankMask()!], [0, 0, 0, 0, 1, 1, 1, 1]);
  store.setParam("q", "y"); // no entry of its own
  store.go(store.pageTarget("tree"));
  assert.equal(store.param("q"), null);
  assert.equal(store.selection.nodes?.[0], 1);
  assert.equal(calls, 3);
  place.back();
  store.follow();
  assert.equal(store.page, "hotspots");
  assert.equal(store.param("q"), "y");
  place.back();
  store.follow();
  assert.equal(store.selection.ranks?.toString(), "2-3");
  store.follow(); // nothing new
  assert.equal(calls, 5);
  stop();
  store.clear();
  assert.equal(calls, 5);
  assert.equal(store.rankMask(), null);
  store.go({ page: "source", params: { file: "a b&c.py", line: 3 } });
  store.go({ page: "tree" });
  assert.deepEqual(store.pageTarget("source"), { page: "source", params: { file: "a b&c.py", line: "3" } });
  assert.match(store.href({ page: "source", params: { file: "/x/<b>.py", line: null } }), /^#\/source\?file=\/x\/%3Cb%3E.py$/);
});

// By the definition of FORMAT.md, path by path and rank by rank.
function bruteForce(model: Model, selection: Selection, helperIdle: boolean) {
  const self = model.f32("path_self_s");
  const helper = model.f32("path_helper_idle_s");
  const parents = model.u32("path_parent");
  const groupOf = [...model.u32("group_of_rank")];
  const offsets = model.u32("cell_offset");
  const numbers = model.i32("rank_number");
  const nodeOf = model.u32("rank_node");
  const { bins, bin_s, begin_s } = model.header.time;
  const times = model.f32("path_time");
  const pathsAbove = (path: number) => {
    const out = [path];
    while (path !== 0) out.push((path = parents[path]));
    return out;
  };
  const regionOf = (path: number) =>
    pathsAbove(path)
      .map((p) => model.u32("path_frame")[p])
      .filter((f) => f !== NONE && model.frame(f).kind === "region")
      .map((f) => model.frame(f).name)
      .reverse();
  // Cells are rounded; together they are the path's time.
  const scaleOf = (path: number, cells: Float32Array, whole: number) => {
    const sum = model.u32("cell_path").reduce((all, p, i) => all + (p === path ? cells[i] : 0), 0);
    return sum > 0 ? whole / sum : 0;
  };
  const ownTime = (path: number) => times.subarray(path * bins, (path + 1) * bins);
  const result = new Float64Array(model.pathCount);
  for (let path = 0; path < model.pathCount; ++path) {
    const whole = CATEGORIES.reduce((sum, _, c) => sum + self[path * CATEGORY_COUNT + c], 0);
    let seconds = helperIdle ? whole : whole - helper[path];
    if (selection.ranks || selection.nodes) {
      seconds = 0;
      const scale = scaleOf(path, model.f32("cell_self_s"), whole);
      const helperScale = helperIdle ? 0 : scaleOf(path, model.f32("cell_helper_idle_s"), helper[path]);
      groupOf.forEach((group, rank) => {
        if (selection.ranks && !selection.ranks.has(numbers[rank])) return;
        if (selection.nodes && !selection.nodes.includes(nodeOf[rank])) return;
        const sharing = groupOf.filter((g) => g === group).length;
        for (let i = offsets[group]; i < offsets[group + 1]; ++i)
          if (model.u32("cell_path")[i] === path) 
            seconds += (model.f32("cell_self_s")[i] * scale - model.f32("cell_helper_idle_s")[i] * helperScale) / sharing;
      });
    }
    if (selection.time) {
      const known = pathsAbove(path).find((p) => ownTime(p).some((s) => s > 0));
      let [inside, all] = known === undefined ? [selection.time[1] - selection.time[0], bins * bin_s] : [0, 0];
      const shape = known === undefined ? new Float32Array(bins) : ownTime(known);
      for (let b = 0; b < bins; ++b) {
        const [from, to] = [begin_s + b * bin_s, begin_s + (b + 1) * bin_s];
        const overlap = Math.max(0, Math.min(to, selection.time[1]) - Math.max(from, selection.time[0])) / bin_s;
        all += shape[b];
        inside += shape[b] * overlap;
      }
      seconds *= all > 0 ? inside / all : 0;
    }
    const name = regionOf(path).join("/");
    if (selection.region !== null && name !== selection.region && !name.startsWith(`${selection.region}/`)) seconds = 0;
    result[path] = seconds;
  }
  const total = new Float64Array(model.pathCount);
  const functionSelf = new Float64Array(model.functionCount);
  const functionTotal = new Float64Array(model.functionCount);
  for (let path = 0; path < model.pathCount; ++path) {
    const functions = new Set<number>();
    for (const p of pathsAbove(path)) {
      total[p] += result[path];
      const f = model.functionOfPath(p);
      if (f !== NONE) functions.add(f);
    }
    for (const f of functions) functionTotal[f] += result[path];
    const own = model.functionOfPath(path);
    if (own !== NONE) functionSelf[own] += result[path];
  }
  return { self: result, total, functionSelf, functionTotal };
}

test("weights are those of the definition", async () => {
  const model = await sample({ ranks: 12, ranksPerNode: 4, paths: 220, seed: 5 });
  const cases: Partial<Selection>[] = [
    { ranks: RankSet.parse("0-2,7")! },
    { nodes: [1, 2] },
    { ranks: RankSet.parse("3-8")!, nodes: [1] },
    { time: [2.3, 17.9] },
    { region: "epoch" },
    { region: "epoch/step" },
    { ranks: RankSet.parse("5")!, time: [10, 11.1], region: "epoch" },
    { ranks: RankSet.parse("99")! },
  ];
  for (const helperIdle of [false, true])
    for (const partial of cases) {
      const store = storeOf(model, partial);
      store.setHelperIdle(helperIdle);
      const got = computeWeights(store);
      const expected = bruteForce(model, store.selection, helperIdle);
      const what = `${store.href({})} `;
      close(got.self, expected.self, `${what}self`);
      close(got.total, expected.total, `${what}total`);
      close(got.functionSelf, expected.functionSelf, `${what}functionSelf`);
      close(got.functionTotal, expected.functionTotal, `${what}functionTotal`);
      assert.equal(got.isWhole, false);
      assert.equal(got.isEstimate, partial.time !== undefined);
      const sums = categorySeconds(store);
      const sum = sums.reduce((a, b) => a + b, 0);
      assert.ok(Math.abs(sum - got.sum) <= 1e-5 * Math.max(1, got.sum), `${what}categories: ${sum}, not ${got.sum}`);
    }
});

test("the whole run has the report's numbers, and parts of it add up", async () => {
  const model = await sample({ ranks: 12, ranksPerNode: 4, paths: 400 });
  const whole = weights(storeOf(model));
  assert.ok(whole.isWhole && !whole.isEstimate);
  const rows = model.u32("function_row");
  model.report.functions.forEach((row, i) => {
    const f = rows.indexOf(i);
    close([whole.functionSelf[f]], [row.active_self_s], "self", 1e-9);
    close([whole.functionTotal[f]], [row.active_total_s], "total", 1e-9);
  });
  const [a, b] = ["0-4", "5-11"].map((ranks) => weights(storeOf(model, { ranks: RankSet.parse(ranks) })));
  close(Float64Array.from(a.self, (v, i) => v + b.self[i]), whole.self, "two parts of the ranks");
  const { bin_s, bins, begin_s } = model.header.time;
  const end = begin_s + bins * bin_s;
  const [c, d] = [[begin_s, 20.2], [20.2, end]].map((time) => weights(storeOf(model, { time: time as [number, number] })));
  close(Float64Array.from(c.self, (v, i) => v + d.self[i]), whole.self, "two parts of the time");
  const store = storeOf(model);
  assert.equal(weights(store), weights(store));
});

test("nodes' rates are of the part of the first and last bin that lies in the run", async () => {
  const model = await sample({ ranks: 8, ranksPerNode: 4, paths: 100 });
  const { axis, node_series } = model.header;
  const series = node_series.findIndex(({ name }) => name === "cpu_busy_ns");
  const cpus = model.nodes[0].cpus!;
  const values = model.f32(`node_series_${series}`).subarray(0, axis.bins);
  const full = 0.9 * cpus * axis.bin_s * 1e9;
  const fill = (begin: number, end: number) => {
    axis.begin_s = -begin * axis.bin_s;
    model.report.run.elapsed_s = (end - begin) * axis.bin_s;
    values.fill(0).fill(full, 0, 11);
    values[0] = (1 - begin) * full;
    values[10] = (end - 10) * full;
  };
  fill(0.5, 10.5);
  close(shownValues(model, series, 0).map(Number), new Array(11).fill(0.9), "busy");
  const end = model.elapsed;
  for (const time of [[-5, 1000 * end], [0, end], [end - 0.4 * axis.bin_s, end + 9]] as [number, number][])
    close([makeRows(storeOf(model, { time }))[0].busy!], [0.9], `busy within ${time}`);
  fill(0.5, 10.1);
  const short = shownValues(model, series, 0);
  assert.equal(short.length, 11);
  assert.equal(short[10], null);
  const level = node_series.findIndex(({ maximum }) => maximum);
  assert.ok(shownValues(model, level, 0)[10]! > 0, "levels are no rates");
});

test("what curves have of ranks that share a row depends on what they show", async () => {
  const each = await sample({ ranks: 8, paths: 100 });
  assert.equal(rangesNote(each, true, true), "");
  const shared = await sample({ ranks: 1500, ranksPerNode: 50, paths: 100 });
  assert.equal(rangesNote(shared, true, false), "of ranges of ranks their mean");
  assert.equal(rangesNote(shared, true, true), "of ranges of ranks their mean, of memory their largest value");
  assert.equal(rangesNote(shared, false, true), "of ranges of ranks their largest value");
});

test("ranks that ended badly are listed where the report has no table of ranks, too", async () => {
  const model = await sample({ ranks: 600, ranksPerNode: 100, paths: 100 });
  assert.deepEqual(badEnds(model), []);
  model.report.ranks = [];
  model.i32("rank_exit_status")[123] = 1;
  model.i32("rank_exit_signal")[500] = 11;
  model.i32("rank_exit_status")[500] = model.i32("rank_exit_status")[7] = -1;
  model.u8("rank_lost")[7] = 1;
  assert.deepEqual(badEnds(model), [
    { rank: 7, node: model.nodes[0].name, status: null, signal: null, path: [] },
    { rank: 123, node: model.nodes[1].name, status: 1, signal: null, path: [] },
    { rank: 500, node: model.nodes[5].name, status: null, signal: 11, path: [] },
  ]);
  model.header.shortened = { ranks: { kept: 0, of: 600 }, "openmp.ranks": { kept: 0, of: 600 } };
  assert.deepEqual(shortTables(model), ["openmp.ranks 0 of 600"]);
});

test("ranks that share a group have their part of it, as an estimate", async () => {
  const model = await sample({ ranks: 32, paths: 120, mostGroups: 16 });
  assert.ok(model.header.groups < model.rankCount);
  const one = computeWeights(storeOf(model, { ranks: RankSet.parse("12") }));
  const four = computeWeights(storeOf(model, { ranks: RankSet.parse("12-15") }));
  assert.ok(one.isEstimate);
  assert.ok(!four.isEstimate);
  close([one.sum * 4], [four.sum], "one of four");
});

test("a finding leads to the page that has more of it, whatever its severity", () => {
  assert.equal(pageOf({ kind: "mpi_errors", severity: "info" })[0], "comm");
  assert.equal(pageOf({ kind: "mpi_errors", severity: "high" })[0], "comm");
  assert.equal(pageOf({ kind: "sampling_cost", severity: "info" })[0], "info");
  assert.equal(pageOf({ kind: "hot_line", severity: "low" })[0], "hotspots");
});

test("categories of the summary", async () => {
  const model = await sample({ ranks: 8, ranksPerNode: 4, paths: 100 });
  const ranks = model.f32("rank_category_s");
  const expected = CATEGORIES.map((_, c) => [4, 5, 6, 7].reduce((sum, r) => sum + ranks[r * CATEGORY_COUNT + c], 0));
  close(categoryTotals(storeOf(model, { nodes: [1] })).seconds, expected, "of a node");
  const all = categoryTotals(storeOf(model, { time: [-100, 1000] }));
  assert.equal(all.source, "series");
  close(all.seconds, categoryTotals(storeOf(model)).seconds, "of all bins, the report's");
  const halves = [[-100, 11.3], [11.3, 1000]].map((time) => categoryTotals(storeOf(model, { time: time as [number, number] })).seconds);
  close(halves[0].map((value, c) => value + halves[1][c]), all.seconds, "two parts of the time");
  assert.equal(categoryTotals(storeOf(model, { region: "epoch" })).source, "paths");
  for (let r = 0; r < 8; ++r) model.f32("rank_category_s")[r * CATEGORY_COUNT + 2] = NaN;
  assert.ok(Number.isNaN(categoryTotals(storeOf(model, { time: [0, 10] })).seconds[2])); // not measured
});

test("shares of categories are of all recorded time", async () => {
  const model = await sample({ ranks: 8, ranksPerNode: 4, paths: 100 });
  const recorded = [...model.f32("rank_recorded_s")];
  const known = categoryTotals(storeOf(model));
  close([known.whole], [known.sum], "all is known", 1e-3);
  model.f32("rank_category_s").fill(NaN, 5 * CATEGORY_COUNT, 6 * CATEGORY_COUNT);
  const totals = categoryTotals(storeOf(model));
  close([totals.whole, totals.whole - totals.sum], [recorded.reduce((a, b) => a + b, 0), recorded[5]], "a rank without samples", 1e-3);
  assert.equal(categoryTotals(storeOf(model, { ranks: RankSet.of([5]) })).whole, recorded[5]);
  const part = categoryTotals(storeOf(model, { time: [0, 10] }));
  assert.equal(part.whole, part.sum, "of a part of the time only categories are known");
});

test("categories over time are the report's, of whichever ranks", async () => {
  const model = await sample({ ranks: 40, ranksPerNode: 8, paths: 100 });
  // Of rank 3 the series of I/O is missing, and nobody has one of system calls.
  const bins = model.header.axis.bins;
  const index = (name: string) => model.header.series.findIndex((s) => s.name === name);
  model.f32(`series_${index("io_ns")}`).fill(0, 3 * bins, 4 * bins);
  model.f32("rank_category_s")[3 * CATEGORY_COUNT + CATEGORIES.indexOf("io")] = 0;
  for (const selection of [{}, { ranks: RankSet.parse("3")! }, { ranks: RankSet.parse("0-6,30")! }, { nodes: [2] }]) {
    const store = storeOf(model, selection);
    const seconds = binSeconds(store);
    close(seconds.map((of) => of.reduce((a, b) => a + b, 0)), categoryTotals(store).seconds, store.href({}));
    const rows = rowSeconds(store);
    CATEGORIES.forEach((category, c) => {
      const sum = rows.reduce((all, value, at) => (at % CATEGORY_COUNT === c ? all + value : all), 0);
      close([sum], [categoryTotals(store).seconds[c]], category);
    });
  }
  const shares = rowShares(model);
  for (let cell = 0; cell < model.header.rows * bins; ++cell) {
    const sum = shares.reduce((all, of) => all + (of ? of[cell] : 0), 0);
    assert.ok(Number.isNaN(sum) || Math.abs(sum - 1) < 1e-5, `cell ${cell}: ${sum}`);
  }
});

test("categories of the data are found by their names", async () => {
  const arrays = {
    path_self_s: { type: "f32", values: Float32Array.of(1, 2, 3, 4) },
    rank_category_s: { type: "f32", values: Float32Array.of(5, 6) },
  };
  const header = { schema: "clusterprof.page/1", report: { nodes: [] }, strings: [], paths: 2, categories: ["idle", "python"] };
  const model = await decode(base64(encode(header, arrays)));
  assert.equal(model.f32("path_self_s")[CATEGORY_COUNT + IDLE], 3);
  assert.equal(model.f32("path_self_s")[CATEGORY_COUNT], 4);
  assert.equal(model.f32("rank_category_s")[0], 6);
  assert.ok(Number.isNaN(model.f32("rank_category_s")[CATEGORIES.indexOf("mpi")]));
  await assert.rejects(decode(base64(encode({ ...header, categories: ["dreams"] }, {}))), /dreams/);
});

test("numbers read as in the text report", () => {
  assert.deepEqual([0, 3e-9, 9.1e-6, 0.0123, 1.234, 45.67, 456, 20000, null].map(seconds), ["0 s", "3 ns", "9.10 µs", "12.3 ms", "1.23 s", "45.7 s", "456 s", "5.56 h", "–"]);
  assert.deepEqual([0, 12, 4.5e6, 999.6e9, NaN].map(bytes), ["0 B", "12 B", "4.50 MB", "1.00 TB", "–"]);
  assert.deepEqual([7, 9999, 12345].map(count), ["7", "9999", "12.3 k"]);
  assert.equal(percent(0.4521), "45.2 %");
  assert.deepEqual([[1, "process"], [2, "process"], [812, "directory"], [0, "rank"]].map(([n, noun]) => plural(n as number, noun as string)), ["1 process", "2 processes", "812 directories", "0 ranks"]);
  assert.equal(plural(3000, "kind of thread", "kinds of threads"), "3,000 kinds of threads");
  assert.equal(plural(1, "kind of thread", "kinds of threads"), "1 kind of thread");
  assert.equal(new TimeScale(0.05).format(0.0123), "12.30");
  assert.equal(new TimeScale(1234).format(1.26), "1.3");
  assert.equal(clock(3725, 4000), "1:02:05");
});

test("names become harmless and short", () => {
  assert.equal(printable("a\u0007\u202eb\n"), "a\\x07\\u202eb\\x0a");
  assert.equal(printable("ünïcödé 函数"), "ünïcödé 函数");
  assert.equal(shortenMiddle("abcdefghij", 5), "ab…ij");
  assert.equal(shortenMiddle("abc", 3), "abc");
  assert.equal(functionLabel("heat::apply(double const*, int)", "native"), "heat::apply()");
  assert.equal(functionLabel("(anonymous namespace)::f(int)", "native"), "(anonymous namespace)::f()");
  assert.equal(functionLabel("<module>", "python"), "<module>");
  assert.equal(functionLabel("_multiarray_umath, no names", "native"), "_multiarray_umath, no names");
  assert.equal(functionLabel("MPI_Send", "mpi"), "MPI_Send");
  assert.equal(functionLabel("", "native"), "?");
  // As report/format/names.cpp has them.
  for (const [name, label] of [
    ["void ns::f<int>(int)", "ns::f<int>()"],
    ["std::vector<int> f<int>(int)", "f<int>()"],
    ["Solver<double(int)>::run(int, char*)", "Solver<double(int)>::run()"],
    ["A::operator()(int) const", "A::operator()(int) const"],
    ["std::vector<double, std::allocator<double> >::push_back(double const&)", "std::vector<>::push_back()"],
    ["void mini::kernels::internals<double, int>(std::vector<double>&, int)", "mini::kernels::internals<>()"],
    ["mini::Solver<double>::run(int)::{lambda(double)#1}::operator()(double) const", "mini::Solver<double>::run()::{lambda}"],
    ["void std::sort<double*, run(int)::{lambda(double, double)#1}>(double*, double*)", "std::sort<>()"],
    ["void apply<int>(std::vector<int>&, run()::{lambda(int)#1})", "apply<int>()"],
    ["libx.so+0x12ab", "libx.so+0x12ab"],
  ])
    assert.equal(functionLabel(name, "native"), label);
  assert.equal(functionLabel("package.Trainer.fit.<locals>.closure", "python"), "package.Trainer.fit.<locals>.closure()");
});

test("fields and search", async () => {
  assert.deepEqual(parseTime("1.5-3"), [1.5, 3]);
  assert.deepEqual(parseTime(" 1.500 – 3.25 s "), [1.5, 3.25]);
  for (const wrong of ["", "5", "3-1", "a-b"]) assert.equal(parseTime(wrong), null);
  const model = await sample({ ranks: 8, ranksPerNode: 2, paths: 100 });
  const store = storeOf(model);
  assert.deepEqual(parseNodes(store, "n001, n003"), [0, 2]);
  assert.deepEqual(parseNodes(store, "n00*"), [0, 1, 2, 3]);
  assert.deepEqual(parseNodes(store, "#1-2"), [1, 2]);
  assert.equal(parseNodes(store, "elsewhere"), null);
  assert.ok(score("apply", "app") > score("heat::apply", "app"));
  assert.ok(score("heat::apply", "app") > score("snappy", "app"));
  assert.equal(score("stencil", "xyz"), 0);
  assert.ok(score("halo_exchange", "hlex") > 0);
});

test("a search finds pages, ranks, nodes, regions, functions and files, the best first", async () => {
  const model = await sample({ ranks: 8, ranksPerNode: 2, paths: 400 });
  const page = (id: string, title: string): Page => ({ id, title, mount: () => ({ update() {} }) });
  const search = new Search(storeOf(model), [page("tree", "Call tree"), page("nodes", "Nodes")]);
  const titles = (query: string) => search.find(query).map((entry) => entry.title);
  const first = (query: string) => search.find(query)[0];

  assert.deepEqual(titles(""), ["Call tree", "Nodes"]);
  assert.equal(first("call").title, "Call tree");
  assert.deepEqual(titles("rank 3").slice(0, 1), ["Rank 3"]);
  assert.equal(first("0-2").target().selection?.ranks?.toString(), "0-2");
  assert.ok(!titles("rank 8").includes("Rank 8"), "there are eight");
  assert.ok(titles("rank").includes("Rank 0"));
  assert.equal(first("n002").place, "node");
  assert.deepEqual(first("n002").target().params, { open: 1 });
  assert.equal(first("epoch/step").target().selection?.region, "epoch/step");
  assert.equal(first("converged").icon, "function");
  const file = search.find("heat.py").find((entry) => entry.place === "file");
  assert.deepEqual(file?.target(), { page: "source", params: { file: "/home/ada/heat/heat.py", line: null } });
  assert.deepEqual(titles("qqqzzz"), []);
  assert.equal(search.find("e").length, 40, "of many the best");
  // What takes the time comes before what only has a similar name.
  const { functionTotal } = weights(storeOf(model));
  const named = search.find("main").filter((entry) => entry.icon === "function").map((entry) => Number(entry.target().params?.open));
  assert.equal(model.function(named[0]).name, "main");
  assert.ok(functionTotal[named[0]] > 0);
});

test("missing ranks are counted where the page lists only some", async () => {
  const model = await sample({ ranks: 8, hostile: true });
  assert.equal(missingRanks(storeOf(model)), 2);
  model.header.shortened = { "run.missing_ranks": { kept: 2, of: 2048 } };
  assert.equal(missingRanks(storeOf(model)), 2048);
  assert.equal(qualityOf(storeOf(model)).text, "2,048 ranks missing");
  const listed = RankSet.of([3, 4, 7]);
  assert.equal(listed.toShortString(12), "3–4, 7");
  assert.equal(listed.toShortString(12, true), "3–4, 7, …");
  assert.equal(listed.toShortString(1, true), "3–4, …");
});

test("what changes gain: bars with their error, and commands for a shell", async () => {
  const row = (gain_s: number, error_s: number) => ({ change: "io x0", predicted_s: 10 - gain_s, gain_s, error_s, file: null, line: null, function: null, rank: null });
  assert.deepEqual(barOf(row(2, 0.5), 4), { gain: 50, begin: 37.5, end: 62.5 });
  assert.deepEqual(barOf(row(0.5, 1), 4), { gain: 12.5, begin: 0, end: 37.5 }, "no bar begins left of 0");
  assert.deepEqual(barOf(row(0, 0), 0), { gain: 0, begin: 0, end: 0 });
  assert.ok(isSure(row(2, 0.5)));
  assert.ok(!isSure(row(0.5, 0.5)));

  assert.equal(commandOf("rank 1 = mean"), "clusterprof whatif RUN --change 'rank 1 = mean'");
  assert.equal(commandOf("function it's x0"), "clusterprof whatif RUN --change 'function it'\\''s x0'");
  assert.equal(changeOfFunction("solve(int)"), "function solve(int) x0.5");
  assert.equal(changeOfFunction("a\u202eb"), null, "it could not be copied as it is shown");

  const model = await sample({ ranks: 8 });
  const changes = suggestedChanges(storeOf(model));
  assert.equal(changes.length, 1);
  assert.match(changes[0], /^function .* x0\.5$/);
  assert.equal(suggestedChanges(storeOf(model, { ranks: RankSet.of([3]) }))[0], "rank 3 = mean");
  assert.match(suggestedChanges(storeOf(model, { ranks: RankSet.of([3, 4]) }))[0], /^function /, "of several ranks there is no one to change");
  const whatif = model.report.whatif!;
  assert.ok(whatif.candidates.length > 2, "the sample has some");
  assert.ok(isCut(whatif), "4 and 1 of 6");
  assert.ok(!isCut({ ...whatif, to_try: 5 }), "what was refused needed no time");
});

test("metrics of counters read as in the text", () => {
  assert.equal(derivedValue(1.568, ""), "1.57");
  assert.equal(derivedValue(0.07, "processors"), "0.07 processors");
  assert.equal(derivedValue(0.4512, "share"), "45.1 %");
  assert.equal(derivedValue(281.4, "1/s"), "281/s");
  assert.equal(derivedValue(2.5e9, "B/s"), "2.50 GB/s");
});

test("series are named by words", () => {
  assert.equal(seriesTitle("mpi_runnable_ns"), "MPI runnable");
  assert.equal(seriesTitle("io_ns"), "I/O");
  assert.equal(seriesTitle("rss_bytes"), "Resident memory");
  assert.equal(seriesTitle("page-faults"), "page-faults");
});
