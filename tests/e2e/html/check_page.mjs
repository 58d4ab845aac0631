// SPDX-License-Identifier: BSD-3-Clause
// node check_page.mjs EXPECTED.json: opens report pages in Chromium and uses them as people do. EXPECTED.json has what
// html_test.py knows from the command line tool. Prints what is wrong; the exit status is 1 then.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const expected = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { chromium } = createRequire(`${expected.node_modules}/`)("playwright-core");
const axe = readFileSync(`${expected.node_modules}/axe-core/axe.min.js`, "utf8");

const PATIENCE_MS = 120_000; // it ends what hangs
let failures = 0;
let checks = 0;
let where = "";
function check(ok, what, detail = "") {
  ++checks;
  if (ok) return true;
  ++failures;
  console.log(`FAIL ${where}: ${what}${detail === "" ? "" : `: ${detail}`}`);
  return false;
}
const near = (a, b, relative, absolute) => Math.abs(a - b) <= relative * Math.abs(b) + absolute;

// "1.23 s", "45.6 ms" -> seconds
function secondsOf(text) {
  const match = /^([0-9.]+) (ns|µs|ms|s|h)$/.exec(text.trim());
  if (!match) return NaN;
  return Number(match[1]) * { ns: 1e-9, µs: 1e-6, ms: 1e-3, s: 1, h: 3600 }[match[2]];
}

const browser = await chromium.launch({
  executablePath: expected.chromium,
  args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
});

// A page of the report and all that a browser could say against it.
async function open(file, { theme = "light", hash = "" } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: theme });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const url = pathToFileURL(file).href;
  page.on("console", (message) => {
    if (["error", "warning", "assert"].includes(message.type())) check(false, `console ${message.type()}`, message.text());
  });
  page.on("pageerror", (error) => check(false, "error", error.stack ?? error.message));
  page.on("dialog", (dialog) => {
    check(false, "dialog", dialog.message());
    void dialog.dismiss();
  });
  page.on("popup", () => check(false, "a window was opened"));
  page.on("websocket", (socket) => check(false, "web socket", socket.url()));
  page.on("request", (request) => {
    if (request.url().split("#")[0] !== url) check(false, "request", request.url());
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
  });
  await page.goto(url + hash, { waitUntil: "commit" });
  await page.waitForSelector("html[data-ready]", { timeout: PATIENCE_MS });
  const ready = await page.evaluate(() => performance.getEntriesByName("clusterprof-ready")[0].startTime);
  return { page, ready, close: () => context.close() };
}

const idsOf = (page) => page.$$eval("nav a[data-page]", (links) => links.map((link) => link.dataset.page));
const hashOf = (page) => page.evaluate(() => location.hash);

// By the navigation, as a user goes.
async function goTo(page, id) {
  await page.click(`nav a[data-page="${id}"]`);
  await page.waitForSelector(`nav a[data-page="${id}"][aria-current="page"]`);
  await drawn(page);
}
// Canvases are drawn in the next frame.
async function drawn(page) {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))));
}

