// SPDX-License-Identifier: BSD-3-Clause
// The call tree as an indented table: what the charts show, for the keyboard and for screen readers.
import { moduleName } from "../calltree/of_model";
import { el, replace } from "../core/dom";
import { TimeScale, UNKNOWN, percent, printable, shortenMiddle } from "../core/format";
import type { FrameInfo } from "../core/model";
import type { Store } from "../core/selection";
import { categoryBar, shareCell } from "./code_parts";
import type { FlameSource } from "./flame_layout";

export interface TreeRows {
  source: FlameSource;
  top: number; // what is zoomed
  whole: number; // seconds that shares are of
  up: boolean; // bottom-up
  searching: boolean;
  id(node: number): string; // the same for a node as long as the tree is merged and turned the same way
  label(node: number): string;
  self(node: number): number;
  info(node: number): FrameInfo | null;
  isOthers(node: number): boolean;
  colour(node: number): string;
  matched(node: number): boolean;
  leads(node: number): boolean; // to a match below it
  category(node: number): Float64Array | null;
  imbalance(node: number): number;
  zoom(node: number): void;
  unfold(node: number): (() => void) | null; // what shows the library code that a row stands for
}

export interface TreeTable {
  root: HTMLElement;
  show(rows: TreeRows): void;
  focus(): void;
}

const CHILDREN = 40; // of one node, before "more"
const HOT = 0.5; // children with this share of their parent are open at first
const HOT_DEPTH = 24;
const OPENED = 300; // rows: a search opens no more
const SMALLEST = 1e-7; // of all

