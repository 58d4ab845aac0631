// SPDX-License-Identifier: BSD-3-Clause
// The call tree as rings: what is zoomed in the middle, callees (bottom-up: callers) around it.
import { css, mix } from "../core/colours";
import { el } from "../core/dom";
import { type NodeLook, TextFitter, hatch, palette, prepare, textOn } from "./canvas_parts";
import type { TreeChart } from "./flame";
import { type FlameBox, FlameIndex, type FlameSource, layoutFlame } from "./flame_layout";
import { type TreeChartEvents, treePointer } from "./tree_pointer";

const RINGS = 12; // at most
const TURN = 2 * Math.PI;

export function sunburstChart(events: TreeChartEvents): TreeChart {
  const canvas = el("canvas");
  const root = el(
    "div",
    {
      class: "sunburst",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "sunburst chart",
      "aria-label": `${events.label}. Left and right move along a ring, up and down between rings, Enter zooms in, Backspace out.`,
    },
    canvas,
  );
  let source: FlameSource | null = null;
  let look: NodeLook | null = null;
  let zoomed = 0;
  let base = 0; // depth of what is zoomed
  let boxes: FlameBox[] = [];
  let index = new FlameIndex([]);
  let rings = 1;
  let queued = 0;
  let laidOutFor = 0;

  const size = (): number => Math.min(root.clientWidth, root.clientHeight);
  // Radii: the middle is as wide as one ring and a half.
  const thickness = (): number => (size() / 2 - 4) / (rings + 1.5);
  const inner = (depth: number): number => (depth === base ? 0 : (depth - base + 0.5) * thickness());
  const outer = (depth: number): number => (depth - base + 1.5) * thickness();

  function layout(): void {
    if (!source) return;
    laidOutFor = size();
    const around = Math.max(1, laidOutFor * Math.PI);
    base = 0;
    for (let at = zoomed; source.parent(at) !== at; at = source.parent(at)) ++base;
    boxes = layoutFlame(source, zoomed, 1 / around, base + 1 + RINGS).filter((box) => box.depth >= base);
    // As many rings fill the circle as have something to see; thin spikes end at its edge.
    const wide = boxes.filter((box) => box.end - box.begin >= 0.01);
    rings = Math.max(3, wide.reduce((deepest, box) => Math.max(deepest, box.depth), base) - base + 1);
    boxes = boxes.filter((box) => box.depth - base <= rings);
    index = new FlameIndex(boxes);
    const before = pointer.focused;
    pointer.focused = before
      ? (boxes.find((box) => box.node === before.node && box.filler === before.filler) ?? null)
      : null;
    pointer.hovered = null;
  }

  function draw(): void {
    queued = 0;
    if (!source || !look) return;
    const side = size();
    const ready = prepare(canvas, side, side);
    if (!ready) return;
    if (laidOutFor !== side) layout();
    const { context, scale } = ready;
    const colours = palette(11);
    const pattern = hatch(context, colours, scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.translate(side / 2, side / 2);
    context.font = colours.font;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const fitter = new TextFitter(context);
    const trace = (box: FlameBox): void => {
      const from = box.begin * TURN - Math.PI / 2;
      const to = box.end * TURN - Math.PI / 2;
      context.beginPath();
      context.arc(0, 0, outer(box.depth), from, to);
      if (box.depth > base) context.arc(0, 0, inner(box.depth), to, from, true);
      context.closePath();
    };
    context.lineWidth = 1;
    context.strokeStyle = css(colours.card);
    for (const box of boxes) {
      const hatched = box.filler > 0 || look.hatched(box.node);
      let fill = colours.card;
      if (!hatched && box.depth > base) {
        fill = look.colour(box.node);
        if (!look.matched(box.node)) fill = mix(fill, colours.card, 0.78);
      }
      trace(box);
      context.fillStyle = hatched ? pattern : css(fill);
      context.fill();
      if (box.depth > base && (box.end - box.begin) * TURN * outer(box.depth) > 2) context.stroke();
      if (box.filler > 0) continue;
      if (box.depth === base) {
        const text = fitter.fit(look.label(box.node), 2 * outer(base) - 6);
        context.fillStyle = colours.text;
        context.fillText(text, 0, 0);
        continue;
      }
      const middle = (inner(box.depth) + outer(box.depth)) / 2;
      const depth = outer(box.depth) - inner(box.depth);
      if (depth < 14) continue;
      const along = (box.end - box.begin) * TURN * middle;
      const text = fitter.fit(look.label(box.node), along - 10);
      if (text === "") continue;
      context.fillStyle = hatched ? colours.text : textOn(fill, colours);
      curved(context, text, ((box.begin + box.end) / 2) * TURN, middle);
    }
    for (const box of [pointer.hovered, pointer.focused]) {
      if (!box || (box === pointer.focused && document.activeElement !== root)) continue;
      trace(box);
      context.lineWidth = box === pointer.focused ? 2.5 : 1.5;
      context.strokeStyle = box === pointer.focused ? colours.focus : colours.text;
      context.stroke();
    }
  }

  // Letter by letter along the arc around `angle` (0: up); upright in the lower half as well.
  function curved(context: CanvasRenderingContext2D, text: string, angle: number, radius: number): void {
    const below = angle > Math.PI / 2 && angle < 1.5 * Math.PI;
    const sign = below ? -1 : 1;
    const letters = [...text];
    const widths = letters.map((letter) => context.measureText(letter).width);
    let at = angle - (sign * widths.reduce((a, b) => a + b, 0)) / (2 * radius);
    letters.forEach((letter, i) => {
      const half = (sign * widths[i]) / (2 * radius);
      at += half;
      context.save();
      context.rotate(at);
      context.translate(0, -radius);
      if (below) context.rotate(Math.PI);
      context.fillText(letter, 0, 0);
      context.restore();
      at += half;
    });
  }

  function queue(): void {
    if (queued === 0) queued = window.requestAnimationFrame(draw);
  }

  function at(event: MouseEvent): FlameBox | null {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left - box.width / 2;
    const y = event.clientY - box.top - box.height / 2;
    const radius = Math.hypot(x, y);
    const ring = radius < outer(base) ? base : base + Math.floor(radius / thickness() - 0.5);
    const turn = (Math.atan2(y, x) + Math.PI / 2 + TURN) % TURN;
    return index.at(ring, turn / TURN);
  }

  // Outwards is down the tree.
  const pointer = treePointer({
    root,
    canvas,
    events,
    at,
    index: () => index,
    zoomed: () => zoomed,
    first: () => boxes[0] ?? null,
    reveal: (box) => box.depth >= base,
    redraw: queue,
  });

  const observer = new ResizeObserver(queue);
  observer.observe(root);
  return {
    root,
    show(nextSource, nextZoomed, nextLook) {
      source = nextSource;
      zoomed = nextZoomed;
      look = nextLook;
      layout();
      queue();
    },
    focus: () => root.focus(),
    destroy() {
      observer.disconnect();
      window.cancelAnimationFrame(queued);
    },
  };
}
