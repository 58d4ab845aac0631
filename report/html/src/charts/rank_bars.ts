// SPDX-License-Identifier: BSD-3-Clause
// How a function's total lies on the ranks.
import { cellSeconds, pathFunctions, pathTable } from "../calltree/of_model";
import { cssColour } from "../core/colours";
import { el, hideTip, showTip } from "../core/dom";
import { UNKNOWN, seconds } from "../core/format";
import type { Model } from "../core/model";
import { RankSet, type Store } from "../core/selection";

interface Part {
  first: number; // rank numbers
  last: number;
  ranks: number;
  value: number; // mean per rank
}

// In rank order; outliers, which have rows of their own, where they belong.
function partsOf(model: Model, f: number, helperIdle: boolean): Part[] {
  // Rows are without idle helper threads.
  const hasRows = f < model.header.row_functions && model.header.rows > 0 && !helperIdle;
  const parts = hasRows ? partsOfRows(model, f) : partsOfGroups(model, f, helperIdle);
  return parts.filter(Boolean).sort((a, b) => a.first - b.first || b.last - a.last);
}

function partsOfRows(model: Model, f: number): Part[] {
  const { rows } = model.header;
  const values = model.f32("function_row_s");
  const first = model.i32("row_first_rank");
  const last = model.i32("row_last_rank");
  const ranks = model.u32("row_ranks");
  return Array.from({ length: rows }, (_, row) => ({
    first: first[row],
    last: last[row],
    ranks: ranks[row],
    value: values[f * rows + row],
  }));
}

// From the call paths of each group of ranks; a group without ranks has no part.
function partsOfGroups(model: Model, f: number, helperIdle: boolean): Part[] {
  const parts: Part[] = [];
  const numbers = model.i32("rank_number");
  model.u32("group_of_rank").forEach((group, rank) => {
    const number = numbers[rank];
    const part = (parts[group] ??= { first: number, last: number, ranks: 0, value: 0 });
    part.first = Math.min(part.first, number);
    part.last = Math.max(part.last, number);
    ++part.ranks;
  });
  const inside = pathsBelow(model, f);
  const offset = model.u32("cell_offset");
  const paths = model.u32("cell_path");
  const self = cellSeconds(model, helperIdle);
  for (let group = 0; group < model.header.groups; ++group) {
    if (!parts[group]) continue;
    for (let cell = offset[group]; cell < offset[group + 1]; ++cell) {
      if (inside[paths[cell]]) parts[group].value += self[cell];
    }
    parts[group].value /= parts[group].ranks;
  }
  return parts;
}

// 1 for each call path that the function is on.
function pathsBelow(model: Model, f: number): Uint8Array {
  const table = pathTable(model);
  const functions = pathFunctions(model);
  const inside = new Uint8Array(table.paths);
  for (let path = 1; path < table.paths; ++path)
    inside[path] = inside[table.parent[path]] !== 0 || functions[path] === f ? 1 : 0;
  return inside;
}

const HEIGHT = 96;

const nameOf = (part: Part): string =>
  part.first === part.last ? `rank ${part.first}` : `ranks ${part.first}–${part.last} (${part.ranks})`;

// What one column of pixels shows of the parts in it.
interface Bar {
  mean: number;
  most: number;
  isChosen: boolean; // one of its parts
}

function barOf(parts: readonly Part[], isChosen: (part: Part) => boolean): Bar | null {
  let sum = 0;
  let count = 0;
  let most = 0;
  let any = false;
  for (const part of parts) {
    if (!Number.isFinite(part.value)) continue;
    sum += part.value;
    ++count;
    most = Math.max(most, part.value);
    any ||= isChosen(part);
  }
  return count === 0 ? null : { mean: sum / count, most, isChosen: any };
}

export class RankBars {
  readonly root: HTMLElement;
  private readonly parts: Part[];
  private readonly largest: number;
  private readonly mean: number;
  private readonly canvas = el("canvas", { role: "img" });
  private readonly observer = new ResizeObserver(() => this.draw());

