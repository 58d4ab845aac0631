// SPDX-License-Identifier: BSD-3-Clause
// Above the map: the efficiencies of each part of the run.
import { line, text } from "../charts/drawing";
import { clamp } from "../charts/numbers";
import type { Pen } from "../charts/surface";
import { cssColour } from "../core/colours";
import { type Child, el } from "../core/dom";
import { percent, timeRange } from "../core/format";
import type { Content } from "./content";
import { stretches } from "./efficiency";
import type { Pointer } from "./pointer";
import { Strip } from "./strip";
import { kMargin, plotRect, type View } from "./view";

export class EfficiencyStrip extends Strip {
  constructor(parent: HTMLElement, content: Content, view: View, pointer: Pointer) {
    super(parent, content, view, pointer, { height: 64 });
    this.surface.setLabel(this.label());
  }

  // The efficiencies at a time, for the tip.
  tip(time: number): Child {
    const part = this.content.efficiencies.parts.find((one) => one.begin_s <= time && time < one.end_s);
    if (!part) return null;
    return el(
      "div",
      { class: "chart-tip" },
      el("b", null, timeRange([part.begin_s, part.end_s])),
      el(
        "dl",
        null,
        Object.entries(part.shares).map(([name, share]) => [el("dt", null, name), el("dd", null, percent(share))]),
      ),
    );
  }

  private label(): string {
    const { title, parts, curves } = this.content.efficiencies;
    const of = ({ shares }: (typeof parts)[number]) => shares[curves[0]];
    const known = parts.filter((part) => typeof of(part) === "number");
    if (known.length === 0) return `${title} over time.`;
    const [low, high] = [
      known.reduce((a, b) => ((of(b) ?? 0) < (of(a) ?? 0) ? b : a)),
      known.reduce((a, b) => ((of(b) ?? 0) > (of(a) ?? 0) ? b : a)),
    ];
    const at = (part: typeof low) => `${percent(of(part))}, at ${timeRange([part.begin_s, part.end_s])}`;
    return `${title} over time. ${curves[0] === "hybrid" ? "Hybrid" : "Parallel"} efficiency is lowest, ${at(low)}, and highest, ${at(high)}.`;
  }

  protected override draw(pen: Pen): void {
    const { context } = pen;
    const { colours } = this;
    const rect = plotRect(pen.width, 6, 52);
    text(pen, 0, rect.y + 7, "Efficiency", { colour: colours.text, font: colours.font, size: 12, weight: 500 });
    const y = (share: number) => rect.y + (1 - clamp(share, 0, 1)) * rect.height;
    for (const share of [0, 0.5, 1]) {
      line(pen, rect.x, y(share), rect.x + rect.width, y(share), colours.grid);
      text(pen, rect.x - 9, y(share) + (share === 1 ? 4 : share === 0 ? -4 : 0), percent(share, 0), {
        align: "right",
        colour: colours.muted,
        font: colours.font,
        size: 10,
      });
    }
    const { parts, curves } = this.content.efficiencies;
    const inks = [colours.text, cssColour("--cat-mpi"), cssColour("--cat-python")];
    context.save();
    context.beginPath();
    context.rect(rect.x, rect.y - 1, rect.width, rect.height + 2);
    context.clip();
    // The first one last, over the others.
    for (const [i, name] of [...curves.entries()].reverse()) {
      context.strokeStyle = inks[i];
      context.lineWidth = i === 0 ? 2 : 1.25;
      context.beginPath();
      for (const stretch of stretches(parts, name))
        stretch.forEach(({ begin_s, end_s, shares }, at) => {
          const height = y(shares[name] ?? 0);
          if (at === 0) context.moveTo(this.view.x(begin_s, rect), height);
          else context.lineTo(this.view.x(begin_s, rect), height);
          context.lineTo(this.view.x(end_s, rect), height);
        });
      context.stroke();
    }
    context.restore();
    curves.forEach((name, i) => {
      context.fillStyle = inks[i];
      context.fillRect(rect.x + rect.width + 8, rect.y + 7 + i * 17, 10, i === 0 ? 3 : 2);
      text(pen, rect.x + rect.width + 22, rect.y + 8 + i * 17, name, {
        colour: colours.muted,
        font: colours.font,
        most: kMargin - 24,
      });
    });
  }

  protected override drawOver(pen: Pen): void {
    const rect = plotRect(pen.width, 6, 52);
    this.drawTime(pen, rect);
  }
}
