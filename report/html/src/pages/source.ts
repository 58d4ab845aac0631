// SPDX-License-Identifier: BSD-3-Clause
// Source files, line by line.
import { type Inlined, type LineTime, inlinedAt, lineTimes } from "../calltree/line_time";
import { sparkline } from "../charts/sparkline";
import { cssColour } from "../core/colours";
import { type Child, el, replace } from "../core/dom";
import { TimeScale, functionLabel, percent, plural, printable, seconds, shortenMiddle } from "../core/format";
import { bindKeys } from "../core/keys";
import { type Model, baseName } from "../core/model";
import type { Page } from "../core/page";
import { CATEGORY_COUNT, type Weights, weights } from "../core/weights";
import { type Token, highlight, languageOf } from "../highlight/tokens";
import { categoryBar, estimateNote, functionText, searchField } from "../charts/code_parts";

const CHUNK = 200; // lines that are made at once
const HOT = 0.1; // of the file's hottest line: marked, and what n and p go to
const CHIPS = 8;
const INLINED = 6; // functions shown below a line
const SPARK_WIDTH = 84;
const ROW_HEIGHT = 19; // of CSS, for lines that are not made yet

interface Line extends LineTime {
  number: number;
  functions: string[];
  indices: number[]; // of line_time
}

interface File {
  index: number; // of sources
  file: string;
  lines: Map<number, Line>;
  self: number;
}

function filesOf(model: Model, times: LineTime[]): File[] {
  const files: File[] = model.header.sources.map((source, index) => ({
    index,
    file: source.file,
    lines: new Map(),
    self: 0,
  }));
  const fileOf = model.u32("line_file");
  model.u32("line_row").forEach((row, index) => {
    const info = model.report.lines[row];
    const file = files[fileOf[index]];
    if (!info || !file) return;
    const time = times[row];
    let line = file.lines.get(info.line);
    if (!line) {
      line = {
        number: info.line,
        functions: [],
        indices: [],
        self: 0,
        total: 0,
        parts: new Float64Array(CATEGORY_COUNT),
      };
      file.lines.set(info.line, line);
    }
    line.functions.push(info.function);
    line.indices.push(index);
    line.self += time.self;
    // Of several functions in one line one may have called another: their union is not known.
    line.total = Math.max(line.total, time.total);
    time.parts.forEach((value, c) => (line.parts[c] += value));
    file.self += time.self;
  });
  return files;
}

