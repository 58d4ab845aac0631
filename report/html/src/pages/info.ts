// SPDX-License-Identifier: BSD-3-Clause
import { CATEGORY_HELP, CATEGORY_TITLES, categoryColour } from "../core/colours";
import { el, replace, section, type Child } from "../core/dom";
import { table } from "../core/table";
import { commandLines, count, percent, plural, printable, seconds, seriesTitle, shortenMiddle, signalName } from "../core/format";
import { CATEGORIES, type Model } from "../core/model";
import type { Page } from "../core/page";
import { RankSet, type Store } from "../core/selection";
import { collectorShare, missingRanks } from "./summary";

function facts(rows: (readonly [string, Child] | null | false)[]): HTMLElement {
  return el(
    "dl",
    { class: "facts-list" },
    rows.map((row) => (row && row[1] !== null && row[1] !== undefined && row[1] !== false ? [el("dt", null, row[0]), el("dd", null, row[1])] : null)),
  );
}

function commandCell(lines: string[]): HTMLElement {
  if (lines.length < 2) return el("code", null, lines[0] ?? "not known");
  return el("div", null, lines.map((line) => el("div", null, el("code", null, line))));
}

export function shortTables(model: Model): string[] {
  return Object.entries(model.header.shortened ?? {})
    .filter(([name]) => name !== "ranks" && name !== "counters.ranks") // arrays have the one, no page needs the other
    .map(([name, { kept, of }]) => `${printable(name)} ${kept.toLocaleString("en-US")} of ${of.toLocaleString("en-US")}`);
}

function runCard(store: Store): HTMLElement {
  const { run } = store.model.report;
  const { header } = store.model;
  const shortened = shortTables(store.model);
  return section(
    "Run",
    {},
    facts([
      ["Command", commandCell(commandLines(run))],
      ["Start", run.start_utc ? run.start_utc.replace("T", " ").replace("Z", " UTC") : "not known"],
      ["Elapsed", seconds(run.elapsed_s)],
      ["Identifier", el("code", null, printable(run.id))],
      ["Ranks", [run.ranks.toLocaleString("en-US"), run.world_size !== null && run.world_size !== run.ranks ? ` of a world of ${run.world_size.toLocaleString("en-US")}` : "", run.spawned_ranks ? `, ${run.spawned_ranks} of them spawned` : ""]],
      ["Launcher", [run.launcher ? printable(run.launcher) : "none seen", run.restarts ? `, ranks started again ${plural(run.restarts, "time")}` : ""]],
      ["MPI", run.mpi_library ? printable(run.mpi_library) : "none seen"],
      run.commit ? ["Commit", el("code", null, printable(run.commit))] : null,
      run.modules.length > 0 && ["Modules", run.modules.map(printable).join(", ")],
      run.compilers.length > 0 && ["Compiler", run.compilers.map(printable).join(", ")],
      run.environment.length > 0 && ["Environment", run.environment.map(({ name, value }) => printable(`${name}=${value}`)).join(", ")],
      ["Recorded with", `clusterprof ${printable(run.version)}`],
      ["Sampling", [`${run.rate_hz} Hz, ${printable(run.clock)} clock`, run.sample_on ? `, at overflows of ${printable(run.sample_on)}` : ""]],
      run.only_regions ? ["Recorded", "only inside regions"] : null,
      run.region ? ["Region", `this report is of ${printable(run.region)} alone`] : null,
      ["This page", [
        header.groups === store.model.rankCount ? "call paths of every rank" : `call paths of ${header.groups.toLocaleString("en-US")} groups of ranks`,
        header.rows === store.model.rankCount ? "" : `; heat maps with ${header.rows.toLocaleString("en-US")} rows, outliers by themselves`,
        header.time.bins ? `; call paths over time in steps of ${seconds(header.time.bin_s)}` : "; call paths without their time in the run",
      ]],
      shortened.length > 0 && ["Tables cut short", shortened.join(", ")],
    ]),
  );
}

export interface BadEnd {
  rank: number;
  node: string | null;
  status: number | null;
  signal: number | null;
  path: string[]; // the last call path, where the report has the rank
}

