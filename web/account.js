// Who is signed in, and acts in that name. The browser keeps one secret as a cookie that no script sees; this page keeps the
// other one, for its tab only, and sends it with each act.
import { ask, h, headers } from "./dom.js";

const KEY = "X-Console-Key";
const LOOK_MS = 60000;

let me = { acts: false, name: null };
let listener = () => {};

/** {acts: whether this console takes acts, schemes: how to sign in, name: null or "digest:anna", operator, checked}. */
export function account() {
  return me;
}

/** Calls fn when somebody signs in or out. */
export function onAccount(fn) {
  listener = fn;
}

function become(next) {
  const changed = JSON.stringify(next) !== JSON.stringify(me);
  me = next;
  if (changed) listener();
}

function keep(key) {
  if (key) {
    headers[KEY] = key;
    sessionStorage.setItem(KEY, key);
  } else {
    delete headers[KEY];
    sessionStorage.removeItem(KEY);
  }
}

/** Asks the server who is signed in. */
export async function look() {
  try {
    become(await ask("me"));
    if (!me.name) keep(null);
  } catch {
    // The frame tells that the server does not answer.
  }
}

export function start() {
  keep(sessionStorage.getItem(KEY));
  setInterval(() => me.name && !document.hidden && look(), LOOK_MS);
  return look();
}

async function post(name, args, options) {
  let response;
  try {
    response = await fetch(`/console/${name}?${new URLSearchParams(args || {})}`, { method: "POST", ...options, headers: { ...headers, ...options?.headers } });
  } catch {
    throw new Error("This server does not answer. Look whether it was done before you do it again.");
  }
  if (response.ok) return response.json();
  const error = new Error((await response.text()).trim());
  error.status = response.status;
  throw error;
}

/** Scheme digest or sasl with user and password, or x509. Throws an Error with the server's reason. */
export async function signIn(scheme, user, password) {
  const credentials = btoa(String.fromCharCode(...new TextEncoder().encode(`${user}:${password}`)));
  const proof = scheme === "x509" ? {} : { headers: { Authorization: `Basic ${credentials}` } };
  const { key, ...who } = await post("sign-in", { scheme }, proof);
  keep(key);
  become({ acts: true, schemes: me.schemes, ...who });
}

export async function signOut() {
  try {
    await post("sign-out");
  } finally {
    keep(null);
    become({ acts: me.acts, schemes: me.schemes, name: null });
  }
}

/** Does something; data is a text. Throws an Error with the server's reason. */
export async function act(name, args, data) {
  try {
    return await post(`act/${name}`, args, data === undefined ? {} : { body: new TextEncoder().encode(data), headers: { "Content-Type": "application/octet-stream" } });
  } catch (error) {
    if (error.status === 401) look();
    throw error;
  }
}

/** A listener for "submit": runs `run` once at a time; its failure is shown in `problem`, then `failed` is called. */
export function submitting(button, problem, run, failed) {
  return async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    problem.hidden = true;
    try {
      await run(event);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      failed?.();
    }
    button.disabled = false;
  };
}

/** A form in `place` that does something on submit: {title, fields, verb, danger, run, done}. run returns a promise; its failure is shown. */
export function form(place, { title, fields, verb, danger, run, done }) {
  const back = document.activeElement?.dataset?.key;
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const button = h("button", { type: "submit", class: danger ? "danger" : null }, verb);
  const close = () => {
    place.replaceChildren();
    if (back) document.querySelector(`[data-key="${CSS.escape(back)}"]`)?.focus();
  };
  const onSubmit = submitting(button, problem, async (event) => {
    await run(new FormData(event.target));
    close();
    done?.();
  });
  const element = h("form", { class: "act", "aria-label": title, onsubmit: onSubmit, onkeydown: (event) => event.key === "Escape" && close() },
    h("h2", { tabindex: "-1" }, title), fields, problem,
    h("div", { class: "buttons" }, button, h("button", { type: "button", class: "plain", onclick: close }, "Cancel")));
  place.replaceChildren(element);
  (element.querySelector("input, textarea") ?? element.querySelector("h2")).focus();
  element.scrollIntoView({ block: "nearest" });
}
