// Editing, creating and deleting nodes, for who is signed in. The forms stay while the node is read again.
import { account, act, form } from "./account.js";
import { h, many, nodeHash, refresh } from "./dom.js";

const ACLS = [["parent", "the same as the node above"], ["read", "everyone reads, only I change it"], ["own", "only I read and change it"], ["open", "everyone may do everything"]];

const part = {};
let shown = { path: null, reload: null };

/** The part of the page; `reload` reads the node again. */
export function open(reload) {
  part.bar = h("div", { class: "buttons" });
  part.place = h("div", {});
  shown = { path: null, reload };
  return h("section", { class: "acts", "aria-label": "Change" }, part.bar, part.place);
}

/** The node that is shown now; null: there is none. */
export function show(node) {
  if (shown.path !== (node?.path ?? null)) part.place.replaceChildren();
  shown.path = node?.path ?? null;
  if (!account().name) part.place.replaceChildren();
  refresh(part.bar, { node: node && { ...node, children: 0 }, account: account() }, bar);
}

function bar({ node, account: me }) {
  if (!node || !me.name) return [];
  const why = unfit(node);
  const button = (key, words, fn, title) => h("button", { type: "button", class: "plain", "data-key": `act ${key}`, disabled: !!title, title, onclick: fn }, words);
  return [button("edit", "Edit data", () => edit(node), why), button("create", "Create below", () => create(node), node.stat?.kind === "ephemeral" ? "Ephemeral nodes have no children." : null),
    button("delete", "Delete", () => remove(node), node.path === "/" || !node.readable ? "This node cannot be deleted here." : null)];
}

/** Why the data cannot be edited here; null: they can. */
function unfit(node) {
  if (!node.readable) return "You may not read this node.";
  if (node.cut) return "The data are longer than the page shows: use conclave set.";
  if (node.data === undefined) return "The data are not text: use conclave set.";
  return /\r/.test(node.data ?? "") ? "The data have line ends that a browser would change: use conclave set." : null;
}

function edit(node) {
  const area = h("textarea", { name: "data", rows: "10", spellcheck: "false", "aria-label": `Data of ${node.path}` });
  area.value = node.data ?? "";
  form(part.place, {
    title: `Edit ${node.path}`,
    fields: [area, h("p", { class: "hint" }, `Based on version ${node.stat.version}. If somebody changes the node meanwhile, nothing is overwritten.`)],
    verb: "Save",
    run: () => act("set", { path: node.path, version: node.stat.version }, area.value),
    done: shown.reload,
  });
}

function create(node) {
  const name = h("input", { type: "text", name: "name", id: "act-name", required: true, spellcheck: "false", autocomplete: "off", autocapitalize: "off" });
  const area = h("textarea", { name: "data", id: "act-data", rows: "4", spellcheck: "false" });
  const acl = h("select", { name: "acl", id: "act-acl" }, ACLS.map(([value, words]) => h("option", { value }, words)));
  form(part.place, {
    title: `Create a node below ${node.path}`,
    fields: h("div", { class: "fields" }, h("label", { for: "act-name" }, "Name"), name, h("label", { for: "act-data" }, "Data"), area, h("label", { for: "act-acl" }, "Who may do what"), acl),
    verb: "Create",
    run: async () => {
      if (name.value.includes("/")) throw new Error("A name has no /: create the nodes one after the other.");
      await act("create", { path: `${node.path === "/" ? "" : node.path}/${name.value}`, acl: acl.value }, area.value);
    },
    done: shown.reload,
  });
}

function remove(node) {
  const parent = node.path.slice(0, node.path.lastIndexOf("/")) || "/";
  form(part.place, {
    title: `Delete ${node.path}?`,
    fields: [node.stat.children ? h("p", {}, `It has ${many(node.stat.children, "child", "children")}; a node with children is not deleted.`) : null,
      node.stat.kind === "ephemeral" ? h("p", {}, `It is ephemeral and belongs to the session ${node.stat.session}: the program that made it may depend on it.`) : null,
      h("p", {}, "Programs that watch or read it see at once that it is gone.")],
    verb: `Delete ${node.path}`,
    danger: true,
    run: () => act("delete", { path: node.path, version: node.stat.version }),
    done: () => { location.hash = nodeHash(parent); },
  });
}
