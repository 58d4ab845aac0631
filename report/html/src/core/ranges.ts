// SPDX-License-Identifier: BSD-3-Clause
// Sets of whole numbers written as ranges: "0-15,37".

export class RankSet {
  // Ascending, disjoint, not adjacent; both ends included.
  private constructor(readonly ranges: readonly (readonly [number, number])[]) {}

  static ofRanges(ranges: Iterable<readonly [number, number]>): RankSet {
    const sorted = [...ranges].map(([a, b]) => (a <= b ? [a, b] : [b, a]) as [number, number]);
    sorted.sort((x, y) => x[0] - y[0]);
    const out: [number, number][] = [];
    for (const [first, last] of sorted) {
      const previous = out.at(-1);
      if (previous && first <= previous[1] + 1) previous[1] = Math.max(previous[1], last);
      else out.push([first, last]);
    }
    return new RankSet(out);
  }

  static of(numbers: Iterable<number>): RankSet {
    const ranges: [number, number][] = [];
    for (const n of numbers) ranges.push([n, n]);
    return RankSet.ofRanges(ranges);
  }

  // null: not such a text, or nothing in it.
  static parse(text: string): RankSet | null {
    const ranges: [number, number][] = [];
    for (const part of text.split(/[,\s]+/)) {
      if (part === "") continue;
      const match = /^(\d{1,9})(?:(?:-|–|\.\.)(\d{1,9}))?$/.exec(part);
      if (!match) return null;
      ranges.push([Number(match[1]), Number(match[2] ?? match[1])]);
    }
    return ranges.length === 0 ? null : RankSet.ofRanges(ranges);
  }

  has(n: number): boolean {
    let low = 0;
    let high = this.ranges.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const [first, last] = this.ranges[middle];
      if (n < first) high = middle - 1;
      else if (n > last) low = middle + 1;
      else return true;
    }
    return false;
  }

  get size(): number {
    return this.ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  }

  union(other: RankSet): RankSet {
    return RankSet.ofRanges([...this.ranges, ...other.ranges]);
  }

  equals(other: RankSet | null): boolean {
    return other !== null && this.toString() === other.toString();
  }

  toString(): string {
    return this.ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
  }

  // At most `most` ranges, then "…". `more`: there are some that are not in this set.
  toShortString(most = 4, more = false): string {
    const shown = this.ranges.slice(0, most).map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`));
    return shown.join(", ") + (more || this.ranges.length > most ? ", …" : "");
  }
}
