// SPDX-License-Identifier: BSD-3-Clause
// Above the source text: which file it is, and its hottest lines.
import { type Child, el } from "../core/dom";
import { functionLabel, percent, printable, seconds, shortenMiddle } from "../core/format";
import type { Store } from "../core/selection";
import { weights } from "../core/weights";
import type { SourceFile } from "./files";

const CHIPS = 8;

// The title of a file, its time and its hottest lines; a click on one of them calls `go`.
export function fileHeader(store: Store, file: SourceFile, go: (line: number) => void): Child {
  const { model } = store;
  const source = model.header.sources[file.index];
  const whole = weights(store).sum;
  const chips = [...file.lines.values()]
    .filter((line) => line.self > 0)
    .sort((a, b) => b.self - a.self || a.number - b.number)
    .slice(0, CHIPS);
  return [
    el(
      "div",
      { class: "src-title" },
      el("h2", { tip: printable(file.file) }, shortenMiddle(printable(file.file), 88)),
      el(
        "span",
        { class: "muted" },
        `${seconds(file.self)}, ${percent(whole > 0 ? file.self / whole : 0)}`,
      ),
    ),
    source.text === null
      ? el(
          "p",
          { class: "src-why" },
          `Without the source text: ${source.why_not || "not in the page"}. Lines with time are listed by number.`,
        )
      : null,
    chips.length > 0
      ? el(
          "div",
          { class: "src-chips" },
          el("span", { class: "muted" }, "Hottest lines"),
          chips.map((line) =>
            el(
              "button",
              {
                type: "button",
                class: "line-chip",
                on: { click: () => go(line.number) },
                tip: line.functions.map((name) => functionLabel(name, "python")).join(", "),
              },
              String(line.number),
              el("span", { class: "muted" }, percent(whole > 0 ? line.self / whole : 0)),
            ),
          ),
          el(
            "span",
            { class: "muted src-keys" },
            el("kbd", null, "n"),
            " next, ",
            el("kbd", null, "p"),
            " previous hot line",
          ),
        )
      : null,
  ];
}
