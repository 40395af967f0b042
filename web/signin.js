// Signing in and out.
import { account, signIn, signOut } from "./account.js";
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
  return me.name ? signedIn(me) : signInForm();
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

function signInForm() {
  const problem = h("p", { class: "problem", role: "alert", id: "problem", hidden: true });
  const user = h("input", { type: "text", name: "user", id: "user", autocomplete: "username", autocapitalize: "off", spellcheck: "false", required: true });
  const password = h("input", { type: "password", name: "password", id: "password", autocomplete: "current-password", required: true });
  const button = h("button", { type: "submit" }, "Sign in");
  const onSubmit = async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    problem.hidden = true;
    try {
      await signIn(user.value, password.value);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      password.value = "";
      password.focus();
    }
    button.disabled = false;
  };
  return [h("h2", {}, "Sign in"),
    isBare() ? h("p", { class: "notice warn" }, "This page did not come over TLS: others in the network can read your password. Use https, or forward the port: ssh -L 8080:127.0.0.1:8080 HOST.") : null,
    h("form", { class: "fields", onsubmit: onSubmit },
      h("label", { for: "user" }, "User"), user, h("label", { for: "password" }, "Password"), password, problem, h("div", { class: "buttons" }, button)),
    h("p", { class: "hint" }, "An identity of the scheme digest, as programs get it by addauth. Without signing in, the console only reads what everyone may read.")];
}
