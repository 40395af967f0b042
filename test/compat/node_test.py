#!/usr/bin/env python3
"""Two clients of npm on Apache ZooKeeper and on ours: node-zookeeper-client (pure JavaScript), zookeeper (Apache's C client).

Promise: the same calls of two clients print the same: the tree, watches, ephemerals, ACLs; transactions with the first,
TTLs and big nodes with the second.
Limits: installs the packages with npm into ~/.cache/conclave/npm; skipped where node, npm or the registry is not there.
The second is compiled as it is installed, from sources that it brings, with the headers beside node: without them it is
skipped, as they would be downloaded.
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import pair  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "conclave", "npm")
INSTALL_S = 400  # the second compiles Apache's C client
RUN_S = 60


def node_prefix():
    """The folder with node's bin; raises Skip."""
    node = shutil.which("node")
    if not node:
        raise pair.Skip("no node (Debian: nodejs)")
    return os.path.dirname(os.path.dirname(os.path.realpath(node)))


def installed(package, version, wanted):
    """The package's folder, with the file that is wanted in it; raises Skip when it cannot be had."""
    home = os.path.join(CACHE, f"{package}-{version}")
    folder = os.path.join(home, "node_modules", package)
    prefix = node_prefix()
    if os.path.exists(os.path.join(folder, wanted)):
        return folder
    if not shutil.which("npm"):
        raise pair.Skip("no npm (Debian: npm)")
    os.makedirs(home, exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", home, f"{package}@{version}"]
    try:
        done = subprocess.run(command, env=dict(os.environ, npm_config_nodedir=prefix), capture_output=True, text=True,
                              timeout=INSTALL_S, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as late:
        raise pair.Skip(f"npm did not install {package} in {INSTALL_S} s") from late
    if done.returncode != 0 or not os.path.exists(os.path.join(folder, wanted)):
        raise pair.Skip(f"npm could not install {package}: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}")
    return folder


def run(script, server, folder):
    done = subprocess.run(["node", os.path.join(HERE, script), server.host, folder], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout.splitlines()


def node_zookeeper_client(server):
    return run("node_client.js", server, installed("node-zookeeper-client", "1.1.3", "package.json"))


def native_zookeeper(server):
    if not os.path.exists(os.path.join(node_prefix(), "include", "node", "node.h")):
        raise pair.Skip("no headers of node (Debian: libnode-dev)")
    lines = run("node_native_client.js", server, installed("zookeeper", "7.3.0", os.path.join("build", "zookeeper.node")))
    assert "big: 500000 bytes, same true" in lines, lines
    return lines


if __name__ == "__main__":
    pair.main((node_zookeeper_client, native_zookeeper),
              theirs_only={"properties": {"zookeeper.extendedTypesEnabled": "true"}},
              ours_only={"options": ["--extendedTypesEnabled", "true"]})
