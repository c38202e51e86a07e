/** REST from a signed-in page: CSRF, command ids, and the one family of errors. */
import { forget } from "./phone.js";

/** A refusal with a code a program can match and a sentence a person can read; `unreachable` when no answer came. */
export class Refused extends Error {
  /** @param {string} code @param {string} detail @param {Record<string, unknown>} [data] */
  constructor(code, detail, data = {}) {
    super(detail);
    this.code = code;
    this.detail = detail;
    this.data = data;
  }
}

/** A new command id: a UUID of version 4, also where `crypto.randomUUID` is kept from plain http. @returns {string} */
export function commandId() {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** @typedef {{ body?: unknown, id?: string, timeout?: number }} Options `id` is the command id, `timeout` in milliseconds */

/** One call below `/api/v1`. @param {string} method @param {string} path @param {Options} [options] @returns {Promise<any>} */
export const call = (method, path, options) => ask(method, `/api/v1${path}`, options);

/** One call of this site. @param {string} method @param {string} address @param {Options} [options] @returns {Promise<any>} */
export async function ask(method, address, { body, id, timeout = 15_000 } = {}) {
  const headers = /** @type {Record<string, string>} */ ({ Accept: "application/json" });
  if (method !== "GET") {
    headers["X-CSRFToken"] = csrfToken();
    headers["Idempotency-Key"] = id || commandId();
  }
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(address, {
      method, headers, credentials: "same-origin", cache: "no-store", redirect: "error", signal: AbortSignal.timeout(timeout),
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused("unreachable", "The server could not be reached.");
  }
  const answer = await response.json().catch(() => null);
  if (response.status === 401) void forget();
  if (!response.ok) throw refusal(response.status, answer);
  return answer;
}

/**
 * Upload one file, in the field `file`; how far it is comes along, which `fetch` does not say.
 * @param {string} path below `/api/v1` @param {File} file
 * @param {{ id: string, signal: AbortSignal, onProgress: (part: number) => void }} options @returns {Promise<any>}
 */
export function upload(path, file, { id, signal, onProgress }) {
  const form = new FormData();
  form.append("file", file);
  const request = new XMLHttpRequest();
  request.open("POST", `/api/v1${path}`);
  request.responseType = "json";
  for (const [name, value] of [["Accept", "application/json"], ["X-CSRFToken", csrfToken()], ["Idempotency-Key", id]]) request.setRequestHeader(name, value);
  request.upload.addEventListener("progress", ({ loaded, total }) => onProgress(total ? loaded / total : 0));
  signal.addEventListener("abort", () => request.abort());
  return new Promise((resolve, reject) => {
    request.addEventListener("load", () => {
      if (request.status === 401) void forget();
      if (request.status >= 200 && request.status < 300 && request.response) resolve(request.response);
      else reject(refusal(request.status, request.response));
    });
    for (const type of ["error", "abort", "timeout"]) request.addEventListener(type, () => reject(new Refused("unreachable", "The server could not be reached.")));
    request.send(form);
  });
}

/** @param {number} status @param {any} answer @returns {Refused} */
function refusal(status, answer) {
  if (answer && typeof answer === "object" && answer.code) {
    return new Refused(answer.code, answer.detail || answer.code, answer.data || answer);
  }
  if (status === 401) return new Refused("unauthenticated", "You are signed out. Sign in again to go on.");
  return new Refused(status >= 500 ? "unavailable" : "invalid", `The server answered with an error (${status}).`);
}

/** @returns {string} */
function csrfToken() {
  return document.querySelector("meta[name=csrf-token]")?.getAttribute("content") || "";
}
