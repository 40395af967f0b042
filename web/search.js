// The search by path: the server looks at a bounded number of nodes per request, so the page asks part by part.
import { ask, bytes, count, h, many, nodeHash, refresh, searchHash } from "./dom.js";

const PAGE = 100;
const PAUSE_MS = 50; // between two parts: other consoles share what the server looks at
const RETRY_MS = 1000;

const part = {};
const shown = { text: null, turn: 0, nodes: null };

/** Where this view belongs in the navigation. */
export const within = "tree";

/** The form of the views tree and search: a path leads to its node, any other text, or the second button, to a search. */
export function pathForm(value, ...more) {
  const input = h("input", { type: "text", name: "path", "aria-label": "Path, or a part of one", placeholder: "/path, or a part of one", spellcheck: "false", autocomplete: "off", autocapitalize: "off", value });
  const onSubmit = (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (text) location.hash = event.submitter?.value === "search" || !text.startsWith("/") ? searchHash(text) : nodeHash(text);
  };
  return h("form", { class: "goto", role: "search", onsubmit: onSubmit }, input, h("button", { type: "submit" }, "Go"), h("button", { type: "submit", class: "plain", value: "search" }, "Search"), more);
}

export function open() {
  shown.text = null;
  part.form = h("div", {});
  part.list = h("section", { class: "panel found", "aria-label": "Found" });
  part.status = h("p", { class: "hint", role: "status" });
  part.bar = h("div", { class: "pages" });
  return h("div", { class: "tree" }, h("h1", { class: "unseen" }, "Search"), part.form, part.list);
}

/** #/search/TEXT */
export function show(path) {
  const text = path.slice(1);
  if (text === shown.text) return;
  part.form.replaceChildren(pathForm(text));
  begin(text);
}

/** Somebody signed in or out: other nodes may be readable. */
export function signed() {
  begin(shown.text);
}

export function update(state) {
  shown.nodes = state.overview?.server?.nodes ?? shown.nodes;
}

function begin(text) {
  Object.assign(shown, { text, found: new Map(), after: null, looked: 0, hidden: 0, leftOut: 0, problem: null });
  look();
}

async function look() {
  const turn = ++shown.turn;
  const wanted = shown.found.size + PAGE;
  const current = () => turn === shown.turn && part.list.isConnected;
  Object.assign(shown, { looking: true, problem: null });
  render();
  do {
    try {
      add(await ask("search", { find: shown.text, count: PAGE, ...(shown.after === null ? {} : { after: shown.after }) }), current);
    } catch (error) {
      if (!current()) return;
      if (error.status !== 503) shown.problem = error.status ? error.message : "This server does not answer.";
      else await pause(RETRY_MS);
    }
    await pause(PAUSE_MS);
    if (!current()) return;
    render();
  } while (!shown.problem && shown.after !== undefined && shown.found.size < wanted);
  shown.looking = false;
  render();
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** One part. A node may come twice, if one was deleted meanwhile. */
function add(answer, current) {
  if (!current()) return;
  for (const row of answer.found) shown.found.set(row[0], row);
  shown.after = answer.after ?? undefined;
  shown.looked += answer.looked;
  shown.hidden += answer.hidden;
  shown.leftOut += answer.left_out;
}

function stop() {
  shown.turn++;
  shown.looking = false;
  render();
}

function row([path, children, size, kind]) {
  return h("li", {}, h("a", { href: nodeHash(path), "data-key": `found ${path}` }, h("span", { class: "name" }, path),
    h("span", { class: "facts" }, kind === null || kind === "persistent" ? null : h("span", { class: "pill" }, kind), children ? h("span", {}, many(children, "child", "children")) : null, size ? h("span", {}, bytes(size)) : null)));
}

function words(s) {
  if (s.problem) return s.problem;
  const nodes = s.nodes && s.after !== undefined ? `about ${count(Math.max(s.nodes, s.looked))}` : count(s.looked);
  const seen = s.after === undefined ? `All ${count(s.looked)} nodes were looked at.` : `${count(s.looked)} of ${nodes} nodes were looked at.`;
  return [s.looking ? "Looking …" : `${many(s.found.size, "node")} found.`, seen,
    s.hidden ? `What is below ${many(s.hidden, "node")} is hidden from you.` : "", s.leftOut ? `${many(s.leftOut, "node")} with a path of more than 4 KiB left out.` : ""].filter(Boolean).join(" ");
}

/* Only the end of a search is announced: part.status keeps its text while the search goes on. */
function render() {
  if (!shown.looking) part.status.textContent = words(shown);
  const progress = shown.looking ? h("p", { class: "hint" }, words(shown)) : null;
  part.bar.replaceChildren(...[shown.looking ? h("button", { type: "button", class: "plain", "data-key": "stop", onclick: stop }, "Stop") : null,
    !shown.looking && shown.after !== undefined && !shown.problem ? h("button", { type: "button", "data-key": "more", onclick: look }, "Look further") : null].filter(Boolean));
  part.status.classList.toggle("unseen", shown.looking);
  refresh(part.list, { text: shown.text, found: [...shown.found.keys()], words: words(shown), looking: shown.looking }, () => [
    h("h2", {}, "Found ", h("small", {}, count(shown.found.size))), progress, part.status,
    shown.found.size ? h("ul", { class: "names" }, [...shown.found.values()].map(row)) : null, part.bar]);
}
