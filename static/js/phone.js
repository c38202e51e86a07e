/** What every page does for phones: the service worker (it says what is stored, and for whom), the last known state. */
import { clockTime } from "./words.js";

const PAGES = "pages";

/** The page was not served by the server but from this device's store. */
export const isStored = () => Boolean(document.documentElement.dataset.stored);

/** The page shows what is true: nothing stored any more. */
export function isFresh() {
  if (!isStored()) return;
  delete document.documentElement.dataset.stored;
  document.getElementById("stored")?.remove();
}

/** Keep this page as it would be served now, for a time without a connection. */
export function keep() {
  navigator.serviceWorker?.controller?.postMessage({ keep: location.pathname });
}

/** Signed out: nothing of the person stays on this device. */
export async function forget() {
  navigator.serviceWorker?.controller?.postMessage({ forget: true });
  if ("caches" in window) await caches.delete(PAGES).catch(() => false);
}

function label() {
  const { stored } = document.documentElement.dataset;
  const strip = document.querySelector(".strip");
  if (!stored || !strip) return;
  const at = new Date(stored);
  const sameDay = at.toDateString() === new Date().toDateString();
  const time = clockTime(stored);
  const day = sameDay ? "" : `${at.toLocaleDateString([], { day: "numeric", month: "short" })}, `;
  const line = document.createElement("p");
  line.id = "stored";
  line.setAttribute("role", "status");
  line.textContent = `Last known state, from ${day}${time}. No connection.`;
  strip.append(line);
}

label();
if (navigator.serviceWorker) {
  // Not before the page is there: what is stored for later does not compete with what is looked at now.
  const register = () => void navigator.serviceWorker.register("/sw.js", { scope: "/", updateViaCache: "none" }).catch((error) => console.warn("no service worker", error));
  if (document.readyState === "complete") register();
  else addEventListener("load", register);
}
