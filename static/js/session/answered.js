/** Who let a call run, or did not, as its card in the timeline says it from then on. */
import { el } from "../dom.js";
import { actorName, apart, closedWords, hue, ruleWords } from "../words.js";

/** @typedef {import("./view.js").Item} Item @typedef {import("./view.js").Standing} Standing */

/**
 * Empty where nobody was asked, or nobody has answered yet.
 * @param {Item} item a call
 * @param {Map<string, Standing>} rules
 * @returns {(Node | string)[]}
 */
export function answerWords({ approval, rule }, rules) {
  if (rule && !approval) return byRule(rules.get(rule));
  if (approval?.closed) return [closedWords(approval.closed, approval.by)];
  if (approval?.decision === "deny") return ["Denied by ", who(approval.by), ...note(approval.message)];
  if (approval?.decision) return ["Allowed by ", who(approval.by), ...(approval.rule ? [", and from now on: ", ...inWords(approval.rule)] : []), ...note(approval.message)];
  return [];
}

/** @param {Standing | undefined} rule one that is not known any more was given, and revoked, further up */
function byRule(rule) {
  return rule ? ["Allowed by a rule of ", who(rule.by), ": ", ...inWords(rule)] : ["Allowed by a rule"];
}

/** @param {{ kind: string, value: unknown }} rule @returns {(Node | string)[]} */
export function inWords(rule) {
  const [words, code] = ruleWords(rule);
  return code ? [`${words} `, el("code", { dir: "auto" }, code)] : [words];
}

/** @param {import("./state.js").Actor} by */
export const who = (by) => el("bdi", { class: `who ${hue(by.id)}` }, actorName(by).replace(/[\u2068\u2069]/g, ""));

/** @param {unknown} message @returns {string[]} */
const note = (message) => (typeof message === "string" && message ? [`: “${apart(message)}”`] : []);
