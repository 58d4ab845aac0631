// SPDX-License-Identifier: BSD-3-Clause
// What is looked at: one selection for all pages, kept in the URL's hash together with the page and its
// parameters: #/hotspots?t=1.5_3.25&r=0-15,37&n=2&region=epoch/step&sort=self
import type { Model } from "./model";
import { RankSet } from "./ranges";

export { RankSet } from "./ranges";

export interface Selection {
  time: [number, number] | null; // seconds since the run's start
  ranks: RankSet | null; // numbers of ranks
  nodes: number[] | null; // indices into report.nodes, ascending
  region: string | null;
}

export type Theme = "light" | "dark";

export interface State {
  page: string;
  selection: Selection;
  params: Map<string, string>;
  theme: Theme | null; // null: as the browser prefers
  helperIdle: boolean; // with the time of helper threads that had nothing to do
}

export const NOTHING_SELECTED: Selection = { time: null, ranks: null, nodes: null, region: null };

// Names of the hash that are not parameters of a page.
const RESERVED = new Set(["t", "r", "n", "region", "theme", "idle"]);

function numberText(value: number): string {
  return String(Number(value.toPrecision(9)));
}

export function parseHash(hash: string): State {
  const text = hash.startsWith("#") ? hash.slice(1) : hash;
  const question = text.indexOf("?");
  const path = question < 0 ? text : text.slice(0, question);
  const query = new URLSearchParams(question < 0 ? "" : text.slice(question + 1));
  const params = new Map<string, string>();
  for (const [name, value] of query) if (!RESERVED.has(name)) params.set(name, value);

  let time: [number, number] | null = null;
  const range = /^(-?[0-9.]+(?:e-?\d+)?)_(-?[0-9.]+(?:e-?\d+)?)$/.exec(query.get("t") ?? "");
  if (range) {
    const [a, b] = [Number(range[1]), Number(range[2])];
    if (Number.isFinite(a) && Number.isFinite(b) && a < b) time = [a, b];
  }
  const nodes = RankSet.parse(query.get("n") ?? "");
  const nodeList: number[] = [];
  for (const [first, last] of nodes?.ranges ?? [])
    for (let n = first; n <= last && nodeList.length < 100_000; ++n) nodeList.push(n);
  const theme = query.get("theme");
  let page = "";
  try {
    page = decodeURIComponent(path.replace(/^\//, ""));
  } catch {
    // Not something that we wrote: the first page.
  }
  return {
    page,
    selection: {
      time,
      ranks: RankSet.parse(query.get("r") ?? ""),
      nodes: nodeList.length ? nodeList : null,
      region: query.get("region") || null,
    },
    params,
    theme: theme === "light" || theme === "dark" ? theme : null,
    helperIdle: query.get("idle") === "1",
  };
}

export function formatHash(state: State): string {
  const query = new URLSearchParams();
  const { time, ranks, nodes, region } = state.selection;
  if (time) query.set("t", `${numberText(time[0])}_${numberText(time[1])}`);
  if (ranks) query.set("r", ranks.toString());
  if (nodes) query.set("n", RankSet.of(nodes).toString());
  if (region !== null) query.set("region", region);
  if (state.theme) query.set("theme", state.theme);
  if (state.helperIdle) query.set("idle", "1");
  for (const [name, value] of state.params) query.set(name, value);
  const text = query.toString().replaceAll("%2C", ",").replaceAll("%2F", "/").replaceAll("%3A", ":");
  return `#/${encodeURIComponent(state.page)}${text ? `?${text}` : ""}`;
}

// What a link changes; what it does not name stays as it is. Page parameters do not stay.
export interface Target {
  page?: string;
  params?: Record<string, string | number | null>;
  selection?: Partial<Selection>;
}

// The part of window.location that is used: tests have their own.
export interface HashPlace {
  hash: string;
  replace(url: string): void;
}

export class Store {
  private state: State;
  private readonly listeners = new Set<() => void>();
  // The parameters that a page had when it was left: its link in the navigation brings them back.
  private readonly left = new Map<string, Map<string, string>>();
  private mask: { ranks: RankSet | null; nodes: number[] | null; mask: Uint8Array | null } | null = null;

  constructor(
    readonly model: Model,
    private readonly place: HashPlace,
    private readonly firstPage: string,
  ) {
    this.state = this.checked(parseHash(place.hash));
  }

  get selection(): Selection {
    return this.state.selection;
  }
  get page(): string {
    return this.state.page;
  }
  get theme(): Theme | null {
    return this.state.theme;
  }
  get helperIdle(): boolean {
    return this.state.helperIdle;
  }

  // A parameter of the page that is shown.
  param(name: string): string | null {
    return this.state.params.get(name) ?? null;
  }
  // null removes it. `replace`: without an entry of its own in the browser's history (typing, scrolling).
  setParam(name: string, value: string | number | null, { replace = true } = {}): void {
    this.setParams({ [name]: value }, { replace });
  }
  setParams(values: Record<string, string | number | null>, { replace = true } = {}): void {
    const params = new Map(this.state.params);
    for (const [name, value] of Object.entries(values)) {
      if (value === null || value === "") params.delete(name);
      else params.set(name, String(value));
    }
    this.become({ ...this.state, params }, replace);
  }

  select(partial: Partial<Selection>, { replace = false } = {}): void {
    this.become({ ...this.state, selection: { ...this.state.selection, ...partial } }, replace);
  }
  clear(): void {
    this.select(NOTHING_SELECTED);
  }
  setTheme(theme: Theme | null): void {
    this.become({ ...this.state, theme }, true);
  }
  setHelperIdle(helperIdle: boolean): void {
    this.become({ ...this.state, helperIdle }, true);
  }

  private target({ page, params, selection }: Target): State {
    const there = page ?? this.state.page;
    const kept = params ?? (there === this.state.page ? Object.fromEntries(this.state.params) : {});
    return {
      ...this.state,
      page: there,
      selection: { ...this.state.selection, ...selection },
      params: new Map(
        Object.entries(kept)
          .filter(([, value]) => value !== null && value !== "")
          .map(([name, value]) => [name, String(value)]),
      ),
    };
  }

  // For links: <a href=…>
  href(target: Target): string {
    return formatHash(this.target(target));
  }
  go(target: Target): void {
    this.become(this.target(target), false);
  }
  // To a page as it was left.
  pageTarget(page: string): Target {
    const params = page === this.state.page ? this.state.params : this.left.get(page);
    return { page, params: Object.fromEntries(params ?? []) };
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  // The hash has changed under us: the back button, a link, the address bar.
  follow(): void {
    const state = this.checked(parseHash(this.place.hash));
    if (formatHash(state) !== formatHash(this.state)) this.set(state);
  }

  // Which ranks (by index) are chosen, by ranks and by nodes; null: all, also where each is named.
  rankMask(): Uint8Array | null {
    const { ranks, nodes } = this.selection;
    if (this.mask && this.mask.ranks === ranks && this.mask.nodes === nodes) return this.mask.mask;
    let mask: Uint8Array | null = null;
    if (ranks || nodes) {
      const numbers = this.model.i32("rank_number");
      const nodeOf = this.model.u32("rank_node");
      const chosen = nodes ? new Set(nodes) : null;
      mask = new Uint8Array(this.model.rankCount);
      for (let i = 0; i < mask.length; ++i)
        mask[i] = (!ranks || ranks.has(numbers[i])) && (!chosen || chosen.has(nodeOf[i])) ? 1 : 0;
      if (mask.every((one) => one === 1)) mask = null;
    }
    this.mask = { ranks, nodes, mask };
    return mask;
  }

  // Nothing is left out.
  get isWholeRun(): boolean {
    const { time, region } = this.selection;
    return !time && region === null && this.rankMask() === null;
  }

  // What can be chosen exists: ranks and nodes that do not are left out.
  private checked(state: State): State {
    const { model } = this;
    const selection = { ...state.selection };
    if (selection.nodes) {
      const nodes = selection.nodes.filter((n) => n < model.nodeCount);
      selection.nodes = nodes.length ? nodes : null;
    }
    const regions = model.report.regions ?? [];
    if (selection.region !== null && !regions.some((r) => r.name === selection.region)) selection.region = null;
    return { ...state, selection, page: state.page || this.firstPage };
  }

  private become(state: State, replace: boolean): void {
    const hash = formatHash(state);
    if (hash === formatHash(this.state)) return;
    if (replace) this.place.replace(hash);
    else this.place.hash = hash;
    this.set(state);
  }

  private set(state: State): void {
    if (state.page !== this.state.page) this.left.set(this.state.page, this.state.params);
    this.state = state;
    for (const listener of [...this.listeners]) listener();
  }
}
