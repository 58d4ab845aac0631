// SPDX-License-Identifier: BSD-3-Clause
// What opens below a function: its time per rank, its callers and callees, its own time and its lines.
import { neighbours, type Neighbour } from "../calltree/callers";
import { pathFunctions, pathTable } from "../calltree/of_model";
import { categoryBar, functionText, kindMark, placeText } from "../charts/code_parts";
import { RankBars } from "../charts/rank_bars";
import { CATEGORY_TITLES, categoryColour } from "../core/colours";
import { type Child, el, ofWholeRun } from "../core/dom";
import { percent, printable, seconds, shortenMiddle } from "../core/format";
import { CATEGORIES, type FunctionInfo } from "../core/model";
import { RankSet, type Store } from "../core/selection";
import { CATEGORY_COUNT, weights } from "../core/weights";
import { changeOfFunction } from "../gains/command";
import { overRanks, type Row } from "./rows";

const NEIGHBOURS = 12;
const LINES = 8;

// The details of a function; `parts`: the own times of all functions by category. The caller destroys `bars`.
export function functionDetail(
  store: Store,
  infos: readonly FunctionInfo[],
  row: Row,
  parts: Float64Array,
): { root: HTMLElement; bars: RankBars } {
  const { model } = store;
  const { self, total, isWhole } = weights(store);
  const around = neighbours(pathTable(model), pathFunctions(model), self, total, row.index);
  const { info } = row;
  const own = parts.subarray(row.index * CATEGORY_COUNT, (row.index + 1) * CATEGORY_COUNT);
  const inTree = store.href({ page: "tree", params: { q: `"${info.name}"` } });
  const isCode = info.kind === "python" || info.kind === "native";
  const change = isCode && model.report.whatif?.to_try ? changeOfFunction(info.name) : null;
  const bars = new RankBars(store, row.index);
  const root = el(
    "div",
    { class: "fn-detail" },
    el(
      "div",
      { class: "fn-head" },
      el("span", { class: "fn-full" }, printable(info.name)),
      info.file
        ? el(
            "a",
            {
              href: store.href({ page: "source", params: { file: info.file, line: info.line || null } }),
            },
            shortenMiddle(printable(info.file), 90) + (info.line ? `:${info.line}` : ""),
          )
        : null,
      info.module ? el("span", { class: "muted" }, shortenMiddle(printable(info.module), 60)) : null,
      el("a", { class: "fn-action", href: inTree }, "Show in the call tree"),
      change ? el("a", { class: "fn-action", href: store.href({ page: "summary", params: { try: change } }) }, "What would it gain?") : null,
    ),
    el(
      "div",
      { class: "fn-columns" },
      el("section", null, el("h3", null, "Total per rank"), bars.root, rankNote(store, row)),
      neighbourSection("Called by", store, infos, around.callers, around.total_s, "by"),
      neighbourSection("Calls", store, infos, around.callees, around.total_s, "to"),
      el(
        "section",
        null,
        el("h3", null, "Own time"),
        el(
          "dl",
          { class: "fn-parts" },
          CATEGORIES.map((category, c) =>
            own[c] > 0
              ? [
                  el(
                    "dt",
                    null,
                    el("span", { class: "swatch", style: { background: categoryColour(category) } }),
                    CATEGORY_TITLES[category],
                  ),
                  el("dd", null, seconds(own[c])),
                ]
              : null,
          ),
        ),
        recursionNote(around.recursive_s, around.total_s, around.deepest),
        lineList(store, row, isWhole),
      ),
    ),
  );
  return { root, bars };
}

function recursionNote(recursive: number, total: number, deepest: number): Child {
  if (!(recursive > 0)) return null;
  return el(
    "p",
    { class: "muted" },
    `Recursion: ${percent(recursive / total)} of its time, up to ${deepest} times on one path.`,
  );
}

function rankNote(store: Store, row: Row): Child {
  if (!row.whole) return null;
  const { min_s, mean_s, max_s, rank } = overRanks(row.whole, store.helperIdle);
  return el(
    "p",
    { class: "muted" },
    `min ${seconds(min_s)}, mean ${seconds(mean_s)}, max ${seconds(max_s)} on `,
    el("a", { href: store.href({ selection: { ranks: RankSet.of([rank]), nodes: null } }) }, `rank ${rank}`),
    " ",
    ofWholeRun(),
  );
}

function neighbourSection(
  title: string,
  store: Store,
  infos: readonly FunctionInfo[],
  rows: Neighbour[],
  whole: number,
  direction: "by" | "to",
): HTMLElement {
  return el(
    "section",
    null,
    el("h3", null, title),
    rows.length > 0
      ? neighbourList(store, infos, rows, whole, direction)
      : el("p", { class: "muted" }, "Only in small call paths, which this page does not list one by one."),
  );
}

function neighbourList(
  store: Store,
  infos: readonly FunctionInfo[],
  rows: Neighbour[],
  whole: number,
  direction: "by" | "to",
): HTMLElement {
  const names: Record<Neighbour["role"], string> = {
    function: "",
    itself: "itself (recursion)",
    self: "its own time",
    others: "small call paths",
    top: "nothing: the outermost frame",
  };
  const rest = rows.slice(NEIGHBOURS);
  const line = (name: Child, value: number, muted: boolean): HTMLElement =>
    el(
      "li",
      { class: muted ? "muted" : null },
      el("span", { class: "nb-percent" }, percent(value / whole)),
      el(
        "span",
        { class: "nb-bar", "aria-hidden": "true" },
        el("span", { style: { width: `${Math.min(100, (100 * value) / whole)}%` } }),
      ),
      el("span", { class: "nb-name" }, name),
      el("span", { class: "nb-seconds" }, seconds(value)),
    );
  return el(
    "ol",
    { class: "neighbours", "aria-label": direction === "by" ? "Callers" : "Callees" },
    rows.slice(0, NEIGHBOURS).map((row) => {
      if (row.role !== "function") return line(names[row.role], row.seconds, true);
      const info = infos[row.function];
      const place = placeText(store.model, info.file, info.line);
      return line(
        el(
          "a",
          {
            href: store.href({ params: { open: String(row.function), sort: store.param("sort"), q: null, kind: null } }),
            tip: `${printable(info.name)}${place ? `  ${place}` : ""}`,
          },
          kindMark(info.kind),
          shortenMiddle(functionText(info), 40),
        ),
        row.seconds,
        false,
      );
    }),
    rest.length > 0 ? line(`${rest.length} more, each up to`, rest[0].seconds, true) : null,
  );
}

// The lines of the report that are in this function.
function lineList(store: Store, row: Row, isWhole: boolean): Child {
  const { model } = store;
  const { info } = row;
  const lines = model.report.lines
    .filter((line) => line.function === info.name && line.file === info.file && line.self_s > 0)
    .slice(0, LINES);
  if (lines.length === 0) return null;
  const largest = lines[0].self_s;
  return [
    el("h3", null, "Lines", isWhole ? null : [" ", ofWholeRun()]),
    el(
      "ol",
      { class: "neighbours" },
      lines.map((line) =>
        el(
          "li",
          null,
          el(
            "span",
            { class: "nb-name" },
            el(
              "a",
              { href: store.href({ page: "source", params: { file: line.file, line: line.line } }) },
              shortenMiddle(printable(model.place(line.file, line.line)), 36),
            ),
          ),
          categoryBar(
            CATEGORIES.map((category) => line[`${category}_s`] ?? 0),
            largest,
            { class: "nb-line" },
          ),
          el("span", { class: "nb-seconds" }, seconds(line.self_s)),
        ),
      ),
    ),
  ];
}
