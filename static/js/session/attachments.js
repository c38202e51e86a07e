/**
 * The files of the message one is writing: each is uploaded at once, by paste, drop or choice, and has a chip that says
 * how far it is. What is uploaded belongs to the draft; a message goes when all of them are there.
 */
import { button, el, fill, icon, setAttribute, write } from "../dom.js";
import { Refused, commandId, upload } from "../rest.js";
import { count, fileSize } from "../words.js";
import { fileAddress, isImage } from "./files.js";

/** @typedef {import("./files.js").SentFile} SentFile */
/** @typedef {{ key: string, name: string, size: number, sent: SentFile | null, file: File | null, part: number, error: string, cancel: AbortController | null, chip: HTMLElement }} Attachment `part`: how much of it is there, from 0 to 1 */

const FILES_AT_ONCE = 10;
const FILE_BYTES = 10_000_000;

/** @param {string} name */
const leftOut = (name) => `At most ${FILES_AT_ONCE} files go with one message. Left out: ${name}`;

export class Attachments {
  /** @param {{ place: HTMLElement, session: string, onChange: () => void, tell: (text: string) => void }} options `tell`: what could not be taken, in a sentence */
  constructor({ place, session, onChange, tell }) {
    this.place = place;
    this.session = session;
    this.onChange = onChange;
    this.tell = tell;
    /** @type {Attachment[]} */
    this.all = [];
    this.held = false;
  }

  get any() {
    return this.all.length > 0;
  }

  /** Those that are there. @returns {SentFile[]} */
  get sent() {
    return this.all.flatMap(({ sent }) => sent || []);
  }

  /** What a message still waits for, as a sentence; empty: nothing. */
  get waits() {
    const failed = this.all.filter((each) => each.error);
    if (failed.length) return `Not sent: ${count(failed.length, "file")} could not be uploaded. Try again, or remove ${failed.length === 1 ? "it" : "them"}.`;
    const missing = this.all.filter((each) => !each.sent);
    return missing.length ? `Not sent yet: ${count(missing.length, "file")} ${missing.length === 1 ? "is" : "are"} still being uploaded.` : "";
  }

  /** Files that one adds; what cannot be sent is said, and nothing of it leaves this device. @param {Iterable<File>} files @param {string[]} [said] of what came beside them */
  add(files, said = []) {
    const before = this.all.length;
    for (const file of files) {
      if (file.size > FILE_BYTES) said.push(`This file has ${fileSize(file.size)}; at most ${fileSize(FILE_BYTES)} can be sent: ${file.name}`);
      else if (!file.size) said.push(`This file is empty: ${file.name}`);
      else if (this.all.length >= FILES_AT_ONCE) said.push(leftOut(file.name));
      else this.#start(this.#keep({ name: file.name, size: file.size, file, sent: null }));
    }
    if (this.all.length > before) this.onChange(); // else the draft is what it was, and so is its command
    if (said.length) this.tell(said.join("\n"));
  }

  /** Files that are there already: of a draft, or of a message that came back. @param {SentFile[]} files */
  restore(files) {
    /** @type {string[]} */
    const said = [];
    for (const sent of files) {
      if (typeof sent?.id !== "string" || typeof sent.name !== "string" || this.all.some((each) => each.sent?.id === sent.id)) continue;
      if (this.all.length >= FILES_AT_ONCE) said.push(leftOut(sent.name));
      else this.#keep({ name: sent.name, size: sent.size, file: null, sent });
    }
    if (said.length) this.tell(said.join("\n"));
  }

  /** These are not there any more: nobody waits for them. @param {unknown} ids */
  lost(ids) {
    for (const each of this.all) {
      if (!each.sent || !Array.isArray(ids) || !ids.includes(each.sent.id)) continue;
      Object.assign(each, { sent: null, error: "It is not there any more" });
      this.#draw(each);
    }
  }

  /** These were sent; what was added since stays. @param {string[]} ids */
  take(ids) {
    for (const each of this.all) if (each.sent && ids.includes(each.sent.id)) each.chip.remove();
    this.all = this.all.filter((each) => !each.sent || !ids.includes(each.sent.id));
    this.place.hidden = !this.any;
  }

  /** While a message is being sent, its files stay as they are. @param {boolean} held */
  hold(held) {
    if (this.held === held) return;
    this.held = held;
    for (const each of this.all) this.#draw(each);
  }

