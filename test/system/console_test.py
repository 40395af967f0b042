"""The web console in Debian's Chromium: what the pages show of living servers, by keyboard, in a phone's width, and how soon.

Promise: one browser for all cases; each case says what it saw; without Chromium the suite is skipped. An error in the
browser's console fails the case in which it happens. `--pictures FOLDER` also writes the pictures of docs/console.md.
Limits: the endpoints alone are in test/unit/admin.

usage: console_test.py [--pictures FOLDER] [CASE]...
"""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import browser  # noqa: E402
import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from ensemble import Ensemble, mode_of  # noqa: E402

CASES = []
PICTURES = None
MANY = 200000
NODE_EXISTS = -110
SHOWN_S = 30  # a new leader, also on a busy machine
PHONE = {"width": 390, "height": 844, "scale": 2}
OTHERS_ONLY = [(31, "digest", "u:hash")]


def digest(user_password):
    """The id of a user and password."""
    return user_password.split(":")[0] + ":" + base64.b64encode(hashlib.sha1(user_password.encode()).digest()).decode()


ACTING = ["--admin.console", "on", "--DigestAuthenticationProvider.superDigest", digest("super:secret")]
ANNA = "anna:grün und gut"
ANNAS = [(31, "digest", digest(ANNA)), (1, "world", "anyone")]


def case(function):
    CASES.append(function)
    return function


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


class World:
    """What the cases share: the browser, and servers that are started when they are needed."""
    page = None
    stack = contextlib.ExitStack()
    started = None

    @classmethod
    def ensemble(cls):
        """Three servers, all alive."""
        if cls.started is None:
            cls.started = cls.stack.enter_context(Ensemble(3, admin=True, tick_ms=1000))
        for member in cls.started.members:
            if not member.alive():
                member.start()
        cls.started.wait_leader()
        return cls.started


def url(server, view=""):
    return f"http://127.0.0.1:{server.admin_port}/console{view}"


def open_page(server, view="", **look):
    page = World.page
    page.look(**look)
    page.open("about:blank")
    page.wait("location.href == 'about:blank'")
    page.errors.clear()
    page.open(url(server, view))
    page.wait("document.querySelector('#link')?.dataset.kind == 'live'")
    return page


def no_errors():
    expect(not World.page.errors, f"errors in the browser: {World.page.errors}")


def get(server, path, headers=None, method="GET"):
    link = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=30)
    link.request(method, path, headers=headers or {})
    answer = link.getresponse()
    body = answer.read()
    link.close()
    return answer.status, answer.headers, body


def create(client, path, data=b"", **more):
    err = client.call(zk.create(path, data, **more))[0]
    expect(err in (0, NODE_EXISTS), f"create {path}: {err}")


def picture(name, **look):
    """A picture for docs/console.md of what the page shows now."""
    if PICTURES:
        World.page.look(**{"width": 1080, "height": 720, **look})
        time.sleep(1)  # for the eye, no test waits for it
        World.page.screenshot(os.path.join(PICTURES, name))
        World.page.look()


CONTRAST = """(() => {
  const rgb = (text) => { const c = text.match(/[\\d.]+/g).map(Number); return {c: c.slice(0, 3), a: c.length > 3 ? c[3] : 1}; };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const g = rgb(getComputedStyle(e).backgroundColor); if (g.a > .9) return g.c; } return [255, 255, 255]; };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.data.trim() || e.closest('noscript, .unseen, .skip, button:disabled')) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(rgb(e.closest('svg') ? style.fill : style.color).c), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${node.data.trim()}`);
  }
  return bad;
})()"""


def check_look(view):
    """The contrast of every text is 4.5 or more, and nothing is wider than the window."""
    bad = World.page.eval(CONTRAST)
    expect(not bad, f"too little contrast in {view}: {bad}")
    wide = World.page.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    expect(wide <= 0, f"{view} is {wide} pixels wider than its window")


@case
def files_and_rules():
    """What every answer carries, and who gets none."""
    with Conclave(admin=True) as server:
        status, headers, body = get(server, "/console")
        expect(status == 200 and b"<script type=\"module\"" in body, f"{status}")
        policy = headers["Content-Security-Policy"]
        for rule in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self'",
                     "frame-ancestors 'none'", "base-uri 'none'"):
            expect(rule in policy.split("; "), f"{rule} is not in {policy}")
        expect(headers["X-Content-Type-Options"] == "nosniff", str(headers))
        expect(get(server, "/console", {"If-None-Match": headers["ETag"]})[0] == 304, "the ETag")
        expect(get(server, "/console", {"If-None-Match": '"other"'})[0] == 200, "another ETag")
        expect(b'href="/console"' in get(server, "/")[2], "a link from /")
        expect(get(server, "/console/console.js")[1]["Content-Type"].startswith("text/javascript"), "the type")
        expect(get(server, "/console/../etc")[0] == 404 and get(server, "/consolefoo")[0] == 404, "there is nothing else")
        for method in ("POST", "PUT", "DELETE"):
            expect(get(server, "/console", method=method)[0] == 405, method)
        for forged in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            for path in ("/console", "/console/overview", "/console/events"):
                expect(get(server, path, forged)[0] == 403, f"{path} {forged}")
        for args, wanted in (("path=/", 200), ("path=/none", 404), ("path=x", 400), ("path=/&count=0", 400), ("", 400)):
            status, headers, body = get(server, f"/console/node?{args}")
            expect(status == wanted and "default-src 'none'" in headers["Content-Security-Policy"], f"{args}: {status} {body}")
    with Conclave(["--admin.console", "off"], admin=True) as server:
        expect(get(server, "/console")[0] == 404 and get(server, "/console/overview")[0] == 404, "off")
        expect(b"/console" not in get(server, "/")[2], "no link to what is off")
    with Conclave(["--enforce.auth.enabled", "yes", "--enforce.auth.schemes", "digest"], admin=True) as server:
        status, _, body = get(server, "/console/node?path=/")
        expect(status == 403 and b"enforce.auth.enabled" in body, f"nodes without authentication: {status} {body}")
        expect(get(server, "/console/overview")[0] == 200, "the rest is shown")
    said = subprocess.run([program(), "server", "--admin.console", "maybe"], capture_output=True, text=True, timeout=60)
    expect(said.returncode == 64 and "'maybe' is not off, read or on" in said.stderr, said.stderr)


