// SPDX-License-Identifier: BSD-3-Clause
// A page of a run that never was, to work on the page without a profile at hand:
//   node dev/make_sample.mjs [--ranks 64] [--ranks-per-node 32] [--paths 4000] [--hostile] [--no-source]
//                            [--plain] [--seed 1] [--dist dist] [--out sample.html]
// --plain: a program without MPI, regions, time of paths, nodes' series and memory.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";

const NONE = 0xffffffff;
const CATEGORIES = ["python", "native", "system", "mpi", "io", "idle", "runnable"];
const KINDS = ["python", "native", "mpi", "kernel", "region"];

function generator(seed) {
  let state = seed >>> 0;
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return { random, normal };
}

const SOURCES = {
  "/home/ada/heat/heat.py": `#!/usr/bin/env python3
"""Heat equation on a grid that is divided among ranks by rows."""
import argparse

import numpy as np
from mpi4py import MPI

import clusterprof
from heat import halo, stencil, output


def initial(grid, comm):
    """A hot spot in the middle; <b>not</b> markup & "quotes"."""
    y, x = np.ogrid[: grid.shape[0], : grid.shape[1]]
    grid[:] = np.exp(-((x - 512) ** 2 + (y - 512) ** 2) / 2e4)


def step(grid, new, comm):
    halo.exchange(grid, comm)
    stencil.apply(grid, new)
    if comm.rank == 0:
        new[0] = new[1]
    return new, grid


def converged(grid, new, comm, tolerance):
    mine = np.max(np.abs(new - grid))
    return comm.allreduce(mine, op=MPI.MAX) < tolerance


def main():
    args = parse()
    comm = MPI.COMM_WORLD
    grid, new = np.zeros(args.shape), np.zeros(args.shape)
    initial(grid, comm)
    for epoch in range(args.epochs):
        with clusterprof.region("epoch", epoch):
            for i in range(args.steps):
                with clusterprof.region("step"):
                    grid, new = step(grid, new, comm)
            if converged(grid, new, comm, args.tolerance):
                break
        with clusterprof.region("checkpoint"):
            output.write(grid, comm, epoch)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    main()
`,
  "/home/ada/heat/heat/halo.py": `"""Exchange of the rows at the edge."""


def exchange(grid, comm):
    up, down = comm.rank - 1, comm.rank + 1
    if up >= 0:
        comm.Sendrecv(grid[1], up, recvbuf=grid[0], source=up)
    if down < comm.size:
        comm.Sendrecv(grid[-2], down, recvbuf=grid[-1], source=down)
`,
  "/home/ada/heat/src/stencil.cpp": `// Five points; the compiler vectorises the inner loop.
#include "stencil.hpp"

namespace heat {

template <typename T>
inline T laplace(const T* up, const T* here, const T* down, std::size_t x) {
  return up[x] + down[x] + here[x - 1] + here[x + 1] - 4 * here[x];
}

void apply(const double* in, double* out, std::size_t rows, std::size_t columns) {
#pragma omp parallel for
  for (std::size_t y = 1; y + 1 < rows; ++y) {
    const double* here = in + y * columns;
    for (std::size_t x = 1; x + 1 < columns; ++x)
      out[y * columns + x] = here[x] + 0.1 * laplace(here - columns, here, here + columns, x);
  }
}

}  // namespace heat
`,
};

// The call tree before it is filled up: [function, line, share by category, children]
function program(hostile, plain) {
  const py = (name, file, line) => ({ kind: 0, name, file, line, module: null });
  const cc = (name, file, line, module) => ({ kind: 1, name, file, line, module });
  const heat = "/home/ada/heat/heat.py";
  const halo = "/home/ada/heat/heat/halo.py";
  const stencilPy = "/home/ada/heat/heat/stencil.py";
  const out = "/home/ada/heat/heat/output.py";
  const cpp = "/home/ada/heat/src/stencil.cpp";
  const so = "/home/ada/heat/heat/_stencil.cpython-311-x86_64-linux-gnu.so";
  const mpi = (name) => ({ kind: 2, name, file: null, line: 0, module: "libmpi.so.40" });
  const kernel = (name) => ({ kind: 3, name, file: null, line: 0, module: null });
  const region = (name) => ({ kind: 4, name, file: null, line: 0, module: null });
  const evil = hostile
    ? [
        "<script>alert(1)</script>",
        "</script><img src=x onerror=alert(2)>",
        '"><svg onload=alert(3)>',
        "javascript:alert(4)//{{constructor.constructor('alert(5)')()}}",
        "\u202egnp.exe\u202c \u0007\u001b[31mred",
        "std::vector<std::pair<std::string, std::map<int, std::shared_ptr<very::deep::name_space::Thing>>>>::emplace_back<" +
          "a_template_argument_that_goes_on_".repeat(30) + ">(int)",
        "ünïcödé::函数名::имя<🔥>",
        "",
      ]
    : [];
  const leaf = (frame, line, parts, share) => ({ frame, line, parts, share, children: [] });
  const node = (frame, line, share, parts, ...children) => ({ frame, line, parts, share, children });
  const P = { python: 1 };
  const N = { native: 1 };
  const laplace = cc("heat::laplace<double>(double const*, double const*, double const*, unsigned long)", cpp, 7, so);
  laplace.inlined = true;
  const apply = node(
    cc("heat::apply(double const*, double*, unsigned long, unsigned long)", cpp, 11, so), 16, 0.34, N,
    leaf(laplace, 8, N, 0.2),
    leaf(kernel("page fault"), 0, { system: 1 }, 0.02),
  );
  const steps = [
    node(py("exchange", halo, 4), 7, 0.004, P,
      leaf(mpi("MPI_Sendrecv"), 0, { mpi: 1 }, plain ? 0 : 0.13)),
    node(py("apply", stencilPy, 12), 18, 0.05, P, apply,
      node(cc("DOUBLE_add_AVX2", "/build/numpy/core/src/umath/loops.c", 210, "_multiarray_umath.so"), 233, 0.06, N)),
  ];
  const stepFrame = node(py("step", heat, 18), 20, 0.012, P, ...steps);
  const conv = node(py("converged", heat, 26), 27, 0.02, P,
    leaf(cc("DOUBLE_absolute_AVX2", "/build/numpy/core/src/umath/loops.c", 410, "_multiarray_umath.so"), 417, N, 0.03),
    leaf(mpi("MPI_Allreduce"), 0, { mpi: 1 }, plain ? 0 : 0.11));
  const write = node(py("write", out, 8), 14, 0.006, P,
    leaf(kernel("write"), 0, { io: 0.9, system: 0.1 }, 0.035),
    leaf(mpi("MPI_Gather"), 0, { mpi: 1 }, plain ? 0 : 0.02),
    node(cc("H5Dwrite", null, 0, "libhdf5.so.103"), 0, 0.004, N, leaf(kernel("pwrite64"), 0, { io: 1 }, 0.01)));
  const inner = plain
    ? [stepFrame, conv, write]
    : [node(region("epoch"), 0, 0, P, node(region("step"), 0, 0, P, stepFrame), conv), node(region("checkpoint"), 0, 0, P, write)];
  const fib = (depth) =>
    node(py("fib", "/home/ada/heat/heat/recurse.py", 3), 5, 0.002, P, ...(depth ? [fib(depth - 1), leaf(py("fib", "/home/ada/heat/heat/recurse.py", 3), 4, P, 0.001)] : []));
  return [
    node(py("<module>", heat, 1), 59, 0.001, P,
      node(py("main", heat, 31), 40, 0.004, P, ...inner,
        node(py("initial", heat, 12), 15, 0.01, N),
        fib(6),
        ...evil.map((name, i) => leaf({ kind: i % 2 ? 1 : 0, name, file: i === 1 ? "/tmp/<img src=x onerror=alert(6)>.py" : heat, line: 70 + i, module: i % 2 ? name : null }, 70 + i, N, 0.006)))),
    node(py("_find_and_load", "<frozen importlib._bootstrap>", 1022), 1027, 0.02, P, leaf(kernel("openat"), 0, { io: 0.5, system: 0.5 }, 0.012)),
    node(cc("gomp_thread_start", null, 0, "libgomp.so.1"), 0, 0.01, N, leaf(kernel("futex"), 0, { idle: 1 }, 0.09)),
  ];
}

// Keeps the numbers of JSON short.
const round = (x) => (Number.isFinite(x) ? Number(x.toPrecision(7)) : null);

