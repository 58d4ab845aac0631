// SPDX-License-Identifier: BSD-3-Clause
// Sortable tables. Rows are made as they come into view; arrow keys move between rows, Enter opens one.
import { append, type Child, el } from "./dom";

export interface Column<Row> {
  id: string;
  title: string;
  help?: string;
  numeric?: boolean; // right-aligned; sorts largest first
  width?: string; // CSS
  class?: string;
  value?(row: Row): number | string | null | undefined; // to sort by; without it the column is not sortable
  cell(row: Row): Child;
}

export interface TableOptions<Row> {
  label: string; // for screen readers
  sort?: { column: string; descending: boolean };
  onSort?(column: string, descending: boolean): void;
  limit?: number; // rows shown at first, and more at a time
  // Enter or a click on a row. An element is shown below the row and taken away at the next call.
  onOpen?(row: Row): HTMLElement | void;
  open?(row: Row): boolean; // rows that are open when the table is made
  rowClass?(row: Row): string;
  empty?: string;
}

type Value = number | string | null | undefined;

// What is not known comes last; `sign` is -1 for the largest first.
function compare(a: Value, b: Value, sign: number): number {
  const [noA, noB] = [a, b].map((v) => v === null || v === undefined || Number.isNaN(v));
  if (noA || noB) return noA && noB ? 0 : noA ? 1 : -1;
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}

const cellClass = <Row>(column: Column<Row>): string | null =>
  `${column.numeric ? "num" : ""} ${column.class ?? ""}`.trim() || null;

class Table<Row> {
  private readonly limit: number;
  private sort: { column: string; descending: boolean } | null;
  private order: Row[] = [];
  private shown = 0; // rows of `order` that have been made
  private current: HTMLTableRowElement | null = null; // that the keyboard is at
  private readonly details = new Map<Row, HTMLElement>(); // of open rows
  private readonly headers = new Map<string, HTMLTableCellElement>(); // of sortable columns
  private readonly body = el("tbody");
  private readonly more = el("button", { class: "more", type: "button", on: { click: () => this.show(this.limit) } });

  constructor(
    private readonly columns: Column<Row>[],
    private readonly rows: readonly Row[],
    private readonly options: TableOptions<Row>,
  ) {
    this.limit = options.limit ?? 100;
    this.sort = options.sort ?? null;
  }

  build(): HTMLElement {
    const { options } = this;
    const head = this.columns.map((column) => this.header(column));
    this.markSorted();
    this.fill();
    if (this.rows.length === 0) return el("p", { class: "empty" }, options.empty ?? "Nothing here.");
    this.showMoreAtTheEnd();
    return el(
      "div",
      { class: "table-box" },
      el(
        "table",
        { "aria-label": options.label, role: options.onOpen ? "treegrid" : null },
        el("thead", null, el("tr", null, head)),
        this.body,
      ),
      this.more,
    );
  }

  private header(column: Column<Row>): HTMLTableCellElement {
    const th = el("th", {
      scope: "col",
      class: cellClass(column),
      style: column.width ? { width: column.width } : undefined,
    });
    if (!column.value) {
      const title = column.title || el("span", { class: "visually-hidden" }, "As a bar");
      append(th, [column.help ? el("span", { tip: column.help, tabindex: 0 }, title) : title]);
      return th;
    }
    this.headers.set(column.id, th);
    th.append(
      el(
        "button",
        { type: "button", tip: column.help, on: { click: () => this.sortBy(column) } },
        column.title,
        el("span", { class: "sort-mark", "aria-hidden": "true" }),
      ),
    );
    return th;
  }

  private sortBy(column: Column<Row>): void {
    const descending = this.sort?.column === column.id ? !this.sort.descending : column.numeric === true;
    this.sort = { column: column.id, descending };
    this.markSorted();
    this.fill();
    this.options.onSort?.(column.id, descending);
  }

  private markSorted(): void {
    const { sort } = this;
    for (const [id, th] of this.headers)
      th.setAttribute("aria-sort", sort?.column === id ? (sort.descending ? "descending" : "ascending") : "none");
  }

  private sorted(): Row[] {
    const { rows, sort } = this;
    const column = this.columns.find((c) => c.id === sort?.column);
    if (!column?.value || !sort) return [...rows];
    const sign = sort.descending ? -1 : 1;
    const keyed = rows.map((row, i) => ({ row, i, key: column.value!(row) }));
    keyed.sort((x, y) => compare(x.key, y.key, sign) || x.i - y.i);
    return keyed.map((k) => k.row);
  }

