// SPDX-License-Identifier: BSD-3-Clause
// Source files with the time of their lines.
import type { LineTime } from "../calltree/line_time";
import type { Model } from "../core/model";
import type { MemoryLine } from "../core/report";
import { CATEGORY_COUNT } from "../core/weights";

export interface Line extends LineTime {
  number: number;
  functions: string[];
  approximate: boolean; // most of its time may be of lines behind it
  indices: number[]; // of line_time
}

export interface SourceFile {
  index: number; // of sources
  file: string;
  lines: Map<number, Line>;
  self: number;
}

export function filesOf(model: Model, times: LineTime[]): SourceFile[] {
  const files: SourceFile[] = model.header.sources.map((source, index) => ({
    index,
    file: source.file,
    lines: new Map(),
    self: 0,
  }));
  const fileOf = model.u32("line_file");
  model.u32("line_row").forEach((row, index) => {
    const info = model.report.lines[row];
    const file = files[fileOf[index]];
    if (!info || !file) return;
    const time = times[row];
    let line = file.lines.get(info.line);
    if (!line) {
      line = {
        number: info.line,
        functions: [],
        approximate: false,
        indices: [],
        self: 0,
        total: 0,
        parts: new Float64Array(CATEGORY_COUNT),
      };
      file.lines.set(info.line, line);
    }
    line.functions.push(info.function);
    line.approximate ||= 2 * info.approximate_s > info.self_s;
    line.indices.push(index);
    line.self += time.self;
    // Of several functions in one line one may have called another: their union is not known.
    line.total = Math.max(line.total, time.total);
    time.parts.forEach((value, c) => (line.parts[c] += value));
    file.self += time.self;
  });
  return files;
}

// With --memory: who holds it, by line.
export function heldOfFile(model: Model, file: string): Map<number, MemoryLine[]> {
  const lines = new Map<number, MemoryLine[]>();
  for (const row of model.report.memory?.lines ?? []) {
    if (row.file !== file || !row.line) continue;
    const known = lines.get(row.line);
    if (known) known.push(row);
    else lines.set(row.line, [row]);
  }
  return lines;
}

// The file that `name` means: by its path, or by the end of its path. An empty name means the hottest file.
export function findFile(files: readonly SourceFile[], name: string): SourceFile | null {
  if (name === "") return files[0] ?? null;
  return (
    files.find((file) => file.file === name) ??
    files.find((file) => file.file.endsWith(`/${name}`) || name.endsWith(`/${file.file}`)) ??
    null
  );
}
