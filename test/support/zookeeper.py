"""Debian's Apache ZooKeeper as a test's server: standalone, a private configuration, a free port.

Promise: as test/support/server.py. Durable as it comes from Debian (forceSync on), JVM flags untouched. `VERSION` is
the version that runs: 3.8.0 on Debian 12, 3.9.3 on Debian 13. CONCLAVE_TEST_ZOOKEEPER names the root folder of another
Debian, whose ZooKeeper then runs on this machine's Java: so one machine can compare with both versions.
Limits: needs Debian's packages zookeeper and a Java runtime; `why_missing()` names what is missing.
"""

import os
import re
import shutil
import socket
import time
import zipfile

from server import READY_S, Server, free_port

ROOT = os.environ.get("CONCLAVE_TEST_ZOOKEEPER", "").rstrip("/")
FOLDER = ROOT + "/usr/share/java"
JAR = f"{FOLDER}/zookeeper.jar"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
CLIENT_MAIN = "org.apache.zookeeper.ZooKeeperMain"
LOGGER = f"{FOLDER}/slf4j-simple.jar"  # writes to stderr; Debian's ZooKeeper brings none

CODEC = f"{FOLDER}/netty-codec.jar"  # for TLS between servers; Debian's ZooKeeper does not name it

# Libraries that the AdminServer needs; Debian's ZooKeeper does not contain them.
ADMIN_JARS = [f"{FOLDER}/{name}.jar" for name in (
    "servlet-api", "jetty9-server", "jetty9-servlet", "jetty9-http", "jetty9-io", "jetty9-util", "jetty9-util-ajax",
    "jetty9-security", "jackson-core", "jackson-databind", "jackson-annotations")]




def version_of(jar):
    """(3, 9, 3) from the name of the file behind a link to zookeeper-3.9.3.jar."""
    name = re.search(r"-(\d+)\.(\d+)\.(\d+)\.jar$", os.path.realpath(jar))
    return tuple(int(part) for part in name.groups()) if name else (0, 0, 0)


VERSION = version_of(JAR)


def class_path(*jars):
    """The jars; before them those of ROOT that their manifests name, or Java would take this machine's."""
    found = list(jars)
    for jar in found if ROOT else ():
        with zipfile.ZipFile(jar) as file:
            manifest = file.read("META-INF/MANIFEST.MF").decode().replace("\r", "").replace("\n ", "")
        named = re.search(r"(?m)^Class-Path: (.*)$", manifest)
        for path in named[1].split() if named else ():
            path = ROOT + os.path.join("/usr/share/java", path)
            if path not in found and os.path.exists(path):
                found.append(path)
    return ":".join(reversed(found))


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
                class_path(JAR, LOGGER, CODEC, *(ADMIN_JARS if self.admin else [])), MAIN, config]

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
