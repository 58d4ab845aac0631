// SPDX-License-Identifier: BSD-3-Clause
// How a value is spread over ranks: sorted, as a histogram, as boxes by node.
import { hideTip, showTip } from "../core/dom";
import { count, plural } from "../core/format";
import { withAlpha } from "./colour";
import { type Ink, ink, line, text } from "./drawing";
import { rgb } from "../core/colours";
import {
  ascending,
  type Box,
  boxOf,
  clamp,
  histogram,
  multiples,
  niceCeiling,
  niceStep,
  type Numbers,
  thinned,
} from "./numbers";
import type { Rect } from "./raster";
import { type Pen, Surface } from "./surface";

export interface Points {
  values: Numbers; // NaN: not measured
  weights: Numbers | null; // ranks that a point stands for; null: each is one
  name(index: number): string;
  chosen: ((index: number) => boolean) | null; // null: all
  format(value: number): string;
  pick(indices: number[]): void;
}

export interface Distribution {
  surface: Surface;
  update(points: Points): void;
}

const weightOf = (points: Points, index: number): number => (points.weights ? points.weights[index] : 1);

function valueAxis(
  pen: Pen,
  rect: Rect,
  from: number,
  to: number,
  format: (value: number) => string,
  colours: Ink,
): void {
  const step = niceStep(to - from, Math.max(2, rect.width / 80));
  for (const value of multiples(from, to, step)) {
    const x = rect.x + ((value - from) / (to - from)) * rect.width;
    line(pen, x, rect.y, x, rect.y + rect.height, colours.grid);
    text(pen, x, rect.y + rect.height + 11, format(value), {
      align: x > rect.x + rect.width - 16 ? "right" : x < rect.x + 12 ? "left" : "center",
      colour: colours.muted,
      font: colours.font,
    });
  }
}

