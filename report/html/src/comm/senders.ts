// SPDX-License-Identifier: BSD-3-Clause
// Beside the matrix: what it adds up to, and who sends most.
import { partnersOf } from "../charts/matrix";
import { kNoNode } from "../charts/rows";
import { type Child, el, miniBar } from "../core/dom";
import { type Column, table } from "../core/table";
import { bytes, count, percent, shortenMiddle } from "../core/format";
import type { MatrixContent } from "./matrix_content";

export function senders(content: MatrixContent): Child {
  const { matrix } = content;
  const sources = partnersOf(matrix, "source");
  const by = content.measure;
  sources.sort((a, b) => b[by] - a[by] || a.place - b.place);
  const total = sources.reduce((sum, one) => sum + one.bytes, 0);
  const messages = sources.reduce((sum, one) => sum + one.messages, 0);
  let local = 0;
  if (!content.mixed)
    for (let i = 0; i < content.cells.source.length; ++i) {
      const [a, b] = [content.binNodes[content.cells.source[i]], content.binNodes[content.cells.destination[i]]];
      if (a === b && a !== undefined && a !== kNoNode) local += content.cells.bytes[i];
    }
  const most = sources[0]?.[by] ?? 0;
  const facts: [string, Child][] = [
    ...(content.moved === "collectives"
      ? [["Moved", `about ${bytes(total)}`] as [string, Child]]
      : ([
          ["Sent", `${bytes(total)} in ${count(messages)} messages`],
          ["Mean message", messages > 0 ? bytes(total / messages) : "\u2013"],
        ] satisfies [string, Child][])),
  ];
  if (!content.mixed && content.model.nodeCount > 1)
    facts.push(["Within nodes", total > 0 ? percent(local / total) : "\u2013"]);
  return [
    el(
      "dl",
      { class: "facts-list" },
      facts.map(([name, value]) => [el("dt", null, name), el("dd", null, value)]),
    ),
    el(
      "h3",
      { class: "apart" },
      content.level === "nodes"
        ? "Nodes that send most"
        : content.binRanks > 1
          ? "Groups of ranks that send most"
          : "Ranks that send most",
    ),
    el(
      "div",
      { class: "scroll-box", tabindex: 0, role: "group", "aria-label": "Senders" },
      table(
        [
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
          ...(content.moved === "collectives"
            ? []
            : ([
                {
                  id: "messages",
                  title: "Messages",
                  numeric: true,
                  value: (row) => row.messages,
                  cell: (row) => count(row.messages),
                },
              ] satisfies Column<(typeof sources)[number]>[])),
          {
            id: "partners",
            title: "To",
            numeric: true,
            help: "To how many others",
            value: (row) => row.partners,
            cell: (row) => count(row.partners),
          },
          { id: "share", title: "", cell: (row) => miniBar(most > 0 ? row[by] / most : 0) },
        ] satisfies Column<(typeof sources)[number]>[],
        sources,
        { label: "Senders", limit: 12, sort: { column: by, descending: true }, empty: "No messages between ranks." },
      ),
    ),
  ];
}
