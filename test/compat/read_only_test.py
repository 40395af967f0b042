"""Read-only mode: the answers of a server without a quorum, ours and Apache's, and how clients come back to writing.

Promise: real ensembles on loopback of which a minority runs; the same requests to both kinds of servers have the same
errors. kazoo, ZooKeeper's shell in Java and our own client read there, and write again when there is a quorum.
Limits: Apache's servers make read-only sessions with localSessionsEnabled only; ours need readonlymode.enabled alone,
and are tested without it.

usage: read_only_test.py [NAME...]
"""

import os
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from conclave import program, why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble, ZooKeeperMember, four_letters, mode_of  # noqa: E402

WAIT_S = 40
TICK_MS = 500
OURS = {"kind": ConclaveMember, "tick_ms": TICK_MS, "options": ["--readonlymode.enabled", "true"]}
APACHE = {"kind": ZooKeeperMember, "tick_ms": TICK_MS, "settings": {"localSessionsEnabled": "true"},
          "properties": {"readonlymode.enabled": "true"}}
REFUSED = zk.ERRORS["NOTREADONLY"]


def wait_for(what, seconds=WAIT_S):
    """Asks until the answer is true, and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def try_connect(member, *more, **options):
    """A connection, or None when the server closes it without an answer."""
    try:
        return zk.Connection(member.address, 10000, *more, **options)
    except (zk.Closed, OSError):
        return None


def read_only_link(member):
    return wait_for(lambda: try_connect(member, read_only=True))


def isro(member):
    return four_letters(member.address, b"isro").strip()


def answers_of(member):
    """The answers of a read-only server to all relevant requests."""
    link = read_only_link(member)
    with link:
        said = {"session": link.session_id != 0, "flag": link.connect_reply[-1]}
        requests = {
            "get": zk.get_data("/"), "exists": zk.exists("/none", True), "children": zk.get_children("/", True),
            "children2": zk.get_children("/", op=zk.GET_CHILDREN2), "acl": zk.get_acl("/"),
            "number": zk.get_all_children_number("/"), "ephemerals": zk.get_ephemerals("/"),
            "multi_read": zk.multi([zk.get_data("/")], op=zk.MULTI_READ), "ping": zk.ping(),
            "add_watch": zk.add_watch("/w", 0), "check_watches": zk.check_watches("/none", 2), "who": zk.who_am_i(),
            "remove_watches": zk.check_watches("/none", 2, op=zk.REMOVE_WATCHES),
            "set_watches": zk.set_watches(0, data=["/"]), "auth": zk.auth("digest", b"u:p"),
            "create": zk.create("/no"), "create2": zk.create("/no", op=zk.CREATE2),
            "container": zk.create("/no", flags=zk.CONTAINER, op=zk.CREATE_CONTAINER), "ttl": zk.create_ttl("/no"),
            "ephemeral": zk.create("/no", flags=zk.EPHEMERAL), "delete": zk.delete("/no"), "set": zk.set_data("/no"),
            "set_acl": zk.set_acl("/"), "multi": zk.multi([zk.create("/no")]), "sync": zk.sync("/"),
            "reconfig": zk.reconfig(leaving="2"), "malformed": zk.Request(zk.CREATE, b"\0")}
        for name, request in requests.items():
            said[name] = link.call(request)[0]
        said["close"] = link.call(zk.close_session())[0]
    return said


def alone(kind):
    """A member of three that runs alone, and never saw the others."""
    ensemble = Ensemble(3, **kind)
    ensemble.members[0].start()
    return ensemble


def minority(kind):
    ensemble = alone(kind)
    try:
        member = ensemble.members[0]
        said = answers_of(member)
        assert try_connect(member) is None, "a client that does not ask for it is refused"
        assert try_connect(member, read_only=None) is None, "and one that does not know of it"
        said["isro"] = isro(member)
        said["mode"] = mode_of(member)
        said["mntr"] = [line for line in four_letters(member.address, b"mntr").splitlines()
                        if line.startswith("zk_server_state")]
        return said
    finally:
        ensemble.stop()


def test_answers_as_apache():
    ours = minority(OURS)
    assert ours["session"] and ours["flag"] == 1 and ours["create"] == REFUSED and ours["get"] == 0, ours
    assert ours["isro"] == "ro" and ours["mode"] == "read-only", ours
    if zookeeper.why_missing():
        return "without Apache ZooKeeper"
    apache = minority(APACHE)
    differing = {name: (ours[name], apache[name]) for name in apache if ours[name] != apache[name]}
    assert not differing, differing
    return f"{len(apache)} answers"


def test_off_is_off():
    ensemble = alone({**OURS, "options": []})
    try:
        member = ensemble.members[0]
        deadline = time.monotonic() + 8 * TICK_MS / 1000  # it would be let in after three: must not happen
        while time.monotonic() < deadline:
            assert try_connect(member, read_only=True) is None
            time.sleep(0.1)
    finally:
        ensemble.stop()


def lose_and_regain(kind):
    """The quorum goes and comes back: the fate of the sessions of both kinds."""
    with Ensemble(3, **kind) as ensemble:
        member, *others = ensemble.members
        with zk.Connection(member.address, 10000, read_only=True) as writer:
            assert writer.connect_reply[-1] == 0, "there is a quorum"
            assert writer.call(zk.create("/kept", b"old"))[0] == 0
            if kind is OURS:
                assert writer.call(zk.create("/held", flags=zk.EPHEMERAL))[0] == 0
            for other in others:
                other.kill()
            link = read_only_link(member)
            assert link.call(zk.get_data("/kept"))[1]["data"] == b"old"
            if kind is OURS:  # a session of all servers is not kept alive here, nor ended
                assert try_connect(member, writer.session_id, writer.passwd, read_only=True) is None
            behind = try_connect(member, last_zxid=1 << 60, read_only=True)
            assert behind is None, "a client that has seen more"
            assert isro(member) == "ro"
            for other in others:
                other.start()
            ensemble.wait_leader(serving=3)
            link.socket.settimeout(WAIT_S)
            assert link.socket.recv(1) == b"", "those who read are sent away when there is a quorum"
            wait_for(lambda: isro(member) == "rw")
            again = wait_for(lambda: try_connect(member, link.session_id, link.passwd, read_only=True))
            assert again.session_id == 0, "a read-only session does not become another"
            with wait_for(lambda: try_connect(member, read_only=True)) as fresh:
                assert fresh.connect_reply[-1] == 0 and fresh.call(zk.set_data("/kept", b"new"))[0] == 0


def test_quorum_lost_and_regained():
    lose_and_regain(OURS)


def test_quorum_lost_and_regained_of_apache():
    if zookeeper.why_missing():
        raise cases.Skip(zookeeper.why_missing())
    lose_and_regain(APACHE)


def test_session_ends_by_itself():
    """A read-only session expires on its server, and its client can take it up again there only."""
    ensemble = alone(OURS)
    try:
        member = ensemble.members[0]
        wait_for(lambda: try_connect(member, read_only=True)).drop()
        link = zk.Connection(member.address, 2 * TICK_MS, read_only=True)
        link.socket.settimeout(WAIT_S)
        assert link.socket.recv(1) == b"", "the silent one is cut off"
        again = zk.Connection(member.address, 2 * TICK_MS, link.session_id, link.passwd, read_only=True)
        assert again.session_id == 0
        first = zk.Connection(member.address, 10000, read_only=True)
        same = zk.Connection(member.address, 10000, first.session_id, first.passwd, read_only=True)
        assert same.session_id == first.session_id, "taken up again at the same server"
        wrong = zk.Connection(member.address, 10000, first.session_id, bytes(16), read_only=True)
        assert wrong.session_id == 0
    finally:
        ensemble.stop()


def test_kazoo():
    from kazoo.client import KazooClient  # pylint: disable=import-outside-toplevel
    from kazoo.exceptions import NotReadOnlyCallError  # pylint: disable=import-outside-toplevel
    ensemble = alone(OURS)
    try:
        client = KazooClient(ensemble.hosts, read_only=True, timeout=4)
        client.start(timeout=WAIT_S)
        try:
            assert client.client_state == "CONNECTED_RO", client.client_state
            assert client.get_children("/") == ["zookeeper"]
            try:
                client.create("/no")
                raise AssertionError("a write was not refused")
            except NotReadOnlyCallError:
                pass
            for member in ensemble.members[1:]:
                member.start()
            wait_for(lambda: client.client_state == "CONNECTED")
            assert client.retry(client.create, "/yes") == "/yes"
        finally:
            client.stop()
            client.close()
    finally:
        ensemble.stop()


def run(*words):
    done = subprocess.run([program(), *words], capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_our_client():
    with Ensemble(3, **OURS) as ensemble:
        member, *others = ensemble.members
        assert run("create", "/mine", "text", "--server", ensemble.hosts)[0] == 0
        for other in others:
            other.kill()
        read_only_link(member).drop()
        code, out, err = run("get", "/mine", "--read-only", "--server", ensemble.hosts)
        assert (code, out) == (0, "text"), (code, out, err)
        code, out, err = run("ls", "/", "--read-only", "--server", ensemble.hosts)
        assert code == 0 and "mine" in out, (code, out, err)
        code, _, err = run("get", "/mine", "--timeout", "1s", "--server", ensemble.hosts)
        assert code != 0, err
        code, _, err = run("lock", "/l", "--try", "--timeout", "1s", "--server", ensemble.hosts, "--", "true")
        assert code != 0, "no lock without a quorum"


def test_java_shell():
    if zookeeper.why_missing():
        raise cases.Skip(zookeeper.why_missing())
    ensemble = alone(OURS)
    try:
        member = ensemble.members[0]
        read_only_link(member).drop()
        done = subprocess.run(["java", "-cp", f"{zookeeper.JAR}:{zookeeper.LOGGER}", zookeeper.CLIENT_MAIN, "-server",
                               member.host, "-r", "ls", "/"], capture_output=True, timeout=60, check=False)
        assert b"[zookeeper]" in done.stdout + done.stderr, done
        done = subprocess.run(["java", "-cp", f"{zookeeper.JAR}:{zookeeper.LOGGER}", zookeeper.CLIENT_MAIN, "-server",
                               member.host, "-r", "create", "/no", "x"], capture_output=True, timeout=60, check=False)
        assert b"not a read-only" in (done.stdout + done.stderr).lower(), done
    finally:
        ensemble.stop()


def test_c_client():
    """Apache's C client with its flag for read-only servers, in its shell."""
    shell = "/usr/lib/zookeeper/bin/cli_mt"
    if not os.path.exists(shell):
        raise cases.Skip(f"no {shell} (Debian: zookeeper-bin)")
    ensemble = alone(OURS)
    try:
        member = ensemble.members[0]
        read_only_link(member).drop()
        client = subprocess.Popen(["stdbuf", "-o0", shell, "-h", member.host, "-r"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            output = b""

            def expect(text):
                nonlocal output
                while text not in output:
                    assert select.select([client.stdout], [], [], WAIT_S)[0], output
                    part = os.read(client.stdout.fileno(), 65536)
                    assert part, output
                    output += part
            expect(b"READONLY_STATE")
            client.stdin.write(b"ls /\n")
            client.stdin.flush()
            expect(b"/: rc = 0")
            client.stdin.write(b"create /no\n")
            client.stdin.flush()
            expect(b"[/no]: rc = -119")
        finally:
            client.kill()
            client.communicate()
    finally:
        ensemble.stop()


def main():
    if why_missing():
        return cases.skip_all(why_missing())
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
