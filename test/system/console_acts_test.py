"""Acts in the web console, in Debian's Chromium and by HTTP: who signs in, what they may do, and what the audit log keeps.

Promise: one browser for all cases; each case says what it saw; without Chromium the suite is skipped. An error in the
browser's console fails the case in which it happens. `--pictures FOLDER` also writes the pictures of docs/console.md.
Limits: the endpoints alone are in test/unit/admin.

usage: console_acts_test.py [--pictures FOLDER] [CASE]...
"""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import zkwire as zk  # noqa: E402
from conclave import Conclave  # noqa: E402
from console_page import PHONE, Holders, World, check_look, create, expect, get, labels, no_errors, open_page, picture, recipes, run, until, url  # noqa: E402
from ensemble import Ensemble  # noqa: E402

CASES = []


def digest(user_password):
    """The id of a user and password."""
    return user_password.split(":")[0] + ":" + base64.b64encode(hashlib.sha1(user_password.encode()).digest()).decode()


ACTING = ["--admin.console", "on", "--DigestAuthenticationProvider.superDigest", digest("super:secret")]
ANNA = "anna:grün und gut"
ANNAS = [(31, "digest", digest(ANNA)), (1, "world", "anyone")]


def case(function):
    CASES.append(function)
    return function


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


if __name__ == "__main__":
    sys.exit(run(CASES))
