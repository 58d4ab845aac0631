// SPDX-License-Identifier: BSD-3-Clause
// Elements are made from text and elements, never from markup: names in a run are anybody's.

export type Child = Node | string | number | null | undefined | false | Child[];
type Handler = (event: never) => void;
export interface Attrs {
  class?: string | null;
  text?: string;
  title?: string;
  style?: Partial<Record<string, string>>; // also custom properties: {"--share": "0.5"}
  on?: Partial<{ [K in keyof HTMLElementEventMap]: (event: HTMLElementEventMap[K]) => void }>;
  tip?: TipContent; // shown on hover and focus
  data?: Record<string, string>;
  [attribute: string]: unknown; // null, undefined, false: absent; true: present without a value
}

function append(parent: Node, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(parent, child);
    else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

function setAttrs(element: HTMLElement | SVGElement, attrs: Attrs): void {
  for (const [name, value] of Object.entries(attrs)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.setAttribute("class", value as string);
    else if (name === "text") element.textContent = value as string;
    else if (name === "style")
      for (const [property, v] of Object.entries(value as Record<string, string>)) element.style.setProperty(property, v);
    else if (name === "on")
      for (const [type, handler] of Object.entries(value as Record<string, Handler>))
        element.addEventListener(type, handler as EventListener);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "tip") tip(element as HTMLElement, value as TipContent);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attrs?: Attrs | null,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (attrs) setAttrs(element, attrs);
  append(element, children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attrs?: Attrs | null,
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  if (attrs) setAttrs(element, attrs);
  append(element, children);
  return element;
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

// --- Tooltip: one for the page.

export type TipContent = string | (() => Child);
const tips = new WeakMap<Element, TipContent>();
let tipBox: HTMLElement | null = null;
let tipOwner: Element | null = null;

export function tip<T extends Element>(element: T, content: TipContent): T {
  tips.set(element, content);
  element.setAttribute("data-tip", "");
  return element;
}

function tipElement(): HTMLElement {
  if (!tipBox) {
    tipBox = el("div", { class: "tip", role: "tooltip", id: "tip", hidden: true });
    document.body.append(tipBox);
  }
  return tipBox;
}

export function hideTip(): void {
  if (tipBox) tipBox.hidden = true;
  tipOwner?.removeAttribute("aria-describedby");
  tipOwner = null;
}

// At a point of the window, for canvases.
export function showTip(content: TipContent, x: number, y: number): void {
  const box = tipElement();
  const shown = typeof content === "string" ? content : content();
  if (shown === null || shown === undefined || shown === false || shown === "") {
    hideTip();
    return;
  }
  replace(box, shown);
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const left = Math.max(4, Math.min(x + 12, window.innerWidth - width - 4));
  const below = y + 16 + height < window.innerHeight - 4;
  box.style.left = `${left}px`;
  box.style.top = `${below ? y + 16 : Math.max(4, y - height - 10)}px`;
}

function showTipOf(owner: Element, x: number, y: number): void {
  const content = tips.get(owner);
  if (content === undefined) return;
  showTip(content, x, y);
  if (tipBox && !tipBox.hidden) {
    tipOwner = owner;
    owner.setAttribute("aria-describedby", "tip");
  }
}

export function startTips(): void {
  const ownerOf = (target: EventTarget | null) =>
    target instanceof Element ? target.closest("[data-tip]") : null;
  document.addEventListener("pointerover", (event) => {
    const owner = ownerOf(event.target);
    if (owner === tipOwner) return;
    hideTip();
    if (owner) showTipOf(owner, event.clientX, event.clientY);
  });
  document.addEventListener("focusin", (event) => {
    hideTip();
    const owner = event.target instanceof Element && event.target.matches(":focus-visible") ? ownerOf(event.target) : null;
    if (!owner) return;
    const box = owner.getBoundingClientRect();
    showTipOf(owner, box.left, box.bottom - 12);
  });
  document.addEventListener("focusout", hideTip);
  document.addEventListener("pointerdown", hideTip);
  document.addEventListener("scroll", hideTip, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
  });
}

// --- Bars.

export interface BarPart {
  value: number;
  colour: string; // of CSS
  label: string;
  text?: string; // the value, written out
}

// Parts of `whole` (their sum if not given) side by side; parts say what they are in a tooltip.
export function stackedBar(parts: BarPart[], whole?: number, attrs: Attrs = {}): HTMLElement {
  const sum = whole ?? parts.reduce((s, p) => s + p.value, 0);
  const label = parts
    .filter((p) => p.value > 0)
    .map((p) => `${p.label} ${p.text ?? `${((100 * p.value) / sum).toFixed(1)} %`}`)
    .join(", ");
  return el(
    "div",
    { ...(label === "" ? { "aria-hidden": "true" } : { role: "img", "aria-label": label }), ...attrs, class: `bar ${attrs.class ?? ""}` },
    parts.map((part) =>
      part.value > 0 && sum > 0
        ? el("span", {
            class: "bar-part",
            style: { width: `${(100 * part.value) / sum}%`, background: part.colour },
            tip: `${part.label}  ${part.text ?? ""} ${((100 * part.value) / sum).toFixed(1)} %`,
          })
        : null,
    ),
  );
}

// One value as part of 1.
export function miniBar(share: number | null | undefined, colour = "var(--accent)", attrs: Attrs = {}): HTMLElement {
  const width = share === null || share === undefined || Number.isNaN(share) ? 0 : Math.max(0, Math.min(1, share));
  return el(
    "span",
    { "aria-hidden": "true", ...attrs, class: `mini ${attrs.class ?? ""}` },
    el("span", { style: { width: `${100 * width}%`, background: colour } }),
  );
}

// --- Tables.

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

// A sortable table. Rows are made as they come into view; arrow keys move between rows, Enter opens one.
export function table<Row>(columns: Column<Row>[], rows: readonly Row[], options: TableOptions<Row>): HTMLElement {
  const limit = options.limit ?? 100;
  let sort = options.sort ?? null;
  let order: Row[] = [];
  let shown = 0;
  const details = new Map<Row, HTMLElement>();
  const body = el("tbody");
  const more = el("button", { class: "more", type: "button", on: { click: () => show(limit) } });

  const compare = (a: number | string | null | undefined, b: number | string | null | undefined, sign: number) => {
    const [noA, noB] = [a, b].map((v) => v === null || v === undefined || Number.isNaN(v));
    if (noA || noB) return noA && noB ? 0 : noA ? 1 : -1; // what is not known comes last
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  };

  function sorted(): Row[] {
    const column = columns.find((c) => c.id === sort?.column);
    if (!column?.value || !sort) return [...rows];
    const sign = sort.descending ? -1 : 1;
    const keyed = rows.map((row, i) => ({ row, i, key: column.value!(row) }));
    keyed.sort((x, y) => compare(x.key, y.key, sign) || x.i - y.i);
    return keyed.map((k) => k.row);
  }

  const rowElements = () => [...body.querySelectorAll<HTMLTableRowElement>("tr[data-row]")];
  let current: HTMLTableRowElement | null = null;
  function focusRow(row: HTMLTableRowElement | undefined): void {
    if (!row) return;
    if (current) current.tabIndex = -1;
    current = row;
    row.tabIndex = 0;
    row.focus();
  }

  function toggle(row: Row, tr: HTMLTableRowElement): void {
    const known = details.get(row);
    if (known) {
      known.remove();
      details.delete(row);
      tr.setAttribute("aria-expanded", "false");
      options.onOpen?.(row);
      return;
    }
    const detail = options.onOpen?.(row);
    if (!detail) return;
    attach(row, tr, detail);
  }
  function attach(row: Row, tr: HTMLTableRowElement, detail: HTMLElement): void {
    const holder = el("tr", { class: "detail" }, el("td", { colspan: columns.length }, detail));
    details.set(row, holder);
    tr.setAttribute("aria-expanded", "true");
    tr.after(holder);
  }

  function make(row: Row): HTMLTableRowElement {
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
            toggle(row, tr);
          },
          keydown: (event) => {
            if (event.target !== tr) return;
            if (event.key === "Enter" || event.key === " ") {
              if (!opens) return;
              toggle(row, tr);
            } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
              const all = rowElements();
              focusRow(all[all.indexOf(tr) + (event.key === "ArrowDown" ? 1 : -1)]);
            } else if (event.key === "Home") focusRow(rowElements()[0]);
            else if (event.key === "End") focusRow(rowElements().at(-1));
            else return;
            event.preventDefault();
          },
        },
      },
      columns.map((column) =>
        el("td", { class: `${column.numeric ? "num" : ""} ${column.class ?? ""}`.trim() || null }, column.cell(row)),
      ),
    );
    return tr;
  }

  function show(next: number): void {
    const end = Math.min(order.length, shown + next);
    for (; shown < end; ++shown) {
      const tr = make(order[shown]);
      body.append(tr);
      const detail = details.get(order[shown]);
      if (detail) {
        tr.setAttribute("aria-expanded", "true");
        body.append(detail);
      } else if (options.open?.(order[shown])) {
        const made = options.onOpen?.(order[shown]);
        if (made) attach(order[shown], tr, made);
      }
    }
    if (current === null || !current.isConnected) {
      current = rowElements()[0] ?? null;
      if (current) current.tabIndex = 0;
    }
    more.hidden = shown >= order.length;
    more.textContent = `Show more rows: ${shown.toLocaleString("en-US")} of ${order.length.toLocaleString("en-US")}`;
  }

  function fill(): void {
    order = sorted();
    const before = Math.max(limit, shown);
    body.replaceChildren();
    shown = 0;
    current = null;
    show(before);
  }

  const headers = new Map<string, HTMLTableCellElement>();
  function mark(): void {
    for (const [id, th] of headers)
      th.setAttribute("aria-sort", sort?.column === id ? (sort.descending ? "descending" : "ascending") : "none");
  }
  const head = columns.map((column) => {
    const th = el("th", {
      scope: "col",
      class: `${column.numeric ? "num" : ""} ${column.class ?? ""}`.trim() || null,
      style: column.width ? { width: column.width } : undefined,
    });
    if (!column.value) {
      const title = column.title || el("span", { class: "visually-hidden" }, "As a bar");
      append(th, [column.help ? el("span", { tip: column.help, tabindex: 0 }, title) : title]);
      return th;
    }
    headers.set(column.id, th);
    th.append(
      el(
        "button",
        {
          type: "button",
          tip: column.help,
          on: {
            click: () => {
              const descending = sort?.column === column.id ? !sort.descending : column.numeric === true;
              sort = { column: column.id, descending };
              mark();
              fill();
              options.onSort?.(column.id, descending);
            },
          },
        },
        column.title,
        el("span", { class: "sort-mark", "aria-hidden": "true" }),
      ),
    );
    return th;
  });
  mark();
  fill();
  if (rows.length === 0) return el("p", { class: "empty" }, options.empty ?? "Nothing here.");
  if (typeof IntersectionObserver !== "undefined") {
    const observer = new IntersectionObserver((entries) => {
      if (!more.isConnected) return;
      if (entries.some((e) => e.isIntersecting) && !more.hidden) show(limit);
    });
    observer.observe(more);
  }
  return el(
    "div",
    { class: "table-box" },
    el("table", { "aria-label": options.label, role: options.onOpen ? "treegrid" : null }, el("thead", null, el("tr", null, head)), body),
    more,
  );
}

