"""The web console in Debian's Chromium: what the pages show of living servers, by keyboard, in a phone's width, and how soon.

Promise: one browser for all cases; each case says what it saw; without Chromium the suite is skipped. An error in the
browser's console fails the case in which it happens. `--pictures FOLDER` also writes the pictures of docs/console.md.
Limits: the endpoints alone are in test/unit/admin.

usage: console_test.py [--pictures FOLDER] [CASE]...
"""

import http.client
import itertools
import json
import os
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, program  # noqa: E402
from console_page import PHONE, Holders, World, check_access, check_look, create, expect, get, labels, no_errors, open_page, picture, recipes, run, until  # noqa: E402
from ensemble import mode_of  # noqa: E402

CASES = []
MANY = 200000
LARGE = 260000  # more than are sorted by name
DEEP = 200
SEARCH_LOOKS = 20000  # nodes that one request of a search looks at
SHOWN_S = 30  # a new leader, also on a busy machine
OTHERS_ONLY = [(31, "digest", "u:hash")]


def case(function):
    CASES.append(function)
    return function


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
        for args, wanted in (("find=zoo", 200), ("find=zoo&path=/none", 404), ("find=zoo&path=x", 400), ("find=zoo&after=x", 400),
                             ("find=zoo&count=0", 400), ("find=", 400), ("find=" + 257 * "x", 400), ("", 400)):
            status, headers, body = get(server, f"/console/search?{args}")
            expect(status == wanted and "default-src 'none'" in headers["Content-Security-Policy"], f"{args}: {status} {body}")
            expect(get(server, f"/console/search?{args}", method="POST")[0] == 405, "a search by POST")
    with Conclave(["--admin.console", "off"], admin=True) as server:
        expect(get(server, "/console")[0] == 404 and get(server, "/console/overview")[0] == 404, "off")
        expect(b"/console" not in get(server, "/")[2], "no link to what is off")
    with Conclave(["--enforce.auth.enabled", "yes", "--enforce.auth.schemes", "digest"], admin=True) as server:
        for path in ("node?path=/", "search?find=zoo"):
            status, _, body = get(server, f"/console/{path}")
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
    page.wait("/^Server \\d leads.$/.test(document.querySelector('#news').textContent)")
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
        if World.pictures:  # with figures
            page.wait("!document.body.innerText.includes('first sample soon')")
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
    leading = client.handler.event_object()
    try:
        client.Lock("/kazoo/lock", "holder").acquire()
        client.ReadLock("/kazoo/rw", "reader").acquire()
        client.Semaphore("/kazoo/semaphore", "permit", max_leases=3).acquire()
        client.Party("/kazoo/party", "guest").join()
        client.Queue("/kazoo/queue").put(b"item")
        client.LockingQueue("/kazoo/locking").put(b"entry")
        client.WriteLock("/kazoo/write", "writer").acquire()
        client.ShallowParty("/kazoo/shallow", "visitor").join()
        client.Barrier("/kazoo/gate").create()
        client.exists("/kazoo/gate", watch=lambda event: None)
        election = client.Election("/kazoo/election", "candidate")
        threads = [client.handler.spawn(election.run, leading.wait), client.handler.spawn(client.DoubleBarrier("/kazoo/double", 2, "one").enter)]
        found = until(lambda: (now := recipes(server)).keys() >= {"/kazoo/election", "/kazoo/double"} and now, "election and barrier")
        wanted = {"/kazoo/lock": ("lock", "kazoo", ["holder"]), "/kazoo/rw": ("lock", "kazoo", ["reader"]),
                  "/kazoo/semaphore": ("semaphore", "kazoo", ["permit"]), "/kazoo/party": ("group", "", ["guest"]),
                  "/kazoo/queue": ("queue", "kazoo", []), "/kazoo/locking": ("queue", "kazoo", []),
                  "/kazoo/write": ("lock", "kazoo", ["writer"]), "/kazoo/shallow": ("group", "", ["visitor"]), "/kazoo/gate": ("barrier", "", []),
                  "/kazoo/election": ("lock", "kazoo", ["candidate"]), "/kazoo/double": ("barrier", "kazoo", [])}
        for path, (kind, library, holders) in wanted.items():
            recipe = found.get(path)
            expect(recipe and (recipe["kind"], recipe["library"], labels(recipe)) == (kind, library, holders), f"{path}: {recipe}")
        extra = [path for path in found if path.startswith("/kazoo/") and path not in wanted]
        expect(not extra, f"these are parts of others: {extra}")
        expect(found["/kazoo/gate"]["waiting"] == 1 and found["/kazoo/gate"]["plain"], str(found["/kazoo/gate"]))
        expect(found["/kazoo/double"]["waiting"] == 1 and not found["/kazoo/double"]["open"], str(found["/kazoo/double"]))
        page = open_page(server, "#/recipes")
        page.wait_text("/kazoo/gate")
        page.wait_text("an empty node whose end clients of this server wait for")
        client.delete("/kazoo/gate")
        until(lambda: "/kazoo/gate" not in recipes(server), "the barrier is gone")
        client.DoubleBarrier("/kazoo/double", 2, "two").enter()
        until(lambda: recipes(server)["/kazoo/double"]["open"], "the double barrier is open")
        leading.set()
        for thread in threads:
            thread.join()
        no_errors()
    finally:
        leading.set()
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
        page.wait(f"document.querySelector('[data-key=writer]')?.textContent == '{hex(client.session_id)}'")
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


