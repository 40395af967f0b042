// Signing in and out.
import { account, signIn, signOut, submitting } from "./account.js";
import { h, refresh } from "./dom.js";

const part = {};

export const title = "Sign in";

export function open() {
  part.body = h("section", { class: "panel signin", "aria-label": "Sign in" });
  update();
  return h("div", {}, h("h1", { class: "unseen" }, "Sign in"), part.body);
}

export function update() {
  if (refresh(part.body, account(), body) && part.body.isConnected) part.body.querySelector("input, a.button")?.focus();
}

function body(me) {
  if (!me.acts) return [h("h2", {}, "This console only reads"), h("p", {}, "Nobody can sign in. An operator can allow it: start the server with ", h("code", {}, "admin.console=on"), ".")];
  return me.name ? signedIn(me) : signInForm(me);
}

function signedIn(me) {
  return [h("h2", {}, "Signed in as ", h("code", {}, me.name)),
    h("p", {}, me.operator ? "You are an administrator: you may end sessions and hand the lead over. The ACLs decide what you may do to nodes."
      : "The ACLs decide what you may do to nodes. Ending sessions and handing the lead over is for administrators: the superuser, or an identity with all permissions in the ACL of /."),
    me.checked ? null : h("p", { class: "notice" }, "This server has no list of users, so it could not check your password. With a wrong one you are another identity, which the ACLs do not know: if you are refused what you should be able to do, sign out and in again."),
    h("p", { class: "hint" }, "The sign-in ends after 15 minutes without an action, after 8 hours in any case, and with this tab. Every action is written to the audit log, if the server keeps one."),
    h("div", { class: "buttons" }, h("a", { class: "button", href: "#/tree/" }, "Go to the tree"),
      h("button", { type: "button", class: "plain", onclick: () => signOut().catch(() => {}) }, "Sign out"))];
}

function isBare() {
  return location.protocol !== "https:" && !/^(localhost|127\..*|\[::1\])$/.test(location.hostname);
}

const SCHEMES = {
  digest: "digest: user and password, as programs get it by addauth",
  sasl: "sasl: a user of this server's SASL users",
  x509: "x509: the certificate of this browser",
};

function signInForm({ schemes = [] }) {
  const problem = h("p", { class: "problem", role: "alert", id: "problem", hidden: true });
  const user = h("input", { type: "text", name: "user", id: "user", autocomplete: "username", autocapitalize: "off", spellcheck: "false", required: true });
  const password = h("input", { type: "password", name: "password", id: "password", autocomplete: "current-password", required: true });
  const button = h("button", { type: "submit" }, "Sign in");
  const fields = h("fieldset", { class: "fields" }, h("label", { for: "user" }, "User"), user, h("label", { for: "password" }, "Password"), password);
  const scheme = h("select", { name: "scheme", id: "scheme", onchange: () => (fields.hidden = fields.disabled = scheme.value === "x509") },
    schemes.map((name) => h("option", { value: name }, SCHEMES[name])));
  const onSubmit = submitting(button, problem, () => signIn(scheme.value, user.value, password.value), () => {
    password.value = "";
    if (!fields.hidden) password.focus();
  });
  scheme.dispatchEvent(new Event("change"));
  if (!schemes.length) return [h("h2", {}, "Nobody can sign in now"), h("p", {}, "This server takes no user and password and saw no certificate of your browser, or it does not serve clients now.")];
  return [h("h2", {}, "Sign in"),
    isBare() ? h("p", { class: "notice warn" }, "This page did not come over TLS: others in the network can read your password. Use https, or forward the port: ssh -L 8080:127.0.0.1:8080 HOST.") : null,
    h("form", { class: "fields", onsubmit: onSubmit },
      schemes.length > 1 ? [h("label", { for: "scheme" }, "Identity"), scheme] : null,
      fields, problem, h("div", { class: "buttons" }, button)),
    h("p", { class: "hint" }, "The identity is the one that programs have, so the same ACLs apply. Without signing in, the console only reads what everyone may read.")];
}
