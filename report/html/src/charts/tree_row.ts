// SPDX-License-Identifier: BSD-3-Clause
// The columns of the call tree's table: their headers, and the cells of a row.
import { moduleName } from "../calltree/of_model";
import { type Child, el } from "../core/dom";
import { type TimeScale, UNKNOWN, printable, shortenMiddle } from "../core/format";
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

export const COLUMNS = 7;

export function headerCells({ up }: TreeRows, scale: TimeScale): HTMLElement[] {
  return [
    el("th", { scope: "col" }, up ? "Function, and below it its callers" : "Function, and below it what it calls"),
    el("th", { scope: "col", class: "num" }, `${up ? "Time" : "Total"}, ${scale.unit}`),
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
  ];
}

// `open`: null for a row that has nothing below it.
export function rowCells(
  store: Store,
  rows: TreeRows,
  node: number,
  level: number,
  open: boolean | null,
  scale: TimeScale,
): HTMLElement[] {
  const info = rows.info(node);
  const value = rows.source.value(node);
  const categories = node === 0 && rows.up ? null : rows.category(node);
  const imbalance = rows.imbalance(node);
  return [
    nameCell(rows, node, level, open, info),
    el("td", { class: "num" }, shareCell(value, rows.whole, scale.format(value))),
    el("td", { class: "num" }, selfText(rows.self(node), scale)),
    el("td", { class: "split" }, categories ? categoryBar(categories, undefined, { class: "thin" }) : null),
    el(
      "td",
      { class: "num tight" },
      Number.isNaN(imbalance) || node === 0 ? UNKNOWN : `${imbalance.toFixed(2)}×`,
    ),
    el("td", { class: "fn-place" }, info ? sourceLink(store, info) : ""),
    el("td", { class: "fn-module" }, info ? moduleText(info) : ""),
  ];
}

function nameCell(
  rows: TreeRows,
  node: number,
  level: number,
  open: boolean | null,
  info: FrameInfo | null,
): HTMLElement {
  return el(
    "td",
    { class: "tree-name", style: { "--level": String(level) } },
    el("span", { class: `twisty ${open === null ? "none" : open ? "open" : ""}`, "aria-hidden": "true" }),
    el("span", {
      class: `kind-mark ${rows.isOthers(node) ? "hatched" : ""}`,
      style: rows.isOthers(node) ? undefined : { background: rows.colour(node) },
    }),
    el(
      "span",
      { class: "fn-name", tip: info ? printable(info.name) : undefined },
      shortenMiddle(rows.label(node), 72),
    ),
    info?.inlined ? el("span", { class: "muted small" }, " inlined") : null,
  );
}

function selfText(self: number, scale: TimeScale): Child {
  if (Number.isNaN(self)) return "";
  return self > 0 ? scale.format(self) : el("span", { class: "muted" }, scale.format(0));
}

function sourceLink(store: Store, info: FrameInfo): Child {
  const line = info.line || info.function_line;
  const place = printable(store.model.place(info.file, line));
  if (!info.file || !place) return "";
  return el(
    "a",
    { href: store.href({ page: "source", params: { file: info.file, line: line || null } }) },
    shortenMiddle(place, 34),
  );
}

function moduleText(info: FrameInfo): string {
  return info.kind === "region" ? "" : shortenMiddle(printable(moduleName(info.file, info.module)), 24);
}
