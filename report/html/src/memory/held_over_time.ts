// SPDX-License-Identifier: BSD-3-Clause
// What is held in memory over time: by line, and of ranks and nodes as a whole.
import { LineChart } from "../core/chart";
import { qualitative } from "../core/colours";
import { bytes, functionLabel, printable, shortenMiddle } from "../core/format";
import type { Model } from "../core/model";
import type { HeldOverTime, HeldPlace } from "../core/report";
import type { Store } from "../core/selection";
import { shownBins } from "../core/totals";

export const HELD_SERIES = "memory_held_bytes";
const LAYERS = 8; // lines with a colour of their own
const NODES = 8; // nodes with a line of their own

export function heldPlace(model: Model, place: HeldPlace, most = 44): string {
  if (!place.function) return "not known where";
  const at = printable(model.place(place.file, place.line));
  return shortenMiddle([functionLabel(place.function, "native"), at].filter(Boolean).join(" "), most);
}

export interface Layer {
  row: number | null; // of HeldOverTime.lines; null: the rest together
  own: number[]; // bytes by bin
  top: number[]; // with those below it
}

// The largest lines, the largest on top of the others.
export function layersOf(time: HeldOverTime): Layer[] {
  const own = (row: number): number[] => Array.from({ length: time.bins }, (_, b) => time.lines[row].bytes[b] ?? 0);
  const layers: Layer[] = time.lines.slice(0, LAYERS).map((_, row) => ({ row, own: own(row), top: [] }));
  if (time.lines.length > LAYERS) {
    const rest = new Array<number>(time.bins).fill(0);
    for (let row = LAYERS; row < time.lines.length; ++row) own(row).forEach((value, b) => (rest[b] += value));
    layers.push({ row: null, own: rest, top: [] });
  }
  let below = new Array<number>(time.bins).fill(0);
  for (const layer of [...layers].reverse()) below = layer.top = layer.own.map((value, b) => value + below[b]);
  return layers;
}

export function heldByLine(store: Store): LineChart | null {
  const { model } = store;
  const time = model.report.memory?.over_time;
  if (!time || time.bins === 0 || time.lines.length === 0) return null;
  return new LineChart({
    label: "Held memory over time, by line",
    x: Array.from({ length: time.bins }, (_, b) => Math.max(0, time.begin_s + (b + 0.5) * time.bin_s)),
    // Each covers those below it.
    series: layersOf(time).map(({ row, own, top }, i) => ({
      label: row === null ? "other lines" : heldPlace(model, time.lines[row]),
      colour: row === null ? "--line-2" : qualitative(i),
      values: top,
      own,
    })),
    height: 230,
    format: bytes,
    onSelect: (range) => store.select({ time: range }),
    marked: store.selection.time,
  });
}

// Of the nodes that held most.
export function heldByNode(store: Store): LineChart | null {
  const { model } = store;
  const series = model.header.node_series.findIndex((s) => s.name === HELD_SERIES);
  const { bins, bin_s, begin_s } = model.header.axis;
  const shown = shownBins(model);
  if (series < 0 || shown === 0 || model.nodeCount < 2) return null;
  const values = model.f32(`node_series_${series}`);
  const of = (node: number): number[] => [...values.subarray(node * bins, node * bins + shown)];
  const nodes = [...model.nodes.keys()].map((node) => ({ node, most: of(node).reduce((a, b) => Math.max(a, b), 0) }));
  nodes.sort((a, b) => b.most - a.most || a.node - b.node);
  return new LineChart({
    label: "Held memory of nodes over time",
    x: Array.from({ length: shown }, (_, b) => begin_s + (b + 0.5) * bin_s),
    series: nodes.slice(0, NODES).map(({ node }, i) => ({
      label: shortenMiddle(printable(model.nodes[node].name), 30),
      colour: qualitative(i),
      values: of(node),
    })),
    height: 150,
    format: bytes,
    onSelect: (range) => store.select({ time: range }),
    marked: store.selection.time,
  });
}
