// The tree: one node and a page of its children. The server sorts and cuts, so the page stays small.
import { account } from "./account.js";
import { ask, bytes, count, duration, h, many, moment, nodeHash, refresh, searchHash, sessionHash } from "./dom.js";
import * as acts from "./node_acts.js";
import { pathForm } from "./search.js";

const PAGE = 200;
const FORMS = ["Text", "JSON", "Hex"];
const HEX_MAX = 16384;
const JSON_MAX = 1 << 20;
const JSON_DEPTH = 32;
const CRUMBS_MAX = 12;
const CRUMBS_FIRST = 3;
const WRITERS_MAX = 4096; // nodes whose writers the server keeps
const RETRY_MS = 1000;
const PERMS = { r: "read", w: "write", c: "create", d: "delete", a: "admin" };

const part = {};
// pages: where each page from the first to this one begins: {}, {after: name} or {from: text}
const shown = { path: null, pages: [{}], node: null, form: null, zxid: null };

export function open() {
  shown.path = null;
  part.crumbs = h("nav", { class: "crumbs", "aria-label": "Nodes above" });
  part.problem = h("p", { class: "notice", role: "status", "aria-live": "polite", hidden: true });
  part.children = h("section", { class: "children", "aria-label": "Children", onkeydown: onKey });
  part.details = h("section", { class: "details", "aria-label": "Node" });
  part.form = h("div", {});
  return h("div", { class: "tree" }, h("h1", { class: "unseen" }, "Tree"), part.form, part.crumbs, part.problem,
    h("div", { class: "columns" }, part.children, h("div", { class: "node" }, acts.open(load), part.details)));
}

export function show(path) {
  const wanted = path.replace(/\/+$/, "") || "/";
  if (wanted === shown.path) return;
  const again = shown.path !== null;
  Object.assign(shown, { path: wanted, pages: [{}], node: null, form: null });
  part.form.replaceChildren(pathForm(wanted, h("button", { type: "button", class: "plain", onclick: () => load() }, "Refresh")));
  acts.show(null); // nobody acts on the node before while this one is read
  load().then(() => again && keepFocus());
}

/** The link that led here is gone with the node before: the keyboard goes on at the children. */
function keepFocus() {
  if (document.activeElement === document.body) (part.children.querySelector("li a") ?? part.crumbs.querySelector("[aria-current]"))?.focus({ preventScroll: true });
}

/** Somebody signed in or out: other nodes may be readable. */
export function signed() {
  load();
}

/** Small lists follow changes of the tree. */
export function update(state) {
  const zxid = state.overview?.server?.zxid;
  const old = shown.zxid;
  shown.zxid = zxid ?? old;
  if (old && zxid && old !== zxid && shown.node && (shown.node.stat?.children ?? 0) <= 2000) load();
}

let loading = 0;

async function load() {
  const turn = ++loading;
  try {
    const node = await ask("node", { path: shown.path, count: PAGE, ...shown.pages.at(-1) });
    if (turn !== loading) return;
    shown.node = node;
    part.problem.hidden = true;
    render();
  } catch (error) {
    if (turn !== loading) return;
    part.problem.replaceChildren(...(error.status === 404 ? [`There is no node ${shown.path}. `, h("a", { href: searchHash(shown.path) }, "Search for it")]
      : [error.status ? error.message : "This server does not answer."]));
    part.problem.hidden = false;
    if (error.status === 503) setTimeout(() => turn === loading && part.problem.isConnected && load(), RETRY_MS);
    if (error.status === 404) {
      shown.node = null;
      part.children.replaceChildren();
      part.details.replaceChildren();
      refresh(part.children, null, () => null);
      refresh(part.details, null, () => null);
      refresh(part.crumbs, shown.path, crumbs);
      acts.show(null);
    }
  }
}

function render() {
  refresh(part.crumbs, shown.path, crumbs);
  refresh(part.children, { node: shown.path, list: shown.node.children ?? null, pages: shown.pages }, children);
  refresh(part.details, { node: { ...shown.node, children: 0 }, form: shown.form, name: account().name }, details);
  acts.show(shown.node);
}

/** The nodes above, of a deep one the first and the last. */
function crumbs(path) {
  const names = path === "/" ? [] : path.slice(1).split("/");
  const left = names.length > CRUMBS_MAX ? names.length - CRUMBS_MAX : 0;
  const link = (name, i) => (i >= CRUMBS_FIRST && i < CRUMBS_FIRST + left ? null : [h("span", { "aria-hidden": "true" }, "/"),
    left && i === CRUMBS_FIRST + left ? [h("span", {}, `… ${many(left, "node")} …`), h("span", { "aria-hidden": "true" }, "/")] : null,
    h("a", { href: nodeHash(`/${names.slice(0, i + 1).join("/")}`), "aria-current": i === names.length - 1 ? "page" : null }, name)]);
  return [h("a", { href: nodeHash("/"), "aria-current": names.length ? null : "page" }, "root"), names.map(link)];
}

/* Children */

function below(name) {
  return shown.path === "/" ? `/${name}` : `${shown.path}/${name}`;
}

