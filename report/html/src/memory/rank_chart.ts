// SPDX-License-Identifier: BSD-3-Clause
// The bar chart of the largest resident memory by rank.
import { cssColour } from "../core/colours";
import { el, hideTip, showTip } from "../core/dom";
import { bytes, plural, printable } from "../core/format";
import { RankSet, type Store } from "../core/selection";

// One bar per rank; where there are more ranks than columns, the largest of those that share one, and the
// smallest in a lighter colour.
export function rankChart(store: Store, ranks: readonly number[]): { root: HTMLElement; destroy(): void } {
  const { model } = store;
  const rss = model.f32("rank_max_rss_bytes");
  const numbers = model.i32("rank_number");
  const height = 170;
  const left = 64;
  const bottom = 20;
  const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": `Largest resident memory of ${plural(ranks.length, "rank")}: arrow keys move, Enter chooses a rank` });
  const root = el("div", { class: "rank-chart" }, canvas);
  let most = 0;
  for (const i of ranks) most = Math.max(most, rss[i]);
  let columns: { from: number; to: number; largest: number; least: number }[] = [];
  let width = 0;
  let at = -1;

  function layout(): void {
    width = Math.floor(root.clientWidth);
    const room = Math.max(1, width - left - 4);
    const number = Math.min(ranks.length, Math.floor(room / 2));
    columns = Array.from({ length: number }, (_, c) => {
      const from = Math.floor((c * ranks.length) / number);
      const to = Math.floor(((c + 1) * ranks.length) / number);
      let [largest, least] = [from, rss[ranks[from]]];
      for (let i = from; i < to; ++i) {
        if (rss[ranks[i]] > rss[ranks[largest]]) largest = i;
        least = Math.min(least, rss[ranks[i]]);
      }
      return { from, to, largest, least };
    });
  }
  function draw(): void {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const g = canvas.getContext("2d");
    if (!g || columns.length === 0) return;
    g.scale(ratio, ratio);
    g.font = `11px ${cssColour("--font")}`;
    g.fillStyle = cssColour("--text-2");
    g.strokeStyle = cssColour("--line");
    g.textAlign = "right";
    g.textBaseline = "middle";
    const scale = (height - bottom - 8) / most;
    const y = (value: number) => height - bottom - value * scale;
    const ten = 10 ** Math.floor(Math.log10(most / 3));
    const step = [1, 2, 5, 10].map((m) => m * ten).find((s) => most / s <= 4.5) ?? most;
    for (let value = 0; value <= most; value += step) {
      g.beginPath();
      g.moveTo(left, Math.round(y(value)) + 0.5);
      g.lineTo(width, Math.round(y(value)) + 0.5);
      g.stroke();
      g.fillText(value === 0 ? "0" : bytes(value), left - 8, y(value));
    }
    const wide = (width - left - 4) / columns.length;
    const [full, soft, bright] = [cssColour("--cat-python"), cssColour("--accent-soft"), cssColour("--cat-mpi")];
    columns.forEach((column, c) => {
      const x = left + c * wide;
      const w = Math.max(1, wide > 4 ? wide - 1 : wide);
      const top = rss[ranks[column.largest]];
      g.fillStyle = c === at ? bright : full;
      g.fillRect(x, y(top), w, top * scale);
      if (column.to - column.from > 1 && column.least < top * 0.98) {
        g.fillStyle = soft;
        g.globalAlpha = 0.45;
        g.fillRect(x, y(top), w, (top - column.least) * scale);
        g.globalAlpha = 1;
      }
    });
    g.fillStyle = cssColour("--text-2");
    g.textBaseline = "alphabetic";
    g.textAlign = "left";
    g.fillText(`rank ${numbers[ranks[0]]}`, left, height - 5);
    g.textAlign = "right";
    if (ranks.length > 1) g.fillText(`rank ${numbers[ranks[ranks.length - 1]]}`, width - 4, height - 5);
  }
  const columnAt = (x: number) => {
    const c = Math.floor(((x - left) / (width - left - 4)) * columns.length);
    return c >= 0 && c < columns.length ? c : -1;
  };
  function point(c: number, x: number, y: number): void {
    if (c !== at) {
      at = c;
      draw();
    }
    const column = columns[c];
    if (!column) {
      hideTip();
      return;
    }
    const index = ranks[column.largest];
    const several = column.to - column.from > 1;
    showTip(
      () => [
        several ? [`ranks ${numbers[ranks[column.from]]}–${numbers[ranks[column.to - 1]]}`, el("br")] : null,
        el("strong", null, `rank ${numbers[index]}  ${bytes(rss[index])}`),
        el("br"),
        printable(model.nodes[model.u32("rank_node")[index]]?.name ?? ""),
        several ? `, least ${bytes(column.least)}` : null,
      ],
      x,
      y,
    );
  }
  function choose(): void {
    const column = columns[at];
    if (!column) return;
    const chosen = RankSet.of(ranks.slice(column.from, column.to).map((i) => numbers[i]));
    hideTip();
    store.select({ ranks: chosen.equals(store.selection.ranks) ? null : chosen });
  }
  canvas.addEventListener("pointermove", (event) => point(columnAt(event.offsetX), event.clientX, event.clientY));
  canvas.addEventListener("pointerleave", () => point(-1, 0, 0));
  canvas.addEventListener("click", choose);
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const next = Math.max(0, Math.min(columns.length - 1, at + step));
      const box = canvas.getBoundingClientRect();
      point(next, box.left + left + ((next + 0.5) * (width - left)) / columns.length, box.top + 40);
    } else if (event.key === "Enter") choose();
    else return;
    event.preventDefault();
  });
  const observer = new ResizeObserver(() => {
    if (Math.floor(root.clientWidth) === width) return;
    layout();
    draw();
  });
  observer.observe(root);
  return { root, destroy: () => observer.disconnect() };
}
