// SPDX-License-Identifier: BSD-3-Clause
// node dev/screenshots.mjs PAGE.html FOLDER [--pages summary,nodes] [--themes light,dark] [--size 1440x900]
//                          [--zoom 1] [--hash "t=1_2"] [--full]: what pages look like, and errors on the console.
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    pages: { type: "string" }, themes: { type: "string", default: "light,dark" }, size: { type: "string", default: "1440x900" },
    zoom: { type: "string", default: "1" }, hash: { type: "string", default: "" }, full: { type: "boolean", default: false },
    name: { type: "string", default: "" },
  },
});
const [file, folder] = positionals;
mkdirSync(folder, { recursive: true });
const zoom = Number(values.zoom);
const [width, height] = values.size.split("x").map((n) => Math.round(Number(n) / zoom));
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width, height }, deviceScaleFactor: zoom });
const page = await context.newPage();
let errors = 0;
page.on("console", (m) => m.type() === "error" && (++errors, console.error("console:", m.text())));
page.on("pageerror", (e) => (++errors, console.error("error:", e.message)));
page.on("request", (r) => !r.url().startsWith("file:") && !r.url().startsWith("data:") && (++errors, console.error("request:", r.url())));
const url = pathToFileURL(resolve(file)).href;
await page.goto(url);
await page.waitForSelector("html[data-ready]", { timeout: 60_000 });
const all = await page.$$eval("nav a[data-page]", (links) => links.map((a) => a.dataset.page));
for (const id of values.pages ? values.pages.split(",") : all)
  for (const theme of values.themes.split(",")) {
    await page.evaluate((hash) => (location.hash = hash), `#/${id}?theme=${theme}&${values.hash}`);
    await page.waitForTimeout(250);
    await page.screenshot({ path: join(folder, `${values.name}${id}-${theme}.png`), fullPage: values.full });
  }
await browser.close();
process.exitCode = errors ? 1 : 0;
