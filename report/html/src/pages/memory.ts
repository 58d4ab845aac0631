// SPDX-License-Identifier: BSD-3-Clause
// Memory: how much each rank uses, over the run and over time, and the lines that work on much data.
import { lineChart, type Chart } from "../core/chart";
import { cssColour } from "../core/colours";
import { el, hideTip, miniBar, ofWholeRun, replace, section, showTip, type Child } from "../core/dom";
import { table, type Column } from "../core/table";
import { bytes, percent, plural, printable, shortenMiddle } from "../core/format";
import { lineTarget, rankTarget } from "../core/links";
import type { Model } from "../core/model";
import type { Page } from "../core/page";
import type { MemoryLine } from "../core/report";
import { RankSet, type Store } from "../core/selection";
import { binParts } from "../core/over_time";
import { chosenInRows, shownBins } from "../core/totals";
import { bandOf, type Band } from "../charts/rows";

const rssSeries = (model: Model): number => model.header.series.findIndex((s) => s.name === "rss_bytes");
const hasRss = (model: Model): boolean => model.f32("rank_max_rss_bytes").some((v) => !Number.isNaN(v));

// Indices of the chosen ranks whose memory is known.
function chosenRanks(store: Store): number[] {
  const rss = store.model.f32("rank_max_rss_bytes");
  const mask = store.rankMask();
  const out: number[] = [];
  for (let i = 0; i < rss.length; ++i) if ((!mask || mask[i]) && !Number.isNaN(rss[i])) out.push(i);
  return out;
}

// One bar per rank; where there are more ranks than columns, the largest of those that share one, and the
// smallest in a lighter colour.
function rankChart(store: Store, ranks: readonly number[]): { root: HTMLElement; destroy(): void } {
  const { model } = store;
  const rss = model.f32("rank_max_rss_bytes");
  const numbers = model.i32("rank_number");
  const height = 170;
  const left = 64;
  const bottom = 20;
  const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": `Largest resident memory of ${plural(ranks.length, "rank")}: arrow keys move, Enter chooses a rank` });
  const root = el("div", { class: "rank-chart" }, canvas);
  let most = 0;
  for (const i of ranks) most = Math.max(most, rss[i]);
  let columns: { from: number; to: number; largest: number; least: number }[] = [];
  let width = 0;
  let at = -1;

  function layout(): void {
    width = Math.floor(root.clientWidth);
    const room = Math.max(1, width - left - 4);
    const number = Math.min(ranks.length, Math.floor(room / 2));
    columns = Array.from({ length: number }, (_, c) => {
      const from = Math.floor((c * ranks.length) / number);
      const to = Math.floor(((c + 1) * ranks.length) / number);
      let [largest, least] = [from, rss[ranks[from]]];
      for (let i = from; i < to; ++i) {
        if (rss[ranks[i]] > rss[ranks[largest]]) largest = i;
        least = Math.min(least, rss[ranks[i]]);
      }
      return { from, to, largest, least };
    });
  }
  function draw(): void {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const g = canvas.getContext("2d");
    if (!g || columns.length === 0) return;
    g.scale(ratio, ratio);
    g.font = `11px ${cssColour("--font")}`;
    g.fillStyle = cssColour("--text-2");
    g.strokeStyle = cssColour("--line");
    g.textAlign = "right";
    g.textBaseline = "middle";
    const scale = (height - bottom - 8) / most;
    const y = (value: number) => height - bottom - value * scale;
    const ten = 10 ** Math.floor(Math.log10(most / 3));
    const step = [1, 2, 5, 10].map((m) => m * ten).find((s) => most / s <= 4.5) ?? most;
    for (let value = 0; value <= most; value += step) {
      g.beginPath();
      g.moveTo(left, Math.round(y(value)) + 0.5);
      g.lineTo(width, Math.round(y(value)) + 0.5);
      g.stroke();
      g.fillText(value === 0 ? "0" : bytes(value), left - 8, y(value));
    }
    const wide = (width - left - 4) / columns.length;
    const [full, soft, bright] = [cssColour("--cat-python"), cssColour("--accent-soft"), cssColour("--cat-mpi")];
    columns.forEach((column, c) => {
      const x = left + c * wide;
      const w = Math.max(1, wide > 4 ? wide - 1 : wide);
      const top = rss[ranks[column.largest]];
      g.fillStyle = c === at ? bright : full;
      g.fillRect(x, y(top), w, top * scale);
      if (column.to - column.from > 1 && column.least < top * 0.98) {
        g.fillStyle = soft;
        g.globalAlpha = 0.45;
        g.fillRect(x, y(top), w, (top - column.least) * scale);
        g.globalAlpha = 1;
      }
    });
    g.fillStyle = cssColour("--text-2");
    g.textBaseline = "alphabetic";
    g.textAlign = "left";
    g.fillText(`rank ${numbers[ranks[0]]}`, left, height - 5);
    g.textAlign = "right";
    if (ranks.length > 1) g.fillText(`rank ${numbers[ranks[ranks.length - 1]]}`, width - 4, height - 5);
  }
  const columnAt = (x: number) => {
    const c = Math.floor(((x - left) / (width - left - 4)) * columns.length);
    return c >= 0 && c < columns.length ? c : -1;
  };
  function point(c: number, x: number, y: number): void {
    if (c !== at) {
      at = c;
      draw();
    }
    const column = columns[c];
    if (!column) {
      hideTip();
      return;
    }
    const index = ranks[column.largest];
    const several = column.to - column.from > 1;
    showTip(
      () => [
        several ? [`ranks ${numbers[ranks[column.from]]}–${numbers[ranks[column.to - 1]]}`, el("br")] : null,
        el("strong", null, `rank ${numbers[index]}  ${bytes(rss[index])}`),
        el("br"),
        printable(model.nodes[model.u32("rank_node")[index]]?.name ?? ""),
        several ? `, least ${bytes(column.least)}` : null,
      ],
      x,
      y,
    );
  }
  function choose(): void {
    const column = columns[at];
    if (!column) return;
    const chosen = RankSet.of(ranks.slice(column.from, column.to).map((i) => numbers[i]));
    hideTip();
    store.select({ ranks: chosen.equals(store.selection.ranks) ? null : chosen });
  }
  canvas.addEventListener("pointermove", (event) => point(columnAt(event.offsetX), event.clientX, event.clientY));
  canvas.addEventListener("pointerleave", () => point(-1, 0, 0));
  canvas.addEventListener("click", choose);
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const next = Math.max(0, Math.min(columns.length - 1, at + step));
      const box = canvas.getBoundingClientRect();
      point(next, box.left + left + ((next + 0.5) * (width - left)) / columns.length, box.top + 40);
    } else if (event.key === "Enter") choose();
    else return;
    event.preventDefault();
  });
  const observer = new ResizeObserver(() => {
    if (Math.floor(root.clientWidth) === width) return;
    layout();
    draw();
  });
  observer.observe(root);
  return { root, destroy: () => observer.disconnect() };
}