@case
def streams_of_events():
    """So many per address, not more; the rest of the port goes on; the places come back."""
    def stream():
        link = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=30)
        link.request("GET", "/console/events")
        return link, link.getresponse()
    with Conclave(admin=True) as server:
        streams = [stream() for _ in range(8)]
        for _, answer in streams:
            expect(answer.status == 200 and answer.headers["Content-Type"] == "text/event-stream", str(answer.status))
            expect(answer.fp.readline().startswith(b"data: {"), "the first event")
        expect(stream()[1].status == 503, "one too many")
        expect(get(server, "/livez")[0] == 200, "others are answered")
        for link, answer in streams:
            answer.close()
            link.close()
        deadline = time.monotonic() + 60
        while (last := stream())[1].status != 200:
            expect(time.monotonic() < deadline, "the places of closed streams stay taken")
            time.sleep(0.2)
        with zk.Connection(server.address) as client:
            create(client, "/changed")
            while b'"sessions":1' not in last[1].fp.readline():
                pass


def kill_leader(ensemble):
    """kill -9 of the leader under the eyes of a follower's page: after how many seconds it shows the new one."""
    leader, follower = ensemble.leader(), ensemble.followers()[0]
    page = open_page(follower)
    page.wait(f"document.querySelector('[data-leader]')?.dataset.leader == '{leader.number}'")
    page.wait_text("3 of 3 in reach")
    # The page notes when it first shows another leader; the members say when they have one.
    page.eval("""void (window.noted = 0, new MutationObserver(() => {
        const shown = document.querySelector('[data-leader]')?.dataset.leader;
        if (shown && shown !== '%d' && !window.noted) window.noted = Date.now();
    }).observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true}))""" % leader.number)
    leader.kill()
    deadline = time.monotonic() + 60
    while not any(member.alive() and mode_of(member) == "leader" for member in ensemble.members):
        expect(time.monotonic() < deadline, "no new leader")
        time.sleep(0.01)
    elected = time.time()
    page.wait("window.noted > 0")
    page.wait_text(f"Member {leader.number} is not in reach.")
    page.wait_text("one more failure stops all writes")
    took = page.eval("window.noted") / 1000 - elected
    picture("console-alarm.png")
    leader.start()
    page.wait_text("3 of 3 in reach")
    page.wait("!document.body.innerText.includes('is not in reach')")
    no_errors()
    return took


@case
def a_change_of_leader():
    """The page shows a new leader by itself, at once on a quiet machine; how soon is said, not judged: a busy one is slow."""
    took = kill_leader(World.ensemble())
    expect(took <= SHOWN_S, f"shown after {took} s")
    return f"shown {took:.2f} s after the first answer of a new leader"


@case
def a_server_that_goes():
    """The page says that its server is gone, and goes on when it is back."""
    ensemble = World.ensemble()
    member = ensemble.followers()[0]
    page = open_page(member)
    member.kill()
    page.wait_text("This server does not answer")
    member.start()
    page.wait("document.querySelector('#link').dataset.kind == 'live'")
    page.wait_text(f"Live from server {member.number}")
    page.errors.clear()  # refused connections were to be expected


class Holders:
    """`with Holders(server) as holders:` commands that hold or wait until they are ended."""

    def __init__(self, server):
        self.server = server
        self.processes = {}

    def start(self, name, *words):
        self.processes[name] = subprocess.Popen([program(), *words, "--server", self.server.host], stdin=subprocess.PIPE,
                                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self, name):
        process = self.processes.pop(name)
        process.terminate()
        process.stdin.close()
        process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
        for name in list(self.processes):
            self.end(name)


def recipes(server):
    """What /console/recipes lists: {path: recipe}."""
    return {recipe["path"]: recipe for recipe in json.loads(get(server, "/console/recipes")[2])["list"]}


def until(check, what):
    """Waits until check() is true; returns it."""
    deadline = time.monotonic() + browser.WAIT_S
    while not (value := check()):
        expect(time.monotonic() < deadline, f"not in {browser.WAIT_S} s: {what}")
        time.sleep(0.1)
    return value


def labels(recipe, part="holders"):
    return [place["label"] for place in recipe[part]]