export const page: Page = {
  id: "source",
  title: "Source",
  hint: "Source files by time, line by line",
  hidden: (model) => model.header.sources.length === 0,
  mount(root, store) {
    const { model } = store;
    const list = el("ol", { class: "src-files", "aria-label": "Files, hottest first" });
    const filter = searchField("Filter files");
    const note = el("p", { class: "page-note" });
    const header = el("header", { class: "src-head" });
    const scroller = el("div", {
      class: "src-scroll",
      tabindex: 0,
      role: "region",
      "aria-label": "Source text",
    });
    const ruler = el("div", { class: "src-ruler", "aria-hidden": "true" });
    root.append(
      el(
        "div",
        { class: "src-page" },
        el("aside", { class: "src-side" }, filter, note, list),
        el("section", { class: "src-main" }, header, el("div", { class: "src-body" }, scroller, ruler)),
      ),
    );

    interface State {
      weights: Weights;
      file: string;
      line: number;
      theme: string | undefined;
    }
    const wanted = (): State => ({
      weights: weights(store),
      file: store.param("file") ?? "",
      line: Number(store.param("line") ?? 0) || 0,
      theme: document.documentElement.dataset.theme,
    });
    let state: State | null = null;
    let files: File[] = [];
    let shown: File | null = null;
    let inlined: (file: string, line: number) => Inlined[] = () => [];
    let observer: IntersectionObserver | null = null;
    let bodies: HTMLTableSectionElement[] = [];
    let fill: (chunk: number) => void = () => {};
    let hot: number[] = [];

    function find(name: string): File | null {
      if (name === "") return files[0] ?? null;
      return (
        files.find((file) => file.file === name) ??
        files.find((file) => file.file.endsWith(`/${name}`) || name.endsWith(`/${file.file}`)) ??
        null
      );
    }

    function makeList(): void {
      const whole = weights(store).sum;
      const query = filter.value.trim().toLowerCase();
      const rows = files.filter((file) => query === "" || file.file.toLowerCase().includes(query));
      filter.hidden = files.length < 12;
      replace(
        list,
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
      );
      const covered = files.reduce((sum, file) => sum + file.self, 0);
      replace(
        note,
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
      );
    }

    function makeHeader(file: File): void {
      const source = model.header.sources[file.index];
      const whole = weights(store).sum;
      const chips = [...file.lines.values()]
        .filter((line) => line.self > 0)
        .sort((a, b) => b.self - a.self || a.number - b.number)
        .slice(0, CHIPS);
      replace(
        header,
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
      );
    }

    function go(line: number): void {
      store.setParams({ file: shown?.file ?? null, line });
    }

    function makeText(file: File): void {
      const source = model.header.sources[file.index];
      const tokens: (Token[] | null)[] | null =
        source.text === null ? null : highlight(source.text, languageOf(file.file));
      // The text ends with its last line.
      if (tokens && tokens.length > 1 && (tokens[tokens.length - 1]?.length ?? 0) === 0) tokens.pop();
      const largest = [...file.lines.values()].reduce((a, line) => Math.max(a, line.self), 0);
      const totals = [...file.lines.values()].reduce((a, line) => Math.max(a, line.total), 0);
      const scale = new TimeScale(totals);
      hot = [...file.lines.values()]
        .filter((line) => line.self > 0 && line.self >= HOT * largest)
        .map((line) => line.number)
        .sort((a, b) => a - b);
      const last = tokens ? Math.max(tokens.length, ...file.lines.keys()) : 0;
      const numbers = tokens
        ? Array.from({ length: last }, (_, i) => i + 1)
        : [...file.lines.keys()].sort((a, b) => a - b);

      const whole = weights(store).sum;
      const time = model.header.time;
      const series = model.f32("line_time");
      const selection = store.selection.time;
      const bins: [number, number] | null =
        selection && time.bins > 0
          ? [(selection[0] - time.begin_s) / time.bin_s, (selection[1] - time.begin_s) / time.bin_s]
          : null;
      const sparkColour = cssColour("--text-3");
      const spark = (line: Line): Child => {
        if (time.bins === 0 || series.length === 0) return null;
        const values = new Float64Array(time.bins);
        for (const index of line.indices) {
          for (let b = 0; b < time.bins; ++b) values[b] += series[index * time.bins + b] || 0;
        }
        const most = values.reduce((a, b) => Math.max(a, b), 0);
        if (!(most > 0)) return null;
        const peak = time.begin_s + (values.indexOf(most) + 0.5) * time.bin_s;
        return sparkline(values, {
          width: SPARK_WIDTH,
          height: 15,
          colour: sparkColour,
          selected: bins,
          label: `Line ${line.number} over the run, most at ${peak.toFixed(1)} s`,
        });
      };
      const cell = (value: number): string => (value > 0 ? scale.format(value) : "");
      const text = (number: number): Child =>
        tokens
          ? (tokens[number - 1] ?? []).map((token) => {
              const shownText = printable(token.text.replaceAll("\t", "    "));
              return token.scope === ""
                ? shownText
                : el("span", { class: scopeClass(token.scope) }, shownText);
            })
          : (file.lines.get(number)?.functions ?? []).map((name, i) =>
              el("span", { class: "muted" }, `${i > 0 ? ", " : ""}${functionLabel(name, "native")}`),
            );
      const make = (number: number): HTMLElement[] => {
        const line = file.lines.get(number);
        const heat = line && largest > 0 ? line.self / largest : 0;
        const row = el(
          "tr",
          {
            id: `line-${number}`,
            class:
              [heat >= HOT ? "hot" : "", number === state?.line ? "target" : ""].join(" ").trim() || null,
            style: heat > 0 ? { "--heat": heat.toFixed(3) } : undefined,
          },
          el(
            "td",
            { class: "src-number" },
            el(
              "a",
              {
                href: store.href({ params: { file: file.file, line: number } }),
                "aria-label": `Line ${number}`,
              },
              String(number),
            ),
          ),
          el("td", { class: "num" }, line ? cell(line.self) : ""),
          el("td", { class: "num muted src-total" }, line ? cell(line.total) : ""),
          el(
            "td",
            { class: "src-bar" },
            line && line.self > 0 ? categoryBar(line.parts, largest, { class: "thin" }) : null,
          ),
          el("td", { class: "src-spark" }, line && line.self > 0 ? spark(line) : null),
          el("td", { class: "src-text" }, el("code", null, text(number))),
        );
        const below = inlined(file.file, number).filter(
          (entry) => whole > 0 && entry.seconds / whole >= 0.0005,
        );
        return [row, ...inlinedRows(below, whole)];
      };

      observer?.disconnect();
      bodies = [];
      const chunks = Math.ceil(numbers.length / CHUNK);
      const made = new Uint8Array(chunks);
      fill = (chunk) => {
        if (chunk < 0 || chunk >= chunks || made[chunk]) return;
        made[chunk] = 1;
        const fragment = document.createDocumentFragment();
        for (const number of numbers.slice(chunk * CHUNK, (chunk + 1) * CHUNK))
          fragment.append(...make(number));
        bodies[chunk].replaceChildren(fragment);
      };
      // Long files are made where they come into view.
      observer = new IntersectionObserver(
        (entries) => {
          for (const entry of entries) {
            if (entry.isIntersecting) fill(bodies.indexOf(entry.target as HTMLTableSectionElement));
          }
        },
        { root: scroller, rootMargin: "800px 0px" },
      );
      for (let chunk = 0; chunk < chunks; ++chunk) {
        const lines = Math.min(CHUNK, numbers.length - chunk * CHUNK);
        const body = el(
          "tbody",
          null,
          el(
            "tr",
            { "aria-hidden": "true" },
            el("td", { colspan: 6, style: { height: `${lines * ROW_HEIGHT}px` } }),
          ),
        );
        bodies.push(body);
        observer.observe(body);
      }
      const head = (title: string, help: string, name: string | null = null): HTMLElement =>
        el("th", { scope: "col", class: name }, el("span", { tip: help }, title));
      replace(
        scroller,
        el(
          "table",
          {
            class: `src-table ${time.bins === 0 ? "no-time" : ""}`.trim(),
            "aria-label": `Lines of ${printable(file.file)}`,
          },
          el(
            "colgroup",
            null,
            ["number", "self", "total", "bar", "spark", "text"].map((name) =>
              el("col", { class: `src-col-${name}` }),
            ),
          ),
          el(
            "thead",
            null,
            el(
              "tr",
              null,
              head("Line", "Line number", "src-number"),
              head(
                `Self, ${scale.unit}`,
                "The line was the innermost source line; also calls without source lines",
                "num",
              ),
              head("Total", "The line was anywhere on the call path, counted once", "num src-total"),
              head(
                "Where",
                "Python, native, system, MPI, I/O, idle, runnable; as long as the line's share of the file's hottest",
                "src-bar",
              ),
              head(
                "Over time",
                "The run from left to right; all ranks, each line by its own largest value",
                "src-spark",
              ),
              head(
                tokens ? "Source" : "Function",
                tokens ? "As it was when the report was written" : "The source text is not in the page",
              ),
            ),
          ),
          bodies,
        ),
      );
      // What is short enough is there at once: the browser's own search finds it.
      if (numbers.length <= 10 * CHUNK) for (let chunk = 0; chunk < chunks; ++chunk) fill(chunk);
      replace(
        ruler,
        hot.map((number) => {
          const position = numbers.indexOf(number) / Math.max(1, numbers.length);
          return el("span", {
            style: {
              top: `${(100 * position).toFixed(3)}%`,
              "--heat": (file.lines.get(number)!.self / largest).toFixed(3),
            },
            on: { click: () => go(number) },
          });
        }),
      );
      const table = scroller.querySelector("table");
      ruler.style.height = `min(calc(100% - 36px), ${(table?.offsetHeight ?? 0) - 30}px)`;
      lineIndex = (number) => numbers.indexOf(number);
    }
    let lineIndex: (number: number) => number = () => -1;

    function inlinedRows(entries: Inlined[], whole: number): HTMLElement[] {
      const rest = entries.slice(INLINED);
      const row = (content: Child): HTMLElement =>
        el(
          "tr",
          { class: "src-inlined" },
          ["src-number", "", "src-total", "src-bar", "src-spark"].map((name) =>
            el("td", { class: name || null }),
          ),
          el("td", { class: "src-text" }, content),
        );
      return [
        ...entries.slice(0, INLINED).map(({ frame, seconds: time }) => {
          const info = model.frame(frame);
          const line = info.function_line || info.line;
          const place = printable(model.place(info.file, line));
          return row([
            "inlined here: ",
            el(
              "span",
              { class: "fn-name", tip: printable(info.name) },
              shortenMiddle(functionText(info), 56),
            ),
            place
              ? [
                  " (",
                  info.file && model.header.sources.some((source) => source.file === info.file)
                    ? el("a", { href: store.href({ params: { file: info.file, line } }) }, place)
                    : place,
                  ")",
                ]
              : null,
            ` ${percent(time / whole)}`,
          ]);
        }),
        ...(rest.length > 0
          ? [
              row(
                `and ${rest.length} more inlined functions, each at most ${percent(rest[0].seconds / whole)}`,
              ),
            ]
          : []),
      ];
    }

    function reveal(line: number): void {
      const index = lineIndex(line);
      scroller.querySelector("tr.target")?.classList.remove("target");
      if (index < 0) return;
      fill(Math.floor(index / CHUNK));
      const row = scroller.querySelector<HTMLElement>(`#line-${line}`);
      if (!row) return;
      row.classList.add("target");
      row.scrollIntoView({ block: "center" });
    }

    // The next hot line from the one that is chosen, or from the top of what is seen.
    function jump(step: 1 | -1): void {
      if (hot.length === 0) return;
      const from = state?.line ?? 0;
      const next = step > 0 ? hot.find((line) => line > from) : hot.findLast((line) => line < from);
      go(next ?? (step > 0 ? hot[0] : hot[hot.length - 1]));
    }

    function update(): void {
      const next = wanted();
      const before = state;
      state = next;
      const fresh = before === null || before.weights !== next.weights;
      if (fresh) {
        const times = lineTimes(store);
        files = filesOf(model, times).sort((a, b) => b.self - a.self || a.index - b.index);
        inlined = inlinedAt(store);
      }
      if (!fresh && before.file === next.file && before.theme === next.theme) {
        if (before.line !== next.line) reveal(next.line);
        return;
      }
      const sameFile = before !== null && before.file === next.file;
      const top = scroller.scrollTop;
      shown = find(next.file);
      makeList();
      if (!shown) {
        header.replaceChildren();
        ruler.replaceChildren();
        hot = [];
        lineIndex = () => -1;
        replace(
          scroller,
          el(
            "p",
            { class: "empty" },
            `The page has no lines of ${shortenMiddle(printable(next.file), 90)}: they had no time, or too little.`,
          ),
        );
        return;
      }
      makeHeader(shown);
      makeText(shown);
      if (sameFile && before.line === next.line) scroller.scrollTop = top;
      else if (next.line > 0) reveal(next.line);
      else scroller.scrollTop = 0;
    }

    filter.addEventListener("input", makeList);
    const unbind = bindKeys([
      { key: "n", help: "Next hot line", run: () => jump(1) },
      { key: "p", help: "Previous hot line", run: () => jump(-1) },
      { key: "/", help: "Filter the files", run: () => (filter.hidden ? scroller.focus() : filter.select()) },
    ]);
    update();
    return {
      update,
      destroy() {
        unbind();
        observer?.disconnect();
      },
    };
  },
};

// highlight.js's scopes as a few classes of ours: "title.function" is "hl-title".
function scopeClass(scope: string): string {
  const first = scope.split(/[.:]/)[0].replace(/[^a-z_-]/g, "");
  return `hl-${first}`;
}
