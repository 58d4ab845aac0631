// SPDX-License-Identifier: BSD-3-Clause
// Fields of the selection bar: each shows one part of what is chosen, and changes it.
import { el } from "./dom";
import { printable, shortenMiddle } from "./format";
import { icon } from "./icons";
import type { Store } from "./selection";

export interface Field {
  root: HTMLElement;
  update(): void;
}

const MOST_CHARACTERS = 28; // that a text field shows

const removeButton = (name: string, clear: () => void): HTMLButtonElement =>
  el(
    "button",
    { type: "button", class: "remove", "aria-label": `${name}: all`, on: { click: clear } },
    icon("close"),
  );

const chip = (name: string, input: HTMLElement, remove: HTMLElement): HTMLElement =>
  el("label", { class: "chip" }, el("span", { class: "chip-name" }, name), input, remove);

export interface TextFieldOptions {
  name: string;
  placeholder: string;
  help: string;
  width: number; // characters, at least
  shown(): string; // what is chosen; "": everything
  take(text: string): boolean; // false: cannot be read
  clear(): void;
}

// Enter or leaving it takes what was typed.
export class TextField implements Field {
  readonly root: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly remove: HTMLButtonElement;

  constructor(private readonly options: TextFieldOptions) {
    this.input = el("input", {
      type: "text",
      "aria-label": `${options.name}: ${options.help}`,
      placeholder: options.placeholder,
      spellcheck: "false",
      autocomplete: "off",
      tip: options.help,
      style: { width: `${options.width}ch` },
    });
    this.input.addEventListener("keydown", (event) => this.onKey(event.key));
    this.input.addEventListener("change", () => this.commit());
    this.remove = removeButton(options.name, () => options.clear());
    this.root = chip(options.name, this.input, this.remove);
  }

  focus(): void {
    this.input.focus();
    this.input.select();
  }

  update(): void {
    const { input, options, root } = this;
    const shown = options.shown();
    input.value = shown;
    root.classList.remove("wrong");
    root.classList.toggle("set", shown !== "");
    this.remove.hidden = shown === "";
    const width = Math.max(options.width, options.placeholder.length + 1, shown.length + 1);
    input.style.width = `${Math.min(MOST_CHARACTERS, width)}ch`;
  }

  private onKey(key: string): void {
    // To the page, whose keys are of use now.
    if (key === "Enter" && this.commit()) document.getElementById("main")?.focus({ preventScroll: true });
    else if (key === "Escape") {
      this.input.value = this.options.shown();
      this.root.classList.remove("wrong");
      this.input.blur();
    }
  }

  // Whether what was typed could be read.
  private commit(): boolean {
    const { input, options } = this;
    const typed = input.value.trim();
    if (typed === options.shown()) return true;
    let wasRead = true;
    if (typed === "") options.clear();
    else wasRead = options.take(input.value);
    this.root.classList.toggle("wrong", !wasRead);
    input.setAttribute("aria-invalid", String(!wasRead));
    return wasRead;
  }
}

export class RegionField implements Field {
  readonly root: HTMLElement;
  private readonly select: HTMLSelectElement;
  private readonly remove: HTMLButtonElement;

  constructor(
    private readonly store: Store,
    private readonly regions: readonly { name: string }[],
  ) {
    this.select = el(
      "select",
      { "aria-label": "Region", on: { change: () => this.choose() } },
      el("option", { value: "" }, "all"),
      regions.map((region, i) => el("option", { value: i }, shortenMiddle(printable(region.name), 40))),
    );
    this.remove = removeButton("Region", () => store.select({ region: null }));
    this.root = chip("Region", this.select, this.remove);
  }

  update(): void {
    const { region } = this.store.selection;
    this.select.value = region === null ? "" : String(this.regions.findIndex((one) => one.name === region));
    this.root.classList.toggle("set", region !== null);
    this.remove.hidden = region === null;
  }

  private choose(): void {
    const { value } = this.select;
    this.store.select({ region: value === "" ? null : this.regions[Number(value)].name });
  }
}
