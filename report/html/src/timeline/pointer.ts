// SPDX-License-Identifier: BSD-3-Clause
// What the pointer and the keyboard do on the strips of the timeline: point, select by dragging, zoom, move a cursor.
import { hideTip } from "../core/dom";
import { clamp, draggedSpan, type Span } from "../charts/numbers";
import type { Surface } from "../charts/surface";
import type { Content } from "./content";
import { kGutter, type View } from "./view";

interface Drag {
  surface: Surface;
  x0: number;
  y0: number;
  x: number;
  y: number;
}

export interface Cell {
  bin: number;
  row: number; // of the map
}

// What the pointer needs of the strips that it is on.
export interface Strips {
  readonly map: Surface;
  redrawOver(): void;
  showTip(surface: Surface, event: PointerEvent): void;
  clicked(surface: Surface, y: number): void; // not dragged
  announce(cell: Cell): void; // to screen readers
}

export class Pointer {
  drag: Drag | null = null;
  hover: { time: number; row: number | null } | null = null;
  cursor: Cell | null = null; // moved by keys
  private anchor: Cell | null = null; // where a selection by keys began

  constructor(
    private readonly content: Content,
    private readonly view: View,
    private readonly strips: Strips,
  ) {}

  // The time and the rows that are being dragged over, on a strip of that width.
  dragged(width: number): { time: Span | null; rows: Span | null } | null {
    return this.drag ? this.spanOf(this.drag, width) : null;
  }

  listen(surface: Surface): void {
    const { root } = surface;
    root.classList.add("chart-brush");
    root.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const [x, y] = surface.at(event);
      this.drag = { surface, x0: x, y0: y, x, y };
      root.setPointerCapture(event.pointerId);
      hideTip();
    });
    root.addEventListener("pointermove", (event) => {
      const [x, y] = surface.at(event);
      if (this.drag) {
        this.drag.x = x;
        this.drag.y = y;
      }
      this.point(surface, x, y);
      if (this.drag) hideTip();
      else this.strips.showTip(surface, event);
      this.strips.redrawOver();
    });
    root.addEventListener("pointerup", () => this.drop());
    root.addEventListener("pointercancel", () => {
      this.drag = null;
      this.strips.redrawOver();
    });
    root.addEventListener("pointerleave", () => {
      this.hover = null;
      hideTip();
      this.strips.redrawOver();
    });
    root.addEventListener("dblclick", () => this.clear());
    root.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        const [x] = surface.at(event);
        this.view.zoomAbout(this.view.timeAt(x, surface.width), event.deltaY < 0 ? 0.8 : 1.25);
      },
      { passive: false },
    );
  }

  listenToKeys(): void {
    const { root } = this.strips.map;
    root.addEventListener("keydown", (event) => this.onKey(event));
    root.addEventListener("blur", () => {
      this.cursor = this.anchor = null;
      this.strips.redrawOver();
    });
  }

  private point(surface: Surface, x: number, y: number): void {
    const [t0, t1] = this.view.time;
    const time = this.view.timeAt(x, surface.width);
    const { map } = this.strips;
    const rect = this.view.mapRect(map.width);
    const inside = surface === map && y >= rect.y && y <= rect.y + rect.height;
    this.hover = time < t0 || time > t1 ? null : { time, row: inside ? this.view.rowAtY(y, map.width) : null };
  }

  // Dragging across selects time, dragging down selects ranks; from the axis of the ranks it selects ranks alone.
  private spanOf(drag: Drag, width: number): { time: Span | null; rows: Span | null } | null {
    const { begin_s, bin_s } = this.content.axis;
    const [t0, t1] = this.view.time;
    const [r0, r1] = this.view.rowSpan;
    const across = Math.abs(drag.x - drag.x0) >= 4 && drag.x0 >= kGutter - 2;
    const time = across
      ? draggedSpan(this.view.timeAt(drag.x0, width), this.view.timeAt(drag.x, width), t0, t1, 0, begin_s, bin_s)
      : null;
    let rows: Span | null = null;
    if (drag.surface === this.strips.map) {
      const rect = this.view.mapRect(width);
      const rowHeight = rect.height / (r1 - r0);
      const row = (y: number) => r0 + ((y - rect.y) / rect.height) * (r1 - r0);
      // A drag across that is a little slanted is meant for the time.
      const down = Math.abs(drag.y - drag.y0);
      const meant = across ? down > Math.max(14, rowHeight * 0.75) : down >= 4;
      if (meant) rows = draggedSpan(row(drag.y0), row(drag.y), r0, r1, 0, 0, 1);
    }
    return time || rows ? { time, rows } : null;
  }

  private drop(): void {
    const { drag } = this;
    this.drag = null;
    if (!drag) return;
    const move = this.spanOf(drag, drag.surface.width);
    if (!move) this.strips.clicked(drag.surface, drag.y);
    if (move) {
      this.view.store.select({
        ...(move.time ? { time: move.time } : {}),
        ...(move.rows ? { ranks: this.content.ranksOf(move.rows), nodes: null } : {}),
      });
    }
    this.strips.redrawOver();
  }

  private clear(): void {
    const { time, ranks, nodes } = this.view.store.selection;
    if (time || ranks || nodes) this.view.store.select({ time: null, ranks: null, nodes: null });
    else this.view.zoomOut();
  }

  private onKey(event: KeyboardEvent): void {
    const steps: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    };
    const step = steps[event.key];
    const [t0, t1] = this.view.time;
    if (step) this.moveCursor(step, event);
    else if (event.key === "Enter") this.view.zoomToSelection();
    else if (event.key === "Escape") {
      if (this.drag) this.drag = null;
      else this.clear();
      this.strips.redrawOver();
    } else if (event.key === "+" || event.key === "=" || event.key === "-")
      this.view.zoomAbout(
        this.cursor ? this.content.axis.begin_s + (this.cursor.bin + 0.5) * this.content.axis.bin_s : (t0 + t1) / 2,
        event.key === "-" ? 1.5 : 1 / 1.5,
      );
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Moves the cursor by a step in bins and rows; with Shift it selects what lies between where it began and where it is.
  private moveCursor(step: [number, number], event: KeyboardEvent): void {
    const [r0, r1] = this.view.rowSpan;
    const [t0, t1] = this.view.time;
    const far = event.ctrlKey ? 10 : 1;
    const from = this.cursor ?? { bin: this.content.binAt((t0 + t1) / 2), row: Math.floor((r0 + r1) / 2) };
    if (!event.shiftKey) this.anchor = null;
    else this.anchor ??= from;
    this.cursor = {
      bin: clamp(from.bin + step[0] * far, this.content.binAt(t0), this.content.binAt(t1 - 1e-9)),
      row: clamp(from.row + step[1] * far, Math.floor(r0), Math.ceil(r1) - 1),
    };
    if (this.anchor) {
      const { begin_s, bin_s } = this.content.axis;
      const bins = [this.anchor.bin, this.cursor.bin].sort((a, b) => a - b);
      const rows = [this.anchor.row, this.cursor.row].sort((a, b) => a - b);
      this.view.store.select(
        {
          ...(step[0] !== 0 ? { time: [begin_s + bins[0] * bin_s, begin_s + (bins[1] + 1) * bin_s] as Span } : {}),
          ...(step[1] !== 0 ? { ranks: this.content.ranksOf([rows[0], rows[1] + 1]), nodes: null } : {}),
        },
        { replace: true },
      );
    }
    this.strips.announce(this.cursor);
    this.strips.redrawOver();
  }
}
