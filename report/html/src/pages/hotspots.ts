// SPDX-License-Identifier: BSD-3-Clause
// Functions: where the time is, how it lies on the ranks, who calls whom. The rows, columns and details are in ../hotspots.
import { hasFolds } from "../calltree/of_model";
import { estimateNote, functionCategories, matcher, searchField, shownModule } from "../charts/code_parts";
import type { RankBars } from "../charts/rank_bars";
import { KIND_TITLES } from "../core/colours";
import { choice, el, replace, table } from "../core/dom";
import { percent, plural, seconds } from "../core/format";
import { bindKeys } from "../core/keys";
import { KIND_NAMES, type KindName, NONE } from "../core/model";
import type { Page } from "../core/page";
import { type Weights, weights } from "../core/weights";
import { makeColumns } from "../hotspots/columns";
import { functionDetail } from "../hotspots/detail";
import { byPackage, partsOf, positionOf, type Row } from "../hotspots/rows";

const SORT = "self";

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

    // The functions with time that the filters leave.
    function rowsOf(state: Shown, match: ReturnType<typeof matcher>): Row[] {
      const { functionSelf, functionTotal } = state.weights;
      const rows: Row[] = [];
      for (let f = 0; f < infos.length; ++f) {
        if (!(functionSelf[f] > 0) && !(functionTotal[f] > 0)) continue;
        if (state.kind !== "all" && present.includes(state.kind as KindName) && infos[f].kind !== state.kind)
          continue;
        if (match && !match(infos[f])) continue;
        const row = infos[f].row;
        rows.push({
          index: f,
          info: infos[f],
          module: modules[f],
          self: functionSelf[f],
          total: functionTotal[f],
          whole: row === NONE ? null : (model.report.functions[row] ?? null),
        });
      }
      return rows;
    }

    // How many functions are shown, and how much of the time they have.
    function describe(state: Shown, rows: readonly Row[], isValid: boolean): void {
      const { sum, isWhole } = state.weights;
      const matchedSelf = rows.reduce((self, row) => self + row.self, 0);
      const share = sum > 0 ? matchedSelf / sum : 0;
      const shortened = model.header.shortened?.functions;
      replace(
        note,
        !isValid
          ? "Not a regular expression. "
          : `${plural(rows.length, "function")}, own time ${percent(Math.min(1, share))} of ${seconds(sum)}. `,
        state.weights.isEstimate ? ["Times are ", estimateNote(state.weights), ". "] : null,
        isWhole ? null : "Rank columns are of the whole run. ",
        shortened
          ? el(
              "span",
              {
                tip: "This page has the ranks of the largest functions only. `clusterprof report --json` has those of all functions.",
              },
              `Rank columns are shown for the ${shortened.kept.toLocaleString("en-US")} largest of ${shortened.of.toLocaleString("en-US")} functions.`,
            )
          : null,
      );
    }

    function openDetail(row: Row, parts: Float64Array): HTMLElement {
      const detail = functionDetail(store, infos, row, parts);
      bars.push(detail.bars);
      return detail.root;
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
      const { sum, isWhole } = state.weights;
      const match = matcher(state.query);
      const rows = rowsOf(state, match);
      describe(state, rows, match !== false);
      const parts = functionCategories(store);
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
                return openDetail(member, parts);
              },
            });
          return openDetail(row, parts);
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