def writer(server, path):
    """Who wrote a node last, as /console/node says."""
    return json.loads(get(server, "/console/node?" + urllib.parse.urlencode({"path": path}))[2])["writer"]


@case
def last_writers():
    """Session, address and identity of the last write, at every member, also after a restart; and why it is not known."""
    ensemble = World.ensemble()
    server, other = ensemble.members[:2]
    with zk.Connection(server.address, 40000) as first, zk.Connection(server.address, 40000) as second:
        create(first, "/written", b"1")
        create(first, "/numbers")
        create(first, "/numbers/n-", flags=zk.PERSISTENT_SEQUENTIAL)
        expect(second.call(zk.auth("digest", b"anna:secret"))[0] == 0, "authentication")
        expect(second.call(zk.set_data("/written", b"2"))[0] == 0, "write")
        wanted = {"by": "client", "session": hex(second.session_id), "ids": "digest:anna"}
        for member in (server, other):
            said = until(lambda member=member: (now := writer(member, "/written"))["session"] == wanted["session"] and now, "the last writer")
            expect({**said, **wanted} == said and said["client"].startswith("127.0.0.1"), str(said))
        expect(writer(server, "/numbers/n-0000000000") == {"by": "unknown", "why": "numbered"}, "a node with a number")
        expect(writer(server, "/")["by"] in ("unknown", "server"), str(writer(server, "/")))
        page = open_page(server, "#/tree/written")
        for text in ("Last writer", "digest:anna", "%s:%d" % second.socket.getsockname(), hex(second.session_id)):
            page.wait_text(text)
        page.eval("location.hash = '#/tree/numbers/n-0000000000'")
        page.wait_text("conclave history tells it from backups")
        no_errors()
        page.open("about:blank")
        other.kill()
        other.start()
        until(lambda: get(other, "/readyz")[0] == 200, "it is back")
        until(lambda: {**writer(other, "/written"), **wanted} == writer(other, "/written"), "it tells the same from its log")


