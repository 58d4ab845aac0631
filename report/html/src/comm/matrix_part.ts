// SPDX-License-Identifier: BSD-3-Clause
// The matrix, and who sends most: its choices, and the chart and the senders side by side.
import { choice, el, ofWholeRun, replace, section } from "../core/dom";
import { bindKeys } from "../core/keys";
import type { Store } from "../core/selection";
import { MatrixChart } from "./matrix_chart";
import { leftOutText, MatrixContent, type Moved } from "./matrix_content";
import { type Part } from "./parts";
import { senders } from "./senders";

export class MatrixPart implements Part {
  private readonly content: MatrixContent;
  private readonly chart: MatrixChart;
  private readonly legend = el("div", { class: "chart-legend" });
  private readonly out = el("button", { type: "button", on: { click: () => this.content.zoom(null) } }, "Whole matrix");
  private readonly leftOut = el("p", { class: "page-note" });
  private readonly measures: HTMLElement;
  private readonly levelNote = el("span", { class: "note" });
  private readonly side: HTMLElement;
  private shownSenders = "";
  private readonly unbind = bindKeys([
    {
      key: "m",
      help: "To the matrix; arrow keys move, Enter selects, + zooms in, Escape out",
      run: () => this.chart.surface.root.focus(),
    },
  ]);

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    this.content = new MatrixContent(store);
    const { model } = store;
    const levels: (readonly ["ranks" | "nodes", string])[] = [
      ["ranks", this.content.binRanks > 1 ? `Groups of ${this.content.binRanks} ranks` : "Ranks"],
    ];
    if (!this.content.mixed && model.nodeCount > 1) levels.push(["nodes", "Nodes"]);
    this.measures = choice<"bytes" | "messages">(
      "Value",
      [
        ["bytes", "Bytes"],
        ["messages", "Messages"],
      ],
      this.content.measure,
      (value) => this.set({ of: value === "bytes" ? null : value }),
    );
    const tools = el(
      "div",
      { class: "chart-tools" },
      levels.length > 1
        ? choice("Level", levels, this.content.level, (value) => this.set({ level: value === "ranks" ? null : value, m: null }))
        : null,
      this.content.addressed.source.length > 0 && this.content.collective.source.length > 0
        ? choice<Moved>(
            "Moved by",
            [
              ["addressed", "Addressed to a rank"],
              ["collectives", "Moved by collectives"],
            ],
            this.content.moved,
            (value) => this.set({ moved: value === "addressed" ? null : value }),
          )
        : null,
      this.measures,
      choice<"log" | "linear">(
        "Scale",
        [
          ["log", "Logarithmic"],
          ["linear", "Linear"],
        ],
        this.content.scale,
        (value) => this.set({ scale: value === "log" ? null : value }),
      ),
      this.legend,
      this.levelNote,
      el("span", { class: "gap" }),
      this.out,
    );
    const picture = el("div");
    this.side = el("div", { class: "chart-part" });
    root.append(
      section(
        "Who sends to whom",
        { class: "chart-card", aside: [ofWholeRun(), " \u00b7 drag zooms in, double click out, a click selects both"] },
        tools,
        this.leftOut,
        el("div", { class: "matrix-columns" }, picture, this.side),
      ),
    );
    this.chart = new MatrixChart(picture, this.content);
  }

  destroy(): void {
    this.unbind();
    this.chart.surface.destroy();
  }

  update(): void {
    this.chart.update();
    const { side } = this.content.matrix;
    this.out.disabled = this.content.view.every(([from, to]) => from === 0 && to === side);
    replace(
      this.levelNote,
      this.content.mixed && this.content.binRanks > 1 && this.content.model.nodeCount > 1
        ? "nodes cannot be told apart in groups of ranks"
        : null,
    );
    this.measures.hidden = this.content.moved === "collectives"; // of which messages are not known
    replace(this.leftOut, leftOutText(this.content.moved, this.content.addressed, this.content.collective, this.content.model.report.mpi.collectives));
    replace(this.legend, this.chart.legend());
    this.drawSenders();
    this.chart.redraw();
  }

  private set(values: Record<string, string | null>): void {
    this.store.setParams(values);
  }

  private drawSenders(): void {
    const { level, measure, moved } = this.content;
    const key = `${level} ${measure} ${moved}`;
    if (key === this.shownSenders) return;
    this.shownSenders = key;
    replace(this.side, senders(this.content));
  }
}
