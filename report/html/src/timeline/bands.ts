// SPDX-License-Identifier: BSD-3-Clause
// Below the map: for each series the least, mean and largest value over the ranks, by time.
import { withAlpha } from "../charts/colour";
import { drawTimeAxis, line, text } from "../charts/drawing";
import { clamp, niceCeiling } from "../charts/numbers";
import type { Rect } from "../charts/raster";
import type { Pen } from "../charts/surface";
import { canvasCategory, cssColour, rgb } from "../core/colours";
import { seriesValue } from "../core/format";
import type { Content } from "./content";
import type { Pointer } from "./pointer";
import { limitText, type Series } from "./series";
import { Strip } from "./strip";
import { kGutter, kMargin, plotRect, type View } from "./view";

const kBandHeight = 46;

export class Bands extends Strip {
  constructor(parent: HTMLElement, content: Content, view: View, pointer: Pointer) {
    const { series } = content;
    super(parent, content, view, pointer, {
      height: series.length * kBandHeight + 22,
      label: `Least, mean and largest value over ranks by time of ${series.map((one) => one.title).join(", ")}.`,
    });
  }

  private bandColour(series: Series): string {
    if (!series.category) return this.colours.accent;
    return series.category === "idle" ? cssColour("--text-3") : canvasCategory(series.category);
  }

  protected override draw(pen: Pen): void {
    const [t0, t1] = this.view.time;
    const { begin_s, bin_s, bins } = this.content.axis;
    const first = clamp(Math.floor((t0 - begin_s) / bin_s), 0, bins - 1);
    const last = clamp(Math.ceil((t1 - begin_s) / bin_s), first + 1, bins);
    const from = Math.max(0, first - 1);
    const to = Math.min(bins, last + 1);
    this.content.series.forEach((series, i) => this.drawBand(pen, series, i, from, to));
    drawTimeAxis(
      pen,
      plotRect(pen.width, 0, this.content.series.length * kBandHeight - 2),
      this.view.time,
      this.colours,
    );
  }

  // The band of one series, in the bins from `from` to before `to`.
  private drawBand(pen: Pen, series: Series, i: number, from: number, to: number): void {
    const { context } = pen;
    const { begin_s, bin_s, bins } = this.content.axis;
    const rect = plotRect(pen.width, i * kBandHeight + 7, kBandHeight - 9);
    const band = this.content.bands[i];
    let high = 0;
    for (let b = 0; b < bins; ++b) if (band.max[b] > high) high = band.max[b];
    const limit =
      series.unit === "share" && high * series.scale > 0.4
        ? Math.max(1, niceCeiling(high * series.scale))
        : niceCeiling(high * series.scale);
    const bottom = rect.y + rect.height;
    // Of the first and the last bin only a part lies in the run.
    const y = (value: number, b: number) =>
      bottom -
      clamp((value * series.scale) / (limit * (series.category || series.unit === "bytes" ? 1 : this.content.covered(b))), 0, 1) *
        rect.height;
    const x = (bin: number) => this.view.x(begin_s + (bin + 0.5) * bin_s, rect);
    line(pen, rect.x, bottom, rect.x + rect.width, bottom, this.colours.grid);
    context.save();
    context.beginPath();
    context.rect(rect.x, rect.y - 2, rect.width, rect.height + 3);
    context.clip();
    const colour = this.bandColour(series);
    context.fillStyle = withAlpha(rgb(colour), 0.24);
    context.beginPath();
    for (let b = from; b < to; ++b) context.lineTo(x(b), y(band.max[b] || 0, b));
    for (let b = to - 1; b >= from; --b) context.lineTo(x(b), y(band.min[b] || 0, b));
    context.fill();
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.beginPath();
    for (let b = from; b < to; ++b) context.lineTo(x(b), y(band.mean[b] || 0, b));
    context.stroke();
    context.restore();
    context.fillStyle = colour;
    context.fillRect(0, rect.y + 3, 3, 12);
    text(pen, 9, rect.y + 9, series.title, {
      colour: this.colours.text,
      font: this.colours.font,
      size: 12,
      weight: 500,
      most: kGutter - 14,
    });
    text(pen, 9, rect.y + 24, `to ${limitText(limit, series.unit)}`, {
      colour: this.colours.muted,
      font: this.colours.font,
      most: kGutter - 14,
    });
  }

  protected override drawOver(pen: Pen): void {
    const rect = plotRect(pen.width, 0, this.content.series.length * kBandHeight);
    this.drawTime(pen, rect);
    this.drawValues(pen, rect);
  }

  // On the right: the values at the pointer, or of the selected time.
  private drawValues(pen: Pen, rect: Rect): void {
    const bin = this.pointer.cursor?.bin ?? (this.pointer.hover ? this.content.binAt(this.pointer.hover.time) : null);
    this.content.series.forEach((series, i) => {
      const band = this.content.bands[i];
      let value = 0;
      let spread = "";
      if (bin !== null) {
        value = band.mean[bin] * series.scale;
        spread = `${seriesValue(band.min[bin] * series.scale, series.unit)} to ${seriesValue(band.max[bin] * series.scale, series.unit)}`;
      } else {
        value = this.content.meanOf(series);
      }
      const y = i * kBandHeight + 16;
      const left = rect.x + rect.width + 8;
      text(pen, left, y, seriesValue(value, series.unit), {
        colour: this.colours.text,
        font: this.colours.font,
        size: 12,
        weight: 600,
      });
      text(pen, left, y + 15, bin !== null ? spread : series.unit === "bytes" ? "highest mean" : series.category ? "of the time" : "mean", {
        colour: this.colours.muted,
        font: this.colours.font,
        size: 10,
        most: kMargin - 8,
      });
    });
  }
}
