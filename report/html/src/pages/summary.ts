// SPDX-License-Identifier: BSD-3-Clause
// Summary: what limits the run, its efficiencies, the largest functions and the findings, each with a link to more.
import { CATEGORY_HELP, CATEGORY_TITLES, categoryColour, kindColour } from "../core/colours";
import { el, miniBar, ofWholeRun, replace, section, stackedBar, type Child } from "../core/dom";
import { bytes, count, derivedValue, functionLabel, percent, plural, printable, seconds, shortenMiddle } from "../core/format";
import { functionTarget, lineTarget, rankTarget } from "../core/links";
import { CATEGORIES } from "../core/model";
import type { Page } from "../core/page";
import type { Bottleneck, Efficiency, EfficiencyName, Finding } from "../core/report";
import { type Store } from "../core/selection";
import { categoryTotals, topFunctions } from "../core/totals";
import { weights } from "../core/weights";
import { gainsCard } from "../gains/card";

function tile(name: string, value: Child, detail: Child, help?: string): HTMLElement {
  return el(
    "div",
    { class: "tile", tip: help, tabindex: help ? 0 : null },
    el("div", { class: "tile-name" }, name),
    el("div", { class: "tile-value" }, value),
    el("div", { class: "tile-detail" }, detail),
  );
}

// Also those that the page does not list.
export function missingRanks(store: Store): number {
  const { report, header } = store.model;
  return header.shortened?.["run.missing_ranks"]?.of ?? report.run.missing_ranks.length;
}

// Dropped samples, cut paths and the like as people should worry about them.
export interface Quality {
  level: "good" | "warn" | "bad";
  text: string;
}
export function qualityOf(store: Store): Quality {
  const { run, quality, findings } = store.model.report;
  const missing = missingRanks(store);
  const dropped = ["ring_full", "reentrant", "fault_in_walk"].reduce((sum, reason) => sum + (run.dropped[reason] ?? 0), 0);
  const share = quality.samples > 0 ? dropped / (quality.samples + dropped) : 0;
  if (run.state === "running") return { level: "warn", text: "still running" };
  if (!run.complete) return { level: "bad", text: missing > 0 ? `${plural(missing, "rank")} missing` : "not all ranks ended" };
  if (quality.samples === 0) return { level: "bad", text: "no samples" };
  if (share >= 0.01) return { level: "warn", text: `${percent(share)} of samples lost` };
  const incomplete = ["threads_not_sampled", "io_not_counted", "mpi_paths_lost", "mpi_peers_lost", "mpi_events_lost", "regions_lost"];
  if (findings.some((finding) => incomplete.includes(finding.kind))) return { level: "warn", text: "incomplete" };
  if (quality.truncated >= 0.1 * quality.samples) return { level: "warn", text: "call paths cut" };
  if (quality.merges_failed > 0.01 * quality.merges_tried) return { level: "warn", text: "Python and native not joined" };
  return { level: "good", text: "complete" };
}

export function collectorShare(store: Store): number | null {
  const { nodes } = store.model.report;
  const elapsed = nodes.reduce((sum, node) => sum + node.elapsed_s, 0);
  return elapsed > 0 ? nodes.reduce((sum, node) => sum + node.collector_cpu_s, 0) / elapsed : null;
}

