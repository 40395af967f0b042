// The sessions: whose they are, and when their clients were last heard.
import { account, act, form } from "./account.js";
import { ask, askPort, count, duration, h, many, moment, refresh, sessionHash } from "./dom.js";

const EVERY_MS = 3000;
const ENDED_MAX = 100; // rows of each list
const part = {};
const shown = { find: "", answer: null, timer: 0, orderly: false, self: null };

export function open() {
  part.input = h("input", { type: "text", name: "find", "aria-label": "Part of an address or of a session id", placeholder: "Address or session id", spellcheck: "false", autocomplete: "off", value: shown.find });
  part.list = h("section", { class: "panel", "aria-label": "Sessions" });
  part.ended = h("section", { class: "panel", "aria-label": "Ended sessions" });
  const goto = h("form", { class: "goto", onsubmit: onFind }, part.input, h("button", { type: "submit" }, "Find"));
  part.place = h("div", {});
  load();
  return h("div", { class: "sessions" }, h("h1", { class: "unseen" }, "Sessions"), goto, part.place, part.list, part.ended);
}

/** #/sessions/0x1f shows that one. */
export function show(path) {
  if (path.length < 2) return;
  shown.find = path.slice(1);
  part.input.value = shown.find;
  load();
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
    refresh(part.list, { answer, find: shown.find, who: account().name }, table);
  } catch (error) {
    if (own === turn && error.status) refresh(part.list, error.message, () => h("p", { class: "hint" }, error.message));
  }
  if (own === turn) await loadEnded();
  if (own === turn && part.list.isConnected) shown.timer = setTimeout(again, EVERY_MS);
}

async function loadEnded() {
  try {
    const answer = await askPort("/sessions/ended");
    refresh(part.ended, { answer: { ...answer, time_ms: 0 }, find: shown.find, minute: Math.floor(Date.now() / 10000) }, ended);
  } catch (error) {
    if (error.status) refresh(part.ended, error.message, () => h("p", { class: "hint" }, error.message));
  }
}

/* Only while the view is shown, and to somebody. */
function again() {
  if (!part.list.isConnected) return;
  if (document.hidden) shown.timer = setTimeout(again, EVERY_MS);
  else load();
}

/** Somebody signed in or out. */
export { load as signed };

export function update(state) {
  shown.self = state.overview?.server?.id ?? shown.self;
}

function end(session) {
  const who = session.client ? `of the client ${session.client}` : session.server ? `at server ${session.server}` : "without a client here";
  form(part.place, {
    title: `End the session ${session.id}?`,
    fields: h("p", {}, `It is the session ${who}. ${session.ephemerals ? `Its ${many(session.ephemerals, "ephemeral node")} will be deleted: locks and leads that it holds go to others.` : "It has no ephemeral nodes."} Its program is told that the session has expired, and must open a new one.`),
    verb: `End ${session.id}`,
    danger: true,
    run: () => act("kill", { id: session.id }),
    done: load,
  });
}

function heard(session) {
  if (session.idle_ms === null) return ["–", h("small", { class: "who" }, `ends after ${duration(session.timeout_ms)} of silence`)];
  const late = session.idle_ms > session.timeout_ms / 2;
  return [late ? h("span", { class: "pill down" }, `${duration(session.idle_ms)} ago`) : `${duration(session.idle_ms)} ago`,
    h("small", { class: "who" }, `ends in ${duration(session.left_ms)} of ${duration(session.timeout_ms)}`)];
}

function row(session) {
  const here = session.local || session.server === shown.self;
  const where = session.local ? "local to this server" : session.server ? `${here && !session.client ? "last " : ""}at server ${session.server}` : "not connected yet";
  return h("tr", {},
    h("th", { scope: "row" }, session.client ? h("code", {}, session.client) : h("span", { class: "pill" }, session.server && !here ? "no client here" : "not connected"), h("small", { class: "who" }, where)),
    h("td", { "data-label": "Session" }, h("code", {}, session.id), account().name ? h("button", { type: "button", class: "plain small", "data-key": `end ${session.id}`, onclick: () => end(session) }, "End…") : null),
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
  list.some((session) => !session.client) ? h("p", { class: "hint" }, "Clients of other servers are known there, and when they were heard to the leader, too: open their console.") : null];
}

