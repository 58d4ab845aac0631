// SPDX-License-Identifier: BSD-3-Clause
// Numbers and names as the text report writes them (report/format/format.cpp).

import { RankSet } from "./ranges";
import type { RunRow } from "./report";

export const UNKNOWN = "–";
type Maybe = number | null | undefined;

const known = (value: Maybe): value is number => value !== null && value !== undefined && !Number.isNaN(value);

function threeDigits(value: number): string {
  if (value < 9.995) return value.toFixed(2);
  if (value < 99.95) return value.toFixed(1);
  return value.toFixed(0);
}

function decimalUnits(value: number, exactBelow: number, exactUnit: string, unit: string): string {
  if (value < 0) return `-${decimalUnits(-value, exactBelow, exactUnit, unit)}`;
  if (value < exactBelow) return exactUnit ? `${value.toFixed(0)} ${exactUnit}` : value.toFixed(0);
  const prefixes = "kMGTPE";
  let step = 0;
  value /= 1000;
  while (value >= 999.5 && step + 1 < prefixes.length) {
    value /= 1000;
    ++step;
  }
  return `${threeDigits(value)} ${prefixes[step]}${unit}`;
}

// Three significant digits and a unit: "12.3 ms", "1.23 s", "456 s", "3.21 h".
export function seconds(value: Maybe): string {
  if (!known(value)) return UNKNOWN;
  if (value < 0) return `-${seconds(-value)}`;
  if (value === 0) return "0 s";
  if (value < 999.5e-9) return `${(value * 1e9).toFixed(0)} ns`;
  if (value < 999.5e-6) return `${threeDigits(value * 1e6)} µs`;
  if (value < 999.5e-3) return `${threeDigits(value * 1e3)} ms`;
  if (value < 9999.5) return `${threeDigits(value)} s`;
  return `${threeDigits(value / 3600)} h`;
}

// Decimal units: "12 B", "4.50 MB".
export function bytes(value: Maybe): string {
  return known(value) ? decimalUnits(value, 999.5, "B", "B") : UNKNOWN;
}
// Exact below 10000, then "12.3 k".
export function count(value: Maybe): string {
  return known(value) ? decimalUnits(value, 9999.5, "", "").trimEnd() : UNKNOWN;
}
// Of a metric of counters, as the text report has it.
export function derivedValue(value: number, unit: string): string {
  if (unit === "B/s") return `${bytes(value)}/s`;
  if (unit === "share") return percent(value);
  if (unit === "1/s") return `${count(value)}/s`;
  return [value.toFixed(2), printable(unit)].join(" ").trimEnd();
}
// "45.2 %" of a share of 1.
export function percent(share: Maybe, digits = 1): string {
  return known(share) ? `${(share * 100).toFixed(digits)} %` : UNKNOWN;
}
// "1 rank", "2 ranks", "2 processes", "2 directories". `nouns`: where that is not the plural.
export function plural(number: number, noun: string, nouns?: string): string {
  const many = nouns ?? (noun.endsWith("s") ? `${noun}es` : noun.replace(/y$/, "ie") + "s");
  return `${number.toLocaleString("en-US")} ${number === 1 ? noun : many}`;
}
// Upper bounds of size bins, powers of two: "8 B", "1 MiB".
export function binBytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  while (value >= 1024 && value % 1024 === 0 && unit + 1 < units.length) {
    value /= 1024;
    ++unit;
  }
  return `${value} ${units[unit]}`;
}

// One unit and one number of digits for a column of times.
export class TimeScale {
  readonly unit: string;
  private readonly factor: number;
  private readonly digits: number;

  constructor(largest: number) {
    const [unit, factor] = largest < 0.1 ? ["ms", 1e3] : largest >= 99_999.5 ? ["h", 1 / 3600] : ["s", 1];
    this.unit = unit as string;
    this.factor = factor as number;
    const scaled = largest * this.factor;
    this.digits = scaled < 999.995 ? 2 : scaled < 9999.95 ? 1 : 0;
  }
  format(value: Maybe): string {
    return known(value) ? (value * this.factor).toFixed(this.digits) : UNKNOWN;
  }
}

