// SPDX-License-Identifier: BSD-3-Clause
// torch.distributed where only samples tell of it. Recorded calls are on the page on communication.
import { placeCell, rankLink, shortenedNote } from "../comm/parts";
import { el, ofWholeRun, section } from "../core/dom";
import { seconds } from "../core/format";
import type { Page, PageHandle } from "../core/page";
import type { TorchRow } from "../core/report";
import type { Store } from "../core/selection";
import { table } from "../core/table";

const KINDS: Record<string, string> = {
  collective: "collective",
  point_to_point: "message",
  wait: "wait",
  rendezvous: "rendezvous",
};

class TorchPage implements PageHandle {
  constructor(root: HTMLElement, store: Store) {
    const { model } = store;
    const { rows, why } = model.report.torch_distributed;
    root.append(
      el("p", { class: "page-note" }, `From samples. ${why ?? ""}`),
      section(
        "Time in torch.distributed",
        { class: "chart-card", aside: [shortenedNote(model, "torch_distributed.rows", "line"), ofWholeRun()] },
        table<TorchRow>(
          [
            { id: "place", title: "Operation", value: (row) => row.op, cell: (row) => placeCell(model, row, "python") },
            { id: "kind", title: "Kind", class: "nowrap", help: "Rendezvous: ranks wait until all have started", value: (row) => row.kind, cell: (row) => KINDS[row.kind] ?? row.kind },
            { id: "time", title: "Time", numeric: true, help: "Of all ranks and threads", value: (row) => row.time_s, cell: (row) => seconds(row.time_s) },
            { id: "blocked", title: "Blocked", numeric: true, help: "Off-CPU: waiting, or for the network", value: (row) => row.blocked_s, cell: (row) => seconds(row.blocked_s) },
            { id: "running", title: "Running", numeric: true, value: (row) => row.running_s, cell: (row) => seconds(row.running_s) },
            { id: "min", title: "Min", numeric: true, help: "Of the time, per rank", value: (row) => row.rank_min_s, cell: (row) => seconds(row.rank_min_s) },
            { id: "mean", title: "Mean", numeric: true, value: (row) => row.rank_mean_s, cell: (row) => seconds(row.rank_mean_s) },
            { id: "max", title: "Max", numeric: true, value: (row) => row.rank_max_s, cell: (row) => seconds(row.rank_max_s) },
            { id: "most", title: "Most by", class: "nowrap", value: (row) => row.rank_max, cell: (row) => rankLink(store, row.rank_max) },
            {
              id: "late",
              title: "Late",
              class: "nowrap",
              help: "Ranks for which the others wait, judging by samples",
              value: (row) => row.late_s,
              cell: (row) =>
                row.late_ranks.length === 0
                  ? ""
                  : [rankLink(store, row.latest_rank ?? row.late_ranks[0], row.late_ranks), row.late_ranks.length > 1 ? ` and ${row.late_ranks.length - 1} more` : ""],
            },
          ],
          rows,
          { label: "Time in torch.distributed", sort: { column: "time", descending: true }, limit: 50 },
        ),
      ),
    );
  }

  update(): void {}
}

export const page: Page = {
  id: "torch",
  title: "torch.distributed",
  hint: "Operations of torch.distributed, from samples",
  hidden: (model) => model.report.torch_distributed?.method !== "samples",
  mount: (root, store) => new TorchPage(root, store),
};