export function makeSample(options = {}) {
  const { ranks = 64, ranksPerNode = 32, paths: wantedPaths = 4000, hostile = false, source = true, plain = false, seed = 1, mostGroups = 2048 } = options;
  const { random, normal } = generator(seed);
  const elapsed = 62.48;
  const bins = 256;
  const timeBins = plain ? 0 : 60;
  const strings = [];
  const stringIndex = new Map();
  const string = (text) => {
    if (text === null || text === undefined) return NONE;
    if (!stringIndex.has(text)) {
      stringIndex.set(text, strings.length);
      strings.push(text);
    }
    return stringIndex.get(text);
  };

  // --- Call tree
  const roots = program(hostile, plain);
  const fill = [];
  const collect = (n) => {
    if (n.children.length && n.frame.kind !== 4) fill.push(n);
    n.children.forEach(collect);
  };
  roots.forEach(collect);
  const base = (() => {
    let n = 0;
    const walk = (x) => (++n, x.children.forEach(walk));
    roots.forEach(walk);
    return n + 1;
  })();
  const modules = ["libopenblas.so.0", "_multiarray_umath.so", "libc.so.6", "libhdf5.so.103", "libpython3.11.so.1.0"];
  for (let i = base; i < wantedPaths; ++i) {
    const parent = fill[Math.floor(random() * Math.min(fill.length, 12 + i / 3))];
    const id = Math.floor(random() ** 2 * 900);
    const native = id % 3 !== 0;
    const made = {
      frame: native
        ? { kind: 1, name: `detail::kernel_${id}<double>(double*, unsigned long)`, file: id % 4 ? `/home/ada/heat/src/detail_${id % 40}.cpp` : null, line: id % 4 ? 10 + id : 0, module: modules[id % modules.length] }
        : { kind: 0, name: `helper_${id}`, file: `/home/ada/heat/heat/helpers_${id % 25}.py`, line: 5 + id, module: null },
      line: 12 + id,
      parts: native ? { native: 0.97, system: 0.03 } : { python: 1 },
      share: 0.35 / wantedPaths * (0.2 + 2 * random() ** 3),
      children: [],
    };
    parent.children.push(made);
    if (random() < 0.5) fill.push(made);
  }

  const frames = [];
  const frameIndex = new Map();
  const functions = [];
  const functionIndex = new Map();
  function frameOf({ frame, line }) {
    const functionKey = JSON.stringify([frame.kind, frame.name, frame.file, frame.module, frame.kind === 0 ? frame.line : 0]);
    const key = `${functionKey}:${line}:${frame.inlined ? 1 : 0}`;
    if (frameIndex.has(key)) return frameIndex.get(key);
    let f = NONE;
    if (frame.kind !== 4) {
      if (!functionIndex.has(functionKey)) {
        functionIndex.set(functionKey, functions.length);
        functions.push({ ...frame });
      }
      f = functionIndex.get(functionKey);
    }
    frameIndex.set(key, frames.length);
    frames.push({ ...frame, at: line, function: f });
    return frames.length - 1;
  }
  const paths = [{ parent: 0, frame: NONE, others: 0, share: 0, parts: {} }];
  const lay = (n, parent) => {
    const index = paths.length;
    paths.push({ parent, frame: frameOf(n), others: 0, share: n.share, parts: n.parts });
    n.children.sort((a, b) => b.share - a.share).forEach((child) => lay(child, index));
    if (n.children.length > 6) paths.push({ parent: index, frame: NONE, others: 1, share: 0.002 * random(), parts: { python: 0.3, native: 0.7 } });
  };
  roots.forEach((root) => lay(root, 0));
  const sumOfShares = paths.reduce((s, p) => s + p.share, 0);
  for (const path of paths) path.share /= sumOfShares;

  // --- Ranks: a wave of load, noise, a slow node and a few outliers
  const nodes = Math.ceil(ranks / ranksPerNode);
  const outliers = new Set([Math.floor(ranks * 0.37), Math.floor(ranks * 0.8), ...(ranks > 500 ? [Math.floor(ranks * 0.55)] : [])]);
  const slowNode = nodes > 2 ? 1 : -1;
  const rankInfo = Array.from({ length: ranks }, (_, r) => {
    const node = Math.floor(r / ranksPerNode);
    const load = (1 + 0.1 * Math.sin((2 * Math.PI * r) / ranks) + 0.03 * normal()) * (node === slowNode ? 1.12 : 1) * (outliers.has(r) && r > 0 ? 1.55 : 1);
    return { node, load };
  });
  const most = Math.max(...rankInfo.map((r) => r.load));
  const groups = ranks <= mostGroups ? ranks : Math.ceil(mostGroups / 2);
  const groupOf = (r) => (groups === ranks ? r : Math.floor((r * groups) / ranks));
  const kindOfPath = paths.map((p) => (p.frame === NONE ? 1 : frames[p.frame].kind));
  const jitter = paths.map(() => 0.6 + 0.8 * random());
  const isHelper = paths.map((p) => p.frame !== NONE && frames[p.frame].name === "futex");

  // Cells: what is too small is in none. More groups, fewer paths of each.
  const wanted = Math.max(24, Math.min(paths.length, Math.floor(400_000 / groups)));
  const largest = paths.map((p, i) => [p.share, i]).sort((a, b) => b[0] - a[0]).slice(0, wanted).map(([, i]) => i).sort((a, b) => a - b);
  const self = new Float32Array(paths.length * CATEGORIES.length);
  const helperIdle = new Float32Array(paths.length);
  const cellOffset = new Uint32Array(groups + 1);
  const cellPath = [];
  const cellSelf = [];
  const inGroup = new Uint32Array(groups);
  const groupLoad = new Float64Array(groups);
  const groupMpi = new Float64Array(groups);
  for (let r = 0; r < ranks; ++r) {
    inGroup[groupOf(r)]++;
    groupLoad[groupOf(r)] += rankInfo[r].load / most;
    groupMpi[groupOf(r)] += 1.15 - rankInfo[r].load / most;
  }
  const seconds = new Float64Array(paths.length);
  for (let g = 0; g < groups; ++g) {
    for (const p of largest) {
      if (paths[p].share === 0) continue;
      const factor = kindOfPath[p] === 2 ? groupMpi[g] * 2.2 : groupLoad[g] * (1 + 0.1 * (jitter[p] - 1) * normal());
      const s = paths[p].share * elapsed * factor;
      if (s <= 0) continue;
      cellPath.push(p);
      cellSelf.push(s);
      seconds[p] += s;
    }
    cellOffset[g + 1] = cellPath.length;
  }
  paths.forEach((p, i) => {
    if (seconds[i] === 0) seconds[i] = p.share * elapsed * ranks * 0.8;
    const whole = Object.values(p.parts).reduce((a, b) => a + b, 0);
    for (const [category, part] of Object.entries(p.parts).map(([name, value]) => [name, value / whole])) self[i * CATEGORIES.length + CATEGORIES.indexOf(category)] = seconds[i] * part;
    if (isHelper[i]) helperIdle[i] = seconds[i] * 0.8;
  });

  // --- Time of paths: start-up, epochs with a checkpoint at the end of each
  const pathTime = new Float32Array(paths.length * timeBins);
  const inRegion = (i, name) => {
    for (let p = i; p !== 0; p = paths[p].parent) if (paths[p].frame !== NONE && frames[paths[p].frame].name === name) return true;
    return false;
  };
  const shapes = paths.map((p, i) => (inRegion(i, "write") ? "checkpoint" : inRegion(i, "_find_and_load") || inRegion(i, "initial") ? "start" : "work"));
  for (let i = 0; i < paths.length && timeBins; ++i) {
    if (paths[i].share < 2e-5) continue;
    let sum = 0;
    const shape = shapes[i];
    for (let b = 0; b < timeBins; ++b) {
      const t = b / timeBins;
      const checkpoint = (t * 5) % 1 > 0.9 && t > 0.1;
      let v = shape === "start" ? (t < 0.06 ? 1 : 0) : shape === "checkpoint" ? (checkpoint ? 1 : 0) : t < 0.06 || checkpoint ? 0.05 : 0.8 + 0.3 * random() + (kindOfPath[i] === 2 ? t * 0.8 : 0);
      pathTime[i * timeBins + b] = v;
      sum += v;
    }
    for (let b = 0; b < timeBins; ++b) pathTime[i * timeBins + b] *= sum ? seconds[i] / sum : 0;
  }

  // --- Functions of the report
  const totals = seconds.slice();
  for (let i = paths.length - 1; i > 0; --i) totals[paths[i].parent] += totals[i];
  const functionRows = functions.map((f, index) => ({
    index, f, self: 0, total: 0, activeSelf: 0, activeTotal: 0, parts: new Float64Array(CATEGORIES.length), lines: new Map(),
  }));
  const open = new Uint32Array(functions.length);
  const walkPaths = (() => {
    const children = paths.map(() => []);
    for (let i = 1; i < paths.length; ++i) children[paths[i].parent].push(i);
    return (visit) => {
      const go = (i) => {
        const f = paths[i].frame === NONE ? NONE : frames[paths[i].frame].function;
        visit(i, f, f !== NONE && open[f]++ === 0);
        children[i].forEach(go);
        if (f !== NONE) --open[f];
      };
      go(0);
    };
  })();
  const helperBelow = Float64Array.from(helperIdle);
  for (let i = paths.length - 1; i > 0; --i) helperBelow[paths[i].parent] += helperBelow[i];
  const lineRows = new Map();
  const lineKey = (i) => {
    const frame = paths[i].frame === NONE ? null : frames[paths[i].frame];
    return frame?.file && frame.at ? `${frame.file}:${frame.at}:${frame.name}` : null;
  };
  const isInLine = (i, key) => {
    for (let p = paths[i].parent; p !== 0; p = paths[p].parent) if (lineKey(p) === key) return true;
    return false;
  };
  walkPaths((i, f, outermost) => {
    if (f === NONE) return;
    const row = functionRows[f];
    row.self += seconds[i];
    row.activeSelf += seconds[i] - helperIdle[i];
    if (outermost) {
      row.total += totals[i];
      row.activeTotal += totals[i] - helperBelow[i];
    }
    for (let c = 0; c < CATEGORIES.length; ++c) row.parts[c] += self[i * CATEGORIES.length + c];
    const frame = frames[paths[i].frame];
    if (frame.file && frame.at) {
      const key = lineKey(i);
      const line = lineRows.get(key) ?? { file: frame.file, line: frame.at, function: frame.name, self: 0, total: 0, parts: new Float64Array(CATEGORIES.length), time: new Float32Array(timeBins) };
      lineRows.set(key, line);
      line.self += seconds[i];
      if (!isInLine(i, key)) line.total += totals[i];
      for (let c = 0; c < CATEGORIES.length; ++c) line.parts[c] += self[i * CATEGORIES.length + c];
      for (let b = 0; b < timeBins; ++b) line.time[b] += pathTime[i * timeBins + b];
    }
  });
  const kept = functionRows.filter((row) => row.total > 0).sort((a, b) => b.self - a.self);
  const fine = { gil_s: 0, gc_s: 0, import_s: 0, page_fault_s: 0, sleep_s: 0, lock_s: 0 };
  const partsOf = (parts) => Object.fromEntries(CATEGORIES.map((c, i) => [`${c}_s`, round(parts[i])]));
  const slowest = rankInfo.reduce((best, r, i) => (r.load > rankInfo[best].load ? i : best), 0);
  const idlest = rankInfo.reduce((best, r, i) => (r.load < rankInfo[best].load ? i : best), 0);
  const rowLimit = 2000;
  const reportFunctions = kept.slice(0, rowLimit).map((row) => {
    const mean = row.total / ranks;
    const spread = row.f.kind === 2 ? 1.9 : 1.45;
    const activeMean = row.activeTotal / ranks;
    const activeSpread = spread * 0.9;
    return {
      name: row.f.name, file: row.f.file, line: row.f.line || null, kind: KINDS[row.f.kind], module: row.f.module,
      self_s: round(row.self), total_s: round(row.total), active_self_s: round(row.activeSelf), active_total_s: round(row.activeTotal),
      rank_min_s: round(mean * 0.7), rank_mean_s: round(mean), rank_max_s: round(mean * spread), rank_max: row.f.kind === 2 ? idlest : slowest,
      imbalance: mean > 0 ? round(spread) : null,
      active_rank_min_s: round(activeMean * 0.7), active_rank_mean_s: round(activeMean), active_rank_max_s: round(activeMean * activeSpread), active_rank_max: row.f.kind === 2 ? idlest : slowest,
      active_imbalance: activeMean > 0 ? round(activeSpread) : null, ...partsOf(row.parts), ...fine,
    };
  });
  const rowOfFunction = new Uint32Array(functions.length).fill(NONE);
  kept.slice(0, rowLimit).forEach((row, i) => (rowOfFunction[row.index] = i));
  // The report's first, in its order.
  const order = functionRows.map((r) => r.index).sort((a, b) => rowOfFunction[a] - rowOfFunction[b] || a - b);
  const newIndex = new Uint32Array(functions.length);
  order.forEach((old, i) => (newIndex[old] = i));

  const allLines = [...lineRows.values()].sort((a, b) => b.self - a.self);
  const reportLines = allLines.slice(0, 3000).map((l) => ({
    file: l.file, line: l.line, function: l.function, self_s: round(l.self), total_s: round(l.total), ...partsOf(l.parts), ...fine,
  }));

  // --- Rows of heat maps, series
  const rowRanks = [];
  if (ranks <= 1024) for (let r = 0; r < ranks; ++r) rowRanks.push([r, r, [r]]);
  else {
    const rest = 1024 - outliers.size;
    for (let i = 0; i < rest; ++i) {
      const [a, b] = [Math.floor((i * ranks) / rest), Math.floor(((i + 1) * ranks) / rest) - 1];
      const inside = [];
      for (let r = a; r <= b; ++r) if (!outliers.has(r)) inside.push(r);
      if (inside.length) rowRanks.push([a, b, inside]);
      for (let r = a; r <= b; ++r) if (outliers.has(r)) rowRanks.push([r, r, [r]]);
    }
  }
  const rows = rowRanks.length;
  const rowOfRank = new Uint32Array(ranks);
  rowRanks.forEach(([, , list], row) => list.forEach((r) => (rowOfRank[r] = row)));
  const rowLoad = rowRanks.map(([, , list]) => list.reduce((s, r) => s + rankInfo[r].load / most, 0) / list.length);
  const bin_s = 0.25;
  const bin_ns = bin_s * 1e9;
  const seriesInfo = [
    ...CATEGORIES.filter((c) => !plain || c !== "mpi").map((c) => ({ name: `${c}_ns`, maximum: false })),
    { name: "cpu_user_ns", maximum: false }, { name: "cpu_system_ns", maximum: false },
    { name: "rss_bytes", maximum: true }, { name: "read_bytes", maximum: false }, { name: "write_bytes", maximum: false },
    { name: "minor_faults", maximum: false }, { name: "context-switches", maximum: false },
    ...(plain ? [] : [{ name: "memory_held_bytes", maximum: true }]),
  ];
  const last = Math.floor(elapsed / bin_s);
  const arrays = {};
  const add = (name, type, values) => (arrays[name] = { type, values });
  const phase = (b) => {
    const t = (b * bin_s) / elapsed;
    return t < 0.06 ? "start" : (t * 5) % 1 > 0.9 && t > 0.1 ? "checkpoint" : "work";
  };
  const valueOf = (name, row, b, noise) => {
    if (b > last) return 0;
    const p = phase(b);
    const l = rowLoad[row];
    const mpi = plain ? 0 : p === "work" ? Math.max(0.04, 1.12 - l) * 0.9 : 0.1;
    const io = p === "checkpoint" ? 0.6 : p === "start" ? 0.2 : 0.003;
    const python = p === "start" ? 0.55 : 0.12;
    const native = Math.max(0, 1 - mpi - io - python - 0.05);
    switch (name) {
      case "python_ns": return python * bin_ns * noise;
      case "native_ns": return native * bin_ns;
      case "system_ns": return 0.03 * bin_ns * noise;
      case "mpi_ns": return mpi * bin_ns * noise;
      case "io_ns": return io * bin_ns * noise;
      case "idle_ns": case "runnable_ns": return 0.02 * bin_ns * noise;
      case "cpu_user_ns": return (native + python + mpi) * bin_ns;
      case "cpu_system_ns": return 0.05 * bin_ns * noise;
      case "rss_bytes": return (4e8 + 9e8 * Math.min(1, b / 20) + 1.2e8 * l * (b / last)) * (1 + 0.02 * noise);
      case "memory_held_bytes": return 3e8 + 8e8 * Math.min(1, b / 20) + 1e8 * l * (b / last);
      case "read_bytes": return p === "start" ? 4e7 * noise : 0;
      case "write_bytes": return p === "checkpoint" ? 9e7 * noise : 2e3;
      case "minor_faults": return p === "start" ? 9000 * noise : 40 * noise;
      default: return 30 * noise;
    }
  };
  seriesInfo.forEach(({ name }, s) => {
    const values = new Float32Array(rows * bins);
    for (let b = 0; b < bins; ++b) {
      for (let row = 0; row < rows; ++row) {
        const v = Math.round(valueOf(name, row, b, 0.6 + 0.8 * random()));
        values[row * bins + b] = v;
      }
    }
    add(`series_${s}`, "f32", values);
  });
  const nodeSeries = plain || nodes > 1024 ? [] : [
    { name: "cpu_busy_ns", maximum: false }, { name: "memory_used_bytes", maximum: true },
    { name: "network_received_bytes", maximum: false }, { name: "network_sent_bytes", maximum: false },
    { name: "disk_read_bytes", maximum: false }, { name: "disk_written_bytes", maximum: false },
    { name: "memory_held_bytes", maximum: true },
  ];
  nodeSeries.forEach(({ name }, s) => {
    const values = new Float32Array(nodes * bins);
    for (let n = 0; n < nodes; ++n)
      for (let b = 0; b <= last; ++b) {
        const p = phase(b);
        const noise = 0.7 + 0.6 * random();
        values[n * bins + b] =
          name === "cpu_busy_ns" ? ranksPerNode * bin_ns * (p === "checkpoint" ? 0.3 : 0.93) * (0.97 + 0.05 * random())
          : name === "memory_held_bytes" ? ranksPerNode * (3e8 + 8e8 * Math.min(1, b / 20)) + n * 1e8
          : name === "memory_used_bytes" ? 3e10 + ranksPerNode * 1e9 * Math.min(1, b / 20) + n * 1e9
          : name.startsWith("network") ? (p === "work" ? 4e7 : 2e8) * noise
          : name === "disk_read_bytes" ? (p === "start" ? 8e7 * noise : 0)
          : p === "checkpoint" ? 3e8 * noise : 1e5 * noise;
      }
    add(`node_series_${s}`, "f32", values);
  });

  // --- Arrays of frames, functions, paths
  const kindsOf = (list) => Uint8Array.from(list, (x) => x.kind);
  add("frame_kind", "u8", kindsOf(frames));
  add("frame_inlined", "u8", Uint8Array.from(frames, (f) => (f.inlined ? 1 : 0)));
  for (const field of ["name", "file", "module"]) {
    add(`frame_${field}_string`, "u32", Uint32Array.from(frames, (f) => string(f[field])));
    add(`function_${field}_string`, "u32", Uint32Array.from(order, (i) => string(functions[i][field])));
  }
  // Whose code: everything below /home/ada is the program's.
  const packageOf = (f) => /(?:site-packages|python3\.\d+)\/([^/.]+)/.exec(f.file ?? "")?.[1] ?? (f.module ?? "").split("/").pop().replace(/\.so.*$/, "").replace(/\.cpython.*$/, "");
  const ownerOf = (f) => (f.kind === 4 ? 0 : f.kind >= 2 ? 1 : /libpython|\/python3$/.test(f.module ?? "") ? 2 : f.file?.startsWith("/home/ada") || (!f.file && !f.module) ? 0 : 1);
  add("frame_owner", "u8", Uint8Array.from(frames, ownerOf));
  add("frame_machinery", "u8", Uint8Array.from(frames, (f) => (f.file?.includes("importlib") ? 1 : 0)));
  add("frame_library_name_string", "u32", Uint32Array.from(frames, (f) => string(ownerOf(f) === 1 ? `${packageOf(f)}.${f.name}`.replace(/^\./, "") : null)));
  add("frame_package_string", "u32", Uint32Array.from(frames, (f) => string(ownerOf(f) === 1 ? packageOf(f) || null : null)));
  add("frame_line", "u32", Uint32Array.from(frames, (f) => f.at));
  add("frame_function_line", "u32", Uint32Array.from(frames, (f) => f.line));
  add("frame_function", "u32", Uint32Array.from(frames, (f) => (f.function === NONE ? NONE : newIndex[f.function])));
  add("function_line", "u32", Uint32Array.from(order, (i) => functions[i].line));
  add("function_kind", "u8", Uint8Array.from(order, (i) => functions[i].kind));
  add("function_row", "u32", Uint32Array.from(order, (i) => rowOfFunction[i]));
  add("path_parent", "u32", Uint32Array.from(paths, (p) => p.parent));
  add("path_frame", "u32", Uint32Array.from(paths, (p) => p.frame));
  const rowOfLine = new Map();
  allLines.slice(0, 3000).forEach((l, i) => rowOfLine.set(`${l.file}:${l.line}:${l.function}`, i));
  const lineOfPath = Uint32Array.from(paths, (_, i) => {
    return rowOfLine.get(lineKey(i)) ?? NONE;
  });
  add("path_line", "u32", lineOfPath);
  add("path_own_line", "u32", lineOfPath);
  add("path_others", "u8", Uint8Array.from(paths, (p) => p.others));
  add("path_self_s", "f32", self);
  add("path_helper_idle_s", "f32", helperIdle);
  add("group_of_rank", "u32", Uint32Array.from({ length: ranks }, (_, r) => groupOf(r)));
  add("cell_offset", "u32", cellOffset);
  add("cell_path", "u32", Uint32Array.from(cellPath));
  add("cell_self_s", "f32", Float32Array.from(cellSelf));
  add("cell_helper_idle_s", "f32", Float32Array.from(cellSelf, (s, i) => (isHelper[cellPath[i]] ? 0.8 * s : 0)));
  add("path_time", "f32", pathTime);

  // --- Ranks
  const category = new Float32Array(ranks * CATEGORIES.length);
  const perRank = { elapsed: [], useful: [], wait: [], transfer: [], rss: [] };
  const reportRanks = [];
  const lostRank = hostile && ranks > 3 ? ranks - 1 : -1;
  for (let r = 0; r < ranks; ++r) {
    const l = rankInfo[r].load / most;
    const e = elapsed * (0.995 + 0.004 * random());
    const mpi = plain ? 0 : e * Math.max(0.03, 0.97 - 0.9 * l);
    const rest = e - mpi;
    const parts = [0.17, 0.7, 0.04, 0, 0.055, 0.015, 0.02].map((x) => x * rest);
    parts[3] = mpi;
    category.set(parts, r * CATEGORIES.length);
    perRank.elapsed.push(e);
    perRank.useful.push(e - mpi);
    perRank.wait.push(mpi * 0.8);
    perRank.transfer.push(mpi * 0.2);
    perRank.rss.push(1.3e9 + 2e8 * random() + (outliers.has(r) ? 9e8 : 0));
    if (ranks <= 512)
      reportRanks.push({
        rank: r, node: `n${String(rankInfo[r].node + 1).padStart(3, "0")}`, pid: 4000 + r, elapsed_s: round(e), cpu_s: round(e * 0.96), samples: Math.round(e * 99), threads: 4, processes: 1,
        ...Object.fromEntries(CATEGORIES.map((c, i) => [`${c}_s`, round(parts[i])])), activities: {}, useful_s: round(e - mpi),
        mpi_wait_s: plain ? null : round(mpi * 0.8), mpi_transfer_s: plain ? null : round(mpi * 0.2), max_rss_bytes: Math.round(perRank.rss[r]), read_bytes: 61234567, write_bytes: 712345678, paused_s: 0,
        user_s: round(e * 0.9), kernel_s: round(e * 0.06), minor_faults: 412345, major_faults: 3, voluntary_switches: 4123, involuntary_switches: 231,
        affinity: `${r % ranksPerNode}`, numa: "0", derived: [], exit: { status: r === lostRank ? null : 0, signal: r === lostRank ? 9 : null, lost: false },
      });
  }
  // As report.off_cpu has them, by rank.
  add("rank_off_cpu_s", "f32", Float32Array.from({ length: 3 * ranks }, (_, i) => ([9.1, 41.5, 88.2][i % 3] / ranks) * (i % 3 === 2 ? (i < 3 ? ranks : 0) : 1)));
  add("rank_number", "i32", Int32Array.from({ length: ranks }, (_, r) => r));
  add("rank_node", "u32", Uint32Array.from(rankInfo, (r) => r.node));
  add("rank_elapsed_s", "f32", Float32Array.from(perRank.elapsed));
  add("rank_recorded_s", "f32", Float32Array.from(perRank.elapsed));
  add("rank_useful_s", "f32", Float32Array.from(perRank.useful));
  add("rank_mpi_wait_s", "f32", Float32Array.from(perRank.wait, (x) => (plain ? NaN : x)));
  add("rank_mpi_transfer_s", "f32", Float32Array.from(perRank.transfer, (x) => (plain ? NaN : x)));
  add("rank_max_rss_bytes", "f32", Float32Array.from(perRank.rss));
  add("rank_category_s", "f32", category);
  add("rank_exit_status", "i32", Int32Array.from({ length: ranks }, (_, r) => (r === lostRank ? -1 : 0)));
  add("rank_exit_signal", "i32", Int32Array.from({ length: ranks }, (_, r) => (r === lostRank ? 9 : -1)));
  add("rank_lost", "u8", Uint8Array.from({ length: ranks }, (_, r) => (r === lostRank ? 1 : 0)));
  add("row_of_rank", "u32", rowOfRank);
  add("row_first_rank", "i32", Int32Array.from(rowRanks, (r) => r[0]));
  add("row_last_rank", "i32", Int32Array.from(rowRanks, (r) => r[1]));
  add("row_ranks", "u32", Uint32Array.from(rowRanks, (r) => r[2].length));
  add("row_node", "u32", Uint32Array.from(rowRanks, ([, , list]) => (rankInfo[list[0]].node === rankInfo[list.at(-1)].node ? rankInfo[list[0]].node : NONE)));
  const rowFunctions = Math.min(128, order.length);
  const functionRow = new Float32Array(rowFunctions * rows);
  for (let f = 0; f < rowFunctions; ++f) {
    const row = functionRows[order[f]];
    for (let i = 0; i < rows; ++i) {
      const x = row.f.kind === 2 ? Math.max(0.05, 1.4 - rowLoad[i]) * 1.4 : rowLoad[i] * 1.1;
      functionRow[f * rows + i] = (row.total / ranks) * x * (1 + 0.06 * normal());
    }
  }
  add("function_row_s", "f32", functionRow);

  // --- Communication: neighbours, a few far pairs
  const binRanks = Math.ceil(ranks / 512);
  const matrixCells = new Map();
  if (!plain) {
    const send = (a, b, messages, size) => {
      if (b < 0 || b >= ranks || a === b) return;
      const key = Math.floor(a / binRanks) * 65536 + Math.floor(b / binRanks);
      const cell = matrixCells.get(key) ?? [0, 0];
      matrixCells.set(key, [cell[0] + messages, cell[1] + messages * size]);
    };
    for (let r = 0; r < ranks; ++r) {
      send(r, r - 1, 20000, 8192), send(r, r + 1, 20000, 8192);
      send(r, (r + 16) % ranks, 400, 65536);
      if (r % 8 === 0) send(r, 0, 40, 1 << 20);
    }
  }
  const matrixKeys = [...matrixCells.keys()].sort((a, b) => a - b);
  add("matrix_source", "u32", Uint32Array.from(matrixKeys, (k) => Math.floor(k / 65536)));
  add("matrix_destination", "u32", Uint32Array.from(matrixKeys, (k) => k % 65536));
  add("matrix_messages", "f64", Float64Array.from(matrixKeys, (k) => matrixCells.get(k)[0]));
  add("matrix_bytes", "f64", Float64Array.from(matrixKeys, (k) => matrixCells.get(k)[1]));
  const collective = plain ? [] : Array.from({ length: Math.ceil(ranks / binRanks) }, (_, r) => r).flatMap((r, _, all) =>
    [1, 2, 4, 8, 16].map((step) => [r, (r + step) % all.length]));
  add("collective_source", "u32", Uint32Array.from(collective, ([from]) => from));
  add("collective_destination", "u32", Uint32Array.from(collective, ([, to]) => to));
  add("collective_bytes", "f64", Float64Array.from(collective, () => 1.6e6));

  // --- Sources and their lines
  const files = new Map();
  for (const line of allLines.slice(0, 3000)) files.set(line.file, (files.get(line.file) ?? 0) + line.self);
  const sourceList = [...files].sort((a, b) => b[1] - a[1]).slice(0, 40).map(([file]) => {
    const text = SOURCES[file] ?? null;
    return { file, text: source ? text : null, why_not: !source ? "left out (--no-source)" : text === null ? "not found" : "" };
  });
  const fileIndex = new Map(sourceList.map((s, i) => [s.file, i]));
  const pageLines = allLines.slice(0, 3000).map((line, row) => ({ line, row })).filter(({ line }) => fileIndex.has(line.file));
  add("line_file", "u32", Uint32Array.from(pageLines, ({ line }) => fileIndex.get(line.file)));
  add("line_row", "u32", Uint32Array.from(pageLines, ({ row }) => row));
  const lineTime = new Float32Array(pageLines.length * timeBins);
  pageLines.forEach(({ line }, i) => lineTime.set(line.time, i * timeBins));
  add("line_time", "f32", lineTime);

  // --- Report
  const mean = (xs) => xs.reduce((s, x) => s + x, 0) / xs.length;
  const maxUseful = Math.max(...perRank.useful);
  const ideal = elapsed * 0.955;
  const heat = "/home/ada/heat/heat.py";
  const nodeName = (n) => (hostile && n === 0 ? "n001<b>&\"'" : `n${String(n + 1).padStart(3, "0")}`);
  const mpiRow = (op, file, line, fn, share, count, sent) => ({
    op, file, line, function: fn, count: count * ranks, time_s: round(share * elapsed * ranks), wait_s: round(share * elapsed * ranks * 0.8), sent_bytes: sent * ranks, recv_bytes: sent * ranks,
    rank_min_s: round(share * elapsed * 0.1), rank_mean_s: round(share * elapsed), rank_max_s: round(share * elapsed * 1.9), rank_max: idlest,
  });
  const place = { op: null, file: "/home/ada/heat/src/stencil.cpp", line: 16, function: "heat::apply(double const*, double*, unsigned long, unsigned long)" };
  const waits = [];
  for (let r = 0; r < Math.min(ranks, 512); ++r) {
    const w = perRank.wait[r];
    if (r === slowest) continue;
    waits.push({
      kind: r % 3 ? "wait_at_nxn" : "late_sender", rank: r, wait_s: round(w), count: 2000,
      caused_by: [{ rank: slowest, wait_s: round(w * 0.7), count: 1500, ...place }, { rank: (r + 1) % ranks, wait_s: round(w * 0.2), count: 400, ...place }, { rank: null, wait_s: round(w * 0.1), count: 100, op: null, file: null, line: null, function: null, rest: 12 }],
      where: [{ op: r % 3 ? "MPI_Allreduce" : "MPI_Sendrecv", file: r % 3 ? heat : "/home/ada/heat/heat/halo.py", line: r % 3 ? 28 : 7, function: r % 3 ? "converged" : "exchange", wait_s: round(w), count: 2000 }],
    });
  }
  const waitKinds = plain ? [] : ["late_sender", "wait_at_nxn"];
  const ofKind = (i, value) => ((i >> 1) !== slowest && i % 2 === ((i >> 1) % 3 ? 1 : 0) ? value : 0);
  add("rank_wait_kind_s", "f32", Float32Array.from({ length: waitKinds.length * ranks }, (_, i) => ofKind(i, perRank.wait[i >> 1])));
  add("rank_wait_kind_count", "u32", Uint32Array.from({ length: waitKinds.length * ranks }, (_, i) => ofKind(i, 2000)));
  const balance = mean(perRank.useful) / maxUseful;
  const communication = maxUseful / elapsed;
  const regionRow = (name, share, count, mpiShare) => ({
    name, domain: name === "checkpoint" ? "NVTX" : null, library: false, count: count * ranks, time_s: round(share * elapsed * ranks), min_s: 0.9, max_s: 4.2, max_n: 7, sampled_s: round(share * elapsed * ranks), share: round(share),
    ...partsOf([0.15, 0.6, 0.03, mpiShare, 0.04, 0.02, 0.01].map((x) => x * share * elapsed * ranks)), rank_min_s: round(share * elapsed * 0.9), rank_mean_s: round(share * elapsed), rank_max_s: round(share * elapsed * 1.05), rank_max: slowest,
    efficiency: { parallel: 0.72, load_balance: 0.76, communication: 0.95 }, openmp: plain ? { parallel: null, load_balance: null, scheduling: null, serialization: null, hybrid: null } : { parallel: 0.6, load_balance: 0.8, scheduling: 0.98, serialization: 0.765, hybrid: 0.432 }, efficiency_above_one: [], mpi_startup_s: 0, counters: {}, derived: [], bottleneck: "imbalance",
  });
  // A pool of eight workers of rank 0, and a program that it ran.
  const evil = hostile ? "<b>worker</b>" : "worker";
  const workerPlace = { file: heat, line: 41, function: "load" };
  const madeAt = { file: heat, line: 55, function: "main" };
  const sampleProcesses = () => [
    { pid: 4000, ppid: 3990, rank: 0, count: 1, group: 0, how: "rank", unrecorded: null, command: ["python3", "heat.py"], start_s: 0, end_s: elapsed, cpu_s: elapsed * 0.9, children_cpu_s: 20, created_by: null, top: null, exit: { status: 0, signal: null } },
    ...Array.from({ length: 8 }, (_, i) => ({
      pid: 4001 + i, ppid: 4000, rank: 0, count: 1, group: 1, how: "spawn", unrecorded: null, command: ["python3", "-c", "from multiprocessing.spawn import spawn_main"], start_s: 1 + i / 10, end_s: 11, cpu_s: 2 + i / 10, children_cpu_s: 0,
      created_by: madeAt, top: { ...workerPlace, time_s: 1.5 }, exit: { status: i === 7 ? null : 0, signal: i === 7 ? 9 : null },
    })),
    { pid: 4010, ppid: 4000, rank: 0, count: 3, group: 2, how: "subprocess", unrecorded: "static_program", command: ["gzip", "out.dat"], start_s: 12, end_s: 14, cpu_s: null, children_cpu_s: 0, created_by: { ...madeAt, line: 60 }, top: null, exit: { status: null, signal: null } },
  ];
  const sampleProcessGroups = () => [
    { rank: 0, how: "rank", unrecorded: null, program: "python3 heat.py", count: 1, cpu_s: elapsed * 0.9, cpu_min_s: elapsed * 0.9, cpu_mean_s: elapsed * 0.9, cpu_max_s: elapsed * 0.9, start_s: 0, end_s: elapsed, created_by: null, top: null },
    { rank: 0, how: "spawn", unrecorded: null, program: evil, count: 8, cpu_s: 18.8, cpu_min_s: 2, cpu_mean_s: 2.35, cpu_max_s: 2.7, start_s: 1, end_s: 11, created_by: { ...madeAt, call_path: ["main() heat.py:55", "Process.start() process.py:121"] }, top: { ...workerPlace, time_s: 12 } },
    { rank: 0, how: "subprocess", unrecorded: "static_program", program: "gzip", count: 3, cpu_s: 1.2, cpu_min_s: 0.3, cpu_mean_s: 0.4, cpu_max_s: 0.5, start_s: 12, end_s: 14, created_by: { ...madeAt, line: 60, call_path: ["main() heat.py:60"] }, top: null },
  ];
  const sampleThreadGroups = () => [
    { rank: 0, name: "main", kind: "main", count: 1, cpu_s: elapsed * 0.8, cpu_min_s: elapsed * 0.8, cpu_mean_s: elapsed * 0.8, cpu_max_s: elapsed * 0.8, start_s: 0, end_s: elapsed, top: workerPlace },
    { rank: 0, name: hostile ? "<i>loader-*</i>" : "loader-*", kind: "python", count: 2, cpu_s: 3, cpu_min_s: 1, cpu_mean_s: 1.5, cpu_max_s: 2, start_s: 1, end_s: 9, top: workerPlace },
    { rank: 0, name: "OpenMP", kind: "openmp", count: 3, cpu_s: 9, cpu_min_s: 3, cpu_mean_s: 3, cpu_max_s: 3, start_s: 1, end_s: elapsed, top: null },
  ];
  const sampleThreads = () =>
    sampleThreadGroups().flatMap((of, group) =>
      Array.from({ length: of.count }, (_, i) => ({
        rank: 0, pid: 4000, tid: 4000 + 10 * group + i, name: of.name.replace("*", `${i}`), kind: of.kind, elapsed_s: of.end_s - of.start_s, cpu_s: of.cpu_mean_s, count: 1, group, start_s: of.start_s,
        end_s: group === 0 ? null : of.end_s, top: of.top,
      })),
    );
  const report = {
    schema: "clusterprof.report/1",
    run: {
      id: "5a0c8e1d-sample", command: hostile ? ["python3", "heat.py", "--title", "<script>alert('command')</script>"] : ["python3", "heat.py", "--epochs", "20", "--shape", "8192x8192"], start_utc: "2026-11-21T13:45:02Z", elapsed_s: elapsed, nodes, ranks, world_size: plain ? null : ranks,
      missing_ranks: hostile ? [ranks, ranks + 1] : [], rate_hz: 100, clock: "wall", region: null, launcher: "torchrun", restarts: 1, sample_on: null, only_regions: false, samples: ranks * 6120,
      dropped: hostile ? { ring_full: 312, reentrant: 4, signal_blocked: 2 } : {}, complete: !hostile, version: "0.7.0", mpi_library: plain ? null : "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", commit: plain ? null : "0123456789abcdef0123456789abcdef01234567", modules: hostile ? ["<b>gcc</b>/12"] : [], compilers: [], environment: plain ? [] : [{ name: "OMP_NUM_THREADS", value: "4" }], notes: hostile ? ["Rank 3 had <b>no</b> samples in its first second."] : [], dropped_meaning: hostile ? { ring_full: "samples are missing: <b>too late</b>" } : {},
    },
    nodes: Array.from({ length: nodes }, (_, n) => {
      const mine = rankInfo.map((r, i) => [r.node, i]).filter(([x]) => x === n).map(([, i]) => i);
      return {
        name: nodeName(n), ranks: mine, elapsed_s: elapsed, cpu_s: round(elapsed * mine.length * 0.95), collector_cpu_s: round(0.18 + 0.05 * random()), cpus: ranksPerNode, numa_nodes: 2, memory_bytes: 270e9, cache_bytes: 33554432, cpu_model: "AMD EPYC 7543 32-Core Processor",
        cpu_busy: round(0.86 + 0.08 * random() + (n === slowNode ? 0.03 : 0)), memory_used_bytes: Math.round(3e10 + mine.length * 1.5e9 + 4e9 * random()),
        network_received_bytes: plain ? null : Math.round(2e10 + 4e9 * random()), network_sent_bytes: plain ? null : Math.round(2e10 + 4e9 * random()), disk_read_bytes: Math.round(3e8 * random()), disk_written_bytes: Math.round(9e9 + 3e9 * random()),
      };
    }),
    ranks: reportRanks,
    efficiency: plain ? { parallel: null, load_balance: null, communication: null, serialization: null, transfer: null }
      : { parallel: round(balance * communication), load_balance: round(balance), communication: round(communication), serialization: round(maxUseful / ideal), transfer: round(ideal / elapsed) },
    efficiency_above_one: maxUseful > ideal && !plain ? ["serialization"] : [],
    activities: { interpreter_s: 300, native_s: 2400, import_s: 40, gc_s: 12, page_fault_s: 60, system_call_s: 30, mpi_s: 700, io_s: 160, gil_s: 3, sleep_s: 0, lock_s: 22, other_wait_s: 1 },
    native_modules: { "_stencil.cpython-311-x86_64-linux-gnu.so": 1800, "_multiarray_umath.so": 400 }, system_calls: { write: 140, pwrite64: 30, openat: 8 },
    functions: reportFunctions, lines: reportLines,
    mpi: plain ? {} : {
      calls: [mpiRow("MPI_Sendrecv", "/home/ada/heat/heat/halo.py", 7, "exchange", 0.09, 40000, 320e6), mpiRow("MPI_Allreduce", heat, 28, "converged", 0.1, 2000, 16000), mpiRow("MPI_Gather", "/home/ada/heat/heat/output.py", 14, "write", 0.02, 20, 4e6), mpiRow("MPI_Init_thread", null, null, null, 0.004, 1, 0)],
      sizes: [["MPI_Sendrecv", 8192, 40000], ["MPI_Sendrecv", 65536, 400], ["MPI_Allreduce", 8, 2000], ["MPI_Gather", 1048576, 20]].map(([op, le_bytes, n]) => ({ op, le_bytes, count: n * ranks })),
      waits,
    },
    wait_analysis: plain ? null : { operations: 42420 * ranks, events: 44000 * ranks, event_level: ranks > 2000 ? 3 : 0, messages: 40000 * ranks, unmatched_messages: 0, collectives: 2020, unmatched_collectives: 0, clock_error_s: 1.7e-6, clock_violations: 0, worst_violation_s: 0, ideal_s: ideal },
    root_causes: plain ? null : [{ rank: slowest, ...place, wait_s: round(0.11 * elapsed * ranks), share: 0.11, waiting_ranks: ranks - 1 }, { rank: 0, op: null, file: heat, line: 22, function: "step", wait_s: round(0.021 * elapsed * ranks), share: 0.021, waiting_ranks: 3 }],
    critical_path: plain ? null : [{ ...place, kind: "native", time_s: 41.2, share: 0.66, mean_s: 29.1, imbalance: 1.42, rank_max: slowest }, { op: "MPI_Allreduce", file: heat, line: 28, function: "converged", kind: "mpi", time_s: 3.1, share: 0.05, mean_s: 1.2, imbalance: 2.6, rank_max: 0 }],
    efficiency_windows: plain ? null : Array.from({ length: 32 }, (_, i) => ({ begin_s: round((i * elapsed) / 32), end_s: round(((i + 1) * elapsed) / 32), parallel: round(0.78 - 0.1 * (i / 32) + 0.03 * normal()), load_balance: round(0.82 - 0.1 * (i / 32)), communication: 0.95, wait_s: round(elapsed * ranks * 0.15 / 32) })),
    counters: { available: ["task-clock", "page-faults", "context-switches", "cpu-migrations"], unavailable: { PAPI_TOT_CYC: "not permitted: perf_event_paranoid is 3", PAPI_L3_TCM: "this machine has no such event" }, multiplexed: false, derived: [{ name: "cpu_utilisation", value: 0.96 * ranks, unit: "processors", formula: "CPU time / elapsed" }, { name: "faults_per_s", value: 431.2, unit: "1/s", formula: "(minor_faults + major_faults) / elapsed" }], ranks: [] },
    io: {
      files: [
        { path: "/scratch/ada/heat.h5", file_system: "lustre /scratch", ranks: 1, opens: 20, reads: 0, writes: 400, read_bytes: 0, written_bytes: 9e9, read_s: 0, write_s: 12.2, sync_s: 0.4, meta_s: 0.1 },
        { path: "/home/ada/heat/<b>initial</b>.npy", file_system: "nfs /home", ranks, opens: ranks, reads: 4 * ranks, writes: 0, read_bytes: 6.7e7 * ranks, written_bytes: 0, read_s: 3.1, write_s: 0, sync_s: 0, meta_s: 0.6 },
        { path: null, file_system: null, ranks, opens: 812 * ranks, reads: 0, writes: 0, read_bytes: 0, written_bytes: 0, read_s: 0, write_s: 0, sync_s: 0, meta_s: 2.2 },
      ],
      calls: [
        { operation: "write", file: "/home/ada/heat/heat/output.py", line: 14, function: "write", path: "/scratch/ada/heat.h5", count: 400, failed: 0, bytes: 9e9, time_s: 12.2, max_s: 0.41, longest_rank: 0, rank_max: 0 },
        { operation: "read", file: heat, line: 12, function: "load", path: "/home/ada/heat/<b>initial</b>.npy", count: 4 * ranks, failed: 0, bytes: 6.7e7 * ranks, time_s: 3.1, max_s: 0.02, longest_rank: ranks - 1, rank_max: slowest },
        { operation: "open", file: null, line: null, function: null, path: null, count: 812 * ranks, failed: 640 * ranks, bytes: 0, time_s: 2.2, max_s: 0.008, longest_rank: 0, rank_max: 0, mpi: plain ? null : "MPI_Init_thread" },
      ],
      directories: [
        { path: "/scratch/ada", files: 1, read_bytes: 0, written_bytes: 9e9, read_s: 0, write_s: 12.2, sync_s: 0.4, meta_s: 0.1 },
        { path: "/home/ada/heat", files: 1, read_bytes: 6.7e7 * ranks, written_bytes: 0, read_s: 3.1, write_s: 0, sync_s: 0, meta_s: 0.6 },
      ],
      patterns: [{ path: "/scratch/ada/heat.h*", files: 12, opens: 240, read_bytes: 0, written_bytes: 9e9, read_s: 0, write_s: 12.2, sync_s: 0.4, meta_s: 0.1 }],
      by_file_only: { operations: 4200, bytes: 2.1e8, time_s: 0.8 },
      file_systems: [
        { name: "lustre /scratch", read_bytes: 0, written_bytes: 9e9, read_s: 0, write_s: 12.2, sync_s: 0.4, meta_s: 0.1 },
        { name: "nfs /home", read_bytes: 6.7e7 * ranks, written_bytes: 0, read_s: 3.1, write_s: 0, sync_s: 0, meta_s: 0.6 },
        { name: null, read_bytes: 0, written_bytes: 0, read_s: 0, write_s: 0, sync_s: 0, meta_s: 2.2 },
      ],
    },
    off_cpu: [
      { kind: "file", file: "/home/ada/heat/heat/output.py", line: 14, function: "write", library_function: null, time_s: 88.2, main_thread_s: 88.2, rank_max: 0 },
      { kind: "lock", file: "/home/ada/heat/src/pool.cpp", line: 31, function: "heat::Pool::wait()", library_function: "pthread_cond_wait", time_s: 41.5, main_thread_s: 0, rank_max: slowest },
      { kind: "sleep", file: heat, line: 40, function: "poll_control", library_function: "sleep", time_s: 9.1, main_thread_s: 9.1, rank_max: 0 },
    ],
    imports: plain ? [] : [
      { package: "numpy", time_s: 0.31 * ranks, self_s: 0.24 * ranks, main_thread_s: 0.31 * ranks, ranks, rank_min_s: 0.3, rank_mean_s: 0.31, rank_max_s: 0.35, rank_max: slowest, direct: true, own: false, file: heat, line: 1, function: "<module>" },
      { package: hostile ? "<img src=x onerror=alert(8)>" : "h5py", time_s: 0.12 * ranks, self_s: 0.12 * ranks, main_thread_s: 0.12 * ranks, ranks, rank_min_s: 0.1, rank_mean_s: 0.12, rank_max_s: 0.2, rank_max: 0, direct: true, own: false, file: "/home/ada/heat/heat/output.py", line: 2, function: "<module>" },
      { package: null, time_s: 0.01 * ranks, self_s: 0.01 * ranks, main_thread_s: 0.01 * ranks, ranks, rank_min_s: 0, rank_mean_s: 0.01, rank_max_s: 0.02, rank_max: 0, direct: false, own: false, file: null, line: null, function: null },
    ],
    import_time: { time_s: 0.44 * ranks, main_thread_s: 0.44 * ranks, main_thread_io_s: 0.2 * ranks, rank_min_s: 0.4, rank_mean_s: 0.44, rank_max_s: 0.5, rank_max: 0 },
    timeline: null,
    torch_distributed: hostile
      ? { method: "samples", why: "No call over gloo was seen.", rows: [{ op: "all_reduce", kind: "collective", file: heat, line: 28, function: "<b>step</b>", time_s: 12.5, blocked_s: 11, running_s: 1.5, rank_min_s: 0.1, rank_mean_s: round(12.5 / ranks), rank_max_s: 2.5, rank_max: 0, late_ranks: [slowest], latest_rank: slowest, late_s: 9.5 }] }
      : { method: null, why: null, rows: [] },
    processes: plain ? [] : sampleProcesses(),
    process_groups: plain ? [] : sampleProcessGroups(),
    event_loops: plain ? [] : [
      {
        rank: 0, pid: 4000, tid: 4000, main_thread: true, thread: "server", kind: "asyncio", turns: 12000, idle_s: 40, busy_s: 9, blocked: 3,
        blocked_s: 1.5, awaited_s: 1.2, longest_block_s: 1.2, longest_block_at_s: 17.5,
        blocks: [{ time_s: 1.5, awaited_s: 1.2, count: 3, longest_s: 1.2, function: "handle", file: "/home/ada/heat/server.py", line: 40, called: "json.loads", task: hostile ? "<img src=x onerror=alert(8)>" : "Server.handle" }],
      },
    ],
    mutexes: plain ? [] : [
      { file: "/home/ada/heat/src/pool.cpp", line: 31, function: hostile ? "<b>wait</b>" : "heat::Pool::wait()", wait_s: 12.5, samples: 900, mutexes: ranks, rank_min_s: 0, rank_mean_s: round(12.5 / ranks), rank_max_s: 3, rank_max: slowest, holders: [{ file: "/home/ada/heat/src/pool.cpp", line: 48, function: "heat::Pool::refill()", wait_s: 11 }] },
      { file: null, line: null, function: null, wait_s: 0.2, samples: 3, mutexes: null, rank_min_s: 0, rank_mean_s: 0, rank_max_s: 0.2, rank_max: 0, holders: [] },
    ],
    locks: plain ? [] : [
      { kind: "mutex", name: hostile ? "<i>pool</i>" : "heat::Pool::all+0x28", rank: null, address: null, mutexes: ranks, wait_s: 9.5, waits: 700, longest_s: 0.31, rank_min_s: 0, rank_mean_s: 9.5 / ranks, rank_max_s: 4, rank_max: slowest,
        lines: [{ file: "/home/ada/heat/src/pool.cpp", line: 31, function: "heat::Pool::wait()", wait_s: 9.5 }], holders: [{ file: "/home/ada/heat/src/pool.cpp", line: 52, function: "heat::Pool::run()", wait_s: 9 }] },
      { kind: "condition", name: null, rank: 0, address: "0x55d0c0de4060", mutexes: 1, wait_s: 3, waits: 200, longest_s: 0.1, rank_min_s: 0, rank_mean_s: 3 / ranks, rank_max_s: 3, rank_max: 0, lines: [], holders: [] },
      { kind: "mutex", name: null, rank: null, address: null, mutexes: null, wait_s: 0.2, waits: 3, longest_s: 0.1, rank_min_s: 0, rank_mean_s: 0, rank_max_s: 0.2, rank_max: 0, lines: [], holders: [] },
    ],
    openmp: plain ? null : {
      efficiency: { parallel: 0.62, load_balance: 0.84, scheduling: 0.98, serialization: 0.753 },
      hybrid: { parallel: 0.428, mpi: 0.69, openmp: 0.62 },
      work_s: 62, imbalance_s: 15.8, schedule_s: 2, serialization_s: 20.2,
      regions: [
        {
          file: "/home/ada/heat/src/stencil.cpp", line: 12, function: "heat::apply()", called: null, kind: "parallel", level: 0, count: 2000 * ranks, unfinished: 0,
          time_s: 9.5 * ranks, rank_min_s: 9, rank_mean_s: 9.5, rank_max_s: 13, rank_max: slowest, wait_s: 12 * ranks, end_wait_s: 4 * ranks, serial_s: 1.5 * ranks, work_s: 25 * ranks, schedule_s: ranks, threads_s: 38 * ranks,
          threads: 4, threads_asked: 8, imbalance: 1.42, efficiency: 0.66, load_balance: 0.72, scheduling: 0.97, serialization: 0.945,
          constructs: [
            { kind: "loop", file: "/home/ada/heat/src/stencil.cpp", line: 14, function: hostile ? "<img src=x onerror=alert(8)>" : "heat::apply()", count: 8000 * ranks, time_s: 32 * ranks, wait_s: 6.5 * ranks, schedule_s: 0.5 * ranks, chunks: 64000 * ranks, iterations: 1024000 * ranks, imbalance: 1.4, schedules: ["dynamic"] },
            { kind: "critical", file: "/home/ada/heat/src/stencil.cpp", line: 21, function: "heat::apply()", count: 8000 * ranks, time_s: 1.5 * ranks, wait_s: 1.5 * ranks, schedule_s: 0, chunks: null, iterations: null, imbalance: null, schedules: [] },
          ],
          by_thread: [0, 1, 2, 3].map((number) => ({ number, work_s: (9.4 - number) * ranks, wait_s: number * ranks })),
          by_rank: Array.from({ length: Math.min(ranks, 32) }, (_, rank) => ({
            rank, count: 2000, threads: 4, time_s: 9.5, threads_s: 38, work_s: 25, wait_s: 12, serial_s: 1.5, schedule_s: 1, imbalance: 1.42, efficiency: 0.66, load_balance: 0.72, scheduling: 0.97, serialization: 0.945,
            by_thread: [0, 1, 2, 3].map((number) => ({ number, work_s: 9.4 - number, wait_s: number })),
          })),
        },
        {
          file: heat, line: 22, function: "step", called: "libopenblas.dgemm_", kind: "parallel", level: 0, count: 200 * ranks, unfinished: 1,
          time_s: ranks, rank_min_s: 1, rank_mean_s: 1, rank_max_s: 1, rank_max: 0, wait_s: 0.1 * ranks, end_wait_s: 0.1 * ranks, serial_s: 0, work_s: 3.8 * ranks, schedule_s: 0.1 * ranks, threads_s: 4 * ranks,
          threads: 4, threads_asked: null, imbalance: 1.02, efficiency: 0.95, load_balance: 0.974, scheduling: 0.975, serialization: 1, constructs: [], by_thread: [], by_rank: [],
        },
      ],
      serial: [
        { file: heat, line: 20, function: "step", time_s: 2.2 * ranks, lost_s: 6.6 * ranks, native_s: 2 * ranks },
        { file: null, line: null, function: null, time_s: 0.2 * ranks, lost_s: 0.6 * ranks, native_s: 0 },
      ],
      ranks: Array.from({ length: Math.min(ranks, 512) }, (_, rank) => ({
        rank, recorded_by: "gomp", runtime: "libgomp.so.1", other_runtime: hostile && rank === 0, threads: 4, processors: 4, region_s: 10.5, serial_s: 2.4, mpi_s: 5, work_s: 28.8, wait_s: 12.1,
      })),
    },
    tasks: plain ? [] : [
      { rank: 0, name: hostile ? "<img src=x onerror=alert(9)>" : "crawler", function: "fetch", file: "/home/ada/heat/server.py", line: 60, time_s: 5.5, cpu_s: 5.1 },
      { rank: 0, name: null, function: "Server.handle", file: "/home/ada/heat/server.py", line: 30, time_s: 2.5, cpu_s: 2.4 },
    ],
    task_tree: plain ? [] : [
      { parent: null, name: "main", fold: null, file: "/home/ada/heat/server.py", line: 80, kind: "python", module: null, self_s: 0.1, total_s: 8 },
      { parent: 0, name: "fetch", fold: null, file: "/home/ada/heat/server.py", line: 60, kind: "python", module: null, self_s: 5.4, total_s: 5.4 },
      { parent: 0, name: hostile ? "<img src=x onerror=alert(9)>" : "Server.handle", fold: null, file: "/home/ada/heat/server.py", line: 30, kind: "python", module: null, self_s: 2.5, total_s: 2.5 },
    ],
    threads: plain ? [] : sampleThreads(),
    thread_groups: plain ? [] : sampleThreadGroups(),
    regions: plain ? [] : [regionRow("epoch", 0.86, 20, 0.16), regionRow("epoch/step", 0.7, 2000, 0.12), regionRow("checkpoint", 0.08, 20, 0.2)],
    quality: { samples: ranks * 6120, rate_reached_hz: 98.7, handler_median_s: 9.1e-6, handler_p99_s: 4.4e-5, recording_s: ranks * 0.061, recording_share: 0.0008, dropped: hostile ? { ring_full: 312, reentrant: 4 } : {}, truncated: hostile ? 2100 : 12, merges_tried: ranks * 5000, merges_failed: hostile ? 9000 : 14, merge_success_percent: hostile ? 97.1 : 99.98 },
    bottleneck: [
      { scope: "run", rank: null, region: null, class: "compute", share: 0.52, evidence: "52 % of all rank time in native code: heat::apply() stencil.cpp:16" },
      ...(plain ? [] : [{ scope: "run", rank: null, region: null, class: "imbalance", share: 0.24, evidence: `rank ${slowest} works 1.4 times as long as the mean` }]),
      { scope: "run", rank: null, region: null, class: "python", share: 0.13, evidence: "13 % of all rank time in bytecode: step() heat.py:20" },
      { scope: "run", rank: null, region: null, class: "io", share: 0.05, evidence: "write to /scratch/ada/heat.h5" },
      ...Array.from({ length: Math.min(ranks, 512) }, (_, r) => ({ scope: "rank", rank: r, region: null, class: r % 4 ? "compute" : "imbalance", share: 0.5, evidence: "" })),
    ],
    findings: ([
      ...(hostile ? [{ kind: "rank_failed", severity: "high", share: null, text: `rank ${ranks - 1} was ended by SIGKILL <img src=x onerror=alert(7)>: look at the scheduler's log (memory limit?)`, file: null, line: null, rank: ranks - 1 }] : []),
      ...(plain ? [] : [
        { kind: "load_imbalance", severity: "high", share: 0.29, gain_s: 0.26 * elapsed, gain_error_s: 0.01 * elapsed, gain_method: "replay", change: `rank ${slowest} = mean`, text: `Load imbalance: rank ${slowest} computes 1.42 times as long as the mean rank; the others wait for it in MPI_Allreduce. Divide the work more evenly, or look at what is special on that rank.`, file: "/home/ada/heat/src/stencil.cpp", line: 16, rank: slowest },
        { kind: "delay", severity: "medium", share: 0.11, gain_s: 0.11 * elapsed, text: `heat::apply() on rank ${slowest} makes ${ranks - 1} ranks wait, at MPI_Allreduce <- converged() heat.py:28.`, file: "/home/ada/heat/src/stencil.cpp", line: 16, rank: slowest },
      ]),
      { kind: "python_bytecode", severity: "low", share: 0.13, text: "The Python interpreter takes 13 % of all rank time, most of it in step().", file: heat, line: 20, rank: null },
      { kind: "file_io", severity: "low", share: 0.05, text: "I/O: rank 0 writes 9.00 GB to /scratch/ada/heat.h5 while the others wait. Try collective MPI-IO.", file: "/home/ada/heat/heat/output.py", line: 14, rank: 0 },
      { kind: "no_samples", severity: "info", share: null, text: "Hardware counters are not available: perf_event_paranoid is 3.", file: null, line: null, rank: null },
    ]).map((finding) => ({ gain_s: null, estimate: false, action: null, evidence: {}, function: null, op: null, library_function: null, ranks: finding.rank === null ? [] : [finding.rank], gain_error_s: null, gain_method: finding.gain_s === undefined ? null : "sums", change: null, ...finding })),
    whatif: plain ? null : {
      method: "replay", refused: null, elapsed_s: elapsed, replayed_s: 0.998 * elapsed, stretches: hostile ? { count: 11, time_s: 0.007 * elapsed } : null, to_try: 6, tried: 4,
      refused_changes: [{ change: hostile ? "function <img src=x onerror=alert(8)> x0.5" : "bandwidth x2", reason: "nothing tells the network's bandwidth" }],
      candidates: [
        [`rank ${slowest} = mean`, 0.26, 0.01, null, null, null, slowest],
        [hostile ? "function <img src=x onerror=alert(9)> x0.5" : "function heat::apply x0.5", 0.21, 0.02, "/home/ada/heat/src/stencil.cpp", 14, "heat::apply", null],
        ["line heat.py:20 x0.5", 0.06, 0.02, heat, 20, "step", null],
        ["latency x0.5", 0.004, 0.02, null, null, null, null],
      ].map(([change, share, error, file, line, name, rank]) => ({ change, gain_s: share * elapsed, predicted_s: (0.998 - share) * elapsed, error_s: error * elapsed, file, line, function: name, rank })),
    },
  };
  if (!plain) {
    report.memory = sampleMemory({ ranks, ranksPerNode, nodes, elapsed, hostile, nodeName });
    report.labelled_memory = sampleLabels({ ranks, nodes, nodeName, hostile });
    const peaks = new Map(report.memory.ranks.map((row) => [row.rank, row.peak_bytes]));
    add("rank_held_peak_bytes", "f32", Float32Array.from({ length: ranks }, (_, r) => peaks.get(r) ?? 1.1e9));
    const tree = sampleHeldTree(hostile);
    const column = (name, type, Typed, of) => add(`held_${name}`, type, Typed.from(tree, of));
    column("parent", "u32", Uint32Array, (row) => (row.parent < 0 ? NONE : row.parent));
    column("kind", "u8", Uint8Array, (row) => row.kind);
    column("fold", "u8", Uint8Array, (row) => row.fold);
    for (const what of ["name", "file", "module"]) column(`${what}_string`, "u32", Uint32Array, (row) => string(row[what]));
    column("line", "u32", Uint32Array, (row) => row.line);
    [1, 1.1, 0.6, 30].forEach((factor, i) => column(`${["node_peak", "rank_peak", "live", "alloc"][i]}_bytes`, "f32", Float32Array, (row) => row.bytes * factor * ranks));
  }
  const header = {
    schema: "clusterprof.page/1", report, strings, arrays: {}, categories: CATEGORIES, off_cpu_kinds: ["sleep", "lock", "file"], wait_kinds: waitKinds, paths: paths.length, groups, rows, row_functions: rowFunctions,
    shortened: kept.length > rowLimit ? { functions: { kept: rowLimit, of: kept.length } } : {},
    time: { bin_s: timeBins ? elapsed / timeBins : 0, begin_s: 0, bins: timeBins },
    axis: { bin_s, begin_s: 0, bins }, series: seriesInfo, node_series: nodeSeries, matrix: { bin_ranks: binRanks }, sources: sourceList,
  };
  return encode(header, arrays);
}

