// SPDX-License-Identifier: BSD-3-Clause
#include "report/plain_html/document.hpp"

#include "report/format/characters.hpp"

namespace clusterprof::report::plain_html {
namespace {

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>)";

constexpr std::string_view kStyle = R"(</title>
<style>
:root { --ink: #1c2430; --dim: #5c6673; --line: #dde2e8; --paper: #fff; --band: #f5f7f9; --good: #0b6b4f; --bad: #a8371e; --bar: #8fa3b8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dfe5ec; --dim: #93a0ae; --line: #333c47; --paper: #14191f; --band: #1b2129; --good: #5cc8a0; --bad: #f0916f; --bar: #55697e; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 2rem 3rem; max-width: 78rem; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: 0 0 .75rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem .9rem; margin: 0; }
dt { color: var(--dim); }
dd { margin: 0; overflow-wrap: anywhere; }
.remark, .more { color: var(--dim); margin: .35rem 0 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .22rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 500; }
th:first-child, td:first-child, .text { text-align: left; }
td.name { font-family: ui-monospace, monospace; font-size: .92em; overflow: hidden; text-overflow: ellipsis; max-width: 36rem; }
tbody tr:hover { background: var(--band); }
.better { color: var(--good); }
.worse { color: var(--bad); }
.noise { color: var(--dim); }
.bar { width: 8rem; min-width: 8rem; }
.bar span { display: block; position: relative; height: .7rem; background: var(--band); }
.bar i { position: absolute; top: 0; bottom: 0; background: var(--bar); }
.worse .bar i { background: var(--bad); }
.better .bar i { background: var(--good); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem 2rem; }
figure { margin: 0; }
figcaption { color: var(--dim); margin-bottom: .25rem; }
svg { width: 100%; height: auto; }
svg text { fill: var(--dim); font-size: 11px; }
svg .axis { stroke: var(--line); fill: none; }
svg .series { fill: none; stroke-width: 2; }
svg .dashed { stroke-dasharray: 5 4; }
svg .band { stroke: none; opacity: .15; }
.c0 { --c: #0072b2; } .c1 { --c: #d55e00; } .c2 { --c: #009e73; } .c3 { --c: #cc79a7; }
.c4 { --c: #8a6d00; } .c5 { --c: #56b4e9; } .c6 { --c: #7a7a7a; } .c7 { --c: #a0522d; }
svg .series { stroke: var(--c); } svg .mark, svg .part, svg .band { fill: var(--c); } svg .name { fill: var(--ink); }
ul { list-style: none; margin: 0; padding: 0; }
li { display: grid; grid-template-columns: 3.5rem 4.5rem 1fr; gap: .6rem; padding: .3rem 0; border-bottom: 1px solid var(--line); }
@media print { body { max-width: none; padding: 0; } .scroll { overflow: visible; } }
</style>
</head>
<body>
)";

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : format::printable(text)) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  return out;
}

std::string head(std::string_view title) {
  std::string out(kHead);
  out += escaped(title);
  out += kStyle;
  return out;
}

}  // namespace clusterprof::report::plain_html
