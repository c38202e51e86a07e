/** The few ways this project makes elements. Text only ever becomes a text node: agent text is hostile. */

/** @typedef {Node | string | null | undefined | false} Child */

/**
 * An element with attributes and children. `on` maps event names to listeners; a false or null attribute is left out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown> & { on?: Record<string, (event: any) => void> }} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [type, listener] of Object.entries(/** @type {Record<string, (event: any) => void>} */ (value))) {
        element.addEventListener(type, listener);
      }
    } else {
      setAttribute(element, name, value);
    }
  }
  element.append(...present(children));
  return element;
}

/** @param {Element} element @param {string} name @param {unknown} value null, undefined and false take it away */
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else {
    const text = value === true ? "" : String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

/** @param {Child[]} children @returns {(Node | string)[]} */
function present(children) {
  const there = /** @type {(Node | string)[]} */ (children.filter((child) => child || child === ""));
  return there.flatMap((child) => (typeof child === "string" && APART.test(child) ? pieces(child) : [child]));
}

/** What `apart` in words.js marks: a name, title or quote inside a sentence. */
const APART = /\u2068([^\u2068\u2069]*)\u2069/;

/** A sentence with its names in elements of their own, so that none turns the words around it. @param {string} text @returns {(Node | string)[]} */
function pieces(text) {
  return text.split(APART).map((piece, at) => (at % 2 ? el("bdi", {}, piece) : piece)).filter((piece) => piece !== "");
}

/** Replace what an element holds. @param {Element} element @param {...Child} children */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
}

/** Write text only where it changed, so that nothing flickers and no reader repeats it. @param {Node} node @param {string} text */
export function write(node, text) {
  if (!APART.test(text)) {
    if (node.textContent !== text) node.textContent = text;
    return;
  }
  const parts = pieces(text);
  const words = parts.map((part) => (typeof part === "string" ? part : part.textContent)).join("");
  if (node.textContent !== words) /** @type {Element} */ (node).replaceChildren(...parts);
}

/**
 * One icon of the sprite that every page carries.
 * @param {string} name
 * @returns {SVGSVGElement}
 */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/**
 * A button that says what it does.
 * @param {string} label shown, or with `iconName` spoken
 * @param {(event: Event) => void} act
 * @param {{ kind?: string, iconName?: string, title?: string, name?: string }} [options] `name` is spoken instead, where
 *   several buttons show the same words; it begins with them
 * @returns {HTMLButtonElement}
 */
export function button(label, act, { kind = "", iconName = "", title = "", name = "" } = {}) {
  const only = iconName !== "";
  return el(
    "button",
    { type: "button", class: `btn ${kind}${only ? " icon-only" : ""}`.trim(), "aria-label": name || (only && label), title: title || (only && label), on: { click: act } },
    only ? icon(iconName) : label,
  );
}

/** The element with this id; the page's template promises it. @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page lacks #${id}`);
  return element;
}

/** The page's data block. @param {string} id @returns {any} */
export function readJson(id) {
  return JSON.parse(byId(id).textContent || "null");
}

/** Show a dialog from its template-made element, and close it by a press on the backdrop. @param {HTMLDialogElement} dialog */
export function openDialog(dialog) {
  if (!dialog.open) dialog.showModal();
  dialog.onclick = (event) => {
    if (event.target === dialog) dialog.close();
  };
}

let menus = 0;

/**
 * Open a menu beside a button (on phones: a sheet from below). Each entry is a node, or a line that acts when pressed.
 * @param {HTMLElement} anchor
 * @param {(Node | { label: string, act: () => void, name?: string })[]} entries `name`: what is spoken instead of the label
 * @param {string} label
 * @param {{ beside?: boolean, back?: () => HTMLElement | null | undefined }} [options] `beside`: it must not cover its row; `back`: where the
 *   focus goes if the anchor was drawn anew meanwhile
 */
export function openMenu(anchor, entries, label, { beside = false, back } = {}) {
  const menu = el("div", { popover: "auto", id: `menu-${++menus}`, role: "group", "aria-label": label });
  for (const entry of entries) {
    menu.append(
      entry instanceof Node
        ? entry
        : el("button", { type: "button", class: "item", "aria-label": entry.name, on: { click: () => { menu.hidePopover(); entry.act(); } } }, entry.label),
    );
  }
  menu.addEventListener("toggle", (event) => {
    if (/** @type {ToggleEvent} */ (event).newState === "closed") {
      const lost = !document.activeElement || document.activeElement === document.body || menu.contains(document.activeElement);
      menu.remove();
      anchor.setAttribute("aria-expanded", "false");
      if (lost) (anchor.isConnected ? anchor : back?.())?.focus();
    }
  });
  (anchor.closest("dialog[open]") || document.body).append(menu); // outside an open dialog nothing can be pressed
  menu.showPopover();
  anchor.setAttribute("aria-expanded", "true");
  place(menu, anchor, beside);
  /** @type {HTMLElement | null} */ (menu.querySelector("button, input, textarea"))?.focus();
  return menu;
}

/** Above the anchor where there is room, else below, or beside it; inside the window always. @param {HTMLElement} menu @param {HTMLElement} anchor @param {boolean} beside */
function place(menu, anchor, beside) {
  const at = anchor.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const edge = (anchor.closest(".side") || anchor).getBoundingClientRect().right;
  if (beside && edge + 8 + width < innerWidth) {
    menu.style.setProperty("top", `${Math.max(8, Math.min(at.top, innerHeight - height - 8))}px`);
    menu.style.setProperty("left", `${edge + 8}px`);
    return;
  }
  const top = at.top - height - 6 > 8 ? at.top - height - 6 : Math.min(at.bottom + 6, innerHeight - height - 8);
  menu.style.setProperty("top", `${Math.max(8, top)}px`);
  menu.style.setProperty("left", `${Math.max(8, Math.min(at.right - width, innerWidth - width - 8))}px`);
}

/** What follows is a task of its own, so that a key or a press on a slow device need not wait for all of it; on a hidden page nobody presses, and its timers are slow. */
export async function ownTask() {
  if (!document.hidden) await new Promise((resolve) => setTimeout(resolve));
}
