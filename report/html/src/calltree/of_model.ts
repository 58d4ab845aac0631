// SPDX-License-Identifier: BSD-3-Clause
import { Owner, foldedPaths } from "./folds";
import { FrameKind, NONE, type Model, baseName } from "../core/model";
import { FrameKeys, MergedTree, frameKeys } from "./merged_tree";
import { PathTable, functionOfPath, shownPaths } from "./path_table";

// Seconds of the cells, idle helper threads left out unless asked for.
export function cellSeconds(model: Model, helperIdle: boolean): Float32Array {
  const self = model.f32("cell_self_s");
  const helper = model.f32("cell_helper_idle_s");
  if (helperIdle || helper.length !== self.length) return self;
  return self.map((value, cell) => Math.max(0, value - helper[cell]));
}

export type MergeBy = "function" | "line";

interface Made {
  table: PathTable;
  functions: Uint32Array;
  keys: Map<MergeBy, FrameKeys>;
  trees: Map<string, MergedTree>;
  paths: Map<Shown, Uint32Array>;
}

const made = new WeakMap<Model, Made>();

function madeOf(model: Model): Made {
  let known = made.get(model);
  if (!known) {
    const table: PathTable = {
      paths: model.pathCount,
      parent: model.u32("path_parent"),
      frame: model.u32("path_frame"),
      others: model.u8("path_others"),
      frameFunction: model.u32("frame_function"),
    };
    known = {
      table,
      functions: functionOfPath(table),
      keys: new Map(),
      trees: new Map(),
      paths: new Map(),
    };
    made.set(model, known);
  }
  return known;
}

export function pathTable(model: Model): PathTable {
  return madeOf(model).table;
}

// The innermost function on each path.
export function pathFunctions(model: Model): Uint32Array {
  return madeOf(model).functions;
}

export function keysOf(model: Model, by: MergeBy): FrameKeys {
  const { keys, table } = madeOf(model);
  let known = keys.get(by);
  if (!known) {
    const name = model.u32("frame_name_string");
    const kind = model.u8("frame_kind");
    const file = model.u32("frame_file_string");
    const module = model.u32("frame_module_string");
    const line = model.u32("frame_line");
    known = frameKeys(model.frameCount, (frame) => {
      const fn = table.frameFunction[frame];
      const own = fn === NONE ? `${kind[frame]} ${name[frame]} ${file[frame]} ${module[frame]}` : fn;
      return by === "line" ? `${own}:${line[frame]}` : own;
    });
    keys.set(by, known);
  }
  return known;
}

// What trees show of the paths: regions or not; library code folded or not, but for stretches that begin with the
// frames in `open`. The same text for the same choice.
export type Shown = string;
export const shownText = (regions: boolean, folded: boolean, open: string): Shown =>
  `${regions ? "regions" : ""} ${folded ? "folded" : ""} ${folded ? open : ""}`;
const parseShown = (shown: Shown) => {
  const [regions, folded, open] = shown.split(" ");
  return { regions: regions !== "", folded: folded !== "", open: open.split(".").filter(Boolean).map(Number) };
};
export const EVERYTHING = shownText(true, false, "");

export const hasFolds = (model: Model): boolean => model.u8("frame_owner").some((owner) => owner !== Owner.own);

// Whether a frame stands for a folded stretch.
export function isFolded(model: Model, shown: Shown, frame: number): boolean {
  const { folded, open } = parseShown(shown);
  if (!folded || frame === NONE || model.u8("frame_owner")[frame] !== Owner.library) return false;
  const kind = model.u8("frame_kind")[frame];
  if (kind === FrameKind.mpi || kind === FrameKind.region || kind === FrameKind.kernel) return false;
  const { ofFrame } = keysOf(model, "function");
  return !open.some((other) => ofFrame[other] === ofFrame[frame]);
}

// "numpy.dot", or "import numpy" where a module's own code begins the stretch.
export function foldName(model: Model, frame: number): string | null {
  const text = (name: string) => model.text(model.u32(name)[frame] ?? NONE);
  const own = model.text(model.u32("frame_name_string")[frame]);
  const package_ = text("frame_package_string");
  return own === "<module>" && package_ ? `import ${package_}` : text("frame_library_name_string");
}

// By path, the path that is shown for it; undefined: all.
export function shownOf(model: Model, shown: Shown): Uint32Array | undefined {
  const { regions, folded, open } = parseShown(shown);
  const fold = folded && hasFolds(model);
  if (regions && !fold) return undefined;
  const { paths, table } = madeOf(model);
  let known = paths.get(shown);
  if (!known) {
    const kind = model.u8("frame_kind");
    const isRegion = (frame: number) => kind[frame] === FrameKind.region;
    const { ofFrame } = keysOf(model, "function");
    const opened = new Set(open.filter((frame) => frame < ofFrame.length).map((frame) => ofFrame[frame]));
    known = fold
      ? foldedPaths(table, {
          owner: model.u8("frame_owner"),
          machinery: model.u8("frame_machinery"),
          isRegion,
          hides: (frame) => !regions && isRegion(frame),
          isMpi: (frame) => kind[frame] === FrameKind.mpi,
          isOpen: (frame) => opened.has(ofFrame[frame]),
        })
      : shownPaths(table, isRegion);
    paths.set(shown, known);
  }
  return known;
}

export function treeOf(model: Model, by: MergeBy, shown: Shown = EVERYTHING): MergedTree {
  const { trees, table } = madeOf(model);
  const name = `${by} ${shown}`;
  let known = trees.get(name);
  if (!known) {
    known = new MergedTree(table, keysOf(model, by), shownOf(model, shown));
    trees.set(name, known);
  }
  return known;
}

// Without what every extension module's file name ends in: "_umath.cpython-311-x86_64-linux-gnu.so+0x1f0".
export function withoutAbiTag(name: string): string {
  return name.replace(/\.(?:cpython-\d+[a-z]*-[\w-]+|abi3)\.so(?=$|\+0x)/, ".so");
}

// Where code comes from, short: the shared object, or a Python file's package.
export function moduleName(file: string | null, module: string | null): string {
  if (module) return withoutAbiTag(baseName(module));
  if (!file) return "";
  const packages = /\/(?:site|dist)-packages\/([^/]+)/.exec(file);
  if (packages) return packages[1].replace(/\.py$/, "");
  if (file.startsWith("<frozen ")) return "importlib";
  const library = /\/lib\/python3[^/]*\/([^/]+)/.exec(file);
  if (library) return library[1].replace(/\.py$/, "");
  return baseName(file);
}
