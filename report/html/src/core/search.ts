// SPDX-License-Identifier: BSD-3-Clause
// What a search of the whole report finds: functions, files, pages, ranks, nodes, regions.
import { functionLabel, percent, printable, seconds, shortenMiddle } from "./format";
import { functionTarget, lineTarget, nodeTarget, rankTarget } from "./links";
import type { FunctionInfo, Model } from "./model";
import type { Page } from "./page";
import { RankSet, type Store, type Target } from "./selection";
import { weights } from "./weights";

export interface SearchEntry {
  icon: string;
  title: string;
  place: string;
  value: string;
  target(): Target;
}

interface Hit {
  entry: SearchEntry;
  score: number;
}

const MOST = 40;
const TITLE_LENGTH = 60;
const LEAST_SCORE_OF_NODE = 600; // nodes are many and alike: letters somewhere in their names do not count

// 0: no match. Better: at the start of a word, early, in a short name.
export function score(text: string, query: string): number {
  const at = text.indexOf(query);
  if (at >= 0) {
    const word = at === 0 || !/[a-z0-9]/.test(text[at - 1]);
    return 1000 + (word ? 300 : 0) + (at === 0 ? 200 : 0) - Math.min(200, text.length);
  }
  let i = 0;
  let gaps = 0;
  for (let last = -1; i < query.length; ++i) {
    const next = text.indexOf(query[i], last + 1);
    if (next < 0) return 0;
    gaps += next - last - 1;
    last = next;
  }
  return gaps > 3 * query.length ? 0 : Math.max(1, 400 - 10 * gaps - Math.min(200, text.length));
}

const titleOf = (name: string): string => shortenMiddle(printable(name), TITLE_LENGTH);

// Where a function is: its file and line, else its module, else what kind it is.
function placeOf(model: Model, info: FunctionInfo): string {
  const otherwise = info.module ? info.module.slice(info.module.lastIndexOf("/") + 1) : info.kind;
  return shortenMiddle(printable(model.place(info.file, info.line) || otherwise), 36);
}

// Those with more than `least` points.
function hitsOf<T>(
  all: readonly T[],
  scoreOf: (one: T) => number,
  entryOf: (one: T, i: number) => SearchEntry,
  least = 0,
): Hit[] {
  const hits: Hit[] = [];
  all.forEach((one, i) => {
    const points = scoreOf(one);
    if (points > least) hits.push({ entry: entryOf(one, i), score: points });
  });
  return hits;
}

export class Search {
  private functionNames: string[] | null = null; // in lower case

  constructor(
    private readonly store: Store,
    private readonly pages: readonly Page[],
  ) {}

  // The best first; without a query the pages.
  find(query: string): SearchEntry[] {
    const text = query.trim().toLowerCase();
    const ranks = RankSet.parse(text.replace(/^ranks?\s+/, ""));
    const hits = [...this.pagesFor(text), ...this.ranksFor(ranks)];
    if (text === "") return hits.map((hit) => hit.entry);
    return [
      ...hits,
      ...this.nodesFor(text),
      ...this.regionsFor(text),
      ...this.functionsFor(text),
      ...this.filesFor(text),
      ...(/^rank/.test(text) && !ranks ? [this.firstRank()] : []),
    ]
      .sort((a, b) => b.score - a.score)
      .slice(0, MOST)
      .map((hit) => hit.entry);
  }

  private pagesFor(text: string): Hit[] {
    return hitsOf(
      this.pages,
      ({ title }) => {
        const name = title.toLowerCase();
        return text === "" ? 1000 : score(name, text) + 500 * Number(name.startsWith(text));
      },
      ({ id, title }) => ({ icon: id, title, place: "page", value: "", target: () => this.store.pageTarget(id) }),
    );
  }

  private ranksFor(ranks: RankSet | null): Hit[] {
    if (!ranks || this.store.model.rankIndex(ranks.ranges[0][0]) < 0) return [];
    const entry: SearchEntry = {
      icon: "rank",
      title: `${ranks.size === 1 ? "Rank" : "Ranks"} ${ranks.toShortString()}`,
      place: "choose",
      value: "",
      target: () => ({ selection: { ranks } }),
    };
    return [{ entry, score: 3000 }];
  }

  // For who has typed no number yet.
  private firstRank(): Hit {
    const target = () => rankTarget(0, this.store.page);
    return { entry: { icon: "rank", title: "Rank 0", place: "choose", value: "", target }, score: 500 };
  }

  private nodesFor(text: string): Hit[] {
    return hitsOf(
      this.store.model.nodes,
      (node) => score(printable(node.name).toLowerCase(), text),
      (node, i) => ({
        icon: "nodes",
        title: titleOf(node.name),
        place: "node",
        value: percent(node.cpu_busy),
        target: () => nodeTarget(i),
      }),
      LEAST_SCORE_OF_NODE,
    );
  }

  private regionsFor(text: string): Hit[] {
    return hitsOf(
      this.store.model.report.regions ?? [],
      ({ name }) => score(name.toLowerCase(), text),
      ({ name, domain, sampled_s }) => ({
        icon: "region",
        title: titleOf(name),
        place: domain ? `region of ${titleOf(domain)}` : "region",
        value: seconds(sampled_s),
        target: () => ({ selection: { region: name } }),
      }),
    );
  }

  // Of functions that match alike those with more time come first.
  private functionsFor(text: string): Hit[] {
    const { model } = this.store;
    const { functionTotal, sum } = weights(this.store);
    const most = Math.max(1e-9, ...functionTotal.subarray(0, 1), sum);
    this.functionNames ??= Array.from({ length: model.functionCount }, (_, f) =>
      (model.text(model.u32("function_name_string")[f]) ?? "").toLowerCase(),
    );
    const found: { f: number; points: number }[] = [];
    this.functionNames.forEach((name, f) => {
      const points = score(name, text);
      if (points > 0) found.push({ f, points: points + 300 * Math.min(1, functionTotal[f] / most) });
    });
    found.sort((a, b) => b.points - a.points);
    return found.slice(0, MOST).map(({ f, points }) => ({ entry: this.functionEntry(f, functionTotal[f]), score: points }));
  }

  private functionEntry(f: number, total_s: number): SearchEntry {
    const { model } = this.store;
    const info = model.function(f);
    return {
      icon: "function",
      title: shortenMiddle(functionLabel(info.name, info.kind), TITLE_LENGTH),
      place: placeOf(model, info),
      value: seconds(total_s),
      target: () => functionTarget(f),
    };
  }

  private filesFor(text: string): Hit[] {
    const { model } = this.store;
    return hitsOf(
      model.header.sources,
      ({ file }) => Math.max(score(model.shortFile(file).toLowerCase(), text), score(file.toLowerCase(), text) - 300),
      ({ file }) => ({
        icon: "file",
        title: titleOf(model.shortFile(file)),
        place: "file",
        value: "",
        target: () => lineTarget(file, null),
      }),
    );
  }
}
