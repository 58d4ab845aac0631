// SPDX-License-Identifier: BSD-3-Clause
// What the parts of the communication page have in common.
import { type Child, el } from "../core/dom";
import { functionLabel, plural, printable, shortenMiddle } from "../core/format";
import type { Model } from "../core/model";
import type { Place } from "../core/report";
import { RankSet, type Store } from "../core/selection";

export interface Part {
  update(): void;
  destroy?(): void;
}

export function shortenedNote(model: Model, name: string, what: string, whats?: string): Child {
  const cut = model.header.shortened?.[name];
  return cut && cut.kept < cut.of
    ? el("span", { class: "note" }, `the largest ${cut.kept.toLocaleString("en-US")} of ${plural(cut.of, what, whats)} `)
    : null;
}

export function rankLink(store: Store, rank: number, also: readonly number[] = []): HTMLElement {
  return el(
    "button",
    {
      type: "button",
      class: "link",
      tip: "select",
      on: { click: () => store.select({ ranks: RankSet.of([rank, ...also]), nodes: null }) },
    },
    `rank ${rank}`,
  );
}

// "MPI_Allreduce <- step() heat.py:28"
export function placeCell(model: Model, place: Place, kind = "native"): HTMLElement {
  const label = place.function
    ? functionLabel(place.function, place.op ? "native" : kind)
    : place.op
      ? ""
      : "not known";
  const at = model.place(place.file, place.line);
  const whole = [place.op, place.function, place.file ? `${place.file}${place.line ? `:${place.line}` : ""}` : ""]
    .filter(Boolean)
    .map((part) => printable(part!))
    .join("  ");
  return el(
    "span",
    { class: "place", tip: whole },
    place.op ? el("b", null, printable(place.op)) : null,
    place.op && label ? " in " : null,
    shortenMiddle(label, 48),
    at ? el("span", { class: "where" }, ` ${shortenMiddle(printable(at), 40)}`) : null,
  );
}

// The library function that a line called and that holds the time.
export function libraryCall(name: string | null | undefined): HTMLElement | null {
  return name ? el("span", { class: "where", tip: printable(name) }, ` in ${shortenMiddle(printable(name), 40)}`) : null;
}

export function placeText(model: Model, place: Place): string {
  const label = place.function ? functionLabel(place.function, "native") : "";
  return (
    [place.op ? printable(place.op) : "", shortenMiddle(label, 48), printable(model.place(place.file, place.line))]
      .filter(Boolean)
      .join(" ") || "not known"
  );
}
