"""Debian's Apache ZooKeeper as a test's server: standalone, a private configuration, a free port.

Promise: as test/support/server.py. Durable as it comes from Debian (forceSync on), JVM flags untouched.
Limits: needs Debian's packages zookeeper and a Java runtime; `why_missing()` says what is not there.
"""

import os
import shutil
import socket
import time

from server import READY_S, Server, free_port

JAR = "/usr/share/java/zookeeper.jar"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
CLIENT_MAIN = "org.apache.zookeeper.ZooKeeperMain"
LOGGER = "/usr/share/java/slf4j-simple.jar"  # writes to stderr; Debian's ZooKeeper brings none

# What the AdminServer needs beside; Debian's ZooKeeper does not bring it.
ADMIN_JARS = [f"/usr/share/java/{name}.jar" for name in (
    "servlet-api", "jetty9-server", "jetty9-servlet", "jetty9-http", "jetty9-io", "jetty9-util", "jetty9-util-ajax",
    "jetty9-security", "jackson-core", "jackson-databind", "jackson-annotations")]


def why_admin_missing():
    """Why its AdminServer cannot run here, or None."""
    missing = [jar for jar in ADMIN_JARS if not os.path.exists(jar)]
    return f"no {missing[0]} (Debian: libjetty9-java, libjackson2-databind-java)" if missing else None


def why_missing():
    """Why Apache ZooKeeper cannot run here, or None."""
    if not shutil.which("java"):
        return "no Java runtime (Debian: default-jre-headless)"
    if not os.path.exists(JAR):
        return f"no {JAR} (Debian: zookeeper)"
    return None


class ZooKeeper(Server):
    """`with ZooKeeper() as server:`; settings are lines of zoo.cfg, properties Java system properties."""

    name = "zookeeper"

    def __init__(self, settings=None, properties=None, tick_ms=2000, admin=False):
        super().__init__()
        self.settings = {"tickTime": tick_ms, "maxClientCnxns": 0, "admin.enableServer": "false",
                         "4lw.commands.whitelist": "*", **(settings or {})}
        self.properties = properties or {}
        self.admin = admin
        self.admin_port = 0

    def command(self):
        if not self.port:
            self.port = free_port()
        if self.admin and not self.admin_port:
            self.admin_port = free_port()
            self.settings.update({"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1",
                                  "admin.serverPort": self.admin_port})
        config = os.path.join(self.folder, "zoo.cfg")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"dataDir={self.folder}/data\nclientPortAddress=127.0.0.1\nclientPort={self.port}\n")
            file.writelines(f"{key}={value}\n" for key, value in self.settings.items())
        return ["java", *(f"-D{key}={value}" for key, value in self.properties.items()),
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp",
                ":".join([JAR, LOGGER, *(ADMIN_JARS if self.admin else [])]), MAIN, config]

    def wait_ready(self):
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if not self.alive():
                self.fail(f"ended with exit code {self.process.poll()}")
            try:
                with socket.create_connection(self.address, timeout=1) as probe:
                    probe.sendall(b"srvr")
                    if b"Mode: standalone" in probe.recv(65536):
                        return
            except OSError:
                pass
            time.sleep(0.02)
        self.fail(f"not ready after {READY_S} s")
