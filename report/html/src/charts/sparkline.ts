// SPDX-License-Identifier: BSD-3-Clause

// The values of an axis that matter to a small picture: at most `columns` means, of equal parts.
export function thin(values: ArrayLike<number>, columns: number): Float64Array {
  const length = Math.min(columns, values.length);
  const result = new Float64Array(length);
  for (let column = 0; column < length; ++column) {
    const begin = Math.floor((column * values.length) / length);
    const end = Math.max(begin + 1, Math.floor(((column + 1) * values.length) / length));
    for (let i = begin; i < end; ++i) result[column] += values[i];
    result[column] /= end - begin;
  }
  return result;
}

export interface SparklineOptions {
  width: number;
  height: number;
  colour: string;
  largest?: number; // of the vertical axis; without it the values' own
  selected?: [number, number] | null; // bins
  label: string;
}

// Columns of values over time.
export function sparkline(values: ArrayLike<number>, options: SparklineOptions): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(options.width * scale);
  canvas.height = Math.round(options.height * scale);
  canvas.style.width = `${options.width}px`;
  canvas.style.height = `${options.height}px`;
  canvas.className = "sparkline";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", options.label);
  const context = canvas.getContext("2d");
  if (!context || values.length === 0) return canvas;
  const columns = thin(values, Math.floor(options.width / 2));
  const largest = options.largest ?? columns.reduce((a, b) => Math.max(a, b), 0);
  if (!(largest > 0)) return canvas;
  const step = canvas.width / columns.length;
  const binsPerColumn = values.length / columns.length;
  context.fillStyle = options.colour;
  for (let column = 0; column < columns.length; ++column) {
    if (!(columns[column] > 0)) continue;
    const height = Math.max(scale, (canvas.height * Math.min(columns[column], largest)) / largest);
    const bin = (column + 0.5) * binsPerColumn;
    const chosen = !options.selected || (bin >= options.selected[0] && bin < options.selected[1]);
    context.globalAlpha = chosen ? 1 : 0.3;
    const left = Math.round(column * step);
    context.fillRect(
      left,
      canvas.height - height,
      Math.max(1, Math.round((column + 1) * step) - left),
      height,
    );
  }
  return canvas;
}
