/** Who is here: faces in the strip, names for a screen reader. */
import { el, fill } from "../dom.js";
import { hue, initials, plain } from "../words.js";

/** @typedef {{ id: string, name: string, role?: string, devices?: unknown[], away?: boolean }} Person */

const SHOWN = 5;

/** One person's face. @param {{ id: string, name: string, away?: boolean }} person @param {string} [kind] */
export function face(person, kind = "") {
  return el("span", { class: `face ${hue(person.id)} ${kind}`.trim(), title: plain(person.name), "data-away": Boolean(person.away) }, initials(plain(person.name)));
}

/**
 * Draw the faces of whoever watches.
 * @param {HTMLElement} place
 * @param {Person[]} people
 */
export function drawPresence(place, people) {
  const unique = [...new Map(people.map((person) => [person.id, person])).values()];
  const shown = unique.slice(0, unique.length > SHOWN ? SHOWN - 1 : SHOWN);
  const rest = unique.slice(shown.length);
  fill(
    place,
    ...shown.map((person) => face(person)),
    rest.length > 0 && el("span", { class: "face more", title: rest.map((person) => plain(person.name)).join(", ") }, `+${rest.length}`),
  );
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", unique.length ? `Watching: ${unique.map((person) => plain(person.name)).join(", ")}` : "Nobody else is watching");
}
