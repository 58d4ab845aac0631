// SPDX-License-Identifier: BSD-3-Clause
// Functions: where the time is, how it lies on the ranks, who calls whom. The rows, columns and details are in ../hotspots.
import { hasFolds } from "../calltree/of_model";
import { estimateNote, functionCategories, matcher, searchField, shownModule } from "../charts/code_parts";
import type { RankBars } from "../charts/rank_bars";
import { KIND_TITLES } from "../core/colours";
import { choice, el, replace } from "../core/dom";
import { type Column, table } from "../core/table";
import { percent, plural, seconds } from "../core/format";
import { bindKeys } from "../core/keys";
import { type FunctionInfo, KIND_NAMES, type KindName, type Model, NONE } from "../core/model";
import type { Page, PageHandle } from "../core/page";
import type { Store } from "../core/selection";
import { type Weights, weights } from "../core/weights";
import { makeColumns } from "../hotspots/columns";
import { functionDetail } from "../hotspots/detail";
import { importsSection } from "../hotspots/imports";
import { byPackage, partsOf, positionOf, type Row } from "../hotspots/rows";

const SORT = "self";

// What is shown: of the page's address, the selection and the theme.
interface Shown {
  weights: Weights;
  query: string;
  kind: string;
  sort: string;
  open: string;
  folded: boolean;
  theme: string | undefined;
}