// The ranks that were lost, or ended by a signal or with a status other than 0.
export function badEnds(model: Model): BadEnd[] {
  const lost = model.u8("rank_lost");
  const statuses = model.i32("rank_exit_status");
  const signals = model.i32("rank_exit_signal");
  const numbers = model.i32("rank_number");
  const nodes = model.u32("rank_node");
  const paths = new Map(model.report.ranks.map((rank) => [rank.rank, rank.exit.last_call_path ?? []]));
  const ends: BadEnd[] = [];
  for (let i = 0; i < numbers.length; ++i) {
    if (!lost[i] && signals[i] < 0 && statuses[i] <= 0) continue;
    ends.push({
      rank: numbers[i],
      node: model.nodes[nodes[i]]?.name ?? null,
      status: statuses[i] < 0 ? null : statuses[i],
      signal: signals[i] < 0 ? null : signals[i],
      path: paths.get(numbers[i]) ?? [],
    });
  }
  return ends;
}

function missingCard(store: Store): HTMLElement | null {
  const { model } = store;
  const { run, failure } = model.report;
  const missing = missingRanks(store);
  const lost: number[] = [];
  const numbers = model.i32("rank_number");
  model.u8("rank_lost").forEach((is, i) => is && lost.push(numbers[i]));
  const ended = badEnds(model);
  const anySeen = ended.some((r) => r.path.length > 0);
  const isWhole = run.complete || (run.state === "running" && missing === 0);
  if (isWhole && ended.length === 0 && !failure?.stderr_tail) return null;
  return section(
    "Missing and lost",
    {},
    missing > 0
      ? el("p", null, el("span", { class: "bad" }, "▲ "), `${plural(missing, "rank")} without data: ${RankSet.of(run.missing_ranks).toShortString(12, missing > run.missing_ranks.length)}. Every figure is of the ranks that are there. Either their node's shard (node-<host>.h5) was not written, or they never started.`)
      : null,
    lost.length ? el("p", null, el("span", { class: "bad" }, "▲ "), `Lost (killed by a signal, ended without MPI_Finalize, or not seen to end): ${lost.length === 1 ? "rank" : "ranks"} ${RankSet.of(lost).toShortString(12)}. ${lost.length === 1 ? "Its" : "Their"} figures are those up to then.`) : null,
    ended.length
      ? table(
          [
            { id: "rank", title: "Rank", numeric: true, width: "90px", value: (r) => r.rank, cell: (r) => String(r.rank) },
            { id: "node", title: "Node", value: (r) => r.node, cell: (r) => shortenMiddle(printable(r.node ?? "–"), 40) },
            { id: "exit", title: "Ended by", value: (r) => r.signal ?? r.status, cell: (r) => (r.signal !== null ? signalName(r.signal) : r.status !== null ? `status ${r.status}` : "not known") },
            ...(anySeen
              ? [{ id: "seen", title: "Last call path", value: (r: BadEnd) => r.path.at(-1) ?? "", cell: (r: BadEnd) => printable(r.path.join(" > ")) }]
              : []),
          ],
          ended,
          { label: "Ranks that did not end as they should", limit: 20 },
        )
      : null,
    failure?.stderr_tail ? el("h3", { class: "gap-above" }, failure.rank === null ? "Last on stderr" : `Last on stderr of rank ${failure.rank}`) : null,
    failure?.stderr_tail ? el("pre", null, failure.stderr_tail.split("\n").map(printable).join("\n")) : null,
  );
}

