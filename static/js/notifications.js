/** The page `/notifications`: this device on and off, in words for each thing that may keep it from being told. */
import { button, byId, el, fill } from "./dom.js";
import { Refused, ask } from "./rest.js";

const card = byId("device");
const place = /** @type {HTMLElement} */ (card.querySelector("[data-state]"));
const says = /** @type {HTMLElement} */ (card.querySelector("[data-says]"));
const key = card.dataset.key || "";
let told = card.dataset.subscribed === "yes";

const ios = /iPhone|iPad|iPod/.test(navigator.userAgent) || (navigator.platform === "MacIntel" && navigator.maxTouchPoints > 1);
const standalone = matchMedia("(display-mode: standalone)").matches || /** @type {any} */ (navigator).standalone === true;

/** What keeps this browser from being told, in sentences; null where nothing does. @returns {string[] | null} */
function hindrance() {
  if (!isSecureContext) return ["Notifications need HTTPS: browsers refuse them on plain http, except on the machine itself (localhost).", "Ask whoever runs this server to reach it through a tunnel or a proxy with a certificate. Its README says how, under “Notifications and HTTPS”."];
  if (ios && !standalone) return ["On an iPhone or iPad, add steerweb to the Home Screen first: press Share, then “Add to Home Screen”.", "Open it from there and come back to this page."];
  if (!("serviceWorker" in navigator) || !("PushManager" in window) || !("Notification" in window)) return ["This browser cannot be told anything while its page is closed.", "Current versions of Chrome, Edge, Firefox and Safari can."];
  if (Notification.permission === "denied") return ["You have blocked notifications of this site in this browser.", "To allow them again: press the symbol beside the address (in an installed app: the system’s settings of the app), open the site’s permissions, allow Notifications, and load this page again."];
  return null;
}

function draw() {
  const hinders = hindrance();
  if (hinders) {
    fill(place, ...hinders.map((words, at) => el("p", { class: at ? "muted" : "strong" }, words)));
    return;
  }
  if (told && Notification.permission === "granted") {
    fill(place, el("p", {}, "This device is told."), el("p", { class: "acts" }, button("Send a test", (event) => void busy(event, test)), button("Turn off", (event) => void busy(event, turnOff))));
    return;
  }
  fill(place,
    el("p", {}, "This device is not told anything. Turned on, it shows a notification when an approval waits or a turn ends, also while steerweb is closed; you can allow, deny and stop there."),
    el("p", { class: "muted" }, "Your browser will ask whether this site may notify you. What is sent is encrypted for this device: the browser’s push service cannot read it."),
    el("p", { class: "acts" }, button("Turn on for this device", (event) => void busy(event, turnOn), { kind: "main" })));
}

/** @param {Event} event @param {() => Promise<string>} act what it says afterwards */
async function busy(event, act) {
  const pressed = /** @type {HTMLButtonElement} */ (event.currentTarget);
  pressed.disabled = true;
  fill(says);
  try {
    const words = await act();
    draw();
    if (words) fill(says, el("p", { class: "says", "data-is": "ok", role: "status" }, words));
  } catch (error) {
    draw();
    const words = error instanceof Refused ? error.detail : `The browser did not do it: ${/** @type {Error} */ (error).message}`;
    fill(says, el("p", { class: "says", "data-is": "bad", role: "alert" }, words));
  } finally {
    pressed.disabled = false;
  }
}

async function turnOn() {
  if ((await Notification.requestPermission()) !== "granted") return "";
  const { pushManager } = await ready();
  let made = await pushManager.getSubscription();
  if (made && !belongs(made)) {
    await made.unsubscribe(); // made with another server key
    made = null;
  }
  made ||= await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  await ask("POST", "/notifications/device", { body: made.toJSON() });
  told = true;
  return "Turned on. Send a test to see one.";
}

/** The service worker at work; one that cannot start is an error, not a wait without end. @returns {Promise<ServiceWorkerRegistration>} */
async function ready() {
  await navigator.serviceWorker.register("/sw.js", { scope: "/", updateViaCache: "none" });
  return navigator.serviceWorker.ready;
}

/** @param {PushSubscription} made */
function belongs(made) {
  const used = made.options.applicationServerKey;
  if (!used) return true;
  const text = btoa(String.fromCharCode(...new Uint8Array(used)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "") === key;
}

async function turnOff() {
  await ask("DELETE", "/notifications/device");
  told = false;
  const registration = await navigator.serviceWorker.getRegistration();
  await (await registration?.pushManager.getSubscription())?.unsubscribe();
  return "Turned off.";
}

async function test() {
  try {
    await ask("POST", "/notifications/test", { timeout: 20_000 });
  } catch (error) {
    if (/** @type {Refused} */ (error).code === "not_found") told = false;
    throw error;
  }
  return "Sent. It should appear within some seconds; if it does not, look at the system’s own settings for this browser (do not disturb, battery saving).";
}

const zone = /** @type {HTMLInputElement | null} */ (document.querySelector("[data-zone][data-unset]"));
if (zone) zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || zone.value;
draw();