function row([name, children, size, kind]) {
  return h("li", {}, h("a", { href: nodeHash(below(name)), "data-key": `name ${name}` },
    h("span", { class: "name" }, name),
    h("span", { class: "facts" }, kind === null || kind === "persistent" ? null : h("span", { class: "pill" }, kind),
      children ? h("span", {}, many(children, "child", "children")) : null,
      size ? h("span", {}, bytes(size)) : null)));
}

function go(pages) {
  shown.pages = pages;
  load().then(() => part.children.querySelector("li a")?.focus());
}

function jump(from) {
  return h("form", { class: "jump", onsubmit: onJump },
    h("label", {}, "Names from ", h("input", { type: "text", name: "from", "data-key": "jump", spellcheck: "false", autocomplete: "off", value: from })),
    h("button", { type: "submit", class: "plain" }, "Show"));
}

function turner(key, words, enabled, pages) {
  return h("button", { type: "button", "data-key": `turn ${key}`, disabled: !enabled, onclick: () => go(pages()) }, words);
}

function children({ list, pages }) {
  if (!list) return h("p", { class: "hint" }, "Not readable: the children of this node are hidden from you.");
  if (!list.count) return [h("h2", {}, "Children"), h("p", { class: "hint" }, "This node has no children.")];
  const first = pages[0].from === undefined;
  const from = (pages.length - 1) * PAGE;
  const range = list.count > PAGE && first ? `${count(from + 1)} to ${count(from + list.names.length)} of ` : "";
  return [h("h2", {}, "Children ", h("small", {}, range, count(list.count))),
    list.count > PAGE && list.order === "name" ? jump(pages[0].from ?? "") : null,
    list.order === "name" ? null : h("p", { class: "hint" }, "So many that they are in the order of their creation."),
    list.left_out ? h("p", { class: "hint" }, `${many(list.left_out, "child", "children")} left out: names of more than 4 KiB.`) : null,
    list.names.length ? h("ul", { class: "names" }, list.names.map(row)) : h("p", { class: "hint" }, "No name from there on."),
    pages.length > 1 || list.more || !first ? h("div", { class: "pages" },
      turner("first", "First", pages.length > 1 || !first, () => [{}]),
      turner("back", "Previous", pages.length > 1, () => pages.slice(0, -1)),
      turner("next", "Next", list.more, () => [...pages, { after: list.names.at(-1)[0] }])) : null];
}

function onJump(event) {
  event.preventDefault();
  const from = new FormData(event.target).get("from");
  go([from === "" ? {} : { from }]);
}

/** Arrow keys move among the names; Backspace goes to the parent. */
function onKey(event) {
  const links = [...part.children.querySelectorAll("li a")];
  const at = links.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
  if (at >= 0 && to !== undefined) {
    event.preventDefault();
    links[Math.min(Math.max(to, 0), links.length - 1)].focus();
  } else if (event.key === "Backspace" && event.target.tagName !== "INPUT" && shown.path !== "/") {
    location.hash = nodeHash(shown.path.slice(0, shown.path.lastIndexOf("/")) || "/");
  }
}

/* The node */

function raw(node) {
  if (node.data_base64 !== undefined) return Uint8Array.from(atob(node.data_base64), (c) => c.charCodeAt(0));
  return new TextEncoder().encode(node.data ?? "");
}

function hex(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, HEX_MAX); at += 16) {
    const part = [...data.slice(at, at + 16)];
    lines.push(`${at.toString(16).padStart(6, "0")}  ${part.map((b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(47)}  ${part.map((b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : ".")).join("")}`);
  }
  return lines.join("\n") + (data.length > HEX_MAX ? `\n… ${count(data.length - HEX_MAX)} more bytes` : "");
}

/** JSON with line breaks, its tokens as they were: numbers keep all digits. null: it is none, nests too deep or gets too long. */
function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const tokens = text.match(/"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},:]|[^\s[\]{},:"]+/g) || [];
  const lines = (depth) => `\n${"  ".repeat(depth)}`;
  const out = [];
  let depth = 0;
  let length = 0;
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i];
    let piece = token;
    if (token === "[" || token === "{") {
      if (++depth > JSON_DEPTH) return null;
      if (tokens[i + 1] !== "]" && tokens[i + 1] !== "}") piece += lines(depth);
    } else if (token === "]" || token === "}") {
      depth--;
      if (tokens[i - 1] !== "[" && tokens[i - 1] !== "{") piece = lines(depth) + token;
    } else if (token === ",") {
      piece += lines(depth);
    } else if (token === ":") {
      piece += " ";
    }
    length += piece.length;
    if (length > JSON_MAX) return null;
    out.push(piece);
  }
  return out.join("");
}

