// SPDX-License-Identifier: BSD-3-Clause
// Nodes: processors, memory, network and disks of each machine, as numbers and over time.
import { LineChart } from "../core/chart";
import { CATEGORY_TITLES, categoryColour } from "../core/colours";
import { el, miniBar, ofWholeRun, replace, section, stackedBar, type Child } from "../core/dom";
import { table, type Column } from "../core/table";
import { bytes, count, percent, plural, printable, seconds, seriesTitle, shortenMiddle } from "../core/format";
import { rankTarget } from "../core/links";
import { CATEGORIES, type Model } from "../core/model";
import type { Page, PageHandle } from "../core/page";
import { RankSet, type Store } from "../core/selection";
import { partInRun, partsOfRun } from "../core/over_time";
import { chosenNodes, nodeCategories, shownBins } from "../core/totals";

interface Row {
  index: number;
  name: string;
  ranks: number;
  chosenRanks: number;
  busy: number | null; // of all processors' time
  memory: number | null; // the most
  received: number | null;
  sent: number | null;
  read: number | null;
  written: number | null;
  categories: Float64Array;
}

const known = (v: number | null | undefined): number | null => v ?? null;

function seriesIndex(model: Model, name: string): number {
  return model.header.node_series.findIndex((s) => s.name === name);
}

// Sum (or largest, of a level) of a node's series in a range of time.
function inTime(model: Model, name: string, node: number, parts: Float64Array): number | null {
  const s = seriesIndex(model, name);
  if (s < 0) return null;
  const { bins } = model.header.axis;
  const values = model.f32(`node_series_${s}`).subarray(node * bins, (node + 1) * bins);
  const { maximum } = model.header.node_series[s];
  let out = 0;
  for (let b = 0; b < bins; ++b) {
    if (parts[b] === 0 || Number.isNaN(values[b])) continue;
    out = maximum ? Math.max(out, values[b]) : out + values[b] * parts[b];
  }
  return out;
}

// Of all processors' time in the range, as far as it lies in the run.
function busyInTime(model: Model, node: number, cpus: number, range: readonly [number, number], parts: Float64Array): number | null {
  const ns = inTime(model, "cpu_busy_ns", node, parts);
  const length = Math.min(range[1], model.elapsed) - Math.max(range[0], 0);
  return ns === null || length <= 0 ? null : Math.min(1, (ns * 1e-9) / (length * cpus));
}

export function makeRows(store: Store): Row[] {
  const { model, selection } = store;
  const chosen = chosenNodes(store);
  const sums = nodeCategories(store);
  const { time } = selection;
  const parts = time && model.header.node_series.length ? partsOfRun(model.header.axis, model.elapsed, time) : null;
  const mask = store.rankMask();
  const nodeOf = model.u32("rank_node");
  const ranks = new Uint32Array(model.nodeCount);
  const inChoice = new Uint32Array(model.nodeCount);
  for (let i = 0; i < nodeOf.length; ++i) {
    ++ranks[nodeOf[i]];
    if (!mask || mask[i]) ++inChoice[nodeOf[i]];
  }
  const rows: Row[] = [];
  model.nodes.forEach((node, index) => {
    if (!chosen[index]) return;
    const from = (name: string, whole: number | null | undefined) => (parts ? (inTime(model, name, index, parts) ?? known(whole)) : known(whole));
    let busy = known(node.cpu_busy);
    if (parts && time && node.cpus) busy = busyInTime(model, index, node.cpus, time, parts) ?? busy;
    rows.push({
      index,
      name: printable(node.name),
      ranks: ranks[index],
      chosenRanks: inChoice[index],
      busy,
      memory: from("memory_used_bytes", node.memory_used_bytes),
      received: from("network_received_bytes", node.network_received_bytes),
      sent: from("network_sent_bytes", node.network_sent_bytes),
      read: from("disk_read_bytes", node.disk_read_bytes),
      written: from("disk_written_bytes", node.disk_written_bytes),
      categories: sums.subarray(index * CATEGORIES.length, (index + 1) * CATEGORIES.length),
    });
  });
  return rows;
}

function withBar(text: string, share: number | null, colour?: string): Child {
  return share === null ? el("span", { class: "dim" }, text) : [el("span", { class: "bar-number" }, text), miniBar(share, colour, { class: "short" })];
}