// What each page has to have, whatever the run is.
const SHOWN = {
  summary: async (page) => {
    const text = await page.innerText("main");
    for (const word of ["Where time goes", "Efficiency", "Load balance", "Findings", "Python", "MPI"])
      check(text.includes(word), `has no ${word}`);
  },
  timeline: async (page) => {
    check((await coloursOf(page, "main .canvas")) > 3, "nothing is drawn");
    check((await page.innerText("main")).includes("Ranks over time"), "has no heat map");
  },
  hotspots: async (page) => {
    const functions = page.locator("main .hotspots");
    check((await functions.locator("tbody tr").count()) > 5, "has no functions");
    check((await functions.locator('th:has-text("Self")').count()) === 1, "has no column Self");
  },
  tree: async (page) => {
    check((await coloursOf(page, "main canvas")) > 3, "nothing is drawn");
  },
  balance: async (page) => {
    check((await coloursOf(page, "main .canvas")) > 3, "nothing is drawn");
  },
  comm: async (page) => {
    check((await page.innerText("main")).includes("MPI_"), "names no call");
    check((await coloursOf(page, "main canvas")) > 1, "nothing is drawn");
  },
  io: async (page) => {
    const text = await page.innerText("main");
    for (const word of ["Calls by line", "Files", "File systems", "of the whole run"]) check(text.includes(word), `has no ${word}`);
    check((await page.locator('main [aria-label="Files by time"] tbody tr').count()) > 0, "has no files");
  },
  offcpu: async (page) => {
    check((await page.locator('main [aria-label="Blocked time by kind"] tbody tr').count()) > 0, "has no kinds");
    check((await page.locator('main [aria-label="Lines by blocked time"] tbody tr').count()) > 0, "has no lines");
  },
  processes: async (page) => {
    const rows = page.locator('main [aria-label="Processes that are alike"] > tbody > tr[data-row]');
    check((await rows.count()) === 1, "does not have the one process");
    await rows.first().press("Enter");
    check((await page.locator('main [aria-label="Processes of this row"] tbody tr').count()) === 1, "does not open the row");
    check((await page.innerText("main")).includes("<img src=x onerror=window.hostile=6>"), "does not show the command");
    await rows.first().press("Enter");
    check((await page.locator('main [aria-label="Threads that are alike"] > tbody > tr[data-row]').count()) > 0, "has no threads");
  },
  source: async (page) => {
    check((await page.locator("main .src-files li a").count()) > 0, "has no files");
  },
  nodes: async (page) => {
    check((await page.locator("main table tbody tr").count()) > 1, "has no nodes");
  },
  memory: async (page) => {
    check(/\d [kMG]?B/.test(await page.innerText("main")), "has no bytes");
    check((await coloursOf(page, "main .uplot")) > 3, "memory over time is not drawn");
  },
  info: async (page) => {
    check(/Recorded with\s+clusterprof \S/.test(await page.innerText("main")), "does not say which version");
  },
};

// How many colours the canvases have together.
function coloursOf(page, selector) {
  return page.$$eval(selector, (roots) => {
    const colours = new Set();
    for (const root of roots)
      for (const canvas of root instanceof HTMLCanvasElement ? [root] : root.querySelectorAll("canvas")) {
        if (canvas.width === 0 || canvas.height === 0) continue;
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        for (let i = 0; i < data.length; i += 4 * 7)
          if (data[i + 3] > 0) colours.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
      }
    return colours.size;
  });
}

// Names in the profile cannot have made elements or attributes, nor have been run.
async function checkNothingForeign(page) {
  const found = await page.evaluate(() => {
    const known = new Set(
      ("html head meta title style body noscript script div span a nav header main section aside p h1 h2 h3 h4 kbd i b em strong " +
        "small button input select option optgroup datalist label fieldset legend dialog dl dt dd ul ol li table caption colgroup col thead " +
        "tbody tfoot tr th td svg g path circle rect line polyline polygon text title ellipse canvas pre code details summary output")
        .split(" "),
    );
    const wrong = [];
    for (const element of document.querySelectorAll("*")) {
      if (!known.has(element.localName)) wrong.push(`<${element.localName}>`);
      for (const { name, value } of element.attributes)
        if (/^on/i.test(name) || /^\s*javascript:/i.test(value)) wrong.push(`<${element.localName} ${name}>`);
      const link = element.getAttribute("href");
      if (link !== null && !link.startsWith("#")) wrong.push(`<${element.localName} href=${link}>`);
    }
    if (window.hostile !== undefined) wrong.push(`window.hostile=${window.hostile}`);
    if (document.scripts.length > 2) wrong.push(`${document.scripts.length} scripts`);
    // Controls, and characters that turn writing round.
    const raw = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.exec(document.body.innerText);
    if (raw) wrong.push(`U+${raw[0].codePointAt(0).toString(16)}`);
    return wrong;
  });
  check(found.length === 0, "foreign", found.slice(0, 5).join(" "));
}

const tooWide = (page) => page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);

// Nothing is wider than the window or its box; the page itself has not failed.
async function checkLooks(page) {
  const wide = await tooWide(page);
  check(wide <= 1, `is ${wide} pixels too wide`);
  const over = await page.$$eval("main section, main .tile, main .eff, nav a", (boxes) =>
    boxes.filter((box) => box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX === "visible")
      .map((box) => `${box.className || box.textContent}: ${box.scrollWidth} in ${box.clientWidth}`));
  check(over.length === 0, "content outside its box", over.join("; "));
  const failure = await page.locator("main .failure").count();
  check(failure === 0, "cannot be shown", failure ? await page.innerText("main .failure") : "");
}

