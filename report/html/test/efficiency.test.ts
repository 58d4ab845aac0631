// SPDX-License-Identifier: BSD-3-Clause
import assert from "node:assert/strict";
import test from "node:test";
import type { EfficiencyWindow, OpenMp, OpenMpWindow } from "../src/core/report";
import { efficienciesOf, stretches } from "../src/timeline/efficiency";

const window = (begin_s: number): EfficiencyWindow => ({
  begin_s,
  end_s: begin_s + 1,
  parallel: 0.8,
  load_balance: 0.9,
  communication: 0.89,
  wait_s: 0,
  hybrid_parallel: null,
  openmp_parallel: null,
});
const part = (begin_s: number, mpi: number | null): OpenMpWindow => ({
  begin_s,
  end_s: begin_s + 1,
  efficiency: { parallel: 0.5, load_balance: 0.7, scheduling: 1, serialization: 0.71 },
  hybrid: { parallel: mpi === null ? null : mpi * 0.5, mpi, openmp: 0.5 },
  work_s: 1,
  imbalance_s: 0,
  schedule_s: 0,
  serialization_s: 1,
});
const openmp = (mpi: number | null, over_time: OpenMpWindow[] | null): OpenMp => ({
  efficiency: { parallel: 0.5, load_balance: 0.7, scheduling: 1, serialization: 0.71 },
  hybrid: { parallel: 0.4, mpi, openmp: 0.5 },
  work_s: 1,
  imbalance_s: 0,
  schedule_s: 0,
  serialization_s: 1,
  regions: [],
  serial: [],
  over_time,
  ranks: [],
});

test("a hybrid run has MPI and OpenMP beside each other, part by part", () => {
  const found = efficienciesOf({
    efficiency_windows: [window(0), window(2)],
    openmp: openmp(0.8, [part(0, 0.8), part(1, null), part(2, 0.8)]),
  });
  assert.deepEqual(found.curves, ["hybrid", "MPI", "OpenMP"]);
  assert.deepEqual(
    found.parts.map(({ shares }) => [shares.hybrid, shares.MPI, shares.OpenMP, shares.communication]),
    [
      [0.4, 0.8, 0.5, 0.89],
      [null, null, 0.5, null],
      [0.4, 0.8, 0.5, 0.89],
    ],
  );
  for (const name of found.curves) assert.ok(name in found.parts[0].shares, name);
});

test("without MPI it is OpenMP's, without OpenMP over time it is MPI's", () => {
  const threads = efficienciesOf({ efficiency_windows: null, openmp: openmp(null, [part(0, null)]) });
  assert.equal(threads.parts[0].shares.parallel, 0.5);
  assert.equal(threads.parts[0].shares.serialization, 0.71);
  for (const old of [openmp(0.8, null), null]) {
    const found = efficienciesOf({ efficiency_windows: [window(0)], openmp: old });
    assert.deepEqual(found.parts.map(({ shares }) => shares), [{ parallel: 0.8, "load balance": 0.9, communication: 0.89 }]);
    for (const name of found.curves) assert.ok(name in found.parts[0].shares, name);
  }
  assert.deepEqual(efficienciesOf({ efficiency_windows: null, openmp: null }).parts, []);
});

test("curves have gaps where parts are not known or left out", () => {
  const { parts } = efficienciesOf({
    efficiency_windows: [0, 1, 2, 5, 6].map((begin_s) => ({ ...window(begin_s), load_balance: begin_s === 1 ? null : 0.9 })),
    openmp: null,
  });
  const begins = (name: string) => stretches(parts, name).map((stretch) => stretch.map(({ begin_s }) => begin_s));
  assert.deepEqual(begins("parallel"), [
    [0, 1, 2],
    [5, 6],
  ]);
  assert.deepEqual(begins("load balance"), [[0], [2], [5, 6]]);
  assert.deepEqual(begins("of nobody"), []);
});
