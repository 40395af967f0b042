"""Checks the permissions of others on the nodes that a command has made.

Promise: `foreign` reads every node of a branch with the operator's credentials, and so also nodes that others cannot read.
"""

import base64
import hashlib

import zkwire as zk

CREDENTIALS = "op:secret"
WORDS = ("--auth", "digest:" + CREDENTIALS, "--acl", "auth")  # all to the operator, nothing to others
ALL = 31


def _branch(client, path):
    yield path
    err, fields = client.call(zk.get_children(path))
    for name in fields["children"] if err == 0 else []:
        yield from _branch(client, path.rstrip("/") + "/" + name)


def foreign(address, path, least):
    """The nodes at path and below, of which there must be `least`, that others than the operator may use."""
    hashed = base64.b64encode(hashlib.sha1(CREDENTIALS.encode()).digest()).decode()
    own = [(ALL, "digest", f"{CREDENTIALS.split(':', maxsplit=1)[0]}:{hashed}")]
    with zk.Connection(address) as client:
        err, _ = client.call(zk.auth("digest", CREDENTIALS.encode()))
        assert err == 0, err
        nodes = list(_branch(client, path))
        assert len(nodes) >= least, nodes
        answers = [(node, *client.call(zk.get_acl(node))) for node in nodes]
        return [answer for answer in answers if answer[1] == 0 and list(map(tuple, answer[2]["acl"])) != own]
