// SPDX-License-Identifier: BSD-3-Clause
// Rank x time as a heat map, below it what all ranks together did; dragging selects for all pages. The parts are in
// ../timeline: content (what is shown), view (which part of it, and where), pointer, and one file for each strip.
import type { Surface } from "../charts/surface";
import { type Child, el, hideTip, replace, section, showTip } from "../core/dom";
import { plural } from "../core/format";
import { bindKeys } from "../core/keys";
import type { Page, PageHandle } from "../core/page";
import type { Store } from "../core/selection";
import { rangesNote } from "../core/totals";
import { Bands } from "../timeline/bands";
import { cellText, cellTip } from "../timeline/cell";
import { Content } from "../timeline/content";
import { EfficiencyStrip } from "../timeline/efficiency_strip";
import { figures } from "../timeline/figures";
import { HeatMap } from "../timeline/heat_map";
import { type Cell, Pointer, type Strips } from "../timeline/pointer";
import { RegionStrip } from "../timeline/region_strip";
import { View } from "../timeline/view";

class Timeline implements Strips {
  private readonly content: Content;
  private readonly view: View;
  private readonly pointer: Pointer;
  private readonly heatMap: HeatMap;
  private readonly bands: Bands;
  private readonly efficiencies: EfficiencyStrip | null;
  private readonly regions: RegionStrip | null;
  private readonly unbind: () => void;
  private readonly announcement = el("p", { class: "visually-hidden", "aria-live": "polite" });
  private readonly legend = el("div", { class: "chart-legend" });
  private readonly zoomButton = el(
    "button",
    { type: "button", on: { click: () => this.view.zoomToSelection() } },
    "Zoom to selection",
  );
  private readonly outButton = el("button", { type: "button", on: { click: () => this.view.zoomOut() } }, "Whole run");
  private readonly figures = el("div");
  private readonly bandNote = el("span");
  private readonly regionNote = el("span", { class: "whole-run" });

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    const content = (this.content = new Content(store));
    const view = (this.view = new View(store, content));
    const pointer = (this.pointer = new Pointer(content, view, this));
    const tools = el(
      "div",
      { class: "chart-tools" },
      this.measureControl(),
      this.legend,
      el("span", { class: "gap" }),
      el("span", { class: "chart-field" }, this.zoomButton, this.outButton),
    );
    const mapBox = section("Ranks over time", { class: "chart-card", aside: this.hint() }, tools);
    root.append(mapBox);
    this.efficiencies = content.efficiencies.parts.length > 0 ? new EfficiencyStrip(mapBox, content, view, pointer) : null;
    this.regions = content.lanes.length > 0 ? new RegionStrip(mapBox, content, view, pointer) : null;
    this.heatMap = new HeatMap(mapBox, content, view, pointer);
    mapBox.append(this.announcement);
    const bandBox = section("All ranks over time", { class: "chart-card", aside: this.bandNote });
    root.append(bandBox);
    this.bands = new Bands(bandBox, content, view, pointer);
    root.append(section("In numbers", { class: "chart-card" }, this.figures));

