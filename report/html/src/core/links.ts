// SPDX-License-Identifier: BSD-3-Clause
// Where functions, lines and ranks are shown.
import { RankSet, type Target } from "./selection";

export const functionTarget = (index: number): Target => ({ page: "hotspots", params: { open: index } });
export const lineTarget = (file: string, line: number | null): Target => ({ page: "source", params: { file, line } });
export const rankTarget = (rank: number, page = "hotspots"): Target => ({
  page,
  params: {},
  selection: { ranks: RankSet.of([rank]), nodes: null },
});
export const nodeTarget = (node: number, page = "nodes"): Target => ({
  page,
  params: page === "nodes" ? { open: node } : {},
});