function tiles(store: Store): HTMLElement {
  const { report } = store.model;
  const { run, quality, efficiency } = report;
  const threads = report.ranks.reduce((sum, rank) => sum + rank.threads, 0);
  const cpu = report.nodes.reduce((sum, node) => sum + node.cpu_s, 0);
  const windows = run.standby ? run.windows ?? [] : null;
  const lasted = run.lasted_s ?? run.elapsed_s;
  const state = qualityOf(store);
  const recording = quality.recording_share;
  const collectors = collectorShare(store);
  return el(
    "div",
    { class: "tiles" },
    tile("Elapsed", seconds(run.elapsed_s), windows ? `recorded, of ${seconds(lasted)}, in ${plural(windows.length, "window")}` : run.start_utc ? run.start_utc.replace("T", " ").replace("Z", " UTC") : "start not known"),
    tile("Ranks", run.ranks.toLocaleString("en-US"), [
      plural(run.nodes, "node"),
      threads > 0 ? ` · ${plural(threads, "thread")}` : null,
      run.spawned_ranks ? ` · ${run.spawned_ranks} spawned` : null,
      run.launcher ? ` · ${printable(run.launcher)}` : null,
      run.restarts ? ` · restarted ${plural(run.restarts, "time")}` : null,
    ]),
    tile("CPU time", seconds(cpu), `${percent(lasted > 0 && run.ranks > 0 ? cpu / lasted / run.ranks : null, 0)} of a processor per rank`, "User and system time of all ranks, all their processes and threads."),
    tile("Parallel efficiency", percent(efficiency.parallel), efficiency.parallel === null || efficiency.parallel === undefined ? "no MPI measured" : `${percent(1 - efficiency.parallel)} lost`, "Mean useful time per rank (outside MPI, not waiting for a processor), of the elapsed time without MPI_Init and MPI_Finalize."),
    tile("Samples", count(quality.samples), `${run.rate_hz} Hz, ${run.clock} clock`),
    tile("Overhead", recording === null ? "–" : `≈ ${percent(recording, 2)}`, collectors === null ? "" : `collectors ${percent(collectors, 2)} of a core`, "CPU time that the ranks' threads spent in clusterprof: in signal handlers, in walks for call paths and in the wrappers of MPI calls, of all their CPU time. Delivering signals is not in it. Collectors: one process per node."),
    tile("Data", el("span", { class: `words ${state.level}` }, state.level === "good" ? "✓ " : "▲ ", state.text), el("a", { href: store.href({ page: "info", params: {} }) }, "details")),
  );
}

function timeCard(store: Store): HTMLElement {
  const totals = categoryTotals(store);
  const parts = CATEGORIES.map((category, c) => ({ category, value: totals.seconds[c] }));
  const unknown = totals.whole - totals.sum;
  const said = {
    ranks: "main threads",
    series: "main threads, in the chosen time",
    paths: "all threads",
  }[totals.source];
  return section(
    "Where time goes",
    { aside: el("span", { class: "note" }, said) },
    stackedBar(
      parts.map((p) => ({
        value: Number.isNaN(p.value) ? 0 : p.value,
        colour: categoryColour(p.category),
        label: CATEGORY_TITLES[p.category],
        text: seconds(p.value),
      })),
      Math.max(totals.whole, totals.sum),
      { class: "tall" },
    ),
    el(
      "table",
      { class: "categories", "aria-label": "Time by category" },
      el("thead", { class: "visually-hidden" }, el("tr", null, ["Category", "Share", "Time", "Per rank"].map((t) => el("th", { scope: "col" }, t)))),
      el(
        "tbody",
        null,
        parts.map((p) =>
          el(
            "tr",
            null,
            el("td", { tip: CATEGORY_HELP[p.category], tabindex: 0 }, el("span", { class: "swatch", style: { background: categoryColour(p.category) } }), " ", CATEGORY_TITLES[p.category]),
            el("td", { class: "num strong" }, Number.isNaN(p.value) ? "not measured" : percent(totals.whole > 0 ? p.value / totals.whole : 0)),
            el("td", { class: "num muted" }, Number.isNaN(p.value) ? "" : seconds(p.value)),
          ),
        ),
        unknown >= 0.0005 * totals.whole && unknown > 0
          ? el(
              "tr",
              null,
              el("td", { tip: "Recorded time for which there are no samples: of ranks without any, or, with the CPU clock, without a processor.", tabindex: 0 }, "Not known"),
              el("td", { class: "num strong" }, percent(unknown / totals.whole)),
              el("td", { class: "num muted" }, seconds(unknown)),
            )
          : null,
      ),
    ),
  );
}

type NodeName = EfficiencyName | "hybrid" | "mpi" | "openmp" | "openmp_load_balance" | "openmp_scheduling" | "openmp_serialization";

