// SPDX-License-Identifier: BSD-3-Clause
// The field to search the whole report in, and what it finds below it.
import { el, replace } from "./dom";
import { icon } from "./icons";
import type { Page } from "./page";
import { Search, type SearchEntry } from "./search";
import type { Store } from "./selection";

export class SearchDialog {
  private readonly search: Search;
  private readonly input = el("input", {
    type: "text",
    placeholder: "A function, file, page, rank or node",
    "aria-label": "Search",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    "aria-autocomplete": "list",
    spellcheck: "false",
    autocomplete: "off",
  });
  private readonly list = el("ul", { id: "palette-list", role: "listbox", "aria-label": "Found" });
  private readonly dialog = el(
    "dialog",
    { class: "palette", "aria-label": "Search" },
    el("div", { class: "palette-field" }, icon("search"), this.input),
    this.list,
  );
  private entries: SearchEntry[] = [];
  private chosen = 0;

  constructor(
    private readonly store: Store,
    pages: readonly Page[],
  ) {
    this.search = new Search(store, pages);
    this.input.addEventListener("input", () => this.show());
    this.input.addEventListener("keydown", (event) => {
      if (this.follow(event.key)) event.preventDefault();
    });
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    document.body.append(this.dialog);
  }

  open(): void {
    this.input.value = "";
    this.show();
    this.dialog.showModal();
    this.input.focus();
  }

  private show(): void {
    this.entries = this.search.find(this.input.value);
    this.input.removeAttribute("aria-activedescendant");
    replace(
      this.list,
      this.entries.map((entry, i) => this.option(entry, i)),
      this.entries.length
        ? null
        : el("li", { class: "empty", role: "option", "aria-disabled": "true" }, "Nothing found."),
    );
    this.choose(0);
  }

  private option(entry: SearchEntry, i: number): HTMLElement {
    return el(
      "li",
      {
        id: `palette-${i}`,
        role: "option",
        on: { click: () => this.go(entry), pointermove: () => this.chosen !== i && this.choose(i) },
      },
      icon(entry.icon),
      el("span", { class: "palette-title" }, entry.title),
      el("span", { class: "palette-place" }, entry.place),
      el("span", { class: "palette-value" }, entry.value),
    );
  }

  // Whether the key means something here.
  private follow(key: string): boolean {
    if (key === "ArrowDown") this.choose(this.chosen + 1);
    else if (key === "ArrowUp") this.choose(this.chosen - 1);
    else if (key === "Enter") this.go(this.entries[this.chosen]);
    else return false;
    return true;
  }

  private choose(next: number): void {
    const { entries, input, list } = this;
    if (entries.length === 0) return;
    this.chosen = (next + entries.length) % entries.length;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === this.chosen)));
    const item = list.children[this.chosen];
    if (item) {
      input.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    }
  }

  private go(entry: SearchEntry | undefined): void {
    if (!entry) return;
    this.dialog.close();
    this.store.go(entry.target());
  }
}
