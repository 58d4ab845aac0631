// SPDX-License-Identifier: BSD-3-Clause
// Source files, line by line: the files on the left, the text of one of them on the right. The parts are in ../source.
import { type Inlined, inlinedAt, lineTimes } from "../calltree/line_time";
import { searchField } from "../charts/code_parts";
import { el, replace } from "../core/dom";
import { printable, shortenMiddle } from "../core/format";
import { bindKeys } from "../core/keys";
import type { Page, PageHandle } from "../core/page";
import type { Store } from "../core/selection";
import { type Weights, weights } from "../core/weights";
import { fileHeader } from "../source/file_header";
import { fileList, fileNote } from "../source/file_list";
import { filesOf, findFile, type SourceFile } from "../source/files";
import { SourceText } from "../source/text";

interface State {
  weights: Weights;
  file: string;
  line: number;
  theme: string | undefined;
}

class SourcePage implements PageHandle {
  private readonly list = el("ol", { class: "src-files", "aria-label": "Files, hottest first" });
  private readonly filter = searchField("Filter files");
  private readonly note = el("p", { class: "page-note" });
  private readonly header = el("header", { class: "src-head" });
  private readonly scroller = el("div", {
    class: "src-scroll",
    tabindex: 0,
    role: "region",
    "aria-label": "Source text",
  });
  private readonly ruler = el("div", { class: "src-ruler", "aria-hidden": "true" });
  private readonly unbind: () => void;
  private state: State | null = null;
  private files: SourceFile[] = [];
  private shown: SourceFile | null = null;
  private text: SourceText | null = null;
  private inlined: (file: string, line: number) => Inlined[] = () => [];

  constructor(
    root: HTMLElement,
    private readonly store: Store,
  ) {
    root.append(
      el(
        "div",
        { class: "src-page" },
        el("aside", { class: "src-side" }, this.filter, this.note, this.list),
        el("section", { class: "src-main" }, this.header, el("div", { class: "src-body" }, this.scroller, this.ruler)),
      ),
    );
    this.filter.addEventListener("input", () => this.makeList());
    this.unbind = bindKeys([
      { key: "n", help: "Next hot line", run: () => this.jump(1) },
      { key: "p", help: "Previous hot line", run: () => this.jump(-1) },
      {
        key: "/",
        help: "Filter the files",
        run: () => (this.filter.hidden ? this.scroller.focus() : this.filter.select()),
      },
    ]);
    this.update();
  }

  destroy(): void {
    this.unbind();
    this.text?.destroy();
  }

  update(): void {
    const next = this.wanted();
    const before = this.state;
    this.state = next;
    const fresh = before === null || before.weights !== next.weights;
    if (fresh) this.readTimes();
    if (!fresh && before.file === next.file && before.theme === next.theme) {
      if (before.line !== next.line) this.text?.reveal(next.line);
      return;
    }
    const top = this.scroller.scrollTop;
    this.shown = findFile(this.files, next.file);
    this.makeList();
    if (!this.shown) {
      this.showNoFile(next.file);
      return;
    }
    replace(this.header, fileHeader(this.store, this.shown, this.go));
    this.makeText(this.shown, next.line);
    if (before !== null && before.file === next.file && before.line === next.line) this.scroller.scrollTop = top;
    else if (next.line > 0) this.text?.reveal(next.line);
    else this.scroller.scrollTop = 0;
  }

  private wanted(): State {
    const { store } = this;
    return {
      weights: weights(store),
      file: store.param("file") ?? "",
      line: Number(store.param("line") ?? 0) || 0,
      theme: document.documentElement.dataset.theme,
    };
  }

  private readTimes(): void {
    const times = lineTimes(this.store);
    this.files = filesOf(this.store.model, times).sort((a, b) => b.self - a.self || a.index - b.index);
    this.inlined = inlinedAt(this.store);
  }

  private makeList(): void {
    const { files, filter, store } = this;
    filter.hidden = files.length < 12;
    replace(this.list, fileList(store, files, filter.value.trim().toLowerCase(), this.shown));
    replace(this.note, fileNote(store, files));
  }

  private readonly go = (line: number): void => {
    this.store.setParams({ file: this.shown?.file ?? null, line });
  };

  private makeText(file: SourceFile, line: number): void {
    this.text?.destroy();
    const text = new SourceText(this.store, file, this.inlined, line, this.scroller);
    this.text = text;
    replace(this.scroller, text.table);
    text.fillIfShort();
    replace(this.ruler, text.marks(this.go));
    this.ruler.style.height = `min(calc(100% - 36px), ${text.table.offsetHeight - 30}px)`;
  }

  private showNoFile(file: string): void {
    this.header.replaceChildren();
    this.ruler.replaceChildren();
    this.text?.destroy();
    this.text = null;
    const name = shortenMiddle(printable(file), 90);
    replace(
      this.scroller,
      el("p", { class: "empty" }, `The page has no lines of ${name}: they had no time, or too little.`),
    );
  }

  // To the next hot line after the chosen one, or before it; without one to the first or the last.
  private jump(step: 1 | -1): void {
    const hot = this.text?.hot ?? [];
    if (hot.length === 0) return;
    const from = this.state?.line ?? 0;
    const next = step > 0 ? hot.find((line) => line > from) : hot.findLast((line) => line < from);
    this.go(next ?? (step > 0 ? hot[0] : hot[hot.length - 1]));
  }
}

export const page: Page = {
  id: "source",
  title: "Source",
  hint: "Source files by time, line by line",
  hidden: (model) => model.header.sources.length === 0,
  mount: (root, store) => new SourcePage(root, store),
};