function columns(store: Store, rows: readonly Row[]): Column<Row>[] {
  const { model } = store;
  const largest = (pick: (row: Row) => number | null) => rows.reduce((most, row) => Math.max(most, pick(row) ?? 0), 0);
  const amount = (id: string, title: string, help: string, pick: (row: Row) => number | null): Column<Row> | null => {
    const most = largest(pick);
    if (!rows.some((row) => pick(row) !== null)) return null;
    return { id, title, help, numeric: true, value: pick, cell: (row) => withBar(bytes(pick(row)), most > 0 ? (pick(row) ?? 0) / most : 0) };
  };
  const list: (Column<Row> | null)[] = [
    { id: "node", title: "Node", value: (row) => row.name, cell: (row) => el("span", { tip: [row.name, model.nodes[row.index].cpu_model].filter(Boolean).map((t) => printable(t!)).join(" · ") }, shortenMiddle(row.name, 28)) },
    {
      id: "ranks",
      title: "Ranks",
      numeric: true,
      value: (row) => row.chosenRanks,
      cell: (row) => (row.chosenRanks === row.ranks ? String(row.ranks) : `${row.chosenRanks} of ${row.ranks}`),
    },
    {
      id: "time",
      title: "Time of its ranks",
      width: "18%",
      help: `Main threads, by category${store.selection.time && !model.header.series.length ? "; of the whole run" : ""}. Sorts by MPI.`,
      value: (row) => row.categories[3] / row.categories.reduce((s, v) => s + v, 0),
      cell: (row) =>
        stackedBar(
          CATEGORIES.map((c, i) => ({ value: row.categories[i], colour: categoryColour(c), label: CATEGORY_TITLES[c], text: seconds(row.categories[i]) })),
        ),
    },
    { id: "busy", title: "Busy", help: "Of all processors' time, whoever used it.", numeric: true, value: (row) => row.busy, cell: (row) => withBar(percent(row.busy), row.busy) },
    {
      id: "memory",
      title: "Memory",
      help: "The most that was used on the node, by whomever.",
      numeric: true,
      value: (row) => row.memory,
      cell: (row) => {
        const all = model.nodes[row.index].memory_bytes;
        const share = row.memory !== null && all ? row.memory / all : null;
        return el("span", { tip: all ? `${percent(share)} of ${bytes(all)}` : undefined }, withBar(bytes(row.memory), share, (share ?? 0) >= 0.9 ? "var(--bad)" : undefined));
      },
    },
    amount("received", "Received", "Network, whoever caused it.", (row) => row.received),
    amount("sent", "Sent", "Network, whoever caused it.", (row) => row.sent),
    amount("read", "Disk read", "Disks of the node.", (row) => row.read),
    amount("written", "Disk written", "Disks of the node.", (row) => row.written),
    {
      id: "choose",
      title: "",
      cell: (row) => {
        const only = store.selection.nodes?.length === 1 && store.selection.nodes[0] === row.index;
        return el("a", { href: store.href({ selection: { nodes: only ? null : [row.index] } }), "aria-label": `${only ? "All nodes" : `Only ${row.name}`}` }, only ? "all" : "only");
      },
    },
  ];
  return list.filter((c): c is Column<Row> => c !== null);
}

const SERIES_COLOURS: Record<string, string> = {
  cpu_busy_ns: "--cat-native",
  memory_used_bytes: "--cat-python",
  network_received_bytes: "--cat-mpi",
  network_sent_bytes: "--cat-mpi",
  disk_read_bytes: "--cat-io",
  disk_written_bytes: "--cat-io",
};

// Of a bin of which less lies in the run no rate is shown: nodes are recorded for a little longer than the run.
const LEAST_OF_BIN = 0.25;

// A series of a node as charts show it: the share of its processors, a level, or a rate. null: not known.
export function shownValues(model: Model, series: number, node: number): (number | null)[] {
  const { axis, node_series } = model.header;
  const { name, maximum } = node_series[series];
  const isBusy = name === "cpu_busy_ns";
  const unit = (name.endsWith("_ns") ? 1e-9 : 1) / axis.bin_s / (isBusy ? (model.nodes[node].cpus ?? 1) : 1);
  const shown = shownBins(model);
  const values = model.f32(`node_series_${series}`).subarray(node * axis.bins, node * axis.bins + shown);
  return Array.from(values, (value, b) => {
    if (maximum) return value;
    const part = partInRun(axis, model.elapsed, b);
    if (part < LEAST_OF_BIN && shown > 2) return null;
    const rate = (value * unit) / Math.max(part, LEAST_OF_BIN);
    return isBusy && model.nodes[node].cpus ? Math.min(1, rate) : rate;
  });
}

