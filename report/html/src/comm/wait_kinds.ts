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

export interface WaitSum {
  kind: WaitKind;
  wait_s: number;
  count: number;
  ranks: number; // that waited
}

// Of the ranks that `mask` has; null: of all. With what the table of waits leaves out.
export function waitSums(model: Model, mask: Uint8Array | null): WaitSum[] {
  const kinds = model.header.wait_kinds;
  const times = model.f32("rank_wait_kind_s");
  const counts = model.u32("rank_wait_kind_count");
  const sums = kinds.map((kind): WaitSum => ({ kind, wait_s: 0, count: 0, ranks: 0 }));
  for (let rank = 0, at = 0; rank < model.rankCount; ++rank)
    for (const sum of sums) {
      if ((!mask || mask[rank]) && (counts[at] > 0 || times[at] > 0)) {
        sum.wait_s += times[at];
        sum.count += counts[at];
        ++sum.ranks;
      }
      ++at;
    }
  return sums.filter((sum) => sum.ranks > 0).sort((a, b) => b.wait_s - a.wait_s);
}

export function waitKindsTable(model: Model, mask: Uint8Array | null): HTMLElement {
  const kinds = waitSums(model, mask);
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
        value: (row) => row.ranks,
        cell: (row) => count(row.ranks),
      },
    ] satisfies Column<WaitSum>[],
    kinds,
    { label: "Waiting by kind", sort: { column: "time", descending: true }, empty: "No waiting was found." },
  );
}