// Values by ascending rank of the value; the largest are named. Dragging selects a stretch of it.
export function sortedCurve(parent: HTMLElement, first: Points, height = 220): Distribution {
  let points = first;
  let order = ascending(points.values);
  let upTo = sumsOf();
  let drag: { from: number; to: number } | null = null;
  let hovered: number | null = null; // place in order

  function sumsOf(): Float64Array {
    const sums = new Float64Array(order.length + 1);
    for (let i = 0; i < order.length; ++i) sums[i + 1] = sums[i] + weightOf(points, order[i]);
    return sums;
  }
  const rectOf = (width: number): Rect => ({
    x: 54,
    y: 10,
    width: Math.max(10, width - 54 - 104),
    height: height - 34,
  });
  const placeAt = (x: number): number => {
    const rect = rectOf(surface.width);
    const at = clamp((x - rect.x) / rect.width, 0, 1) * upTo[order.length];
    let low = 0;
    let high = order.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (upTo[middle + 1] > at) high = middle;
      else low = middle + 1;
    }
    return low;
  };

  function draw(pen: Pen): void {
    const colours = ink();
    const rect = rectOf(pen.width);
    const { context } = pen;
    if (order.length === 0) return;
    const total = upTo[order.length];
    let sum = 0;
    for (let i = 0; i < order.length; ++i) sum += points.values[order[i]] * weightOf(points, order[i]);
    const mean = sum / total;
    const limit = niceCeiling(points.values[order[order.length - 1]]);
    const y = (value: number) => rect.y + (1 - value / limit) * rect.height;
    const x = (ranks: number) => rect.x + (ranks / total) * rect.width;
    for (const value of multiples(0, limit, niceStep(limit, 4))) {
      line(pen, rect.x, y(value), rect.x + rect.width, y(value), colours.grid);
      text(pen, rect.x - 8, y(value), points.format(value), {
        align: "right",
        colour: colours.muted,
        font: colours.font,
      });
    }
    // The area, as steps where points are few.
    context.beginPath();
    context.moveTo(rect.x, y(0));
    const few = order.length <= 400;
    for (const i of thinned(order.length, 800, (k) => points.values[order[k]])) {
      const top = y(points.values[order[i]]);
      if (few) context.lineTo(x(upTo[i]), top);
      context.lineTo(x(upTo[i + 1]), top);
    }
    context.lineTo(rect.x + rect.width, y(0));
    context.closePath();
    context.fillStyle = withAlpha(rgb(colours.accent), points.chosen ? 0.12 : 0.22);
    context.fill();
    if (points.chosen) {
      context.fillStyle = withAlpha(rgb(colours.accent), 0.55);
      for (let i = 0; i < order.length; ++i) {
        if (!points.chosen(order[i])) continue;
        const top = y(points.values[order[i]]);
        context.fillRect(x(upTo[i]), top, Math.max(1, x(upTo[i + 1]) - x(upTo[i])), y(0) - top);
      }
    }
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    for (const i of thinned(order.length, 800, (k) => points.values[order[k]])) {
      const top = y(points.values[order[i]]);
      if (few) context.lineTo(x(upTo[i]), top);
      context.lineTo(x(upTo[i + 1]), top);
    }
    context.stroke();
    context.setLineDash([4, 3]);
    line(pen, rect.x, y(mean), rect.x + rect.width, y(mean), colours.muted);
    context.setLineDash([]);
    text(pen, rect.x + 4, y(mean) + (y(mean) < rect.y + 16 ? 9 : -8), `mean ${points.format(mean)}`, {
      colour: colours.muted,
      font: colours.font,
    });
    // The slowest by name, one below the other.
    let last = -Infinity;
    for (let i = order.length - 1; i >= Math.max(0, order.length - 5); --i) {
      const top = y(points.values[order[i]]);
      const at = Math.max(top, last + 13);
      if (at > rect.y + rect.height) break;
      last = at;
      const right = rect.x + rect.width;
      line(pen, x((upTo[i] + upTo[i + 1]) / 2), top, right + 4, at, withAlpha(rgb(colours.muted), 0.4));
      text(pen, right + 7, at, points.name(order[i]), {
        colour: i === order.length - 1 ? colours.text : colours.muted,
        font: colours.font,
        weight: i === order.length - 1 ? 600 : 400,
        most: 96,
      });
    }
    text(pen, rect.x, rect.y + rect.height + 12, "fastest", { colour: colours.muted, font: colours.font });
    text(pen, rect.x + rect.width, rect.y + rect.height + 12, "slowest", {
      align: "right",
      colour: colours.muted,
      font: colours.font,
    });
    text(pen, rect.x + rect.width / 2, rect.y + rect.height + 12, plural(total, "rank"), {
      align: "center",
      colour: colours.muted,
      font: colours.font,
    });
  }
  function drawOver(pen: Pen): void {
    const rect = rectOf(pen.width);
    if (order.length === 0) return;
    const x = (ranks: number) => rect.x + (ranks / upTo[order.length]) * rect.width;
    const colours = ink();
    if (drag) {
      const [a, b] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
      pen.context.fillStyle = withAlpha(rgb(colours.accent), 0.2);
      pen.context.fillRect(x(upTo[a]), rect.y, x(upTo[b + 1]) - x(upTo[a]), rect.height);
    } else if (hovered !== null)
      line(
        pen,
        x((upTo[hovered] + upTo[hovered + 1]) / 2),
        rect.y,
        x((upTo[hovered] + upTo[hovered + 1]) / 2),
        rect.y + rect.height,
        colours.muted,
      );
  }
  const label = () => {
    if (order.length === 0) return "No values.";
    const slowest = Array.from({ length: Math.min(3, order.length) }, (_, i) => order[order.length - 1 - i]);
    return `Values of ${plural(upTo[order.length], "rank")} in ascending order, from ${points.format(points.values[order[0]])} to ${points.format(points.values[slowest[0]])}. Largest: ${slowest.map((i) => `${points.name(i)} ${points.format(points.values[i])}`).join(", ")}.`;
  };
  const surface = new Surface(parent, { height, draw, drawOver, label: label(), interactive: true });
  surface.root.classList.add("chart-brush");
  const say = (place: number, clientX: number, clientY: number) => {
    const index = order[place];
    showTip(
      `${points.name(index)}: ${points.format(points.values[index])}, ${place + 1 === order.length ? "the slowest" : `slower than ${count(upTo[place])} of ${count(upTo[order.length])}`}`,
      clientX,
      clientY,
    );
  };
  const { root } = surface;
  root.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || order.length === 0) return;
    root.setPointerCapture(event.pointerId);
    const place = placeAt(surface.at(event)[0]);
    drag = { from: place, to: place };
    hideTip();
    surface.redrawOver();
  });
  root.addEventListener("pointermove", (event) => {
    if (order.length === 0) return;
    const place = placeAt(surface.at(event)[0]);
    hovered = place;
    if (drag) drag.to = place;
    else say(place, event.clientX, event.clientY);
    surface.redrawOver();
  });
  const pickRange = (a: number, b: number) => points.pick(Array.from(order.slice(Math.min(a, b), Math.max(a, b) + 1)));
  root.addEventListener("pointerup", () => {
    if (!drag) return;
    const { from, to } = drag;
    drag = null;
    pickRange(from, to);
    surface.redrawOver();
  });
  root.addEventListener("pointerleave", () => {
    hovered = null;
    hideTip();
    surface.redrawOver();
  });
  let anchor = -1;
  root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (order.length === 0) return;
    if (step !== undefined) {
      const from = hovered ?? order.length - 1;
      const next = clamp(from + step, 0, order.length - 1);
      if (event.shiftKey && anchor < 0) anchor = from;
      hovered = next;
      if (event.shiftKey) pickRange(anchor, next);
      else anchor = -1;
      const box = root.getBoundingClientRect();
      const rect = rectOf(surface.width);
      say(next, box.left + rect.x + (upTo[next] / upTo[order.length]) * rect.width, box.top + rect.y);
    } else if (event.key === "Enter" && hovered !== null) pickRange(hovered, hovered);
    else return;
    event.preventDefault();
    surface.redrawOver();
  });
  return {
    surface,
    update(next) {
      points = next;
      order = ascending(points.values);
      upTo = sumsOf();
      hovered = null;
      surface.setLabel(label());
      surface.redraw();
    },
  };
}

