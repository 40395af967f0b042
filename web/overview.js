// The first page: is all well, who leads, how fast is it.
import { account, act, form } from "./account.js";
import { chart, span } from "./charts.js";
import { askPort, bytes, count, duration, h, latency, many, moment, refresh } from "./dom.js";
import { newest } from "./line.js";
import { heldNow } from "./recipes.js";
import { endedTable } from "./sessions.js";

const LOST_MAX = 3;
const LOST_EVERY_MS = 5000;

const part = {};
const lost = { list: null, askedMs: 0 };

/** The empty page; update fills it. */
export function open() {
  for (const name of ["alarms", "cards", "holds", "handovers", "lost", "members", "acts", "charts"]) part[name] = h("section", { class: name });
  part.alarms.setAttribute("aria-live", "polite");
  part.alarms.setAttribute("aria-label", "Alarms");
  part.holds.classList.add("panel");
  part.holds.setAttribute("aria-label", "Elections and locks held now");
  part.handovers.classList.add("panel");
  part.handovers.setAttribute("aria-label", "Latest hand-overs");
  part.lost.classList.add("panel");
  part.lost.setAttribute("aria-label", "Lost sessions");
  lost.askedMs = 0;
  part.members.setAttribute("aria-label", "Members");
  part.charts.setAttribute("aria-label", "The last hour");
  return h("div", { class: "overview" }, h("h1", { class: "unseen" }, "Overview"), part.alarms, part.cards, part.holds, part.handovers, part.lost, part.members, part.acts, part.charts);
}

export function update(state) {
  const { overview, history } = state;
  if (!overview) return;
  const minute = Math.floor(Date.now() / 10000); // durations in words move on
  refresh(part.alarms, overview.alarms, alarms);
  refresh(part.cards, { ...overview, alarms: 0, held: 0, handovers: 0, minute }, cards);
  refresh(part.holds, { held: overview.held, minute }, ({ held }) => heldNow(held));
  refresh(part.handovers, { list: overview.handovers, minute }, ({ list }) => newest(list));
  refresh(part.lost, { list: lost.list, minute }, lostSessions);
  if (overview.server && Date.now() - lost.askedMs >= LOST_EVERY_MS) askLost(state);
  refresh(part.members, { members: overview.members, leader: overview.leader, id: overview.server?.id, who: account().name }, members);
  refresh(part.charts, { newest: history.samples.at(-1) ?? null, every: history.every_ms }, () => charts(history));
}

/** Who lost a session is asked for now and then: it is no part of the stream. */
async function askLost(state) {
  lost.askedMs = Date.now();
  try {
    const { recording, lost: list } = await askPort("/sessions/ended");
    lost.list = recording ? list.slice(0, LOST_MAX) : null;
    if (part.lost.isConnected) update(state);
  } catch {
    lost.list = null;
  }
}

function lostSessions({ list }) {
  if (!list?.length) return null;
  return [h("h2", {}, "Latest lost sessions"), endedTable(list), h("p", { class: "hint" }, h("a", { href: "#/sessions", "data-key": "all sessions" }, "All sessions"))];
}

function alarms(list) {
  if (!list.length) return h("p", { class: "calm" }, h("span", { class: "mark", "aria-hidden": "true" }, "✓"), "All is well.");
  return list.map((a) => h("div", { class: a.critical ? "alarm critical" : "alarm" },
    h("strong", {}, h("span", { class: "mark", "aria-hidden": "true" }, "!"), h("span", { class: "unseen" }, a.critical ? "Critical: " : "Warning: "), a.text),
    h("p", {}, a.advice)));
}

function card(title, value, more) {
  return h("div", { class: "card" }, h("h2", {}, title), h("p", { class: "value" }, value), h("p", { class: "more" }, more));
}

function leaderCard(o) {
  if (!o.leader) return o.members.length ? card("Leader", "none", "the ensemble elects one") : card("Leader", "–", "no leader is known");
  const since = `${o.leader.exact ? "since" : "at least since"} ${moment(o.leader.since_ms)}, ${duration(Date.now() - o.leader.since_ms)}`;
  const here = o.leader.id === o.server.id ? ", this one" : "";
  return o.members.length ? card("Leader", h("span", { "data-leader": o.leader.id }, `Server ${o.leader.id}${here}`), since)
    : card("Server", "Standalone", `runs ${since}`);
}

