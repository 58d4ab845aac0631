// SPDX-License-Identifier: BSD-3-Clause
// How a function's total lies on the ranks.
import { cellSeconds, pathFunctions, pathTable } from "../calltree/of_model";
import { cssColour } from "../core/colours";
import { el, hideTip, showTip } from "../core/dom";
import { UNKNOWN, seconds } from "../core/format";
import type { Model } from "../core/model";
import { RankSet, type Store } from "../core/selection";

export interface RankBars {
  root: HTMLElement;
  destroy(): void;
}

interface Part {
  first: number; // rank numbers
  last: number;
  ranks: number;
  value: number; // mean per rank
}

// In rank order; outliers, which have rows of their own, where they belong.
function parts(model: Model, f: number, helperIdle: boolean): Part[] {
  const rows = model.header.rows;
  const result: Part[] = [];
  // Rows are without idle helper threads.
  if (f < model.header.row_functions && rows > 0 && !helperIdle) {
    const values = model.f32("function_row_s");
    const first = model.i32("row_first_rank");
    const last = model.i32("row_last_rank");
    const ranks = model.u32("row_ranks");
    for (let row = 0; row < rows; ++row) {
      result.push({ first: first[row], last: last[row], ranks: ranks[row], value: values[f * rows + row] });
    }
  } else {
    const groups = model.header.groups;
    const table = pathTable(model);
    const functions = pathFunctions(model);
    const inside = new Uint8Array(table.paths);
    for (let path = 1; path < table.paths; ++path) {
      inside[path] = inside[table.parent[path]] !== 0 || functions[path] === f ? 1 : 0;
    }
    const numbers = model.i32("rank_number");
    model.u32("group_of_rank").forEach((group, rank) => {
      const number = numbers[rank];
      const part = (result[group] ??= { first: number, last: number, ranks: 0, value: 0 });
      part.first = Math.min(part.first, number);
      part.last = Math.max(part.last, number);
      ++part.ranks;
    });
    const offset = model.u32("cell_offset");
    const paths = model.u32("cell_path");
    const self = cellSeconds(model, helperIdle);
    for (let group = 0; group < groups; ++group) {
      if (!result[group]) continue;
      for (let cell = offset[group]; cell < offset[group + 1]; ++cell) {
        if (inside[paths[cell]]) result[group].value += self[cell];
      }
      result[group].value /= result[group].ranks;
    }
  }
  return result.filter(Boolean).sort((a, b) => a.first - b.first || b.last - a.last);
}

const HEIGHT = 96;

export function rankBars(store: Store, f: number): RankBars {
  const { model } = store;
  const all = parts(model, f, store.helperIdle);
  const known = all.filter((part) => Number.isFinite(part.value));
  if (known.length === 0) {
    return { root: el("p", { class: "muted" }, "Not recorded per rank."), destroy() {} };
  }
  const largest = known.reduce((a, part) => Math.max(a, part.value), 0);
  const ranks = known.reduce((a, part) => a + part.ranks, 0);
  const mean = known.reduce((a, part) => a + part.value * part.ranks, 0) / ranks;
  const canvas = el("canvas", {
    role: "img",
    "aria-label": `Total per rank: mean ${seconds(mean)}, largest ${seconds(largest)}`,
  });
  const text = all.some((part) => part.ranks > 1) ? `mean of ranks that share a row` : `one bar per rank`;
  const root = el(
    "div",
    { class: "rank-bars" },
    canvas,
    el(
      "div",
      { class: "axis" },
      el("span", null, `rank ${all[0].first}`),
      el("span", null, text),
      el("span", null, String(all[all.length - 1].last)),
    ),
  );

  const at = (event: MouseEvent): Part | null => {
    const box = canvas.getBoundingClientRect();
    const position = Math.floor(((event.clientX - box.left) / box.width) * all.length);
    return all[Math.max(0, Math.min(all.length - 1, position))] ?? null;
  };
  const name = (part: Part): string =>
    part.first === part.last ? `rank ${part.first}` : `ranks ${part.first}–${part.last} (${part.ranks})`;
  canvas.addEventListener("pointermove", (event) => {
    const part = at(event);
    const value = part && Number.isFinite(part.value) ? seconds(part.value) : UNKNOWN;
    if (part) showTip(`${name(part)}: ${value}. Click to choose`, event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => {
    const part = at(event);
    if (!part) return;
    hideTip();
    store.select({ ranks: RankSet.ofRanges([[part.first, part.last]]), nodes: null });
  });

  function draw(): void {
    const width = canvas.clientWidth;
    const context = canvas.getContext("2d");
    if (width === 0 || !context) return;
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(HEIGHT * scale);
    const chosen = store.rankMask();
    const { ranks: set } = store.selection;
    const isChosen = (part: Part): boolean =>
      !chosen ||
      (set !== null && set.ranges.some(([a, b]) => a <= part.last && b >= part.first)) ||
      (set === null && ofNode(part));
    const ofNode = (part: Part): boolean => {
      const index = model.rankIndex(part.first);
      return index >= 0 && chosen !== null && chosen[index] !== 0;
    };
    const colour = cssColour("--accent");
    const base = canvas.height;
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = colour;
    // Many rows on few pixels: the largest of a column behind the mean.
    const columns = Math.min(all.length, canvas.width);
    for (let column = 0; column < columns; ++column) {
      const begin = Math.floor((column * all.length) / columns);
      const end = Math.max(begin + 1, Math.floor(((column + 1) * all.length) / columns));
      let sum = 0;
      let count = 0;
      let most = 0;
      let any = false;
      for (let i = begin; i < end; ++i) {
        if (!Number.isFinite(all[i].value)) continue;
        sum += all[i].value;
        ++count;
        most = Math.max(most, all[i].value);
        any ||= isChosen(all[i]);
      }
      if (count === 0 || largest === 0) continue;
      const left = Math.round((column * canvas.width) / columns);
      const right = Math.round(((column + 1) * canvas.width) / columns);
      const gap = right - left > 4 * scale ? scale : 0;
      const bar = (value: number, alpha: number): void => {
        const height = (value / largest) * (base - 2 * scale);
        context.globalAlpha = alpha * (any ? 1 : 0.3);
        context.fillRect(left, base - height, Math.max(1, right - left - gap), height);
      };
      if (end - begin > 1) bar(most, 0.4);
      bar(sum / count, 0.85);
    }
    context.globalAlpha = 1;
    context.fillStyle = cssColour("--text-2");
    const line = Math.round(base - (largest > 0 ? mean / largest : 0) * (base - 2 * scale));
    for (let x = 0; x < canvas.width; x += 6 * scale)
      context.fillRect(x, line, 3 * scale, Math.max(1, Math.round(scale)));
  }
  const observer = new ResizeObserver(draw);
  observer.observe(canvas);
  return {
    root,
    destroy() {
      observer.disconnect();
    },
  };
}