const EFFICIENCY: Record<NodeName, { title: string; help: string; loss: string }> = {
  parallel: {
    title: "Parallel",
    help: "Mean useful time (outside MPI, not waiting for a processor) of the elapsed time without MPI_Init and MPI_Finalize: load balance × communication. 100 % would be all ranks at work all the time.",
    loss: "is not spent on work",
  },
  load_balance: {
    title: "Load balance",
    help: "Mean useful time of the largest of a rank. Less: some ranks have more to do than others, which wait for them.",
    loss: "of the busiest rank's time others have nothing to do",
  },
  communication: {
    title: "Communication",
    help: "Useful time of the busiest rank, of the elapsed time without MPI_Init and MPI_Finalize. Less: even that rank spends time in MPI. Serialization × transfer.",
    loss: "even the busiest rank is in MPI",
  },
  serialization: {
    title: "Serialization",
    help: "Useful time of the busiest rank, of the time the run would take on a network without any delay. Less: ranks wait for each other in turn, or start late; a faster network would not help.",
    loss: "ranks wait in turn",
  },
  transfer: {
    title: "Transfer",
    help: "Time the run would take on a network without any delay, of the elapsed time. Less: moving data, the MPI library, its start and end.",
    loss: "data is moved",
  },
  hybrid: {
    title: "Hybrid",
    help: "Ranks and threads, MPI × OpenMP: work of all threads of all ranks, of the time that they have.",
    loss: "is not spent on work",
  },
  mpi: {
    title: "MPI",
    help: "Mean useful time of main threads (outside MPI, not waiting for a processor) of the elapsed time without MPI_Init and MPI_Finalize: load balance × communication.",
    loss: "main threads are in MPI, or have no processor",
  },
  openmp: {
    title: "OpenMP",
    help: "Work of all threads, of their time outside MPI: load balance × scheduling × serialization.",
    loss: "of the threads' time outside MPI is not work",
  },
  openmp_load_balance: {
    title: "Load balance",
    help: "Less: threads wait at the end of regions, at barriers and at the ends of loops for slower ones.",
    loss: "threads wait for slower ones",
  },
  openmp_scheduling: {
    title: "Scheduling",
    help: "Less: starting the threads of a region and handing out parts of loops takes time.",
    loss: "threads are started, and parts of loops handed out",
  },
  openmp_serialization: {
    title: "Serialization",
    help: "Less: one thread works and the others have nothing to do: outside of regions, in smaller teams, in critical sections.",
    loss: "one thread works and the others have nothing to do",
  },
};

function grade(value: number): string {
  return value >= 0.85 ? "var(--good)" : value >= 0.65 ? "var(--warn)" : "var(--bad)";
}

function efficiencyNode(name: NodeName, value: number | null | undefined, isError: boolean): HTMLElement {
  const { title, help, loss } = EFFICIENCY[name];
  const known = value !== null && value !== undefined;
  return el(
    "div",
    {
      class: `eff eff-${name}`,
      tabindex: 0,
      tip: () => [el("strong", null, `${title}  ${percent(value)}`), el("br"), help, known && value < 1 ? [el("br"), `${percent(1 - value)}: ${loss}.`] : null],
    },
    el("span", { class: "eff-name" }, title),
    el("span", { class: "eff-value" }, percent(value)),
    isError ? el("span", { class: "badge", tip: "It cannot be above 100 %: what is above is the error of measuring." }, "measuring error") : null,
    miniBar(known ? Math.min(1, value) : value, known ? grade(value) : undefined),
  );
}

// A node and what it is the product of.
function efficiencyBranch(node: HTMLElement, ...children: readonly Child[]): Child[] {
  return [node, children.length ? el("div", { class: "eff-children" }, ...children.map((child) => el("div", { class: "eff-branch" }, child))) : null];
}

function efficiencyCard(store: Store): HTMLElement | null {
  const { report } = store.model;
  const region = report.regions?.find((r) => r.name === store.selection.region);
  const values: Efficiency = region
    ? { ...region.efficiency, serialization: null, transfer: null }
    : report.efficiency;
  const aboveOne = (region ?? report).efficiency_above_one;
  const node = (name: EfficiencyName, as: NodeName = name) => efficiencyNode(as, values[name], aboveOne.includes(name));
  const threads = region ? region.openmp : report.openmp?.efficiency;
  const hybrid = region ? region.openmp.hybrid : report.openmp?.hybrid.parallel;
  const hasThreads = (threads?.parallel ?? null) !== null;
  const hasMpi = values.parallel !== null && values.parallel !== undefined;
  const follows = region !== undefined && !store.selection.time && !store.rankMask();
  const aside = store.isWholeRun ? null : follows ? el("span", { class: "note" }, "in the region") : region ? el("span", { class: "note" }, "in the region, all ranks") : ofWholeRun();
  if (!hasMpi && !hasThreads)
    return section("Efficiency", { aside }, el("p", { class: "empty" }, "No MPI calls were measured: there is nothing to compare ranks by."));
  const fine = values.serialization !== null && values.serialization !== undefined;
  const ofRanks = efficiencyBranch(
    node("parallel", hasThreads ? "mpi" : "parallel"),
    node("load_balance"),
    fine ? efficiencyBranch(node("communication"), node("serialization"), node("transfer")) : node("communication"),
  );
  const ofThreads = hasThreads
    ? efficiencyBranch(
        efficiencyNode("openmp", threads?.parallel, false),
        efficiencyNode("openmp_load_balance", threads?.load_balance, false),
        efficiencyNode("openmp_scheduling", threads?.scheduling, false),
        efficiencyNode("openmp_serialization", threads?.serialization, false),
      )
    : null;
  const all = hasMpi && hasThreads ? efficiencyBranch(efficiencyNode("hybrid", hybrid, false), ofRanks, ofThreads) : (ofThreads ?? ofRanks);
  return section(
    "Efficiency",
    { aside },
    el("div", { class: "eff-tree" }, all),
    el("p", { class: "note eff-note" }, "Each is the product of those to its right.", fine || region || !hasMpi ? null : " What part of communication is serialization or transfer is not known."),
  );
}

