// SPDX-License-Identifier: BSD-3-Clause
// MPI calls by call site.
import { el, ofWholeRun, section, stackedBar } from "../core/dom";
import { type Column, table } from "../core/table";
import { bytes, count, percent, printable, seconds } from "../core/format";
import type { MpiCallRow } from "../core/report";
import type { Store } from "../core/selection";
import { type Part, placeCell, rankLink, shortenedNote } from "./parts";

const kWaitColour = "var(--cat-mpi)";
const kTransferColour = "color-mix(in oklab, var(--cat-mpi) 38%, var(--card))";
const kUnknownColour = "var(--cat-idle)";

export function callsPart(root: HTMLElement, store: Store, calls: readonly MpiCallRow[]): Part {
  root.append(
    section(
      "MPI calls",
      { class: "chart-card", aside: [shortenedNote(store.model, "mpi.calls", "call"), ofWholeRun()] },
      el(
        "div",
        { class: "chart-legend spaced" },
        legendKey(kWaitColour, "waiting for another rank"),
        legendKey(kTransferColour, "transfer"),
        legendKey(kUnknownColour, "not known which"),
      ),
      table([...columnsOfCalls(store, calls), ...columnsOfRanks(store)], calls, {
        label: "MPI calls by call site",
        sort: { column: "time", descending: true },
        limit: 15,
      }),
    ),
  );
  return { update() {} };
}

const legendKey = (colour: string, label: string): HTMLElement =>
  el("span", { class: "key" }, el("i", { style: { background: colour } }), label);

function columnsOfCalls(store: Store, calls: readonly MpiCallRow[]): Column<MpiCallRow>[] {
  const most = Math.max(...calls.map((row) => row.time_s));
  return [
    { id: "op", title: "Call", value: (row) => row.op, cell: (row) => el("b", { class: "op" }, printable(row.op)) },
    {
      id: "place",
      title: "Called from",
      value: (row) => row.function ?? "",
      cell: (row) => placeCell(store.model, { ...row, op: null }),
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
    { id: "bar", title: "Waiting, transfer", class: "wide", cell: (row) => timeBar(row, most) },
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
  ];
}

function columnsOfRanks(store: Store): Column<MpiCallRow>[] {
  return [
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
}

// As wide as the call's part of `most`, the time of the call site with most.
function timeBar(row: MpiCallRow, most: number): HTMLElement {
  const wait = row.wait_s ?? null;
  const part = (value: number, colour: string, label: string) => ({ value, colour, label, text: seconds(value) });
  return el(
    "div",
    { class: "call-bar", style: { width: `${Math.max(1, (100 * row.time_s) / most)}%` } },
    stackedBar(
      wait === null
        ? [part(row.time_s, kUnknownColour, "waiting not known")]
        : [
            part(wait, kWaitColour, "waiting"),
            part(Math.max(0, row.time_s - wait), kTransferColour, "transfer"),
          ],
    ),
  );
}