  // `f`: a function.
  constructor(
    private readonly store: Store,
    f: number,
  ) {
    this.parts = partsOf(store.model, f, store.helperIdle);
    const known = this.parts.filter((part) => Number.isFinite(part.value));
    this.largest = known.reduce((a, part) => Math.max(a, part.value), 0);
    const ranks = known.reduce((a, part) => a + part.ranks, 0);
    this.mean = known.reduce((a, part) => a + part.value * part.ranks, 0) / ranks;
    if (known.length === 0) {
      this.root = el("p", { class: "muted" }, "Not recorded per rank.");
      return;
    }
    this.canvas.setAttribute(
      "aria-label",
      `Total per rank: mean ${seconds(this.mean)}, largest ${seconds(this.largest)}`,
    );
    this.root = el("div", { class: "rank-bars" }, this.canvas, this.axis());
    this.listen();
    this.observer.observe(this.canvas);
  }

  destroy(): void {
    this.observer.disconnect();
  }

  private axis(): HTMLElement {
    const { parts } = this;
    const text = parts.some((part) => part.ranks > 1) ? "mean of ranks that share a row" : "one bar per rank";
    return el(
      "div",
      { class: "axis" },
      el("span", null, `rank ${parts[0].first}`),
      el("span", null, text),
      el("span", null, String(parts[parts.length - 1].last)),
    );
  }

  private listen(): void {
    const { canvas, store } = this;
    canvas.addEventListener("pointermove", (event) => {
      const part = this.partAt(event);
      const value = part && Number.isFinite(part.value) ? seconds(part.value) : UNKNOWN;
      if (part) showTip(`${nameOf(part)}: ${value}. Click to choose`, event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("click", (event) => {
      const part = this.partAt(event);
      if (!part) return;
      hideTip();
      store.select({ ranks: RankSet.ofRanges([[part.first, part.last]]), nodes: null });
    });
  }

  private partAt(event: MouseEvent): Part | null {
    const { parts } = this;
    const box = this.canvas.getBoundingClientRect();
    const position = Math.floor(((event.clientX - box.left) / box.width) * parts.length);
    return parts[Math.max(0, Math.min(parts.length - 1, position))] ?? null;
  }

  private draw(): void {
    const { canvas } = this;
    const width = canvas.clientWidth;
    const context = canvas.getContext("2d");
    if (width === 0 || !context) return;
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(HEIGHT * scale);
    context.clearRect(0, 0, canvas.width, canvas.height);
    this.drawBars(context, scale);
    this.drawMean(context, scale);
  }

  private drawBars(context: CanvasRenderingContext2D, scale: number): void {
    const { canvas, largest, parts } = this;
    context.fillStyle = cssColour("--accent");
    const isChosen = this.chosenParts();
    const columns = Math.min(parts.length, canvas.width);
    for (let column = 0; column < columns; ++column) {
      const begin = Math.floor((column * parts.length) / columns);
      const end = Math.max(begin + 1, Math.floor(((column + 1) * parts.length) / columns));
      const bar = barOf(parts.slice(begin, end), isChosen);
      if (!bar || largest === 0) continue;
      const left = Math.round((column * canvas.width) / columns);
      const right = Math.round(((column + 1) * canvas.width) / columns);
      const gap = right - left > 4 * scale ? scale : 0;
      const fill = (value: number, alpha: number): void => {
        const height = (value / largest) * (canvas.height - 2 * scale);
        context.globalAlpha = alpha * (bar.isChosen ? 1 : 0.3);
        context.fillRect(left, canvas.height - height, Math.max(1, right - left - gap), height);
      };
      // Many rows on few pixels: the largest of a column behind the mean.
      if (end - begin > 1) fill(bar.most, 0.4);
      fill(bar.mean, 0.85);
    }
    context.globalAlpha = 1;
  }

  // A dashed line.
  private drawMean(context: CanvasRenderingContext2D, scale: number): void {
    const { largest, mean } = this;
    const { width, height } = this.canvas;
    context.fillStyle = cssColour("--text-2");
    const y = Math.round(height - (largest > 0 ? mean / largest : 0) * (height - 2 * scale));
    for (let x = 0; x < width; x += 6 * scale)
      context.fillRect(x, y, 3 * scale, Math.max(1, Math.round(scale)));
  }

  private chosenParts(): (part: Part) => boolean {
    const { model, selection } = this.store;
    const mask = this.store.rankMask();
    const { ranks } = selection;
    if (!mask) return () => true;
    if (ranks) return (part) => ranks.ranges.some(([a, b]) => a <= part.last && b >= part.first);
    return (part) => {
      const index = model.rankIndex(part.first);
      return index >= 0 && mask[index] !== 0;
    };
  }
}
