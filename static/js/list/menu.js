/** What one does with a session from the list: rename it, pin it, archive it and take that back. */
import { button, byId, el, fill, icon, openDialog, openMenu } from "../dom.js";
import { Refused, call } from "../rest.js";
import { apart, plain } from "../words.js";

/** @typedef {import("./rows.js").Row} Row */

/**
 * Give a row its menu, once.
 * @param {HTMLElement} item
 * @param {() => Row | undefined} read what is known of it at the moment of the press
 */
export function addMenu(item, read) {
  if (item.querySelector(".more")) return;
  const opener = el("button", { type: "button", class: "btn quiet icon-only more", "aria-haspopup": "menu", "aria-expanded": "false", on: { click: () => open(opener, read()) } }, icon("more"));
  item.append(opener);
}

/** The button says whose menu it is. @param {HTMLElement} item @param {string} title */
export function nameMenu(item, title) {
  item.querySelector(".more")?.setAttribute("aria-label", `More: ${plain(title)}`);
}

/** @param {HTMLElement} opener @param {Row | undefined} row */
function open(opener, row) {
  if (!row) return;
  const entries = [
    ...(row.role === "owner" ? [{ label: "Rename", act: () => rename(row, opener) }] : []),
    { label: row.pinned ? "Unpin" : "Pin to the top", act: () => void keep(row, { pinned: !row.pinned }) },
    row.archived ? { label: "Put back into the list", act: () => void keep(row, { archived: false }) } : { label: "Archive", act: () => void archive(row) },
  ];
  const menu = openMenu(opener, entries, `For ${plain(row.title)}`);
  menu.setAttribute("role", "menu");
  const items = /** @type {HTMLElement[]} */ ([...menu.querySelectorAll("button")]);
  for (const each of items) each.setAttribute("role", "menuitem");
  menu.addEventListener("keydown", (event) => {
    const at = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + items.length, Home: 0, End: items.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    items[to % items.length].focus();
  });
}

/** A line above the list, with what one can do about it. @param {string} text @param {(Node | false)[]} acts @param {string} [is] */
export function say(text, acts, is = "") {
  fill(byId("says"), text ? el("div", { class: `warn calm${is && " bad"}` }, el("span", {}, text), ...acts, button("Close", () => say("", []), { kind: "quiet", iconName: "close" })) : null);
}

/** Each change is one command: pressed again after a lost answer, nothing happens twice. @param {Row} row @param {Record<string, unknown>} body */
async function keep(row, body) {
  try {
    await call("PATCH", `/sessions/${row.id}`, { body });
    return true;
  } catch (error) {
    const { code, detail } = /** @type {Refused} */ (error);
    say(code === "unreachable" ? `Not done: ${apart(row.title)}. The server could not be reached.` : detail, [], "bad");
    return false;
  }
}

/** @param {Row} row */
async function archive(row) {
  if (!(await keep(row, { archived: true }))) return;
  const undo = button("Undo", async () => {
    if (await keep(row, { archived: false })) say("", []);
  }, { name: `Undo archiving ${plain(row.title)}` });
  say(`Archived ${apart(row.title)}. It comes back when somebody writes in it.`, [undo]);
  undo.focus();
}

/** @param {Row} row @param {HTMLElement} opener */
function rename(row, opener) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("rename"));
  const form = /** @type {HTMLFormElement} */ (dialog.querySelector("form"));
  const field = /** @type {HTMLInputElement} */ (form.elements.namedItem("title"));
  const says = /** @type {HTMLElement} */ (dialog.querySelector("[data-says]"));
  field.value = row.title;
  fill(says);
  form.onsubmit = async (event) => {
    event.preventDefault();
    try {
      await call("PATCH", `/sessions/${row.id}`, { body: { title: field.value.trim() } });
      dialog.close();
    } catch (error) {
      fill(says, el("p", { class: "says", "data-is": "bad", role: "alert" }, /** @type {Refused} */ (error).detail));
    }
  };
  dialog.onclose = () => opener.focus();
  openDialog(dialog);
  field.select();
}