@case
def recipes_of_the_commands():
    """What the commands make is recognised, with holder, line and token; the first page follows a hand-over."""
    server = World.ensemble().members[0]
    with Holders(server) as holders:
        holders.start("a", "elect", "/app/leader", "--id", "host-a")
        until(lambda: "host-a" in labels(recipes(server).get("/app/leader", {"holders": []})), "host-a leads")
        holders.start("b", "elect", "/app/leader", "--id", "host-b")
        holders.start("lock", "lock", "/app/nightly", "--id", "worker-7")
        holders.start("read", "lock", "/app/index", "--read", "--id", "reader-1")
        holders.start("sem", "semaphore", "/app/slots", "-n", "2", "--id", "job-1")
        holders.start("group", "group", "join", "/app/web", "--id", "web-1")
        holders.start("barrier", "barrier", "enter", "/app/start", "--count", "2", "--id", "step-1")
        for item in ("first", "second", "third"):
            subprocess.run([program(), "queue", "put", "/app/mails", item, "--server", server.host], check=True, timeout=60,
                           stdout=subprocess.DEVNULL)
        kinds = {"/app/leader": "election", "/app/nightly": "lock", "/app/index": "lock", "/app/slots": "semaphore",
                 "/app/web": "group", "/app/start/round": "barrier", "/app/mails": "queue"}
        found = until(lambda: (now := recipes(server)).keys() >= kinds.keys() and now["/app/leader"]["waiting"] == 1 and now,
                      f"all of {kinds}")
        for path, kind in kinds.items():
            expect((found[path]["kind"], found[path]["library"]) == (kind, "Conclave"), f"{path}: {found[path]}")
        expect(labels(found["/app/leader"], "line") == ["host-b"], str(found["/app/leader"]))
        expect(labels(found["/app/slots"]) == ["job-1"] and found["/app/slots"]["permits"] == 2, str(found["/app/slots"]))
        expect(found["/app/mails"]["waiting"] == 3 and found["/app/index"]["holders"][0]["shared"], str(found))
        expect(not any(path.endswith(".leader") for path in found), f"parts of others are hidden: {list(found)}")
        page = open_page(server)
        for text in ("/app/leader", "host-a", "1 waiter", "host-b", str(found["/app/leader"]["holders"][0]["token"]), "worker-7"):
            page.wait_text(text)
        picture("console-overview.png")
        holders.end("a")
        page.wait("[...document.querySelectorAll('.holds tr')].some((row) => row.innerText.includes('/app/leader') && "
                  "row.querySelector('td').innerText.includes('host-b'))")
        page.eval("location.hash = '#/recipes'")
        for text in ("Elections 1", "Locks 2", "Semaphores 1", "Queues 1", "Barriers 1", "Groups 1", "closed: 1 of 2 wait", "web-1"):
            page.wait_text(text)
        picture("console-recipes.png")
        for dark in (False, True):
            for size in ({}, PHONE):
                page.look(dark=dark, **size)
                check_look("recipes")
        subprocess.run([program(), "queue", "put", "/app/later", "item", "--server", server.host], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        page.wait_text("/app/later")  # by itself
        no_errors()


@case
def recipes_of_kazoo():
    """What kazoo makes is recognised as well."""
    try:
        import kazoo.client
    except ImportError:
        raise cases.Skip("no kazoo: apt-get install python3-kazoo") from None
    server = World.ensemble().members[0]
    client = kazoo.client.KazooClient(hosts=server.host, timeout=60)
    client.start(timeout=60)
    try:
        client.Lock("/kazoo/lock", "holder").acquire()
        client.ReadLock("/kazoo/rw", "reader").acquire()
        client.Semaphore("/kazoo/semaphore", "permit", max_leases=3).acquire()
        client.Party("/kazoo/party", "guest").join()
        client.Queue("/kazoo/queue").put(b"item")
        client.LockingQueue("/kazoo/locking").put(b"entry")
        found = recipes(server)
        wanted = {"/kazoo/lock": ("lock", "kazoo", ["holder"]), "/kazoo/rw": ("lock", "kazoo", ["reader"]),
                  "/kazoo/semaphore": ("semaphore", "kazoo", ["permit"]), "/kazoo/party": ("group", "", ["guest"]),
                  "/kazoo/queue": ("queue", "kazoo", []), "/kazoo/locking": ("queue", "kazoo", [])}
        for path, (kind, library, holders) in wanted.items():
            recipe = found.get(path)
            expect(recipe and (recipe["kind"], recipe["library"], labels(recipe)) == (kind, library, holders), f"{path}: {recipe}")
        extra = [path for path in found if path.startswith("/kazoo/") and path not in wanted]
        expect(not extra, f"these are parts of others: {extra}")
    finally:
        client.stop()
        client.close()


def line(server, path):
    """What /console/line says about one recipe."""
    return json.loads(get(server, "/console/line?" + urllib.parse.urlencode({"path": path}))[2])


@case
def hand_overs():
    """One election changes hands in three ways: the page of the recipe and the first page say who held it, until when and why
    that ended; how long the holder's session lasts without a sign of life counts down; a member that restarts knows it, too."""
    ensemble = World.ensemble()
    server = ensemble.leader()  # it knows the sessions of all servers
    path = "/hands/leader"

    def leads(name):
        until(lambda: name in labels((line(server, path)["recipe"] or {"holders": []})), f"{name} leads")

    with Holders(server) as holders:
        for name in ("host-a", "host-b", "host-c", "host-d"):
            holders.start(name, "elect", path, "--id", name, "--session", "10s")
            if name == "host-a":
                leads(name)
            else:
                until(lambda: name in labels(line(server, path)["recipe"], "line"), f"{name} waits")
        seen = line(server, path)
        place = seen["recipe"]["holders"][0]
        expect(seen["history"] == [] and place["from_ms"] == place["since_ms"], f"the first holder: {seen}")
        expect(0 <= place["heard_ms"] and 0 < place["left_ms"] <= place["timeout_ms"] + 2000, f"its session: {place}")
        page = open_page(server, "#/recipes" + path)
        for text in ("host-a", "holds", "ends in", "heard", "1 in the line", "host-d", "No hand-over is known"):
            page.wait_text(text)
        holders.processes["host-a"].kill()
        page.wait_text("Then")
        page.wait_text("The client")  # the verdict about its session
        leads("host-b")
        holders.end("host-b")
        page.wait("document.querySelector('[aria-label=\"Hand-overs\"]').innerText.includes('host-b')")
        leads("host-c")
        node = line(server, path)["recipe"]["holders"][0]["node"]
        with zk.Connection(server.address) as client:
            expect(client.call(zk.delete(f"{path}/{node}"))[0] == 0, "delete the node of the leader")
            deleter = "%s:%d" % client.socket.getsockname()
        page.wait_text(f"Its node was deleted by the client {deleter}.")
        leads("host-d")
        past = line(server, path)["history"]
        expect([(r["label"], r["next"]) for r in past[:3]] == [("host-c", "host-d"), ("host-b", "host-c"), ("host-a", "host-b")], str(past))
        expect([r["cause"] for r in past[:3]][::2] == ["deleted", "expired"] and past[1]["cause"] in ("released", "closed"), str(past))
        expect(past[2]["words"] and past[2]["client"], f"why the session ended: {past[2]}")
        expect(past[1]["from_ms"] == past[2]["until_ms"] and past[1]["until_ms"] == past[0]["from_ms"], f"no time between: {past}")
        check_look("hand-overs")
        picture("console-line.png")
        page.look(**PHONE)
        check_look("hand-overs")
        page.look()
        page.eval("location.hash = '#/'")
        page.wait_text("Latest hand-overs")
        page.wait("[...document.querySelectorAll('.handovers tr')].some((row) => ['host-c', 'deleted', 'host-d'].every((text) => row.innerText.includes(text)))")
        other = ensemble.followers()[0]
        causes = [r["cause"] for r in past]
        until(lambda: [r["cause"] for r in line(other, path)["history"]] == causes, "another member tells the same")
        other.kill()
        other.start()
        until(lambda: get(other, "/readyz")[0] == 200, "it is back")
        until(lambda: [r["cause"] for r in line(other, path)["history"]] == causes, "it tells the same after a restart")
        no_errors()
    expect(get(server, "/console/line?path=x")[0] == 400 and line(server, "/none")["recipe"] is None, "what is no recipe")
    with zk.Connection(server.address) as client:
        create(client, "/hidden-hands", acl=OTHERS_ONLY)
    expect(line(server, "/hidden-hands") == {**line(server, "/none")}, "what cannot be read does not exist")


@case
def the_tree():
    """Data as text, JSON and hex; what is hidden; what is not there."""
    server = World.ensemble().members[0]
    with zk.Connection(server.address, 20000) as client:
        create(client, "/app")
        create(client, "/app/config", b'{"limit": 10, "hosts": ["a.example", "b.example"]}')
        create(client, "/app/mine", flags=zk.EPHEMERAL)
        client.call(zk.get_data("/app/config", watch=True))
        client.call(zk.add_watch("/app/config", 1))
        create(client, "/app/secret", b"treasure", acl=OTHERS_ONLY)
        create(client, "/app/a b?#%", "Grüße".encode())
        page = open_page(server, "#/tree/app")
        page.wait_text("config")
        page.eval("document.querySelector('[data-key=\"name config\"]').click()")
        page.wait("document.querySelector('pre')?.innerText.includes('\\n  \"limit\": 10,')")
        page.wait_text("world:anyone")
        page.wait_text("1 once, on the data; 1 recursive")
        picture("console-tree.png")
        page.eval("document.querySelector('[data-key=\"form Hex\"]').focus()")
        page.press("Enter")
        page.wait_text("000000  7b 22 6c 69 6d 69 74")
        expect(page.eval("document.activeElement.dataset.key") == "form Hex", "the focus stays on the button")
        page.eval("location.hash = '#/tree/app/secret'")
        page.wait_text("Not readable")
        expect("treasure" not in page.text(), "hidden data")
        page.eval("location.hash = '#/tree/app'")
        page.wait_text("a b?#%")
        page.eval("document.querySelector('[data-key=\"name a b?#%\"]').click()")
        page.wait_text("Grüße")
        create(client, "/app/a b?#%/new")
        page.wait_text("new")  # by itself
        page.eval("location.hash = '#/tree/app/mine'")
        page.wait("!!document.querySelector('[data-key=session]')")  # of this node, not of the one before
        page.wait_text("none of this server's clients")
        page.eval("document.querySelector('[data-key=session]').click()")
        page.wait(f"document.querySelector('[name=find]')?.value == '{hex(client.session_id)}'")
        page.wait_text("%s:%d" % client.socket.getsockname())
        page.eval("document.querySelector('[name=find]').value = ''")
        page.eval("document.querySelector('.goto').requestSubmit()")
        page.wait("!location.hash.includes('0x') || document.querySelector('[name=find]').value == ''")
        page.errors.clear()
        page.eval("location.hash = '#/tree/none'")
        page.wait_text("There is no node /none.")
        expect(all("404" in error for error in page.errors), str(page.errors))


@case
def the_sessions():
    """The clients of this server and of another one, found by id."""
    ensemble = World.ensemble()
    server, other = ensemble.members[:2]
    with zk.Connection(server.address) as here, zk.Connection(other.address) as there:
        create(here, "/session-ephemeral", flags=zk.EPHEMERAL)
        page = open_page(server, "#/sessions")
        address = "%s:%d" % here.socket.getsockname()
        page.wait_text(address)
        page.wait_text("at server 2")
        if server is not ensemble.leader():  # another server's client: only that one and the leader know when it was heard
            row = next(row for row in json.loads(get(server, "/console/sessions")[2])["list"] if row["id"] == hex(there.session_id))
            expect(row["idle_ms"] is None and row["left_ms"] is None, str(row))
        page.wait_text("of 10 s")
        picture("console-sessions.png")
        check_look("sessions")
        page.look(**PHONE)
        check_look("sessions")
        page.look()
        page.eval("document.querySelector('[name=find]').focus()")
        page.type(hex(there.session_id))
        page.press("Enter")
        page.wait("document.querySelectorAll('.sessions tbody tr').length == 1")
        page.wait_text(hex(there.session_id))
        expect(address not in page.text(), "the others are not shown")
        no_errors()


@case
def ended_sessions():
    """A session that was lost, with the verdict in words, and one that its client closed."""
    server = World.ensemble().members[0]
    left, closed = zk.Connection(server.address, 4000), zk.Connection(server.address)
    left.drop()  # at once: on a busy machine it would be silent for too long otherwise
    closed.close_session()
    closed.drop()
    page = open_page(server, "#/sessions")
    page.wait_text("Ended sessions")
    found = "[...document.querySelectorAll('[aria-label=\"Ended sessions\"] %s tr')].some((row) => row.textContent.includes('%s') && row.textContent.includes('%s'))"
    page.wait(found % ("details", hex(closed.session_id), "closed"))
    page.wait(found % ("", hex(left.session_id), "client left"))
    page.wait_text("it exited, crashed or was killed")
    page.eval("document.querySelector('summary').focus()")
    page.press("Enter")
    page.wait_text(hex(closed.session_id))
    page.eval("document.activeElement.blur()")
    picture("console-ended.png")
    for look in ({}, {"dark": True}, PHONE):
        page.look(**look)
        check_look(f"ended sessions {look}")
    page.look()
    page.eval("document.querySelector('[name=find]').focus()")
    page.type(hex(left.session_id))
    page.press("Enter")
    page.wait(f"!document.querySelector('[aria-label=\"Ended sessions\"]').textContent.includes('{hex(closed.session_id)}')")
    page.wait_text(hex(left.session_id))
    no_errors()
    page.eval("document.querySelector('[name=find]').value = ''")
    page.eval("document.querySelector('.goto').requestSubmit()")
    with Conclave(["--maxEndedSessions", "0"], admin=True) as server:
        open_page(server, "#/sessions").wait_text("maxEndedSessions=0")


@case
def slow_requests():
    """A slow request with the parts of its time, its path and its client."""
    with Conclave(["--slowlog.threshold", "1"], admin=True) as server, zk.Connection(server.address, 40000) as client:
        page = open_page(server, "#/slow")
        page.wait_text("1.00 ms or longer")
        create(client, "/batch")
        for turn in range(3):
            part = [zk.create(f"/batch/{turn}-{number}") for number in range(2000)]
            expect(client.call(zk.multi(part))[0] == 0, "a large transaction")
        row = until(lambda: next((row for row in json.loads(get(server, "/slow")[2])["requests"] if row["operation"] == "multi"), None), "it is slow")
        for text in ("multi", "%s:%d" % client.socket.getsockname(), row["session"], "until a quorum confirmed"):
            page.wait_text(text)
        page.wait(f"[...document.querySelectorAll('.slow tbody b')].some((e) => e.innerText.startsWith('{row['slowest']} '))")
        expect(page.eval("document.querySelectorAll('.bar rect').length") > 0, "the bars")
        picture("console-slow.png")
        for dark in (False, True):
            for size in ({}, PHONE):
                page.look(dark=dark, **size)
                check_look(f"slow requests, dark {dark}, {size}")
        page.look()
        no_errors()
    with Conclave(["--slowlog.threshold", "0"], admin=True) as server:
        open_page(server, "#/slow").wait_text("slowlog.threshold=0")


@case
def many_children():
    """200,000 children of one node: pages, a name in the middle, and what the server does meanwhile."""
    server = World.ensemble().members[0]
    with zk.Connection(server.address) as client:
        create(client, "/many")
        for first in range(0, MANY, 1000):
            part = [zk.create(f"/many/n{number:06d}") for number in range(first, first + 1000)]
            expect(client.call(zk.multi(part))[0] == 0, f"children from {first}")
        page = open_page(server, "#/tree/many")
        page.wait_text("1 to 200 of 200,000")
        began = time.monotonic()
        page.eval("document.querySelector('[data-key=\"turn next\"]').click()")
        page.wait_text("n000200")
        page.wait_text("201 to 400 of 200,000")
        took = time.monotonic() - began
        page.eval("document.querySelector('[data-key=\"jump\"]').focus()")
        page.type("n1234")
        page.press("Enter")
        page.wait_text("n123400")
        expect(page.eval("document.querySelectorAll('.names li').length") == 200, "one page of names")
        times = []
        for _ in range(5):
            began = time.monotonic()
            while True:  # the server bounds how many children pages look at per second
                status, headers, body = get(server, "/console/node?" + urllib.parse.urlencode({"path": "/many", "after": "n150000", "count": 500}))
                if status != 503:
                    break
                expect(headers["Retry-After"] == "1", str(headers))
                expect(time.monotonic() < began + 60, "the server never has time for a page")
                time.sleep(0.1)
            times.append(time.monotonic() - began)
            expect(status == 200 and json.loads(body)["children"]["names"][0][0] == "n150001", "the page")
        no_errors()
        page.open("about:blank")
        until(lambda: get(server, "/console/node?path=/")[0] == 200, "time for the pages of other cases")
    return f"next page in {took * 1000:.0f} ms; the server answers in {min(times) * 1000:.0f} ms"


@case
def keyboard_only():
    """From the first Tab to the data of a node, without a mouse; the focus is always visible."""
    server = World.ensemble().members[0]
    with zk.Connection(server.address) as client:
        for path in ("/keys", "/keys/one", "/keys/two"):
            create(client, path, path.encode())
    page = open_page(server)

    def focused():
        return page.eval("document.activeElement.innerText || document.activeElement.value || ''").strip()

    def tab_to(text):
        for _ in range(40):
            page.press("Tab")
            outline = page.eval("getComputedStyle(document.activeElement).outlineStyle")
            expect(outline != "none" or page.eval("document.activeElement === document.body"), f"no visible focus on {focused()}")
            if focused().startswith(text):
                return
        raise AssertionError(f"Tab never reached {text}")
    page.press("Tab")
    expect(focused() == "Skip to the content", focused())
    tab_to("Tree")
    page.press("Enter")
    page.wait_text("Who may do what")
    tab_to("Refresh")
    tab_to("keys")
    page.press("Enter")
    page.wait_text("/keys")
    page.wait("!!document.querySelector('[data-key=\"name two\"]')")
    tab_to("one")
    page.press("ArrowDown")
    expect(focused().startswith("two"), focused())
    page.press("Enter")
    page.wait("document.querySelector('pre')?.innerText == '/keys/two'")
    no_errors()


def audited(server):
    """The lines of the audit log, each as a dictionary."""
    with open(os.path.join(server.folder, "audit"), encoding="utf-8") as file:
        return [dict(field.split("=", 1) for field in line.strip().partition(": ")[2].split("\t")) for line in file]


def has_audit(server, **wanted):
    until(lambda: any(all(line.get(key, "").startswith(value) for key, value in wanted.items()) for line in audited(server)),
          f"an audit line with {wanted} in {audited(server)}")


class Guest:
    """Somebody who acts by HTTP alone."""

    def __init__(self, server, user_password=None):
        self.server = server
        self.cookie = self.key = None
        if user_password:
            status, headers, body = self.sign_in(user_password)
            expect(status == 200, f"{status} {body}")
            self.cookie = headers["Set-Cookie"].split(";")[0]
            self.key = json.loads(body)["key"]

    def sign_in(self, user_password, scheme="digest"):
        return self.post(f"sign-in?scheme={scheme}", Authorization="Basic " + base64.b64encode(user_password.encode()).decode())

    def post(self, name, data=None, method="POST", **fields):
        """Status, headers and text; fields: further headers, None takes one away."""
        headers = {"Cookie": self.cookie, "X-Console-Key": self.key} if self.key else {}
        if data is not None:
            headers["Content-Type"] = "application/octet-stream"
        headers.update({name.replace("_", "-"): value for name, value in fields.items()})
        link = http.client.HTTPConnection("127.0.0.1", self.server.admin_port, timeout=60)
        with contextlib.suppress(ConnectionError):  # a long body may be refused before it is sent
            link.request(method, f"/console/{name}", body=data, headers={key: value for key, value in headers.items() if value is not None})
        answer = link.getresponse()
        body = answer.read().decode()
        link.close()
        return answer.status, answer.headers, body


@case
def acts_are_guarded():
    """Who may not act does not: no cookie, no key, another origin, GET, a console that only reads, too many guesses."""
    with Conclave(admin=True) as server:
        expect(json.loads(get(server, "/console/me")[2]) == {"acts": False, "name": None}, "by default it only reads")
        status, _, body = Guest(server).sign_in("super:secret")
        expect(status == 403 and "admin.console=on" in body, f"{status} {body}")
    with Conclave([*ACTING, "--audit.enable", "yes", "--audit.file", "audit"], admin=True) as server:
        other = Guest(server, ANNA)
        status, headers, _ = Guest(server).sign_in("super:secret")
        for rule in ("HttpOnly", "SameSite=Strict", "Path=/console"):
            expect(rule in headers["Set-Cookie"].split("; "), headers["Set-Cookie"])
        boss = Guest(server, "super:secret")
        delete = "act/delete?path=/guarded&version=0"
        expect(boss.post("act/create?path=/guarded", b"")[0] == 200, "it creates")
        for why, wanted, more in (("no key", 401, {"X_Console_Key": None}), ("another's key", 401, {"X_Console_Key": other.key}),
                                  ("no cookie", 401, {"Cookie": None}), ("another origin", 403, {"Origin": "http://evil.example"}),
                                  ("another port's origin", 403, {"Origin": "http://127.0.0.1:1"}), ("a forged Host", 403, {"Host": "evil.example"}),
                                  ("another site", 403, {"Sec_Fetch_Site": "cross-site"}), ("GET", 405, {"method": "GET"})):
            status, headers, body = boss.post(delete, **more)
            expect(status == wanted and body.strip(), f"{why}: {status} {body}")
        expect(boss.post("act/set?path=/guarded&version=0", b"x", Content_Type="text/plain")[0] == 400, "a form's content type")
        expect(boss.post("act/set?path=/guarded&version=0", b"x" * (2 << 20))[0] == 413, "too long")
        expect(boss.post("act/nothing")[0] == 404 and boss.post("act/delete?path=guarded&version=0")[0] == 400, "what there is")
        has_audit(server, operation="delete", znode="/guarded", result="failure", user="super")
        for act in ("kill?id=0x1", "transfer?to=1"):
            status, _, body = other.post(f"act/{act}")
            expect(status == 403 and "administrators" in body, f"{act}: {status} {body}")
        has_audit(server, operation="killSession", result="failure", user="anna")
        has_audit(server, operation="transferLeadership", result="failure", user="anna")
        expect(get(server, "/console/node?path=/guarded")[0] == 200, "it is still there")
        expect(boss.post(delete)[0] == 200 and boss.post(delete)[0] == 404, "deleted once")
        expect(boss.post("sign-out")[0] == 200 and boss.post("act/create?path=/late", b"")[0] == 401, "signed out")
        statuses = [Guest(server).sign_in("super:guess")[0] for _ in range(20)]
        expect(statuses[0] == 401 and statuses[-1] == 429, f"guesses are limited: {statuses}")


def click(text):
    """Presses the button or link with this text."""
    found = f"[...document.querySelectorAll('button, a')].find((e) => e.innerText.trim() == {json.dumps(text)} && !e.disabled)"
    World.page.wait(f"!!{found}")
    World.page.eval(f"({found}).focus()")
    World.page.eval(f"({found}).click()")


def enter(name, text):
    """Replaces the text of a field."""
    World.page.wait(f"!!document.querySelector('[name={name}]')")
    World.page.eval(f"(document.querySelector('[name={name}]').focus(), document.querySelector('[name={name}]').select())")
    World.page.type(text)


def visit(path):
    """Opens the page of a node, and waits for the node."""
    World.page.eval(f"location.hash = '#/tree{path}'")
    World.page.wait(f"document.querySelector('.details h2')?.innerText == {json.dumps(path.rsplit('/', 1)[1])}")


def sign_in(user, password, scheme=None):
    World.page.eval("location.hash = '#/signin'")
    if scheme:
        World.page.wait("!!document.querySelector('[name=scheme]')")
        World.page.eval("(() => { const list = document.querySelector('[name=scheme]'); list.value = %s;"
                        "list.dispatchEvent(new Event('change')); })()" % json.dumps(scheme))
    enter("user", user)
    enter("password", password)
    World.page.press("Enter")


def expected(status):
    """The page's errors so far are refusals with this status."""
    expect(all(str(status) in error for error in World.page.errors), str(World.page.errors))
    World.page.errors.clear()


def edit(page, client):
    """Anna edits her node; not one that changed meanwhile, and not one of another."""
    visit("/team/plan")
    click("Edit data")
    enter("data", '{"limit": 20}')
    for look in ({}, {"dark": True, **PHONE}):
        page.look(**look)
        check_look("editing")
    picture("console-edit.png", height=900)
    click("Save")
    page.wait("document.querySelector('pre')?.innerText.includes('20')")
    expect(client.call(zk.get_data("/team/plan"))[1]["data"] == b'{"limit": 20}', "the data")
    click("Edit data")
    enter("data", "mine")
    expect(client.call(zk.set_data("/team/plan", b"another's", -1))[0] == 0, "she is faster elsewhere")
    page.wait("document.querySelector('pre')?.innerText == \"another's\"")
    expect(page.eval("document.querySelector('textarea').value") == "mine", "the form stays")
    click("Save")
    page.wait_text("somebody else has changed this node meanwhile")
    expect(client.call(zk.get_data("/team/plan"))[1]["data"] == b"another's", "nothing is overwritten")
    click("Cancel")
    expected(409)
    visit("/boss")
    page.wait_text("hands off")
    click("Edit data")
    enter("data", "mine")
    click("Save")
    page.wait_text("you lack the permission write")
    expected(403)


def create_and_delete(page):
    visit("/team")
    page.wait_text("private")
    click("Create below")
    enter("name", "new")
    enter("data", "Grüße")
    check_look("creating")
    click("Create")
    page.wait("!!document.querySelector('[data-key=\"name new\"]')")
    visit("/team/new")
    page.wait_text("Grüße")
    click("Delete")
    page.wait_text("Delete /team/new?")
    check_look("deleting")
    click("Delete /team/new")
    page.wait("location.hash == '#/tree/team'")
    page.wait("!document.querySelector('[data-key=\"name new\"]')")
    expected(404)  # the page may have looked once more


def end_a_session(server, page):
    """Anna may not; the superuser may."""
    with zk.Connection(server.address) as victim:
        session = hex(victim.session_id)
        create(victim, "/of-the-victim", flags=zk.EPHEMERAL)
        page.eval("location.hash = '#/sessions'")
        page.wait(f"!!document.querySelector('[data-key=\"end {session}\"]')")
        page.eval(f"document.querySelector('[data-key=\"end {session}\"]').click()")
        page.wait_text("1 ephemeral node will be deleted")
        page.look(dark=True, **PHONE)
        check_look("ending a session")
        page.look()
        click(f"End {session}")
        page.wait_text("only administrators may do this")
        expected(403)
        click("Sign out")
        sign_in("super", "secret")
        page.wait_text("You are an administrator")
        page.eval("location.hash = '#/sessions'")
        page.wait(f"!!document.querySelector('[data-key=\"end {session}\"]')")
        page.eval(f"document.querySelector('[data-key=\"end {session}\"]').click()")
        click(f"End {session}")
        page.wait(f"!document.querySelector('[aria-label=Sessions]').innerText.includes('{session}')")
        has_audit(server, operation="killSession", result="failure", user="anna")
        has_audit(server, operation="killSession", result="success", user="super", session=session)


@case
def signing_in_and_acting():
    """Somebody signs in, wrongly first; edits, creates, deletes, ends a session, is refused, signs out. The audit log has it all."""
    options = [*ACTING, "--audit.enable", "yes", "--audit.file", "audit"]
    with Conclave(options, admin=True) as server, zk.Connection(server.address, timeout_ms=60000) as client:
        expect(client.call(zk.auth("digest", ANNA.encode()))[0] == 0, "she authenticates")
        create(client, "/team", b"", acl=ANNAS)
        create(client, "/team/plan", b'{"limit": 10}', acl=ANNAS)
        create(client, "/team/private", b"hers alone", acl=ANNAS[:1])
        create(client, "/boss", b"hands off", acl=[(31, "digest", digest("super:secret")), (1, "world", "anyone")])
        page = open_page(server, "#/tree/team/plan")
        page.wait_text("Who may do what")
        expect("Edit data" not in page.text(), "without signing in it only reads")
        sign_in("super", "wrong")
        page.wait_text("Wrong user or password.")
        picture("console-sign-in.png", height=420)
        check_look("sign-in")
        page.look(dark=True, **PHONE)
        check_look("sign-in on a phone")
        page.look()
        expected(401)
        sign_in(*ANNA.split(":"))
        page.wait_text("Signed in as digest:anna")
        page.wait_text("could not check your password")
        check_look("signed in")
        page.eval("location.hash = '#/tree/team/private'")
        page.wait_text("hers alone")  # with her rights
        edit(page, client)
        create_and_delete(page)
        for operation, path, result in (("setData", "/team/plan", "success"), ("setData", "/team/plan", "failure"), ("setData", "/boss", "failure"),
                                        ("create", "/team/new", "success"), ("delete", "/team/new", "success")):
            has_audit(server, operation=operation, znode=path, result=result, user="anna", ip="127.0.0.1")
        no_errors()
        end_a_session(server, page)
        page.open(url(server, "#/tree/team/private"))
        page.wait_text("Sign out")  # the tab stays signed in
        click("Sign out")
        page.wait("[...document.querySelectorAll('#account a')].some((a) => a.innerText == 'Sign in')")
        page.wait_text("Not readable")
        no_errors()
        for operation, user, result in (("consoleSignIn", "", "failure"), ("consoleSignIn", "anna", "success"), ("consoleSignOut", "super", "success")):
            has_audit(server, operation=operation, result=result, **({"user": user} if user else {}))


@case
def users_of_sasl():
    """Bob of the server's SASL users signs in: ACLs of sasl:bob count for him, and the audit log names him."""
    with contextlib.ExitStack() as stack:
        users = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="conclave-test-users-"))
        users.write("bob:geheim\nboss:chef\n")
        users.flush()
        server = stack.enter_context(Conclave(["--admin.console", "on", "--audit.enable", "yes", "--audit.file", "audit", "--sasl.users.file", users.name,
                                               "--superUser", "boss"], admin=True))
        page = open_page(server, "#/signin")
        expect(json.loads(get(server, "/console/me")[2])["schemes"] == ["digest", "sasl"], "what is offered")
        boss = Guest(server)
        status, headers, body = boss.sign_in("boss:chef", "sasl")
        expect(status == 200 and json.loads(body)["operator"] and json.loads(body)["name"] == "sasl:boss", f"{status} {body}")
        with zk.Connection(server.address, timeout_ms=60000) as client:
            create(client, "/bobs", b"his", acl=[(31, "sasl", "bob"), (1, "world", "anyone")])
            create(client, "/secret", b"his alone", acl=[(31, "sasl", "bob")])
            create(client, "/annas", b"hers", acl=[(31, "sasl", "anna"), (1, "world", "anyone")])
        expect(Guest(server).sign_in("bob:geheim")[0] == 200, "a digest identity with that name is another one")
        sign_in("bob", "wrong", "sasl")
        page.wait_text("Wrong user or password.")
        expected(401)
        for look in ({}, {"dark": True}, {"dark": True, **PHONE}):
            page.look(**look)
            check_look(f"signing in by SASL, {look}")
        page.look()
        sign_in("bob", "geheim", "sasl")
        page.wait_text("Signed in as sasl:bob")
        expect("could not check" not in page.text(), "the password was checked")
        page.eval("location.hash = '#/tree/secret'")
        page.wait_text("his alone")
        visit("/bobs")
        click("Edit data")
        enter("data", "changed")
        click("Save")
        page.wait("document.querySelector('pre')?.innerText == 'changed'")
        visit("/annas")
        click("Edit data")
        enter("data", "mine")
        click("Save")
        page.wait_text("you lack the permission write")
        expected(403)
        for operation, path, result in (("setData", "/bobs", "success"), ("setData", "/annas", "failure"), ("consoleSignIn", "", "success")):
            has_audit(server, operation=operation, result=result, user="bob", **({"znode": path} if path else {}))
        no_errors()


