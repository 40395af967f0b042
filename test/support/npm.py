"""Packages of npm for tests, installed once into ~/.cache/conclave/npm.

Promise: raises Skip, with the reason, when node, npm or the registry is not there. A package that is compiled as it is installed
gets the headers beside node.
"""

import os
import shutil
import subprocess

from cases import Skip

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "conclave", "npm")
INSTALL_S = 400  # some compile a C library


def node_prefix():
    """The folder with node's bin; raises Skip."""
    node = shutil.which("node")
    if not node:
        raise Skip("no node (Debian: nodejs)")
    return os.path.dirname(os.path.dirname(os.path.realpath(node)))


def installed(package, version, wanted):
    """The package's folder, with the file that is wanted in it; raises Skip when it cannot be had."""
    home = os.path.join(CACHE, f"{package}-{version}")
    folder = os.path.join(home, "node_modules", package)
    prefix = node_prefix()
    if os.path.exists(os.path.join(folder, wanted)):
        return folder
    if not shutil.which("npm"):
        raise Skip("no npm (Debian: npm)")
    os.makedirs(home, exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", home, f"{package}@{version}"]
    try:
        done = subprocess.run(command, env=dict(os.environ, npm_config_nodedir=prefix), capture_output=True, text=True,
                              timeout=INSTALL_S, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as late:
        raise Skip(f"npm did not install {package} in {INSTALL_S} s") from late
    if done.returncode != 0 or not os.path.exists(os.path.join(folder, wanted)):
        raise Skip(f"npm could not install {package}: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}")
    return folder
