// Slow requests: where the time of each was spent.
import { askPort, count, duration, h, latency, many, moment, nodeHash, refresh, sessionHash, svg } from "./dom.js";

const EVERY_MS = 3000;
const WIDTH = 240;
const PARTS = {
  queue: "in the queue", forward: "on the way through the leader into the log", disk: "until the disk had it", quorum: "until a quorum confirmed",
  apply: "applying or reading", send: "until the client took the answer",
};
const part = {};
let timer = 0;

export function open() {
  part.list = h("section", { class: "panel", "aria-label": "Slow requests" });
  load();
  return h("div", { class: "slow" }, h("h1", { class: "unseen" }, "Slow requests"), part.list);
}

async function load() {
  const { list } = part;
  clearTimeout(timer);
  try {
    if (!document.hidden) refresh(list, { answer: await askPort("/slow"), minute: Math.floor(Date.now() / 10000) }, page);
  } catch (error) {
    if (error.status) refresh(list, error.message, () => h("p", { class: "hint" }, error.message));
  }
  if (list.isConnected) timer = setTimeout(load, EVERY_MS);
}

/** The parts of a request side by side, as long as they took. */
function bar(request) {
  let at = 0;
  const rects = Object.keys(PARTS).map((name) => {
    const width = request.ms > 0 ? (request.parts_ms[name] / request.ms) * WIDTH : 0;
    const rect = width >= 0.5 ? svg("rect", { class: `part-${name}`, x: at, y: 0, width, height: 10 }) : null;
    at += width;
    return rect;
  });
  return svg("svg", { class: "bar", viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none", "aria-hidden": "true" }, rects);
}

function parts(request) {
  const time = (name) => latency(request.parts_ms[name] * 1000);
  const names = Object.keys(PARTS).filter((name) => name === request.slowest || request.parts_ms[name] >= request.ms / 100);
  return [bar(request), h("small", { class: "who" }, names.map((name, i) => [i ? ", " : "", name === request.slowest ? h("b", {}, `${name} ${time(name)}`) : `${name} ${time(name)}`]))];
}

function row(request) {
  const more = request.count > 1 ? `with ${many(request.count - 1, "other")}` : null;
  return h("tr", {},
    h("th", { scope: "row" }, request.operation, request.path ? h("small", { class: "who" }, request.path_cut ? h("code", {}, `${request.path}…`) : h("a", { href: nodeHash(request.path), "data-key": `node ${request.session} ${request.xid} ${request.at_ms}` }, h("code", {}, request.path))) : null),
    h("td", { "data-label": "When" }, moment(request.at_ms), h("small", { class: "who" }, `${duration(Date.now() - request.at_ms)} ago`)),
    h("td", { "data-label": "Took" }, h("b", {}, latency(request.ms * 1000)), more ? h("small", { class: "who" }, more) : null),
    h("td", { "data-label": "Where" }, h("div", {}, parts(request))),
    h("td", { "data-label": "Client" }, request.client ? h("code", {}, request.client) : "it is gone", h("small", { class: "who" }, "session ", h("a", { href: sessionHash(request.session), "data-key": `session ${request.xid} ${request.at_ms}` }, request.session))));
}

function page({ answer }) {
  const title = h("h2", {}, "Slow requests ", h("small", {}, `${count(answer.total)} since this server started`));
  if (!answer.threshold_ms) return [title, h("p", { class: "hint" }, "The slow log is off (slowlog.threshold=0).")];
  const limit = h("p", { class: "hint" }, `Requests to this server that took ${latency(answer.threshold_ms * 1000)} or longer (slowlog.threshold).`);
  if (!answer.requests.length) return [title, h("p", { class: "hint" }, `No request to this server took ${latency(answer.threshold_ms * 1000)} or longer (slowlog.threshold).`)];
  return [title,
    h("table", { class: "held" }, h("thead", {}, h("tr", {}, ["Request", "When", "Took", "Where", "Client"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, answer.requests.map(row))),
    limit, h("dl", { class: "legend" }, Object.entries(PARTS).map(([name, words]) => h("div", {}, h("dt", { class: `key part-${name}` }, name), h("dd", {}, words))))];
}
