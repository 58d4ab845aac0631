// SPDX-License-Identifier: BSD-3-Clause
// Call paths by what they hold in memory, as a flame chart: at the peaks, at the end, or allocated.
import { type NodeLook, shade } from "../charts/canvas_parts";
import { functionText } from "../charts/code_parts";
import { FlameChart } from "../charts/flame";
import type { FlameBox, FlameSource } from "../charts/flame_layout";
import { KIND_TITLES, type Rgb, cssColour, kindRgb, mix, rgb } from "../core/colours";
import { type Child, choice, el, replace } from "../core/dom";
import { bytes, percent, plural, printable, shortenMiddle } from "../core/format";
import { KIND_NAMES, type KindName, type Model, NONE } from "../core/model";
import type { Store } from "../core/selection";

export const AMOUNTS = [
  ["node_peak", "At nodes' peaks"],
  ["rank_peak", "At ranks' peaks"],
  ["live", "At the end"],
  ["alloc", "Allocated"],
] as const;
export type Amount = (typeof AMOUNTS)[number][0];

enum Fold {
  none = 0,
  calls = 1,
  imports = 2,
}

// Node 0 stands for all, node n for row n - 1.
export class HeldTree implements FlameSource {
  private readonly values: Float64Array;
  private readonly below: number[][];

  constructor(
    private readonly model: Model,
    amount: Amount,
  ) {
    const own = model.f32(`held_${amount}_bytes`);
    this.values = new Float64Array(own.length + 1);
    this.below = Array.from({ length: own.length + 1 }, () => []);
    own.forEach((value, row) => {
      this.values[row + 1] = value;
      const above = this.parent(row + 1);
      this.below[above].push(row + 1);
      if (above === 0) this.values[0] += value;
    });
    for (const children of this.below) children.sort((a, b) => this.values[b] - this.values[a] || a - b);
  }

  get size(): number {
    return this.values.length;
  }
  parent(node: number): number {
    const above = node === 0 ? NONE : this.model.u32("held_parent")[node - 1];
    return above === NONE ? 0 : above + 1;
  }
  children(node: number): ArrayLike<number> {
    return this.below[node];
  }
  value(node: number): number {
    return this.values[node];
  }

  kind(node: number): KindName {
    return KIND_NAMES[this.model.u8("held_kind")[node - 1]];
  }
  name(node: number): string {
    return this.text("name", node) ?? "";
  }
  label(node: number): string {
    if (node === 0) return `All ${bytes(this.value(0))}`;
    const fold = this.model.u8("held_fold")[node - 1];
    if (fold === Fold.imports) return `import ${printable(this.name(node))}`;
    if (fold === Fold.calls) return `${printable(this.name(node))} …`;
    return functionText({ name: this.name(node), kind: this.kind(node) });
  }
  // "train.py:31", or the library.
  place(node: number): string {
    if (node === 0) return "";
    const file = this.text("file", node);
    return printable(file ? this.model.place(file, this.model.u32("held_line")[node - 1]) : (this.text("module", node) ?? ""));
  }

  private text(what: "name" | "file" | "module", node: number): string | null {
    return this.model.text(this.model.u32(`held_${what}_string`)[node - 1]);
  }
}

function lookOf(tree: HeldTree): NodeLook {
  const card = rgb(cssColour("--card"));
  const kinds = kindRgb();
  const root: Rgb = mix(rgb(cssColour("--line-2")), card, 0.3);
  return {
    label: (node) => tree.label(node),
    hatched: () => false,
    matched: () => true,
    colour: (node) => (node === 0 ? root : shade(kinds[KIND_NAMES.indexOf(tree.kind(node))], tree.name(node), card)),
  };
}

function tipOf(tree: HeldTree, box: FlameBox): Child {
  const { node } = box;
  if (box.filler > 0) return el("div", { class: "tree-tip" }, `${plural(box.filler, "row")} too small to draw. Click to zoom in.`);
  const line = (name: string, text: string): Child => (text ? [el("dt", null, name), el("dd", null, text)] : null);
  return el(
    "div",
    { class: "tree-tip" },
    el("strong", null, node === 0 ? "All call paths" : shortenMiddle(printable(tree.name(node)), 160)),
    el(
      "dl",
      null,
      line("With what it calls", `${bytes(tree.value(node))}, ${percent(tree.value(0) > 0 ? tree.value(node) / tree.value(0) : 0)}`),
      node === 0 ? null : line("Kind", KIND_TITLES[tree.kind(node)]),
      line("At", shortenMiddle(tree.place(node), 60)),
    ),
  );
}

export class HeldTreePart {
  readonly root = el("div", { class: "held-tree" });
  private readonly tools = el("div", { class: "toolbar tools" });
  private readonly status = el("p", { class: "tree-status", "aria-live": "polite" });
  private readonly chart: FlameChart;
  private tree: HeldTree;

  constructor(private readonly store: Store) {
    this.tree = new HeldTree(store.model, this.amount());
    this.chart = new FlameChart({
      label: "Call paths by what they hold",
      zoom: (node) => store.setParam("at", node === 0 ? null : node, { replace: false }),
      out: () => {
        const above = this.tree.parent(this.zoomed());
        store.setParam("at", above === 0 ? null : above, { replace: false });
      },
      tip: (box) => tipOf(this.tree, box),
      at: (box) => replace(this.status, this.statusOf(box)),
    });
    this.root.append(this.tools, el("div", { class: "tree-holder icicle-view" }, this.chart.root), this.status);
    this.update();
  }

  update(): void {
    const { store } = this;
    const amount = this.amount();
    this.tree = new HeldTree(store.model, amount);
    if (!this.tools.contains(document.activeElement))
      replace(
        this.tools,
        choice("Bytes", AMOUNTS, amount, (value) => store.setParam("amount", value === AMOUNTS[0][0] ? null : value)),
      );
    this.chart.show(this.tree, this.zoomed(), lookOf(this.tree));
    replace(this.status, this.statusOf(null));
  }

  destroy(): void {
    this.chart.destroy();
  }

  private amount(): Amount {
    const wanted = this.store.param("amount");
    return AMOUNTS.find(([id]) => id === wanted)?.[0] ?? AMOUNTS[0][0];
  }

  // The node that the hash names; 0: all.
  private zoomed(): number {
    const node = Number(this.store.param("at") ?? 0);
    return Number.isInteger(node) && node > 0 && node < this.tree.size ? node : 0;
  }

  private statusOf(box: FlameBox | null): Child {
    const { tree } = this;
    if (!(tree.value(0) > 0)) return "Nothing was held then.";
    if (!box || box.filler > 0) return "Below each function are those that it called. Click to zoom.";
    const above = tree.value(tree.parent(box.node));
    return [
      el("strong", null, shortenMiddle(tree.label(box.node), 70)),
      el("span", { class: "muted" }, shortenMiddle(tree.place(box.node), 50)),
      `${bytes(tree.value(box.node))}, ${percent(tree.value(box.node) / tree.value(0))} of all`,
      box.node === 0 ? null : el("span", { class: "muted" }, `${percent(above > 0 ? tree.value(box.node) / above : 0)} of its caller`),
    ];
  }
}
