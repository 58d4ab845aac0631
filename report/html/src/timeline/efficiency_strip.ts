// SPDX-License-Identifier: BSD-3-Clause
// Above the map: the efficiencies of each window of time.
import { line, text } from "../charts/drawing";
import { clamp } from "../charts/numbers";
import type { Pen } from "../charts/surface";
import { cssColour } from "../core/colours";
import { type Child, el } from "../core/dom";
import { percent, timeRange } from "../core/format";
import type { EfficiencyWindow } from "../core/report";
import type { Content } from "./content";
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
    const window = this.content.windows.find((one) => one.begin_s <= time && time < one.end_s);
    if (!window) return null;
    const shares = [
      ["parallel", window.parallel],
      ["load balance", window.load_balance],
      ["communication", window.communication],
    ] as const;
    return el(
      "div",
      { class: "chart-tip" },
      el("b", null, timeRange([window.begin_s, window.end_s])),
      el(
        "dl",
        null,
        shares.map(([name, share]) => [el("dt", null, name), el("dd", null, percent(share))]),
      ),
    );
  }

  private label(): string {
    const lows = [...this.content.windows].sort((a, b) => a.parallel - b.parallel);
    return `Efficiencies over time. Parallel efficiency is lowest, ${percent(lows[0].parallel)}, at ${timeRange([lows[0].begin_s, lows[0].end_s])}, and highest, ${percent(lows[lows.length - 1].parallel)}, at ${timeRange([lows[lows.length - 1].begin_s, lows[lows.length - 1].end_s])}.`;
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
    const curves: [string, string, number[], (window: EfficiencyWindow) => number | null | undefined][] = [
      ["load balance", cssColour("--cat-python"), [], (window) => window.load_balance],
      ["communication", cssColour("--cat-mpi"), [], (window) => window.communication],
      ["parallel", colours.text, [], (window) => window.parallel],
    ];
    context.save();
    context.beginPath();
    context.rect(rect.x, rect.y - 1, rect.width, rect.height + 2);
    context.clip();
    for (const [name, colour, , value] of curves) {
      context.strokeStyle = colour;
      context.lineWidth = name === "parallel" ? 2 : 1.25;
      context.beginPath();
      let open = false;
      for (const window of this.content.windows) {
        const share = value(window);
        if (share === null || share === undefined) {
          open = false;
          continue;
        }
        const a = this.view.x(window.begin_s, rect);
        if (open) context.lineTo(a, y(share));
        else context.moveTo(a, y(share));
        context.lineTo(this.view.x(window.end_s, rect), y(share));
        open = true;
      }
      context.stroke();
    }
    context.restore();
    curves.reverse().forEach(([name, colour], i) => {
      context.fillStyle = colour;
      context.fillRect(rect.x + rect.width + 8, rect.y + 7 + i * 17, 10, name === "parallel" ? 3 : 2);
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