// What axe says against it: names, roles, contrast, landmarks, headings. In other colours only contrast can differ.
async function checkAccess(page, rules) {
  await page.evaluate(`window.axe || (() => { ${axe} })()`);
  const violations = await page.evaluate(async (runOnly) => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"], ...(runOnly ? { runOnly } : {}) });
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes[0].html.slice(0, 200)} (${nodes.length})`);
  }, rules);
  check(violations.length === 0, "axe", violations.join("; "));
}

async function everyPage({ file, name, pages, themes, access }) {
  for (const theme of themes) {
    where = `${name}, ${theme}`;
    const { page, ready, close } = await open(file, { theme });
    console.log(`${where}: ready after ${ready.toFixed(0)} ms`);
    check((await page.evaluate(() => document.documentElement.dataset.theme)) === theme, `is not ${theme}`);
    const ids = await idsOf(page);
    check(ids.join() === pages.join(), "pages", ids.join());
    const background = new Set();
    for (const id of ids) {
      where = `${name}, ${theme}, ${id}`;
      await goTo(page, id);
      check((await hashOf(page)).startsWith(`#/${id}`), "hash", await hashOf(page));
      await SHOWN[id](page);
      await checkLooks(page);
      await checkNothingForeign(page);
      if (access) await checkAccess(page, theme === themes[0] ? null : ["color-contrast"]);
      background.add(await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor));
    }
    if (access) {
      where = `${name}, ${theme}, a rank chosen`;
      await page.evaluate(() => (location.hash = "#/summary?r=0&t=0_1"));
      await drawn(page);
      await checkAccess(page, null);
    }
    const [colour] = background;
    const [red, green, blue, alpha = "1"] = colour.match(/[0-9.]+/g);
    const light = Math.min(red, green, blue) > 200;
    const dark = Math.max(red, green, blue) < 64;
    check(background.size === 1 && alpha === "1" && (theme === "light" ? light : dark), "background", [...background].join());
    await page.setViewportSize({ width: 400, height: 800 });
    for (const id of ids) {
      where = `${name}, ${theme}, ${id} on a phone`;
      await page.evaluate((hash) => (location.hash = hash), `#/${id}`);
      await drawn(page);
      const wide = await tooWide(page);
      check(wide <= 1, `is ${wide} pixels too wide`);
    }
    await close();
  }
}

// The time in the line above the table: "23 functions, own time 99.9 % of 1.23 s."
async function timeOfFunctions(page) {
  const text = await page.innerText("main .page-note");
  const match = /of ([0-9.]+ \S+?)\./.exec(text.replace(/(\d)\.(?=\d)/g, "$1\u0000").replace(/\u0000/g, "."));
  return match ? secondsOf(match[1]) : NaN;
}

// {name: seconds} of the table of functions: their total.
async function functionsOf(page) {
  const rows = await page.$$eval("main table[aria-label=Functions], main table", ([table]) => {
    const titles = [...table.querySelectorAll("thead th")].map((th) => th.innerText.trim());
    const at = titles.findIndex((title) => title.startsWith("Total"));
    return [...table.querySelectorAll("tbody tr")]
      .filter((row) => row.querySelector(".fn-name"))
      .map((row) => [row.querySelector(".fn-name").textContent, row.children[at].innerText, titles[at]]);
  });
  const seconds = {};
  for (const [name, cell, title] of rows) {
    const unit = { s: 1, ms: 1e-3, h: 3600 }[/Total, (\w+)/.exec(title)?.[1]];
    seconds[name] = Number(/^[0-9.]+/.exec(cell.trim())?.[0]) * unit;
  }
  return seconds;
}

