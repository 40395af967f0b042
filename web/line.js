// One recipe: who holds it and for how long still, who waits, and all hand-overs that are known, with their causes.
import { ask, count, duration, h, many, moment, nodeHash, recipeHash, refresh, sessionHash } from "./dom.js";
import { who } from "./recipes.js";

const EVERY_MS = 1000;
const shown = { body: null, path: null, timer: 0, turn: 0 };
const part = {};

/** Fills the element with the recipe at this path, again and again; null: with nothing any more. */
export function show(body, path) {
  clearTimeout(shown.timer);
  shown.turn++;
  Object.assign(shown, { body, path });
  if (path !== null) load();
}

async function load() {
  const own = shown.turn;
  const { body, path } = shown;
  try {
    if (!document.hidden) {
      const answer = await ask("line", { path });
      if (own === shown.turn) page(body, path, answer);
    }
  } catch (error) {
    if (own === shown.turn && error.status) refresh(body, error.message, () => h("p", { class: "notice" }, error.message));
  }
  if (own === shown.turn && body.isConnected) shown.timer = setTimeout(load, EVERY_MS);
}

/* Holders and line */

/** What is left of a session: an upper bound, because every sign of life begins it again. */
function lease(place) {
  if (!place.session) return "–";
  if (place.left_ms === undefined) {
    return [place.timeout_ms ? `at most ${duration(place.timeout_ms)}` : "unknown", h("small", { class: "who" }, place.server ? `server ${place.server} and the leader know more` : "the leader knows more")];
  }
  const left = `ends in ${duration(place.left_ms)}`;
  return [place.heard_ms > place.timeout_ms / 2 ? h("span", { class: "pill down" }, left) : left,
    h("small", { class: "who" }, `without a sign of life; heard ${duration(place.heard_ms)} ago`)];
}

function since(place, holds) {
  const from = holds && place.from_ms;
  const ago = duration(Date.now() - (from || place.since_ms));
  return [moment(from || place.since_ms), h("small", { class: "who" }, holds && !from ? `joined the line ${ago} ago` : ago)];
}

function rows(list, holds) {
  return list.map((place, i) => h("tr", {},
    h("th", { scope: "row" }, h("div", { class: "place" }, who(place))),
    h("td", { "data-label": "Place" }, holds ? h("span", { class: "pill lead" }, "holds") : `${i + 1} in the line`),
    h("td", { "data-label": "Since" }, since(place, holds)),
    h("td", { "data-label": "Token" }, place.token ? h("code", {}, place.token) : "–"),
    h("td", { "data-label": "Session" }, lease(place))));
}

function table(columns, list) {
  return h("table", { class: "held" }, h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, list));
}

function now(recipe) {
  if (!recipe) return h("p", { class: "hint" }, "There is no such recipe now.");
  const more = recipe.holding + recipe.waiting - recipe.holders.length - recipe.line.length;
  return [
    recipe.holding ? null : h("p", {}, h("span", { class: "pill down" }, "nobody holds it")),
    recipe.holding + recipe.waiting ? table(["Who", "Place", "Since", "Token", "Session"], [rows(recipe.holders, true), rows(recipe.line, false)]) : null,
    more ? h("p", { class: "hint" }, `${count(more)} more are not shown.`) : null];
}

/* History */

const CAUSES = {
  released: () => "The holder gave it back.",
  closed: () => "The holder closed its session.",
  expired: (r) => r.words || "The session expired. This server does not know why.",
  killed: (r) => `An operator ended the session${r.by ? `: ${r.by}` : ""}.`,
  deleted: (r) => `Its node was deleted by ${r.by}.`,
};
const BAD = ["expired", "killed", "deleted"];

/** Why a hold ended, as a sentence. */
export function cause(record) {
  return CAUSES[record.cause](record);
}

export function name(record) {
  return record.label || record.client || record.session;
}

function why(record) {
  return [BAD.includes(record.cause) ? h("span", { class: "pill down" }, record.cause) : h("span", { class: "pill" }, record.cause), h("small", { class: "who" }, cause(record))];
}

function row(record) {
  const from = record.from_ms ?? record.joined_ms;
  const link = h("a", { href: sessionHash(record.session), "data-key": `session ${record.token}` }, record.session);
  const more = record.label && record.client ? [record.client, ", ", link] : link;
  return h("tr", {},
    h("th", { scope: "row" }, h("b", {}, name(record)), h("small", { class: "who" }, more)),
    h("td", { "data-label": "Held" }, record.from_ms === null ? "at most " : "", duration(record.until_ms - from), h("small", { class: "who" }, record.from_ms === null ? `in line since ${moment(from)}` : `from ${moment(from)}`)),
    h("td", { "data-label": "Until" }, moment(record.until_ms)),
    h("td", { "data-label": "Why it ended" }, h("div", {}, why(record))),
    h("td", { "data-label": "Then" }, record.next ? h("b", {}, record.next) : "nobody waited"));
}

function past(answer) {
  if (!answer.history.length) return h("p", { class: "hint" }, "No hand-over is known since this server looks at them.");
  return [table(["Who held", "Held", "Until", "Why it ended", "Then"], answer.history.map(row)),
    answer.missed ? h("p", { class: "hint" }, `${many(answer.missed, "hand-over")} of all recipes came too fast to be recorded.`) : null];
}

function frame(path) {
  part.now = h("section", { class: "panel", "aria-label": "Now" });
  part.past = h("section", { class: "panel", "aria-label": "Hand-overs" });
  const ways = h("p", { class: "ways" }, h("a", { href: "#/recipes", "data-key": "all recipes" }, "All recipes"), h("a", { href: nodeHash(path), "data-key": "the node" }, "Its node in the tree"));
  return [ways, part.now, part.past];
}

/* Two parts, because one of them changes all the time. */
function page(body, path, answer) {
  const minute = Math.floor(Date.now() / 10000);
  const recipe = answer?.recipe;
  const title = () => h("h2", {}, h("code", {}, path), h("small", {}, recipe ? ` ${recipe.kind}${recipe.library ? `, ${recipe.library}` : ""}` : ""));
  refresh(body, { one: path }, () => frame(path));
  refresh(part.now, { answer: answer && recipe, minute }, () => [title(), answer ? now(recipe) : h("p", { class: "notice" }, "This server shows nodes only to clients that authenticate.")]);
  refresh(part.past, answer && { history: answer.history, missed: answer.missed }, () => (answer ? [h("h2", {}, "Hand-overs"), past(answer)] : null));
}

/** The newest hand-overs of all recipes, for the first page. */
export function newest(list) {
  if (!list?.length) return null;
  return [h("h2", {}, "Latest hand-overs"),
    table(["Path", "When", "Who held", "Why it ended", "Then"], list.map((record) => h("tr", {},
      h("th", { scope: "row" }, h("a", { href: recipeHash(record.path), "data-key": `handover ${record.path} ${record.token}` }, h("code", {}, record.path)), h("small", { class: "who" }, record.kind)),
      h("td", { "data-label": "When" }, moment(record.until_ms), h("small", { class: "who" }, `${duration(Date.now() - record.until_ms)} ago`)),
      h("td", { "data-label": "Who held" }, h("b", {}, name(record))),
      h("td", { "data-label": "Why it ended" }, h("div", {}, why(record))),
      h("td", { "data-label": "Then" }, record.next ? h("b", {}, record.next) : "nobody waited")))),
    h("p", { class: "hint" }, "Of elections and active/standby pairs, and of locks and semaphores that were not given back.")];
}
