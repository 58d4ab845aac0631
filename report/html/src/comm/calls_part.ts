// SPDX-License-Identifier: BSD-3-Clause
// Calls by site, and the sizes of messages.
import { withAlpha } from "../charts/colour";
import { ink, line, text } from "../charts/drawing";
import { clamp, multiples, niceCeiling, niceStep } from "../charts/numbers";
import { type Rect } from "../charts/raster";
import { Surface } from "../charts/surface";
import { nameColour, rgb } from "../core/colours";
import { el, hideTip, ofWholeRun, replace, section, showTip, stackedBar } from "../core/dom";
import { type Column, table } from "../core/table";
import { binBytes, bytes, count, percent, plural, printable, seconds } from "../core/format";
import type { MpiCallRow } from "../core/report";
import type { Store } from "../core/selection";
import { type Part, placeCell, rankLink, shortenedNote } from "./parts";

export function callsPart(root: HTMLElement, store: Store, calls: readonly MpiCallRow[]): Part {
  const { model } = store;
  const most = Math.max(...calls.map((row) => row.time_s));
  const waitColour = "var(--cat-mpi)";
  const transferColour = "color-mix(in oklab, var(--cat-mpi) 38%, var(--card))";
  const unknownColour = "var(--cat-idle)";
  const columns: Column<MpiCallRow>[] = [
    { id: "op", title: "Call", value: (row) => row.op, cell: (row) => el("b", { class: "op" }, printable(row.op)) },
    {
      id: "place",
      title: "Called from",
      value: (row) => row.function ?? "",
      cell: (row) => placeCell(model, { ...row, op: null }),
    },
    { id: "count", title: "Calls", numeric: true, value: (row) => row.count, cell: (row) => count(row.count) },
    {
      id: "time",
      title: "Time",
      numeric: true,
      help: "Of all ranks together",
      value: (row) => row.time_s,
      cell: (row) => seconds(row.time_s),
    },
    {
      id: "bar",
      title: "Waiting, transfer",
      class: "wide",
      cell: (row) => {
        const wait = row.wait_s ?? null;
        return el(
          "div",
          { class: "call-bar", style: { width: `${Math.max(1, (100 * row.time_s) / most)}%` } },
          stackedBar(
            wait === null
              ? [{ value: row.time_s, colour: unknownColour, label: "waiting not known", text: seconds(row.time_s) }]
              : [
                  { value: wait, colour: waitColour, label: "waiting", text: seconds(wait) },
                  {
                    value: Math.max(0, row.time_s - wait),
                    colour: transferColour,
                    label: "transfer",
                    text: seconds(Math.max(0, row.time_s - wait)),
                  },
                ],
          ),
        );
      },
    },
    {
      id: "wait",
      title: "Waiting",
      numeric: true,
      value: (row) => (row.wait_s === null || row.wait_s === undefined ? null : row.wait_s / row.time_s),
      cell: (row) =>
        row.wait_s === null || row.wait_s === undefined
          ? "\u2013"
          : percent(row.time_s > 0 ? row.wait_s / row.time_s : 0, 0),
    },
    { id: "sent", title: "Sent", numeric: true, value: (row) => row.sent_bytes, cell: (row) => bytes(row.sent_bytes) },
    {
      id: "mean",
      title: "Mean rank",
      numeric: true,
      value: (row) => row.rank_mean_s,
      cell: (row) => seconds(row.rank_mean_s),
    },
    { id: "max", title: "Most", numeric: true, value: (row) => row.rank_max_s, cell: (row) => seconds(row.rank_max_s) },
    { id: "rank", title: "by", class: "nowrap", cell: (row) => rankLink(store, row.rank_max) },
  ];
  root.append(
    section(
      "MPI calls",
      { class: "chart-card", aside: [shortenedNote(model, "mpi.calls", "call"), ofWholeRun()] },
      el(
        "div",
        { class: "chart-legend spaced" },
        el("span", { class: "key" }, el("i", { style: { background: waitColour } }), "waiting for another rank"),
        el("span", { class: "key" }, el("i", { style: { background: transferColour } }), "transfer"),
        el("span", { class: "key" }, el("i", { style: { background: unknownColour } }), "not known which"),
      ),
      table(columns, calls, { label: "MPI calls by call site", sort: { column: "time", descending: true }, limit: 15 }),
    ),
  );
  return { update() {} };
}