// Charts of a node: processors, memory, network, disk.
function nodeCharts(store: Store, node: number, charts: LineChart[]): Child {
  const { model } = store;
  const { bin_s, begin_s } = model.header.axis;
  const shown = shownBins(model);
  if (!model.header.node_series.length || shown === 0) return el("p", { class: "empty" }, "No values over time were recorded of nodes.");
  const x = Array.from({ length: shown }, (_, b) => begin_s + (b + 0.5) * bin_s);
  const groups: { title: string; names: string[] }[] = [
    { title: "Processors busy", names: ["cpu_busy_ns"] },
    { title: "Memory used", names: ["memory_used_bytes"] },
    { title: "Network", names: ["network_received_bytes", "network_sent_bytes"] },
    { title: "Disk", names: ["disk_read_bytes", "disk_written_bytes"] },
  ];
  const placed = new Set(groups.flatMap((g) => g.names));
  for (const { name } of model.header.node_series) if (!placed.has(name)) groups.push({ title: seriesTitle(name), names: [name] });
  const { cpus, memory_bytes } = model.nodes[node];
  return groups.map(({ title, names }) => {
    const here = names.filter((name) => seriesIndex(model, name) >= 0);
    if (here.length === 0) return null;
    const level = model.header.node_series[seriesIndex(model, here[0])].maximum;
    const isBusy = here[0] === "cpu_busy_ns";
    const isNs = here[0].endsWith("_ns");
    const isBytes = here[0].endsWith("_bytes");
    const chart = new LineChart({
      label: `${title} of ${printable(model.nodes[node].name)} over time`,
      x,
      height: 110,
      series: here.map((name, i) => ({
        label: here.length > 1 ? (i === 0 ? (name.startsWith("disk") ? "read" : "received") : name.startsWith("disk") ? "written" : "sent") : title,
        colour: SERIES_COLOURS[name] ?? "--accent",
        dashed: i > 0,
        values: shownValues(model, seriesIndex(model, name), node),
      })),
      maximum: isBusy && cpus ? 1 : title === "Memory used" && memory_bytes ? memory_bytes : null,
      format: (v) => (isNs ? percent(v, 0) : isBytes ? (level ? bytes(v) : `${bytes(v)}/s`) : `${count(v)}/s`),
      onSelect: (range) => store.select({ time: range }),
      marked: store.selection.time,
      sync: "node",
    });
    charts.push(chart);
    return el("div", { class: "small-chart" }, el("h3", null, title), chart.root);
  });
}

// All chosen nodes together: least, mean, largest.
function overview(store: Store, charts: LineChart[]): Child {
  const { model } = store;
  const { bin_s, begin_s } = model.header.axis;
  const shown = shownBins(model);
  if (!model.header.node_series.length || shown === 0) return null;
  const nodes = [...chosenNodes(store).entries()].filter(([, is]) => is).map(([n]) => n);
  if (nodes.length === 0) return null;
  const x = Array.from({ length: shown }, (_, b) => begin_s + (b + 0.5) * bin_s);
  return model.header.node_series.map(({ name, maximum }, s) => {
    const isNs = name.endsWith("_ns");
    const isBytes = name.endsWith("_bytes");
    const least = new Array<number | null>(shown).fill(null);
    const mean = new Array<number | null>(shown).fill(null);
    const most = new Array<number | null>(shown).fill(null);
    for (const node of nodes)
      shownValues(model, s, node).forEach((v, b) => {
        if (v === null) return; // of all nodes
        least[b] = Math.min(least[b] ?? v, v);
        most[b] = Math.max(most[b] ?? v, v);
        mean[b] = (mean[b] ?? 0) + v / nodes.length;
      });
    const colour = SERIES_COLOURS[name] ?? "--accent";
    const chart = new LineChart({
      label: `${seriesTitle(name)} of nodes over time`,
      x,
      height: 110,
      series: [
        { label: "largest", colour: "--text-3", values: most, dashed: true },
        { label: "mean", colour, values: mean },
        { label: "least", colour: "--text-3", values: least, dashed: true },
      ],
      bands: [[0, 2, "--marked"]],
      maximum: name === "cpu_busy_ns" ? 1 : null,
      format: (v) => (isNs ? percent(v, 0) : isBytes ? (maximum ? bytes(v) : `${bytes(v)}/s`) : `${count(v)}/s`),
      onSelect: (range) => store.select({ time: range }),
      marked: store.selection.time,
      sync: "node",
    });
    charts.push(chart);
    return el("div", { class: "small-chart" }, el("h3", null, seriesTitle(name)), chart.root);
  });
}