// A choice of one: buttons side by side.
export function choice<T extends string>(
  label: string,
  options: readonly (readonly [T, string])[],
  chosen: T,
  onChoose: (value: T) => void,
): HTMLElement {
  const buttons = options.map(([value, title]) =>
    el("button", {
      type: "button",
      role: "radio",
      "aria-checked": String(value === chosen),
      tabindex: value === chosen ? 0 : -1,
      text: title,
      on: { click: () => pick(value) },
    }),
  );
  const pick = (value: T) => {
    buttons.forEach((button, i) => {
      const is = options[i][0] === value;
      button.setAttribute("aria-checked", String(is));
      button.tabIndex = is ? 0 : -1;
    });
    onChoose(value);
  };
  return el(
    "div",
    {
      class: "choice",
      role: "radiogroup",
      "aria-label": label,
      on: {
        keydown: (event) => {
          const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
          if (!step) return;
          event.preventDefault();
          const at = buttons.findIndex((b) => b.tabIndex === 0);
          const next = (at + step + buttons.length) % buttons.length;
          pick(options[next][0]);
          buttons[next].focus();
        },
      },
    },
    buttons,
  );
}

// A heading and what is below it.
export function section(title: string, attrs: Attrs & { aside?: Child }, ...children: Child[]): HTMLElement {
  const { aside, ...rest } = attrs;
  return el(
    "section",
    { ...rest, class: `card ${rest.class ?? ""}`.trim() },
    el("header", null, el("h2", null, title), aside ? el("div", { class: "aside" }, aside) : null),
    children,
  );
}

// Small type for what does not follow the selection.
export function ofWholeRun(): HTMLElement {
  return el("span", { class: "whole-run" }, "of the whole run");
}