export function sizesPart(
  parent: HTMLElement,
  sizes: readonly { op: string; le_bytes: number; count: number }[],
): Part {
  const ops = [...new Set(sizes.map((row) => row.op))];
  const sums = new Map(
    ops.map((op) => [op, sizes.filter((row) => row.op === op).reduce((sum, row) => sum + row.count, 0)]),
  );
  ops.sort((a, b) => sums.get(b)! - sums.get(a)!);
  const bounds = [...new Set(sizes.map((row) => row.le_bytes))].sort((a, b) => a - b);
  // Sizes without messages in between are shown as gaps.
  const power = (bound: number) => (bound <= 0 ? -1 : Math.round(Math.log2(bound)));
  const first = power(bounds[0]);
  const last = power(bounds[bounds.length - 1]);
  const bins = last - first + 1;
  const counts = ops.map((op) => {
    const row = new Float64Array(bins);
    for (const size of sizes) if (size.op === op) row[power(size.le_bytes) - first] += size.count;
    return row;
  });
  const totals = Float64Array.from({ length: bins }, (_, bin) => counts.reduce((sum, row) => sum + row[bin], 0));
  const boundText = (bin: number) => (bin + first < 0 ? "0 B" : binBytes(2 ** (bin + first)));
  let hovered: number | null = null;
  const rectOf = (width: number): Rect => ({ x: 46, y: 8, width: Math.max(10, width - 54), height: 172 });
  const surface = new Surface(parent, {
    height: 206,
    interactive: true,
    label: `Messages by size: ${plural(
      totals.reduce((a, b) => a + b, 0),
      "message",
    )}. ${bounds
      .slice(0, 6)
      .map((bound) => `up to ${binBytes(bound)} ${count(totals[power(bound) - first])}`)
      .join(", ")}.`,
    draw(pen) {
      const colours = ink();
      const rect = rectOf(pen.width);
      const limit = niceCeiling(Math.max(...totals));
      const width = rect.width / bins;
      const y = (value: number) => rect.y + (1 - value / limit) * rect.height;
      for (const value of multiples(0, limit, niceStep(limit, 4))) {
        line(pen, rect.x, y(value), rect.x + rect.width, y(value), colours.grid);
        text(pen, rect.x - 7, y(value), count(value), { align: "right", colour: colours.muted, font: colours.font });
      }
      const bar = Math.min(width - 2, 46);
      for (let bin = 0; bin < bins; ++bin) {
        let sum = 0;
        ops.forEach((op, i) => {
          const value = counts[i][bin];
          if (value === 0) return;
          pen.context.fillStyle = nameColour(op);
          const top = y(sum + value);
          pen.context.fillRect(
            rect.x + (bin + 0.5) * width - bar / 2,
            Math.min(top, y(sum) - 1.5),
            bar,
            Math.max(1.5, y(sum) - top),
          );
          sum += value;
        });
        const skip = Math.ceil(54 / width);
        if ((bins - 1 - bin) % skip === 0)
          text(pen, rect.x + (bin + 0.5) * width, rect.y + rect.height + 12, boundText(bin), {
            align: "center",
            colour: colours.muted,
            font: colours.font,
          });
      }
    },
    drawOver(pen) {
      if (hovered === null) return;
      const rect = rectOf(pen.width);
      pen.context.fillStyle = withAlpha(rgb(ink().text), 0.06);
      pen.context.fillRect(rect.x + (hovered * rect.width) / bins, rect.y, rect.width / bins, rect.height);
    },
  });
  const say = (x: number, y: number) => {
    if (hovered === null) return;
    const bin = hovered;
    const parts = ops.map((op, i) => ({ op, value: counts[i][bin] })).filter((part) => part.value > 0);
    const range =
      bin + first <= 0
        ? `up to ${boundText(bin)}`
        : `more than ${binBytes(2 ** (bin + first - 1))}, up to ${boundText(bin)}`;
    showTip(
      () =>
        el(
          "div",
          { class: "chart-tip" },
          el("b", null, range),
          parts.length === 0
            ? el("div", null, "no messages")
            : el(
                "dl",
                null,
                parts.map((part) => [
                  el("dt", null, el("i", { style: { background: nameColour(part.op) } }), printable(part.op)),
                  el("dd", null, count(part.value)),
                ]),
              ),
        ),
      x,
      y,
    );
  };
  surface.root.addEventListener("pointermove", (event) => {
    const rect = rectOf(surface.width);
    hovered = clamp(Math.floor(((surface.at(event)[0] - rect.x) / rect.width) * bins), 0, bins - 1);
    say(event.clientX, event.clientY);
    surface.redrawOver();
  });
  surface.root.addEventListener("pointerleave", () => {
    hovered = null;
    hideTip();
    surface.redrawOver();
  });
  surface.root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    hovered = clamp((hovered ?? -1) + step, 0, bins - 1);
    const box = surface.root.getBoundingClientRect();
    say(box.left + 46 + ((hovered + 0.5) * (surface.width - 54)) / bins, box.top + 20);
    surface.redrawOver();
  });
  const legend = el("div", { class: "chart-legend spaced" });
  parent.append(legend);
  return {
    update() {
      replace(
        legend,
        ops.map((op) =>
          el("span", { class: "key" }, el("i", { style: { background: nameColour(op) } }), printable(op)),
        ),
      );
      surface.redraw();
    },
    destroy: () => surface.destroy(),
  };
}