@case
def search_by_path():
    """A part of a path finds nodes, page by page and in either case, with the rights of who asks; Enter on a path goes to its node."""
    server = World.ensemble().members[0]
    with zk.Connection(server.address, 40000) as client:
        for path in ("/shop", "/shop/Baskets", "/shop/Baskets/basket-limits", "/shop/orders"):
            create(client, path, b"12")
        create(client, "/shop/hidden-baskets", acl=OTHERS_ONLY)
        create(client, "/found")
        for first in range(0, 250, 50):
            part = [zk.create(f"/found/needle-{number:03d}") for number in range(first, first + 50)]
            client.call(zk.multi(part))
        page = open_page(server, "#/tree/shop")
        page.wait_text("orders")
        page.eval("document.querySelector('[name=path]').select()")
        page.type("bask")
        page.press("Enter")
        page.wait_text("3 nodes found.")
        for text in ("/shop/Baskets", "/shop/Baskets/basket-limits", "/shop/hidden-baskets"):
            page.wait_text(text)
        picture("console-search.png")
        expect(page.eval("document.querySelector('nav [aria-current]').textContent") == "Tree", "the place in the navigation")
        page.eval("document.querySelector('[data-key=\"found /shop/Baskets/basket-limits\"]').focus()")
        page.press("Enter")
        page.wait("location.hash == '#/tree/shop/Baskets/basket-limits'")
        page.wait_text("Who may do what")
        page.eval("location.hash = '#/search/%2Fneedle'")
        page.wait_text("100 nodes found.")
        page.eval("document.querySelector('[data-key=more]').click()")
        page.wait_text("200 nodes found.")
        page.eval("document.querySelector('[data-key=more]').click()")
        page.wait_text("250 nodes found.")
        page.wait_text("nodes were looked at.")
        expect(page.eval("new Set([...document.querySelectorAll('.found li')].map((e) => e.textContent)).size") == 250, "each node once")
        for look in ({}, {"dark": True}, PHONE):
            page.look(**look)
            check_look(f"search {look}")
        page.look()
        no_errors()
        page.eval("document.querySelector('[name=path]').select()")
        page.type("/nowhere")
        page.press("Enter")
        page.wait_text("There is no node /nowhere.")
        page.eval("[...document.querySelectorAll('.notice a')].at(-1).click()")
        page.wait_text("0 nodes found.")


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
    page.eval(f"document.querySelector('[data-key=\"noted {hex(left.session_id)}\"]').focus()")
    page.press("Enter")
    noted = f"document.querySelector('[data-key=\"noted {hex(left.session_id)}\"]').parentElement"
    for fact in ("Session timeout: ", "Requests: "):
        page.wait(f"{noted}.querySelector('ul')?.textContent.includes('{fact}')")
    page.eval("document.querySelector('[data-key=orderly]').focus()")
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
    page.eval("location.hash = '#/'")
    page.wait_text("Latest lost sessions")
    until(lambda: json.loads(get(server, "/sessions/ended")[2])["lost"][0]["session"] in page.eval("document.querySelector('.lost').textContent"), "the latest one")
    page.wait("document.querySelector('#version').textContent.startsWith('Conclave ')")
    check_look("lost sessions on the first page")
    no_errors()
    with Conclave(["--maxEndedSessions", "0"], admin=True) as server:
        open_page(server, "#/sessions").wait_text("maxEndedSessions=0")


