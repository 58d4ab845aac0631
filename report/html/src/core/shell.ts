// SPDX-License-Identifier: BSD-3-Clause
// What is around the pages: navigation, the selection, keys, search, theme.
import { el, hideTip, replace, startTips } from "./dom";
import { commandLines, plural, printable, seconds } from "./format";
import { icon } from "./icons";
import { KeyHelp } from "./key_help";
import { bindKeys, startKeys } from "./keys";
import type { Model } from "./model";
import type { Page, PageHandle } from "./page";
import { SearchDialog } from "./search_dialog";
import { Store } from "./selection";
import { SelectionBar } from "./selection_bar";

const NUMBERED = 10; // pages that a digit leads to

const digitOf = (page: number): string => String((page + 1) % 10);

function pageLink(page: Page, i: number): HTMLAnchorElement {
  return el(
    "a",
    { "data-page": page.id, tip: page.hint, draggable: "false" },
    icon(page.id),
    el("span", { class: "name" }, page.title),
    i < NUMBERED ? el("kbd", { "aria-hidden": "true" }, digitOf(i)) : null,
  );
}

class Shell {
  private readonly store: Store;
  private readonly command: string;
  private readonly links: HTMLAnchorElement[];
  private readonly help: KeyHelp;
  private readonly search: SearchDialog;
  private readonly themeButton: HTMLButtonElement;
  private readonly bar: SelectionBar;
  private readonly main = el("main", { tabindex: -1, id: "main" });
  private handle: PageHandle | null = null; // of the page that is shown
  private current = ""; // its id
  private theme = "";

  constructor(
    private readonly app: HTMLElement,
    private readonly model: Model,
    private readonly pages: readonly Page[], // those that the run has something for
  ) {
    this.store = new Store(model, window.location, pages[0].id);
    this.command = commandLines(model.report.run).join("; ");
    this.links = pages.map(pageLink);
    this.help = new KeyHelp();
    this.search = new SearchDialog(this.store, pages);
    this.themeButton = el("button", { type: "button", class: "plain", on: { click: () => this.flipTheme() } });
    this.bar = new SelectionBar(this.store);
  }

  start(): Store {
    const { app } = this;
    replace(app, this.skipLink(), this.sidebar(), this.header(), this.main);
    app.className = "shell";
    this.bindKeys();
    startTips();
    startKeys();
    this.store.subscribe(() => this.update());
    this.listenToWindow();
    this.listenToPrinting();
    this.update();
    return this.store;
  }

  private skipLink(): HTMLElement {
    const skip = (event: Event) => {
      event.preventDefault();
      this.main.focus();
    };
    return el("a", { class: "skip", href: "#main", on: { click: skip } }, "Skip to the page");
  }

  private sidebar(): HTMLElement {
    const helpButton = el(
      "button",
      { type: "button", class: "plain", "aria-label": "Keys", tip: "Keys (?)", on: { click: () => this.help.open() } },
      icon("help"),
    );
    const mark = el("span", { class: "mark", "aria-hidden": "true" }, el("i"), el("i"), el("i"), el("i"));
    return el(
      "aside",
      { class: "side", "aria-label": "Navigation" },
      el("div", { class: "brand" }, mark, "clusterprof"),
      el("nav", { "aria-label": "Pages" }, this.links),
      el("div", { class: "side-foot" }, this.themeButton, helpButton),
    );
  }

  private header(): HTMLElement {
    const { command } = this;
    const { run } = this.model.report;
    return el(
      "header",
      { class: "top" },
      el(
        "div",
        { class: "job" },
        el("span", { class: "command", tip: command }, command || "?"),
        el(
          "span",
          { class: "facts" },
          `${plural(run.ranks, "rank")} · ${plural(run.nodes, "node")} · ${seconds(run.elapsed_s)}`,
        ),
        run.region ? el("span", { class: "badge" }, `region ${printable(run.region)} only`) : null,
        run.state === "running"
          ? el("span", { class: "badge", tip: "This page shows what was recorded until it was made." }, "was running")
          : run.complete
          ? null
          : el(
              "span",
              { class: "badge bad", tip: "Ranks are missing or did not end as they should: see Run info." },
              "incomplete",
            ),
        el(
          "button",
          { type: "button", class: "search", on: { click: () => this.search.open() } },
          icon("search"),
          el("span", null, "Search"),
          el("kbd", null, "/"),
        ),
      ),
      this.bar.root,
    );
  }

