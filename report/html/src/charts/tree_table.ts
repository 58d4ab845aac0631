// SPDX-License-Identifier: BSD-3-Clause
// The call tree as an indented table: what the charts show, for the keyboard and for screen readers.
import { el, replace } from "../core/dom";
import { TimeScale, percent } from "../core/format";
import type { Store } from "../core/selection";
import { COLUMNS, type TreeRows, headerCells, rowCells } from "./tree_row";

const CHILDREN = 40; // of one node, before "more"
const HOT = 0.5; // children with this share of their parent are open at first
const HOT_DEPTH = 24;
const OPENED = 300; // rows: a search opens no more
const SMALLEST = 1e-7; // of all

export class TreeTable {
  readonly root: HTMLElement;
  private readonly head = el("tr");
  private readonly body = el("tbody");
  private readonly opened = new Map<string, boolean>(); // as the reader wants it; else by its share
  private readonly extended = new Set<string>(); // with all children
  private rows: TreeRows | null = null;
  private order: { node: number; element: HTMLTableRowElement }[] = [];
  private current = ""; // id of the row that has the focus

  constructor(private readonly store: Store) {
    const table = el(
      "table",
      { role: "treegrid", "aria-label": "Call tree", class: "tree-table" },
      el("thead", null, this.head),
      this.body,
    );
    this.root = el("div", { class: "table-box tree-table-box" }, table);
  }

  show(rows: TreeRows): void {
    const focused = this.root.contains(document.activeElement);
    this.rows = rows;
    this.render(rows, focused);
  }

  focus(): void {
    this.order.find(({ element }) => element.tabIndex === 0)?.element.focus();
  }

  private render(rows: TreeRows, keepFocus: boolean): void {
    const scale = new TimeScale(rows.whole);
    replace(this.head, headerCells(rows, scale));
    this.order = [];
    const fragment = document.createDocumentFragment();
    this.addRows(fragment, rows, rows.top, 0, scale);
    this.body.replaceChildren(fragment);
    const at = this.order.find(({ node }) => rows.id(node) === this.current) ?? this.order[0];
    if (at) at.element.tabIndex = 0;
    if (keepFocus && at) at.element.focus({ preventScroll: true });
  }

  // The node's row and, where it is open, those below it.
  private addRows(fragment: DocumentFragment, rows: TreeRows, node: number, level: number, scale: TimeScale): void {
    const children = Array.from(rows.source.children(node)).filter(
      (child) => rows.source.value(child) > SMALLEST * rows.whole,
    );
    const isFold = rows.unfold(node) !== null;
    const isOpen = children.length > 0 && !isFold && this.isOpen(rows, node, level);
    const element = this.rowElement(rows, node, level, children.length > 0 || isFold ? isOpen : null, scale);
    this.order.push({ node, element });
    fragment.append(element);
    if (!isOpen) return;
    const shown = this.shownOf(rows, node, children);
    for (const child of shown) this.addRows(fragment, rows, child, level + 1, scale);
    const left = children.length - shown.length;
    if (left > 0) fragment.append(this.moreRow(rows, node, level + 1, left));
  }

  private isOpen(rows: TreeRows, node: number, level: number): boolean {
    const known = this.opened.get(rows.id(node));
    if (known !== undefined) return known;
    if (node === rows.top) return true;
    if (rows.searching && rows.leads(node)) return this.order.length < OPENED;
    if (rows.up || level > HOT_DEPTH || rows.searching) return false;
    return rows.source.value(node) >= HOT * rows.source.value(rows.source.parent(node));
  }

  // The children that have rows. A search opens what leads to matches, and shows these alone.
  private shownOf(rows: TreeRows, node: number, children: number[]): number[] {
    const id = rows.id(node);
    if (this.extended.has(id)) return children;
    const openedBySearch = rows.searching && rows.leads(node) && this.opened.get(id) === undefined;
    const found = openedBySearch
      ? children.filter((child) => rows.matched(child) || rows.leads(child))
      : children;
    return found.slice(0, CHILDREN);
  }

  private moreRow(rows: TreeRows, node: number, level: number, left: number): HTMLElement {
    const extend = () => {
      this.extended.add(rows.id(node));
      if (this.rows) this.render(this.rows, false);
    };
    return el(
      "tr",
      { class: "tree-more" },
      el(
        "td",
        { colspan: COLUMNS, style: { "--level": String(level) } },
        el("button", { type: "button", class: "more", on: { click: extend } }, `${left} more`),
      ),
    );
  }

  private rowElement(
    rows: TreeRows,
    node: number,
    level: number,
    open: boolean | null,
    scale: TimeScale,
  ): HTMLTableRowElement {
    const isHit = rows.matched(node) && node !== 0;
    const element = el(
      "tr",
      {
        tabindex: -1,
        "aria-level": level + 1,
        "aria-expanded": open === null ? null : String(open),
        class: rows.searching ? (isHit ? "hit" : "miss") : null,
        on: {
          click: (event) => {
            if (event.target instanceof Element && event.target.closest("a,button")) return;
            if (open !== null) this.setOpen(node, !open);
          },
          keydown: (event) => {
            if (event.target === element && this.follow(event.key, node, open)) event.preventDefault();
          },
          focus: () => {
            this.current = rows.id(node);
            for (const other of this.order) other.element.tabIndex = other.element === element ? 0 : -1;
          },
        },
      },
      rowCells(this.store, rows, node, level, open, scale),
    );
    const share = rows.whole > 0 ? rows.source.value(node) / rows.whole : 0;
    element.setAttribute("aria-label", `${rows.label(node)}, ${percent(share)}`);
    return element;
  }

  private setOpen(node: number, open: boolean): void {
    const { rows } = this;
    if (!rows) return;
    this.opened.set(rows.id(node), open);
    this.current = rows.id(node);
    const unfold = rows.unfold(node);
    if (unfold && open) unfold();
    else this.render(rows, true);
  }

  // Whether the key means something in a row.
  private follow(key: string, node: number, open: boolean | null): boolean {
    const { order, rows } = this;
    if (!rows) return false;
    const at = order.findIndex((row) => row.node === node);
    if (key === "ArrowDown") this.focusRow(at + 1);
    else if (key === "ArrowUp") this.focusRow(at - 1);
    else if (key === "Home") this.focusRow(0);
    else if (key === "End") this.focusRow(order.length - 1);
    else if (key === "ArrowRight") {
      if (open === false) this.setOpen(node, true);
      else if (open) this.focusRow(at + 1);
    } else if (key === "ArrowLeft") {
      if (open) this.setOpen(node, false);
      else this.focusRow(order.findIndex((row) => row.node === rows.source.parent(node)));
    } else if (key === " ") {
      if (open !== null) this.setOpen(node, !open);
    } else if (key === "Enter") rows.zoom(node);
    else return false;
    return true;
  }

  private focusRow(index: number): void {
    const { order } = this;
    order[Math.max(0, Math.min(order.length - 1, index))]?.element.focus();
  }
}
