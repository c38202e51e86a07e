/** The page of one stop: whoever asked for it says why, or says it better. */
import { el, fill } from "./dom.js";
import { Refused, call } from "./rest.js";
import "./times.js";

for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-scripted]"))) element.hidden = false;
const form = /** @type {HTMLFormElement | null} */ (document.querySelector("form[data-reason]"));
form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const save = /** @type {HTMLButtonElement} */ (form.querySelector("button"));
  const says = /** @type {HTMLElement} */ (form.querySelector("[data-says]"));
  const reason = String(new FormData(form).get("reason")).trim();
  if (!reason) return;
  save.disabled = true;
  try {
    await call("PATCH", `/interruptions/${form.dataset.reason}`, { body: { reason } });
    location.reload(); // the page is the server's
  } catch (error) {
    fill(says, el("p", { class: "says", "data-is": "bad", role: "alert" }, /** @type {Refused} */ (error).detail));
    save.disabled = false;
  }
});
