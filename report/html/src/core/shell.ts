// SPDX-License-Identifier: BSD-3-Clause
// What is around the pages: navigation, the selection, keys, search, theme.
import { el, hideTip, replace, startTips } from "./dom";
import { commandLine, plural, printable, seconds } from "./format";
import { icon } from "./icons";
import { bindKeys, boundKeys, startKeys, type Key } from "./keys";
import type { Model } from "./model";
import type { Page, PageHandle } from "./page";
import { makePalette } from "./palette";
import { Store } from "./selection";
import { makeSelectionBar } from "./selection_bar";

function themeOf(store: Store): "light" | "dark" {
  return store.theme ?? (window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function helpDialog(): { open(): void } {
  const list = el("dl");
  const dialog = el(
    "dialog",
    { class: "help", "aria-label": "Keys" },
    el("header", null, el("h2", null, "Keys"), el("button", { type: "button", class: "plain", "aria-label": "Close", on: { click: () => dialog.close() } }, icon("close"))),
    list,
    el("p", { class: "note" }, "Tables: ↑ ↓ Home End move between rows, Enter opens one. Drag over a chart to choose a range of time."),
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  const open = () => {
    const seen = new Set<string>();
    const keys: Key[] = boundKeys().filter((k) => k.help !== "" && !seen.has(k.help) && seen.add(k.help));
    replace(
      list,
      keys.map((k) => {
        const same = boundKeys().filter((other) => other.help === k.help);
        return el(
          "div",
          null,
          el("dt", null, same.map((s, i) => [i ? " " : null, (s.shown ?? s.key).split(" ").map((part) => el("kbd", null, part === " " ? "Space" : part))])),
          el("dd", null, k.help),
        );
      }),
    );
    dialog.showModal();
  };
  document.body.append(dialog);
  return { open };
}

export function startShell(app: HTMLElement, model: Model, pages: readonly Page[]): Store {
  const shown = pages.filter((page) => !page.hidden?.(model));
  const store = new Store(model, window.location, shown[0].id);
  const { run } = model.report;
  const command = commandLine(run.command);

  const links = shown.map((page, i) =>
    el(
      "a",
      { "data-page": page.id, tip: page.hint, draggable: "false" },
      icon(page.id),
      el("span", { class: "name" }, page.title),
      i < 10 ? el("kbd", { "aria-hidden": "true" }, String((i + 1) % 10)) : null,
    ),
  );
  const nav = el("nav", { "aria-label": "Pages" }, links);
  const help = helpDialog();
  const palette = makePalette(store, shown);
  const themeButton = el("button", { type: "button", class: "plain", on: { click: () => flipTheme() } });
  const helpButton = el("button", { type: "button", class: "plain", "aria-label": "Keys", tip: "Keys (?)", on: { click: () => help.open() } }, icon("help"));
  const side = el(
    "aside",
    { class: "side", "aria-label": "Navigation" },
    el("div", { class: "brand" }, el("span", { class: "mark", "aria-hidden": "true" }, el("i"), el("i"), el("i"), el("i")), "clusterprof"),
    nav,
    el("div", { class: "side-foot" }, themeButton, helpButton),
  );
  const bar = makeSelectionBar(store);
  const top = el(
    "header",
    { class: "top" },
    el(
      "div",
      { class: "job" },
      el("span", { class: "command", tip: command }, command || "?"),
      el("span", { class: "facts" }, `${plural(run.ranks, "rank")} · ${plural(run.nodes, "node")} · ${seconds(run.elapsed_s)}`),
      run.region ? el("span", { class: "badge" }, `region ${printable(run.region)} only`) : null,
      run.complete ? null : el("span", { class: "badge bad", tip: "Ranks are missing or did not end as they should: see Run info." }, "incomplete"),
      el("button", { type: "button", class: "search", on: { click: () => palette.open() } }, icon("search"), el("span", null, "Search"), el("kbd", null, "/")),
    ),
    bar.root,
  );
  const main = el("main", { tabindex: -1, id: "main" });
  replace(app, el("a", { class: "skip", href: "#main", on: { click: (event) => { event.preventDefault(); main.focus(); } } }, "Skip to the page"), side, top, main);
  app.className = "shell";

  let handle: PageHandle | null = null;
  let current = "";
  let theme = "";

  function flipTheme(): void {
    store.setTheme(themeOf(store) === "dark" ? "light" : "dark");
  }

  function fail(error: unknown): void {
    replace(main, el("p", { class: "empty failure", role: "alert" }, `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}`));
    handle = null;
    reportError(error);
  }

  function update(): void {
    hideTip();
    if (themeOf(store) !== theme) {
      theme = themeOf(store);
      document.documentElement.dataset.theme = theme;
      const other = theme === "dark" ? "Light" : "Dark";
      themeButton.setAttribute("aria-label", `${other} colours`);
      replace(themeButton, icon(theme === "dark" ? "sun" : "moon"));
    }
    const page = shown.find((p) => p.id === store.page) ?? shown[0];
    links.forEach((link, i) => {
      link.setAttribute("href", store.href(store.pageTarget(shown[i].id)));
      if (shown[i] === page) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
    bar.update();
    try {
      if (page.id === current) {
        handle?.update();
        return;
      }
      try {
        handle?.destroy?.();
      } finally {
        handle = null;
      }
      const first = current === "";
      current = page.id;
      document.title = `${page.title} – ${command || "clusterprof"}`;
      main.replaceChildren();
      main.dataset.page = page.id;
      const root = el("div", { class: `page page-${page.id}` });
      main.append(el("h1", { class: "visually-hidden" }, page.title), root);
      handle = page.mount(root, store);
      if (!first) {
        window.scrollTo(0, 0);
        main.focus({ preventScroll: true });
      }
    } catch (error) {
      fail(error);
    }
  }

  bindKeys([
    { key: "/", help: "Search functions, files, pages, ranks", run: () => palette.open() },
    { key: "?", help: "Keys", run: () => help.open() },
    ...shown.slice(0, 10).map((page, i) => ({
      key: String((i + 1) % 10),
      help: i === 0 ? "A page" : "",
      shown: `1 – ${shown.length >= 10 ? 0 : shown.length}`,
      run: () => store.go(store.pageTarget(page.id)),
    })),
    { key: "]", help: "Next page", run: () => step(1) },
    { key: "[", help: "Previous page", run: () => step(-1) },
    { key: "r", help: "Choose ranks", run: () => bar.focus("ranks") },
    { key: "t", help: "Choose a range of time", run: () => bar.focus("time") },
    { key: "x", help: "Choose everything again", run: () => store.clear() },
    { key: "d", help: "Dark or light", run: flipTheme },
  ]);
  function step(by: number): void {
    const at = shown.findIndex((p) => p.id === current);
    store.go(store.pageTarget(shown[(at + by + shown.length) % shown.length].id));
  }

  startTips();
  startKeys();
  store.subscribe(update);
  window.addEventListener("hashchange", () => store.follow());
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
  let resizing = 0;
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    window.clearTimeout(resizing);
    resizing = window.setTimeout(() => {
      if (window.innerWidth === width) return;
      width = window.innerWidth;
      update();
    }, 120);
  });
  // Paper is light.
  window.addEventListener("beforeprint", () => {
    document.documentElement.dataset.theme = "light";
    if (theme === "dark") handle?.update();
  });
  window.addEventListener("afterprint", () => {
    document.documentElement.dataset.theme = theme;
    if (theme === "dark") handle?.update();
  });
  update();
  return store;
}
