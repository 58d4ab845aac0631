// SPDX-License-Identifier: BSD-3-Clause
// Source lines under a selection. The report knows lines of the whole run; how much of a line's time is chosen
// is seen from the call paths that count for it, and its times are multiplied by that.
import { IDLE, type Model, NONE } from "../core/model";
import type { Store } from "../core/selection";
import { CATEGORY_COUNT, inclusive, partOfRow, partsOfRow, weights, wholeSelf } from "../core/weights";

export interface LineTime {
  self: number;
  total: number;
  parts: Float64Array; // by category, of self
}

interface LineSums {
  self: Float64Array;
  total: Float64Array; // recursion counts once
}

// By row of report.lines, of call paths alone.
function lineSums(model: Model, self: Float64Array, total: Float64Array): LineSums {
  const count = model.report.lines.length;
  const sums = { self: new Float64Array(count), total: new Float64Array(count) };
  const lines = model.u32("path_line");
  const own = model.u32("path_own_line");
  const parents = model.u32("path_parent");
  for (let path = 0; path < model.pathCount; ++path) {
    if (lines[path] < count) sums.self[lines[path]] += self[path];
    if (own[path] >= count || total[path] === 0) continue;
    let again = false;
    for (let above = parents[path]; above !== 0 && !again; above = parents[above]) again = own[above] === own[path];
    if (!again) sums.total[own[path]] += total[path];
  }
  return sums;
}

const wholeSums = new WeakMap<Model, LineSums>();

function wholeLines(model: Model): LineSums {
  let known = wholeSums.get(model);
  if (!known) {
    const self = wholeSelf(model, true);
    wholeSums.set(model, (known = lineSums(model, self, inclusive(model, self))));
  }
  return known;
}

// By row of report.lines.
export function lineTimes(store: Store): LineTime[] {
  const { model, helperIdle } = store;
  const of = weights(store);
  const count = model.report.lines.length;
  const lines = model.u32("path_line");
  const self = model.f32("path_self_s");
  const helper = model.f32("path_helper_idle_s");
  const chosenParts = new Float64Array(count * CATEGORY_COUNT);
  const allParts = new Float64Array(count * CATEGORY_COUNT);
  for (let path = 0; path < model.pathCount; ++path) {
    const row = lines[path];
    if (row >= count) continue;
    for (let c = 0; c < CATEGORY_COUNT; ++c) {
      const value = self[path * CATEGORY_COUNT + c];
      const idleHelpers = c === IDLE && !helperIdle ? helper[path] : 0;
      allParts[row * CATEGORY_COUNT + c] += value;
      chosenParts[row * CATEGORY_COUNT + c] += Math.max(0, value - idleHelpers) * of.factor[path];
    }
  }
  const chosen = lineSums(model, of.self, of.total);
  const whole = wholeLines(model);
  return model.report.lines.map((row, index) => {
    const { self: own, total } = partOfRow(
      { self: row.self_s, total: row.total_s },
      { self: chosen.self[index], total: chosen.total[index] },
      { self: whole.self[index], total: whole.total[index] },
      of.overall,
    );
    const at = index * CATEGORY_COUNT;
    const parts = partsOfRow(
      row,
      chosenParts.subarray(at, at + CATEGORY_COUNT),
      allParts.subarray(at, at + CATEGORY_COUNT),
      of.overall,
      own,
    );
    return { self: own, total, parts };
  });
}

export interface Inlined {
  frame: number; // of the inlined function
  seconds: number;
}

// What the compiler put into a line in place of a call: by file and line of the call, largest first.
export function inlinedAt(store: Store): (file: string, line: number) => Inlined[] {
  const { model } = store;
  const { total } = weights(store);
  const parents = model.u32("path_parent");
  const frames = model.u32("path_frame");
  const inlined = model.u8("frame_inlined");
  const files = model.u32("frame_file_string");
  const lines = model.u32("frame_line");
  const functions = model.u32("frame_function");
  const names = model.u32("frame_name_string");
  const callee = (frame: number): number | string =>
    functions[frame] === NONE ? `name ${names[frame]}` : functions[frame];
  const pairOf = (path: number): string | null => {
    const frame = frames[path];
    const caller = frames[parents[path]];
    if (frame === NONE || caller === NONE || inlined[frame] === 0) return null;
    if (lines[caller] === 0 || files[caller] === NONE) return null;
    return `${lines[caller]} ${files[caller]} ${callee(frame)}`;
  };
  const places = new Map<string, Map<string, Inlined>>();
  for (let path = 1; path < model.pathCount; ++path) {
    const pair = pairOf(path);
    if (pair === null || !(total[path] > 0)) continue;
    let again = false;
    for (let above = parents[path]; above !== 0 && !again; above = parents[above])
      again = pairOf(above) === pair;
    if (again) continue;
    const caller = frames[parents[path]];
    const place = `${lines[caller]} ${model.text(files[caller])}`;
    let at = places.get(place);
    if (!at) places.set(place, (at = new Map()));
    const known = at.get(pair);
    if (known) known.seconds += total[path];
    else at.set(pair, { frame: frames[path], seconds: total[path] });
  }
  return (file, line) =>
    [...(places.get(`${line} ${file}`)?.values() ?? [])].sort((a, b) => b.seconds - a.seconds);
}
