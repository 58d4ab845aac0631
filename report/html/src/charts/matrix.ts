// SPDX-License-Identifier: BSD-3-Clause
// The communication matrix: between ranks (or ranges of them) or between nodes.
import { kNoNode } from "./rows";
import type { Numbers } from "./numbers";

export interface Cells {
  source: Numbers;
  destination: Numbers;
  messages: Numbers;
  bytes: Numbers;
}

export interface Matrix {
  side: number;
  bytes: Float64Array; // side x side, by source
  messages: Float64Array;
}

// `place`: of a source or destination; -1: left out.
export function denseMatrix(cells: Cells, side: number, place: (bin: number) => number): Matrix {
  const matrix: Matrix = { side, bytes: new Float64Array(side * side), messages: new Float64Array(side * side) };
  for (let i = 0; i < cells.source.length; ++i) {
    const row = place(cells.source[i]);
    const column = place(cells.destination[i]);
    if (row < 0 || column < 0 || row >= side || column >= side) continue;
    matrix.bytes[row * side + column] += cells.bytes[i];
    matrix.messages[row * side + column] += cells.messages[i];
  }
  return matrix;
}

// The node of all ranks of each bin; kNoNode: of several, or no rank of it is in the run.
export function nodesOfBins(
  rankNumbers: Numbers,
  rankNodes: Numbers,
  binRanks: number,
): { nodes: Uint32Array; mixed: boolean } {
  let last = -1;
  for (let i = 0; i < rankNumbers.length; ++i) last = Math.max(last, rankNumbers[i]);
  const nodes = new Uint32Array(Math.floor(last / binRanks) + 1).fill(kNoNode);
  const seen = new Uint8Array(nodes.length);
  let mixed = false;
  for (let i = 0; i < rankNumbers.length; ++i) {
    const bin = Math.floor(rankNumbers[i] / binRanks);
    if (seen[bin] && nodes[bin] !== rankNodes[i]) {
      nodes[bin] = kNoNode;
      mixed = true;
    } else if (!seen[bin]) nodes[bin] = rankNodes[i];
    seen[bin] = 1;
  }
  return { nodes, mixed };
}

export interface Partner {
  place: number;
  bytes: number;
  messages: number;
  partners: number; // how many it sends to
  largest: number; // the partner with most bytes
}

// What each source sends (or each destination receives), most bytes first.
export function partnersOf(matrix: Matrix, side: "source" | "destination"): Partner[] {
  const n = matrix.side;
  const all: Partner[] = [];
  for (let place = 0; place < n; ++place) {
    const one: Partner = { place, bytes: 0, messages: 0, partners: 0, largest: -1 };
    let most = -1;
    for (let other = 0; other < n; ++other) {
      const at = side === "source" ? place * n + other : other * n + place;
      const bytes = matrix.bytes[at];
      const messages = matrix.messages[at];
      if (messages === 0 && bytes === 0) continue;
      one.bytes += bytes;
      one.messages += messages;
      ++one.partners;
      if (bytes > most) {
        most = bytes;
        one.largest = other;
      }
    }
    if (one.partners > 0) all.push(one);
  }
  return all.sort((a, b) => b.bytes - a.bytes || b.messages - a.messages || a.place - b.place);
}