// What --memory records: one line that leaks, one that one rank holds, many small ones.
function sampleMemory({ ranks, ranksPerNode, nodes, elapsed, hostile, nodeName }) {
  const heat = "/home/ada/heat/heat.py";
  const line = (file, number, name, domain, each, rest = {}) => ({
    file, line: number, function: name, domain, library_function: null, alloc_bytes: 40 * each * ranks, alloc_count: 2000 * ranks, error_bytes: Math.sqrt(each * ranks * 65536), freed_soon_bytes: 30 * each * ranks,
    live_end_bytes: 0.6 * each * ranks, copy_bytes: 0, copy_count: 0, rank_peak_bytes: 1.1 * each * ranks, node_peak_bytes: each * ranks, mapped_file_bytes: 0, rank_max: ranks - 1, rank_max_bytes: 1.3 * each,
    leak: false, leak_confidence: null, growth_bytes_per_s: null, ...rest,
  });
  const lines = [
    line(heat, 36, "main", "native", 6e8, { library_function: "numpy.zeros" }),
    line("/home/ada/heat/src/stencil.cpp", 14, "heat::apply(double const*, double*, unsigned long, unsigned long)", "native", 2e8, { copy_bytes: 9e9 * ranks, copy_count: 4000 * ranks }),
    line(heat, 21, hostile ? "<img src=x onerror=alert(9)>" : "step", "python", 1e8, { leak: true, leak_confidence: 0.93, growth_bytes_per_s: 2e5 * ranks }),
    line(null, null, null, "mpi", 5e7),
    ...Array.from({ length: 12 }, (_, i) => line("/home/ada/heat/heat/output.py", 10 + i, "write", "mmap", 1e7 / (i + 1))),
  ];
  const bins = 64;
  const rank = (r) => ({
    rank: r, peak_bytes: 1e9 + 1e6 * r, peak_at_s: 0.8 * elapsed, live_end_bytes: 6e8, max_rss_bytes: 1.4e9, untracked_bytes: 0, static_bytes: 0, max_anonymous_bytes: 1.3e9, live_at_max_anonymous_bytes: 1e9, mean_anonymous_bytes: 1e9,
    mean_live_bytes: 8e8, pss_bytes: 1.2e9, private_dirty_bytes: 1.1e9, huge_page_bytes: 4e8, swap_bytes: 0, near_bytes: 1.1e9, far_bytes: r % 2 ? null : 1e8,
  });
  return {
    interval_bytes: 65536,
    ranks: ranks > 512 ? [] : Array.from({ length: ranks }, (_, r) => rank(r)),
    nodes: Array.from({ length: Math.min(nodes, 200) }, (_, n) => ({
      name: nodeName(n), peak_bytes: ranksPerNode * 1.05e9 + n * 1e8, peak_at_s: 0.8 * elapsed, limit_bytes: n % 2 ? null : 1.2e9 * ranksPerNode, requested_bytes: 2e9 * ranksPerNode, used_bytes: 1e9 * ranksPerNode,
      max_used_bytes: 1.1e9 * ranksPerNode, limit_hits: 0, anonymous_bytes: 1e9 * ranksPerNode, file_bytes: 1e8, shared_bytes: 1e7, kernel_bytes: 1e7, swap_bytes: 0, growth_bytes_per_s: 2e5 * ranksPerNode,
      held: lines.slice(0, 3).map(({ file, line: number, function: name, domain, rank_max_bytes: bytes }, i) => ({ file, line: number, function: name, domain, rank: n * ranksPerNode + i, bytes })),
    })),
    lines,
    over_time: {
      bin_s: elapsed / bins, begin_s: 0, bins,
      lines: lines.map(({ file, line: number, function: name, node_peak_bytes: most }) => ({ file, line: number, function: name, bytes: Array.from({ length: bins }, (_, b) => Math.round(most * Math.min(1, b / 10))) })),
    },
  };
}