// How many ranks have which value. A click on a bar, or a drag over several, selects their ranks.
export function histogramChart(parent: HTMLElement, first: Points, height = 220): Distribution {
  let points = first;
  let bins = histogram(points.values, 28, points.weights ?? undefined);
  let drag: { from: number; to: number } | null = null;
  let hovered: number | null = null;
  const rectOf = (width: number): Rect => ({ x: 40, y: 10, width: Math.max(10, width - 48), height: height - 34 });
  const rangeOf = (bin: number): [number, number] => [
    bins!.from + bin * bins!.width,
    bins!.from + (bin + 1) * bins!.width,
  ];
  const binOf = (value: number): number =>
    bins!.width === 0 ? 0 : clamp(Math.floor((value - bins!.from) / bins!.width + 1e-9), 0, bins!.counts.length - 1);
  const binAt = (x: number): number => {
    const rect = rectOf(surface.width);
    return clamp(Math.floor(((x - rect.x) / rect.width) * bins!.counts.length), 0, bins!.counts.length - 1);
  };
  function draw(pen: Pen): void {
    if (!bins) return;
    const colours = ink();
    const rect = rectOf(pen.width);
    const limit = niceCeiling(Math.max(...bins.counts));
    const width = rect.width / bins.counts.length;
    const y = (ranks: number) => rect.y + (1 - ranks / limit) * rect.height;
    for (const ranks of multiples(0, limit, Math.max(1, niceStep(limit, 4)))) {
      line(pen, rect.x, y(ranks), rect.x + rect.width, y(ranks), colours.grid);
      text(pen, rect.x - 7, y(ranks), count(ranks), { align: "right", colour: colours.muted, font: colours.font });
    }
    const chosen = new Float64Array(bins.counts.length);
    if (points.chosen)
      for (let i = 0; i < points.values.length; ++i)
        if (!Number.isNaN(points.values[i]) && points.chosen(i)) chosen[binOf(points.values[i])] += weightOf(points, i);
    bins.counts.forEach((ranks, bin) => {
      const x = rect.x + bin * width;
      pen.context.fillStyle = withAlpha(rgb(colours.accent), points.chosen ? 0.25 : 0.7);
      pen.context.fillRect(
        x + 0.5,
        Math.min(y(ranks), ranks > 0 ? y(0) - 1.5 : y(0)),
        Math.max(1, width - 1),
        Math.max(ranks > 0 ? 1.5 : 0, y(0) - y(ranks)),
      );
      if (chosen[bin] > 0) {
        pen.context.fillStyle = colours.accent;
        pen.context.fillRect(
          x + 0.5,
          Math.min(y(chosen[bin]), y(0) - 2),
          Math.max(1, width - 1),
          Math.max(2, y(0) - y(chosen[bin])),
        );
      }
    });
    if (bins.width > 0) {
      const end = bins.from + bins.width * bins.counts.length;
      const step = niceStep(end - bins.from, Math.max(2, rect.width / 80));
      for (const value of multiples(bins.from, end, step)) {
        const x = rect.x + ((value - bins.from) / (end - bins.from)) * rect.width;
        text(pen, x, rect.y + rect.height + 12, points.format(value), {
          align: x > rect.x + rect.width - 16 ? "right" : x < rect.x + 12 ? "left" : "center",
          colour: colours.muted,
          font: colours.font,
        });
      }
    } else
      text(pen, rect.x + rect.width / 2, rect.y + rect.height + 12, `all ${points.format(bins.from)}`, {
        align: "center",
        colour: colours.muted,
        font: colours.font,
      });
  }
  function drawOver(pen: Pen): void {
    if (!bins) return;
    const rect = rectOf(pen.width);
    const width = rect.width / bins.counts.length;
    const [a, b] = drag
      ? [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)]
      : hovered !== null
        ? [hovered, hovered]
        : [0, -1];
    if (b < a) return;
    pen.context.fillStyle = withAlpha(rgb(ink().accent), 0.14);
    pen.context.fillRect(rect.x + a * width, rect.y, (b - a + 1) * width, rect.height);
  }
  const label = () => {
    if (!bins) return "No values.";
    let most = 0;
    bins.counts.forEach((ranks, bin) => {
      if (ranks > bins!.counts[most]) most = bin;
    });
    const [from, to] = rangeOf(most);
    return `Histogram of the values of ranks: ${plural(
      bins.counts.reduce((a, b) => a + b, 0),
      "rank",
    )}; most, ${bins.counts[most]}, have ${points.format(from)} to ${points.format(to)}.`;
  };
  const surface = new Surface(parent, { height, draw, drawOver, label: label(), interactive: true });
  const { root } = surface;
  root.classList.add("chart-brush");
  const pick = (a: number, b: number) => {
    const [from, to] = [Math.min(a, b), Math.max(a, b)];
    const indices: number[] = [];
    for (let i = 0; i < points.values.length; ++i) {
      if (Number.isNaN(points.values[i])) continue;
      const bin = binOf(points.values[i]);
      if (bin >= from && bin <= to) indices.push(i);
    }
    if (indices.length > 0) points.pick(indices);
  };
  const say = (bin: number, x: number, y: number) => {
    const [from, to] = rangeOf(bin);
    showTip(`${plural(bins!.counts[bin], "rank")} with ${points.format(from)} to ${points.format(to)}`, x, y);
  };
  root.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !bins) return;
    root.setPointerCapture(event.pointerId);
    const bin = binAt(surface.at(event)[0]);
    drag = { from: bin, to: bin };
    hideTip();
    surface.redrawOver();
  });
  root.addEventListener("pointermove", (event) => {
    if (!bins) return;
    hovered = binAt(surface.at(event)[0]);
    if (drag) drag.to = hovered;
    else say(hovered, event.clientX, event.clientY);
    surface.redrawOver();
  });
  root.addEventListener("pointerup", () => {
    if (!drag) return;
    const { from, to } = drag;
    drag = null;
    pick(from, to);
    surface.redrawOver();
  });
  root.addEventListener("pointerleave", () => {
    hovered = null;
    hideTip();
    surface.redrawOver();
  });
  root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!bins) return;
    if (step) {
      hovered = clamp((hovered ?? -1) + step, 0, bins.counts.length - 1);
      const box = root.getBoundingClientRect();
      const rect = rectOf(surface.width);
      say(hovered, box.left + rect.x + (hovered / bins.counts.length) * rect.width, box.top + rect.y);
    } else if (event.key === "Enter" && hovered !== null) pick(hovered, hovered);
    else return;
    event.preventDefault();
    surface.redrawOver();
  });
  return {
    surface,
    update(next) {
      points = next;
      bins = histogram(points.values, 28, points.weights ?? undefined);
      hovered = null;
      surface.setLabel(label());
      surface.redraw();
    },
  };
}

