/** Where one keeps a session in one's own list: the same as from its row there, pinned on top or archived out of it. */
import { write } from "../dom.js";
import { Refused, call } from "../rest.js";

/** What each button does next, by whether it is so. */
const DEEDS = /** @type {Record<string, [string, string]>} */ ({ pinned: ["Pin to the top", "Unpin"], archived: ["Archive", "Put back into the list"] });
const DONE = /** @type {Record<string, [string, string]>} */ ({
  pinned: ["It is no longer pinned in your list.", "It stands at the top of your list."],
  archived: ["It is back in your list.", "Archived: it has left your list, and comes back when somebody writes in it."],
});

/**
 * @param {string} session
 * @param {Record<string, boolean>} places how it is now
 * @param {{ done: () => void, tell: (text: string, role?: "alert" | "status") => void }} acts `done`: before it is told
 */
export function listenKeeping(session, places, { done, tell }) {
  for (const button of /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll("[data-keeps]"))) {
    const name = button.dataset.keeps || "";
    const draw = () => write(button, DEEDS[name][Number(places[name])]);
    draw();
    button.addEventListener("click", async () => {
      if (button.ariaDisabled === "true") return;
      button.ariaDisabled = "true"; // and not disabled, which would drop the focus
      const wanted = !places[name];
      try {
        await call("PATCH", `/sessions/${session}`, { body: { [name]: wanted } });
        places[name] = wanted;
        draw();
        done();
        tell(DONE[name][Number(wanted)]);
      } catch (error) {
        done();
        tell(/** @type {Refused} */ (error).detail, "alert");
      }
      button.ariaDisabled = null;
    });
  }
}
