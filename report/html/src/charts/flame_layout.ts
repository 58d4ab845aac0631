// SPDX-License-Identifier: BSD-3-Clause

// What a flame chart or a sunburst shows: nodes by number, children largest first.
export interface FlameSource {
  parent(node: number): number; // of the root: the root
  children(node: number): ArrayLike<number>;
  value(node: number): number;
}

export interface FlameBox {
  node: number; // of a filler the parent
  depth: number; // 0: the root of the whole tree
  begin: number; // 0..1 of the width
  end: number;
  filler: number; // how many children too small to draw it stands for; 0: a node itself
}

// The node's ancestors at full width, then all below it that is at least `smallest` wide (of 1). Boxes are by
// depth, then from left to right.
export function layoutFlame(source: FlameSource, root: number, smallest: number, deepest = 512): FlameBox[] {
  const boxes: FlameBox[] = [];
  const trail: number[] = [];
  for (let at = root; ; at = source.parent(at)) {
    trail.push(at);
    if (source.parent(at) === at) break;
  }
  trail.reverse();
  trail.forEach((node, depth) => boxes.push({ node, depth, begin: 0, end: 1, filler: 0 }));
  const whole = source.value(root);
  if (!(whole > 0)) return boxes;

  let row: FlameBox[] = [boxes[boxes.length - 1]];
  for (let depth = trail.length; row.length > 0 && depth < deepest; ++depth) {
    const next: FlameBox[] = [];
    for (const box of row) {
      let at = box.begin;
      const children = source.children(box.node);
      for (let i = 0; i < children.length; ++i) {
        const node = children[i];
        const width = source.value(node) / whole;
        if (!(width > 0)) continue;
        if (width < smallest) {
          // Largest first: so are all that follow.
          let rest = 0;
          let count = 0;
          for (let j = i; j < children.length; ++j) {
            const value = source.value(children[j]);
            if (value > 0) {
              rest += value / whole;
              ++count;
            }
          }
          if (rest >= smallest)
            boxes.push({ node: box.node, depth, begin: at, end: at + rest, filler: count });
          break;
        }
        const child: FlameBox = { node, depth, begin: at, end: at + width, filler: 0 };
        boxes.push(child);
        next.push(child);
        at += width;
      }
    }
    row = next;
  }
  return boxes;
}

// The box at a place; boxes as layoutFlame makes them.
export class FlameIndex {
  private readonly rows: FlameBox[][] = [];

  constructor(boxes: readonly FlameBox[]) {
    for (const box of boxes) (this.rows[box.depth] ??= []).push(box);
  }

  get depths(): number {
    return this.rows.length;
  }

  row(depth: number): readonly FlameBox[] {
    return this.rows[depth] ?? [];
  }

  at(depth: number, place: number): FlameBox | null {
    const row = this.rows[depth];
    if (!row) return null;
    let low = 0;
    let high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row[middle].end <= place) low = middle + 1;
      else high = middle;
    }
    const box = row[low];
    return box && box.begin <= place ? box : null;
  }

  // The neighbour an arrow key leads to; null: there is none.
  step(from: FlameBox, direction: "left" | "right" | "up" | "down"): FlameBox | null {
    if (direction === "left" || direction === "right") {
      const row = this.rows[from.depth] ?? [];
      const position = row.indexOf(from);
      return row[position + (direction === "left" ? -1 : 1)] ?? null;
    }
    if (direction === "up") return this.at(from.depth - 1, (from.begin + from.end) / 2);
    const below = this.rows[from.depth + 1] ?? [];
    return below.find((box) => box.begin >= from.begin - 1e-9 && box.end <= from.end + 1e-9) ?? null;
  }
}
