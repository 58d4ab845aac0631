// SPDX-License-Identifier: BSD-3-Clause
// Memory: how much each rank uses, over the run and over time; with --memory, who holds it. The parts are in ../memory.
import { LineChart } from "../core/chart";
import { el, miniBar, ofWholeRun, replace, section, type Child } from "../core/dom";
import { table } from "../core/table";
import { bytes, percent, plural, printable, seconds, shortenMiddle } from "../core/format";
import { rankTarget } from "../core/links";
import type { Model } from "../core/model";
import type { Page, PageHandle } from "../core/page";
import type { HeldMemory } from "../core/report";
import type { Selection, Store } from "../core/selection";
import { binParts } from "../core/over_time";
import { chosenInRows, rangesNote, shownBins } from "../core/totals";
import { bandOf, type Band } from "../charts/rows";
import { HELD_SERIES, heldByLine, heldByNode } from "../memory/held_over_time";
import { leaksTable, linesTable, nodesTable, ranksTable } from "../memory/held_tables";
import { copiesTable, spacesTable } from "../memory/label_tables";
import { HeldTreePart } from "../memory/held_tree";
import { RankChart } from "../memory/rank_chart";

const seriesOf = (model: Model, name: string): number => model.header.series.findIndex((s) => s.name === name);
const rssSeries = (model: Model): number => seriesOf(model, "rss_bytes");
const hasRss = (model: Model): boolean => model.f32("rank_max_rss_bytes").some((v) => !Number.isNaN(v));

// Indices of the chosen ranks whose memory is known.
function chosenRanks(store: Store): number[] {
  const rss = store.model.f32("rank_max_rss_bytes");
  const mask = store.rankMask();
  const out: number[] = [];
  for (let i = 0; i < rss.length; ++i) if ((!mask || mask[i]) && !Number.isNaN(rss[i])) out.push(i);
  return out;
}

// Least, mean and largest value of the chosen ranks in every bin of a series; the mean over ranks, of which a row may
// have several. All of these have the row's value, which is that of the one with most.
export function bandOfSeries(store: Store, series: number): Band {
  const { model } = store;
  const ranksInRow = chosenInRows(store);
  const rows = [...ranksInRow.keys()].filter((row) => ranksInRow[row] > 0);
  return bandOf(model.f32(`series_${series}`), model.header.axis.bins, rows, ranksInRow);
}

