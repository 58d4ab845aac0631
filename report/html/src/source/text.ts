// SPDX-License-Identifier: BSD-3-Clause
// The lines of a file with their times. Long files are made in chunks, where they come into view.
import type { Inlined } from "../calltree/line_time";
import { categoryBar, functionText } from "../charts/code_parts";
import { sparkline } from "../charts/sparkline";
import { cssColour } from "../core/colours";
import { type Child, el } from "../core/dom";
import { TimeScale, bytes, functionLabel, percent, printable, shortenMiddle } from "../core/format";
import type { MemoryLine } from "../core/report";
import type { Store } from "../core/selection";
import { weights } from "../core/weights";
import { type Token, highlight, languageOf } from "../highlight/tokens";
import { heldOfFile, type Line, type SourceFile } from "./files";

const CHUNK = 200; // lines that are made at once
const HOT = 0.1; // of the file's hottest line: marked, and what n and p go to
const INLINED = 6; // functions shown below a line
const SPARK_WIDTH = 84;
const ROW_HEIGHT = 19; // of CSS, for lines that are not made yet

export class SourceText {
  readonly hot: number[]; // lines, ascending
  readonly table: HTMLElement;
  private readonly tokens: (Token[] | null)[] | null; // by line; null: there is no text
  private readonly numbers: number[]; // of the lines that are shown
  private readonly largest: number; // time of a line itself
  private readonly scale: TimeScale;
  private readonly whole: number; // all selected time
  private readonly held: Map<number, MemoryLine[]>; // by line
  private readonly mostHeld: number;
  private readonly bodies: HTMLTableSectionElement[] = [];
  private readonly made: Uint8Array; // by chunk
  private readonly observer: IntersectionObserver;

