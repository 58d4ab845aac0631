// SPDX-License-Identifier: BSD-3-Clause
// Functions: where the time is, how it lies on the ranks, who calls whom.
import { neighbours, type Neighbour } from "../calltree/callers";
import { hasFolds, pathFunctions, pathTable } from "../calltree/of_model";
import { packageTotals, packagesOf } from "../calltree/packages";
import { type RankBars, rankBars } from "../charts/rank_bars";
import { CATEGORY_TITLES, KIND_TITLES, categoryColour } from "../core/colours";
import { type Child, type Column, choice, el, ofWholeRun, replace, table } from "../core/dom";
import { UNKNOWN, TimeScale, percent, plural, printable, seconds, shortenMiddle } from "../core/format";
import { bindKeys } from "../core/keys";
import { CATEGORIES, KIND_NAMES, type FunctionInfo, type KindName, type Model, NONE } from "../core/model";
import type { Page } from "../core/page";
import type { FunctionRow } from "../core/report";
import { RankSet } from "../core/selection";
import { CATEGORY_COUNT, type Weights, weights } from "../core/weights";
import {
  categoryBar,
  estimateNote,
  functionCategories,
  functionName,
  functionText,
  kindMark,
  matcher,
  placeText,
  searchField,
  shareCell,
  shownModule,
} from "../charts/code_parts";

interface Row {
  index: number; // of the function; of packages those after all functions
  info: FunctionInfo;
  module: string;
  self: number;
  total: number;
  whole: FunctionRow | null; // of the whole run
  members?: Row[]; // of a package: its functions
}

const SORT = "self";
const NEIGHBOURS = 12;
const LINES = 8;

