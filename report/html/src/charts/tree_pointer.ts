// SPDX-License-Identifier: BSD-3-Clause
// What pointer and keys do in a chart of a call tree, whatever its shape.
import { type Child, hideTip, showTip } from "../core/dom";
import type { FlameBox, FlameIndex } from "./flame_layout";

export interface TreeChartEvents {
  label: string; // for screen readers
  zoom(node: number): void;
  out(): void;
  tip(box: FlameBox): Child;
  at(box: FlameBox | null): void; // under the pointer or focused
}

export interface TreePointer {
  focused: FlameBox | null;
  hovered: FlameBox | null;
}

export function treePointer(chart: {
  root: HTMLElement;
  canvas: HTMLCanvasElement;
  events: TreeChartEvents;
  at(event: MouseEvent): FlameBox | null;
  index(): FlameIndex;
  zoomed(): number;
  first(): FlameBox | null; // where keys begin
  home?(): FlameBox | null;
  reveal(box: FlameBox): boolean; // false: it cannot be focused
  redraw(): void;
}): TreePointer {
  const { root, canvas, events, at, redraw } = chart;
  const pointer: TreePointer = { focused: null, hovered: null };

  canvas.addEventListener("pointermove", (event) => {
    const box = at(event);
    if (box !== pointer.hovered) {
      pointer.hovered = box;
      canvas.style.cursor = box ? "pointer" : "default";
      events.at(box ?? pointer.focused);
      redraw();
    }
    if (box) showTip(() => events.tip(box), event.clientX, event.clientY);
    else hideTip();
  });
  canvas.addEventListener("pointerleave", () => {
    pointer.hovered = null;
    hideTip();
    events.at(pointer.focused);
    redraw();
  });
  canvas.addEventListener("click", (event) => {
    const box = at(event);
    if (!box) return;
    hideTip();
    pointer.focused = box;
    if (box.node !== chart.zoomed()) events.zoom(box.node);
    else if (box.filler === 0) events.out();
  });

  function focus(box: FlameBox | null): void {
    if (!box || !chart.reveal(box)) return;
    pointer.focused = box;
    events.at(box);
    redraw();
  }
  root.addEventListener("focus", () => {
    if (root.matches(":focus-visible")) focus(pointer.focused ?? chart.first());
    redraw();
  });
  root.addEventListener("blur", redraw);
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const from = pointer.focused ?? chart.first();
    const direction = ({ ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" } as const)[
      event.key
    ];
    if (direction && from) focus(chart.index().step(from, direction) ?? from);
    else if (event.key === "Enter" && from) {
      if (from.node !== chart.zoomed()) events.zoom(from.node);
    } else if (event.key === "Escape" || event.key === "Backspace") {
      pointer.focused = null;
      events.out();
    } else if (event.key === "Home" && chart.home) focus(chart.home());
    else return;
    hideTip();
    event.preventDefault();
  });
  return pointer;
}
