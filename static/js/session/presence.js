/** Who is here: faces in the strip, names for a screen reader. */
import { el, fill, icon } from "../dom.js";
import { hue, initials, plain } from "../words.js";

/** @typedef {{ id: string, name: string, role?: string, devices?: unknown[], away?: boolean }} Person */

const SHOWN = 5;

/** One person's face. @param {{ id: string, name: string, away?: boolean }} person @param {string} [kind] */
export function face(person, kind = "") {
  return el("span", { class: `face ${hue(person.id)} ${kind}`.trim(), title: plain(person.name), "data-away": Boolean(person.away) }, initials(plain(person.name)));
}

/**
 * Draw the faces of whoever watches, and say that this is what they do.
 * @param {HTMLElement} place
 * @param {Person[]} people
 * @param {string} me the reader's id
 */
export function drawPresence(place, people, me) {
  const unique = [...new Map(people.map((person) => [person.id, person])).values()];
  const shown = unique.slice(0, unique.length > SHOWN ? SHOWN - 1 : SHOWN);
  const rest = unique.slice(shown.length);
  const alone = unique.length === 1 && unique[0].id === me;
  fill(
    place,
    unique.length > 0 && icon("eye"),
    unique.length > 0 && el("span", { class: "wide-only" }, alone ? "Only you watch" : `${unique.length} watching`),
    alone && el("span", { class: "narrow-only" }, "Only you"),
    ...shown.map((person) => face(person)),
    rest.length > 0 && el("span", { class: "face more", title: rest.map((person) => plain(person.name)).join(", ") }, `+${rest.length}`),
  );
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", unique.length ? `Watching: ${unique.map((person) => plain(person.name)).join(", ")}` : "Nobody is watching");
}
