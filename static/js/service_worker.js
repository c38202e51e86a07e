/**
 * The service worker. Pages come from the network; where that does not answer, a session's page and the list are shown
 * as they were last known, marked with when that was (`data-stored`). Static files come from the network, too, so that
 * no page meets scripts of another version; the stored ones are for when there is none. Answers of the API are never
 * stored, and nothing that is sent ever waits here: what could not be sent is said not to have been.
 *
 * `BUILD` (the version and the static files) is prepended by the server.
 */

/**
 * @typedef {{ session?: string, title: string, body: string, kind: string, url: string, seq: number, gate?: string, queue?: string, quietly?: boolean,
 *   actions?: Action[] }} News what a push says (see `push/delivering.py`)
 * @typedef {"allow" | "deny" | "stop"} Action
 * @typedef {(body: string, actions?: Action[]) => Promise<void>} Say
 * @typedef {{ csrf: string, now: string, key: string }} Ready
 */
const worker = /** @type {ServiceWorkerGlobalScope & { BUILD: { version: string, files: string[] } }} */ (/** @type {unknown} */ (self));
const { BUILD, clients, registration } = worker;
const STATIC = `static-${BUILD.version}`;
const PAGES = "pages";
const OWNER = "/stored-for";
const KEPT = /^\/$|^\/s\/[0-9a-f-]{36}$/;
/** Whoever passes one of these doors starts with an empty store: what is stored is never shown to another account. */
const DOORS = /^\/signin(?:\/|$)|^\/signout$|^\/devices\/(?:.*\/)?signout$/;
const PAGES_MOST = 30;
/** How long a page that is stored waits for a slow network. */
const PATIENCE_MS = 4_000;
/** What is pressed on a notification is sent within this time or not at all. */
const SEND_MS = 5_000;
const OUTCOME_S = 8;

/** Pages that were served from the store: they get the stored files, too. @type {Set<string>} */
const stored = new Set();
/** Counts how often everything was forgotten, so that an answer on its way then is not stored after it. */
let forgotten = 0;

worker.addEventListener("install", (event) => event.waitUntil(install()));
worker.addEventListener("activate", (event) => event.waitUntil(activate()));
worker.addEventListener("message", (event) => {
  if (event.data?.forget) event.waitUntil(forget());
  if (typeof event.data?.keep === "string" && KEPT.test(event.data.keep)) event.waitUntil(refresh(event.data.keep));
});

async function install() {
  const cache = await caches.open(STATIC);
  await cache.addAll(BUILD.files.map((file) => new Request(file, { cache: "no-cache" })));
  await worker.skipWaiting();
}

async function activate() {
  const old = (await caches.keys()).filter((name) => name.startsWith("static-") && name !== STATIC);
  await Promise.all(old.map((name) => caches.delete(name)));
  await clients.claim();
}

worker.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (url.origin !== location.origin) return;
  if (DOORS.test(url.pathname)) event.respondWith(throughDoor(request));
  else if (request.method !== "GET") return;
  else if (request.mode === "navigate") event.respondWith(page(event, url.pathname));
  else if (url.pathname.startsWith("/static/")) event.respondWith(file(event));
});

/** @param {Request} request */
async function throughDoor(request) {
  await forget();
  return fetch(request);
}

/* Pages */

/** @param {FetchEvent} event @param {string} path */
async function page(event, path) {
  const keeps = KEPT.test(path);
  const round = forgotten;
  const answer = fetch(event.request);
  if (keeps) event.waitUntil(answer.then((response) => store(path, response.clone(), round)).catch(() => {}));
  try {
    const known = keeps && (await isKept(path));
    const first = await (known ? Promise.race([answer, late()]) : answer);
    if (first) return first;
  } catch {
    // No network: what is stored, or the page that says so.
  }
  const found = keeps && (await marked(path));
  if (found) stored.add(event.resultingClientId);
  return found || (await caches.match("/offline")) || Response.error();
}

/** @returns {Promise<null>} */
const late = () => new Promise((resolve) => setTimeout(() => resolve(null), PATIENCE_MS));

/** @param {string} path */
async function isKept(path) {
  return (await caches.has(PAGES)) && Boolean(await (await caches.open(PAGES)).match(path));
}

