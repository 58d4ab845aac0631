// SPDX-License-Identifier: BSD-3-Clause
// The data of the page, as ../../FORMAT.md has it.
import type { Report, WaitKind } from "./report";

export type TypedArray = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array;

export interface Axis {
  bin_s: number;
  begin_s: number;
  bins: number;
}

export interface SeriesInfo {
  name: string;
  maximum: boolean;
}

export interface SourceFile {
  file: string;
  text: string | null;
  why_not?: string | null;
}

export interface ArrayInfo {
  type: "u8" | "u16" | "u32" | "i32" | "f32" | "f64";
  offset: number;
  length: number;
}

export interface Header {
  schema: string;
  report: Report;
  strings: string[];
  arrays: Record<string, ArrayInfo>;
  categories: string[];
  off_cpu_kinds: string[];
  wait_kinds: WaitKind[];
  shortened?: Record<string, { kept: number; of: number }>;
  paths: number;
  groups: number;
  rows: number;
  row_functions: number;
  time: Axis;
  axis: Axis;
  series: SeriesInfo[];
  node_series: SeriesInfo[];
  matrix: { bin_ranks: number };
  sources: SourceFile[];
}

export const NONE = 0xffffffff;

export enum FrameKind {
  python = 0,
  native = 1,
  mpi = 2,
  kernel = 3,
  region = 4,
}
export const KIND_NAMES = ["python", "native", "mpi", "kernel", "region"] as const;
export type KindName = (typeof KIND_NAMES)[number];

export const CATEGORIES = ["python", "native", "system", "mpi", "io", "idle", "runnable"] as const;
export type Category = (typeof CATEGORIES)[number];
export const IDLE = CATEGORIES.indexOf("idle");

const CONSTRUCTORS = {
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  i32: Int32Array,
  f32: Float32Array,
  f64: Float64Array,
} as const;

export interface FrameInfo {
  kind: KindName;
  inlined: boolean;
  name: string;
  file: string | null;
  module: string | null;
  line: number;
  function_line: number;
  function: number; // NONE: none
}

export interface FunctionInfo {
  name: string;
  file: string | null;
  module: string | null;
  line: number;
  kind: KindName;
  row: number; // of report.functions; NONE: too small to be there
}

export class Model {
  readonly report: Report;
  readonly strings: string[];
  readonly nodes: Report["nodes"];
  readonly pathCount: number;
  readonly functionCount: number;
  readonly frameCount: number;
  readonly rankCount: number;
  readonly nodeCount: number;
  readonly lineCount: number;
  private readonly views = new Map<string, TypedArray>();
  private pathEnds: Uint32Array | null = null;
  private rankIndices: Map<number, number> | null = null;
  private baseNames: Map<string, string | null> | null = null;

  constructor(
    readonly header: Header,
    private readonly buffer: ArrayBuffer,
    private readonly arraysBegin: number,
  ) {
    this.report = header.report;
    this.strings = header.strings;
    this.nodes = header.report.nodes;
    this.pathCount = header.paths;
    this.functionCount = this.lengthOf("function_kind");
    this.frameCount = this.lengthOf("frame_kind");
    this.rankCount = this.lengthOf("rank_number");
    this.lineCount = this.lengthOf("line_file");
    this.nodeCount = this.nodes.length;
    this.orderCategories();
  }

  // Arrays by category get the order and the number of CATEGORIES, whatever those of the data are.
  private orderCategories(): void {
    const { categories } = this.header;
    if (categories.join() === CATEGORIES.join()) return;
    const places = categories.map((name) => {
      const place = (CATEGORIES as readonly string[]).indexOf(name);
      if (place < 0) throw new Error(`the page does not know the category ${name}`);
      return place;
    });
    const spread = (name: string, missing: number) => {
      const values = this.f32(name);
      const count = values.length / categories.length;
      const made = new Float32Array(count * CATEGORIES.length).fill(missing);
      for (let i = 0; i < count; ++i)
        places.forEach((place, c) => (made[i * CATEGORIES.length + place] = values[i * categories.length + c]));
      this.views.set(name, made);
    };
    spread("path_self_s", 0);
    spread("rank_category_s", NaN);
  }

  has(name: string): boolean {
    return name in this.header.arrays;
  }

  lengthOf(name: string): number {
    return this.header.arrays[name]?.length ?? 0;
  }

