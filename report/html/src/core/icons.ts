// SPDX-License-Identifier: BSD-3-Clause
// Drawn on a grid of 16.
import { svg } from "./dom";

const PATHS: Record<string, string[]> = {
  summary: ["M2.5 3.5h11v9h-11z", "M5 10V8.5", "M8 10V6", "M11 10V7.5"],
  timeline: ["M2.5 4.5h6", "M5.5 8h8", "M3.5 11.5h5"],
  hotspots: ["M2.5 13.5h11", "M4 11V7", "M7 11V3", "M10 11V5.5", "M13 11V9"],
  tree: ["M2.5 3.5h11", "M2.5 6.5h7.5", "M2.5 9.5h4.5", "M11.5 6.5h2", "M2.5 12.5h2"],
  balance: ["M8 3v10", "M3 5.5h10", "M3 5.5l-1.5 4h3z", "M13 5.5l-1.5 4h3z", "M5.5 13h5"],
  comm: ["M2.5 5.5h10l-2.5-2.5", "M13.5 10.5h-10l2.5 2.5"],
  source: ["M5.5 4.5L2 8l3.5 3.5", "M10.5 4.5L14 8l-3.5 3.5"],
  nodes: ["M2.5 3h11v4h-11z", "M2.5 9h11v4h-11z", "M5 5h.01", "M5 11h.01"],
  memory: ["M4.5 4.5h7v7h-7z", "M6.5 2v2.5", "M9.5 2v2.5", "M6.5 11.5V14", "M9.5 11.5V14", "M2 6.5h2.5", "M2 9.5h2.5", "M11.5 6.5H14", "M11.5 9.5H14"],
  info: ["M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 1 1 0-11", "M8 7.5V11", "M8 5h.01"],
  search: ["M7 2.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9", "M10.5 10.5L14 14"],
  help: ["M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 1 1 0-11", "M6.3 6.4a1.7 1.7 0 1 1 2.4 1.5c-.5.3-.7.6-.7 1.1", "M8 11.2h.01"],
  close: ["M4.5 4.5l7 7", "M11.5 4.5l-7 7"],
  sun: ["M8 5.5a2.5 2.5 0 1 1 0 5a2.5 2.5 0 1 1 0-5", "M8 1.5V3", "M8 13v1.5", "M1.5 8H3", "M13 8h1.5", "M3.4 3.4l1 1", "M11.6 11.6l1 1", "M3.4 12.6l1-1", "M11.6 4.4l1-1"],
  moon: ["M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z"],
  function: ["M10.5 3.5c-2-.6-2.6.4-2.8 2L6.6 11c-.3 1.7-1 2.2-2.3 1.7", "M5.5 7h5"],
  file: ["M4 2.5h5l3 3v8H4z", "M9 2.5v3h3"],
  rank: ["M3.5 3.5h3.5v3.5h-3.5z", "M9 3.5h3.5v3.5H9z", "M3.5 9h3.5v3.5h-3.5z", "M9 9h3.5v3.5H9z"],
  region: ["M3 3.5V12.5", "M3 3.5h3", "M3 12.5h3", "M13 3.5V12.5", "M13 3.5h-3", "M13 12.5h-3"],
};

export function icon(name: string): SVGSVGElement {
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 16 16", width: "16", height: "16", "aria-hidden": "true", focusable: "false" },
    (PATHS[name] ?? PATHS.file).map((d) => svg("path", { d })),
  );
}