// Least, mean and largest value of the chosen ranks in every bin of a series; the mean over ranks, of which a row has several.
export function bandOfSeries(store: Store, series: number): Band {
  const { model } = store;
  const ranksInRow = chosenInRows(store);
  const rows = [...ranksInRow.keys()].filter((row) => ranksInRow[row] > 0);
  return bandOf(model.f32(`series_${series}`), model.header.axis.bins, rows, ranksInRow);
}

function rssOverTime(store: Store): Chart | null {
  const { model } = store;
  const s = rssSeries(model);
  const { bin_s, begin_s } = model.header.axis;
  const shown = shownBins(model);
  if (s < 0 || shown === 0) return null;
  const band = bandOfSeries(store, s);
  if (band.mean.every(Number.isNaN)) return null;
  const [least, mean, most] = [band.min, band.mean, band.max].map((values) => [...values.subarray(0, shown)]);
  return lineChart({
    label: "Resident memory of ranks over time",
    x: Array.from({ length: shown }, (_, b) => begin_s + (b + 0.5) * bin_s),
    series: [
      { label: "largest", colour: "--cat-mpi", values: most },
      { label: "mean", colour: "--cat-python", values: mean },
      { label: "least", colour: "--cat-native", values: least },
    ],
    bands: [[0, 2, "--marked"]],
    height: 190,
    format: bytes,
    onSelect: (range) => store.select({ time: range }),
    marked: store.selection.time,
  });
}

function lineColumns(store: Store, rows: readonly MemoryLine[]): Column<MemoryLine>[] {
  const { model } = store;
  const amount = (id: string, title: string, help: string, pick: (row: MemoryLine) => number | null | undefined): Column<MemoryLine> => {
    const most = rows.reduce((m, row) => Math.max(m, pick(row) ?? 0), 0);
    return { id, title, help, numeric: true, value: pick, cell: (row) => [el("span", { class: "bar-number" }, bytes(pick(row))), miniBar(most > 0 ? (pick(row) ?? 0) / most : 0, undefined, { class: "short" })] };
  };
  return [
    {
      id: "line",
      title: "Line",
      value: (row) => `${row.file}:${row.line}`,
      cell: (row) => el("a", { href: store.href(lineTarget(row.file, row.line)), tip: printable(row.file) }, shortenMiddle(printable(model.place(row.file, row.line)), 50)),
    },
    amount("peak", "At the peak", "What was allocated here and in use when most was.", (row) => row.peak_bytes),
    amount("alloc", "Allocated", "In all, over the run.", (row) => row.alloc_bytes),
    amount("copy", "Copied", "By memcpy and the like.", (row) => row.copy_bytes),
    { id: "leak", title: "Leak score", help: "How likely it is that memory allocated here is never freed.", numeric: true, value: (row) => row.leak_score, cell: (row) => percent(row.leak_score, 0) },
  ];
}

