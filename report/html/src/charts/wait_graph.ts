// SPDX-License-Identifier: BSD-3-Clause
// Who waits for whom: report.mpi.waits as edges between ranks.

import type { WaitCause, WaitRow } from "../core/report";

export interface Edge {
  waiter: number;
  cause: number; // kOthers: several ranks, not told apart
  wait_s: number;
  byKind: Map<string, number>;
  places: { cause: WaitCause; wait_s: number }[]; // what the cause did meanwhile, largest first
}

export const kOthers = -1;

// One edge per pair of ranks, largest first. `chosen`: of the waiting rank.
export function waitEdges(waits: readonly WaitRow[], chosen: (rank: number) => boolean = () => true): Edge[] {
  const edges = new Map<string, Edge & { byPlace: Map<string, { cause: WaitCause; wait_s: number }> }>();
  for (const row of waits) {
    if (!chosen(row.rank)) continue;
    for (const part of row.caused_by) {
      const cause = part.rank ?? kOthers;
      const key = `${row.rank} ${cause}`;
      let edge = edges.get(key);
      if (!edge) {
        edge = { waiter: row.rank, cause, wait_s: 0, byKind: new Map(), places: [], byPlace: new Map() };
        edges.set(key, edge);
      }
      edge.wait_s += part.wait_s;
      edge.byKind.set(row.kind, (edge.byKind.get(row.kind) ?? 0) + part.wait_s);
      const place = JSON.stringify([part.op, part.file, part.line, part.function]);
      const known = edge.byPlace.get(place);
      if (known) known.wait_s += part.wait_s;
      else edge.byPlace.set(place, { cause: part, wait_s: part.wait_s });
    }
  }
  return [...edges.values()]
    .map(({ byPlace, ...edge }) => ({ ...edge, places: [...byPlace.values()].sort((a, b) => b.wait_s - a.wait_s) }))
    .sort((a, b) => b.wait_s - a.wait_s || a.waiter - b.waiter || a.cause - b.cause);
}

export interface Sums {
  rank: number; // kOthers: the others together
  wait_s: number;
  of: number; // how many ranks that is
}

// The `most` ranks with the largest sums on one side of the edges, and the others together.
export function largestRanks(edges: readonly Edge[], side: "waiter" | "cause", most: number): Sums[] {
  const sums = new Map<number, number>();
  for (const edge of edges) sums.set(edge[side], (sums.get(edge[side]) ?? 0) + edge.wait_s);
  const others: Sums = { rank: kOthers, wait_s: sums.get(kOthers) ?? 0, of: 0 };
  sums.delete(kOthers);
  const sorted = [...sums].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  const kept = sorted.slice(0, most).map(([rank, wait_s]) => ({ rank, wait_s, of: 1 }));
  for (const [, wait_s] of sorted.slice(most)) {
    others.wait_s += wait_s;
    ++others.of;
  }
  return others.wait_s > 0 ? [...kept, others] : kept;
}

// The rank that waits most of those that wait for a certain rank, and whether no other rank waits for longer.
export function whoWaits(edges: readonly Edge[]): { waiter: number | undefined; isMost: boolean } {
  const certain = new Set(edges.filter((edge) => edge.cause !== kOthers).map((edge) => edge.waiter));
  const all = largestRanks(edges, "waiter", Infinity);
  const waiter = all.find(({ rank }) => certain.has(rank))?.rank;
  return { waiter, isMost: waiter === all[0]?.rank };
}

// From a rank on to the one it waited for most, from that one on to whom it waited for most, and so on: until a
// rank that waited less than half of what it made the one before wait, or one that was there already.
export function waitChain(edges: readonly Edge[], from: number): Edge[] {
  const largest = new Map<number, Edge>();
  for (const edge of edges) {
    if (edge.cause === kOthers || edge.cause === edge.waiter) continue;
    const known = largest.get(edge.waiter);
    if (!known || edge.wait_s > known.wait_s) largest.set(edge.waiter, edge);
  }
  const chain: Edge[] = [];
  const seen = new Set([from]);
  let rank = from;
  for (;;) {
    const edge = largest.get(rank);
    if (!edge || seen.has(edge.cause)) return chain;
    if (chain.length > 0 && edge.wait_s < chain[chain.length - 1].wait_s / 2) return chain;
    chain.push(edge);
    seen.add(edge.cause);
    rank = edge.cause;
  }
}

export interface Flow {
  cause: number; // place in Flows::causes
  waiter: number; // place in Flows::waiters
  wait_s: number;
}

export interface Flows {
  causes: Sums[];
  waiters: Sums[];
  flows: Flow[]; // largest first
}

// The edges between the `most` ranks with most on either side, all others as one.
export function flowsOf(edges: readonly Edge[], most: number): Flows {
  const causes = largestRanks(edges, "cause", most);
  const waiters = largestRanks(edges, "waiter", most);
  const placeOf = (sums: Sums[]) => {
    const places = new Map(sums.map((sum, place) => [sum.rank, place]));
    return (rank: number) => places.get(rank) ?? places.get(kOthers)!;
  };
  const causeOf = placeOf(causes);
  const waiterOf = placeOf(waiters);
  const flows = new Map<number, Flow>();
  for (const edge of edges) {
    const cause = causeOf(edge.cause);
    const waiter = waiterOf(edge.waiter);
    const key = cause * waiters.length + waiter;
    const known = flows.get(key);
    if (known) known.wait_s += edge.wait_s;
    else flows.set(key, { cause, waiter, wait_s: edge.wait_s });
  }
  return { causes, waiters, flows: [...flows.values()].sort((a, b) => b.wait_s - a.wait_s) };
}