  private fill(): void {
    this.order = this.sorted();
    const before = Math.max(this.limit, this.shown);
    this.body.replaceChildren();
    this.shown = 0;
    this.current = null;
    this.show(before);
  }

  // Makes so many more rows.
  private show(next: number): void {
    const { order, more } = this;
    const end = Math.min(order.length, this.shown + next);
    for (; this.shown < end; ++this.shown) this.makeRow(order[this.shown]);
    if (this.current === null || !this.current.isConnected) {
      this.current = this.rowElements()[0] ?? null;
      if (this.current) this.current.tabIndex = 0;
    }
    more.hidden = this.shown >= order.length;
    more.textContent = `Show more rows: ${this.shown.toLocaleString("en-US")} of ${order.length.toLocaleString("en-US")}`;
  }

  private makeRow(row: Row): void {
    const { body, details, options } = this;
    const tr = this.rowElement(row);
    body.append(tr);
    const detail = details.get(row);
    if (detail) {
      tr.setAttribute("aria-expanded", "true");
      body.append(detail);
    } else if (options.open?.(row)) {
      const made = options.onOpen?.(row);
      if (made) this.attach(row, tr, made);
    }
  }

  private rowElement(row: Row): HTMLTableRowElement {
    const { options } = this;
    const opens = options.onOpen !== undefined;
    const tr = el(
      "tr",
      {
        "data-row": true,
        class: `${opens ? "opens" : ""} ${options.rowClass?.(row) ?? ""}`.trim() || null,
        tabindex: -1,
        "aria-expanded": opens ? "false" : null,
        on: {
          click: (event) => {
            if (!opens || event.defaultPrevented) return;
            if (event.target instanceof Element && event.target.closest("a,button,input,summary")) return;
            if (String(window.getSelection() ?? "") !== "") return;
            this.toggle(row, tr);
          },
          keydown: (event) => {
            if (event.target !== tr) return;
            if (event.key === "Enter" || event.key === " ") {
              if (!opens) return;
              this.toggle(row, tr);
            } else if (!this.moveFrom(tr, event.key)) return;
            event.preventDefault();
          },
        },
      },
      this.columns.map((column) => el("td", { class: cellClass(column) }, column.cell(row))),
    );
    return tr;
  }

  private rowElements(): HTMLTableRowElement[] {
    return [...this.body.querySelectorAll<HTMLTableRowElement>("tr[data-row]")];
  }

  // Whether the key moves between rows.
  private moveFrom(tr: HTMLTableRowElement, key: string): boolean {
    const all = this.rowElements();
    if (key === "ArrowDown" || key === "ArrowUp") this.focus(all[all.indexOf(tr) + (key === "ArrowDown" ? 1 : -1)]);
    else if (key === "Home") this.focus(all[0]);
    else if (key === "End") this.focus(all.at(-1));
    else return false;
    return true;
  }

  private focus(row: HTMLTableRowElement | undefined): void {
    if (!row) return;
    if (this.current) this.current.tabIndex = -1;
    this.current = row;
    row.tabIndex = 0;
    row.focus();
  }

  private toggle(row: Row, tr: HTMLTableRowElement): void {
    const { details, options } = this;
    const known = details.get(row);
    if (known) {
      known.remove();
      details.delete(row);
      tr.setAttribute("aria-expanded", "false");
      options.onOpen?.(row);
      return;
    }
    const detail = options.onOpen?.(row);
    if (detail) this.attach(row, tr, detail);
  }

  private attach(row: Row, tr: HTMLTableRowElement, detail: HTMLElement): void {
    const holder = el("tr", { class: "detail" }, el("td", { colspan: this.columns.length }, detail));
    this.details.set(row, holder);
    tr.setAttribute("aria-expanded", "true");
    tr.after(holder);
  }

  private showMoreAtTheEnd(): void {
    if (typeof IntersectionObserver === "undefined") return;
    const { more } = this;
    const observer = new IntersectionObserver((entries) => {
      if (!more.isConnected) return;
      if (entries.some((e) => e.isIntersecting) && !more.hidden) this.show(this.limit);
    });
    observer.observe(more);
  }
}

export function table<Row>(columns: Column<Row>[], rows: readonly Row[], options: TableOptions<Row>): HTMLElement {
  return new Table(columns, rows, options).build();
}
