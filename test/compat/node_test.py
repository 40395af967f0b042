#!/usr/bin/env python3
"""Two clients of npm on Apache ZooKeeper and on ours: node-zookeeper-client (pure JavaScript), zookeeper (Apache's C client).

Promise: the same calls of two clients print the same: the tree, watches, ephemerals, ACLs; transactions with the first,
TTLs and big nodes with the second.
Limits: installs the packages with npm into ~/.cache/conclave/npm; skipped where node, npm or the registry is not there.
The second is compiled as it is installed, from sources that it brings, with the headers beside node: without them it is
skipped, as they would be downloaded.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import npm  # noqa: E402
import pair  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
RUN_S = 60


def run(script, server, folder):
    done = subprocess.run(["node", os.path.join(HERE, script), server.host, folder], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout.splitlines()


def node_zookeeper_client(server):
    return run("node_client.js", server, npm.installed("node-zookeeper-client", "1.1.3", "package.json"))


def native_zookeeper(server):
    if not os.path.exists(os.path.join(npm.node_prefix(), "include", "node", "node.h")):
        raise pair.Skip("no headers of node (Debian: libnode-dev)")
    lines = run("node_native_client.js", server, npm.installed("zookeeper", "7.3.0", os.path.join("build", "zookeeper.node")))
    assert "big: 500000 bytes, same true" in lines, lines
    return lines


if __name__ == "__main__":
    pair.main((node_zookeeper_client, native_zookeeper),
              theirs_only={"properties": {"zookeeper.extendedTypesEnabled": "true"}},
              ours_only={"options": ["--extendedTypesEnabled", "true"]})
