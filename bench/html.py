#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures what the page of large runs costs: its size, the time to make it, and the time to open it in a browser.

For every number of nodes, a synthetic run is made (libexec/clusterprof/synth: 64 ranks per node) and merged. Then these are
measured:

  page       size of the file that clusterprof report --html writes, and how much of it is script and style
  made in    that command from the merged profile, median, with its peak of resident memory
  opens in   from navigation until the page is drawn and can be used (the second frame behind its performance mark
             "clusterprof-ready": charts are drawn in the first one), median, in headless Chromium; needs node and playwright-core in report/html/node_modules (npm ci --prefix report/html)

    bench/html.py [--build DIR] [--nodes 1,16,64,256,1024] [--ranks-per-node N] [--paths N] [--paths-per-rank N]
                  [--rounds 5] [--work DIR] [--chromium FILE]
"""

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from commands import fail, timed

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

OPEN = """
import { chromium } from "playwright-core";
const [executablePath, url, rounds] = process.argv.slice(2);
const times = [];
// Taken within the page: messages to it take time, too.
const watch = () => {
  window.drawn = new Promise((done) => {
    new PerformanceObserver((list, observer) => {
      if (list.getEntriesByName("clusterprof-ready").length === 0) return;
      observer.disconnect();
      requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() / 1000)));
    }).observe({ type: "mark", buffered: true });
  });
};
for (let i = 0; i <= Number(rounds); ++i) {  // the first one warms up
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") errors.push(message.text()); });
  await page.addInitScript(watch);
  await page.goto(url);
  await page.waitForFunction(() => document.documentElement.dataset.ready, null, { timeout: 120000, polling: 10 });
  times.push(await page.evaluate(() => window.drawn));
  await browser.close();
  if (errors.length) throw new Error(errors.join("; "));
}
console.log(JSON.stringify(times.slice(1)));
"""


def fixed_bytes(page):
    """Of the script and style."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    return sum(len(part) for part in re.findall(r"<script>(.*?)</script>|<style>(.*?)</style>", text, re.DOTALL)
               for part in part)


def opening_times(page, chromium, rounds):
    folder = os.path.join(TOP, "report", "html")
    node = shutil.which("node")
    if node is None or chromium is None or not os.path.isdir(os.path.join(folder, "node_modules", "playwright-core")):
        return None
    # Modules are looked for from the file's own folder on.
    with tempfile.NamedTemporaryFile("w", suffix=".mjs", prefix=".bench-", dir=folder, encoding="utf-8") as script:
        script.write(OPEN)
        script.flush()
        done = subprocess.run([node, script.name, chromium, f"file://{page}", str(rounds)], capture_output=True, text=True,
                              check=False)
    if done.returncode != 0:
        fail(f"the page does not open: {done.stderr[-1000:]}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--nodes", default="1,16,64,256,1024")
    parser.add_argument("--ranks-per-node", type=int, default=64)
    parser.add_argument("--paths", type=int, default=200)
    parser.add_argument("--paths-per-rank", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    libexec = os.path.join(os.path.abspath(options.build), "libexec", "clusterprof")
    analyze, synth = os.path.join(libexec, "analyze"), os.path.join(libexec, "synth")
    for program in (analyze, synth):
        if not os.access(program, os.X_OK):
            fail(f"{program}: not there (--build)")

    print(f"{platform.node()}, {platform.system()} {platform.release()}, {os.cpu_count()} cores, "
          f"{time.strftime('%Y-%m-%d')}; median of {options.rounds}\n")
    print("| ranks | call paths | profile | page | script, style | made in | peak | opens in (least, most) |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="clusterprof-html-", dir=options.work) as work:
        for nodes in map(int, options.nodes.split(",")):
            run, page = os.path.join(work, "run"), os.path.join(work, "page.html")
            subprocess.run([synth, "--nodes", str(nodes), "--ranks-per-node", str(options.ranks_per_node), "--paths",
                            str(options.paths), "--paths-per-rank", str(options.paths_per_rank), run], check=True)
            merged = subprocess.run([analyze, "merge", "-q", run], check=True, capture_output=True, text=True).stdout
            made = [timed([analyze, "report", run, "--html", page]) for _ in range(options.rounds)]
            opened = opening_times(page, options.chromium, options.rounds)
            paths = re.search(r"(\d+) call paths", merged)[1]
            shown = "no browser" if opened is None else \
                f"{statistics.median(opened):.2f} s ({min(opened):.2f}, {max(opened):.2f})"
            profile = os.path.getsize(os.path.join(run, "profile.h5"))
            print(f"| {nodes * options.ranks_per_node} | {paths} | {profile / 1e6:.1f} MB "
                  f"| {os.path.getsize(page) / 1e6:.2f} MB | {fixed_bytes(page) / 1e6:.2f} MB "
                  f"| {statistics.median(seconds for seconds, _ in made):.2f} s | {max(peak for _, peak in made) / 1e6:.0f} MB "
                  f"| {shown} |", flush=True)
            shutil.rmtree(run)


if __name__ == "__main__":
    main()
