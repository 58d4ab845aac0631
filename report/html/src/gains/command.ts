// SPDX-License-Identifier: BSD-3-Clause
// The command that predicts a change which the page has no numbers for: a page has no events to replay.
import { printable } from "../core/format";
import type { Store } from "../core/selection";
import { topFunctions } from "../core/totals";

// As one word for a shell.
const word = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export const commandOf = (change: string): string => `clusterprof whatif RUN --change ${word(change)}`;

// For the function at hand, or null where its name cannot be written in a line.
export function changeOfFunction(name: string, factor = "x0.5"): string | null {
  return printable(name) === name ? `function ${name} ${factor}` : null;
}

// What a change could begin with: the selected rank, if it is one, and the function of the program with most time in the selection.
export function suggestedChanges(store: Store): string[] {
  const { ranks } = store.selection;
  const changes: string[] = [];
  if (ranks?.size === 1 && store.model.rankCount > 1) changes.push(`rank ${ranks.toString()} = mean`);
  const top = topFunctions(store, 16)
    .map((f) => store.model.function(f.index))
    .find((f) => f.kind === "python" || f.kind === "native");
  const change = top ? changeOfFunction(top.name) : null;
  if (change) changes.push(change);
  return changes;
}
