// SPDX-License-Identifier: BSD-3-Clause
// What hotspots, call tree and source have in common.
import { moduleName, pathFunctions, withoutAbiTag } from "../calltree/of_model";
import { CATEGORY_TITLES, KIND_TITLES, categoryColour, kindColour } from "../core/colours";
import { type Child, el, stackedBar } from "../core/dom";
import { functionLabel, percent, printable, seconds, shortenMiddle } from "../core/format";
import { CATEGORIES, IDLE, type FunctionInfo, type KindName, type Model, NONE } from "../core/model";
import type { Store } from "../core/selection";
import { CATEGORY_COUNT, type Weights, partsOfRow, weights } from "../core/weights";

export function searchField(label: string): HTMLInputElement {
  return el("input", {
    type: "search",
    placeholder: label,
    "aria-label": label,
    class: "field filter",
    spellcheck: "false",
    autocomplete: "off",
  });
}

export function kindMark(kind: KindName): HTMLElement {
  return el("span", {
    class: "kind-mark",
    style: { background: kindColour(kind) },
    tip: KIND_TITLES[kind],
    role: "img",
    "aria-label": KIND_TITLES[kind],
  });
}

export function functionText(info: { name: string; kind: KindName }): string {
  return withoutAbiTag(functionLabel(info.name, info.kind));
}

// The name as lists show it: short, whole in its tooltip.
export function functionName(info: { name: string; kind: KindName }, most = 48): HTMLElement {
  const label = functionText(info);
  const full = printable(info.name);
  return el("span", { class: "fn-name", tip: full === label ? undefined : full }, shortenMiddle(label, most));
}

export function placeText(model: Model, file: string | null, line: number): string {
  return file ? shortenMiddle(printable(model.place(file, line)), 44) : "";
}

export function shownModule(info: FunctionInfo): string {
  return printable(moduleName(info.file, info.module));
}

export function categoryBar(parts: ArrayLike<number>, whole?: number, attrs = {}): HTMLElement {
  return stackedBar(
    CATEGORIES.map((category, c) => ({
      value: parts[c],
      colour: categoryColour(category),
      label: CATEGORY_TITLES[category],
      text: seconds(parts[c]),
    })),
    whole,
    attrs,
  );
}

// Seconds by category of each function's own time under the selection: functions x categories.
export function functionCategories(store: Store): Float64Array {
  const { model, helperIdle } = store;
  const { factor, functionSelf, overall } = weights(store);
  const functions = pathFunctions(model);
  const self = model.f32("path_self_s");
  const helper = model.f32("path_helper_idle_s");
  const sums = new Float64Array(model.functionCount * CATEGORY_COUNT);
  const whole = new Float64Array(model.functionCount * CATEGORY_COUNT);
  for (let path = 1; path < model.pathCount; ++path) {
    const f = functions[path];
    if (f === NONE) continue;
    for (let c = 0; c < CATEGORY_COUNT; ++c) {
      const value = self[path * CATEGORY_COUNT + c];
      const idleHelpers = c === IDLE && !helperIdle ? helper[path] : 0;
      whole[f * CATEGORY_COUNT + c] += value;
      sums[f * CATEGORY_COUNT + c] += Math.max(0, value - idleHelpers) * factor[path];
    }
  }
  // With what small call paths have, as for the functions' times.
  const rows = model.u32("function_row");
  for (let f = 0; f < model.functionCount; ++f) {
    const row = rows[f] === NONE ? undefined : model.report.functions[rows[f]];
    const [begin, end] = [f * CATEGORY_COUNT, (f + 1) * CATEGORY_COUNT];
    if (row)
      sums.set(partsOfRow(row, sums.subarray(begin, end), whole.subarray(begin, end), overall, functionSelf[f]), begin);
  }
  return sums;
}

// All time under the selection: what shares are of.
export function allSeconds(store: Store): number {
  return weights(store).sum;
}

export function estimateNote(of: Weights): Child {
  return of.isEstimate ? el("span", { class: "estimate", tip: ESTIMATE }, "estimates") : null;
}
const ESTIMATE =
  "Of a range of time a path has the share of its samples that lie in it; of ranks that were recorded together, " +
  "their part of the group. Times under this selection are estimates.";

// A share as a number with a bar behind it.
export function shareCell(value: number, whole: number, text: string, colour = "var(--accent)"): HTMLElement {
  const share = whole > 0 ? value / whole : 0;
  return el(
    "span",
    { class: "share-cell" },
    el("span", { class: "share-text" }, text),
    el("span", { class: "share-percent" }, percent(share)),
    el(
      "span",
      { class: "share-bar", "aria-hidden": "true" },
      el("span", { style: { width: `${100 * Math.max(0, Math.min(1, share))}%`, background: colour } }),
    ),
  );
}

// Of a search: "text" in quotes is the whole name, /text/ a regular expression, else part of a name, file or
// module whatever its case. null: nothing is asked for; false: not a regular expression.
export type Matcher = (info: {
  name: string;
  file: string | null;
  module: string | null;
  kind: KindName;
}) => boolean;
export function matcher(query: string): Matcher | null | false {
  const text = query.trim();
  if (text === "") return null;
  if (text.length > 2 && text.startsWith('"') && text.endsWith('"')) {
    const name = text.slice(1, -1);
    return (info) => info.name === name || functionLabel(info.name, info.kind) === name;
  }
  const fields = (info: Parameters<Matcher>[0]): string[] => [
    functionLabel(info.name, info.kind),
    info.name,
    info.file ?? "",
    info.module ?? "",
  ];
  if (text.length > 2 && text.startsWith("/") && text.endsWith("/")) {
    let expression: RegExp;
    try {
      expression = new RegExp(text.slice(1, -1), "i");
    } catch {
      return false;
    }
    return (info) => fields(info).some((field) => expression.test(field));
  }
  const lower = text.toLowerCase();
  return (info) => fields(info).some((field) => field.toLowerCase().includes(lower));
}
