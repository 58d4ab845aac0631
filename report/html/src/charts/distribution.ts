// SPDX-License-Identifier: BSD-3-Clause
// How a value is spread over ranks: what the sorted curve, the histogram and the boxes have in common.
import { hideTip } from "../core/dom";
import { CanvasChart } from "./canvas_chart";
import type { Numbers } from "./numbers";

export interface Points {
  values: Numbers; // NaN: not measured
  weights: Numbers | null; // ranks that a point stands for; null: each is one
  name(index: number): string;
  chosen: ((index: number) => boolean) | null; // null: all
  format(value: number): string;
  pick(indices: number[]): void;
}

export abstract class Distribution extends CanvasChart {
  protected hovered: number | null = null; // a place on the chart: a point, a bar or a box

  constructor(
    parent: HTMLElement,
    protected points: Points,
    protected readonly height: number,
  ) {
    super(parent, { height, interactive: true });
  }

  update(points: Points): void {
    this.points = points;
    this.arrange();
    this.surface.setLabel(this.label());
    this.surface.redraw();
  }

  // Computes what is drawn from the points.
  protected abstract arrange(): void;
  protected abstract label(): string;

  protected weightOf(index: number): number {
    return this.points.weights ? this.points.weights[index] : 1;
  }

  protected get isEmpty(): boolean {
    const { values } = this.points;
    for (let i = 0; i < values.length; ++i) if (!Number.isNaN(values[i])) return false;
    return true;
  }
}

// A distribution of which a drag selects a stretch.
export abstract class BrushedDistribution extends Distribution {
  protected drag: { from: number; to: number } | null = null;

  override update(points: Points): void {
    this.hovered = null; // places are others now
    super.update(points);
  }

  protected abstract placeAt(x: number): number;
  protected abstract pick(from: number, to: number): void; // both included, in any order
  protected abstract showTipOf(place: number, clientX: number, clientY: number): void;

  protected listenToPointer(): void {
    const { root } = this.surface;
    root.classList.add("chart-brush");
    root.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || this.isEmpty) return;
      root.setPointerCapture(event.pointerId);
      const place = this.placeAt(this.surface.at(event)[0]);
      this.drag = { from: place, to: place };
      hideTip();
      this.surface.redrawOver();
    });
    root.addEventListener("pointermove", (event) => {
      if (this.isEmpty) return;
      const place = this.placeAt(this.surface.at(event)[0]);
      this.hovered = place;
      if (this.drag) this.drag.to = place;
      else this.showTipOf(place, event.clientX, event.clientY);
      this.surface.redrawOver();
    });
    root.addEventListener("pointerup", () => {
      if (!this.drag) return;
      const { from, to } = this.drag;
      this.drag = null;
      this.pick(from, to);
      this.surface.redrawOver();
    });
    root.addEventListener("pointerleave", () => {
      this.hovered = null;
      hideTip();
      this.surface.redrawOver();
    });
  }
}
