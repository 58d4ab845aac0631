// SPDX-License-Identifier: BSD-3-Clause
// Above the map: when the regions with most time were entered, one lane each. A click selects a region.
import { blend, packed, shades } from "../charts/colour";
import { text } from "../charts/drawing";
import { clamp, type Span } from "../charts/numbers";
import { drawRaster, type Rect } from "../charts/raster";
import type { Pen } from "../charts/surface";
import { cssColour, rgb } from "../core/colours";
import { percent, printable } from "../core/format";
import type { Content, Lane } from "./content";
import type { Pointer } from "./pointer";
import { Strip } from "./strip";
import { kGutter, kMargin, plotRect, type View } from "./view";

const kLaneHeight = 17;

export class RegionStrip extends Strip {
  constructor(parent: HTMLElement, content: Content, view: View, pointer: Pointer) {
    const { lanes } = content;
    super(parent, content, view, pointer, {
      height: lanes.length * kLaneHeight + 6,
      label: `Regions over time: ${lanes.map((lane) => `${printable(lane.name)} ${percent(lane.share)}`).join(", ")}. Regions are chosen at the top of the page.`,
    });
  }

  laneAt(y: number): Lane | null {
    return this.content.lanes[Math.floor((y - 1) / kLaneHeight)] ?? null;
  }

  // The tip of the lane at `y`; `at_s`: the pointer's time, if it is on the time axis.
  tip(y: number, at_s: number | undefined): string {
    const lane = this.laneAt(y);
    if (!lane) return "";
    const { time } = this.content.model.header;
    const here =
      at_s === undefined
        ? ""
        : `, here ${percent(lane.values[clamp(Math.floor((at_s - time.begin_s) / time.bin_s), 0, time.bins - 1)], 0)} of all threads\u2019 time`;
    return `region ${printable(lane.name)}: ${percent(lane.share)} of all rank time${here}. A click selects it.`;
  }

  protected override draw(pen: Pen): void {
    const { colours } = this;
    const { time } = this.content.model.header;
    const [t0, t1] = this.view.time;
    const width = Math.max(10, pen.width - kGutter - kMargin);
    const shade = packed(
      shades(blend(rgb(colours.surface), rgb(cssColour("--kind-region")), 0.1), rgb(cssColour("--kind-region")), 64),
    );
    const column = (at: number) => (at - time.begin_s) / time.bin_s;
    const view: Span = [clamp(column(t0), 0, time.bins), clamp(column(t1), 0, time.bins)];
    const { region } = this.view.store.selection;
    this.content.lanes.forEach((lane, i) => {
      const top = i * kLaneHeight + 2;
      const full: Rect = { x: kGutter, y: top, width, height: kLaneHeight - 3 };
      pen.context.fillStyle = colours.empty;
      pen.context.fillRect(full.x, full.y, full.width, full.height);
      const left = this.view.x(time.begin_s + view[0] * time.bin_s, full);
      const rect = { ...full, x: left, width: this.view.x(time.begin_s + view[1] * time.bin_s, full) - left };
      if (view[1] > view[0])
        drawRaster(pen, rect, 1, time.bins, { columns: view, rows: [0, 1] }, (_row, _end, first, end) => {
          let share = 0;
          for (let bin = first; bin < end; ++bin) if (lane.values[bin] > share) share = lane.values[bin];
          return share > 0.005 ? shade[clamp(Math.round(share * 63), 0, 63)] : 0;
        });
      const chosen = region === lane.name;
      const own = lane.name.slice(lane.name.lastIndexOf("/") + 1);
      const indent = lane.depth * 9;
      text(pen, 9 + indent, top + 7, printable(own), {
        colour: chosen ? colours.accent : colours.text,
        font: colours.font,
        weight: chosen ? 600 : 400,
        most: kGutter - 18 - indent,
      });
      text(pen, kGutter + width + 8, top + 7, percent(lane.share), { colour: colours.muted, font: colours.font });
      if (chosen) {
        pen.context.fillStyle = colours.accent;
        pen.context.fillRect(0, top + 1, 3, 12);
      }
    });
  }

  protected override drawOver(pen: Pen): void {
    const rect = plotRect(pen.width, 1, this.content.lanes.length * kLaneHeight);
    this.drawTime(pen, rect);
  }
}