const SEVERITY: Record<Finding["severity"], { mark: string; label: string }> = {
  high: { mark: "●", label: "High" },
  medium: { mark: "◐", label: "Medium" },
  low: { mark: "○", label: "Low" },
  info: { mark: "i", label: "Info" },
};

// Where there is more on findings that name neither a line nor a rank.
const COMMUNICATION: [string, string] = ["comm", "Communication"];
const BALANCE: [string, string] = ["balance", "Balance"];
const NODES: [string, string] = ["nodes", "Nodes"];
const MEMORY: [string, string] = ["memory", "Memory"];
const FINDING_PAGES: Record<string, [string, string]> = {
  ranks_missing: ["info", "Run info"],
  no_progress: ["info", "Run info"],
  delay: COMMUNICATION,
  delay_passed_on: COMMUNICATION,
  late_by_samples: ["torch", "torch.distributed"],
  serialization: COMMUNICATION,
  transfer: COMMUNICATION,
  mutual_waiting: COMMUNICATION,
  mpi_besides_waiting: COMMUNICATION,
  mpi_time: COMMUNICATION,
  mpi_errors: COMMUNICATION,
  requests_open: COMMUNICATION,
  messages_unmatched: COMMUNICATION,
  load_imbalance: BALANCE,
  event_loop_blocked: ["event-loops", "Event loops"],
  openmp_imbalance: ["openmp", "OpenMP"],
  openmp_serial: ["openmp", "OpenMP"],
  openmp_small_regions: ["openmp", "OpenMP"],
  openmp_one_at_a_time: ["openmp", "OpenMP"],
  openmp_threads: ["openmp", "OpenMP"],
  openmp_one_processor: ["openmp", "OpenMP"],
  input_bound: ["processes", "Processes"],
  shared_processors: NODES,
  too_many_threads: NODES,
  busy_node: NODES,
  across_memory_nodes: NODES,
  full_memory: NODES,
  pages_from_disk: NODES,
  memory_requested: NODES,
  memory_imbalance: MEMORY,
  memory_growth: MEMORY,
  memory_of_allocator: MEMORY,
};

// The page that has more of a finding about all ranks and no line.
export function pageOf(finding: Pick<Finding, "kind" | "severity">): [string, string] {
  return FINDING_PAGES[finding.kind] ?? (finding.severity === "info" ? ["info", "Run info"] : ["hotspots", "Hotspots"]);
}

function findingLinks(store: Store, finding: Finding): Child[] {
  const links: Child[] = [];
  if (finding.file)
    links.push(el("a", { href: store.href(lineTarget(finding.file, finding.line)), tip: printable(finding.file) }, shortenMiddle(printable(store.model.place(finding.file, finding.line)), 44)));
  if (finding.rank !== null && finding.rank !== undefined)
    links.push(
      store.model.rankIndex(finding.rank) >= 0
        ? el("a", { href: store.href(rankTarget(finding.rank)) }, `rank ${finding.rank}`)
        : el("span", { class: "muted" }, `rank ${finding.rank}`),
    );
  if (links.length) return links;
  const [page, title] = pageOf(finding);
  return [el("a", { href: store.href({ page, params: {} }) }, title)];
}

const FIRST_FINDINGS = 8;

function gainText(store: Store, finding: Finding): Child {
  if (finding.gain_s === null || finding.gain_s === undefined) return null;
  const { elapsed } = store.model;
  const share = elapsed > 0 ? ` of ${seconds(elapsed)}` : "";
  if (finding.gain_method === "replay")
    return el(
      "span",
      { class: "finding-gain", tip: `Predicted by replaying the run with: ${printable(finding.change ?? "")}. ±: 95 %.` },
      `Saves ${seconds(finding.gain_s)} ± ${seconds(finding.gain_error_s ?? 0)}${finding.gain_s > (finding.gain_error_s ?? 0) ? share : ", which may be nothing"}, predicted by replay`,
    );
  return el(
    "span",
    {
      class: "finding-gain",
      tip: "How much shorter the run would be at most if the cause were gone: what follows from it may take its place.",
    },
    `Saves at most ${seconds(finding.gain_s)}${share}, estimated from sums`,
  );
}