function cards(o) {
  const s = o.server;
  if (!s) return card("Server", "starting", "it reads its log");
  const up = o.members.filter((m) => m.up).length;
  const sample = o.sample;
  const full = s.data_bytes_max > 0 ? `, ${Math.round((100 * s.data_bytes) / s.data_bytes_max)} % of the limit` : "";
  return [
    leaderCard(o),
    o.members.length ? card("Members", `${up} of ${o.members.length} in reach`, `seen from server ${s.id}, ${s.mode}`) : null,
    card("Requests", sample ? `${count(sample[2] + sample[3])}/s` : "–", sample ? `${count(sample[2])} reads, ${count(sample[3])} writes here` : "first sample soon"),
    card("Latency", sample?.[5] ? latency(sample[5]) : "–", sample?.[5] ? `99 %; half within ${latency(sample[4])}` : "no requests in the last 5 s"),
    card("Disk", sample?.[6] ? latency(sample[6]) : "–", sample?.[6] ? "99 % of the log's syncs" : "no syncs in the last 5 s"),
    card("Sessions", count(s.sessions), `${many(s.connections, "connection")} here, ${many(s.watches, "watch", "watches")}`),
    card("Data", many(s.nodes, "node"), `${bytes(s.data_bytes)}${full}`),
    card("zxid", h("code", {}, s.zxid), `term ${s.term}; up ${duration(Date.now() - s.started_ms)}`),
  ];
}

function state(m) {
  if (m.leads) return h("span", { class: "pill lead" }, "leader");
  if (!m.up) return h("span", { class: "pill down" }, "not in reach");
  return h("span", { class: "pill" }, m.voter ? "follower" : "observer");
}

function transfer(m) {
  form(part.acts, {
    title: `Hand the lead over to server ${m.id}?`,
    fields: h("p", {}, "The leader stops taking writes for a moment, and this server takes over when it has the whole log. Clients stay connected."),
    verb: `Hand over to server ${m.id}`,
    run: () => act("transfer", { to: m.id }),
  });
}

function transferrer(m) {
  return m.voter && m.up && !m.leads ? h("button", { type: "button", class: "plain small", "data-key": `lead ${m.id}`, onclick: () => transfer(m) }, "Hand over to it…") : null;
}

function members({ members: list, id, who }) {
  if (!list.length) return null;
  const lagged = list.some((m) => m.lag !== null && !m.self);
  return [h("h2", {}, "Members"),
    h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Server"), h("th", { scope: "col" }, "State"), h("th", { scope: "col" }, "Behind"), h("th", { scope: "col" }, "For clients"))),
      h("tbody", {}, list.map((m) => h("tr", { class: m.up ? null : "off" },
        h("th", { scope: "row" }, `${m.id}`, m.id === id ? h("small", {}, " this server") : null),
        h("td", {}, state(m), " ", who && list.some((other) => other.leads) ? transferrer(m) : null),
        h("td", {}, m.lag === null ? "–" : m.lag === 0 ? "nothing" : many(m.lag, "entry", "entries")),
        h("td", {}, h("code", {}, m.client || "–")))))),
    lagged ? null : h("p", { class: "hint" }, "How far the others are behind is known to the leader: open its console.")];
}

function charts(history) {
  const list = history.samples;
  const end = list.length ? list.at(-1)[1] : Date.now();
  const pick = (place) => list.map((s) => [s[1], s[place]]);
  const rate = (value) => (value >= 10000 ? `${value / 1000}k` : count(Math.round(value)));
  const time = (us) => (us >= 1000000 ? `${us / 1000000} s` : us >= 1000 ? `${Math.round(us / 100) / 10} ms` : `${Math.round(us)} µs`);
  const range = { endMs: end, minutes: span(list.length ? list[0][1] : end, end), everyMs: history.every_ms };
  return [h("h2", {}, `The last ${range.minutes === 60 ? "hour" : `${range.minutes} minutes`} of this server`), h("div", { class: "figures" },
    chart("Requests per second", [{ name: "reads", class: "one", values: pick(2) }, { name: "writes", class: "two", values: pick(3) }], range, 10, rate),
    chart("Time until the answer", [{ name: "50 %", class: "one", values: pick(4) }, { name: "99 %", class: "two", values: pick(5) }], range, 1000, time),
    chart("Syncs of the log", [{ name: "99 %", class: "two", values: pick(6) }], range, 1000, time))];
}
