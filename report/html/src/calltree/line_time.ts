// SPDX-License-Identifier: BSD-3-Clause
// Source lines under a selection. The report knows lines of the whole run; how much of a line's time is chosen
// is seen from the call paths that end in it, and its times are multiplied by that.
import { CATEGORIES, type Model, NONE } from "../core/model";
import type { Store } from "../core/selection";
import { CATEGORY_COUNT, inclusive, weights } from "../core/weights";

export interface LineTime {
  self: number;
  total: number;
  parts: Float64Array; // by category, of self
}

const lineOfPath = new WeakMap<Model, { source: Uint32Array; own: Uint32Array }>();

// By path, as indices into report.lines: the innermost line that the report has, and the path's own.
function linesOfPaths(model: Model): { source: Uint32Array; own: Uint32Array } {
  const known = lineOfPath.get(model);
  if (known) return known;
  const rows = new Map<string, number>();
  model.report.lines.forEach((row, index) => rows.set(`${row.line} ${row.function}\0${row.file}`, index));
  const ofFrame = new Uint32Array(model.frameCount).fill(NONE);
  const names = model.u32("frame_name_string");
  const files = model.u32("frame_file_string");
  const lines = model.u32("frame_line");
  for (let frame = 0; frame < ofFrame.length; ++frame) {
    if (lines[frame] === 0 || files[frame] === NONE) continue;
    const row = rows.get(`${lines[frame]} ${model.text(names[frame])}\0${model.text(files[frame])}`);
    if (row !== undefined) ofFrame[frame] = row;
  }
  const parents = model.u32("path_parent");
  const frames = model.u32("path_frame");
  const own = new Uint32Array(model.pathCount).fill(NONE);
  const source = new Uint32Array(model.pathCount).fill(NONE);
  for (let path = 1; path < model.pathCount; ++path) {
    if (frames[path] !== NONE) own[path] = ofFrame[frames[path]];
    source[path] = own[path] !== NONE ? own[path] : source[parents[path]];
  }
  const made = { source, own };
  lineOfPath.set(model, made);
  return made;
}

// By row of report.lines.
export function lineTimes(store: Store): LineTime[] {
  const { model } = store;
  const of = weights(store);
  const { source, own } = linesOfPaths(model);
  const lines = model.report.lines;
  const self = model.f32("path_self_s");
  const helper = model.f32("path_helper_idle_s");
  const parents = model.u32("path_parent");
  const chosen = new Float64Array(lines.length * CATEGORY_COUNT);
  const all = new Float64Array(lines.length * CATEGORY_COUNT);
  const everything = new Float64Array(model.pathCount);
  let whole = 0;
  for (let path = 0; path < model.pathCount; ++path) {
    const row = source[path];
    for (let c = 0; c < CATEGORY_COUNT; ++c) {
      const value = self[path * CATEGORY_COUNT + c];
      everything[path] += value;
      if (row === NONE) continue;
      const idleHelpers = c === CATEGORY_COUNT - 1 && !store.helperIdle ? helper[path] : 0;
      all[row * CATEGORY_COUNT + c] += value;
      chosen[row * CATEGORY_COUNT + c] += Math.max(0, value - idleHelpers) * of.factor[path];
    }
    whole += everything[path];
  }
  const everythingBelow = inclusive(model, everything);
  const totalChosen = new Float64Array(lines.length);
  const totalAll = new Float64Array(lines.length);
  for (let path = 1; path < model.pathCount; ++path) {
    const row = own[path];
    if (row === NONE) continue;
    let again = false;
    for (let above = parents[path]; above !== 0 && !again; above = parents[above]) again = own[above] === row;
    if (again) continue;
    totalChosen[row] += of.total[path];
    totalAll[row] += everythingBelow[path];
  }
  // Of a line without a call path large enough to be there: as all time.
  const overall = of.isWhole ? 1 : whole > 0 ? Math.min(1, of.sum / whole) : 0;
  return lines.map((row, index) => {
    const parts = new Float64Array(CATEGORY_COUNT);
    CATEGORIES.forEach((category, c) => {
      const at = index * CATEGORY_COUNT + c;
      parts[c] = row[`${category}_s`] * (all[at] > 0 ? chosen[at] / all[at] : overall);
    });
    return {
      self: parts.reduce((a, b) => a + b, 0),
      total: row.total_s * (totalAll[index] > 0 ? totalChosen[index] / totalAll[index] : overall),
      parts,
    };
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