function qualityCard(store: Store): HTMLElement {
  const { run, quality } = store.model.report;
  const of = (n: number) => (quality.samples > 0 ? ` (${percent(n / quality.samples, 2)})` : "");
  return section(
    "Quality of the samples",
    {},
    facts([
      ["Samples", count(quality.samples)],
      ["Rate", quality.rate_reached_hz === null || quality.rate_reached_hz === undefined ? `${run.rate_hz} Hz asked` : `${quality.rate_reached_hz.toFixed(1)} Hz reached of ${run.rate_hz} Hz asked`],
      ["Call paths cut", `${count(quality.truncated)}${of(quality.truncated)}`],
      quality.merges_tried > 0 && ["Python and native joined", `${percent(quality.merge_success_percent === null || quality.merge_success_percent === undefined ? null : quality.merge_success_percent / 100, 2)} of ${count(quality.merges_tried)}, ${count(quality.merges_failed)} not`],
      ["Cost of a sample", quality.handler_median_s === null || quality.handler_median_s === undefined ? "not measured" : `${seconds(quality.handler_median_s)} median, ${seconds(quality.handler_p99_s)} 99th percentile`],
      ["Recording cost", `${seconds(quality.recording_s)}${quality.recording_share === null ? "" : `, ${percent(quality.recording_share, 2)} of the ranks' CPU time`}`],
      ["Collectors", collectorShare(store) === null ? null : `${percent(collectorShare(store), 2)} of a core on each node`],
    ]),
    el("h3", { class: "gap-above" }, "Dropped"),
    Object.keys(run.dropped).length === 0 ? el("p", { class: "empty" }, "Nothing was dropped.") : null,
    Object.keys(run.dropped).length
      ? table(
          [
            { id: "reason", title: "Reason", value: (d) => d[0], cell: (d) => el("code", null, printable(d[0])) },
            { id: "n", title: "Number", numeric: true, value: (d) => d[1], cell: (d) => d[1].toLocaleString("en-US") },
            { id: "what", title: "What", cell: (d) => el("span", { class: "muted" }, printable(run.dropped_meaning?.[d[0]] ?? "")) },
          ],
          Object.entries(run.dropped),
          { label: "Dropped, by reason", sort: { column: "n", descending: true } },
        )
      : null,
  );
}

function waitCard(store: Store): HTMLElement | null {
  const w = store.model.report.wait_analysis;
  if (!w) return null;
  const part = (n: number, of: number) => `${count(n)}${of > 0 ? ` (${percent(n / of, 2)})` : ""}`;
  return section(
    "Analysis of waiting",
    {},
    facts([
      ["Events", [count(w.events), w.event_level > 0 ? `: about one operation in ${2 ** w.event_level} was looked at` : ", of all operations"]],
      ["Messages", `${count(w.messages)}, ${part(w.unmatched_messages, w.messages)} of them unmatched`],
      ["Collective operations", `${count(w.collectives)}, ${part(w.unmatched_collectives, w.collectives)} of them with a missing member`],
      ["Error of clocks", w.clock_error_s === null || w.clock_error_s === undefined ? el("span", { class: "warn" }, "▲ some nodes' clocks cannot be compared") : `at most ${seconds(w.clock_error_s)} between nodes`],
      ["Received before sent", w.clock_violations ? `${count(w.clock_violations)}, at worst by ${seconds(w.worst_violation_s)}` : "none"],
      w.ideal_s === null || w.ideal_s === undefined ? ["Ideal network", "not known"] : ["Ideal network", `the run would take ${seconds(w.ideal_s)}`],
    ]),
  );
}

function countersCard(store: Store): HTMLElement {
  const { counters } = store.model.report;
  const missing = Object.entries(counters.unavailable);
  return section(
    "Counters",
    { aside: counters.multiplexed ? el("span", { class: "note" }, "they took turns: values are estimates") : null },
    counters.available.length ? el("p", { class: "codes" }, counters.available.map((name) => el("code", null, printable(name)))) : el("p", { class: "empty" }, "None were counted."),
    missing.length
      ? table(
          [
            { id: "event", title: "Not available", value: (m) => m[0], cell: (m) => el("code", null, printable(m[0])) },
            { id: "why", title: "Why", cell: (m) => printable(m[1]) },
          ],
          missing,
          { label: "Counters that are not available", limit: 20 },
        )
      : null,
  );
}

function readingCard(store: Store): HTMLElement {
  const { header } = store.model;
  return section(
    "How to read this page",
    {},
    el(
      "dl",
      { class: "facts-list" },
      CATEGORIES.map((c) => [el("dt", null, el("span", { class: "swatch", style: { background: categoryColour(c) } }), " ", CATEGORY_TITLES[c]), el("dd", null, CATEGORY_HELP[c])]),
      el("dt", null, "Selection"),
      el("dd", null, "The time, ranks, nodes and region that you choose apply to all pages and are kept in the page's address. Parts that cannot follow are marked “of the whole run”."),
      header.series.length ? [el("dt", null, "Recorded over time"), el("dd", null, header.series.map((s) => seriesTitle(s.name)).join(", "))] : null,
    ),
  );
}

export const page: Page = {
  id: "info",
  title: "Run info",
  hint: "Versions, settings, what was not recorded",
  mount(root, store) {
    const { notes } = store.model.report.run;
    replace(
      root,
      missingCard(store),
      notes.length ? section("Notes", {}, el("ul", { class: "notes" }, notes.map((note) => el("li", null, printable(note))))) : null,
      el("div", { class: "columns" }, runCard(store), qualityCard(store)),
      el("div", { class: "columns" }, waitCard(store), countersCard(store)),
      readingCard(store),
    );
    return { update() {} };
  },
};
