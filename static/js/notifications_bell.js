/** The bell of a session: what of it one is told. */
import { el, openMenu } from "./dom.js";
import { Refused, ask } from "./rest.js";

const LEVELS = [["all", "Everything"], ["asks", "Approvals and failures"], ["nothing", "Nothing"]];

/** @param {HTMLElement} bell @param {string} session @param {(words: string) => void} tell */
export function listenBell(bell, session, tell) {
  const path = `/notifications/sessions/${session}`;
  const show = (/** @type {string} */ level) => bell.querySelector("use")?.setAttribute("href", level === "nothing" ? "#i-bell-off" : "#i-bell");
  const choose = async (/** @type {string} */ level) => {
    try {
      show((await ask("POST", path, { body: { level } })).level);
    } catch (error) {
      tell(`Not changed. ${/** @type {Refused} */ (error).detail}`);
    }
  };
  bell.addEventListener("click", async () => {
    const { level, device } = await ask("GET", path, { timeout: 5_000 }).catch((error) => ({ level: "", device: true, error }));
    if (!level) return tell("Your choice could not be read: the server cannot be reached.");
    show(level);
    const menu = openMenu(bell, [
      el("p", { class: "strong" }, "Tell me of this session"),
      ...LEVELS.map(([name, words]) => {
        const item = el("button", { type: "button", class: "item", role: "menuitemradio", "aria-checked": name === level ? "true" : "false", on: { click: () => { menu.hidePopover(); void choose(name); } } }, words);
        return item;
      }),
      el("hr"),
      !device && el("p", { class: "muted small" }, "This device is not told anything yet."),
      el("a", { class: "item", href: "/notifications" }, device ? "Kinds, quiet hours, devices" : "Turn notifications on"),
    ].filter((entry) => entry instanceof Node), "Notifications of this session");
    return undefined;
  });
}
