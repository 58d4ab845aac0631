// SPDX-License-Identifier: BSD-3-Clause
// What MPI knew of mistakes: errors that calls returned, requests that stayed open, messages that nobody received.
import { type Child, el, ofWholeRun, section } from "../core/dom";
import { count, printable, seconds } from "../core/format";
import type { MpiErrorRow, OpenRequestRow, UnmatchedRow } from "../core/report";
import type { Store } from "../core/selection";
import { type Column, table } from "../core/table";
import { placeCell, rankLink, shortenedNote } from "./parts";

interface Sided {
  peer: number | null;
  any_peer: boolean;
  tag: number | null;
  any_tag: boolean;
}

const NOT_KNOWN = "\u2013";
const peerText = (row: Sided): string => (row.any_peer ? "any" : row.peer === null ? NOT_KNOWN : `rank ${row.peer}`);
const tagText = (row: Sided): string => (row.any_tag ? "any" : row.tag === null ? NOT_KNOWN : String(row.tag));

function countColumn<Row extends { count: number }>(): Column<Row> {
  return { id: "count", title: "Count", numeric: true, value: (row) => row.count, cell: (row) => count(row.count) };
}
function rankColumn<Row extends { rank: number }>(store: Store, title: string): Column<Row> {
  return { id: "rank", title, class: "nowrap", value: (row) => row.rank, cell: (row) => rankLink(store, row.rank) };
}
function sideColumns<Row extends Sided>(): Column<Row>[] {
  return [
    { id: "peer", title: "Other side", class: "nowrap", value: (row) => row.peer ?? -1, cell: (row) => peerText(row) },
    { id: "tag", title: "Tag", numeric: true, value: (row) => row.tag ?? -1, cell: (row) => tagText(row) },
  ];
}
function placeColumn<Row extends MpiErrorRow | OpenRequestRow | UnmatchedRow>(store: Store, title: string): Column<Row> {
  return {
    id: "place",
    title,
    value: (row) => row.op ?? "",
    cell: (row) => (row.op ? placeCell(store.model, row) : el("span", { class: "muted" }, "others")),
  };
}

function card(root: HTMLElement, store: Store, title: string, name: string, what: string, rows: Child): void {
  root.append(section(title, { class: "chart-card", aside: [shortenedNote(store.model, name, what), ofWholeRun()] }, rows));
}

export function addProblems(root: HTMLElement, store: Store): void {
  const { errors, open_requests: open, unmatched } = store.model.report.mpi;
  if (errors && errors.length > 0)
    card(
      root,
      store,
      "Errors that calls returned",
      "mpi.errors",
      "error",
      table<MpiErrorRow>(
        [
          countColumn(),
          {
            id: "error",
            title: "Error",
            value: (row) => row.error_class ?? `class ${row.error_class_number}`,
            cell: (row) => el("span", { tip: row.text ? printable(row.text) : "" }, printable(row.error_class ?? `class ${row.error_class_number}`)),
          },
          rankColumn(store, "Rank"),
          ...sideColumns<MpiErrorRow>(),
          { id: "first", title: "First", numeric: true, value: (row) => row.first_s, cell: (row) => seconds(row.first_s) },
          placeColumn(store, "Call"),
        ],
        errors,
        { label: "Errors that calls returned", sort: { column: "first", descending: false }, limit: 10 },
      ),
    );
  if (open && open.length > 0)
    card(
      root,
      store,
      "Requests not complete at MPI_Finalize",
      "mpi.open_requests",
      "request",
      table<OpenRequestRow>([countColumn(), rankColumn(store, "Rank"), ...sideColumns<OpenRequestRow>(), placeColumn(store, "Started in")], open, {
        label: "Requests not complete at MPI_Finalize",
        sort: { column: "count", descending: true },
        limit: 10,
      }),
    );
  if (unmatched && unmatched.length > 0)
    card(
      root,
      store,
      "Messages that nobody received",
      "mpi.unmatched",
      "row",
      table<UnmatchedRow>(
        [
          countColumn(),
          rankColumn(store, "From"),
          { id: "to", title: "To", class: "nowrap", value: (row) => row.dst, cell: (row) => rankLink(store, row.dst) },
          { id: "tag", title: "Tag", numeric: true, value: (row) => row.tag, cell: (row) => String(row.tag) },
          placeColumn(store, "Sent in"),
        ],
        unmatched,
        { label: "Messages that nobody received", sort: { column: "count", descending: true }, limit: 10 },
      ),
    );
}