// A point of time on an axis that spans `span` seconds: "1.25 s", "2:05", "1:02:05".
export function clock(value: number, span: number): string {
  if (span < 120) {
    const digits = span < 0.02 ? 4 : span < 0.2 ? 3 : span < 2 ? 2 : span < 20 ? 1 : 0;
    return `${value.toFixed(digits)} s`;
  }
  const sign = value < 0 ? "-" : "";
  const total = Math.round(Math.abs(value));
  const [h, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  const two = (n: number) => String(n).padStart(2, "0");
  return h ? `${sign}${h}:${two(m)}:${two(s)}` : `${sign}${m}:${two(s)}`;
}

export function timeRange([begin, end]: readonly [number, number]): string {
  const span = end - begin;
  const digits = span < 0.02 ? 5 : span < 0.2 ? 4 : span < 2 ? 3 : span < 20 ? 2 : span < 200 ? 1 : 0;
  return `${begin.toFixed(digits)} – ${end.toFixed(digits)} s`;
}

// Control characters and characters that hide or reorder text become visible: \x1b, \u202e.
const HOSTILE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]|\udb40[\udc00-\udfff]/g;
export function printable(text: string): string {
  return text.replace(HOSTILE, (c) => {
    const code = c.codePointAt(0)!;
    return code <= 0xff ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

// "beginning…end", at most `most` characters.
export function shortenMiddle(text: string, most: number): string {
  const characters = [...text];
  if (characters.length <= most) return text;
  const head = Math.ceil((most - 1) / 2);
  const tail = most - 1 - head;
  return `${characters.slice(0, head).join("")}…${tail > 0 ? characters.slice(-tail).join("") : ""}`;
}

const LONG_NAME = 32;

// What stands in angle brackets in Python's names.
const PYTHON_PARTS = new Set(["locals", "lambda", "genexpr", "listcomp", "dictcomp", "setcomp", "module"]);

// Where the "<" at `open` is closed; -1: nowhere.
function closing(name: string, open: number): number {
  let depth = 0;
  for (let i = open; i < name.length; ++i) {
    if (name[i] === "<") ++depth;
    if (name[i] === ">" && name[i - 1] !== "-" && --depth === 0) return i;
  }
  return -1;
}

// "std::vector<double, std::allocator<double> >::at" -> "std::vector<>::at"
function withoutTemplateArguments(name: string): string {
  if (name.includes("operator")) return name;
  let out = "";
  for (let i = 0; i < name.length; ++i) {
    out += name[i];
    if (name[i] !== "<") continue;
    const end = closing(name, i);
    if (end < 0) return name;
    const inside = name.slice(i + 1, end);
    out += `${PYTHON_PARTS.has(inside) ? inside : ""}>`;
    i = end;
  }
  return out;
}

// Demangled names of function templates begin with the type of the result: "void ns::f<int>" -> "ns::f<int>".
function withoutResult(name: string): string {
  let depth = 0;
  let begin = 0;
  for (let i = 0; i < name.length; ++i) {
    if (name[i] === "<" || name[i] === "(") ++depth;
    if ((name[i] === ">" || name[i] === ")") && depth > 0) --depth;
    if (name[i] === " " && depth === 0) begin = i + 1;
  }
  return name.slice(begin);
}

// "step()", "Solver<double>::run()": without argument types, in long names without template arguments. As the text report
// has them (report/format/names.cpp).
export function functionLabel(name: string, kind: string): string {
  let label = printable(name);
  if (label === "") return "?";
  if (kind === "mpi" || kind === "kernel" || kind === "region") return label;
  // "run(int)::{lambda(double)#1}::operator()(double) const", but not a function that has it as an argument
  const lambda = label.lastIndexOf("::{lambda(");
  if (lambda > 0) {
    const outer = label.slice(0, lambda);
    const closed = (open: string, close: string) => outer.split(open).length === outer.split(close).length;
    if (closed("<", ">") && closed("(", ")")) return `${functionLabel(outer, kind)}::{lambda}`;
  }
  // What has no name of its own: of a module, of the interpreter.
  if (/, (no names|interpreter)$/.test(label)) return label;
  if (label.startsWith("<") || label.includes("+0x") || label.includes("operator") || label === "garbage collection" || label === "waiting for a processor")
    return label;
  const anonymous = "(anonymous namespace)";
  let depth = 0;
  for (let i = 0; i < label.length; ++i) {
    if (label[i] === "<") ++depth;
    if (label[i] === ">") --depth;
    if (label[i] !== "(" || depth !== 0) continue;
    if (label.startsWith(anonymous, i)) {
      i += anonymous.length - 1;
      continue;
    }
    label = label.slice(0, i);
    if (kind === "native") label = withoutResult(label);
    break;
  }
  if (label.length > LONG_NAME) label = withoutTemplateArguments(label);
  return `${label}()`;
}

const SIGNALS: Record<number, string> = {
  1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
  9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
  24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}; // prettier-ignore
export function signalName(number: number): string {
  return SIGNALS[number] ?? `signal ${number}`;
}

export function shellWord(word: string): string {
  const shown = printable(word);
  return /^[^\s"'\\$&|;<>()*?[\]{}~#`!]+$/.test(shown) ? shown : `'${shown.replaceAll("'", "'\\''")}'`;
}
export function commandLine(command: readonly string[]): string {
  return command.map(shellWord).join(" ");
}

// One line for each command of a run, with its ranks if there are several commands.
export function commandLines(run: Pick<RunRow, "command" | "commands">): string[] {
  const commands = run.commands ?? [];
  if (commands.length < 2) return run.command.length > 0 ? [commandLine(run.command)] : [];
  return commands.map(
    ({ command, ranks }) => `${ranks.length === 1 ? "rank" : "ranks"} ${RankSet.of(ranks).toShortString(6)}: ${commandLine(command)}`,
  );
}

const SERIES_WORDS: Record<string, string> = { rss: "resident memory", cpu: "CPU", mpi: "MPI", io: "I/O" };
// "cpu_user_ns" -> "CPU user"; counters keep their name.
export function seriesTitle(name: string): string {
  if (name.startsWith("counter:")) return name.slice("counter:".length);
  if (!/^[a-z0-9_]+$/.test(name)) return printable(name);
  const words = name.replace(/_(ns|bytes)$/, "").split("_");
  const text = words.map((w) => SERIES_WORDS[w] ?? w).join(" ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
// What a series' value in one bin means: a share of time, bytes per second, a level, or a rate.
export type SeriesUnit = "share" | "bytes" | "bytes/s" | "rate";
export function seriesUnit(name: string, maximum: boolean): SeriesUnit {
  if (name.endsWith("_ns") || name === "task-clock" || name === "cpu-clock") return "share"; // perf counts these in ns
  if (name.endsWith("_bytes")) return maximum ? "bytes" : "bytes/s";
  return "rate";
}
export function seriesValue(value: Maybe, unit: SeriesUnit): string {
  if (!known(value)) return UNKNOWN;
  if (unit === "share") return percent(value);
  if (unit === "bytes") return bytes(value);
  if (unit === "bytes/s") return `${bytes(value)}/s`;
  return `${value < 10 ? threeDigits(value) : count(value)}/s`;
}