    for (const { surface } of this.strips()) pointer.listen(surface);
    pointer.listenToKeys();
    this.unbind = bindKeys([
      {
        key: "m",
        help: "To the map of ranks; arrow keys move, with Shift they select, Enter zooms in, Escape clears",
        run: () => this.map.root.focus(),
      },
      { key: "z", help: "Zoom to what is selected", run: () => view.zoomToSelection() },
      { key: "w", help: "Zoom out to the whole run", run: () => view.zoomOut() },
    ]);
    this.update();
  }

  destroy(): void {
    hideTip();
    this.unbind();
    for (const { surface } of this.strips()) surface.destroy();
  }

  update(): void {
    this.content.update();
    this.drawNotes();
    for (const strip of this.strips()) strip.update();
    replace(this.legend, this.heatMap.legend());
    replace(this.figures, figures(this.content));
    const { time, ranks, nodes } = this.store.selection;
    this.zoomButton.disabled = !(time || ranks || nodes);
    this.outButton.disabled = !this.store.param("zoom") && !this.store.param("rows");
    for (const { surface } of this.strips()) surface.redraw();
  }

  // --- What the pointer needs

  get map(): Surface {
    return this.heatMap.surface;
  }

  redrawOver(): void {
    for (const { surface } of this.strips()) surface.redrawOver();
  }

  showTip(surface: Surface, event: PointerEvent): void {
    const { hover } = this.pointer;
    const at = [event.clientX, event.clientY] as const;
    if (surface === this.regions?.surface) showTip(this.regions.tip(surface.at(event)[1], hover?.time), ...at);
    else if (surface === this.map && hover && hover.row !== null) {
      const cell = { row: hover.row, bin: this.content.binAt(hover.time) };
      showTip(() => cellTip(this.content, this.view, cell), ...at);
    } else if (surface === this.efficiencies?.surface && hover) {
      const { efficiencies } = this;
      showTip(() => efficiencies.tip(hover.time), ...at);
    } else hideTip();
  }

  clicked(surface: Surface, y: number): void {
    const lane = surface === this.regions?.surface ? this.regions.laneAt(y) : null;
    if (lane) this.store.select({ region: this.store.selection.region === lane.name ? null : lane.name });
  }

  announce(cell: Cell): void {
    replace(this.announcement, cellText(this.content, this.view, cell));
  }

  // --- Controls and notes

  private strips() {
    return [this.heatMap, this.bands, this.efficiencies, this.regions].filter((strip) => strip !== null);
  }

  private hint(): Child {
    return el(
      "span",
      null,
      this.regionNote,
      "drag to select time and ranks · Enter zooms in · Esc or double click clears",
    );
  }

  private measureControl(): HTMLElement {
    const select = el("select", {
      "aria-label": "Colour by",
      on: { change: () => this.store.setParam("by", select.value === "category" ? null : select.value) },
    });
    const add = (parent: HTMLElement, value: string, title: string) =>
      parent.append(el("option", { value, selected: value === (this.view.measure?.name ?? "category") }, title));
    if (this.content.categories.length > 0) {
      add(select, "category", "what there is most of");
      const group = el("optgroup", { label: "Share of time" });
      for (const series of this.content.categories) add(group, series.name, series.title);
      select.append(group);
    }
    const rest = this.content.series.filter((series) => !series.category);
    if (rest.length > 0) {
      const group = el("optgroup", { label: "Counted" });
      for (const series of rest) add(group, series.name, series.title);
      select.append(group);
    }
    return el("label", { class: "chart-field" }, "Colour", select);
  }

  // What the charts are of, where that is not the whole selection.
  private drawNotes(): void {
    const { chosen, weights, series, model } = this.content;
    const levels = series.some(({ unit }) => unit === "bytes");
    const ranges = rangesNote(model, true, levels);
    replace(
      this.bandNote,
      `least, mean, largest over ${
        chosen
          ? plural(
              weights.reduce((a, b) => a + b, 0),
              "selected rank",
            )
          : plural(model.rankCount, "rank")
      }`,
      ranges ? `; ${ranges}` : null,
    );
    const ofAllRanks = [this.efficiencies ? "efficiency" : "", this.regions ? "regions" : ""].filter(Boolean);
    replace(
      this.regionNote,
      this.store.selection.region === null ? null : "of the whole run, not the region alone \u00b7 ",
      chosen && ofAllRanks.length > 0 ? `${ofAllRanks.join(" and ")} of all ranks \u00b7 ` : null,
    );
  }
}

export const page: Page = {
  id: "timeline",
  title: "Timeline",
  hint: "What each rank did when",
  mount(root, store): PageHandle {
    const { axis, series } = store.model.header;
    if (!axis || axis.bins === 0 || series.length === 0) {
      root.append(el("p", { class: "empty" }, "Nothing was recorded over time in this run."));
      return { update() {} };
    }
    const timeline = new Timeline(root, store);
    return { update: () => timeline.update(), destroy: () => timeline.destroy() };
  },
};
