// SPDX-License-Identifier: BSD-3-Clause
// What the matrix shows: who sends how much to whom, between ranks or nodes, and which part of it.
import { type Cells, denseMatrix, type Matrix, nodesOfBins } from "../charts/matrix";
import { clamp, type Span } from "../charts/numbers";
import { kNoNode } from "../charts/rows";
import { bytes, count, plural, printable } from "../core/format";
import type { Model } from "../core/model";
import { RankSet, type Store } from "../core/selection";

export type Moved = "addressed" | "collectives";

// How much the matrix that is shown leaves out.
export function leftOutText(
  moved: Moved,
  addressed: Pick<Cells, "bytes">,
  collective: Pick<Cells, "bytes">,
  rows: readonly { op: string; bytes?: number }[] | undefined,
): string {
  const sum = (of: ArrayLike<number>) => Array.from(of).reduce((a, b) => a + b, 0);
  if (moved === "collectives")
    return `What collectives move between ranks is an estimate: the library may divide it otherwise. Left out: ${bytes(sum(addressed.bytes))} addressed to a rank.`;
  const all = sum(collective.bytes);
  if (!(all > 0)) return "";
  const most = [...(rows ?? [])].sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0))[0];
  return `Not shown: about ${bytes(all)} moved by collective operations${most ? `, most of it by ${printable(most.op)}` : ""}.`;
}

export class MatrixContent {
  readonly model: Model;
  readonly addressed: Cells;
  readonly collective: Cells;
  readonly binRanks: number; // ranks of a group; 1: each rank by itself
  readonly binNodes: Uint32Array;
  readonly mixed: boolean; // groups have ranks of several nodes
  private readonly made = new Map<string, Matrix>();

  constructor(readonly store: Store) {
    const { model } = store;
    this.model = model;
    this.addressed = {
      source: model.u32("matrix_source"),
      destination: model.u32("matrix_destination"),
      messages: model.f64("matrix_messages"),
      bytes: model.f64("matrix_bytes"),
    };
    const moved = model.f64("collective_bytes");
    this.collective = {
      source: model.u32("collective_source"),
      destination: model.u32("collective_destination"),
      messages: new Float64Array(moved.length),
      bytes: moved,
    };
    this.binRanks = model.header.matrix.bin_ranks;
    const { nodes, mixed } = nodesOfBins(model.i32("rank_number"), model.u32("rank_node"), this.binRanks);
    this.binNodes = nodes;
    this.mixed = mixed;
  }

  get level(): "ranks" | "nodes" {
    return this.store.param("level") === "nodes" && !this.mixed && this.model.nodeCount > 1 ? "nodes" : "ranks";
  }
  get moved(): Moved {
    if (this.collective.source.length === 0) return "addressed";
    return this.addressed.source.length === 0 || this.store.param("moved") === "collectives" ? "collectives" : "addressed";
  }
  get cells(): Cells {
    return this.moved === "collectives" ? this.collective : this.addressed;
  }
  get measure(): "bytes" | "messages" {
    return this.store.param("of") === "messages" && this.moved === "addressed" ? "messages" : "bytes";
  }
  get scale(): "log" | "linear" {
    return this.store.param("scale") === "linear" ? "linear" : "log";
  }

  get matrix(): Matrix {
    const { level } = this;
    const key = `${level} ${this.moved}`;
    const known = this.made.get(key);
    if (known) return known;
    const made =
      level === "nodes"
        ? denseMatrix(this.cells, this.model.nodeCount, (bin) =>
            bin < this.binNodes.length && this.binNodes[bin] !== kNoNode ? this.binNodes[bin] : -1,
          )
        : denseMatrix(this.cells, this.sideOfRanks(), (bin) => bin);
    this.made.set(key, made);
    return made;
  }

  private sideOfRanks(): number {
    let side = this.binNodes.length;
    for (const cells of [this.addressed, this.collective])
      for (let i = 0; i < cells.source.length; ++i) side = Math.max(side, cells.source[i] + 1, cells.destination[i] + 1);
    return Math.min(side, 4096);
  }

  get values(): Float64Array {
    return this.measure === "bytes" ? this.matrix.bytes : this.matrix.messages;
  }

  // The part that is shown: sources, destinations.
  get view(): [Span, Span] {
    const { side } = this.matrix;
    const match = /^(\d+)_(\d+)_(\d+)_(\d+)$/.exec(this.store.param("m") ?? "");
    if (match) {
      const [a, b, c, d] = match.slice(1).map((part) => clamp(Number(part), 0, side));
      if (b > a && d > c)
        return [
          [a, b],
          [c, d],
        ];
    }
    return [
      [0, side],
      [0, side],
    ];
  }

  zoom(view: [Span, Span] | null): void {
    this.store.setParams({ m: view ? view.flat().join("_") : null });
  }

  format(value: number): string {
    return this.measure === "bytes" ? bytes(value) : count(value);
  }

  name(place: number, short = false): string {
    if (this.level === "nodes") return printable(this.model.nodes[place]?.name ?? `node ${place}`);
    const first = place * this.binRanks;
    const text = this.binRanks === 1 ? String(first) : `${first}\u2013${first + this.binRanks - 1}`;
    return short ? text : `${this.binRanks === 1 ? "rank" : "ranks"} ${text}`;
  }

  selectPlaces(places: readonly number[]): void {
    if (this.level === "nodes") this.store.select({ nodes: [...new Set(places)].sort((a, b) => a - b), ranks: null });
    else
      this.store.select({
        ranks: RankSet.ofRanges(
          places.map((place) => [place * this.binRanks, (place + 1) * this.binRanks - 1] as const),
        ),
        nodes: null,
      });
  }

  // By place: 1 where some of its ranks are selected; null: no ranks are selected.
  chosen(): Uint8Array | null {
    const mask = this.store.rankMask();
    if (!mask) return null;
    const chosen = new Uint8Array(this.matrix.side);
    const numbers = this.model.i32("rank_number");
    const nodes = this.model.u32("rank_node");
    for (let i = 0; i < mask.length; ++i)
      if (mask[i]) chosen[this.level === "nodes" ? nodes[i] : Math.floor(numbers[i] / this.binRanks)] = 1;
    return chosen;
  }

  // What is said about a source and a destination.
  describe([row, column]: [number, number]): string {
    const at = row * this.matrix.side + column;
    const [sent, messages] = [this.matrix.bytes[at], this.matrix.messages[at]];
    const who = `${this.name(row)} \u2192 ${this.name(column)}`;
    return messages === 0 && sent === 0
      ? `${who}: nothing`
      : this.moved === "collectives"
        ? `${who}: about ${bytes(sent)}`
        : `${who}: ${bytes(sent)} in ${plural(messages, "message")}, ${bytes(messages > 0 ? sent / messages : 0)} each`;
  }
}