/* Ended sessions */

const CAUSES = {
  lives: "lives", moved: "moved", client_silent: "client silent", server_lost: "server lost", leader_change: "leader change", client_left: "client left",
  client_paused: "client paused", client_not_reading: "client not reading", commit_stall: "commit stall", network: "network", dropped: "dropped",
  disk_stall: "disk stall", server_stall: "server stall", closed: "closed", killed: "killed",
};
const CALM = ["lives", "moved", "closed"];

const noted = new Map(); // session → the sentences that its row shows

function sentences(session) {
  return h("ul", {}, noted.get(session).map((sentence) => h("li", {}, sentence)));
}

async function onNoted(details, session) {
  if (details.open === noted.has(session)) return;
  if (!details.open) {
    noted.delete(session);
    details.querySelector("ul")?.remove();
    return;
  }
  noted.set(session, []);
  try {
    const { record } = await askPort(`/sessions/why?id=${session}`);
    noted.set(session, record ? record.notes : ["The record has made room for newer ones."]);
  } catch (error) {
    noted.set(session, [error.message]);
  }
  details.querySelector("ul")?.remove();
  details.append(sentences(session));
}

function endedRow(record) {
  return h("tr", {},
    h("th", { scope: "row" }, record.client ? h("code", {}, record.client) : h("span", { class: "pill" }, "not known here"), h("small", { class: "who" }, h("a", { href: sessionHash(record.session), "data-key": `ended ${record.session}` }, record.session))),
    h("td", { "data-label": "Ended" }, moment(record.at_ms), h("small", { class: "who" }, `${duration(Date.now() - record.at_ms)} ago`)),
    h("td", { "data-label": "Why" }, h("div", {}, h("span", { class: CALM.includes(record.cause) ? "pill" : "pill down" }, CAUSES[record.cause] ?? record.cause), h("small", { class: "who" }, record.verdict),
      h("details", { class: "noted", open: noted.has(record.session), ontoggle: (event) => onNoted(event.target, record.session) },
        h("summary", { "data-key": `noted ${record.session}` }, "What this server noted"), noted.has(record.session) ? sentences(record.session) : null))));
}

/** Sessions that ended, and why; also for the first page. */
export function endedTable(list) {
  return h("table", { class: "held" }, h("thead", {}, h("tr", {}, ["Client", "Ended", "Why"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, list.slice(0, ENDED_MAX).map(endedRow)));
}

function ended({ answer, find }) {
  const matches = (record) => record.session.includes(find) || record.client?.includes(find);
  const [lost, orderly] = [answer.lost.filter(matches), answer.orderly.filter(matches)];
  const title = h("h2", {}, "Ended sessions ", h("small", {}, `${count(lost.length)} lost, ${count(orderly.length)} closed or moved`));
  if (!answer.recording) return [title, h("p", { class: "hint" }, "This server keeps no records of them (maxEndedSessions=0).")];
  const more = Math.max(0, lost.length - ENDED_MAX) + Math.max(0, orderly.length - ENDED_MAX) + answer.left_out;
  return [title,
    lost.length ? endedTable(lost) : h("p", { class: "hint" }, find ? "No lost session has this in its id or address." : "No session was lost, as far as this server knows."),
    orderly.length ? h("details", { open: shown.orderly, ontoggle: (event) => { shown.orderly = event.target.open; } }, h("summary", { "data-key": "orderly" }, "Closed by their clients, or resumed on another server"), endedTable(orderly)) : null,
    more ? h("p", { class: "hint" }, `${count(more)} more are not shown; find them by address or id.`) : null,
    h("p", { class: "hint" }, "What this server knows. All servers together know more: conclave sessions why ID.")];
}
