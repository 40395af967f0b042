// The sessions: whose they are, and when their clients were last heard.
import { ask, count, duration, h, many, moment, refresh } from "./dom.js";

const EVERY_MS = 3000;
const part = {};
const shown = { find: "", answer: null, timer: 0 };

export function open() {
  part.input = h("input", { type: "text", name: "find", "aria-label": "Part of an address or of a session id", placeholder: "Address or session id", spellcheck: "false", autocomplete: "off", value: shown.find });
  part.list = h("section", { class: "panel", "aria-label": "Sessions" });
  const form = h("form", { class: "goto", onsubmit: onFind }, part.input, h("button", { type: "submit" }, "Find"));
  load();
  return h("div", { class: "sessions" }, h("h1", { class: "unseen" }, "Sessions"), form, part.list);
}

function onFind(event) {
  event.preventDefault();
  shown.find = part.input.value.trim();
  load();
}

let turn = 0;

async function load() {
  const own = ++turn;
  clearTimeout(shown.timer);
  try {
    const answer = await ask("sessions", shown.find ? { find: shown.find } : {});
    if (own !== turn || !part.list) return;
    refresh(part.list, { answer, find: shown.find }, table);
  } catch (error) {
    if (own === turn && error.status) refresh(part.list, error.message, () => h("p", { class: "hint" }, error.message));
  }
  if (own === turn && part.list.isConnected) shown.timer = setTimeout(again, EVERY_MS);
}

/* Only while the view is shown, and to somebody. */
function again() {
  if (!part.list.isConnected) return;
  if (document.hidden) shown.timer = setTimeout(again, EVERY_MS);
  else load();
}

function heard(session) {
  const late = session.idle_ms > session.timeout_ms / 2;
  return [late ? h("span", { class: "pill down" }, `${duration(session.idle_ms)} ago`) : `${duration(session.idle_ms)} ago`,
    h("small", { class: "who" }, `ends after ${duration(session.timeout_ms)}`)];
}

function row(session) {
  const where = session.local ? "local to this server" : session.server ? `at server ${session.server}` : "not connected yet";
  return h("tr", {},
    h("th", { scope: "row" }, session.client ? h("code", {}, session.client) : h("span", { class: "pill" }, session.server || session.local ? "no client here" : "no client"), h("small", { class: "who" }, where)),
    h("td", { "data-label": "Session" }, h("code", {}, session.id)),
    h("td", { "data-label": "Last heard" }, heard(session)),
    h("td", { "data-label": "Ephemerals" }, count(session.ephemerals)),
    h("td", { "data-label": "Watches" }, session.watches === undefined ? "–" : count(session.watches)),
    h("td", { "data-label": "Requests" }, session.requests === undefined ? "–" : [count(session.requests), h("small", { class: "who" }, `since ${moment(session.since_ms)}`)]));
}

function table({ answer, find }) {
  const { list, found, all } = answer;
  const title = h("h2", {}, "Sessions ", h("small", {}, find ? `${count(found)} of ${count(all)}` : count(all)));
  if (!list.length) return [title, h("p", { class: "hint" }, find ? "No session has this in its id or address." : "There are no sessions.")];
  return [title, h("table", { class: "held" }, h("thead", {}, h("tr", {}, ["Client", "Session", "Last heard", "Ephemerals", "Watches", "Requests"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, list.map(row))),
  found > list.length ? h("p", { class: "hint" }, `The first ${many(list.length, "session")}; find the others by address or id.`) : null,
  list.some((session) => !session.client) ? h("p", { class: "hint" }, "Clients of other servers are known there: open their console.") : null];
}