// A range of time, dragged over the heat map: the functions' time is what that share of the run had.
async function timeFollows({ file, elapsed_s }) {
  where = `time of ${file}`;
  const { page, close } = await open(file);
  await goTo(page, "hotspots");
  const whole = await timeOfFunctions(page);
  await goTo(page, "timeline");
  const box = await page.locator("main .canvas.chart-brush").nth(0).boundingBox();
  const y = box.y + box.height / 2;
  const before = await hashOf(page);
  await page.mouse.move(box.x + box.width * 0.45, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, y, { steps: 4 });
  await page.mouse.up();
  await drawn(page);
  const hash = await hashOf(page);
  const range = /[?&]t=([0-9.]+)_([0-9.]+)/.exec(hash);
  if (!check(range !== null, "dragging does not choose a time", hash)) return close();
  const [begin, end] = [Number(range[1]), Number(range[2])];
  check(end - begin > 0.05 * elapsed_s && end - begin < 0.5 * elapsed_s, "the chosen time", `${begin} to ${end} of ${elapsed_s}`);
  check((await page.inputValue('.selection input')) !== "", "the field of the time is empty");

  await goTo(page, "hotspots");
  check((await hashOf(page)).includes(range[0].slice(1)), "the hash does not keep the time", await hashOf(page));
  const chosen = await timeOfFunctions(page);
  check(near(chosen / whole, (end - begin) / elapsed_s, 0, 0.15), "the functions' time",
    `${chosen} s of ${whole} s in ${end - begin} s of ${elapsed_s} s`);

  // The address alone brings it back, and so do the browser's buttons.
  const again = await open(file, { hash: await hashOf(page) });
  check((await timeOfFunctions(again.page)) === chosen, "the address does not bring the selection back");
  await again.close();
  await page.goBack();
  await page.goBack();
  check((await hashOf(page)) === before, "back", `${await hashOf(page)}, not ${before}`);
  await goTo(page, "hotspots");
  check((await timeOfFunctions(page)) === whole, "back does not bring the whole run back");

  // Typed; x chooses everything again.
  await page.keyboard.press("t");
  await page.keyboard.type(`0-${elapsed_s / 2}`);
  await page.keyboard.press("Enter");
  check((await timeOfFunctions(page)) < whole, "a typed time is not taken");
  await page.locator("main").focus();
  await page.keyboard.press("x");
  check((await timeOfFunctions(page)) === whole, "x does not clear the selection");
  await close();
}

// One rank's figures are those that `clusterprof query` and `clusterprof report --json` have.
async function rankFollows({ file, rank, sampled_s, functions, exact }) {
  where = `rank ${rank}`;
  const { page, close } = await open(file, { hash: "#/hotspots?idle=1&all=1" });
  await page.keyboard.press("r");
  await page.keyboard.type(String(rank));
  await page.keyboard.press("Enter");
  check(new RegExp(`[?&]r=${rank}(&|$)`).test(await hashOf(page)), "hash", await hashOf(page));
  const sum = await timeOfFunctions(page);
  check(near(sum, sampled_s, exact ? 0.01 : 0.15, 0), "time", `${sum}, not ${sampled_s}`);
  const said = (await page.locator(".selection .badge:has-text('estimate')").count()) > 0;
  check(said !== exact, exact ? "is called an estimate" : "is not called an estimate");
  if (exact) {
    const shown = await functionsOf(page);
    check(Object.keys(functions).length > 0, "nothing to compare");
    for (const [name, seconds] of Object.entries(functions))
      check(near(shown[name] ?? 0, seconds, 0.002, 0.0051), `total of ${name}`, `${shown[name]}, not ${seconds}`);
  }
  // What does not follow says so.
  await goTo(page, "summary");
  check((await page.innerText("main")).includes("of the whole run"), "findings do not say that they are of the whole run");
  await page.click(".selection .clear");
  check(!/[?&]r=/.test(await hashOf(page)), "Clear leaves the rank chosen", await hashOf(page));
  await close();
}

async function nodeFollows({ file, node, ranks }) {
  where = `node ${node}`;
  const { page, close } = await open(file);
  const field = page.locator(".selection label.chip", { hasText: "Nodes" }).locator("input");
  await field.fill(node);
  await field.press("Enter");
  check(/[?&]n=/.test(await hashOf(page)), "hash", await hashOf(page));
  check((await page.innerText(".selection")).includes(`${ranks} rank`), "ranks of the node", await page.innerText(".selection"));
  await field.fill("no-such-node");
  await field.press("Enter");
  check((await field.getAttribute("aria-invalid")) === "true", "a node that is not there is taken");
  await close();
}

