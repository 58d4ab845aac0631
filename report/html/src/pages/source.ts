// SPDX-License-Identifier: BSD-3-Clause
// Source files, line by line: the files on the left, the text of one of them on the right. The parts are in ../source.
import { type Inlined, inlinedAt, lineTimes } from "../calltree/line_time";
import { searchField } from "../charts/code_parts";
import { el, replace } from "../core/dom";
import { printable, shortenMiddle } from "../core/format";
import { bindKeys } from "../core/keys";
import type { Page } from "../core/page";
import { type Weights, weights } from "../core/weights";
import { fileHeader } from "../source/file_header";
import { fileList, fileNote } from "../source/file_list";
import { filesOf, findFile, type SourceFile } from "../source/files";
import { SourceText } from "../source/text";

export const page: Page = {
  id: "source",
  title: "Source",
  hint: "Source files by time, line by line",
  hidden: (model) => model.header.sources.length === 0,
  mount(root, store) {
    const { model } = store;
    const list = el("ol", { class: "src-files", "aria-label": "Files, hottest first" });
    const filter = searchField("Filter files");
    const note = el("p", { class: "page-note" });
    const header = el("header", { class: "src-head" });
    const scroller = el("div", {
      class: "src-scroll",
      tabindex: 0,
      role: "region",
      "aria-label": "Source text",
    });
    const ruler = el("div", { class: "src-ruler", "aria-hidden": "true" });
    root.append(
      el(
        "div",
        { class: "src-page" },
        el("aside", { class: "src-side" }, filter, note, list),
        el("section", { class: "src-main" }, header, el("div", { class: "src-body" }, scroller, ruler)),
      ),
    );

    interface State {
      weights: Weights;
      file: string;
      line: number;
      theme: string | undefined;
    }
    const wanted = (): State => ({
      weights: weights(store),
      file: store.param("file") ?? "",
      line: Number(store.param("line") ?? 0) || 0,
      theme: document.documentElement.dataset.theme,
    });
    let state: State | null = null;
    let files: SourceFile[] = [];
    let shown: SourceFile | null = null;
    let text: SourceText | null = null;
    let inlined: (file: string, line: number) => Inlined[] = () => [];

    function makeList(): void {
      filter.hidden = files.length < 12;
      replace(list, fileList(store, files, filter.value.trim().toLowerCase(), shown));
      replace(note, fileNote(store, files));
    }

    function go(line: number): void {
      store.setParams({ file: shown?.file ?? null, line });
    }

    function makeText(file: SourceFile): void {
      text?.destroy();
      text = new SourceText(store, file, inlined, state?.line ?? 0, scroller);
      replace(scroller, text.table);
      text.fillIfShort();
      replace(ruler, text.marks(go));
      ruler.style.height = `min(calc(100% - 36px), ${text.table.offsetHeight - 30}px)`;
    }

    // To the next hot line after the chosen one, or before it; without one to the first or the last.
    function jump(step: 1 | -1): void {
      const hot = text?.hot ?? [];
      if (hot.length === 0) return;
      const from = state?.line ?? 0;
      const next = step > 0 ? hot.find((line) => line > from) : hot.findLast((line) => line < from);
      go(next ?? (step > 0 ? hot[0] : hot[hot.length - 1]));
    }

    function update(): void {
      const next = wanted();
      const before = state;
      state = next;
      const fresh = before === null || before.weights !== next.weights;
      if (fresh) {
        const times = lineTimes(store);
        files = filesOf(model, times).sort((a, b) => b.self - a.self || a.index - b.index);
        inlined = inlinedAt(store);
      }
      if (!fresh && before.file === next.file && before.theme === next.theme) {
        if (before.line !== next.line) text?.reveal(next.line);
        return;
      }
      const sameFile = before !== null && before.file === next.file;
      const top = scroller.scrollTop;
      shown = findFile(files, next.file);
      makeList();
      if (!shown) {
        header.replaceChildren();
        ruler.replaceChildren();
        text?.destroy();
        text = null;
        replace(
          scroller,
          el(
            "p",
            { class: "empty" },
            `The page has no lines of ${shortenMiddle(printable(next.file), 90)}: they had no time, or too little.`,
          ),
        );
        return;
      }
      replace(header, fileHeader(store, shown, go));
      makeText(shown);
      if (sameFile && before.line === next.line) scroller.scrollTop = top;
      else if (next.line > 0) text?.reveal(next.line);
      else scroller.scrollTop = 0;
    }

    filter.addEventListener("input", makeList);
    const unbind = bindKeys([
      { key: "n", help: "Next hot line", run: () => jump(1) },
      { key: "p", help: "Previous hot line", run: () => jump(-1) },
      { key: "/", help: "Filter the files", run: () => (filter.hidden ? scroller.focus() : filter.select()) },
    ]);
    update();
    return {
      update,
      destroy() {
        unbind();
        text?.destroy();
      },
    };
  },
};