function data(node, chosen) {
  if (node.data === null) return h("p", { class: "hint" }, "No data (null).");
  if (node.bytes === 0) return h("p", { class: "hint" }, "Empty.");
  const json = node.data !== undefined && /^\s*[[{"]/.test(node.data) ? pretty(node.data) : null;
  const possible = { Text: node.data !== undefined, JSON: json !== null, Hex: true };
  const form = possible[chosen] ? chosen : json !== null ? "JSON" : possible.Text ? "Text" : "Hex";
  const text = form === "JSON" ? json : form === "Text" ? node.data : hex(raw(node));
  return [h("div", { class: "forms", role: "group", "aria-label": "Show the data as" }, FORMS.map((name) =>
    h("button", { type: "button", "data-key": `form ${name}`, "aria-pressed": String(name === form), disabled: !possible[name], onclick: () => { shown.form = name; render(); } }, name))),
  h("pre", { tabindex: "0", "aria-label": "Data" }, text),
  node.cut ? h("p", { class: "hint" }, `The first 64 KiB of ${bytes(node.bytes)}. conclave get prints all.`) : null];
}

function pairs(list) {
  return h("dl", {}, list.filter((pair) => pair).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** Of clients of this server, at this very node. */
function watches(counts) {
  const words = { data: "once, on the data", child: "once, on the children", persistent: "persistent", recursive: "recursive" };
  const list = Object.entries(counts).filter(([, number]) => number);
  return list.length ? list.map(([kind, number]) => `${count(number)} ${words[kind]}`).join("; ") : "none of this server's clients";
}

const UNKNOWN = {
  "before": "Not known: this server's records begin later.",
  "numbered": "Not recorded: it is not kept for the creation of nodes with a number.",
  "pushed out": `Not known any more: this server keeps the writers of the latest ${count(WRITERS_MAX)} nodes.`,
};

/** Who wrote the data last, or why this server does not know. */
function writer(w) {
  if (w.by === "unknown") return [UNKNOWN[w.why], h("small", { class: "who" }, "conclave history tells it from backups.")];
  if (w.by !== "client") return w.by === "server" ? "the server itself" : "the Apache ZooKeeper that this ensemble mirrors";
  const session = w.session ? ["session ", h("a", { href: sessionHash(w.session), "data-key": "writer" }, h("code", {}, w.session))] : "an operator, without a session";
  return [w.ids ? h("b", {}, w.ids) : null, w.ids && w.client ? " at " : null, w.client ? h("code", {}, w.client) : null, h("small", { class: "who" }, session)];
}

function stat(node) {
  const s = node.stat;
  const kinds = { persistent: "persistent", ephemeral: "ephemeral: ends with its session", container: "container: removed when empty", ttl: `lives for ${duration(s.ttl_ms)} after its last change` };
  return pairs([
    ["Kind", kinds[s.kind]],
    s.session ? ["Session", h("a", { href: sessionHash(s.session), "data-key": "session" }, h("code", {}, s.session))] : null,
    ["Created", [moment(s.ctime), " ", h("code", {}, s.czxid)]],
    ["Changed", [moment(s.mtime), " ", h("code", {}, s.mzxid)]],
    node.writer ? ["Last writer", writer(node.writer)] : null,
    ["Version", `data ${s.version}, children ${s.cversion}, ACL ${s.aversion}`],
    ["Last child change", h("code", {}, s.pzxid)],
    ["Watches here", watches(node.watches)],
    ["Below", `${many(s.children, "child", "children")}, ${count(s.below)} in all`],
  ]);
}

function acl(node) {
  if (!node.acl.length) return h("p", { class: "hint" }, "No list: everyone may do everything.");
  return h("ul", { class: "acl" }, node.acl.map((a) => h("li", {}, h("code", {}, `${a.scheme}:${a.id}`), " ", [...a.perms].map((p) => PERMS[p]).join(", ") || "nothing")));
}

/** "count=5,bytes=-1=;byteHardLimit=100" as words. */
function quota(q) {
  const words = { count: "nodes", bytes: "bytes", countHardLimit: "nodes at most", byteHardLimit: "bytes at most" };
  const read = (text) => Object.fromEntries(text.split(/[,;]/).map((item) => item.split("=")).filter((item) => item.length >= 2));
  const limits = Object.entries(read(q.limits)).filter(([, value]) => Number(value) >= 0);
  const used = read(q.counts);
  return [h("p", {}, "For the branch ", h("a", { href: nodeHash(q.path) }, q.path), ":"),
    pairs([...limits.map(([name, value]) => [`Limit: ${words[name] || name}`, count(Number(value))]),
      ["In use", `${count(Number(used.count || 0))} nodes, ${bytes(Number(used.bytes || 0))}`]])];
}

function details({ node, form }) {
  const name = node.path === "/" ? "/" : node.path.slice(node.path.lastIndexOf("/") + 1);
  const secret = h("p", { class: "hint" }, account().name ? `Not readable: its ACL gives READ to others, not to ${account().name}.` : "Not readable: its ACL gives READ only to clients that authenticate. Without signing in, the console shows what everyone may read.");
  return [h("h2", {}, name), node.readable ? [h("h3", {}, "Data ", h("small", {}, bytes(node.bytes))), data(node, form)] : secret,
    node.readable ? [h("h3", {}, "Stat"), stat(node), h("h3", {}, "Who may do what"), acl(node)] : null,
    node.quota ? [h("h3", {}, "Quota"), quota(node.quota)] : null];
}
