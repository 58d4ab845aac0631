// SPDX-License-Identifier: BSD-3-Clause
// The list of files by time, beside the source text.
import { estimateNote } from "../charts/code_parts";
import { type Child, el } from "../core/dom";
import { percent, plural, printable, shortenMiddle } from "../core/format";
import { baseName } from "../core/model";
import type { Store } from "../core/selection";
import { weights } from "../core/weights";
import type { SourceFile } from "./files";

// The files whose path contains `query`; `shown`: the one that is open.
export function fileList(store: Store, files: readonly SourceFile[], query: string, shown: SourceFile | null): Child {
  const { model } = store;
  const whole = weights(store).sum;
  const rows = files.filter((file) => query === "" || file.file.toLowerCase().includes(query));
  return [
    rows.map((file) => {
      const name = model.shortFile(file.file);
      const folder = file.file.slice(0, Math.max(0, file.file.length - baseName(file.file).length - 1));
      const share = whole > 0 ? file.self / whole : 0;
      return el(
        "li",
        null,
        el(
          "a",
          {
            href: store.href({ params: { file: file.file } }),
            "aria-current": file === shown ? "true" : null,
            tip: printable(file.file),
          },
          el("span", { class: "src-name" }, shortenMiddle(printable(name), 30)),
          el("span", { class: "src-share" }, percent(share)),
          el("span", { class: "src-folder" }, shortenMiddle(printable(folder), 36)),
          el(
            "span",
            { class: "share-bar", "aria-hidden": "true" },
            el("span", { style: { width: `${100 * Math.min(1, share)}%` } }),
          ),
        ),
      );
    }),
    rows.length === 0 ? el("li", { class: "muted" }, "No such file.") : null,
  ];
}

// How many files there are, how much of the time they have, and whether that is an estimate.
export function fileNote(store: Store, files: readonly SourceFile[]): Child {
  const whole = weights(store).sum;
  const covered = files.reduce((sum, file) => sum + file.self, 0);
  return [
    `${plural(files.length, "file")}, ${percent(whole > 0 ? Math.min(1, covered / whole) : 0)} of the time. `,
    store.selection.ranks ||
      store.selection.nodes ||
      store.selection.time ||
      store.selection.region !== null
      ? el(
          "span",
          {
            class: "estimate",
            tip: "The report has lines of the whole run; each is multiplied by the chosen share of the call paths that end in it.",
          },
          "Estimates",
        )
      : estimateNote(weights(store)),
  ];
}