// Views of Kokkos: one that a rank has most of, one without a label.
function sampleLabels({ ranks, nodes, nodeName, hostile }) {
  const label = (name, each, rest = {}) => ({
    label: name, ranks, allocations: 3 * ranks, frees: 3 * ranks, alloc_bytes: 3 * each * ranks, live_end_bytes: 0, peak_bytes: each, space_peak_bytes: each * ranks,
    rank_max: ranks - 1, rank_max_bytes: each, ...rest,
  });
  const space = (name, labels) => {
    const peaks = labels.reduce((sum, row) => sum + row.space_peak_bytes, 0);
    return {
      name, ranks, processes: ranks, allocations: 3 * ranks * labels.length, frees: 3 * ranks * labels.length, alloc_bytes: 3 * peaks, live_end_bytes: 0, unknown_frees: 0, unknown_bytes: 0,
      rank_max: ranks - 1, rank_max_bytes: Math.round(peaks / ranks), rank_max_at_s: 4.2, peaks_bytes: peaks, node_max: nodeName(0), node_max_bytes: Math.round(peaks / nodes), by_rank: [], labels,
    };
  };
  return {
    spaces: [
      space("Cuda", [label(hostile ? "<img src=x onerror=alert(11)>" : "temperature", 4e8), label("halo", 2e7), label(null, 1e6, { rank_max_bytes: 0, space_peak_bytes: 0, live_end_bytes: 1e6 })]),
      space(hostile ? "<b>Host</b>" : "Host", [label(`Kokkos::View<double***, ${"x".repeat(80)}`, 1e7)]),
    ],
    copies: [{ to: "Cuda", from: "Host", count: 20 * ranks, bytes: 8e8 * ranks, rank_max: 0, rank_max_bytes: 8e8 }],
  };
}