export const page: Page = {
  id: "memory",
  title: "Memory",
  hint: "How much memory ranks had, and when",
  hidden: (model) => !hasRss(model) && rssSeries(model) < 0 && !model.report.memory?.lines.length,
  mount(root, store) {
    const { model } = store;
    let close: (() => void)[] = [];
    const clear = () => {
      for (const end of close) end();
      close = [];
    };
    const update = () => {
      clear();
      const rss = model.f32("rank_max_rss_bytes");
      const numbers = model.i32("rank_number");
      const nodeOf = model.u32("rank_node");
      const ranks = chosenRanks(store);
      const cards: Child[] = [];
      if (ranks.length) {
        const sorted = [...ranks].sort((a, b) => rss[b] - rss[a] || a - b);
        const sum = ranks.reduce((s, i) => s + rss[i], 0);
        const middle = rss[sorted[sorted.length >> 1]];
        // What a node used, whoever used it: a sum over ranks would count pages that they share once for each.
        const fullest = [...new Set(ranks.map((i) => nodeOf[i]))]
          .map((n) => model.nodes[n])
          .filter((node) => node && node.memory_used_bytes !== null && node.memory_used_bytes !== undefined)
          .sort((x, y) => y.memory_used_bytes! - x.memory_used_bytes!)[0];
        const tile = (name: string, value: string, detail: Child) => el("div", { class: "tile" }, el("div", { class: "tile-name" }, name), el("div", { class: "tile-value" }, value), el("div", { class: "tile-detail" }, detail));
        const rankLink = (i: number) => el("a", { href: store.href(rankTarget(numbers[i], "memory")) }, `rank ${numbers[i]}`);
        cards.push(
          el(
            "div",
            { class: "tiles" },
            tile("Largest rank", bytes(rss[sorted[0]]), rankLink(sorted[0])),
            tile("Median", bytes(middle), `largest: ${(rss[sorted[0]] / middle).toFixed(2)} × the median`),
            tile("Smallest rank", bytes(rss[sorted[sorted.length - 1]]), rankLink(sorted[sorted.length - 1])),
            tile("Sum over ranks", bytes(sum), `${plural(ranks.length, "rank")}; shared pages counted in each`),
            fullest
              ? tile("Most used on a node", bytes(fullest.memory_used_bytes), [
                  printable(fullest.name),
                  fullest.memory_bytes ? `, ${percent(fullest.memory_used_bytes! / fullest.memory_bytes)} of its memory` : null,
                ])
              : null,
          ),
          store.selection.time || store.selection.region !== null ? el("p", { class: "page-note" }, "The largest values are ", ofWholeRun()) : null,
        );
        const chart = rankChart(store, ranks);
        close.push(chart.destroy);
        cards.push(
          section(
            "Largest resident memory by rank",
            { aside: el("span", { class: "note" }, "click to choose ranks", store.selection.time ? "; of the whole run" : null) },
            chart.root,
          ),
        );
        const chart2 = rssOverTime(store);
        if (chart2) {
          close.push(() => chart2.destroy());
          cards.push(section("Resident memory over time", { aside: el("span", { class: "note" }, "drag to choose time") }, chart2.root));
        }
        // In a range of time, what ranks had in it: rows of heat maps know.
        const s = rssSeries(model);
        const time = store.selection.time;
        const parts = time && s >= 0 ? binParts(model.header.axis, time) : null;
        const { bins } = model.header.axis;
        const rowOf = model.u32("row_of_rank");
        const inTime = (i: number) => {
          let most = 0;
          if (parts) for (let b = 0; b < bins; ++b) if (parts[b] > 0) most = Math.max(most, model.f32(`series_${s}`)[rowOf[i] * bins + b]);
          return most;
        };
        const exact = model.header.rows === model.rankCount;
        cards.push(
          section(
            "Ranks with most memory",
            { class: "narrow" },
            table<number>(
              [
                { id: "rank", title: "Rank", numeric: true, width: "80px", value: (i) => numbers[i], cell: (i) => rankLink(i) },
                { id: "node", title: "Node", value: (i) => model.nodes[nodeOf[i]]?.name, cell: (i) => shortenMiddle(printable(model.nodes[nodeOf[i]]?.name ?? ""), 32) },
                { id: "rss", title: "Largest resident memory", numeric: true, value: (i) => rss[i], cell: (i) => [el("span", { class: "bar-number" }, bytes(rss[i])), miniBar(rss[i] / rss[sorted[0]])] },
                ...(parts && exact ? [{ id: "in", title: "In the chosen time", numeric: true, value: inTime, cell: (i: number) => bytes(inTime(i)) }] : []),
                { id: "median", title: "Relative to the median", numeric: true, value: (i) => rss[i] / middle, cell: (i) => `${(rss[i] / middle).toFixed(2)} ×` },
              ],
              sorted.slice(0, 1000),
              { label: "Ranks with most memory", limit: 12 },
            ),
          ),
        );
      } else if (hasRss(model)) cards.push(el("p", { class: "empty" }, "No rank with known memory is chosen."));
      const lines = model.report.memory?.lines ?? [];
      if (lines.length)
        cards.push(
          section(
            "Lines that allocate",
            { aside: store.isWholeRun ? null : ofWholeRun() },
            table(lineColumns(store, lines), lines, { label: "Lines that allocate", sort: { column: "peak", descending: true }, limit: 50 }),
          ),
        );
      replace(root, cards);
    };
    update();
    return { update, destroy: clear };
  },
};
