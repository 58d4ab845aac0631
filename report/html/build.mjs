// SPDX-License-Identifier: BSD-3-Clause
// node build.mjs [FOLDER]: bundles src/ to FOLDER/page.js and page.css (dist/ if not given).
// node build.mjs --test: bundles test/*.test.ts and runs them with `node --test`.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));

// Each page is a copy of these packages: their licences ask to be in it.
function licences() {
  const packages = ["uplot", "highlight.js"];
  return packages
    .map((name) => {
      const text = readFileSync(join(here, "node_modules", name, "LICENSE"), "utf8");
      return `${name}\n${text.trim()}`;
    })
    .join("\n\n")
    .replaceAll("*/", "* /")
    .replaceAll("</", "< /");
}

const common = {
  absWorkingDir: here,
  bundle: true,
  charset: "ascii",
  logLevel: "warning",
  metafile: false,
  sourcemap: false,
  target: ["es2022"],
};

async function bundle(folder) {
  const options = { ...common, minify: true, legalComments: "none" };
  await esbuild.build({
    ...options,
    entryPoints: ["src/main.ts"],
    outfile: join(folder, "page.js"),
    format: "iife",
    banner: { js: `/*! clusterprof, BSD-3-Clause. With\n\n${licences()}\n*/` },
  });
  await esbuild.build({
    ...options,
    entryPoints: ["src/style/page.css"],
    outfile: join(folder, "page.css"),
  });
}

async function test() {
  const out = mkdtempSync(join(tmpdir(), "clusterprof-report-"));
  try {
    const entries = readdirSync(join(here, "test")).filter((name) => name.endsWith(".test.ts"));
    await esbuild.build({
      ...common,
      entryPoints: entries.map((name) => `test/${name}`),
      outdir: out,
      outExtension: { ".js": ".mjs" },
      entryNames: "[name]",
      format: "esm",
      platform: "node",
    });
    const files = entries.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
    const done = spawnSync(process.execPath, ["--test", ...files], { cwd: here, stdio: "inherit" });
    process.exitCode = done.status ?? 1;
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

if (process.argv[2] === "--test") await test();
else await bundle(resolve(process.argv[2] ?? join(here, "dist")));
