"""conclave members drain: the leader of three is emptied and restarted beneath clients of kazoo and of libconclave.

Promise: no session ends, no lock is lost, and each write that a client repeats after a lost connection arrives; the server
hands the lead over, is not ready, takes no client, and serves again after --undo.
Limits: kazoo's part is left out without Debian's python3-kazoo.

usage: drain_test.py [NAME...]
"""

import base64
import hashlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import program, why_missing  # noqa: E402
from ensemble import Ensemble, mode_of  # noqa: E402

try:
    import kazoo.client
    import kazoo.exceptions
except ImportError:
    kazoo = None

WAIT_S = 90
CLIENTS = 6
AUTH = ["--auth", "digest:super:secret"]
OPTIONS = ["--electionTimeout", "2000", "--DigestAuthenticationProvider.superDigest",
           "super:" + base64.b64encode(hashlib.sha1(b"super:secret").digest()).decode()]


def run(*words, timeout=120):
    done = subprocess.run([program(), *words], capture_output=True, text=True, timeout=timeout, check=False)
    return done.returncode, done.stdout, done.stderr


def fetch(member, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{member.admin_port}{path}", timeout=WAIT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def wait_for(good, what):
    deadline = time.monotonic() + WAIT_S
    while not good():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Kazoo(threading.Thread):
    """A client of kazoo that begins at one server, keeps an ephemeral node, and writes numbers."""

    def __init__(self, number, hosts):
        super().__init__()
        self.number, self.states, self.error, self.count, self.ended = number, [], None, 0, False
        self.client = kazoo.client.KazooClient(hosts, timeout=20, randomize_hosts=False,
                                               connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 1})
        self.client.add_listener(self.states.append)
        self.client.start(WAIT_S)
        self.session = self.client.client_id[0]
        self.client.create(f"/eph-{number}", ephemeral=True)
        self.client.create(f"/value-{number}", b"0")

    def run(self):
        try:
            while not self.ended:
                self.write(str(self.count + 1).encode())
                self.count += 1
                time.sleep(0.01)
        except Exception as error:  # noqa: BLE001: told by the main thread
            self.error = error

    def write(self, value):
        """Repeats a write whose connection was lost: it sets a value, so twice is as good as once."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                self.client.set(f"/value-{self.number}", value)
                return
            except (kazoo.exceptions.ConnectionLoss, kazoo.exceptions.SessionExpiredError) as error:
                assert isinstance(error, kazoo.exceptions.ConnectionLoss) and time.monotonic() < deadline, repr(error)
                time.sleep(0.02)

    def check(self):
        """After the end: the same session, its node, and the last number."""
        assert self.error is None, self.error
        assert "LOST" not in self.states, self.states
        assert self.client.client_id[0] == self.session
        assert self.client.exists(f"/eph-{self.number}").ephemeralOwner == self.session
        assert self.client.get(f"/value-{self.number}")[0] == str(self.count).encode()


def stop(clients):
    for client in clients:
        client.ended = True
    for client in clients:
        if client.is_alive():
            client.join(WAIT_S)


def connections(member):
    return json.loads(fetch(member, "/members/drain")[1])["clients"]


def test_the_leader_is_emptied_and_restarted():
    with Ensemble(3, options=OPTIONS, admin=True) as ensemble:
        leader, others = ensemble.roles()
        hosts = ",".join(member.host for member in [leader, *others])
        clients = [Kazoo(i, hosts) for i in range(CLIENTS)] if kazoo is not None else []
        holder = subprocess.Popen([program(), "lock", "/lock", "--server", hosts, "--session", "20s", "--", "sleep", "3600"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            for client in clients:
                client.start()
            with zk.Connection(others[0].address, 10000) as link:
                wait_for(lambda: link.call(zk.exists("/lock"))[0] == 0 and link.call(zk.get_children("/lock"))[1]["children"],
                         "the lock is held")
                held = link.call(zk.get_children("/lock"))[1]["children"]
            wait_for(lambda: not clients or connections(leader) >= CLIENTS, "the clients are at the leader")
            code, out, err = run("members", "drain", str(leader.number), "--within", "2s", "--server", hosts, *AUTH)
            assert code == 0 and out == f"server {leader.number} is safe to stop\n", (code, out, err)
            assert mode_of(leader) == "follower" and connections(leader) == 0
            assert fetch(leader, "/readyz") == (503, "not ready: emptied for a restart: it takes no clients\n")
            try:
                with zk.Connection(leader.address, 10000):
                    raise AssertionError("it took a client")
            except zk.Closed:
                pass  # without an answer, so it tries another server
            leader.stop()
            leader.start()
            ensemble.wait_leader(WAIT_S, serving=3)
            wait_for(lambda: fetch(leader, "/readyz")[0] == 200, "the restart ends it")
            stop(clients)
            for client in clients:
                client.check()
            assert holder.poll() is None, "the lock is kept"
            with zk.Connection(others[0].address, 10000) as link:
                assert link.call(zk.get_children("/lock"))[1]["children"] == held, "by the same node"
        finally:
            holder.terminate()
            holder.wait(WAIT_S)
            holder.stderr.close()
            stop(clients)
            for client in clients:
                client.client.stop()
                client.client.close()


def test_undo_and_refusals():
    with Ensemble(3, options=OPTIONS, admin=True) as ensemble:
        leader, (one, two) = ensemble.roles()
        code, _, err = run("members", "drain", str(one.number), "--server", ensemble.hosts)
        assert code == 77 and "HTTP 401" in err, (code, err)
        code, _, err = run("members", "drain", "x", "--server", ensemble.hosts)
        assert code == 64 and "no member's id" in err, (code, err)
        code, _, err = run("members", "drain", "9", "--server", ensemble.hosts, *AUTH)
        assert code == 69 and "it is another server" in err, (code, err)
        with zk.Connection(one.address, 10000):
            code, out, err = run("members", "drain", str(one.number), "--within", "0s", "--json", "--server", ensemble.hosts, *AUTH)
            assert code == 0 and json.loads(out)["safe_to_stop"], (code, out, err)
        code, out, err = run("members", "drain", str(one.number), "--undo", "--server", ensemble.hosts, *AUTH)
        assert code == 0 and out == f"server {one.number} serves again\n", (code, out, err)
        wait_for(lambda: fetch(one, "/readyz")[0] == 200, "it serves again")
        with zk.Connection(one.address, 10000) as link:
            assert link.call(zk.create("/again"))[0] == 0
        two.kill()
        wait_for(lambda: not json.loads(fetch(leader, "/members/drain")[1])["others_have_quorum"], "the loss is noticed")
        code, _, err = run("members", "drain", str(leader.number), "--server", ensemble.hosts, *AUTH)
        assert code == 1 and "no quorum without this one" in err, (code, err)
        assert fetch(leader, "/readyz")[0] == 200


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # kazoo tells each lost connection
    missing = why_missing()
    sys.exit(cases.skip_all(missing) if missing else cases.run(cases.named("test_", globals()), sys.argv[1:]))
