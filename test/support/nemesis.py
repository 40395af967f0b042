"""Three servers with the interface of one; a nemesis restarts one of them at a time.

Promise: `host` names all members, `restart` ends all of them and starts them again; between two restarts of the nemesis
all members serve again, and none is under way while it is held (`with server.calm():`).
Limits: members are killed and stopped in turn, not paused: see test/system/ensemble_test.py.
"""

import contextlib
import random
import threading
import time

from ensemble import Ensemble, four_letters, mode_of


class Nemesis(threading.Thread):
    """Restarts a random member every few seconds, each second time by kill -9."""

    def __init__(self, ensemble, rng, pause_s):
        super().__init__(daemon=True)
        self.ensemble, self.rng, self.pause_s = ensemble, rng, pause_s
        self.hands = threading.RLock()  # held while a member is down
        self.ending = threading.Event()
        self.restarts = self.leaders = 0
        self.error = None

    def run(self):
        try:
            while not self.ending.wait(self.rng.uniform(*self.pause_s)):
                with self.hands:
                    member = self.rng.choice(self.ensemble.members)
                    self.leaders += mode_of(member) == "leader"
                    member.restart(hard=self.restarts % 2 == 1)
                    self.restarts += 1
                    self.ensemble.wait_leader()
        except Exception as error:  # noqa: BLE001: told by alive()
            self.error = error


class RestartedEnsemble:
    """As test/support/server.py's Server, as far as clients' suites use it."""

    def __init__(self, kind, seed, pause_s=(0.3, 1.5), **more):
        self.ensemble = Ensemble(3, kind, **more)
        self.name = kind.name
        self.rng = random.Random(seed)
        self.nemesis = Nemesis(self.ensemble, self.rng, pause_s)

    @property
    def host(self):
        return self.ensemble.hosts

    @property
    def address(self):
        """Of a member that serves, another one each time."""
        while True:
            serving = [member for member in self.ensemble.members if mode_of(member)]
            if serving:
                return self.rng.choice(serving).address
            time.sleep(0.05)

    def start(self):
        self.ensemble.start()
        self.nemesis.start()
        return self

    @contextlib.contextmanager
    def calm(self):
        """Pauses the nemesis: only the caller restarts members; at the start all members serve."""
        with self.nemesis.hands:
            self.ensemble.wait_leader()
            yield

    def restart(self, hard=False):
        with self.nemesis.hands:
            for member in self.ensemble.members:
                member.kill() if hard else member.stop()
            for member in self.ensemble.members:
                member.start()
            self.ensemble.wait_leader()

    def leaders_ended(self):
        """How often a member was restarted that led."""
        return self.nemesis.leaders

    def alive(self):
        return self.nemesis.error is None

    def log_tail(self, length=3000):
        text = f"{self.nemesis.error!r}\n" if self.nemesis.error else ""
        return text + "\n".join(f"--- {member.number} ({four_letters(member.address, b'ruok')})\n"
                                f"{member.log_tail(length)}" for member in self.ensemble.members)

    def destroy(self):
        self.nemesis.ending.set()
        if self.nemesis.is_alive():
            self.nemesis.join()
        self.ensemble.stop()