function sampleHeldTree(hostile) {
  const heat = "/home/ada/heat/heat.py";
  const row = (parent, kind, name, line, bytes, fold = 0) => ({ parent, kind, name, file: fold ? null : heat, module: null, line, bytes, fold });
  return [
    row(-1, 0, "<module>", 1, 9e8),
    row(0, 0, "main", 32, 8.5e8),
    row(1, 1, "numpy.zeros", 0, 6e8, 1),
    row(1, 0, hostile ? "<img src=x onerror=alert(10)>" : "step", 18, 2.4e8),
    row(0, 1, "numpy", 0, 4e7, 2),
  ];
}

// Noise does not compress: 12 bits of it are enough. Times of the whole run stay as they are, as in real pages.
const EXACT = ["path_self_s", "path_helper_idle_s"];
function shorten(values) {
  const bits = new Uint32Array(values.buffer);
  for (let i = 0; i < bits.length; ++i) if ((bits[i] & 0x7f800000) !== 0x7f800000) bits[i] &= 0xfffff800;
}

// FORMAT.md: the bytes before gzip.
export function encode(header, arrays) {
  let offset = 0;
  header.arrays = {};
  for (const [name, { type, values }] of Object.entries(arrays)) if (type === "f32" && !EXACT.includes(name)) shorten(values);
  for (const [name, { type, values }] of Object.entries(arrays)) {
    header.arrays[name] = { type, offset, length: values.length };
    offset += Math.ceil(values.byteLength / 8) * 8;
  }
  const json = Buffer.from(JSON.stringify(header), "utf8");
  const begin = Math.ceil((12 + json.length) / 8) * 8;
  const bytes = Buffer.alloc(begin + offset);
  bytes.write("CPPAGE1\n", 0, "latin1");
  bytes.writeUInt32LE(json.length, 8);
  json.copy(bytes, 12);
  for (const [name, { values }] of Object.entries(arrays))
    Buffer.from(values.buffer, values.byteOffset, values.byteLength).copy(bytes, begin + header.arrays[name].offset);
  return bytes;
}

