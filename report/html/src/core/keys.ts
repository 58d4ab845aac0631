// SPDX-License-Identifier: BSD-3-Clause
// Keys, and the list of them that `?` shows.

export interface Key {
  key: string; // as KeyboardEvent.key has it; "g h": one after the other
  help: string; // empty: not in the list
  shown?: string; // in the list, in place of the key
  run(event: KeyboardEvent): void;
}

const bound: Key[] = [];
let pending = "";
let pendingSince = 0;

// Returns what takes them away again: a page's keys go with the page.
export function bindKeys(keys: Key[]): () => void {
  bound.push(...keys);
  return () => {
    for (const key of keys) bound.splice(bound.indexOf(key), 1);
  };
}

export function boundKeys(): readonly Key[] {
  return bound;
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

export function startKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const sequence = pending && event.timeStamp - pendingSince < 1500 ? `${pending} ${event.key}` : event.key;
    pending = "";
    const hit = bound.findLast((k) => k.key === sequence) ?? bound.findLast((k) => k.key === event.key);
    if (hit) {
      event.preventDefault();
      hit.run(event);
    } else if (bound.some((k) => k.key.startsWith(`${event.key} `))) {
      pending = event.key;
      pendingSince = event.timeStamp;
    }
  });
}