export function treeTable(store: Store): TreeTable {
  const { model } = store;
  const body = el("tbody");
  const head = el("tr");
  const table = el(
    "table",
    { role: "treegrid", "aria-label": "Call tree", class: "tree-table" },
    el("thead", null, head),
    body,
  );
  const root = el("div", { class: "table-box tree-table-box" }, table);
  const opened = new Map<string, boolean>(); // as the reader wants it; else by its share
  const extended = new Set<string>(); // with all children
  let rows: TreeRows | null = null;
  let order: { node: number; element: HTMLTableRowElement }[] = [];
  let current = ""; // id of the row that has the focus

  const childrenOf = (of: TreeRows, node: number): number[] =>
    Array.from(of.source.children(node)).filter((child) => of.source.value(child) > SMALLEST * of.whole);

  function isOpen(of: TreeRows, node: number, level: number): boolean {
    const known = opened.get(of.id(node));
    if (known !== undefined) return known;
    if (node === of.top) return true;
    if (of.searching && of.leads(node)) return order.length < OPENED;
    if (of.up || level > HOT_DEPTH || of.searching) return false;
    return of.source.value(node) >= HOT * of.source.value(of.source.parent(node));
  }

  function setOpen(node: number, open: boolean): void {
    const unfold = rows!.unfold(node);
    if (unfold && open) opened.set(rows!.id(node), true), (current = rows!.id(node)), unfold();
    else toggle(node, open);
  }
  function toggle(node: number, open: boolean): void {
    opened.set(rows!.id(node), open);
    current = rows!.id(node);
    render(true);
  }

  function render(keepFocus: boolean): void {
    const of = rows;
    if (!of) return;
    const scale = new TimeScale(of.whole);
    replace(
      head,
      el(
        "th",
        { scope: "col" },
        of.up ? "Function, and below it its callers" : "Function, and below it what it calls",
      ),
      el("th", { scope: "col", class: "num" }, `${of.up ? "Time" : "Total"}, ${scale.unit}`),
      el("th", { scope: "col", class: "num" }, "Self"),
      el("th", { scope: "col", class: "split" }, "By category"),
      el(
        "th",
        { scope: "col", class: "num" },
        el(
          "span",
          {
            tip: "Time of the busiest rank by the mean over all ranks, of the whole run; bottom-up that of the function's own time.",
          },
          "Imbal.",
        ),
      ),
      el("th", { scope: "col" }, "At"),
      el("th", { scope: "col", class: "fn-module" }, "Module"),
    );
    order = [];
    const fragment = document.createDocumentFragment();
    const add = (node: number, level: number): void => {
      const children = childrenOf(of, node);
      const folded = of.unfold(node) !== null;
      const open = children.length > 0 && !folded && isOpen(of, node, level);
      const element = row(of, node, level, children.length > 0 || folded ? open : null, scale);
      order.push({ node, element });
      fragment.append(element);
      if (!open) return;
      const all = extended.has(of.id(node));
      // A search opens what leads to matches, and shows these alone.
      const wanted = of.searching && of.leads(node) && opened.get(of.id(node)) === undefined;
      const some = wanted ? children.filter((child) => of.matched(child) || of.leads(child)) : children;
      const shown = all ? children : some.slice(0, CHILDREN);
      for (const child of shown) add(child, level + 1);
      if (shown.length < children.length) {
        fragment.append(
          el(
            "tr",
            { class: "tree-more" },
            el(
              "td",
              { colspan: 7, style: { "--level": String(level + 1) } },
              el(
                "button",
                {
                  type: "button",
                  class: "more",
                  on: {
                    click: () => {
                      extended.add(of.id(node));
                      render(false);
                    },
                  },
                },
                `${children.length - shown.length} more`,
              ),
            ),
          ),
        );
      }
    };
    add(of.top, 0);
    body.replaceChildren(fragment);
    const at = order.find(({ node }) => of.id(node) === current) ?? order[0];
    if (at) at.element.tabIndex = 0;
    if (keepFocus && at) at.element.focus({ preventScroll: true });
  }

  function row(
    of: TreeRows,
    node: number,
    level: number,
    open: boolean | null,
    scale: TimeScale,
  ): HTMLTableRowElement {
    const info = of.info(node);
    const value = of.source.value(node);
    const self = of.self(node);
    const parts = node === 0 && of.up ? null : of.category(node);
    const uneven = of.imbalance(node);
    const place = info ? printable(model.place(info.file, info.line || info.function_line)) : "";
    const module = info && info.kind !== "region" ? printable(moduleName(info.file, info.module)) : "";
    const hit = of.searching && of.matched(node) && node !== 0;
    const element = el(
      "tr",
      {
        tabindex: -1,
        "aria-level": level + 1,
        "aria-expanded": open === null ? null : String(open),
        class: of.searching ? (hit ? "hit" : "miss") : null,
        on: {
          click: (event) => {
            if (event.target instanceof Element && event.target.closest("a,button")) return;
            if (open !== null) setOpen(node, !open);
          },
          keydown: (event) => {
            if (event.target === element) onKey(event, node, open);
          },
          focus: () => {
            current = of.id(node);
            for (const other of order) other.element.tabIndex = other.element === element ? 0 : -1;
          },
        },
      },
      el(
        "td",
        { class: "tree-name", style: { "--level": String(level) } },
        el("span", { class: `twisty ${open === null ? "none" : open ? "open" : ""}`, "aria-hidden": "true" }),
        el("span", {
          class: `kind-mark ${of.isOthers(node) ? "hatched" : ""}`,
          style: of.isOthers(node) ? undefined : { background: of.colour(node) },
        }),
        el(
          "span",
          { class: "fn-name", tip: info ? printable(info.name) : undefined },
          shortenMiddle(of.label(node), 72),
        ),
        info?.inlined ? el("span", { class: "muted small" }, " inlined") : null,
      ),
      el("td", { class: "num" }, shareCell(value, of.whole, scale.format(value))),
      el(
        "td",
        { class: "num" },
        Number.isNaN(self)
          ? ""
          : self > 0
            ? scale.format(self)
            : el("span", { class: "muted" }, scale.format(0)),
      ),
      el("td", { class: "split" }, parts ? categoryBar(parts, undefined, { class: "thin" }) : null),
      el(
        "td",
        { class: "num tight" },
        Number.isNaN(uneven) || node === 0 ? UNKNOWN : `${uneven.toFixed(2)}×`,
      ),
      el(
        "td",
        { class: "fn-place" },
        info?.file && place
          ? el(
              "a",
              {
                href: store.href({
                  page: "source",
                  params: { file: info.file, line: info.line || info.function_line || null },
                }),
              },
              shortenMiddle(place, 34),
            )
          : "",
      ),
      el("td", { class: "fn-module" }, shortenMiddle(module, 24)),
    );
    element.setAttribute("aria-label", `${of.label(node)}, ${percent(of.whole > 0 ? value / of.whole : 0)}`);
    return element;
  }

  function onKey(event: KeyboardEvent, node: number, open: boolean | null): void {
    const of = rows!;
    const at = order.findIndex((entry) => entry.node === node);
    const focus = (index: number): void =>
      order[Math.max(0, Math.min(order.length - 1, index))]?.element.focus();
    if (event.key === "ArrowDown") focus(at + 1);
    else if (event.key === "ArrowUp") focus(at - 1);
    else if (event.key === "Home") focus(0);
    else if (event.key === "End") focus(order.length - 1);
    else if (event.key === "ArrowRight") {
      if (open === false) setOpen(node, true);
      else if (open) focus(at + 1);
    } else if (event.key === "ArrowLeft") {
      if (open) setOpen(node, false);
      else focus(order.findIndex((entry) => entry.node === of.source.parent(node)));
    } else if (event.key === " ") {
      if (open !== null) setOpen(node, !open);
    } else if (event.key === "Enter") of.zoom(node);
    else return;
    event.preventDefault();
  }

  return {
    root,
    show(next) {
      const focused = root.contains(document.activeElement);
      rows = next;
      render(focused);
    },
    focus: () => order.find(({ element }) => element.tabIndex === 0)?.element.focus(),
  };
}
