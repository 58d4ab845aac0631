// SPDX-License-Identifier: BSD-3-Clause
// Beside the matrix: what it adds up to, and who sends most.
import { type Partner, partnersOf } from "../charts/matrix";
import { kNoNode } from "../charts/rows";
import { type Child, el, miniBar } from "../core/dom";
import { type Column, table } from "../core/table";
import { bytes, count, percent, shortenMiddle } from "../core/format";
import type { MatrixContent } from "./matrix_content";

export function senders(content: MatrixContent): Child {
  const sources = partnersOf(content.matrix, "source");
  const by = content.measure;
  sources.sort((a, b) => b[by] - a[by] || a.place - b.place);
  return [
    el(
      "dl",
      { class: "facts-list" },
      facts(content, sources).map(([name, value]) => [el("dt", null, name), el("dd", null, value)]),
    ),
    el("h3", { class: "apart" }, `${sendersName(content)} that send most`),
    el(
      "div",
      { class: "scroll-box", tabindex: 0, role: "group", "aria-label": "Senders" },
      table(columns(content, sources[0]?.[by] ?? 0), sources, {
        label: "Senders",
        limit: 12,
        sort: { column: by, descending: true },
        empty: "No messages between ranks.",
      }),
    ),
  ];
}

function sendersName({ level, binRanks }: MatrixContent): string {
  if (level === "nodes") return "Nodes";
  return binRanks > 1 ? "Groups of ranks" : "Ranks";
}

function facts(content: MatrixContent, sources: readonly Partner[]): [string, Child][] {
  const total_bytes = sources.reduce((sum, one) => sum + one.bytes, 0);
  const messages = sources.reduce((sum, one) => sum + one.messages, 0);
  const shown: [string, Child][] =
    content.moved === "collectives"
      ? [["Moved", `about ${bytes(total_bytes)}`]]
      : [
          ["Sent", `${bytes(total_bytes)} in ${count(messages)} messages`],
          ["Mean message", messages > 0 ? bytes(total_bytes / messages) : "\u2013"],
        ];
  if (!content.mixed && content.model.nodeCount > 1)
    shown.push(["Within nodes", total_bytes > 0 ? percent(bytesWithinNodes(content) / total_bytes) : "\u2013"]);
  return shown;
}

function bytesWithinNodes({ binNodes, cells }: MatrixContent): number {
  let sum_bytes = 0;
  for (let i = 0; i < cells.source.length; ++i) {
    const [a, b] = [binNodes[cells.source[i]], binNodes[cells.destination[i]]];
    if (a === b && a !== undefined && a !== kNoNode) sum_bytes += cells.bytes[i];
  }
  return sum_bytes;
}

// `most`: what the first of the table has.
function columns(content: MatrixContent, most: number): Column<Partner>[] {
  const by = content.measure;
  const messages: Column<Partner> = {
    id: "messages",
    title: "Messages",
    numeric: true,
    value: (row) => row.messages,
    cell: (row) => count(row.messages),
  };
  return [
    {
      id: "from",
      title: "From",
      value: (row) => row.place,
      cell: (row) =>
        el(
          "button",
          { type: "button", class: "link", on: { click: () => content.selectPlaces([row.place]) } },
          shortenMiddle(content.name(row.place), 24),
        ),
    },
    { id: "bytes", title: "Bytes", numeric: true, value: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
    ...(content.moved === "collectives" ? [] : [messages]),
    {
      id: "partners",
      title: "To",
      numeric: true,
      help: "To how many others",
      value: (row) => row.partners,
      cell: (row) => count(row.partners),
    },
    { id: "share", title: "", cell: (row) => miniBar(most > 0 ? row[by] / most : 0) },
  ];
}