class HotspotsPage implements PageHandle {
  private readonly model: Model;
  private readonly input = searchField("Filter functions, files, modules");
  private readonly kinds = el("div");
  private readonly note = el("p", { class: "page-note", "aria-live": "polite" });
  private readonly holder = el("div", { class: "hotspots" });
  private readonly everything = el("input", {
    type: "checkbox",
    on: { change: () => this.store.setParam("all", this.everything.checked ? "1" : null) },
  });
  private readonly canFold: boolean;
  private readonly infos: FunctionInfo[];
  private readonly modules: string[];
  private readonly present: KindName[]; // kinds of functions that there are
  private readonly openRows = new Set<number>();
  private readonly unbind: () => void;
  private shown: Shown | null = null;
  private bars: RankBars[] = [];
  private rendering = false;
  private typing = 0;

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    this.model = store.model;
    const { model } = this;
    this.canFold = hasFolds(model);
    this.infos = Array.from({ length: model.functionCount }, (_, f) => model.function(f));
    this.modules = this.infos.map(shownModule);
    this.present = KIND_NAMES.filter((kind) => this.infos.some((info) => info.kind === kind));
    root.append(el("h2", { class: "visually-hidden" }, "Functions"), this.toolbar(), this.holder);
    const imports = importsSection(store);
    if (imports) root.append(imports);
    this.listen();
    this.unbind = bindKeys([{ key: "/", help: "Filter the functions", run: () => this.input.select() }]);
    this.update();
  }

  destroy(): void {
    this.unbind();
    window.clearTimeout(this.typing);
    this.bars.forEach((bar) => bar.destroy());
  }

  update(): void {
    const next = this.wanted();
    const { shown } = this;
    if (shown && (Object.keys(next) as (keyof Shown)[]).every((name) => next[name] === shown[name])) return;
    const opened = shown === null || next.open !== shown.open;
    this.shown = next;
    this.render(next, opened);
  }

  private toolbar(): HTMLElement {
    return el(
      "div",
      { class: "toolbar tools" },
      this.input,
      this.kinds,
      this.canFold
        ? el(
            "label",
            { class: "check", tip: "Functions of a library are one row, which opens; what a filter finds is always shown by itself." },
            this.everything,
            "show everything",
          )
        : null,
      this.note,
    );
  }

  private listen(): void {
    const { input, store } = this;
    input.addEventListener("input", () => {
      window.clearTimeout(this.typing);
      this.typing = window.setTimeout(() => store.setParam("q", input.value.trim() || null), 120);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || input.value === "") return;
      event.stopPropagation();
      input.value = "";
      store.setParam("q", null);
    });
  }

  private wanted(): Shown {
    const { store } = this;
    return {
      weights: weights(store),
      query: store.param("q") ?? "",
      kind: store.param("kind") ?? "all",
      sort: store.param("sort") ?? SORT,
      open: store.param("open") ?? "",
      folded: this.canFold && store.param("all") !== "1",
      theme: document.documentElement.dataset.theme,
    };
  }

  // The table has done it already.
  private setOwn(name: "sort" | "open", value: string | null): void {
    if (this.shown) this.shown[name] = value ?? (name === "sort" ? SORT : "");
    this.store.setParam(name, value);
  }

  // The functions with time that the filters leave.
  private rowsOf(state: Shown, match: ReturnType<typeof matcher>): Row[] {
    const { infos, modules, model } = this;
    const kind = this.present.find((one) => one === state.kind); // of another kind, or "all": all
    const { functionSelf, functionTotal } = state.weights;
    const rows: Row[] = [];
    for (let f = 0; f < infos.length; ++f) {
      if (!(functionSelf[f] > 0) && !(functionTotal[f] > 0)) continue;
      if (kind && infos[f].kind !== kind) continue;
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
  private describe(state: Shown, rows: readonly Row[], isValid: boolean): void {
    const { sum, isWhole } = state.weights;
    const matchedSelf = rows.reduce((self, row) => self + row.self, 0);
    const share = sum > 0 ? matchedSelf / sum : 0;
    const shortened = this.model.header.shortened?.functions;
    replace(
      this.note,
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

  private openDetail(row: Row, parts: Float64Array): HTMLElement {
    const detail = functionDetail(this.store, this.infos, row, parts);
    this.bars.push(detail.bars);
    return detail.root;
  }

  private render(state: Shown, reveal: boolean): void {
    this.bars.forEach((bar) => bar.destroy());
    this.bars = [];
    this.openRows.clear();
    if (document.activeElement !== this.input) this.input.value = state.query;
    this.everything.checked = !state.folded;
    this.renderKinds(state.kind);
    const match = matcher(state.query);
    const rows = this.rowsOf(state, match);
    this.describe(state, rows, match !== false);
    this.rendering = true;
    replace(this.holder, this.tableOf(state, rows));
    this.rendering = false;
    if (reveal && state.open !== "")
      this.holder.querySelector<HTMLElement>("tr[aria-expanded=true]")?.scrollIntoView({ block: "center" });
  }

  private renderKinds(kind: string): void {
    const { present, store } = this;
    replace(
      this.kinds,
      choice(
        "Kind of function",
        [["all", "All"], ...present.map((one) => [one, KIND_TITLES[one]] as [string, string])],
        present.find((one) => one === kind) ?? "all",
        (chosen) => store.setParam("kind", chosen === "all" ? null : chosen),
      ),
    );
  }

  private tableOf(state: Shown, rows: Row[]): HTMLElement {
    const { model } = this;
    const { sum, isWhole } = state.weights;
    const parts = functionCategories(this.store);
    const columns = makeColumns(model, rows, (row) => partsOf(row, parts), sum, isWhole, this.store.helperIdle);
    const [sortColumn, direction] = state.sort.split(".");
    const sort = { column: sortColumn, descending: direction !== "up" };
    if (!columns.some((column) => column.id === sort.column)) sort.column = SORT;
    const isFiltered = state.query !== "" || state.kind !== "all";
    const grouped =
      state.folded && !isFiltered ? byPackage(model, rows, state.weights, Number(state.open || NaN)) : rows;
    const open = state.open === "" ? -1 : Number(state.open);
    return table(columns, grouped, {
      label: "Functions",
      sort,
      limit: Math.max(100, positionOf(columns, grouped, sort, open) + 10),
      onSort: (column, descending) => {
        const text = descending ? column : `${column}.up`;
        this.setOwn("sort", text === SORT ? null : text);
      },
      open: (row) => row.index === open,
      onOpen: (row) => {
        if (this.openRows.delete(row.index)) {
          if (this.shown?.open === String(row.index)) this.setOwn("open", null);
          return;
        }
        this.openRows.add(row.index);
        if (!this.rendering) this.setOwn("open", String(row.index));
        return row.members ? this.membersTable(row, row.members, columns, sort, parts) : this.openDetail(row, parts);
      },
      empty: "No function has time here.",
    });
  }

  // The functions of a library that is one row.
  private membersTable(
    library: Row,
    members: Row[],
    columns: Column<Row>[],
    sort: { column: string; descending: boolean },
    parts: Float64Array,
  ): HTMLElement {
    return table(columns, members, {
      label: `Functions of ${library.info.name}`,
      sort,
      limit: 12,
      onOpen: (member) => {
        if (this.openRows.delete(member.index)) return;
        this.openRows.add(member.index);
        return this.openDetail(member, parts);
      },
    });
  }
}

export const page: Page = {
  id: "hotspots",
  title: "Hotspots",
  hint: "Functions by time: own and total, per rank, callers and callees",
  hidden: (model) => model.functionCount === 0,
  mount: (root, store) => new HotspotsPage(root, store),
};
