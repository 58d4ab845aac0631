// SPDX-License-Identifier: BSD-3-Clause
import type { Model } from "./model";
import type { Store } from "./selection";

export interface PageHandle {
  // The selection, a parameter, the theme or the width has changed.
  update(): void;
  destroy?(): void;
}

export interface Page {
  id: string; // in the hash
  title: string;
  hint?: string; // what it answers, for the navigation's tooltip
  hidden?(model: Model): boolean; // the run has nothing for it
  mount(root: HTMLElement, store: Store): PageHandle;
}
