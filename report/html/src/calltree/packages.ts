// SPDX-License-Identifier: BSD-3-Clause
// Functions of libraries by their package, for lists in which a package is one row.
import { KIND_NAMES, type Model, NONE } from "../core/model";
import { Owner } from "./folds";

export interface Packages {
  names: string[];
  ofFunction: Int32Array; // -1: the program's own, MPI, the kernel, or of no package
}

const made = new WeakMap<Model, Packages>();

export function packagesOf(model: Model): Packages {
  const known = made.get(model);
  if (known) return known;
  const owners = model.u8("frame_owner");
  const kinds = model.u8("frame_kind");
  const packages = model.u32("frame_package_string");
  const functions = model.u32("frame_function");
  const numbers = new Map<number, number>(); // by string
  const names: string[] = [];
  const ofFunction = new Int32Array(model.functionCount).fill(-1);
  for (let frame = 0; frame < owners.length; ++frame) {
    const kind = KIND_NAMES[kinds[frame]];
    const of = packages[frame] ?? NONE;
    if (functions[frame] === NONE || owners[frame] !== Owner.library || of === NONE) continue;
    if (kind !== "python" && kind !== "native") continue;
    let number = numbers.get(of);
    if (number === undefined) {
      numbers.set(of, (number = names.length));
      names.push(model.text(of) ?? "");
    }
    ofFunction[functions[frame]] = number;
  }
  const result = { names, ofFunction };
  made.set(model, result);
  return result;
}

// Seconds in any of the package's functions and what these called, by package; `total`: of call paths.
export function packageTotals(model: Model, total: ArrayLike<number>): Float64Array {
  const { names, ofFunction } = packagesOf(model);
  const sums = new Float64Array(names.length);
  const parents = model.u32("path_parent");
  const of = new Int32Array(model.pathCount).fill(-1);
  for (let path = 1; path < of.length; ++path) {
    const f = model.functionOfPath(path);
    of[path] = f === NONE ? -1 : ofFunction[f];
    if (of[path] < 0) continue;
    let again = false;
    for (let above = parents[path]; above !== 0 && !again; above = parents[above]) again = of[above] === of[path];
    if (!again) sums[of[path]] += total[path];
  }
  return sums;
}
