"""Runs link_client: a client of the library whose link and log lines a test looks at."""

import os
import subprocess
import tempfile
import time

PROGRAM = os.path.join(os.environ.get("CONCLAVE_BUILD", "build"), "test", "system", "link_client")
WAIT_S = 60


class LinkClient:
    """`with LinkClient(servers) as client:`; everything that it wrote is in text()."""

    def __init__(self, servers, *tls):
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen([PROGRAM, servers, *tls], stdin=subprocess.PIPE, stdout=self.output,
                                        stderr=subprocess.STDOUT)

    def text(self):
        return os.pread(self.output.fileno(), 1 << 20, 0).decode()

    def wait(self, good, since=0, what=None):
        """Waits until good(text behind `since`) is true, and returns that."""
        deadline = time.monotonic() + WAIT_S
        while True:
            answer = good(self.text()[since:])
            if answer:
                return answer
            assert self.process.poll() is None and time.monotonic() < deadline, f"{what}:\n{self.text()}"
            time.sleep(0.02)

    def ask(self, line):
        """One line of input, and the words of its answer without the first."""
        word = line.split()[0]
        since = len(self.text())
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

        def answers(text):
            return [row.split()[1:] for row in text.split("\n")[:-1] if row.startswith(word + " ")]
        return self.wait(answers, since, line)[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            assert self.process.wait(WAIT_S) == 0, self.text()
        finally:
            self.process.kill()
            self.process.wait()
            self.output.close()