async function regionFollows({ file, region, sampled_s }) {
  where = "region";
  const { page, close } = await open(file, { hash: "#/hotspots?idle=1" });
  const select = page.locator('.selection select[aria-label="Region"]');
  const labels = await select.locator("option").allInnerTexts();
  const at = labels.findIndex((label) => label === region);
  if (check(at > 0, "is not among the regions", labels.join())) {
    await select.selectOption({ index: at });
    const time = await timeOfFunctions(page);
    check(near(time, sampled_s, 0.01, 0), "time", `${time}, not ${sampled_s}`);
  }
  await close();
}

async function searchFinds({ file, query, name }) {
  where = `search for ${query}`;
  const { page, close } = await open(file);
  await page.keyboard.press("/");
  await page.waitForSelector("dialog[open] input");
  await page.keyboard.type(query);
  const first = await page.innerText("#palette-list li >> nth=0");
  check(first.includes(name), "is not found", first);
  await page.keyboard.press("Enter");
  await page.waitForSelector("main tr[aria-expanded=true]");
  check((await page.innerText("main tr[aria-expanded=true]")).includes(name), "is not opened");
  const detail = await page.innerText("main .fn-detail");
  for (const word of ["Called by", "Calls", "Total per rank"]) check(detail.includes(word), `has no ${word}`, detail);
  await page.keyboard.press("?");
  await page.waitForSelector("dialog.help[open]");
  await page.keyboard.press("Escape");
  await page.keyboard.press("1");
  await page.keyboard.press("/");
  await page.waitForSelector("dialog[open] input");
  await page.keyboard.type("zzzqqq");
  check((await page.innerText("#palette-list")).includes("Nothing found"), "something is found for nothing");
  await close();
}

// Names that want to be more than text: there, and text.
async function hostileStayText({ file, names, region }) {
  where = "hostile names";
  const { page, close } = await open(file, { hash: "#/hotspots?all=1" });
  const table = await page.locator("main table").first().innerText();
  for (const name of names) check(table.includes(name), "is not in the table of functions", name);
  await page.fill("main input[type=search]", "hostile");
  await page.waitForFunction(() => location.hash.includes("q=hostile"));
  const closed = page.locator("main tr[aria-expanded=false]");
  for (let left = await closed.count(); left > 0; --left) await closed.first().click();
  check((await closed.count()) === 0, "rows that do not open");
  await checkNothingForeign(page);
  // Tooltips, the palette, the address, the tree as a table, the list of regions.
  for (const cell of await page.locator("main .fn-name").all()) {
    await cell.hover();
    await checkNothingForeign(page);
  }
  await page.keyboard.press("1");
  await page.keyboard.press("/");
  await page.waitForSelector("dialog[open] input");
  await page.keyboard.type("onerror");
  check((await page.innerText("#palette-list")).includes("onerror"), "is not found by searching");
  await checkNothingForeign(page);
  await page.keyboard.press("Escape");
  check((await page.locator(".selection select option").allInnerTexts()).includes(region), "region is not to be chosen");
  const evil = encodeURIComponent('"><img src=x onerror=window.hostile=7>');
  for (const hash of [`#/tree?view=table&q=${evil}`, `#/hotspots?q=${evil}&region=${evil}`, `#/source?file=${evil}`, `#/${evil}?open=${evil}&sort=${evil}`,
    `#/tree?view=table&open=all`, `#/tree?dir=up&view=sunburst`, `#/nodes?open=0`, `#/nodes?open=1`, "#/%E0%A4%A", "#/nodes?open=99999&n=77"]) {
    await page.evaluate((to) => (location.hash = to), hash);
    await drawn(page);
    where = `hostile names, ${hash}`;
    await checkNothingForeign(page);
    await checkLooks(page);
  }
  where = "hostile names";
  check((await page.title()).includes("<script>window.hostile=6</script>"), "title", await page.title());
  await close();
}