function nodeFacts(store: Store, node: number): Child {
  const { model } = store;
  const info = model.nodes[node];
  const nodeOf = model.u32("rank_node");
  const numbers = model.i32("rank_number");
  const mine: number[] = [];
  for (let i = 0; i < nodeOf.length; ++i) if (nodeOf[i] === node) mine.push(numbers[i]);
  const set = RankSet.of(mine);
  const fact = (name: string, value: Child) => (value === null || value === "" ? null : [el("dt", null, name), el("dd", null, value)]);
  return el(
    "dl",
    { class: "facts-list" },
    fact("Ranks", mine.length ? el("a", { href: store.href({ ...rankTarget(mine[0]), selection: { ranks: set, nodes: null } }) }, set.toShortString(6)) : "none"),
    fact("Processors", [info.cpus ? plural(info.cpus, "processor") : "–", info.cpu_model ? `, ${printable(info.cpu_model)}` : ""]),
    fact("Memory", [bytes(info.memory_bytes), info.numa_nodes ? `, ${plural(info.numa_nodes, "memory node")}` : "", info.cache_bytes ? `, ${bytes(info.cache_bytes)} largest cache` : ""]),
    fact("CPU time of ranks", seconds(info.cpu_s)),
    fact("Collector", `${seconds(info.collector_cpu_s)} of CPU time, ${percent(info.elapsed_s > 0 ? info.collector_cpu_s / info.elapsed_s : null, 2)} of a core`),
  );
}

class NodesPage implements PageHandle {
  private readonly list = el("div");
  private readonly card = el("div");
  private charts: LineChart[] = [];
  private listedFor = ""; // the selection that the table is of

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    root.append(this.list, this.card);
    this.update();
  }

  update(): void {
    this.destroy();
    this.updateTable();
    const open = this.openNode();
    for (const row of this.list.querySelectorAll("tr.current")) row.classList.remove("current");
    this.list.querySelector(`tr.node-${open}`)?.classList.add("current");
    replace(this.card, open < 0 ? this.allNodes() : this.oneNode(open));
  }

  destroy(): void {
    for (const chart of this.charts) chart.destroy();
    this.charts = [];
  }

  // The open node is in the hash; -1: none.
  private openNode(): number {
    const { model } = this.store;
    const text = this.store.param("open");
    if (text !== null && /^\d+$/.test(text) && Number(text) < model.nodeCount) return Number(text);
    return model.nodeCount === 1 ? 0 : -1;
  }

  // The table stays as long as the selection does: the focus is in it.
  private updateTable(): void {
    const { store } = this;
    const selection = store.href({ page: "nodes", params: {} });
    if (selection === this.listedFor) return;
    this.listedFor = selection;
    const rows = makeRows(store);
    replace(this.list, section("Nodes", { aside: this.note(rows.length) }, this.table(rows)));
  }

  // How many nodes are chosen, and whether their numbers follow the selection.
  private note(chosen: number): Child {
    const { store } = this;
    const { model, selection } = store;
    const isOfWholeRun =
      !store.isWholeRun && (selection.region !== null || (selection.time && !model.header.node_series.length));
    const all = plural(model.nodeCount, "node");
    return [
      isOfWholeRun ? [ofWholeRun(), " · "] : null,
      el("span", { class: "note" }, store.rankMask() ? `${chosen} of ${all}` : all),
    ];
  }

  private table(rows: Row[]): HTMLElement {
    const { store } = this;
    return table(columns(store, rows), rows, {
      label: "Nodes",
      limit: 60,
      sort: { column: store.param("sort") ?? "node", descending: store.param("order") === "down" },
      onSort: (sort, descending) => store.setParams({ sort, order: descending ? "down" : null }),
      empty: "No node has a chosen rank.",
      rowClass: (row) => `node-${row.index} ${row.index === this.openNode() ? "current" : ""}`,
      // Tables tell of closing by the same call.
      onOpen: (row) =>
        store.setParam("open", String(row.index) === store.param("open") ? null : row.index, { replace: false }),
    });
  }

  private allNodes(): Child {
    if (!this.store.model.header.node_series.length) return null;
    return section(
      "All nodes over time",
      { aside: el("span", { class: "note" }, "Enter or a click on a node shows it alone") },
      el("div", { class: "small-charts" }, overview(this.store, this.charts)),
    );
  }

  private oneNode(node: number): Child {
    const { model } = this.store;
    const hasSeries = model.header.node_series.length > 0;
    return section(
      printable(model.nodes[node].name),
      {
        class: "node-card",
        aside: hasSeries ? el("span", { class: "note" }, "whoever caused it; drag to choose time") : null,
      },
      el(
        "div",
        { class: "node-detail" },
        nodeFacts(this.store, node),
        el("div", { class: "small-charts" }, nodeCharts(this.store, node, this.charts)),
      ),
    );
  }
}

export const page: Page = {
  id: "nodes",
  title: "Nodes",
  hint: "Processors, memory, network and disk of each node",
  mount: (root, store) => new NodesPage(root, store),
};