export interface Group {
  name: string;
  indices: number[]; // of points
  pick(): void;
}

export interface GroupBox {
  group: Group;
  box: Box;
}

// Boxes of all groups, or of many those with the largest and the smallest medians: largest first. `cut`: how many
// come before those that are left out.
export function extremeBoxes(
  points: Pick<Points, "values" | "weights">,
  groups: readonly Group[],
  most: number,
): { boxes: GroupBox[]; cut: number | null; left: number } {
  const all: GroupBox[] = [];
  for (const group of groups) {
    const box = boxOf(points.values, points.weights ?? undefined, group.indices);
    if (box) all.push({ group, box });
  }
  all.sort((a, b) => b.box.median - a.box.median || b.box.high - a.box.high);
  if (all.length <= most) return { boxes: all, cut: null, left: 0 };
  const head = Math.ceil(most / 2);
  const tail = most - head;
  return { boxes: [...all.slice(0, head), ...all.slice(all.length - tail)], cut: head, left: all.length - most };
}

// A box per group, one below the other. A click selects the group.
export function boxesChart(parent: HTMLElement, first: Points, groups: readonly Group[], height = 220): Distribution {
  let points = first;
  const most = Math.max(2, Math.floor((height - 34) / 16));
  const rowHeight = clamp((height - 34) / Math.max(1, Math.min(most, groups.length)), 16, 28);
  let shown = extremeBoxes(points, groups, Math.max(2, groups.length > most ? most - 1 : most));
  let hovered: number | null = null;
  const rectOf = (width: number): Rect => ({ x: 96, y: 8, width: Math.max(10, width - 96 - 14), height: height - 32 });
  const top = (place: number) => 8 + (place + (shown.cut !== null && place >= shown.cut ? 1 : 0)) * rowHeight;
  const span = (): [number, number] => {
    let low = Infinity;
    let high = -Infinity;
    for (const { box } of shown.boxes) {
      low = Math.min(low, box.low);
      high = Math.max(high, box.high);
    }
    if (!(high > low)) return [Math.min(0, low), high > 0 ? high * 1.1 : 1];
    const room = (high - low) * 0.04;
    return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
  };
  function draw(pen: Pen): void {
    if (shown.boxes.length === 0) return;
    const colours = ink();
    const rect = rectOf(pen.width);
    const [from, to] = span();
    const x = (value: number) => rect.x + ((value - from) / (to - from)) * rect.width;
    const { context } = pen;
    valueAxis(pen, rect, from, to, points.format, colours);
    shown.boxes.forEach(({ group, box }, place) => {
      const middle = top(place) + rowHeight / 2;
      text(pen, rect.x - 8, middle, group.name, {
        align: "right",
        colour: hovered === place ? colours.text : colours.muted,
        font: colours.font,
        most: rect.x - 10,
      });
      line(pen, x(box.lowWhisker), middle, x(box.q1), middle, colours.accent);
      line(pen, x(box.q3), middle, x(box.highWhisker), middle, colours.accent);
      const chosen = !points.chosen || group.indices.some((index) => points.chosen!(index));
      context.fillStyle = withAlpha(rgb(colours.accent), chosen ? 0.32 : 0.1);
      context.fillRect(x(box.q1), middle - 5, Math.max(1, x(box.q3) - x(box.q1)), 10);
      context.strokeStyle = colours.accent;
      context.lineWidth = 1;
      context.strokeRect(x(box.q1), middle - 5, Math.max(1, x(box.q3) - x(box.q1)), 10);
      context.fillStyle = colours.accent;
      context.fillRect(x(box.median) - 1, middle - 5, 2, 10);
      for (const index of box.outliers.slice(0, 40)) {
        context.beginPath();
        context.arc(x(points.values[index]), middle, 2.2, 0, 2 * Math.PI);
        context.strokeStyle = colours.text;
        context.stroke();
      }
    });
    if (shown.cut !== null)
      text(pen, rect.x - 8, 8 + shown.cut * rowHeight + rowHeight / 2, `${shown.left} more`, {
        align: "right",
        colour: colours.faint,
        font: colours.font,
        size: 10,
      });
  }
  const placeAt = (y: number): number | null => {
    for (let place = 0; place < shown.boxes.length; ++place)
      if (y >= top(place) && y < top(place) + rowHeight) return place;
    return null;
  };
  const describe = ({ group, box }: GroupBox) =>
    `${group.name}: median ${points.format(box.median)}, middle half ${points.format(box.q1)} to ${points.format(box.q3)}, ${points.format(box.low)} to ${points.format(box.high)}${
      box.outliers.length
        ? `; outliers ${box.outliers
            .slice(0, 4)
            .map((index) => points.name(index))
            .join(", ")}${box.outliers.length > 4 ? ", …" : ""}`
        : ""
    }`;
  const label = () =>
    shown.boxes.length === 0
      ? "No values."
      : `Box plots, ${shown.boxes.length} of ${groups.length}. ${shown.boxes.slice(0, 2).map(describe).join(". ")}.`;
  const surface = new Surface(parent, { height, draw, label: label(), interactive: true });
  const { root } = surface;
  root.classList.add("chart-pick");
  root.addEventListener("pointermove", (event) => {
    const place = placeAt(surface.at(event)[1]);
    if (place !== hovered) surface.redraw();
    hovered = place;
    if (place === null) hideTip();
    else showTip(describe(shown.boxes[place]), event.clientX, event.clientY);
  });
  root.addEventListener("pointerleave", () => {
    hovered = null;
    hideTip();
    surface.redraw();
  });
  root.addEventListener("click", (event) => {
    const place = placeAt(surface.at(event)[1]);
    if (place !== null) shown.boxes[place].group.pick();
  });
  root.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (shown.boxes.length === 0) return;
    if (step) {
      hovered = clamp((hovered ?? -1) + step, 0, shown.boxes.length - 1);
      const box = root.getBoundingClientRect();
      showTip(describe(shown.boxes[hovered]), box.left + 96, box.top + top(hovered));
    } else if (event.key === "Enter" && hovered !== null) shown.boxes[hovered].group.pick();
    else return;
    event.preventDefault();
    surface.redraw();
  });
  return {
    surface,
    update(next) {
      points = next;
      shown = extremeBoxes(points, groups, Math.max(2, groups.length > most ? most - 1 : most));
      surface.setLabel(label());
      surface.redraw();
    },
  };
}