// In the report's order. All of them are in the page: the first ones at first.
function findingsCard(store: Store): HTMLElement {
  const { findings, run } = store.model.report;
  const neverStarted = run.standby === true && (run.windows ?? []).length === 0;
  const all = store.param("findings") === "all";
  const more = findings.length - FIRST_FINDINGS;
  return section(
    "Findings",
    { aside: ofWholeRun() },
    findings.length === 0 ? el("p", { class: "empty" }, neverStarted ? "None: nothing was recorded (clusterprof start RUN)." : "Nothing stands out.") : null,
    el(
      "ol",
      { class: "findings" },
      findings.slice(0, all ? findings.length : FIRST_FINDINGS).map((finding) =>
        el(
          "li",
          { class: `finding ${finding.severity}` },
          el("span", { class: "severity" }, el("span", { class: "severity-mark", "aria-hidden": "true" }, SEVERITY[finding.severity].mark), SEVERITY[finding.severity].label),
          el("span", { class: "finding-share num" }, finding.share === null || finding.share === undefined ? "" : percent(finding.share)),
          el("span", { class: "finding-bar" }, finding.share === null || finding.share === undefined ? null : miniBar(finding.share, "var(--severity)")),
          el("span", { class: "finding-text" }, printable(finding.text), finding.estimate ? el("span", { class: "badge", tip: "What it says rests on an estimate." }, "estimate") : null, gainText(store, finding)),
          el("span", { class: "finding-links" }, findingLinks(store, finding)),
        ),
      ),
    ),
    more > 0
      ? el(
          "button",
          { type: "button", class: "more", "aria-expanded": String(all), on: { click: () => store.setParam("findings", all ? null : "all") } },
          all ? `Show the first ${FIRST_FINDINGS}` : `Show all ${findings.length} findings`,
        )
      : null,
  );
}

const CLASSES: Record<Bottleneck["class"], { title: string; help: string; page: string }> = {
  compute: { title: "Compute", help: "Native code that is not limited by memory, and system calls other than those of I/O and memory.", page: "hotspots" },
  memory: { title: "Memory", help: "Native code limited by memory; page faults and mapping of memory.", page: "hotspots" },
  io: { title: "I/O", help: "File and socket system calls.", page: "hotspots" },
  communication: { title: "Communication", help: "MPI that imbalance does not explain.", page: "comm" },
  imbalance: { title: "Imbalance", help: "Waiting because other ranks have more to do.", page: "balance" },
  python: { title: "Python", help: "The interpreter runs bytecode, garbage collection too.", page: "hotspots" },
  runnable: { title: "Runnable", help: "Ready to run outside MPI, but no processor was free.", page: "nodes" },
  input: { title: "Input", help: "Waiting for data that the program's own workers make too slowly.", page: "processes" },
  idle: { title: "Idle", help: "Sleep, locks, the GIL, poll and the like.", page: "hotspots" },
};

function bottleneckCard(store: Store): HTMLElement {
  const { region } = store.selection;
  const all = store.model.report.bottleneck;
  const ofRegion = region === null ? [] : all.filter((b) => b.scope === "region" && b.region === region);
  const rows = ofRegion.length ? ofRegion : all.filter((b) => b.scope === "run");
  const ranksBound = new Map<Bottleneck["class"], number>();
  for (const b of all) if (b.scope === "rank") ranksBound.set(b.class, (ranksBound.get(b.class) ?? 0) + 1);
  return section(
    "Bound by",
    { aside: ofRegion.length ? el("span", { class: "note" }, "in the region") : ofWholeRun() },
    rows.length === 0 ? el("p", { class: "empty" }, "No class has 5 % of the time.") : null,
    el(
      "ul",
      { class: "classes" },
      rows.map((b) =>
        el(
          "li",
          null,
          el("a", { class: "class-name", href: store.href({ page: CLASSES[b.class].page, params: {} }), tip: CLASSES[b.class].help }, CLASSES[b.class].title),
          el("span", { class: "num strong" }, percent(b.share)),
          miniBar(b.share),
          el("span", { class: "evidence muted" }, printable(b.evidence)),
        ),
      ),
    ),
    ranksBound.size > 1 && !ofRegion.length && !store.model.header.shortened?.bottleneck
      ? el("p", { class: "note" }, `Largest class by rank: ${[...ranksBound].sort((a, b) => b[1] - a[1]).map(([c, n]) => `${CLASSES[c].title.toLowerCase()} ${n}`).join(", ")}.`)
      : null,
  );
}