@case
def slow_requests():
    """A slow request with the parts of its time, its path and its client."""
    with Conclave(["--slowlog.threshold", "1"], admin=True) as server, zk.Connection(server.address, 40000) as client:
        page = open_page(server, "#/slow")
        page.wait_text("1.00 ms or longer")
        create(client, "/batch")
        turns = itertools.count()

        def slow_multi():
            """A machine may be fast enough for one transaction, not for all."""
            turn = next(turns)
            part = [zk.create(f"/batch/{turn}-{number}") for number in range(10000)]
            expect(client.call(zk.multi(part))[0] == 0, "a large transaction")
            return next((row for row in json.loads(get(server, "/slow")[2])["requests"] if row["operation"] == "multi"), None)
        row = until(slow_multi, "one is slow")
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
def large_tree():
    """More children than are sorted, and a branch as deep as nodes may be: pages go on, the page stays small, a search sees all nodes in
    bounded parts, and the server answers others meanwhile."""
    with Conclave(admin=True) as server, zk.Connection(server.address, 40000) as client:
        create(client, "/wide")
        for first in range(0, LARGE, 1000):
            part = [zk.create(f"/wide/n{number:06d}") for number in range(first, first + 1000)]
            expect(client.call(zk.multi(part))[0] == 0, f"children from {first}")
        deep = "/deep" + "".join(f"/x{number % 10}" for number in range(DEEP))
        expect(client.call(zk.multi([zk.create("/" + "/".join(deep[1:].split("/")[:end + 1])) for end in range(DEEP + 1)]))[0] == 0, "a deep branch")
        after, parts, looked = None, 0, 0
        while parts == 0 or after:
            status, headers, body = get(server, "/console/search?" + urllib.parse.urlencode({"find": "/N2599", **({"after": after} if after else {})}))
            if status == 503:
                expect(headers["Retry-After"] == "1", str(headers))
                time.sleep(0.1)
                continue
            expect(get(server, "/livez")[0] == 200, "others are answered")
            answer = json.loads(body)
            expect(0 < answer["looked"] <= SEARCH_LOOKS, str(answer["looked"]))
            after, parts, looked = answer["after"], parts + 1, looked + answer["looked"]
        expect(looked > LARGE and parts > LARGE // SEARCH_LOOKS, f"{looked} nodes in {parts} parts")
        page = open_page(server, "#/tree/wide")
        page.wait_text("in the order of their creation")
        for name in ("n000200", "n000400"):
            page.eval("document.querySelector('[data-key=\"turn next\"]').click()")
            page.wait(f"document.querySelector('.names li')?.innerText.startsWith('{name}')")
        page.eval(f"location.hash = '#/tree{deep}'")
        page.wait_text(f"… {DEEP + 1 - 12} nodes …")
        page.eval("location.hash = '#/search/N2599'")
        page.wait_text("100 nodes found.")
        page.wait_text("/wide/n259999")
        expect(page.eval("document.querySelectorAll('*').length") < 2000, "the page is small")
        page.errors[:] = [error for error in page.errors if "503" not in error]
        no_errors()
        page.open("about:blank")
    return f"{looked} nodes in {parts} parts"


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


@case
def live_regions():
    """What changes all the time is not announced: a screen reader hears of alarms, the connection and the leader only."""
    server = World.ensemble().members[0]
    page = open_page(server)
    page.wait_text("For clients")
    page.wait_text("All is well.")
    page.eval("""void (window.announced = [], document.querySelectorAll('[aria-live], [role=status], [role=alert]').forEach((region) =>
        new MutationObserver(() => window.announced.push([region.className, region.textContent])).observe(region, {subtree: true, childList: true, characterData: true})))""")
    expect(page.eval("document.querySelectorAll('[aria-live], [role=status]').length") >= 3, "live regions")
    with Holders(server) as holders:
        for turn in range(3):
            holders.start(str(turn), "lock", f"/live/{turn}", "--id", f"live-{turn}")
            page.wait_text(f"live-{turn}")
    said = page.eval("window.announced")
    expect(not any("live-" in text for _, text in said), f"the locks are announced: {said}")
    expect(len([text for name, text in said if name != "alarms"]) <= 2, f"too much is announced: {said}")
    no_errors()


@case
def focus_order():
    """After a change of page by keyboard, the focus is in the content of the new page, not at its top."""
    server = World.ensemble().members[0]
    with zk.Connection(server.address, 40000) as client:
        for path in ("/focus", "/focus/one", "/focus/one/two"):
            create(client, path, path.encode())
    page = open_page(server, "#/tree/focus")
    page.wait("!!document.querySelector('[data-key=\"name one\"]')")
    page.eval("document.querySelector('[data-key=\"name one\"]').focus()")
    page.press("Enter")
    page.wait("document.activeElement?.dataset.key == 'name two'")
    page.press("Enter")
    page.wait("document.activeElement?.matches('.crumbs [aria-current]')")
    page.press("Backspace")
    page.eval("document.querySelector('.details').focus()")
    page.eval("location.hash = '#/search/two'")
    page.wait("!!document.querySelector('[data-key=\"found /focus/one/two\"]')")
    page.wait("document.activeElement?.id == 'main'")
    no_errors()


@case
def themes_and_widths():
    """Every page in light and dark, at desk and phone: axe-core finds no violation of WCAG A and AA, the contrast is 4.5, nothing is wider
    than the page. Skipped without axe-core; check_look in the other cases still looks at contrast and width."""
    ensemble = World.ensemble()
    server = ensemble.followers()[0]
    with zk.Connection(server.address, 40000) as client, Holders(server) as holders:
        create(client, "/themes", b'{"limit": 10}')
        create(client, "/themes/one", flags=zk.EPHEMERAL)
        holders.start("lock", "lock", "/themes-lock", "--id", "worker-7")
        until(lambda: "/themes-lock" in recipes(server), "the lock")
        for view, text in (("#/tree/themes", "Who may do what"), ("#/tree/none-at-all", "There is no node"), ("#/search/themes", "nodes found"), ("#/recipes", "worker-7"),
                           ("#/recipes/themes-lock", "ends in"), ("#/sessions", "Ended sessions"), ("#/slow", "slowlog.threshold"),
                           ("#/signin", "This console only reads"), ("", "For clients")):
            page = open_page(server, view)
            page.wait_text(text)
            for dark in (False, True):
                for size in ({}, PHONE):
                    page.look(dark=dark, **size)
                    check_look(f"view '{view}', dark {dark}, {size}")
        page.errors[:] = [error for error in page.errors if "404" not in error]
        picture("console-phone.png", dark=True, width=390, height=700)
        page.eval("document.querySelector('h1').insertAdjacentHTML('afterend', '<button></button>')")
        try:
            check_access("a button without a name")
        except AssertionError:
            pass
        else:
            raise AssertionError("axe-core does not see a button without a name")
        no_errors()


if __name__ == "__main__":
    sys.exit(run(CASES))
