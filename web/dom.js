// Small helpers: elements, texts for numbers and times, requests.

/** An element. props: attributes; on...: listeners; class: its class. Children: nodes, texts, lists of them; null is nothing. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function svg(tag, props, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const seen = new WeakMap();

/** Builds the content of an element again, but only if `facts` differ from the last time: focus and selection stay. */
export function refresh(element, facts, build) {
  const text = JSON.stringify(facts);
  if (seen.get(element) === text) return false;
  seen.set(element, text);
  const focus = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  element.replaceChildren(...[build(facts)].flat(Infinity).filter((child) => child !== null && child !== undefined));
  if (focus) element.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
  return true;
}

/** 12345 → "12,345". */
export function count(number) {
  return number.toLocaleString("en-US");
}

/** "1 member", "3 members". */
export function many(number, word, plural = `${word}s`) {
  return `${count(number)} ${number === 1 ? word : plural}`;
}

export function bytes(number) {
  if (number < 1024) return many(number, "byte");
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let at = -1;
  do {
    number /= 1024;
    at++;
  } while (number >= 1024 && at < units.length - 1);
  return `${number < 10 ? number.toFixed(1) : Math.round(number)} ${units[at]}`;
}

/** Microseconds → "0.34 ms", "12 ms", "1.2 s". */
export function latency(us) {
  if (us < 10000) return `${(us / 1000).toFixed(2)} ms`;
  return us < 1000000 ? `${Math.round(us / 1000)} ms` : `${(us / 1000000).toFixed(1)} s`;
}

/** Milliseconds → "12 s", "3 min", "5 h", "2 days". */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const calendar = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });

/** The time of day, with the date unless it is today. */
export function moment(ms) {
  const date = new Date(ms);
  const today = date.toDateString() === new Date().toDateString();
  return today ? clock.format(date) : `${calendar.format(date)}, ${clock.format(date)}`;
}

/** Sent with every request: the key of who is signed in (account.js). */
export const headers = {};

/** The JSON of an address below /console; throws an Error with the server's reason. */
export function ask(name, args) {
  return askPort(`/console/${name}?${new URLSearchParams(args || {})}`);
}

/** The same of any address of this port. */
export async function askPort(address) {
  const response = await fetch(address, { headers });
  if (!response.ok) {
    const error = new Error((await response.text()).trim());
    error.status = response.status;
    throw error;
  }
  return response.json();
}

/** The address of one session. */
export function sessionHash(id) {
  return `#/sessions/${id}`;
}

/** The address of a recipe's own page. */
export function recipeHash(path) {
  return "#/recipes" + path.split("/").map(encodeURIComponent).join("/");
}

/** The address of a node in the tree view. */
export function nodeHash(path) {
  return "#/tree" + path.split("/").map(encodeURIComponent).join("/");
}

/** The address of a search by path. */
export function searchHash(text) {
  return `#/search/${encodeURIComponent(text)}`;
}
