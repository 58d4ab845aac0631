// SPDX-License-Identifier: BSD-3-Clause
// Source text into coloured pieces, line by line. highlight.js finds them; its HTML is never used: what it
// recognises is collected as it is emitted, and ends up as text nodes.
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import fortran from "highlight.js/lib/languages/fortran";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";

export interface Token {
  text: string;
  scope: string; // "": plain
}

const kLanguages = { bash, c, cpp, fortran, python, rust };
export type Language = keyof typeof kLanguages;

const kByExtension: Record<string, Language> = {
  py: "python",
  pyw: "python",
  pyi: "python",
  pyx: "python",
  pxd: "python",
  pxi: "python",
  c: "c",
  h: "cpp",
  cc: "cpp",
  cpp: "cpp",
  cxx: "cpp",
  "c++": "cpp",
  hh: "cpp",
  hpp: "cpp",
  hxx: "cpp",
  inl: "cpp",
  ipp: "cpp",
  tcc: "cpp",
  cu: "cpp",
  cuh: "cpp",
  hip: "cpp",
  f: "fortran",
  for: "fortran",
  ftn: "fortran",
  f77: "fortran",
  f90: "fortran",
  f95: "fortran",
  f03: "fortran",
  f08: "fortran",
  sh: "bash",
  bash: "bash",
  rs: "rust",
};

export function languageOf(file: string): Language | null {
  const name = file.slice(file.lastIndexOf("/") + 1);
  const dot = name.lastIndexOf(".");
  return dot < 0 ? null : (kByExtension[name.slice(dot + 1).toLowerCase()] ?? null);
}

// The interface highlight.js asks of an emitter.
class LineEmitter {
  readonly lines: Token[][] = [[]];
  private readonly scopes: string[] = [];

  addText(text: string): void {
    const scope = this.scopes.length > 0 ? this.scopes[this.scopes.length - 1] : "";
    text.split("\n").forEach((part, index) => {
      if (index > 0) this.lines.push([]);
      if (part !== "") this.push({ text: part, scope });
    });
  }
  private push(token: Token): void {
    const line = this.lines[this.lines.length - 1];
    const last = line[line.length - 1];
    if (last && last.scope === token.scope) last.text += token.text;
    else line.push(token);
  }
  openNode(scope: string): void {
    this.scopes.push(scope);
  }
  closeNode(): void {
    this.scopes.pop();
  }
  startScope(scope: string): void {
    this.openNode(scope);
  }
  endScope(): void {
    this.closeNode();
  }
  __addSublanguage(inner: LineEmitter): void {
    inner.lines.forEach((line, index) => {
      if (index > 0) this.lines.push([]);
      line.forEach((token) => this.push({ ...token }));
    });
  }
  finalize(): void {}
  toHTML(): string {
    return "";
  }
}

// Above it, colours are not worth the wait.
const kMostCharacters = 1_000_000;

function plain(text: string): Token[][] {
  return text.split("\n").map((line) => (line === "" ? [] : [{ text: line, scope: "" }]));
}

let instance: typeof hljs | null = null;

// One entry per line of the text; each line's pieces are the line, joined.
export function highlight(text: string, language: Language | null): Token[][] {
  const lines = text.replace(/\r\n?/g, "\n");
  if (language === null || lines.length > kMostCharacters) return plain(lines);
  if (!instance) {
    instance = hljs.newInstance();
    for (const [name, definition] of Object.entries(kLanguages)) instance.registerLanguage(name, definition);
    instance.configure({ __emitter: LineEmitter } as unknown as Parameters<typeof hljs.configure>[0]);
  }
  const emitter = instance.highlight(lines, { language, ignoreIllegals: true })
    ._emitter as unknown as LineEmitter;
  // A grammar that fails half way leaves text out: then it is shown without colours.
  const complete = emitter.lines.map((line) => line.map((token) => token.text).join("")).join("\n") === lines;
  return complete ? emitter.lines : plain(lines);
}