async function keyboardAlone({ file }) {
  where = "keyboard";
  const { page, close } = await open(file);
  const focused = () => page.evaluate(() => {
    const { activeElement: a } = document;
    return a?.dataset.page ?? a?.className ?? "";
  });
  await page.keyboard.press("Tab");
  check((await focused()) === "skip", "the first is not the link to the page", await focused());
  const seen = [];
  for (let i = 0; i < 40; ++i) {
    await page.keyboard.press("Tab");
    seen.push(await focused());
    const ring = await page.evaluate(() => {
      const { activeElement: a } = document;
      if (!a || a === document.body) return true;
      const of = (e) => getComputedStyle(e);
      // A ring on it, or on what stands for it.
      return [a, a.parentElement, a.closest("label")].some((e) => e && ((of(e).outlineStyle !== "none" && of(e).outlineWidth !== "0px") || of(e).boxShadow !== "none"));
    });
    check(ring, "the focus is not to be seen", seen.at(-1));
    if (expected.pages.every((id) => seen.includes(id))) break;
  }
  check(expected.pages.every((id) => seen.includes(id)), "Tab does not reach each page", seen.join());
  await page.keyboard.press("Enter"); // the last one
  await page.waitForSelector('nav a[data-page="info"][aria-current="page"]');
  check((await page.evaluate(() => document.activeElement?.id)) === "main", "the focus is not in the page that was opened");
  for (const [i, id] of expected.pages.slice(0, 10).entries()) {
    await page.keyboard.press(String((i + 1) % 10));
    check((await hashOf(page)).startsWith(`#/${id}`), `key ${(i + 1) % 10}`, await hashOf(page));
  }
  await page.keyboard.press("?");
  const help = await page.innerText("dialog.help[open]");
  check(help.includes("Search") && help.includes("Next page"), "? does not list the keys", help);
  await page.keyboard.press("Escape");
  check((await page.locator("dialog[open]").count()) === 0, "Esc does not close it");
  await page.keyboard.press("d");
  check((await page.evaluate(() => document.documentElement.dataset.theme)) === "dark", "d does not make it dark");
  // A row by Enter.
  await page.keyboard.press("3");
  await page.locator("main table tbody tr").first().focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  check((await page.locator("main tr[aria-expanded=true]").count()) === 1, "Enter does not open a row");
  check(/[?&]open=\d+/.test(await hashOf(page)), "the open row is not in the hash", await hashOf(page));
  await close();
}

async function sources({ file, without, name, line }) {
  for (const [path, has] of [[file, true], [without, false]]) {
    where = has ? "source" : "without source";
    const { page, close } = await open(path, { hash: `#/source?file=${encodeURIComponent(name)}` });
    await drawn(page);
    const text = await page.innerText("main");
    check(text.includes(line) === has, has ? "has not the text" : "has the text");
    await checkLooks(page);
    await close();
  }
}

async function policy({ file }) {
  where = "policy";
  const { page, close } = await open(file);
  const policy = await page.getAttribute('meta[http-equiv="Content-Security-Policy"]', "content");
  check(/default-src 'none'/.test(policy) && !/unsafe-inline|unsafe-eval|https?:/.test(policy), "policy", policy);
  await close();
}

// What one view says agrees with what the others say, for the whole run and parts of it.
const CATEGORY_TITLES = { Python: "python_s", Native: "native_s", System: "system_s", MPI: "mpi_s", "I/O": "io_s", Idle: "idle_s", Runnable: "runnable_s" };

// {first cell: the other cells' texts} of a table.
const cellsOf = (page, label) =>
  page.$$eval(`main table[aria-label="${label}"] tbody tr`, (rows) =>
    Object.fromEntries(rows.map((row) => [...row.children].map((cell) => cell.innerText.trim())).map(([name, ...cells]) => [name, cells])));

const percentOf = (text) => (/^[0-9.]+ %$/.test(text) ? Number(text.slice(0, -2)) : NaN);

// Shares of categories by name, which have to add up to 100 %.
function addUp(what, shares) {
  const sum = Object.values(shares).reduce((all, share) => all + (Number.isNaN(share) ? 0 : share), 0);
  check(Math.abs(sum - 100) < 0.06 * Object.keys(shares).length, `${what}: categories add up to`, `${sum.toFixed(2)} %`);
  return shares;
}

