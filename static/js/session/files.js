/** Files that came with a message: images are shown, everything is named with its size and opens or downloads. */
import { el, icon } from "../dom.js";
import { count, fileSize } from "../words.js";

/** @typedef {{ id: string, name: any, size: number, type: string }} SentFile `name` is no text once erased */

/** @param {SentFile} file */
export const isImage = (file) => file.type.startsWith("image/");

/** @param {string} session @param {SentFile} file */
export const fileAddress = (session, file) => `/api/v1/sessions/${session}/files/${file.id}`;

/** How many came with a message that waits. @param {SentFile[] | undefined} files */
export const withFiles = (files) => (files?.length ? `, with ${count(files.length, "file")}` : "");

const NAMES_BYTES = 1_000;

/**
 * The words a message was sent with: none, where the server called its files by their names, or many names by their number.
 * @param {unknown} text @param {SentFile[]} files
 */
export function wordsBeside(text, files) {
  const listed = files.map((file) => file.name).join(", ");
  const named = new TextEncoder().encode(listed).length > NAMES_BYTES ? count(files.length, "file") : listed;
  return files.length && text === named ? "" : String(text);
}

/** @param {SentFile[]} files @param {string} session @returns {HTMLElement} */
export function fileList(files, session) {
  return el("ul", { class: "files", "aria-label": "Files" }, ...files.map((file) => el("li", { class: "file" }, ...drawn(file, session))));
}

/** @param {SentFile} file @param {string} session @returns {HTMLElement[]} */
function drawn(file, session) {
  if (typeof file.name !== "string") return [el("i", { class: "muted" }, "erased file")];
  const href = fileAddress(session, file);
  const named = [el("bdi", {}, file.name), el("span", { class: "muted num" }, fileSize(file.size))];
  if (!isImage(file)) return [el("a", { class: "named", href, download: file.name }, icon("file"), ...named)];
  const seen = el("img", { src: href, alt: "", loading: "lazy", decoding: "async" });
  const link = el("a", { class: "named seen", href, target: "_blank", rel: "noopener" }, seen, ...named);
  seen.addEventListener("error", () => seen.replaceWith(icon("file"))); // erased since, or no connection
  return [link];
}
