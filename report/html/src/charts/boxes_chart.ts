// SPDX-License-Identifier: BSD-3-Clause
// A box per group, one below the other. A click selects the group.
import { rgb } from "../core/colours";
import { hideTip, showTip } from "../core/dom";
import { withAlpha } from "./colour";
import { Distribution, type Points } from "./distribution";
import { type Ink, line, text } from "./drawing";
import { type Box, boxOf, clamp, multiples, niceStep } from "./numbers";
import type { Rect } from "./raster";
import type { Pen } from "./surface";

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

export class BoxesChart extends Distribution {
  private readonly most: number; // boxes that there is room for
  private readonly rowHeight: number;
  private shown: ReturnType<typeof extremeBoxes> = { boxes: [], cut: null, left: 0 };

  constructor(
    parent: HTMLElement,
    points: Points,
    private readonly groups: readonly Group[],
    height = 220,
  ) {
    super(parent, points, height);
    this.most = Math.max(2, Math.floor((height - 34) / 16));
    this.rowHeight = clamp((height - 34) / Math.max(1, Math.min(this.most, groups.length)), 16, 28);
    this.arrange();
    this.surface.setLabel(this.label());
    this.listen();
  }

  protected arrange(): void {
    const room = this.groups.length > this.most ? this.most - 1 : this.most;
    this.shown = extremeBoxes(this.points, this.groups, Math.max(2, room));
  }

  private rectOf(width: number): Rect {
    return { x: 96, y: 8, width: Math.max(10, width - 96 - 14), height: this.height - 32 };
  }

  private top(place: number): number {
    const { cut } = this.shown;
    return 8 + (place + (cut !== null && place >= cut ? 1 : 0)) * this.rowHeight;
  }

  private span(): [number, number] {
    let low = Infinity;
    let high = -Infinity;
    for (const { box } of this.shown.boxes) {
      low = Math.min(low, box.low);
      high = Math.max(high, box.high);
    }
    if (!(high > low)) return [Math.min(0, low), high > 0 ? high * 1.1 : 1];
    const room = (high - low) * 0.04;
    return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
  }

  protected override draw(pen: Pen): void {
    const { shown, points, colours } = this;
    if (shown.boxes.length === 0) return;
    const rect = this.rectOf(pen.width);
    const [from, to] = this.span();
    valueAxis(pen, rect, from, to, points.format, colours);
    const x = (value: number) => rect.x + ((value - from) / (to - from)) * rect.width;
    shown.boxes.forEach((box, place) => this.drawBox(pen, rect, x, box, place));
    if (shown.cut !== null)
      text(pen, rect.x - 8, 8 + shown.cut * this.rowHeight + this.rowHeight / 2, `${shown.left} more`, {
        align: "right",
        colour: colours.faint,
        font: colours.font,
        size: 10,
      });
  }

  private drawBox(pen: Pen, rect: Rect, x: (value: number) => number, { group, box }: GroupBox, place: number): void {
    const { points, colours } = this;
    const { context } = pen;
    const middle = this.top(place) + this.rowHeight / 2;
    text(pen, rect.x - 8, middle, group.name, {
      align: "right",
      colour: this.hovered === place ? colours.text : colours.muted,
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
  }

  private placeAt(y: number): number | null {
    for (let place = 0; place < this.shown.boxes.length; ++place)
      if (y >= this.top(place) && y < this.top(place) + this.rowHeight) return place;
    return null;
  }

  private describe({ group, box }: GroupBox): string {
    const { points } = this;
    return `${group.name}: median ${points.format(box.median)}, middle half ${points.format(box.q1)} to ${points.format(box.q3)}, ${points.format(box.low)} to ${points.format(box.high)}${
      box.outliers.length
        ? `; outliers ${box.outliers
            .slice(0, 4)
            .map((index) => points.name(index))
            .join(", ")}${box.outliers.length > 4 ? ", …" : ""}`
        : ""
    }`;
  }

  protected label(): string {
    const { boxes } = this.shown;
    if (boxes.length === 0) return "No values.";
    const first = boxes.slice(0, 2).map((box) => this.describe(box));
    return `Box plots, ${boxes.length} of ${this.groups.length}. ${first.join(". ")}.`;
  }

  private listen(): void {
    const { root } = this.surface;
    root.classList.add("chart-pick");
    root.addEventListener("pointermove", (event) => {
      const place = this.placeAt(this.surface.at(event)[1]);
      if (place !== this.hovered) this.surface.redraw();
      this.hovered = place;
      if (place === null) hideTip();
      else showTip(this.describe(this.shown.boxes[place]), event.clientX, event.clientY);
    });
    root.addEventListener("pointerleave", () => {
      this.hovered = null;
      hideTip();
      this.surface.redraw();
    });
    root.addEventListener("click", (event) => {
      const place = this.placeAt(this.surface.at(event)[1]);
      if (place !== null) this.shown.boxes[place].group.pick();
    });
    root.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      const { boxes } = this.shown;
      if (boxes.length === 0) return;
      if (step) {
        this.hovered = clamp((this.hovered ?? -1) + step, 0, boxes.length - 1);
        const box = root.getBoundingClientRect();
        showTip(this.describe(boxes[this.hovered]), box.left + 96, box.top + this.top(this.hovered));
      } else if (event.key === "Enter" && this.hovered !== null) boxes[this.hovered].group.pick();
      else return;
      event.preventDefault();
      this.surface.redraw();
    });
  }
}