@case
def resigning_and_handing_over():
    """The leader of an election resigns, and the lead of the ensemble goes to another server."""
    with Ensemble(3, admin=True, tick_ms=1000, options=ACTING) as ensemble:
        ensemble.wait_leader()
        leader, server = ensemble.leader(), ensemble.followers()[0]
        with Holders(server) as holders:
            holders.start("a", "elect", "/app/leader", "--id", "host-a")
            until(lambda: "host-a" in labels(recipes(server).get("/app/leader", {"holders": []})), "host-a leads")
            holders.start("b", "elect", "/app/leader", "--id", "host-b")
            until(lambda: "host-b" in labels(recipes(server)["/app/leader"], "line"), "host-b waits")
            page = open_page(server, "#/recipes")
            page.wait_text("host-a")
            expect("resign" not in page.text(), "without signing in it only reads")
            sign_in("super", "secret")
            page.wait_text("You are an administrator")
            page.eval("location.hash = '#/recipes'")
            click("Make it resign…")
            page.wait_text("The next in the line takes over.")
            for look in ({}, {"dark": True, **PHONE}):
                page.look(**look)
                check_look("resigning")
            page.look()
            page.wait("!!document.querySelector('.act button.danger')")
            page.eval("document.querySelector('.act button.danger').click()")
            until(lambda: labels(recipes(server).get("/app/leader", {"holders": []})) == ["host-b"], "host-b leads")
            page.wait("document.querySelector('.held td')?.innerText.includes('host-b')")
            no_errors()
        page.eval("location.hash = '#/'")
        page.wait(f"!!document.querySelector('[data-key=\"lead {server.number}\"]')")
        page.eval(f"document.querySelector('[data-key=\"lead {server.number}\"]').click()")
        page.wait_text("Clients stay connected")
        check_look("handing over")
        picture("console-transfer.png", height=900)
        click(f"Hand over to server {server.number}")
        page.wait(f"document.querySelector('[data-leader]')?.dataset.leader == '{server.number}'")
        expect(server.number != leader.number, "another one leads")
        no_errors()


@case
def themes_and_widths():
    """Light and dark, desk and phone: contrast of 4.5 for every text, nothing wider than the page."""
    ensemble = World.ensemble()
    server = ensemble.followers()[0]
    for view, text in (("#/tree/", "Who may do what"), ("", "For clients")):
        page = open_page(server, view)
        page.wait_text(text)
        for dark in (False, True):
            for size in ({}, PHONE):
                page.look(dark=dark, **size)
                check_look(f"view '{view}', dark {dark}, {size}")
    picture("console-phone.png", dark=True, width=390, height=700)
    no_errors()


def main():
    global PICTURES
    words = sys.argv[1:]
    if words[:1] == ["--pictures"]:
        PICTURES = words[1]
        words = words[2:]
    missing = why_missing() or browser.why_missing()
    if missing:
        return cases.skip_all(missing)
    with World.stack, browser.Browser() as World.page:
        return cases.run(CASES, words)


if __name__ == "__main__":
    sys.exit(main())
