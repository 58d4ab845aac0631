// SPDX-License-Identifier: BSD-3-Clause
// The list of keys that `?` shows.
import { el, replace } from "./dom";
import { icon } from "./icons";
import { boundKeys, type Key } from "./keys";

const keyCaps = (key: Key): HTMLElement[] =>
  (key.shown ?? key.key).split(" ").map((part) => el("kbd", null, part === " " ? "Space" : part));

// Keys of the same help share a line.
function helpLines(): HTMLElement[] {
  const keysOf = new Map<string, Key[]>();
  for (const key of boundKeys()) if (key.help !== "") keysOf.set(key.help, [...(keysOf.get(key.help) ?? []), key]);
  return [...keysOf].map(([help, keys]) =>
    el(
      "div",
      null,
      el("dt", null, keys.map((key, i) => [i ? " " : null, keyCaps(key)])),
      el("dd", null, help),
    ),
  );
}

export class KeyHelp {
  private readonly list = el("dl");
  private readonly dialog: HTMLDialogElement;

  constructor() {
    this.dialog = el(
      "dialog",
      { class: "help", "aria-label": "Keys" },
      el(
        "header",
        null,
        el("h2", null, "Keys"),
        el(
          "button",
          { type: "button", class: "plain", "aria-label": "Close", on: { click: () => this.dialog.close() } },
          icon("close"),
        ),
      ),
      this.list,
      el(
        "p",
        { class: "note" },
        "Tables: ↑ ↓ Home End move between rows, Enter opens one. Drag over a chart to choose a range of time.",
      ),
    );
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    document.body.append(this.dialog);
  }

  open(): void {
    replace(this.list, helpLines());
    this.dialog.showModal();
  }
}
