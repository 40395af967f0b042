#!/usr/bin/env python3
"""A client that follows the ensemble's configuration (follow_ensemble), while members leave and come back.

Promise: real ensembles on loopback, ours and Apache's. The client knows one member at first and learns of the others. The
member that it is connected to is removed: it goes on at another one in the same session, and every read succeeds. When
the member is back, it is in the list again.
Limits: members keep their addresses.

usage: follow_test.py [NAME...]
"""

import contextlib
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zkwire as zk  # noqa: E402
import zookeeper  # noqa: E402
from conclave import why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble, ZooKeeperMember  # noqa: E402
from link_client import LinkClient  # noqa: E402

WAIT_S = 60
OURS = {"kind": ConclaveMember,
        "options": ["--reconfigEnabled", "true", "--skipACL", "yes", "--standaloneEnabled", "false"]}
APACHE = {"kind": ZooKeeperMember, "settings": {"reconfigEnabled": "true", "standaloneEnabled": "false"},
          "properties": {"zookeeper.skipACL": "yes"}}


def lists(text):
    """The lists of servers that the client took, in order."""
    return [set(row.split(",")) for row in re.findall(r"new list of servers servers=(\S+)", text)]


def change(ensemble, member, **what):
    """A reconfig at another member; it is made again while an election or another change is under way."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            with zk.Connection(member.address, 10000) as link:
                err, _ = link.call(zk.reconfig(**what))
        except (zk.Closed, OSError):
            err = None
        if err == 0:
            return
        assert time.monotonic() < deadline, (what, err)
        time.sleep(0.1)


def line_of(witness, member):
    """A member's line of the configuration, as a witness shows it."""
    with zk.Connection(witness.address, 10000) as link:
        text = link.call(zk.get_data("/zookeeper/config"))[1]["data"].decode()
    return next(line for line in text.split("\n") if line.startswith(f"server.{member.number}="))


def follow(kind):
    with contextlib.ExitStack() as stack:
        ensemble = stack.enter_context(Ensemble(3, **kind))
        for member in ensemble.members:
            line = line_of(member, member)
            if ";" not in line:  # Apache's file has the port elsewhere
                change(ensemble, member, joining=f"{line};0.0.0.0:{member.port}")
        client = stack.enter_context(LinkClient(ensemble.members[0].host))
        members = {member.host: member for member in ensemble.members}
        everybody = set(members)
        client.wait(lambda text: lists(text)[-1:] == [everybody], what="it learns of all members")
        linked = client.ask("read")
        assert linked[0] == "OK", linked
        first = members[linked[1]]
        witness = next(member for member in ensemble.members if member is not first)
        line = line_of(witness, first)
        change(ensemble, witness, leaving=str(first.number))
        since = len(client.text())
        client.wait(lambda text: lists(text)[-1:] == [everybody - {first.host}], what="it learns that one has left")

        def moved(_):
            error, server = client.ask("read")
            assert error == "OK", error
            return server in everybody - {first.host}
        client.wait(moved, what="it moves to another")
        change(ensemble, witness, joining=line)
        client.wait(lambda text: lists(text)[-1:] == [everybody], since, "it learns that one is back")
        assert client.ask("read")[0] == "OK"
        assert "state=LOST" not in client.text() and client.text().count("state=CONNECTED") == 1, client.text()


def test_ours():
    follow(OURS)


def test_apache():
    missing = zookeeper.why_missing()
    if missing:
        raise cases.Skip(missing)
    follow(APACHE)


def main():
    if why_missing():
        return cases.skip_all(why_missing())
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