function overTime(store: Store, s: number, label: string): LineChart | null {
  const { model } = store;
  const { bin_s, begin_s } = model.header.axis;
  const shown = shownBins(model);
  if (s < 0 || shown === 0) return null;
  const band = bandOfSeries(store, s);
  if (band.mean.every(Number.isNaN)) return null;
  const [least, mean, most] = [band.min, band.mean, band.max].map((values) => [...values.subarray(0, shown)]);
  return new LineChart({
    label,
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

function dragNote(model: Model): HTMLElement {
  const ranges = rangesNote(model, false, true);
  return el("span", { class: "note" }, ranges ? `${ranges}; ` : null, "drag to choose time");
}

function rankLink(store: Store, i: number): HTMLElement {
  const number = store.model.i32("rank_number")[i];
  return el("a", { href: store.href(rankTarget(number, "memory")) }, `rank ${number}`);
}

const tile = (name: string, value: string, detail: Child): HTMLElement =>
  el("div", { class: "tile" }, el("div", { class: "tile-name" }, name), el("div", { class: "tile-value" }, value), el("div", { class: "tile-detail" }, detail));

// Of the chosen ranks, and the node that held most.
function heldTiles(store: Store, memory: HeldMemory): HTMLElement {
  const { model } = store;
  const peaks = model.f32("rank_held_peak_bytes");
  const mask = store.rankMask();
  const ranks = [...peaks.keys()].filter((i) => (!mask || mask[i]) && !Number.isNaN(peaks[i])).sort((a, b) => peaks[b] - peaks[a] || a - b);
  const fullest = [...memory.nodes].sort((a, b) => b.peak_bytes - a.peak_bytes)[0];
  const growth = memory.nodes.reduce((sum, node) => sum + node.growth_bytes_per_s, 0);
  const mean = ranks.reduce((sum, i) => sum + peaks[i], 0) / ranks.length;
  return el(
    "div",
    { class: "tiles" },
    ranks.length > 0 ? tile("Most held by a rank", bytes(peaks[ranks[0]]), rankLink(store, ranks[0])) : null,
    ranks.length > 1 ? tile("Mean of ranks", bytes(mean), mean > 0 ? `largest: ${(peaks[ranks[0]] / mean).toFixed(2)} × the mean` : null) : null,
    fullest
      ? tile("Most held on a node", bytes(fullest.peak_bytes), [
          printable(fullest.name),
          fullest.peak_at_s === null || fullest.peak_at_s === undefined ? null : `, after ${seconds(fullest.peak_at_s)}`,
          fullest.limit_bytes ? `, limit ${bytes(fullest.limit_bytes)}` : null,
        ])
      : null,
    growth > 0 ? tile("Leaks", `${bytes(growth)}/s`, plural(memory.lines.filter((line) => line.leak).length, "line")) : null,
  );
}

function heldTables(store: Store, memory: HeldMemory): Child[] {
  const aside = ofWholeRun();
  const leaks = leaksTable(store, memory);
  const ranks = ranksTable(store, memory);
  return [
    memory.lines.length > 0 ? section("Lines", { aside }, linesTable(store, memory)) : null,
    leaks ? section("Never freed, and growing all the time", { aside: ofWholeRun() }, leaks) : null,
    memory.nodes.length > 0 ? section("Nodes, and who held it at the peak", { aside: ofWholeRun() }, nodesTable(store, memory)) : null,
    ranks ? section("Ranks, and what the kernel says", { aside: ofWholeRun() }, ranks) : null,
  ];
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
      sorted,
      { label: "Ranks with most memory", limit: 12 },
    ),
  );
}

class MemoryPage implements PageHandle {
  private charts: { destroy(): void }[] = [];
  private readonly first = el("div", { class: "contents" });
  private readonly rest = el("div", { class: "contents" });
  private readonly tree: HeldTreePart | null;
  private shown: { selection: Selection; theme: string | undefined } | null = null;

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    const paths = store.model.lengthOf("held_parent") > 0;
    this.tree = paths ? new HeldTreePart(store) : null;
    root.append(this.first);
    if (this.tree) root.append(section("Call paths that hold it", { aside: ofWholeRun() }, this.tree.root));
    root.append(this.rest);
    this.update();
  }

  destroy(): void {
    this.destroyCharts();
    this.tree?.destroy();
  }

  update(): void {
    const { store } = this;
    this.tree?.update();
    const { selection } = store;
    const { theme } = document.documentElement.dataset;
    if (this.shown?.selection === selection && this.shown.theme === theme) return;
    this.shown = { selection, theme };
    this.destroyCharts();
    const ranks = chosenRanks(store);
    const { memory, labelled_memory: labelled } = store.model.report;
    replace(this.first, memory ? this.heldCards(memory) : null);
    replace(
      this.rest,
      memory ? heldTables(store, memory) : null,
      labelled && labelled.spaces.length > 0
        ? section("Memory by label, as the program names it", { aside: ofWholeRun() }, spacesTable(store, labelled.spaces))
        : null,
      labelled && labelled.copies.length > 0
        ? section("Deep copies between memory spaces", { aside: ofWholeRun() }, copiesTable(store, labelled.copies))
        : null,
      ranks.length > 0
        ? this.cardsOf(ranks)
        : hasRss(store.model)
          ? el("p", { class: "empty" }, "No rank with known memory is chosen.")
          : null,
    );
  }

  private destroyCharts(): void {
    for (const chart of this.charts) chart.destroy();
    this.charts = [];
  }

  private kept<T extends { destroy(): void }>(chart: T | null): T | null {
    if (chart) this.charts.push(chart);
    return chart;
  }

  private heldCards(memory: HeldMemory): Child[] {
    const { store } = this;
    const byLine = this.kept(heldByLine(store));
    const ofRanks = this.kept(overTime(store, seriesOf(store.model, HELD_SERIES), "Held memory of ranks over time"));
    const ofNodes = this.kept(heldByNode(store));
    const drag = dragNote(store.model);
    return [
      heldTiles(store, memory),
      byLine ? section("Held over time, by line", { aside: el("span", { class: "note" }, "all ranks, means; drag to choose time") }, byLine.root) : null,
      ofRanks ? section("Held by ranks over time", { aside: drag }, ofRanks.root) : null,
      ofNodes ? section("Held by nodes over time", { aside: el("span", { class: "note" }, "those with most") }, ofNodes.root) : null,
    ];
  }

  private cardsOf(ranks: readonly number[]): Child[] {
    const { store } = this;
    const { time, region } = store.selection;
    const most = store.model.f32("rank_max_rss_bytes");
    const sorted = [...ranks].sort((a, b) => most[b] - most[a] || a - b);
    const byRank = new RankChart(store, ranks);
    this.charts.push(byRank);
    const rss = this.kept(overTime(store, rssSeries(store.model), "Resident memory of ranks over time"));
    return [
      tilesOf(store, sorted),
      time || region !== null ? el("p", { class: "page-note" }, "The largest values are ", ofWholeRun()) : null,
      section(
        "Largest resident memory by rank",
        { aside: el("span", { class: "note" }, "click to choose ranks", time ? "; of the whole run" : null) },
        byRank.root,
      ),
      rss
        ? section(
            "Resident memory over time",
            { aside: dragNote(store.model) },
            rss.root,
          )
        : null,
      rankTable(store, sorted),
    ];
  }
}

export const page: Page = {
  id: "memory",
  title: "Memory",
  hint: "How much memory ranks had, when, and which lines held it",
  hidden: (model) => !hasRss(model) && rssSeries(model) < 0 && !model.report.memory && !model.report.labelled_memory,
  mount: (root, store) => new MemoryPage(root, store),
};