export function makePage(bytes, { template, script, style, title }) {
  const hash = (text) => createHash("sha256").update(text, "utf8").digest("base64");
  const escaped = title.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  const values = {
    STYLE_SHA256: hash(style), SCRIPT_SHA256: hash(script), VERSION: "sample", TITLE: escaped, STYLE: style, SCRIPT: script,
    DATA: gzipSync(bytes, { level: 6 }).toString("base64"),
  };
  return template.replace(/@([A-Z0-9_]+)@/g, (_, name) => values[name]);
}

if (basename(process.argv[1] ?? "") === "make_sample.mjs") {
  const { values } = parseArgs({
    options: {
      ranks: { type: "string", default: "64" }, "ranks-per-node": { type: "string", default: "32" }, paths: { type: "string", default: "4000" },
      hostile: { type: "boolean", default: false }, "no-source": { type: "boolean", default: false }, plain: { type: "boolean", default: false },
      seed: { type: "string", default: "1" }, dist: { type: "string" }, out: { type: "string", default: "sample.html" },
    },
  });
  const here = join(dirname(fileURLToPath(import.meta.url)), "..");
  const dist = values.dist ? resolve(values.dist) : join(here, "dist");
  const bytes = makeSample({
    ranks: Number(values.ranks), ranksPerNode: Number(values["ranks-per-node"]), paths: Number(values.paths), hostile: values.hostile,
    source: !values["no-source"], plain: values.plain, seed: Number(values.seed),
  });
  const page = makePage(bytes, {
    template: readFileSync(join(here, "page.html"), "utf8"), script: readFileSync(join(dist, "page.js"), "utf8"),
    style: readFileSync(join(dist, "page.css"), "utf8"), title: "python3 heat.py - clusterprof",
  });
  writeFileSync(values.out, page);
  console.log(`${values.out}: ${(page.length / 1e6).toFixed(2)} MB`);
}