  private bindKeys(): void {
    const { bar, pages, store } = this;
    bindKeys([
      { key: "/", help: "Search functions, files, pages, ranks", run: () => this.search.open() },
      { key: "?", help: "Keys", run: () => this.help.open() },
      ...pages.slice(0, NUMBERED).map((page, i) => ({
        key: digitOf(i),
        help: i === 0 ? "A page" : "",
        shown: `1 – ${pages.length >= NUMBERED ? 0 : pages.length}`,
        run: () => store.go(store.pageTarget(page.id)),
      })),
      { key: "]", help: "Next page", run: () => this.step(1) },
      { key: "[", help: "Previous page", run: () => this.step(-1) },
      { key: "r", help: "Choose ranks", run: () => bar.focus("ranks") },
      { key: "t", help: "Choose a range of time", run: () => bar.focus("time") },
      { key: "x", help: "Choose everything again", run: () => store.clear() },
      { key: "d", help: "Dark or light", run: () => this.flipTheme() },
    ]);
  }

  private step(by: number): void {
    const { pages, store } = this;
    const at = pages.findIndex((page) => page.id === this.current);
    store.go(store.pageTarget(pages[(at + by + pages.length) % pages.length].id));
  }

  private listenToWindow(): void {
    window.addEventListener("hashchange", () => this.store.follow());
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.update());
    let resizing = 0;
    let width = window.innerWidth;
    window.addEventListener("resize", () => {
      window.clearTimeout(resizing);
      resizing = window.setTimeout(() => {
        if (window.innerWidth === width) return;
        width = window.innerWidth;
        this.update();
      }, 120);
    });
  }

  // Paper is light.
  private listenToPrinting(): void {
    const show = (theme: string) => {
      document.documentElement.dataset.theme = theme;
      if (this.theme === "dark") this.handle?.update();
    };
    window.addEventListener("beforeprint", () => show("light"));
    window.addEventListener("afterprint", () => show(this.theme));
  }

  private wantedTheme(): "light" | "dark" {
    return this.store.theme ?? (window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }

  private flipTheme(): void {
    this.store.setTheme(this.wantedTheme() === "dark" ? "light" : "dark");
  }

  private update(): void {
    hideTip();
    this.updateTheme();
    const page = this.pages.find((one) => one.id === this.store.page) ?? this.pages[0];
    this.updateLinks(page);
    this.bar.update();
    try {
      if (page.id === this.current) this.handle?.update();
      else this.showPage(page);
    } catch (error) {
      this.fail(error);
    }
  }

  private updateTheme(): void {
    const theme = this.wantedTheme();
    if (theme === this.theme) return;
    this.theme = theme;
    document.documentElement.dataset.theme = theme;
    this.themeButton.setAttribute("aria-label", `${theme === "dark" ? "Light" : "Dark"} colours`);
    replace(this.themeButton, icon(theme === "dark" ? "sun" : "moon"));
  }

  private updateLinks(shown: Page): void {
    const { store } = this;
    this.links.forEach((link, i) => {
      const page = this.pages[i];
      link.setAttribute("href", store.href(store.pageTarget(page.id)));
      if (page === shown) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
  }

  // In place of the page that was shown.
  private showPage(page: Page): void {
    const { main } = this;
    const before = this.handle;
    this.handle = null;
    before?.destroy?.();
    const first = this.current === "";
    this.current = page.id;
    document.title = `${page.title} – ${this.command || "clusterprof"}`;
    main.replaceChildren();
    main.dataset.page = page.id;
    const root = el("div", { class: `page page-${page.id}` });
    main.append(el("h1", { class: "visually-hidden" }, page.title), root);
    this.handle = page.mount(root, this.store);
    if (!first) {
      window.scrollTo(0, 0);
      main.focus({ preventScroll: true });
    }
  }

  private fail(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    replace(this.main, el("p", { class: "empty failure", role: "alert" }, `This page cannot be shown: ${reason}`));
    this.handle = null;
    reportError(error);
  }
}

export function startShell(app: HTMLElement, model: Model, pages: readonly Page[]): Store {
  return new Shell(
    app,
    model,
    pages.filter((page) => !page.hidden?.(model)),
  ).start();
}
