// SPDX-License-Identifier: BSD-3-Clause
// What changes of the program would gain, as predicted when the run was merged. Of any other change there is the command.
import { el, ofWholeRun, section, type Child } from "../core/dom";
import { plural, printable, seconds } from "../core/format";
import { lineTarget, rankTarget } from "../core/links";
import type { PredictedGain, WhatIf } from "../core/report";
import type { Store } from "../core/selection";
import { commandOf, suggestedChanges } from "./command";

const FIRST = 8;

// Of a bar as wide as `most` seconds: the gain, and the 95 % interval around it, in percent.
export function barOf(row: PredictedGain, most: number): { gain: number; begin: number; end: number } {
  const percent = (s: number) => (most > 0 ? 100 * Math.max(0, Math.min(1, s / most)) : 0);
  return { gain: percent(row.gain_s), begin: percent(row.gain_s - row.error_s), end: percent(row.gain_s + row.error_s) };
}

export const isSure = (row: PredictedGain): boolean => row.gain_s > row.error_s;

function place(store: Store, row: PredictedGain): Child {
  // A change of a rank does not say what that does.
  if (row.rank !== null && store.model.rankIndex(row.rank) >= 0)
    return [el("a", { href: store.href(rankTarget(row.rank)) }, `rank ${row.rank}`), row.file && row.function ? [": ", printable(row.function), " ", line(store, row)] : null];
  return row.file ? line(store, row) : null;
}

function line(store: Store, row: PredictedGain): Child {
  if (!row.file) return null;
  return el("a", { href: store.href(lineTarget(row.file, row.line)), tip: printable(row.file) }, printable(store.model.place(row.file.slice(row.file.lastIndexOf("/") + 1), row.line)));
}

function ranking(store: Store, whatif: WhatIf): Child {
  const rows = whatif.candidates;
  const all = store.param("gains") === "all";
  const shown = rows.slice(0, all ? rows.length : FIRST);
  const most = Math.max(...rows.map((row) => row.gain_s + row.error_s));
  return [
    el(
      "table",
      { class: "gains" },
      el("thead", null, el("tr", null, el("th", null, "Change"), el("th", null, "Where"), el("th", { class: "num" }, "Gain"), el("th", { class: "num", tip: "Half the width of the 95 % interval" }, "±"), el("td", null, ""), el("th", { class: "num" }, "Elapsed"))),
      el(
        "tbody",
        null,
        shown.map((row) => {
          const bar = barOf(row, most);
          return el(
            "tr",
            { class: isSure(row) ? null : "dim", tip: isSure(row) ? undefined : "Less than its error" },
            el("td", { class: "gain-change" }, printable(row.change)),
            el("td", null, place(store, row)),
            el("td", { class: "num strong" }, seconds(row.gain_s)),
            el("td", { class: "num" }, seconds(row.error_s)),
            el(
              "td",
              { class: "gain-bar", "aria-hidden": "true" },
              el("span", { class: "gain-value", style: { width: `${bar.gain}%` } }),
              el("span", { class: "gain-error", style: { left: `${bar.begin}%`, width: `${bar.end - bar.begin}%` } }),
            ),
            el("td", { class: "num" }, seconds(row.predicted_s)),
          );
        }),
      ),
    ),
    rows.length > FIRST
      ? el(
          "button",
          { type: "button", class: "more", "aria-expanded": String(all), on: { click: () => store.setParam("gains", all ? null : "all") } },
          all ? `Show the first ${FIRST}` : `Show all ${rows.length} changes`,
        )
      : null,
  ];
}

// The prediction of one change, written out: of those that were predicted.
function chosen(store: Store, whatif: WhatIf): Child {
  const at = Math.max(0, whatif.candidates.findIndex((row) => row.change === store.param("change")));
  const row = whatif.candidates[at];
  return el(
    "p",
    { class: "gain-choice" },
    el(
      "label",
      null,
      "Try ",
      el(
        "select",
        { on: { change: (event) => store.setParam("change", (event.target as HTMLSelectElement).value) } },
        whatif.candidates.map((other, i) => el("option", { value: other.change, selected: i === at }, printable(other.change))),
      ),
    ),
    ` ${seconds(whatif.elapsed_s ?? 0)} → `,
    el("span", { class: "strong" }, `${seconds(row.predicted_s)} ± ${seconds(row.error_s)}`),
    isSure(row) ? null : ", less than its error",
  );
}

function command(store: Store): Child {
  const suggested = suggestedChanges(store);
  const text = store.param("try") ?? suggested[0] ?? "function NAME x0.5";
  const line = el("code", { class: "gain-command" }, commandOf(text));
  const copy = el("button", { type: "button", on: { click: () => void navigator.clipboard.writeText(line.textContent ?? "") } }, "Copy");
  return [
    el(
      "p",
      { class: "gain-other" },
      el(
        "label",
        null,
        "Another change ",
        el("input", {
          type: "text",
          value: text,
          size: 40,
          spellcheck: "false",
          list: "gain-changes",
          on: {
            input: (event) => (line.textContent = commandOf((event.target as HTMLInputElement).value)),
            change: (event) => store.setParam("try", (event.target as HTMLInputElement).value),
          },
        }),
      ),
      el("datalist", { id: "gain-changes" }, [...suggested, "io x0", "latency x0.5", "bandwidth x2"].map((change) => el("option", { value: change }))),
    ),
    // Browsers let pages from files write to the clipboard only where they say so.
    el("p", null, line, " ", navigator.clipboard ? copy : null),
    el("p", { class: "note" }, "The page has no events to replay: the command predicts it, from the run directory."),
  ];
}

// Whether there was no time for all changes.
export const isCut = (whatif: WhatIf): boolean => whatif.tried > 0 && whatif.tried + whatif.refused_changes.length < whatif.to_try;

function refused(whatif: WhatIf): Child {
  const rows = whatif.refused_changes;
  if (rows.length === 0) return null;
  return el(
    "details",
    { class: "note" },
    el("summary", null, `${plural(rows.length, "change")} of ${whatif.to_try} refused`),
    el("ul", null, rows.map((row) => el("li", null, `${printable(row.change)}: ${printable(row.reason)}`))),
  );
}

export function gainsCard(store: Store): HTMLElement | null {
  const { whatif } = store.model.report;
  if (!whatif || whatif.to_try === 0) return null;
  const any = whatif.candidates.length > 0;
  return section(
    "What it would gain",
    { aside: [whatif.method === "sums" ? el("span", { class: "note" }, "from sums of times") : whatif.method ? el("span", { class: "note" }, "predicted by replay") : null, " ", ofWholeRun()] },
    whatif.refused ? el("p", { class: "empty" }, `Not predicted: ${printable(whatif.refused)}.`) : null,
    !whatif.refused && !any ? el("p", { class: "empty" }, "No change that was tried gains anything.") : null,
    whatif.stretches ? el("p", { class: "note" }, `From ${whatif.stretches.count} complete stretches, ${seconds(whatif.stretches.time_s)} of ${seconds(whatif.elapsed_s ?? 0)}: the MPI events of the rest are a sample.`) : null,
    any ? [ranking(store, whatif), chosen(store, whatif)] : null,
    isCut(whatif) ? el("p", { class: "note" }, `${plural(whatif.tried, "change")} of ${whatif.to_try} replayed: the run is long. clusterprof whatif RUN tries all.`) : null,
    refused(whatif),
    command(store),
  );
}