// Rows of a table in which a column is own time and another one the total, each in a unit of its own.
async function selfWithinTotal(page, selector, rowSelector) {
  const wrong = await page.$$eval(selector, (tables, rows) => tables.flatMap((table) => {
    const titles = [...table.querySelectorAll("thead th")].map((th) => th.innerText.trim());
    const [self, total] = ["Self", "Total"].map((name) => titles.findIndex((title) => title.startsWith(name)));
    if (self < 0 || total < 0) return ["no columns"];
    const units = { ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, min: 60, h: 3600 };
    const value = (row, at) => {
      const [number, unit] = (row.children[at]?.innerText.replaceAll(",", "") || "0").trim().split(/\s+/);
      return Number.parseFloat(number) * (units[unit] ?? 1);
    };
    const all = [...table.querySelectorAll(rows)].filter((row) => row.children.length > Math.max(self, total));
    if (all.length === 0) return ["no rows"];
    return all.filter((row) => value(row, self) > value(row, total) * 1.0001 + 1e-9).map((row) => row.innerText.replaceAll(/\s+/g, " "));
  }), rowSelector);
  check(wrong.length === 0, "own time above the total", wrong.slice(0, 3).join("; "));
}

async function viewsAgree({ file, name, pages, all, selections, functions_s, recording_share, gains_s, changes }) {
  const { page, close } = await open(file);
  const goToHash = async (id, query) => {
    where = `${name}, ${id}, ${query || "nothing chosen"}`;
    await page.evaluate((to) => (location.hash = to), `#/${id}?${query}`);
    await page.waitForSelector(`nav a[data-page="${id}"][aria-current="page"]`);
    await drawn(page);
    // No bar is longer than its whole.
    const long = await page.$$eval("main .bar", (bars) => bars.filter((bar) =>
      [...bar.querySelectorAll(".bar-part")].reduce((sum, part) => sum + Number.parseFloat(part.style.width), 0) > 100.01).map((bar) => bar.getAttribute("aria-label")));
    check(long.length === 0, "a bar with more than its whole", long[0]);
  };
  for (const { query, seconds } of selections) {
    await goToHash("summary", query);
    const tile = await cellsOf(page, "Time by category");
    const shares = addUp("summary", Object.fromEntries(Object.entries(tile).map(([title, [share]]) => [title, percentOf(share)])));
    for (const [title, field] of Object.entries(CATEGORY_TITLES))
      if (seconds?.[field] !== undefined && seconds[field] !== null)
        check(near(secondsOf(tile[title]?.[1] ?? ""), seconds[field], 0.006, 1e-9), `time of ${title}`, `${tile[title]?.[1]}, not ${seconds[field]} s`);
    await goToHash("timeline", query);
    const figures = await cellsOf(page, "Values over the selected time and ranks");
    const overTime = addUp("timeline", Object.fromEntries(Object.entries(figures).filter(([title]) => title in CATEGORY_TITLES).map(([title, [share]]) => [title, percentOf(share)])));
    for (const [title, share] of Object.entries(overTime))
      check(near(share, shares[title], 0, 0.11), `share of ${title}`, `${share} % in the timeline, ${shares[title]} % in the summary`);
    await goToHash("hotspots", query);
    await selfWithinTotal(page, "main table[aria-label=Functions], main table", "tbody tr[data-row]");
    const sum = await timeOfFunctions(page);
    if (query === "") check(near(sum, functions_s, 0.006, 0), "time of all functions", `${sum}, not ${functions_s}`);
    await goToHash("tree", `${query}&view=table&open=all`);
    await selfWithinTotal(page, "main table", "tbody tr");
    await goToHash("source", query);
    await selfWithinTotal(page, "main .src-table", "tbody tr[id]");
  }
  for (const id of pages) {
    const texts = [];
    for (const query of ["", all]) {
      await goToHash(id, query);
      texts.push(await page.innerText("main"));
    }
    check(texts[0] === texts[1], "all ranks chosen is not none chosen",
      texts[0].split("\n").map((line, i) => [line, texts[1].split("\n")[i]]).filter(([a, b]) => a !== b).slice(0, 3).map((pair) => pair.join(" / ")).join("; "));
  }
  await goToHash("summary", "");
  // What recording cost is the report's figure, which has MPI calls in it, not one that the page computes from samples.
  const overhead = await page.$$eval("main .tile", (tiles) => tiles.find((one) => one.querySelector(".tile-name")?.textContent === "Overhead")?.querySelector(".tile-value")?.textContent ?? "");
  check(recording_share === null ? overhead === "–" : near(percentOf(overhead.replace("≈ ", "")), 100 * recording_share, 0, 0.0051), "overhead", `${overhead}, not ${recording_share}`);
  // Findings as the report orders them, each with what it would save; all of them can be reached.
  check((await page.locator("main .finding").count()) === Math.min(8, gains_s.length), "the first findings", String(await page.locator("main .finding").count()));
  if (gains_s.length > 8) await page.click("main .findings + button");
  const gains = await page.$$eval("main .finding", (rows) => rows.map((row) => row.querySelector(".finding-gain")?.innerText ?? null));
  check(gains.length === gains_s.length, "all findings", `${gains.length}, not ${gains_s.length}`);
  gains_s.forEach((seconds, i) => {
    const shown = /^Saves (?:at most )?(\S+ \S+)/.exec(gains[i] ?? "")?.[1];
    check(seconds === null ? gains[i] === null : near(secondsOf(shown ?? ""), seconds, 0.006, 1e-9), `gain of finding ${i}`, `${gains[i]}, not ${seconds}`);
  });
  // The ranking of changes, with the numbers of the report.
  if (changes.length > 8) await page.click("main .gains + button");
  const ranking = await page.$$eval("main .gains tbody tr", (rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText)));
  check(ranking.length === changes.length, "changes", `${ranking.length}, not ${changes.length}`);
  changes.forEach(({ change, gain_s, error_s, predicted_s }, i) => {
    const cells = ranking[i] ?? [];
    // Names that would turn the writing round are escaped.
    const named = cells[0] === change || /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(change);
    const same = named && [[2, gain_s], [3, error_s], [5, predicted_s]].every(([column, s]) => near(secondsOf(cells[column] ?? ""), s, 0.006, 1e-9));
    check(same, `change ${i}`, `${cells.join(" | ")}, not ${change} ${gain_s} ${error_s} ${predicted_s}`);
  });
  if (await page.$("main .gain-command")) {
    await page.fill("main .gain-other input", "function it's x0");
    const command = await page.innerText("main .gain-command");
    check(command === "clusterprof whatif RUN --change 'function it'\\''s x0'", "the command of another change", command);
  }
  where = `${name}, Ranks`;
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("r");
  await page.keyboard.type("0");
  await page.keyboard.press("Enter");
  check((await page.evaluate(() => document.activeElement?.id)) === "main", "Enter leaves the focus in the field");
  await close();
}