  constructor(
    private readonly store: Store,
    private readonly file: SourceFile,
    private readonly inlined: (file: string, line: number) => Inlined[],
    private readonly target: number, // line
    private readonly scroller: HTMLElement,
  ) {
    const source = store.model.header.sources[file.index];
    const tokens = source.text === null ? null : highlight(source.text, languageOf(file.file));
    // The text ends with its last line.
    if (tokens && tokens.length > 1 && (tokens[tokens.length - 1]?.length ?? 0) === 0) tokens.pop();
    this.tokens = tokens;
    const lines = [...file.lines.values()];
    const largest = (this.largest = lines.reduce((a, line) => Math.max(a, line.self), 0));
    this.scale = new TimeScale(lines.reduce((a, line) => Math.max(a, line.total), 0));
    this.hot = lines
      .filter((line) => line.self > 0 && line.self >= HOT * largest)
      .map((line) => line.number)
      .sort((a, b) => a - b);
    const last = tokens ? Math.max(tokens.length, ...file.lines.keys()) : 0;
    this.numbers = tokens
      ? Array.from({ length: last }, (_, i) => i + 1)
      : [...file.lines.keys()].sort((a, b) => a - b);
    this.whole = weights(store).sum;
    this.held = heldOfFile(store.model, file.file);
    this.mostHeld = [...this.held.values()].reduce((most, rows) => Math.max(most, sumOf(rows, "node_peak_bytes")), 0);
    this.made = new Uint8Array(Math.ceil(this.numbers.length / CHUNK));
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (entry.isIntersecting) this.fill(this.bodies.indexOf(entry.target as HTMLTableSectionElement));
        }
      },
      { root: scroller, rootMargin: "800px 0px" },
    );
    this.makeBodies();
    this.table = this.makeTable();
  }

  destroy(): void {
    this.observer.disconnect();
  }

  // Makes what is short enough at once, so that the browser's own search finds it.
  fillIfShort(): void {
    if (this.numbers.length <= 10 * CHUNK) for (let chunk = 0; chunk < this.made.length; ++chunk) this.fill(chunk);
  }

  // Marks the line and scrolls to it.
  reveal(line: number): void {
    const index = this.numbers.indexOf(line);
    this.scroller.querySelector("tr.target")?.classList.remove("target");
    if (index < 0) return;
    this.fill(Math.floor(index / CHUNK));
    const row = this.scroller.querySelector<HTMLElement>(`#line-${line}`);
    if (!row) return;
    row.classList.add("target");
    row.scrollIntoView({ block: "center" });
  }

  // The hot lines as marks beside the text, as far down as they are in the file.
  marks(go: (line: number) => void): Child {
    return this.hot.map((number) => {
      const position = this.numbers.indexOf(number) / Math.max(1, this.numbers.length);
      return el("span", {
        style: {
          top: `${(100 * position).toFixed(3)}%`,
          "--heat": (this.file.lines.get(number)!.self / this.largest).toFixed(3),
        },
        on: { click: () => go(number) },
      });
    });
  }

  private fill(chunk: number): void {
    if (chunk < 0 || chunk >= this.made.length || this.made[chunk]) return;
    this.made[chunk] = 1;
    const fragment = document.createDocumentFragment();
    for (const number of this.numbers.slice(chunk * CHUNK, (chunk + 1) * CHUNK)) fragment.append(...this.rows(number));
    this.bodies[chunk].replaceChildren(fragment);
  }

  // Empty bodies of the height that their lines will have.
  private makeBodies(): void {
    for (let chunk = 0; chunk < this.made.length; ++chunk) {
      const lines = Math.min(CHUNK, this.numbers.length - chunk * CHUNK);
      const body = el(
        "tbody",
        null,
        el(
          "tr",
          { "aria-hidden": "true" },
          el("td", { colspan: 7, style: { height: `${lines * ROW_HEIGHT}px` } }),
        ),
      );
      this.bodies.push(body);
      this.observer.observe(body);
    }
  }

  private makeTable(): HTMLElement {
    const head = (title: string, help: string, name: string | null = null): HTMLElement =>
      el("th", { scope: "col", class: name }, el("span", { tip: help }, title));
    return el(
      "table",
      {
        class: `src-table ${this.store.model.header.time.bins === 0 ? "no-time" : ""} ${this.held.size === 0 ? "no-held" : ""}`.trim(),
        "aria-label": `Lines of ${printable(this.file.file)}`,
      },
      el(
        "colgroup",
        null,
        ["number", "self", "total", "bar", "spark", "held", "text"].map((name) =>
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
            `Self, ${this.scale.unit}`,
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
          head("Held", "In memory, when nodes held the most; of the whole run", "num src-held"),
          head(
            this.tokens ? "Source" : "Function",
            this.tokens ? "As it was when the report was written" : "The source text is not in the page",
          ),
        ),
      ),
      this.bodies,
    );
  }

  private cell(value: number): string {
    return value > 0 ? this.scale.format(value) : "";
  }

  private heldCell(number: number): Child {
    const rows = this.held.get(number);
    if (!rows) return null;
    const held = sumOf(rows, "node_peak_bytes");
    const tip = (["node_peak_bytes", "rank_peak_bytes", "live_end_bytes", "alloc_bytes", "copy_bytes"] as const)
      .map((what) => `${HELD_TITLES[what]} ${bytes(sumOf(rows, what))}`)
      .join(", ");
    const heat = this.mostHeld > 0 ? held / this.mostHeld : 0;
    return el("span", { tip, class: heat >= HOT ? "held-hot" : null }, held > 0 ? bytes(held) : "·");
  }

  private spark(line: Line): Child {
    const { time } = this.store.model.header;
    const series = this.store.model.f32("line_time");
    const selection = this.store.selection.time;
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
        colour: cssColour("--text-3"),
        selected: selection ? [(selection[0] - time.begin_s) / time.bin_s, (selection[1] - time.begin_s) / time.bin_s] : null,
        label: `Line ${line.number} over the run, most at ${peak.toFixed(1)} s`,
      });
  }

  private text(number: number): Child {
    return this.tokens
      ? (this.tokens[number - 1] ?? []).map((token) => {
          const shownText = printable(token.text.replaceAll("\t", "    "));
          return token.scope === ""
            ? shownText
            : el("span", { class: scopeClass(token.scope) }, shownText);
        })
      : (this.file.lines.get(number)?.functions ?? []).map((name, i) =>
          el("span", { class: "muted" }, `${i > 0 ? ", " : ""}${functionLabel(name, "native")}`),
        );
  }

  // The row of a line, and those of the functions that were inlined there.
  private rows(number: number): HTMLElement[] {
      const line = this.file.lines.get(number);
      const heat = line && this.largest > 0 ? line.self / this.largest : 0;
      const row = el(
        "tr",
        {
          id: `line-${number}`,
          class:
            [heat >= HOT ? "hot" : "", number === this.target ? "target" : ""].join(" ").trim() || null,
          style: heat > 0 ? { "--heat": heat.toFixed(3) } : undefined,
        },
        el(
          "td",
          { class: "src-number" },
          el(
            "a",
            {
              href: this.store.href({ params: { file: this.file.file, line: number } }),
              "aria-label": `Line ${number}`,
              title: line?.approximate
                ? "this line or one behind it, in code that Python's JIT has made"
                : undefined,
            },
            line?.approximate ? `~${number}` : String(number),
          ),
        ),
        el("td", { class: "num" }, line ? this.cell(line.self) : ""),
        el("td", { class: "num muted src-total" }, line ? this.cell(line.total) : ""),
        el(
          "td",
          { class: "src-bar" },
          line && line.self > 0 ? categoryBar(line.parts, this.largest, { class: "thin" }) : null,
        ),
        el("td", { class: "src-spark" }, line && line.self > 0 ? this.spark(line) : null),
        el("td", { class: "num src-held" }, this.heldCell(number)),
        el("td", { class: "src-text" }, el("code", null, this.text(number))),
      );
      const below = this.inlined(this.file.file, number).filter(
        (entry) => this.whole > 0 && entry.seconds / this.whole >= 0.0005,
      );
      return [row, ...inlinedRows(this.store, below, this.whole)];
  }
}

const HELD_TITLES = {
  node_peak_bytes: "at nodes' peaks",
  rank_peak_bytes: "at ranks' peaks",
  live_end_bytes: "at the end",
  alloc_bytes: "allocated",
  copy_bytes: "copied",
};

function sumOf(rows: readonly MemoryLine[], what: keyof typeof HELD_TITLES): number {
  return rows.reduce((sum, row) => sum + row[what], 0);
}

// The functions that were inlined at a line, below it.
function inlinedRows(store: Store, entries: Inlined[], whole: number): HTMLElement[] {
  const { model } = store;
  const rest = entries.slice(INLINED);
  const row = (content: Child): HTMLElement =>
    el(
      "tr",
      { class: "src-inlined" },
      ["src-number", "", "src-total", "src-bar", "src-spark", "src-held"].map((name) =>
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

// highlight.js's scopes as a few classes of ours: "title.function" is "hl-title".
function scopeClass(scope: string): string {
  const first = scope.split(/[.:]/)[0].replace(/[^a-z_-]/g, "");
  return `hl-${first}`;
}
