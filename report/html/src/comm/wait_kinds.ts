// SPDX-License-Identifier: BSD-3-Clause
// The table of waiting by kind.
import { el, miniBar } from "../core/dom";
import { type Column, table } from "../core/table";
import { count, percent, printable, seconds } from "../core/format";
import type { Model } from "../core/model";
import type { WaitKind } from "../core/report";

const WAIT_TITLES: Record<WaitKind, string> = {
  late_sender: "Late sender",
  late_receiver: "Late receiver",
  wait_at_barrier: "Wait at barrier",
  wait_at_nxn: "Wait at all-to-all",
  late_broadcast: "Late broadcast",
  early_reduce: "Early reduce",
  early_scan: "Early scan",
};
const WAIT_HELP: Record<WaitKind, string> = {
  late_sender: "The receiver waited until the message was sent.",
  late_receiver: "The sender waited until the message was received.",
  wait_at_barrier: "A member of a barrier waited for the last one.",
  wait_at_nxn: "All depend on all (allreduce, alltoall, allgather…): a member waited for the last one.",
  late_broadcast: "All but the root waited for the root.",
  early_reduce: "The root waited for the others.",
  early_scan: "A rank waited for those of lower number.",
};

// Of the ranks that `mask` has; null: of all.
export function waitKindsTable(model: Model, mask: Uint8Array | null): HTMLElement {
  const chosen = (rank: number) => !mask || mask[model.rankIndex(rank)] === 1;
  const byKind = new Map<WaitKind, { wait_s: number; count: number; ranks: Set<number> }>();
  for (const row of model.report.mpi.waits ?? []) {
    if (!chosen(row.rank)) continue;
    const known = byKind.get(row.kind) ?? { wait_s: 0, count: 0, ranks: new Set<number>() };
    known.wait_s += row.wait_s;
    known.count += row.count;
    known.ranks.add(row.rank);
    byKind.set(row.kind, known);
  }
  const kinds = [...byKind].map(([kind, sums]) => ({ kind, ...sums })).sort((a, b) => b.wait_s - a.wait_s);
  const most = kinds[0]?.wait_s ?? 0;
  let allRanks = 0;
  model.f32("rank_recorded_s").forEach((recorded, i) => {
    if (!mask || mask[i]) allRanks += recorded || 0;
  });
  return table(
    [
      {
        id: "kind",
        title: "Kind",
        class: "nowrap",
        value: (row) => WAIT_TITLES[row.kind],
        cell: (row) =>
          el("span", { tip: WAIT_HELP[row.kind], tabindex: 0 }, WAIT_TITLES[row.kind] ?? printable(row.kind)),
      },
      {
        id: "time",
        title: "Time",
        numeric: true,
        help: "Of all ranks together",
        value: (row) => row.wait_s,
        cell: (row) => seconds(row.wait_s),
      },
      { id: "bar", title: "", cell: (row) => miniBar(most > 0 ? row.wait_s / most : 0, "var(--cat-mpi)") },
      {
        id: "share",
        title: "of rank time",
        numeric: true,
        help: "Of the time of all these ranks",
        value: (row) => row.wait_s,
        cell: (row) => percent(allRanks > 0 ? row.wait_s / allRanks : null),
      },
      { id: "count", title: "Waits", numeric: true, value: (row) => row.count, cell: (row) => count(row.count) },
      {
        id: "ranks",
        title: "Ranks",
        numeric: true,
        value: (row) => row.ranks.size,
        cell: (row) => count(row.ranks.size),
      },
    ] satisfies Column<(typeof kinds)[number]>[],
    kinds,
    { label: "Waiting by kind", sort: { column: "time", descending: true }, empty: "No waiting was found." },
  );
}
