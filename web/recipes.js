// Recipes as what they are: who holds what, and who waits behind. Also the list on the first page.
import { account, act, form } from "./account.js";
import { ask, count, duration, h, many, moment, nodeHash, recipeHash, refresh, sessionHash } from "./dom.js";
import * as line from "./line.js";

const ORDER = ["election", "lock", "semaphore", "active/standby pair", "Redis set", "queue", "barrier", "group", "services", "config"];
const TITLES = {
  "election": "Elections", "lock": "Locks", "semaphore": "Semaphores", "active/standby pair": "Active/standby pairs", "Redis set": "Redis sets",
  "queue": "Queues", "barrier": "Barriers", "group": "Groups", "services": "Services", "config": "Configurations",
};
const PAUSE_MS = 2000; // between two lists, while the tree changes

const GUID = /^[0-9a-f]{32}$/;

/** An instance of a service is JSON: its address. */
function address(label) {
  try {
    const facts = JSON.parse(label);
    return `${facts.address ?? ""}${facts.port ? `:${facts.port}` : ""}`;
  } catch {
    return label;
  }
}

/** Kinds that somebody holds: they have a page of their own, with the history of their hand-overs. */
const HELD_KINDS = ORDER.slice(0, 4);

/** How a contender is called: by its own text, otherwise by its client. The node of a group's member is its name. */
export function who(place, named) {
  const label = place.label?.startsWith("{") ? address(place.label) : place.label;
  const name = (named && !GUID.test(place.node) && place.node) || label || place.client || place.session || place.node;
  const more = [label, place.client].filter((part) => part && part !== name).join(", ");
  const link = place.session && place.session !== name ? ["session ", h("a", { href: sessionHash(place.session), "data-key": `session ${place.session} ${place.node}` }, place.session)] : null;
  return [h("b", {}, name), place.shared ? h("span", { class: "pill" }, "shared") : null,
    place.weight ? h("span", { class: "pill" }, many(place.weight, "permit")) : null, more || link ? h("small", { class: "who" }, more, more && link ? ", " : null, link) : null];
}

function places(list, all, named) {
  return [list.map((place) => h("div", { class: "place" }, who(place, named))), all > list.length ? h("small", {}, `and ${count(all - list.length)} more`) : null];
}

/** Those who wait, in their order, in one line of text. */
function names(list, all) {
  const words = list.map((place) => (place.label || place.client || place.session || place.node) + (place.shared ? " (shared)" : ""));
  return words.join(", ") + (all > list.length ? `, and ${count(all - list.length)} more` : "");
}

/** Since when a holder holds, if that is known, otherwise since when it is in the line. */
function held(place) {
  const ago = duration(Date.now() - (place.from_ms || place.since_ms));
  return [moment(place.from_ms || place.since_ms), h("small", { class: "who" }, place.from_ms ? ago : `joined the line ${ago} ago`)];
}

function oldest(since) {
  return [moment(since), h("small", { class: "who" }, duration(Date.now() - since))];
}

function path(recipe) {
  const href = HELD_KINDS.includes(recipe.kind) ? recipeHash(recipe.path) : nodeHash(recipe.path);
  return h("a", { href, "data-key": `path ${recipe.kind} ${recipe.path}` }, h("code", {}, recipe.path));
}

/** Deletes the holder's node, which is how a lead or a lock ends. */
function resign(recipe, place) {
  const node = `${recipe.under ?? recipe.path}/${place.node}`;
  form(acts, {
    title: `Make ${place.label || place.client || place.node} resign from ${recipe.path}?`,
    fields: [h("p", {}, "The console deletes the holder's node ", h("code", {}, node), `. ${recipe.waiting ? "The next in the line takes over." : "Nobody waits in the line: it stays free until somebody asks."}`),
      h("p", {}, recipe.library === "Conclave" ? "Its program learns at once that it has lost, and steps down." : "Programs with other libraries may not notice that, and go on as holders: ending the session of the holder is surer.")],
    verb: `Delete ${node}`,
    danger: true,
    run: () => act("delete", { path: node, czxid: place.token }),
    done: load,
  });
}

function resigner(recipe) {
  return recipe.holders.filter((place) => place.token).map((place) => h("button", { type: "button", class: "plain small", "data-key": `resign ${recipe.path} ${place.node}`, onclick: () => resign(recipe, place) },
    recipe.holders.length > 1 ? `Make ${place.label || place.node} resign…` : "Make it resign…"));
}

/** One row of elections and locks held now; `mayAct`: with buttons. */
function heldRow(recipe, mayAct) {
  const first = recipe.holders[0];
  return h("tr", {},
    h("th", { scope: "row" }, path(recipe), h("small", { class: "who" }, recipe.kind + (recipe.library ? `, ${recipe.library}` : ""), recipe.permits ? `, ${many(recipe.permits, "permit")}` : "")),
    h("td", { "data-label": "Holder" }, recipe.holding ? [places(recipe.holders, recipe.holding), mayAct ? resigner(recipe) : null] : h("span", { class: "pill down" }, "nobody")),
    h("td", { "data-label": "Token" }, first?.token ? h("code", {}, first.token) : "–"),
    h("td", { "data-label": "Holds since" }, first ? held(first) : "–"),
    h("td", { "data-label": "Waiting" }, recipe.waiting ? h("div", {}, many(recipe.waiting, "waiter"), h("small", { class: "who" }, names(recipe.line, recipe.waiting))) : "nobody"));
}

