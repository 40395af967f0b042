"""Debian's Chromium without a window, for tests of web pages: its DevTools protocol over two pipes.

Promise: one browser process with one page; waits have a limit and fail with what the page shows; errors of the page
(exceptions, console.error, refused loads) are collected in `errors`. Ends with the test program.
Limits: Chromium itself may be slow on a busy machine: WAIT_S is generous. Needs no package of Python.
"""

import atexit
import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

WAIT_S = 60
NAMES = ("chromium", "chromium-browser", "google-chrome")
KEYS = {"Tab": 9, "Enter": 13, "Backspace": 8, "ArrowUp": 38, "ArrowDown": 40, "Home": 36, "End": 35}


def why_missing():
    """Why there is no browser, or None."""
    return None if any(map(shutil.which, NAMES)) else "no Chromium: apt-get install chromium"


class Browser:
    """`with Browser() as page:`."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="conclave-test-browser-")
        self.process = None
        self.session = None
        self.number = 0
        self.bytes = bytearray()
        self.errors = []
        atexit.register(self.close)

    def __enter__(self):
        program = next(filter(None, map(shutil.which, NAMES)))
        to_read, self.to_write = os.pipe()
        self.to_read, to_write = os.pipe()

        def pipes():  # the browser reads descriptor 3 and writes 4
            copies = os.dup(to_read), os.dup(to_write)
            os.dup2(copies[0], 3)
            os.dup2(copies[1], 4)
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                 "--force-color-profile=srgb", f"--user-data-dir={self.folder}/profile", "--remote-debugging-pipe", "about:blank"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=pipes, close_fds=False,
                env={**os.environ, "HOME": self.folder})
        os.close(to_read)
        os.close(to_write)
        try:
            deadline = time.monotonic() + WAIT_S
            pages = []
            while not pages:
                targets = self.call("Target.getTargets")["targetInfos"]
                pages = [target["targetId"] for target in targets if target["type"] == "page"]
                assert time.monotonic() < deadline, "the browser opens no page"
            self.session = self.call("Target.attachToTarget", targetId=pages[0], flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
            os.close(self.to_write)
            os.close(self.to_read)
        for _ in range(50):  # its helpers end a moment later, and may still write
            shutil.rmtree(self.folder, ignore_errors=True)
            if not os.path.exists(self.folder):
                break
            time.sleep(0.1)

    # The protocol

    def _receive(self, deadline):
        """The next message; None at the deadline."""
        while b"\0" not in self.bytes:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.to_read], [], [], left)[0]:
                return None
            part = os.read(self.to_read, 1 << 20)
            if not part:
                with open(os.path.join(self.folder, "log"), "rb") as log:
                    raise RuntimeError(f"the browser ended: {log.read()[-1000:]}")
            self.bytes += part
        text, _, rest = bytes(self.bytes).partition(b"\0")
        self.bytes = bytearray(rest)
        return json.loads(text)

    def _note(self, message):
        """Collects errors."""
        what, told = message.get("method"), message.get("params", {})
        if what == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif what == "Runtime.consoleAPICalled" and told["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(arg.get("value", arg.get("description"))) for arg in told["args"]))
        elif what == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + WAIT_S
        while answer := self._receive(deadline):
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)
        raise AssertionError(f"{method}: no answer in {WAIT_S} s")

    # The page

    def open(self, url):
        self.call("Page.navigate", url=url)

    def eval(self, expression):
        """The value of a JavaScript expression; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def wait(self, expression, seconds=WAIT_S):
        """Waits until the expression is true; returns its value."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(AssertionError):  # while another page loads
                if value := self.eval(expression):
                    return value
            time.sleep(0.05)
        raise AssertionError(f"not true after {seconds} s: {expression}\nThe page:\n{self.text()[:2000]}\nErrors: {self.errors}")

    def text(self):
        return self.eval("document.body ? document.body.innerText : ''")

    def wait_text(self, text):
        self.wait(f"document.body.innerText.includes({json.dumps(text)})")

    def press(self, key, shift=False):
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 if shift else 0}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def look(self, width=1280, height=900, dark=False, scale=1):
        """The size of the window, and the theme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def screenshot(self, path):
        picture = self.call("Page.captureScreenshot", format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))