// An efficiency above 100 %, and a library call that blocked.
async function rareThings({ file }) {
  const { page, close } = await open(file);
  await goTo(page, "summary");
  const marked = await page.$$eval("main .eff", (nodes) => nodes.filter((node) => node.innerText.includes("measuring error")).map((node) => node.className));
  check(marked.join() === "eff eff-serialization", "marks of measuring error", marked.join());
  await goTo(page, "offcpu");
  const cells = await page.$$eval('main [aria-label="Lines by blocked time"] tbody tr', (rows) => rows.map((row) => row.cells[2].innerText));
  check(cells.join() === "clock_nanosleep,", "library calls", cells.join());
  await close();
}

const scenarios = { rareThings, viewsAgree, policy, timeFollows, rankFollows, nodeFollows, regionFollows, searchFinds, hostileStayText, keyboardAlone, sources };
try {
  for (const report of expected.reports) await everyPage(report);
  for (const { scenario, ...arguments_ } of expected.scenarios) {
    const begin = Date.now();
    try {
      await scenarios[scenario](arguments_);
    } catch (error) {
      check(false, "stopped", error.message);
    }
    console.log(`${scenario}: ${Date.now() - begin} ms`);
  }
} finally {
  await browser.close();
}
console.log(`${checks} checks, ${failures} failures`);
process.exitCode = failures === 0 && checks > 0 ? 0 : 1;