/** Keep a page for the person it was made for. @param {string} path @param {Response} response @param {number} round */
async function store(path, response, round) {
  const owner = response.headers.get("X-Stored-For");
  if (!response.ok || response.redirected || !owner) return;
  const body = await response.text();
  let cache = await caches.open(PAGES);
  const before = await (await cache.match(OWNER))?.text();
  if (before && before !== owner) {
    await forget();
    round = forgotten;
    cache = await caches.open(PAGES);
  }
  if (round !== forgotten) return;
  const headers = new Headers(response.headers);
  headers.set("X-Stored-At", new Date().toISOString());
  await cache.put(OWNER, new Response(owner));
  await cache.put(path, new Response(body, { headers }));
  await dropOldest(cache);
}

/** Keep the pages that were true last. @param {Cache} cache */
async function dropOldest(cache) {
  const kept = (await cache.keys()).filter((request) => !request.url.endsWith(OWNER));
  if (kept.length <= PAGES_MOST) return;
  const aged = await Promise.all(kept.map(async (request) => ({ request, at: (await cache.match(request))?.headers.get("X-Stored-At") || "" })));
  aged.sort((one, other) => (one.at < other.at ? -1 : 1));
  await Promise.all(aged.slice(0, aged.length - PAGES_MOST).map(({ request }) => cache.delete(request)));
}

/** A stored page that says of itself when it was true. @param {string} path */
async function marked(path) {
  const found = await (await caches.open(PAGES)).match(path);
  if (!found) return null;
  const at = found.headers.get("X-Stored-At") || "";
  const body = (await found.text()).replace('<html lang="en">', `<html lang="en" data-stored="${at}">`);
  return new Response(body, { headers: found.headers });
}

/** What a page that is left would be now. @param {string} path */
async function refresh(path) {
  const round = forgotten;
  const response = await fetch(path, { credentials: "same-origin", cache: "no-store" }).catch(() => null);
  if (!response) return;
  if (response.status === 401 || new URL(response.url).pathname.startsWith("/signin")) await forget();
  else await store(path, response, round);
}

async function forget() {
  forgotten += 1;
  await caches.delete(PAGES);
  for (const shown of await registration.getNotifications()) shown.close();
}

/** @param {FetchEvent} event */
async function file(event) {
  const kept = () => caches.match(event.request, { cacheName: STATIC });
  if (stored.has(event.clientId)) return (await kept()) || fetch(event.request);
  try {
    return await fetch(event.request);
  } catch (error) {
    const found = await kept();
    if (found) return found;
    throw error;
  }
}

/* Notifications: one a session, which says what is true now */

worker.addEventListener("push", (event) => event.waitUntil(inTurn(() => told(event.data?.json()))));
worker.addEventListener("notificationclick", (event) => event.waitUntil(pressed(event.notification, event.action)));
worker.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(subscribeAgain()));

const LABELS = /** @type {Record<Action, string>} */ ({ allow: "Allow", deny: "Deny", stop: "Stop" });

/** Of each session, the newest that was told: also where its notification was put away, or is being replaced. @type {Map<string, number>} */
const newest = new Map();
let telling = Promise.resolve();

/** One after the other: each looks at what the one before has shown. @param {() => Promise<void>} tell */
function inTurn(tell) {
  telling = telling.catch(() => {}).then(tell);
  return telling;
}

/** @param {News} news */
async function told(news) {
  const tag = news.session || "test";
  const [shown] = await registration.getNotifications({ tag });
  const last = Math.max(shown?.data.seq ?? 0, newest.get(tag) ?? 0);
  if (last > news.seq) return; // a late one
  newest.set(tag, news.seq);
  // What was answered elsewhere is taken back only where it is still shown.
  if (news.kind === "answered" && shown?.data.gate !== news.gate) return;
  if (news.quietly && !shown) return;
  await show(news, { quietly: news.quietly || news.kind === "answered" });
}

/** @param {News} news @param {{ quietly?: boolean, body?: string, actions?: Action[] }} [options] */
async function show(news, { quietly = false, body = news.body, actions = news.actions || [] } = {}) {
  // What TypeScript's list of options lacks is in the standard: renotify, actions.
  await registration.showNotification(news.title, /** @type {NotificationOptions} */ ({
    body, tag: news.session || "test", data: { ...news, actions }, silent: quietly, renotify: !quietly,
    requireInteraction: news.kind === "approval" && actions.length > 0,
    icon: "/static/icons/icon-192.png", badge: "/static/icons/badge-96.png",
    actions: actions.slice(0, /** @type {any} */ (Notification).maxActions || 2).map((action) => ({ action, title: LABELS[action] })),
  }));
}