function functionsCard(store: Store): HTMLElement {
  const { model } = store;
  const { isEstimate } = weights(store);
  const top = topFunctions(store, 8);
  const most = top[0]?.self ?? 1;
  return section(
    "Hottest functions",
    { aside: [el("span", { class: "note" }, isEstimate ? "self, an estimate" : "self"), " ", el("a", { href: store.href({ page: "hotspots", params: {} }) }, "all")] },
    top.length === 0 ? el("p", { class: "empty" }, "No samples here.") : null,
    el(
      "ul",
      { class: "classes hottest" },
      top.map((f) => {
        const info = model.function(f.index);
        const place = model.place(info.file, info.line) || (info.module ?? "");
        return el(
          "li",
          null,
          el("span", { class: "swatch", style: { background: kindColour(info.kind) }, tip: info.kind }),
          el(
            "span",
            { class: "fn" },
            el("a", { href: store.href(functionTarget(f.index)), tip: printable(info.name) }, shortenMiddle(functionLabel(info.name, info.kind), 40)),
            " ",
            el("span", { class: "dim", tip: info.file ? printable(info.file) : undefined }, shortenMiddle(printable(place.slice(place.lastIndexOf("/") + 1)), 30)),
          ),
          el("span", { class: "num strong" }, percent(f.share)),
          miniBar(f.self / most, kindColour(info.kind)),
        );
      }),
    ),
  );
}

function resourcesCard(store: Store): HTMLElement | null {
  const { report, model } = { report: store.model.report, model: store.model };
  const rss = model.f32("rank_max_rss_bytes");
  let most = 0;
  let sum = 0;
  let known = 0;
  for (const value of rss) {
    if (Number.isNaN(value)) continue;
    most = Math.max(most, value);
    sum += value;
    ++known;
  }
  const total = (pick: (n: (typeof report.nodes)[number]) => number | null | undefined) => {
    const values = report.nodes.map(pick).filter((v): v is number => v !== null && v !== undefined);
    return values.length ? values.reduce((a, b) => a + b, 0) : null;
  };
  const pair = (name: string, value: Child, target: string) => [el("dt", null, name), el("dd", null, el("a", { href: store.href({ page: target, params: {} }) }, value))];
  const received = total((n) => n.network_received_bytes);
  const written = total((n) => n.disk_written_bytes);
  const models = [...new Set(report.nodes.map((n) => n.cpu_model).filter((m): m is string => !!m))];
  return section(
    "Resources",
    { aside: ofWholeRun() },
    el(
      "dl",
      { class: "facts-list" },
      models.length ? [el("dt", null, "Processors"), el("dd", null, models.slice(0, 2).map(printable).join("; ") + (models.length > 2 ? "; …" : ""))] : null,
      known ? pair("Memory of a rank", `${bytes(sum / known)} mean, ${bytes(most)} most`, "memory") : null,
      received === null ? null : pair("Network", `${bytes(received)} received, ${bytes(total((n) => n.network_sent_bytes))} sent`, "nodes"),
      written === null ? null : pair("Disk", `${bytes(total((n) => n.disk_read_bytes))} read, ${bytes(written)} written`, "nodes"),
      report.counters.derived.map((d) => [
        el("dt", { tip: printable(d.formula) }, printable(d.name).replaceAll("_", " ")),
        el("dd", null, derivedValue(d.value, d.unit)),
      ]),
    ),
  );
}

export const page: Page = {
  id: "summary",
  title: "Summary",
  hint: "What ran, where its time went, what to look at first",
  mount(root, store) {
    const update = () =>
      replace(
        root,
        tiles(store),
        store.isWholeRun ? null : el("p", { class: "page-note" }, "The figures above are ", ofWholeRun()),
        el("div", { class: "columns" }, timeCard(store), efficiencyCard(store)),
        findingsCard(store),
        gainsCard(store),
        el("div", { class: "columns" }, bottleneckCard(store), functionsCard(store)),
        resourcesCard(store),
      );
    update();
    return { update };
  },
};