function limits(lists) {
  const words = [];
  if (lists.more) words.push(`${count(lists.more)} more are not shown.`);
  if (lists.cut) words.push("The tree is larger than the console looks: there may be more.");
  if (lists.hidden) words.push(`${many(lists.hidden, "node is", "nodes are")} not readable without authentication.`);
  return words.length ? h("p", { class: "hint" }, words.join(" ")) : null;
}

function heldTable(list, mayAct = false) {
  return h("table", { class: "held" }, h("thead", {}, h("tr", {}, ["Path", "Holder", "Token", "Holds since", "Waiting"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, list.map((recipe) => heldRow(recipe, mayAct))));
}

/** The part of the overview: elections and locks held now. */
export function heldNow(lists) {
  const title = h("h2", {}, "Elections and locks held now");
  if (!lists) return [title, h("p", { class: "hint" }, "This server shows no nodes now: it does not serve, or clients must authenticate (enforce.auth.enabled).")];
  const list = [...lists.list].sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind));
  return [title, list.length ? heldTable(list) : h("p", { class: "hint" }, "Nobody holds or waits for an election, lock, semaphore or active/standby pair."), limits(lists)];
}

/* The view of all recipes */

const shown = { lists: null, zxid: null, at: 0, timer: 0 };
let body = null;
let acts = null; // for forms
let single = false; // the page of one recipe is shown

export function open() {
  body = h("div", { class: "recipes" });
  acts = h("div", {});
  shown.zxid = null;
  return h("div", {}, h("h1", { class: "unseen" }, "Recipes"), acts, body);
}

export function show(path) {
  single = path.length > 1;
  acts.replaceChildren();
  line.show(body, single ? path : null);
  if (single) return;
  shown.zxid = null;
  load();
}

export function update(state) {
  if (single) return;
  const zxid = state.overview?.server?.zxid;
  if (!body?.isConnected) return;
  if (zxid && zxid !== shown.zxid && !shown.timer) {
    shown.zxid = zxid;
    shown.timer = setTimeout(load, Math.max(0, shown.at + PAUSE_MS - Date.now()));
  }
  render();
}

async function load() {
  clearTimeout(shown.timer);
  shown.timer = 0;
  shown.at = Date.now();
  try {
    shown.lists = await ask("recipes");
    render();
  } catch (error) {
    if (error.status && !single) refresh(body, error.message, () => h("p", { class: "notice" }, error.message));
  }
}

function render() {
  if (!single && body?.isConnected && shown.lists !== null) refresh(body, { lists: shown.lists, who: account().name, minute: Math.floor(Date.now() / 10000) }, ({ lists }) => kinds(lists));
}

function kinds(lists) {
  if (!lists) return h("p", { class: "notice" }, "This server shows nodes only to clients that authenticate.");
  if (!lists.list.length) return [h("section", { class: "panel" }, h("h2", {}, "No recipes"), h("p", { class: "hint" }, "The console recognises elections, locks, semaphores, queues, barriers, groups, services, configurations, active/standby pairs and Redis sets by their nodes, those of Curator and kazoo, too.")), limits(lists)];
  const sections = ORDER.map((kind) => [kind, lists.list.filter((recipe) => recipe.kind === kind)]).filter(([, list]) => list.length);
  return [sections.map(([kind, list]) => h("section", { class: "panel", "aria-label": TITLES[kind] }, h("h2", {}, TITLES[kind], h("small", {}, ` ${count(list.length)}`)), table(kind, list))), limits(lists)];
}

function table(kind, list) {
  if (HELD_KINDS.includes(kind)) return heldTable(list, Boolean(account().name));
  const columns = {
    "Redis set": ["Master", "State", "Epoch", "Replicas"],
    "queue": ["Items", "Oldest", "First in the line"],
    "barrier": ["State", "Members"],
    "config": ["Acknowledged by"],
  }[kind] || ["Members", "Who"];
  return h("table", { class: "held" }, h("thead", {}, h("tr", {}, ["Path", ...columns].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, list.map((recipe) => h("tr", {}, h("th", { scope: "row" }, path(recipe), recipe.library ? h("small", { class: "who" }, recipe.library) : null),
      cells(kind, recipe).map((cell, i) => h("td", { "data-label": columns[i] }, cell))))));
}

function record(recipe) {
  try {
    return JSON.parse(recipe.data) ?? {};
  } catch {
    return {};
  }
}

function cells(kind, recipe) {
  const members = () => h("div", { class: "members-of" }, recipe.holding + recipe.waiting === 0 ? "nobody" : places([...recipe.holders, ...recipe.line], recipe.holding + recipe.waiting, kind !== "barrier"));
  if (kind === "Redis set") {
    const facts = record(recipe);
    const replicas = facts.replicas || facts.slaves || [];
    return [facts.master ? h("b", {}, String(facts.master)) : h("span", { class: "pill down" }, "none known"), String(facts.state ?? "–"), String(facts.epoch ?? "–"), replicas.length ? replicas.join(", ") : "none"];
  }
  if (kind === "queue") {
    const first = recipe.line[0];
    return [recipe.waiting ? count(Math.max(recipe.waiting, recipe.children)) : "empty", first ? oldest(first.since_ms) : "–", first ? first.label || h("code", {}, first.node) : "–"];
  }
  if (kind === "barrier") {
    if (recipe.plain) return [["closed", h("small", { class: "who" }, "an empty node whose end clients of this server wait for")], members()];
    return [recipe.open ? h("span", { class: "pill lead" }, "open") : `closed: ${recipe.waiting}${recipe.permits ? ` of ${recipe.permits}` : ""} wait`, members()];
  }
  return kind === "config" ? [members()] : [count(recipe.holding), members()];
}