  /** @param {Pick<Attachment, "name" | "size" | "file" | "sent">} what @returns {Attachment} */
  #keep(what) {
    const attachment = { key: commandId(), part: 0, error: "", cancel: null, chip: el("li", { class: "file" }), ...what };
    this.all.push(attachment);
    this.place.append(attachment.chip);
    this.place.hidden = false;
    this.#draw(attachment);
    return attachment;
  }

  /** @param {Attachment} each */
  async #start(each) {
    if (!each.file) return;
    const cancel = new AbortController();
    Object.assign(each, { error: "", part: 0, cancel });
    this.#draw(each);
    const onProgress = (/** @type {number} */ part) => {
      each.part = part;
      each.chip.querySelector("progress")?.setAttribute("value", String(part));
    };
    try {
      const sent = await upload(`/sessions/${this.session}/files`, each.file, { id: each.key, signal: cancel.signal, onProgress });
      Object.assign(each, { sent, name: sent.name, file: null });
    } catch (error) {
      if (cancel.signal.aborted) return;
      each.error = /** @type {Refused} */ (error).detail;
    }
    this.#draw(each);
    this.onChange();
  }

  /** @param {Attachment} each */
  #remove(each) {
    each.cancel?.abort();
    const at = this.all.indexOf(each);
    this.all.splice(at, 1);
    each.chip.remove();
    this.place.hidden = !this.any;
    const next = this.all[Math.min(at, this.all.length - 1)]?.chip.querySelector("button:last-child");
    /** @type {HTMLElement | null | undefined} */ (next || this.place.closest("form")?.querySelector("textarea"))?.focus();
    this.onChange();
  }

  /** @param {Attachment} each */
  #draw(each) {
    const { chip, sent, error, name } = each;
    setAttribute(chip, "data-is", error ? "bad" : sent ? "there" : "going");
    const seen = sent && isImage(sent) ? el("img", { src: fileAddress(this.session, sent), alt: "", loading: "lazy" }) : icon("file");
    const state = error ? el("span", { class: "bad", role: "alert" }, error)
      : sent ? el("span", { class: "muted num" }, fileSize(each.size))
      : el("progress", { max: "1", value: String(each.part), "aria-label": `Uploading ${name}` });
    const again = error && each.file && button("Try again", () => void this.#start(each), { name: `Try again: ${name}` });
    const away = button(`Remove ${name}`, () => this.#remove(each), { kind: "quiet", iconName: "close" });
    away.disabled = this.held;
    const words = el("span", { class: "what" }, el("bdi", { title: name }, name), state);
    fill(chip, seen, words, again, away);
  }
}

/**
 * Files that are pasted, dropped or chosen. A paste of words with a picture of them, as word processors do, is words.
 * @param {{ form: HTMLFormElement, dock: HTMLElement, add: (files: File[], said?: string[]) => void }} options `said`: what cannot be sent, in sentences
 */
export function listenForFiles({ form, dock, add }) {
  const picker = /** @type {HTMLInputElement} */ (form.querySelector("input[type=file]"));
  form.querySelector(".clip")?.addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => {
    add([...(picker.files || [])]);
    picker.value = "";
    form.querySelector("textarea")?.focus();
  });
  form.querySelector("textarea")?.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files || [])];
    const worded = event.clipboardData?.getData("text/plain").trim();
    if (!files.length || (worded && files.every((file) => file.name === "image.png"))) return;
    event.preventDefault();
    add(files);
  });
  const brings = (/** @type {DragEvent} */ event) => [...(event.dataTransfer?.types || [])].includes("Files") && !document.querySelector("dialog[open]");
  let over = 0;
  const show = (/** @type {number} */ depth) => {
    over = Math.max(0, depth);
    setAttribute(dock, "data-drop", over > 0);
  };
  addEventListener("dragenter", (event) => void (brings(event) && show(over + 1)));
  addEventListener("dragleave", (event) => void (brings(event) && show(over - 1)));
  addEventListener("dragover", (event) => void (brings(event) && event.preventDefault())); // a browser would leave the page for the file
  addEventListener("drop", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    show(0);
    const items = [...(event.dataTransfer?.items || [])];
    const folders = items.filter((item) => item.webkitGetAsEntry?.()?.isDirectory);
    const files = items.flatMap((item) => (item.kind === "file" && !folders.includes(item) && item.getAsFile()) || []);
    add(files, folders.length ? ["A folder cannot be sent. Pack it into one file first."] : []);
    form.querySelector("textarea")?.focus();
  });
}
