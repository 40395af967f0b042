// The frame: which view is shown, and the live connection to the server.
import { account, onAccount, signOut, start } from "./account.js";
import { ask, h, refresh } from "./dom.js";
import * as overview from "./overview.js";
import * as recipes from "./recipes.js";
import * as search from "./search.js";
import * as sessions from "./sessions.js";
import * as signin from "./signin.js";
import * as slow from "./slow.js";
import * as tree from "./tree.js";

const VIEWS = { overview, recipes, tree, search, sessions, slow, signin };
const HOUR_SAMPLES = 720;
const RETRY_MS = 1000;
const POLL_MS = 5000;

const state = { overview: null, history: { every_ms: 5000, samples: [] }, server: null };
const main = document.getElementById("main");
let view = null;
let routed = false; // a view was shown before

/* Views */

/** A part of an address that somebody typed may be malformed: it stays as it is. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function route() {
  const hash = location.hash || "#/";
  const [, name, rest] = hash.match(/^#\/(\w*)(.*)$/) || ["", "", ""];
  const wanted = Object.hasOwn(VIEWS, name) ? name : "overview";
  const path = rest.split("/").map(decoded).join("/");
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === (VIEWS[wanted].within ?? wanted)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view !== wanted) {
    view = wanted;
    document.title = `${VIEWS[wanted].title ?? wanted[0].toUpperCase() + wanted.slice(1)} – Conclave`;
    main.replaceChildren(VIEWS[view].open());
    if (routed && document.activeElement === document.body) main.focus(); // what had the focus is gone
  }
  VIEWS[view].show?.(path);
  VIEWS[view].update?.(state);
  routed = true;
}

/* Who is signed in */

function showAccount() {
  refresh(document.getElementById("account"), account(), (me) => (!me.acts ? [] : !me.name ? [h("a", { href: "#/signin" }, "Sign in")]
    : [h("a", { href: "#/signin" }, me.name), h("button", { type: "button", class: "plain", onclick: () => signOut().catch(() => {}) }, "Sign out")]));
}

onAccount(() => {
  showAccount();
  VIEWS[view].signed?.();
  VIEWS[view].update?.(state);
});

/* The live connection */

let source = null;
let timer = 0;

function tell(kind, words) {
  const link = document.getElementById("link");
  if (link.dataset.kind === kind && link.lastElementChild.textContent === words) return;
  link.dataset.kind = kind;
  link.lastElementChild.textContent = words;
}

function later(ms) {
  clearTimeout(timer);
  timer = setTimeout(connect, ms);
}

/** Who leads is announced when it changes, in every view; figures and lists are not: they change all the time. */
function announce(next) {
  const before = state.overview?.leader?.id;
  const now = next.leader?.id;
  if (state.overview && before !== now) document.getElementById("news").textContent = now ? `Server ${now} leads.` : "There is no leader.";
}

async function take(next) {
  const server = next.server ? `${next.server.id}/${next.server.started_ms}` : "";
  const newest = state.history.samples.at(-1);
  announce(next);
  const version = next.server?.version.match(/conclave-([^,]+)/i);
  document.getElementById("version").textContent = version ? `Conclave ${version[1]}` : "";
  state.overview = next;
  if (next.server && (server !== state.server || (next.sample && newest && next.sample[0] > newest[0] + 1))) {
    state.server = server;
    state.history = await ask("history");
  } else if (next.sample && (!newest || next.sample[0] > newest[0])) {
    state.history.samples = [...state.history.samples, next.sample].slice(-HOUR_SAMPLES);
  }
  VIEWS[view].update?.(state);
}

/** Too many consoles are open for a stream of events: asks now and then. */
async function poll(reason) {
  try {
    await take(await ask("overview"));
    tell("slow", reason);
  } catch {
    tell("lost", "This server does not answer");
  }
  later(POLL_MS);
}

function connect() {
  source?.close();
  source = new EventSource("/console/events");
  const current = source;
  current.onmessage = (event) => {
    if (current !== source) return;
    const next = JSON.parse(event.data);
    tell("live", next.server ? `Live from server ${next.server.id}` : "Live: it starts");
    take(next).catch(() => later(RETRY_MS));
  };
  current.onerror = () => {
    if (current !== source) return;
    current.close();
    source = null;
    fetch("/console/overview").then((response) => {
      if (response.ok) poll("Every 5 s: many consoles are open");
      else later(RETRY_MS);
    }, () => {
      tell("lost", "This server does not answer");
      later(RETRY_MS);
    });
  };
}

/* A hidden page needs no events. */
function onVisibility() {
  if (document.hidden) {
    source?.close();
    source = null;
    clearTimeout(timer);
  } else if (!source) {
    connect();
  }
}

document.addEventListener("visibilitychange", onVisibility);
addEventListener("hashchange", route);
setInterval(() => VIEWS[view].update?.(state), 10000);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
start();
route();
onVisibility();
