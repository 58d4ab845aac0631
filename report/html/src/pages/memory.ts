// SPDX-License-Identifier: BSD-3-Clause
// Memory: how much each rank uses, over the run and over time, and the lines that work on much data.
import { LineChart } from "../core/chart";
import { el, miniBar, ofWholeRun, replace, section, type Child } from "../core/dom";
import { table, type Column } from "../core/table";
import { bytes, percent, plural, printable, shortenMiddle } from "../core/format";
import { lineTarget, rankTarget } from "../core/links";
import type { Model } from "../core/model";
import type { Page, PageHandle } from "../core/page";
import type { MemoryLine } from "../core/report";
import type { Store } from "../core/selection";
import { binParts } from "../core/over_time";
import { chosenInRows, shownBins } from "../core/totals";
import { bandOf, type Band } from "../charts/rows";
import { RankChart } from "../memory/rank_chart";

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

// Least, mean and largest value of the chosen ranks in every bin of a series; the mean over ranks, of which a row has several.
export function bandOfSeries(store: Store, series: number): Band {
  const { model } = store;
  const ranksInRow = chosenInRows(store);
  const rows = [...ranksInRow.keys()].filter((row) => ranksInRow[row] > 0);
  return bandOf(model.f32(`series_${series}`), model.header.axis.bins, rows, ranksInRow);
}

function rssOverTime(store: Store): LineChart | null {
  const { model } = store;
  const s = rssSeries(model);
  const { bin_s, begin_s } = model.header.axis;
  const shown = shownBins(model);
  if (s < 0 || shown === 0) return null;
  const band = bandOfSeries(store, s);
  if (band.mean.every(Number.isNaN)) return null;
  const [least, mean, most] = [band.min, band.mean, band.max].map((values) => [...values.subarray(0, shown)]);
  return new LineChart({
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

function rankLink(store: Store, i: number): HTMLElement {
  const number = store.model.i32("rank_number")[i];
  return el("a", { href: store.href(rankTarget(number, "memory")) }, `rank ${number}`);
}

// `sorted`: the chosen ranks, the largest first.
function tilesOf(store: Store, sorted: readonly number[]): HTMLElement {
  const { model } = store;
  const rss = model.f32("rank_max_rss_bytes");
  const nodeOf = model.u32("rank_node");
  const sum = sorted.reduce((s, i) => s + rss[i], 0);
  const middle = rss[sorted[sorted.length >> 1]];
  // What a node used, whoever used it: a sum over ranks would count pages that they share once for each.
  const fullest = [...new Set(sorted.map((i) => nodeOf[i]))]
    .map((n) => model.nodes[n])
    .filter((node) => node && node.memory_used_bytes !== null && node.memory_used_bytes !== undefined)
    .sort((x, y) => y.memory_used_bytes! - x.memory_used_bytes!)[0];
  const tile = (name: string, value: string, detail: Child) => el("div", { class: "tile" }, el("div", { class: "tile-name" }, name), el("div", { class: "tile-value" }, value), el("div", { class: "tile-detail" }, detail));
  return el(
    "div",
    { class: "tiles" },
    tile("Largest rank", bytes(rss[sorted[0]]), rankLink(store, sorted[0])),
    tile("Median", bytes(middle), `largest: ${(rss[sorted[0]] / middle).toFixed(2)} × the median`),
    tile("Smallest rank", bytes(rss[sorted[sorted.length - 1]]), rankLink(store, sorted[sorted.length - 1])),
    tile("Sum over ranks", bytes(sum), `${plural(sorted.length, "rank")}; shared pages counted in each`),
    fullest
      ? tile("Most used on a node", bytes(fullest.memory_used_bytes), [
          printable(fullest.name),
          fullest.memory_bytes ? `, ${percent(fullest.memory_used_bytes! / fullest.memory_bytes)} of its memory` : null,
        ])
      : null,
  );
}

function rankTable(store: Store, sorted: readonly number[]): HTMLElement {
  const { model } = store;
  const rss = model.f32("rank_max_rss_bytes");
  const numbers = model.i32("rank_number");
  const nodeOf = model.u32("rank_node");
  const middle = rss[sorted[sorted.length >> 1]];
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
  return section(
    "Ranks with most memory",
    { class: "narrow" },
    table<number>(
      [
        { id: "rank", title: "Rank", numeric: true, width: "80px", value: (i) => numbers[i], cell: (i) => rankLink(store, i) },
        { id: "node", title: "Node", value: (i) => model.nodes[nodeOf[i]]?.name, cell: (i) => shortenMiddle(printable(model.nodes[nodeOf[i]]?.name ?? ""), 32) },
        { id: "rss", title: "Largest resident memory", numeric: true, value: (i) => rss[i], cell: (i) => [el("span", { class: "bar-number" }, bytes(rss[i])), miniBar(rss[i] / rss[sorted[0]])] },
        ...(parts && exact ? [{ id: "in", title: "In the chosen time", numeric: true, value: inTime, cell: (i: number) => bytes(inTime(i)) }] : []),
        { id: "median", title: "Relative to the median", numeric: true, value: (i) => rss[i] / middle, cell: (i) => `${(rss[i] / middle).toFixed(2)} ×` },
      ],
      sorted.slice(0, 1000),
      { label: "Ranks with most memory", limit: 12 },
    ),
  );
}

class MemoryPage implements PageHandle {
  private charts: { destroy(): void }[] = [];

  constructor(
    private readonly root: HTMLElement,
    private readonly store: Store,
  ) {
    this.update();
  }

  destroy(): void {
    for (const chart of this.charts) chart.destroy();
    this.charts = [];
  }

  update(): void {
    this.destroy();
    const { store } = this;
    const ranks = chosenRanks(store);
    const lines = store.model.report.memory?.lines ?? [];
    replace(
      this.root,
      ranks.length > 0
        ? this.cardsOf(ranks)
        : hasRss(store.model)
          ? el("p", { class: "empty" }, "No rank with known memory is chosen.")
          : null,
      lines.length > 0
        ? section(
            "Lines that allocate",
            { aside: store.isWholeRun ? null : ofWholeRun() },
            table(lineColumns(store, lines), lines, {
              label: "Lines that allocate",
              sort: { column: "peak", descending: true },
              limit: 50,
            }),
          )
        : null,
    );
  }

  private cardsOf(ranks: readonly number[]): Child[] {
    const { store } = this;
    const { time, region } = store.selection;
    const rss = store.model.f32("rank_max_rss_bytes");
    const sorted = [...ranks].sort((a, b) => rss[b] - rss[a] || a - b);
    const byRank = new RankChart(store, ranks);
    const overTime = rssOverTime(store);
    this.charts = overTime ? [byRank, overTime] : [byRank];
    return [
      tilesOf(store, sorted),
      time || region !== null ? el("p", { class: "page-note" }, "The largest values are ", ofWholeRun()) : null,
      section(
        "Largest resident memory by rank",
        { aside: el("span", { class: "note" }, "click to choose ranks", time ? "; of the whole run" : null) },
        byRank.root,
      ),
      overTime
        ? section(
            "Resident memory over time",
            { aside: el("span", { class: "note" }, "drag to choose time") },
            overTime.root,
          )
        : null,
      rankTable(store, sorted),
    ];
  }
}

export const page: Page = {
  id: "memory",
  title: "Memory",
  hint: "How much memory ranks had, and when",
  hidden: (model) => !hasRss(model) && rssSeries(model) < 0 && !model.report.memory?.lines.length,
  mount: (root, store) => new MemoryPage(root, store),
};
