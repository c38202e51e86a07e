/** The page with the models' keys: a test takes seconds, and says so meanwhile. */
import { el } from "./dom.js";
import "./times.js";

for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-waits]"))) {
  form.addEventListener("submit", (event) => {
    const button = /** @type {HTMLButtonElement} */ (form.querySelector("button"));
    if (button.disabled) {
      event.preventDefault();
      return;
    }
    button.disabled = true;
    form.after(el("span", { class: "muted", role: "status" }, `${form.dataset.waits} …`));
  });
}
