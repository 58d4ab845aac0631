// SPDX-License-Identifier: BSD-3-Clause
// node dev/pictures.mjs PAGE.html FOLDER: the pictures of docs/report.md, as WebP files, made of this page of a report.
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [file, folder] = process.argv.slice(2);
const PICTURES = [
  ["summary", "light"], ["summary", "dark"], ["timeline", "light"], ["timeline", "dark"], ["hotspots", "light", "open"],
  ["tree", "light"], ["balance", "light"], ["comm", "light"], ["source", "light", "line"], ["nodes", "light"],
  ["memory", "light"], ["info", "light"],
];
mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
await page.goto(pathToFileURL(resolve(file)).href);
await page.waitForSelector("html[data-ready]");
const painter = await browser.newPage();
for (const [id, theme, more] of PICTURES) {
  await page.evaluate((hash) => (location.hash = hash), `#/${id}?theme=${theme}`);
  await page.waitForSelector(`nav a[data-page="${id}"][aria-current="page"]`);
  await page.mouse.move(1, 790);
  // A function of Python and the hottest line of the hottest file, without which half of these pages is not to be seen.
  if (more === "open") await page.locator("main tr", { has: page.locator('[aria-label="Python"]') }).first().click();
  if (more === "line") await page.keyboard.press("n");
  await page.evaluate(() => (document.activeElement?.blur(), window.scrollTo(0, 0)));
  await page.waitForTimeout(300);
  const png = (await page.screenshot()).toString("base64");
  const webp = await painter.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    canvas.getContext("2d").drawImage(image, 0, 0);
    return canvas.toDataURL("image/webp", 0.85).split(",")[1];
  }, png);
  writeFileSync(join(folder, `report-${id}-${theme}.webp`), Buffer.from(webp, "base64"));
}
await browser.close();
