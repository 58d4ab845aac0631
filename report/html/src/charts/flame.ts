// SPDX-License-Identifier: BSD-3-Clause
// An icicle: the outermost frames on top, callees (bottom-up: callers) below, as wide as their time.
import { css, mix } from "../core/colours";
import { el } from "../core/dom";
import { type NodeLook, type Palette, TextFitter, hatch, palette, prepare, textOn } from "./canvas_parts";
import { type FlameBox, FlameIndex, type FlameSource, layoutFlame } from "./flame_layout";
import { type TreeChartEvents, treePointer } from "./tree_pointer";

export interface TreeChart {
  root: HTMLElement;
  show(source: FlameSource, zoomed: number, look: NodeLook): void;
  focus(): void;
  destroy(): void;
}

const ROW = 21;

export function flameChart(events: TreeChartEvents): TreeChart {
  const canvas = el("canvas");
  const spacer = el("div", { class: "flame-spacer" }, canvas);
  const root = el(
    "div",
    {
      class: "flame",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "icicle chart",
      "aria-label": `${events.label}. Arrow keys move between frames, Enter zooms in, Backspace out.`,
    },
    spacer,
  );
  let source: FlameSource | null = null;
  let look: NodeLook | null = null;
  let zoomed = 0;
  let boxes: FlameBox[] = [];
  let index = new FlameIndex([]);
  let laidOutFor = 0;
  let queued = 0;

  function layout(): void {
    const width = root.clientWidth;
    if (!source || width === 0) return;
    boxes = layoutFlame(source, zoomed, 0.8 / width);
    index = new FlameIndex(boxes);
    laidOutFor = width;
    spacer.style.height = `${index.depths * ROW + 1}px`;
    pointer.focused = pointer.focused ? (boxes.find((box) => same(box, pointer.focused!)) ?? null) : null;
    pointer.hovered = null;
  }
  const same = (a: FlameBox, b: FlameBox): boolean =>
    a.node === b.node && a.depth === b.depth && a.filler > 0 === b.filler > 0;

  function draw(): void {
    queued = 0;
    if (!look || !source) return;
    if (laidOutFor !== root.clientWidth) layout();
    const width = root.clientWidth;
    const height = Math.min(root.clientHeight, index.depths * ROW + 1);
    const ready = prepare(canvas, width, height);
    if (!ready) return;
    const { context, scale } = ready;
    const colours = palette(12);
    const pattern = hatch(context, colours, scale);
    context.font = colours.font.replace(/^12px/, `${12 * scale}px`);
    context.textBaseline = "middle";
    const fitter = new TextFitter(context);
    const top = root.scrollTop;
    const first = Math.floor(top / ROW);
    const last = Math.min(index.depths - 1, Math.ceil((top + height) / ROW));
    const trail = zoomDepth();
    for (let depth = first; depth <= last; ++depth) {
      const y = Math.round((depth * ROW - top) * scale);
      const bottom = Math.round(((depth + 1) * ROW - top) * scale);
      for (const box of index.row(depth)) {
        drawBox(context, box, y, bottom - y, width, scale, pattern, colours, fitter, depth < trail);
      }
    }
    for (const box of [pointer.hovered, pointer.focused]) {
      if (!box || (box === pointer.focused && document.activeElement !== root)) continue;
      const y = Math.round((box.depth * ROW - top) * scale);
      const x = Math.round(box.begin * width * scale);
      context.strokeStyle = box === pointer.focused ? colours.focus : colours.text;
      context.lineWidth = (box === pointer.focused ? 2 : 1.25) * scale;
      const inset = context.lineWidth / 2;
      context.strokeRect(
        x + inset,
        y + inset,
        Math.max(2 * scale, Math.round(box.end * width * scale) - x - 2 * inset),
        ROW * scale - 2 * inset,
      );
    }
  }

  function drawBox(
    context: CanvasRenderingContext2D,
    box: FlameBox,
    y: number,
    height: number,
    width: number,
    scale: number,
    pattern: CanvasPattern | string,
    colours: Palette,
    fitter: TextFitter,
    above: boolean,
  ): void {
    const x = Math.round(box.begin * width * scale);
    const end = Math.round(box.end * width * scale);
    const gap = end - x > 3 * scale ? Math.round(scale) : 0;
    const w = Math.max(1, end - x - gap);
    const h = height - Math.round(scale);
    const hatched = box.filler > 0 || look!.hatched(box.node);
    if (hatched) {
      context.fillStyle = pattern;
      context.fillRect(x, y, w, h);
    }
    let fill = colours.card;
    if (!hatched) {
      fill = look!.colour(box.node);
      if (!look!.matched(box.node)) fill = mix(fill, colours.card, 0.78);
      else if (above) fill = mix(fill, colours.card, 0.45);
      context.fillStyle = css(fill);
      context.fillRect(x, y, w, h);
    }
    if (box.filler > 0) return;
    const pad = 5 * scale;
    const text = fitter.fit(look!.label(box.node), w - 2 * pad);
    if (text === "") return;
    context.fillStyle = hatched ? colours.text : textOn(fill, colours);
    context.fillText(text, x + pad, y + h / 2 + 0.5 * scale);
  }

  // Rows above it are the ancestors of what is zoomed.
  function zoomDepth(): number {
    let depth = 0;
    if (!source) return 0;
    for (let at = zoomed; source.parent(at) !== at; at = source.parent(at)) ++depth;
    return depth;
  }

  function queue(): void {
    if (queued === 0) queued = window.requestAnimationFrame(draw);
  }

  function at(event: MouseEvent): FlameBox | null {
    const box = canvas.getBoundingClientRect();
    const depth = Math.floor((event.clientY - box.top + root.scrollTop) / ROW);
    return index.at(depth, (event.clientX - box.left) / Math.max(1, box.width));
  }

  const zoomedBox = (): FlameBox | null =>
    boxes.find((box) => box.node === zoomed && box.filler === 0) ?? null;
  const pointer = treePointer({
    root,
    canvas,
    events,
    at,
    index: () => index,
    zoomed: () => zoomed,
    first: zoomedBox,
    home: () => boxes[0] ?? null,
    reveal(box) {
      const top = box.depth * ROW;
      if (top < root.scrollTop) root.scrollTop = top;
      else if (top + ROW > root.scrollTop + root.clientHeight) root.scrollTop = top + ROW - root.clientHeight;
      return true;
    },
    redraw: queue,
  });
  root.addEventListener("scroll", () => {
    pointer.hovered = null;
    queue();
  });

  const observer = new ResizeObserver(queue);
  observer.observe(root);
  return {
    root,
    show(nextSource, nextZoomed, nextLook) {
      const moved = nextZoomed !== zoomed;
      source = nextSource;
      zoomed = nextZoomed;
      look = nextLook;
      layout();
      // What was zoomed is at the top, with a few of its ancestors.
      if (moved) root.scrollTop = Math.max(0, (zoomDepth() - 3) * ROW);
      if (document.activeElement === root && !pointer.focused) pointer.focused = zoomedBox();
      queue();
    },
    focus: () => root.focus(),
    destroy() {
      observer.disconnect();
      window.cancelAnimationFrame(queued);
    },
  };
}