export const page: Page = {
  id: "hotspots",
  title: "Hotspots",
  hint: "Functions by time: own and total, per rank, callers and callees",
  hidden: (model) => model.functionCount === 0,
  mount(root, store) {
    const { model } = store;
    const input = searchField("Filter functions, files, modules");
    const kinds = el("div");
    const note = el("p", { class: "page-note", "aria-live": "polite" });
    const holder = el("div", { class: "hotspots" });
    root.append(el("h2", { class: "visually-hidden" }, "Functions"));
    const everything = el("input", { type: "checkbox", on: { change: () => store.setParam("all", everything.checked ? "1" : null) } });
    const canFold = hasFolds(model);
    root.append(
      el(
        "div",
        { class: "toolbar tools" },
        input,
        kinds,
        canFold
          ? el(
              "label",
              { class: "check", tip: "Functions of a library are one row, which opens; what a filter finds is always shown by itself." },
              everything,
              "show everything",
            )
          : null,
        note,
      ),
      holder,
    );

    let shown: Shown | null = null;
    let bars: RankBars[] = [];
    let rendering = false;
    const openRows = new Set<number>();
    const infos = Array.from({ length: model.functionCount }, (_, f) => model.function(f));
    const modules = infos.map(shownModule);
    const present = KIND_NAMES.filter((kind) => infos.some((info) => info.kind === kind));

    interface Shown {
      weights: Weights;
      query: string;
      kind: string;
      sort: string;
      open: string;
      folded: boolean;
      theme: string | undefined;
    }
    const wanted = (): Shown => ({
      weights: weights(store),
      query: store.param("q") ?? "",
      kind: store.param("kind") ?? "all",
      sort: store.param("sort") ?? SORT,
      open: store.param("open") ?? "",
      folded: canFold && store.param("all") !== "1",
      theme: document.documentElement.dataset.theme,
    });

    function setOwn(name: "sort" | "open", value: string | null): void {
      // The table has done it already.
      if (shown) shown[name] = value ?? (name === "sort" ? SORT : "");
      store.setParam(name, value);
    }

    function update(): void {
      const next = wanted();
      if (shown && (Object.keys(next) as (keyof Shown)[]).every((name) => next[name] === shown![name]))
        return;
      const opened = shown === null || next.open !== shown.open;
      shown = next;
      render(next, opened);
    }

    function render(state: Shown, reveal: boolean): void {
      bars.forEach((bar) => bar.destroy());
      bars = [];
      openRows.clear();
      if (document.activeElement !== input) input.value = state.query;
      everything.checked = !state.folded;
      replace(
        kinds,
        choice(
          "Kind of function",
          [["all", "All"], ...present.map((kind) => [kind, KIND_TITLES[kind]] as [string, string])],
          present.includes(state.kind as KindName) ? state.kind : "all",
          (kind) => store.setParam("kind", kind === "all" ? null : kind),
        ),
      );
      const { functionSelf, functionTotal, sum, isWhole } = state.weights;
      const match = matcher(state.query);
      const rows: Row[] = [];
      let matchedSelf = 0;
      for (let f = 0; f < infos.length; ++f) {
        if (!(functionSelf[f] > 0) && !(functionTotal[f] > 0)) continue;
        if (state.kind !== "all" && present.includes(state.kind as KindName) && infos[f].kind !== state.kind)
          continue;
        if (match && !match(infos[f])) continue;
        const row = infos[f].row;
        matchedSelf += functionSelf[f];
        rows.push({
          index: f,
          info: infos[f],
          module: modules[f],
          self: functionSelf[f],
          total: functionTotal[f],
          whole: row === NONE ? null : (model.report.functions[row] ?? null),
        });
      }
      const parts = functionCategories(store);
      const share = sum > 0 ? matchedSelf / sum : 0;
      const shortened = model.header.shortened?.functions;
      replace(
        note,
        match === false
          ? "Not a regular expression. "
          : `${plural(rows.length, "function")}, own time ${percent(Math.min(1, share))} of ${seconds(sum)}. `,
        state.weights.isEstimate ? ["Times are ", estimateNote(state.weights), ". "] : null,
        isWhole ? null : "Rank columns are of the whole run. ",
        shortened
          ? el(
              "span",
              {
                tip: "Of the others the page has what their call paths have, as far as these are not too small. The profile and `clusterprof report --json` have all of them.",
              },
              `Rank columns are of the ${shortened.kept.toLocaleString("en-US")} largest of ${shortened.of.toLocaleString("en-US")} functions.`,
            )
          : null,
      );

      const [sortColumn, direction] = state.sort.split(".");
      const columns = makeColumns(model, rows, (row) => partsOf(row, parts), sum, isWhole);
      const sort = { column: sortColumn, descending: direction !== "up" };
      const grouped =
        state.folded && state.query === "" && state.kind === "all" ? byPackage(model, rows, state.weights, Number(state.open || NaN)) : rows;
      if (!columns.some((column) => column.id === sort.column)) sort.column = SORT;
      const open = state.open === "" ? -1 : Number(state.open);
      rendering = true;
      const tableElement = table(columns, grouped, {
        label: "Functions",
        sort,
        limit: Math.max(100, positionOf(columns, grouped, sort, open) + 10),
        onSort: (column, descending) => {
          const text = descending ? column : `${column}.up`;
          setOwn("sort", text === SORT ? null : text);
        },
        open: (row) => row.index === open,
        onOpen: (row) => {
          if (openRows.delete(row.index)) {
            if (shown?.open === String(row.index)) setOwn("open", null);
            return;
          }
          openRows.add(row.index);
          if (!rendering) setOwn("open", String(row.index));
          if (row.members)
            return table(columns, row.members, {
              label: `Functions of ${row.info.name}`,
              sort,
              limit: 12,
              onOpen: (member) => {
                if (openRows.delete(member.index)) return;
                openRows.add(member.index);
                return detail(member, parts);
              },
            });
          return detail(row, parts);
        },
        empty: "No function has time here.",
      });
      replace(holder, tableElement);
      rendering = false;
      if (reveal && open >= 0) {
        const element = holder.querySelector<HTMLElement>("tr[aria-expanded=true]");
        element?.scrollIntoView({ block: "center" });
      }
    }
    function detail(row: Row, parts: Float64Array): HTMLElement {
      const { self, total, isWhole } = weights(store);
      const around = neighbours(pathTable(model), pathFunctions(model), self, total, row.index);
      const { info } = row;
      const own = parts.subarray(row.index * CATEGORY_COUNT, (row.index + 1) * CATEGORY_COUNT);
      const inTree = store.href({ page: "tree", params: { q: `"${info.name}"` } });
      const bar = rankBars(store, row.index);
      bars.push(bar);
      return el(
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
        ),
        el(
          "div",
          { class: "fn-columns" },
          el("section", null, el("h3", null, "Total per rank"), bar.root, rankNote(row)),
          el(
            "section",
            null,
            el("h3", null, "Called by"),
            around.callers.length > 0
              ? neighbourList(around.callers, around.total_s, "by")
              : el("p", { class: "muted" }, "Only in call paths too small to be told apart."),
          ),
          el(
            "section",
            null,
            el("h3", null, "Calls"),
            around.callees.length > 0
              ? neighbourList(around.callees, around.total_s, "to")
              : el("p", { class: "muted" }, "Only in call paths too small to be told apart."),
          ),
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
            lineList(row, isWhole),
          ),
        ),
      );
    }

    function recursionNote(recursive: number, total: number, deepest: number): Child {
      if (!(recursive > 0)) return null;
      return el(
        "p",
        { class: "muted" },
        `Recursion: ${percent(recursive / total)} of its time, up to ${deepest} times on one path.`,
      );
    }

    function rankNote(row: Row): Child {
      const whole = row.whole;
      if (!whole) return null;
      return el(
        "p",
        { class: "muted" },
        `min ${seconds(whole.rank_min_s)}, mean ${seconds(whole.rank_mean_s)}, max ${seconds(whole.rank_max_s)} on `,
        el(
          "a",
          { href: store.href({ selection: { ranks: RankSet.of([whole.rank_max]), nodes: null } }) },
          `rank ${whole.rank_max}`,
        ),
        " ",
        ofWholeRun(),
      );
    }

    function neighbourList(rows: Neighbour[], whole: number, direction: "by" | "to"): HTMLElement {
      const names: Record<Neighbour["role"], string> = {
        function: "",
        itself: "itself (recursion)",
        self: "its own time",
        others: "too small to tell apart",
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
          const place = placeText(model, info.file, info.line);
          return line(
            el(
              "a",
              {
                href: store.href({ params: { ...openParams(row.function), q: null, kind: null } }),
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

    function openParams(f: number): Record<string, string | null> {
      return { open: String(f), sort: store.param("sort") };
    }

    // Lines of the report that are in this function.
    function lineList(row: Row, isWhole: boolean): Child {
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

    let typing = 0;
    input.addEventListener("input", () => {
      window.clearTimeout(typing);
      typing = window.setTimeout(() => store.setParam("q", input.value.trim() || null), 120);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || input.value === "") return;
      event.stopPropagation();
      input.value = "";
      store.setParam("q", null);
    });
    const unbind = bindKeys([{ key: "/", help: "Filter the functions", run: () => input.select() }]);
    update();
    return {
      update,
      destroy() {
        unbind();
        window.clearTimeout(typing);
        bars.forEach((bar) => bar.destroy());
      },
    };
  },
};

// Where the row will be in the sorted table; -1: it is not in it.
function positionOf(
  columns: Column<Row>[],
  rows: Row[],
  sort: { column: string; descending: boolean },
  index: number,
): number {
  const column = columns.find((c) => c.id === sort.column);
  const row = rows.find((r) => r.index === index);
  if (!row || !column?.value) return -1;
  const own = column.value(row);
  if (typeof own !== "number") return rows.length;
  return rows.filter((other) => {
    const value = column.value!(other);
    return typeof value === "number" && (sort.descending ? value >= own : value <= own);
  }).length;
}

// By category, of the own time of a function or of all of a package.
function partsOf(row: Row, parts: Float64Array): Float64Array {
  if (!row.members) return parts.subarray(row.index * CATEGORY_COUNT, (row.index + 1) * CATEGORY_COUNT);
  const sums = new Float64Array(CATEGORY_COUNT);
  for (const member of row.members) partsOf(member, parts).forEach((value, c) => (sums[c] += value));
  return sums;
}

// With one row for the functions of each package; but for the function that is open.
function byPackage(model: Model, rows: readonly Row[], of: Weights, open: number): Row[] {
  const { names, ofFunction } = packagesOf(model);
  const totals = packageTotals(model, of.total);
  const members = names.map((): Row[] => []);
  const result: Row[] = [];
  for (const row of rows) {
    const number = ofFunction[row.index];
    if (number < 0 || row.index === open) result.push(row);
    else members[number].push(row);
  }
  members.forEach((list, number) => {
    if (list.length < 2) return result.push(...list);
    const self = list.reduce((sum, row) => sum + row.self, 0);
    result.push({
      index: model.functionCount + number,
      info: { name: names[number], kind: list[0].info.kind, file: null, module: null, line: 0, row: NONE },
      module: names[number],
      self,
      total: Math.max(self, totals[number]),
      whole: null,
      members: list,
    });
  });
  return result;
}

function makeColumns(
  model: Model,
  rows: Row[],
  partsOf: (row: Row) => Float64Array,
  sum: number,
  isWhole: boolean,
): Column<Row>[] {
  let largest = 0;
  let largestRank = 0;
  for (const row of rows) {
    largest = Math.max(largest, row.total, row.self);
    largestRank = Math.max(largestRank, row.whole?.rank_max_s ?? 0);
  }
  const scale = new TimeScale(largest);
  const rankScale = new TimeScale(largestRank);
  const ofRanks = isWhole ? "" : " Of the whole run, whatever is selected.";
  const rankColumn = (
    id: string,
    title: string,
    help: string,
    value: (row: FunctionRow) => number,
  ): Column<Row> => ({
    id,
    title,
    help: `${help}${ofRanks}`,
    numeric: true,
    class: `tight ${isWhole ? "" : "of-whole"} ${id === "rank_max" ? "" : "wide-only"}`,
    value: (row) => (row.whole ? value(row.whole) : null),
    cell: (row) => (row.whole ? rankScale.format(value(row.whole)) : UNKNOWN),
  });
  return [
    {
      id: "name",
      title: "Function",
      class: "fn-cell",
      value: (row) => functionText(row.info),
      cell: (row) => [
        kindMark(row.info.kind),
        row.members ? el("span", { class: "fn-name" }, printable(row.info.name)) : functionName(row.info, 46),
        el(
          "span",
          { class: "fn-place" },
          row.members ? `library, ${plural(row.members.length, "function")}` : placeText(model, row.info.file, row.info.line),
        ),
      ],
    },
    {
      id: "self",
      title: `Self, ${scale.unit}`,
      help: "Time in the function itself, summed over ranks.",
      numeric: true,
      value: (row) => row.self,
      cell: (row) => shareCell(row.self, sum, scale.format(row.self)),
    },
    {
      id: "total",
      title: `Total, ${scale.unit}`,
      help: "Time in the function and what it called, summed over ranks; recursion counts once.",
      numeric: true,
      value: (row) => row.total,
      cell: (row) => shareCell(row.total, sum, scale.format(row.total)),
    },
    {
      id: "split",
      title: "Own time",
      help: "Python, native, system, MPI, I/O, idle, runnable: shares of the function's own time.",
      class: "split",
      cell: (row) =>
        categoryBar(partsOf(row), undefined, {
          class: "thin",
        }),
    },
    rankColumn(
      "rank_min",
      `Rank min, ${rankScale.unit}`,
      "Total of the rank with least.",
      (row) => row.rank_min_s,
    ),
    rankColumn(
      "rank_mean",
      `Rank mean, ${rankScale.unit}`,
      "Total of the mean rank.",
      (row) => row.rank_mean_s,
    ),
    rankColumn(
      "rank_max",
      `Rank max, ${rankScale.unit}`,
      "Total of the rank with most.",
      (row) => row.rank_max_s,
    ),
    {
      id: "imbalance",
      title: "Imbal.",
      help: `Largest total of a rank by the mean over all ranks. 1: all have the same.${ofRanks}`,
      numeric: true,
      class: isWhole ? "tight" : "tight of-whole",
      value: (row) => row.whole?.imbalance,
      cell: (row) => {
        const imbalance = row.whole?.imbalance;
        if (imbalance === null || imbalance === undefined) return UNKNOWN;
        const matters = imbalance >= 1.5 && row.total > 0.01 * sum;
        return el(
          "span",
          { class: matters ? "warn" : null },
          `${imbalance.toFixed(imbalance < 99.95 ? 2 : 0)}×`,
        );
      },
    },
    {
      id: "rank",
      title: "Slowest",
      help: `The rank with the largest total.${ofRanks}`,
      numeric: true,
      class: isWhole ? "tight" : "tight of-whole",
      value: (row) => row.whole?.rank_max,
      cell: (row) => (row.whole ? String(row.whole.rank_max) : UNKNOWN),
    },
    {
      id: "module",
      title: "Module",
      class: "fn-module",
      value: (row) => row.module,
      cell: (row) => el("span", { tip: row.module }, shortenMiddle(row.module, 20)),
    },
  ];
}
