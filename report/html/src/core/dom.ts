// SPDX-License-Identifier: BSD-3-Clause
// Elements are made from text and elements, never from markup: names in a run are anybody's.

export type Child = Node | string | number | null | undefined | false | Child[];
type Handler = (event: never) => void;
export interface Attrs {
  class?: string | null;
  text?: string;
  title?: string;
  style?: Partial<Record<string, string>>; // also custom properties: {"--share": "0.5"}
  on?: Partial<{ [K in keyof HTMLElementEventMap]: (event: HTMLElementEventMap[K]) => void }>;
  tip?: TipContent; // shown on hover and focus
  data?: Record<string, string>;
  [attribute: string]: unknown; // null, undefined, false: absent; true: present without a value
}

export function append(parent: Node, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(parent, child);
    else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

function setAttrs(element: HTMLElement | SVGElement, attrs: Attrs): void {
  for (const [name, value] of Object.entries(attrs)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.setAttribute("class", value as string);
    else if (name === "text") element.textContent = value as string;
    else if (name === "style")
      for (const [property, v] of Object.entries(value as Record<string, string>)) element.style.setProperty(property, v);
    else if (name === "on")
      for (const [type, handler] of Object.entries(value as Record<string, Handler>))
        element.addEventListener(type, handler as EventListener);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "tip") tip(element as HTMLElement, value as TipContent);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attrs?: Attrs | null,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (attrs) setAttrs(element, attrs);
  append(element, children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attrs?: Attrs | null,
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  if (attrs) setAttrs(element, attrs);
  append(element, children);
  return element;
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

// --- Tooltip: one for the page.

export type TipContent = string | (() => Child);
const tips = new WeakMap<Element, TipContent>();
let tipBox: HTMLElement | null = null;
let tipOwner: Element | null = null;

export function tip<T extends Element>(element: T, content: TipContent): T {
  tips.set(element, content);
  element.setAttribute("data-tip", "");
  return element;
}

function tipElement(): HTMLElement {
  if (!tipBox) {
    tipBox = el("div", { class: "tip", role: "tooltip", id: "tip", hidden: true });
    document.body.append(tipBox);
  }
  return tipBox;
}

export function hideTip(): void {
  if (tipBox) tipBox.hidden = true;
  tipOwner?.removeAttribute("aria-describedby");
  tipOwner = null;
}

// At a point of the window, for canvases.
export function showTip(content: TipContent, x: number, y: number): void {
  const box = tipElement();
  const shown = typeof content === "string" ? content : content();
  if (shown === null || shown === undefined || shown === false || shown === "") {
    hideTip();
    return;
  }
  replace(box, shown);
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const left = Math.max(4, Math.min(x + 12, window.innerWidth - width - 4));
  const below = y + 16 + height < window.innerHeight - 4;
  box.style.left = `${left}px`;
  box.style.top = `${below ? y + 16 : Math.max(4, y - height - 10)}px`;
}

function showTipOf(owner: Element, x: number, y: number): void {
  const content = tips.get(owner);
  if (content === undefined) return;
  showTip(content, x, y);
  if (tipBox && !tipBox.hidden) {
    tipOwner = owner;
    owner.setAttribute("aria-describedby", "tip");
  }
}

export function startTips(): void {
  const ownerOf = (target: EventTarget | null) =>
    target instanceof Element ? target.closest("[data-tip]") : null;
  document.addEventListener("pointerover", (event) => {
    const owner = ownerOf(event.target);
    if (owner === tipOwner) return;
    hideTip();
    if (owner) showTipOf(owner, event.clientX, event.clientY);
  });
  document.addEventListener("focusin", (event) => {
    hideTip();
    const owner = event.target instanceof Element && event.target.matches(":focus-visible") ? ownerOf(event.target) : null;
    if (!owner) return;
    const box = owner.getBoundingClientRect();
    showTipOf(owner, box.left, box.bottom - 12);
  });
  document.addEventListener("focusout", hideTip);
  document.addEventListener("pointerdown", hideTip);
  document.addEventListener("scroll", hideTip, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
  });
}

// --- Bars.

export interface BarPart {
  value: number;
  colour: string; // of CSS
  label: string;
  text?: string; // the value, written out
}

// Parts of `whole` (their sum if not given) side by side; parts say what they are in a tooltip.
export function stackedBar(parts: BarPart[], whole?: number, attrs: Attrs = {}): HTMLElement {
  const sum = whole ?? parts.reduce((s, p) => s + p.value, 0);
  const label = parts
    .filter((p) => p.value > 0)
    .map((p) => `${p.label} ${p.text ?? `${((100 * p.value) / sum).toFixed(1)} %`}`)
    .join(", ");
  return el(
    "div",
    { ...(label === "" ? { "aria-hidden": "true" } : { role: "img", "aria-label": label }), ...attrs, class: `bar ${attrs.class ?? ""}` },
    parts.map((part) =>
      part.value > 0 && sum > 0
        ? el("span", {
            class: "bar-part",
            style: { width: `${(100 * part.value) / sum}%`, background: part.colour },
            tip: `${part.label}  ${part.text ?? ""} ${((100 * part.value) / sum).toFixed(1)} %`,
          })
        : null,
    ),
  );
}

// One value as part of 1.
export function miniBar(share: number | null | undefined, colour = "var(--accent)", attrs: Attrs = {}): HTMLElement {
  const width = share === null || share === undefined || Number.isNaN(share) ? 0 : Math.max(0, Math.min(1, share));
  return el(
    "span",
    { "aria-hidden": "true", ...attrs, class: `mini ${attrs.class ?? ""}` },
    el("span", { style: { width: `${100 * width}%`, background: colour } }),
  );
}

// A choice of one: buttons side by side.
export function choice<T extends string>(
  label: string,
  options: readonly (readonly [T, string])[],
  chosen: T,
  onChoose: (value: T) => void,
): HTMLElement {
  const buttons = options.map(([value, title]) =>
    el("button", {
      type: "button",
      role: "radio",
      "aria-checked": String(value === chosen),
      tabindex: value === chosen ? 0 : -1,
      text: title,
      on: { click: () => pick(value) },
    }),
  );
  const pick = (value: T) => {
    buttons.forEach((button, i) => {
      const is = options[i][0] === value;
      button.setAttribute("aria-checked", String(is));
      button.tabIndex = is ? 0 : -1;
    });
    onChoose(value);
  };
  return el(
    "div",
    {
      class: "choice",
      role: "radiogroup",
      "aria-label": label,
      on: {
        keydown: (event) => {
          const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
          if (!step) return;
          event.preventDefault();
          const at = buttons.findIndex((b) => b.tabIndex === 0);
          const next = (at + step + buttons.length) % buttons.length;
          pick(options[next][0]);
          buttons[next].focus();
        },
      },
    },
    buttons,
  );
}

// A heading and what is below it.
export function section(title: string, attrs: Attrs & { aside?: Child }, ...children: Child[]): HTMLElement {
  const { aside, ...rest } = attrs;
  return el(
    "section",
    { ...rest, class: `card ${rest.class ?? ""}`.trim() },
    el("header", null, el("h2", null, title), aside ? el("div", { class: "aside" }, aside) : null),
    children,
  );
}

// Small type for what does not follow the selection.
export function ofWholeRun(): HTMLElement {
  return el("span", { class: "whole-run" }, "of the whole run");
}