  // The array as it lies in the decoded stream: no copy. One that the data lacks is empty.
  private view(name: string, type: ArrayInfo["type"]): TypedArray {
    const info = this.header.arrays[name];
    if (info && info.type !== type) throw new Error(`the array ${name} is ${info.type}, not ${type}`);
    const known = this.views.get(name);
    if (known) return known;
    const array = info
      ? new CONSTRUCTORS[type](this.buffer, this.arraysBegin + info.offset, info.length)
      : new CONSTRUCTORS[type](0);
    this.views.set(name, array);
    return array;
  }

  arr(name: string): TypedArray {
    return this.view(name, this.header.arrays[name]?.type ?? "f32");
  }
  u8(name: string): Uint8Array {
    return this.view(name, "u8") as Uint8Array;
  }
  u32(name: string): Uint32Array {
    return this.view(name, "u32") as Uint32Array;
  }
  i32(name: string): Int32Array {
    return this.view(name, "i32") as Int32Array;
  }
  f32(name: string): Float32Array {
    return this.view(name, "f32") as Float32Array;
  }
  f64(name: string): Float64Array {
    return this.view(name, "f64") as Float64Array;
  }

  // null: no string.
  text(index: number): string | null {
    return index === NONE ? null : (this.strings[index] ?? null);
  }

  frame(index: number): FrameInfo {
    return {
      kind: KIND_NAMES[this.u8("frame_kind")[index]],
      inlined: this.u8("frame_inlined")[index] !== 0,
      name: this.text(this.u32("frame_name_string")[index]) ?? "",
      file: this.text(this.u32("frame_file_string")[index]),
      module: this.text(this.u32("frame_module_string")[index]),
      line: this.u32("frame_line")[index],
      function_line: this.u32("frame_function_line")[index],
      function: this.u32("frame_function")[index],
    };
  }

  function(index: number): FunctionInfo {
    return {
      name: this.text(this.u32("function_name_string")[index]) ?? "",
      file: this.text(this.u32("function_file_string")[index]),
      module: this.text(this.u32("function_module_string")[index]),
      line: this.u32("function_line")[index],
      kind: KIND_NAMES[this.u8("function_kind")[index]],
      row: this.u32("function_row")[index],
    };
  }

  // NONE: the root, or others.
  functionOfPath(path: number): number {
    const frame = this.u32("path_frame")[path];
    return frame === NONE ? NONE : this.u32("frame_function")[frame];
  }

  // A subtree is the range [path, pathEnd[path]).
  get pathEnd(): Uint32Array {
    if (this.pathEnds) return this.pathEnds;
    const parents = this.u32("path_parent");
    const ends = new Uint32Array(this.pathCount);
    for (let path = this.pathCount - 1; path >= 0; --path) {
      if (ends[path] === 0) ends[path] = path + 1;
      if (path > 0 && ends[parents[path]] < ends[path]) ends[parents[path]] = ends[path];
    }
    return (this.pathEnds = ends);
  }

  children(path: number): number[] {
    const ends = this.pathEnd;
    const out: number[] = [];
    for (let child = path + 1; child < ends[path]; child = ends[child]) out.push(child);
    return out;
  }

  // Index of a rank by its number; -1: not in the run.
  rankIndex(number: number): number {
    if (!this.rankIndices) {
      this.rankIndices = new Map();
      this.i32("rank_number").forEach((rank, index) => this.rankIndices!.set(rank, index));
    }
    return this.rankIndices.get(number) ?? -1;
  }

  // By the last component of its path, or the last two where that is ambiguous in this run.
  shortFile(file: string): string {
    if (!this.baseNames) {
      this.baseNames = new Map();
      const see = (path: string | null | undefined) => {
        if (!path) return;
        const base = baseName(path);
        const known = this.baseNames!.get(base);
        if (known === undefined) this.baseNames!.set(base, path);
        else if (known !== path) this.baseNames!.set(base, null);
      };
      const seen = new Set<number>();
      for (const name of ["function_file_string", "frame_file_string"])
        for (const index of this.u32(name)) seen.add(index);
      for (const index of seen) see(this.text(index));
      for (const row of this.report.lines) see(row.file);
      for (const row of this.report.mpi.calls ?? []) see(row.file);
    }
    const base = baseName(file);
    const ambiguous =
      base === "__init__.py" || base === "__main__.py" || this.baseNames.get(base) === null;
    if (!ambiguous || base.length === file.length) return base;
    const folder = file.slice(0, file.length - base.length - 1);
    return `${baseName(folder)}/${base}`;
  }

  // "train.py:88"; without a line the file alone; empty without a file.
  place(file: string | null | undefined, line: number | null | undefined): string {
    if (!file) return "";
    return line ? `${this.shortFile(file)}:${line}` : this.shortFile(file);
  }

  get elapsed(): number {
    return this.report.run.elapsed_s;
  }
}

export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