/** @param {Notification} notification @param {string} action */
async function pressed(notification, action) {
  const news = /** @type {News} */ (notification.data);
  if (action !== "allow" && action !== "deny" && action !== "stop") {
    notification.close();
    return open(news.url);
  }
  const said = /** @type {Say} */ ((body, actions = []) => show(news, { quietly: true, body, actions }));
  const retry = news.actions || [action];
  if (action === "stop") await said("Stopping …");
  try {
    return await (action === "stop" ? stop(news, said) : answer(news, action, said));
  } catch (failure) {
    const error = /** @type {Error & { answered?: boolean }} */ (failure);
    if (error.answered) return said(`${action === "stop" ? "Not stopped" : "Not answered"}. ${error.message}`);
    if (action === "stop") return said("NOT sent. The server could not be reached, so nothing was stopped, and it will not be sent by itself later.", retry);
    return said("NOT sent. The server could not be reached: the approval still waits.", retry);
  }
}

/** @param {News} news @param {Action} action @param {Say} said */
async function answer(news, action, said) {
  const ready = await readyNow();
  const reply = await post(`/api/v1/sessions/${news.session}/gates/${news.gate}`, { decision: action }, ready, crypto.randomUUID());
  if (reply.ok) return said(action === "allow" ? "Allowed. It goes on." : "Denied. The agent was told.");
  const { code, detail, ...rest } = await reply.json();
  const { by, decision } = rest.data || rest;
  if (code !== "gate_closed") throw refused(detail);
  const words = by ? `Already answered by ${by}: ${decision === "deny" ? "denied" : "allowed"}.` : detail;
  return said(`${words} Your answer changed nothing.`);
}

/** The mark is durable within five seconds or the stop was not sent; then it is asked how it ended. @param {News} news @param {Say} said */
async function stop(news, said) {
  const ready = await readyNow();
  const path = `/api/v1/sessions/${news.session}/interrupt`;
  const id = crypto.randomUUID();
  const body = { ...(news.queue && { queue: news.queue }), not_after: new Date(Date.parse(ready.now) + SEND_MS).toISOString() };
  const asked = await post(path, { ...body, wait: 0 }, ready, id);
  if (!asked.ok) throw refused((await asked.json()).detail);
  const ended = await post(path, { ...body, wait: OUTCOME_S }, ready, id, (OUTCOME_S + 5) * 1000).catch(() => null);
  const { stopped, joined, note } = ended?.ok ? await ended.json() : {};
  if (stopped) return said("Stopped. Everything has ended.");
  if (joined) return said("It was being stopped already. Everything has ended.");
  if (note === "idle") return said("Nothing was running, so nothing was stopped.");
  if (note === "not_started") return said("Nothing had started yet. What waited is paused.");
  return said(ended?.ok ? "Nothing was stopped." : "The stop was received and goes on. How it ended is not known here yet.");
}

/** @param {string} message */
const refused = (message) => Object.assign(new Error(message), { answered: true });

/** @returns {Promise<Ready>} */
async function readyNow() {
  const reply = await fetch("/notifications/ready", { credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(SEND_MS) });
  if (reply.redirected || reply.status === 401) {
    await forget();
    throw refused("This device is signed out.");
  }
  if (!reply.ok) throw new Error(String(reply.status));
  return reply.json();
}

/** @param {string} path @param {object} body @param {Ready} ready @param {string} id @param {number} [timeout] */
function post(path, body, ready, id, timeout = SEND_MS) {
  const headers = { "Content-Type": "application/json", Accept: "application/json", "X-CSRFToken": ready.csrf, "Idempotency-Key": id };
  return fetch(path, { method: "POST", headers, body: JSON.stringify(body), credentials: "same-origin", redirect: "error", signal: AbortSignal.timeout(timeout) });
}

/** To the exact place: in a tab that has the session open, else in a new one. @param {string} address */
async function open(address) {
  const target = new URL(address, location.origin);
  const tabs = await clients.matchAll({ type: "window", includeUncontrolled: true });
  const tab = tabs.find((each) => new URL(each.url).pathname === target.pathname);
  if (tab) {
    tab.postMessage({ go: target.hash });
    const focused = await tab.focus().catch(() => null);
    if (focused) return;
  }
  await clients.openWindow(target.href);
}

/** The push service gave this browser another address. */
async function subscribeAgain() {
  const ready = await readyNow();
  const made = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: ready.key });
  await post("/notifications/device", made.toJSON(), ready, crypto.randomUUID());
}
