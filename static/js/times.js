/** Times on served pages, in the reader's zone; the exact UTC instant stays in `title`. */
import { ago, clockTime } from "./words.js";

/** @type {Record<string, (at: string) => string>} */
const SHAPES = { time: (at) => clockTime(at), seconds: (at) => clockTime(at, true), ago: (at) => ago(Date.now() - Date.parse(at)) };

/** @param {ParentNode} [place] */
export function localTimes(place = document) {
  for (const element of /** @type {NodeListOf<HTMLTimeElement>} */ (place.querySelectorAll("time[data-shape]"))) {
    element.textContent = SHAPES[element.dataset.shape || "time"](element.dateTime);
  }
}

localTimes();
