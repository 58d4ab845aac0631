// SPDX-License-Identifier: BSD-3-Clause
import assert from "node:assert/strict";
import test from "node:test";

import { highlight, languageOf } from "../src/highlight/tokens";

const joined = (text: string, language: Parameters<typeof highlight>[1]): string =>
  highlight(text, language)
    .map((line) => line.map((token) => token.text).join(""))
    .join("\n");

test("files have the language of their name", () => {
  assert.equal(languageOf("/a/solver.py"), "python");
  assert.equal(languageOf("kernel.pyx"), "python");
  assert.equal(languageOf("kernel.CU"), "cpp");
  assert.equal(languageOf("a.b/dynamics.F90"), "fortran");
  assert.equal(languageOf("run.sh"), "bash");
  assert.equal(languageOf("lib.rs"), "rust");
  assert.equal(languageOf("/dir.py/Makefile"), null);
  assert.equal(languageOf("data.xyz"), null);
});

test("a string over lines is coloured on each of them", () => {
  const lines = highlight('x = """one\ntwo\n"""\ny = 1', "python");
  assert.equal(lines.length, 4);
  assert.deepEqual(lines[1], [{ text: "two", scope: "string" }]);
  assert.ok(lines[3].some((token) => token.scope === "number" && token.text === "1"));
});

test("markup and escapes stay text", () => {
  const text = 's = f"<img src=x onerror={1}>&amp;" # </script>\n\tprint("\\u2028", \'&lt;\')\n';
  assert.equal(joined(text, "python"), text);
  assert.equal(joined(text, null), text);
});

test("every language gives back the text it got", () => {
  const text =
    'for (int i = 0; i < n; ++i) { a["<b>"] = R"(x)"; } // é 漢\n! comment\n#!/bin/sh\nend subroutine "';
  for (const language of ["bash", "c", "cpp", "fortran", "python", "rust"] as const) {
    assert.equal(joined(text, language), text);
  }
});

test("line ends of other systems are accepted", () => {
  assert.equal(highlight("a\r\nb\rc", null).length, 3);
});
