// SPDX-License-Identifier: BSD-3-Clause
// What is said about one node of the call tree: in a tip, and in the line below the chart.
import { categoryBar } from "../charts/code_parts";
import type { FlameBox } from "../charts/flame_layout";
import { KIND_TITLES } from "../core/colours";
import { type Child, el } from "../core/dom";
import { percent, plural, printable, seconds, shortenMiddle } from "../core/format";
import { NONE } from "../core/model";
import type { ShownTree } from "./shown_tree";
import { frameModule } from "./tree_colours";

export function tipOf(tree: ShownTree, node: number, filler: number): Child {
  const { view, state } = tree;
  if (filler > 0) {
    return el(
      "div",
      { class: "tree-tip" },
      `${plural(filler, "frame")} too small to draw. Click to zoom in.`,
    );
  }
  const value = view.source.value(node);
  const all = view.source.value(0);
  const line = (name: string, text: Child): Child => [el("dt", null, name), el("dd", null, text)];
  const share = (of: number): string => `${seconds(of)}, ${percent(all > 0 ? of / all : 0)}`;
  const self = view.self(node);
  const frame = view.frame(node);
  const info = frame === NONE ? null : tree.frameInfo(frame);
  const parts = view.category(node);
  const uneven = view.imbalance(node);
  const up = state.direction === "up";
  const module = info ? frameModule(info) : "";
  const place = info?.file
    ? `${shortenMiddle(printable(info.file), 60)}${info.line || info.function_line ? `:${info.line || info.function_line}` : ""}`
    : "";
  return el(
    "div",
    { class: "tree-tip" },
    el(
      "strong",
      null,
      node === 0
        ? "All call paths"
        : view.isOthers(node)
          ? "Others"
          : shortenMiddle(printable(info?.name ?? ""), 160),
    ),
    view.isOthers(node)
      ? el("p", null, "Many small call paths together. This page does not list each of them.")
      : null,
    el(
      "dl",
      null,
      line(
        up && node !== 0 ? (view.trail(node).length > 1 ? "Through here" : "Self") : "Total",
        share(value),
      ),
      up || node === 0 || Number.isNaN(self) ? null : line("Self", share(self)),
      tree.isFold(node) ? line("Folded", "library code; a click opens it") : null,
      info ? line("Kind", `${KIND_TITLES[info.kind]}${info.inlined ? ", inlined" : ""}`) : null,
      module ? line("Module", shortenMiddle(module, 50)) : null,
      place ? line("At", place) : null,
      Number.isNaN(uneven) || node === 0
        ? null
        : line("Imbalance", `${uneven.toFixed(2)}×${up ? ", own time" : ""}, of the whole run`),
    ),
    parts && !up ? categoryBar(parts) : null,
  );
}

// The line below the chart: about the box at the pointer or the cursor, or how to go on.
export function statusOf(tree: ShownTree, box: FlameBox | null): Child {
  const { model, view, state } = tree;
  if (!box)
    return `Below each function are those ${state.direction === "up" ? "that called it" : "that it called"}. Click to zoom. Keyboard: f, then arrow keys, Enter and Backspace.`;
  if (box.filler > 0) return `${plural(box.filler, "frame")} too small to draw, below ${tree.label(box.node)}`;
  const value = view.source.value(box.node);
  const all = view.source.value(0);
  const above = view.source.value(view.source.parent(box.node));
  const self = view.self(box.node);
  const frame = view.frame(box.node);
  const info = frame === NONE ? null : tree.frameInfo(frame);
  const place = info ? printable(model.place(info.file, info.line || info.function_line)) : "";
  return [
    el("strong", null, shortenMiddle(tree.label(box.node), 70)),
    place ? el("span", { class: "muted" }, shortenMiddle(place, 50)) : null,
    `${seconds(value)}, ${percent(all > 0 ? value / all : 0)} of all`,
    box.node === 0
      ? null
      : el(
          "span",
          { class: "muted" },
          `${percent(above > 0 ? value / above : 0)} of its ${state.direction === "up" ? "callee" : "caller"}`,
        ),
    Number.isNaN(self) || box.node === 0 ? null : el("span", { class: "muted" }, `self ${seconds(self)}`),
  ];
}
