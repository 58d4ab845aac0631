// SPDX-License-Identifier: BSD-3-Clause
import { decode } from "./core/decode";
import { el, replace } from "./core/dom";
import { startShell } from "./core/shell";
import { pages } from "./pages/index";

async function start(): Promise<void> {
  const app = document.getElementById("app");
  const data = document.getElementById("clusterprof-data");
  if (!app) return;
  try {
    if (typeof DecompressionStream === "undefined")
      throw new Error("this browser has no DecompressionStream: Firefox 113, Chrome 80, Safari 16.4 or newer do");
    const model = await decode(data?.textContent ?? "");
    data?.remove();
    startShell(app, model, pages);
    performance.mark("clusterprof-ready");
    document.documentElement.dataset.ready = "1";
  } catch (error) {
    replace(
      app,
      el(
        "main",
        { class: "failure", role: "alert" },
        el("h1", null, "This report cannot be shown"),
        el("p", null, error instanceof Error ? error.message : String(error)),
      ),
    );
    throw error;
  }
}

void start();
