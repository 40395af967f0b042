"""What the suites of the web console share: one browser, its page, looks and pictures; requests by HTTP; holders of recipes.

Promise: errors in the browser's console are collected and fail the case that calls no_errors. run() skips without Chromium.
"""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time

import browser
import cases
import npm
import zkwire as zk
from conclave import program, why_missing
from ensemble import Ensemble

NODE_EXISTS = -110
PHONE = {"width": 390, "height": 844, "scale": 2}


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


class World:
    """What the cases share: the browser, and servers that are started when they are needed."""
    page = None
    stack = contextlib.ExitStack()
    started = None
    axe = None
    pictures = None  # the folder for those of docs/console.md, or None

    @classmethod
    def ensemble(cls):
        """Three servers, all alive."""
        if cls.started is None:
            cls.started = cls.stack.enter_context(Ensemble(3, admin=True, tick_ms=1000))
        for member in cls.started.members:
            if not member.alive():
                member.start()
        cls.started.wait_leader()
        return cls.started


def url(server, view=""):
    return f"http://127.0.0.1:{server.admin_port}/console{view}"


def open_page(server, view="", **look):
    page = World.page
    page.look(**look)
    page.open("about:blank")
    page.wait("location.href == 'about:blank'")
    page.errors.clear()
    page.open(url(server, view))
    page.wait("document.querySelector('#link')?.dataset.kind == 'live'")
    return page


def no_errors():
    expect(not World.page.errors, f"errors in the browser: {World.page.errors}")


def get(server, path, headers=None, method="GET"):
    link = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=30)
    link.request(method, path, headers=headers or {})
    answer = link.getresponse()
    body = answer.read()
    link.close()
    return answer.status, answer.headers, body


def create(client, path, data=b"", **more):
    err = client.call(zk.create(path, data, **more))[0]
    expect(err in (0, NODE_EXISTS), f"create {path}: {err}")


def picture(name, **look):
    """A picture for docs/console.md of what the page shows now."""
    if World.pictures:
        World.page.look(**{"width": 1080, "height": 720, **look})
        time.sleep(1)  # for the eye, no test waits for it
        World.page.screenshot(os.path.join(World.pictures, name))
        World.page.look()


CONTRAST = """(() => {
  const rgb = (text) => { const c = text.match(/[\\d.]+/g).map(Number); return {c: c.slice(0, 3), a: c.length > 3 ? c[3] : 1}; };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const g = rgb(getComputedStyle(e).backgroundColor); if (g.a > .9) return g.c; } return [255, 255, 255]; };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.data.trim() || e.closest('noscript, .unseen, .skip, button:disabled')) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(rgb(e.closest('svg') ? style.fill : style.color).c), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${node.data.trim()}`);
  }
  return bad;
})()"""



AXE = "4.14.1"  # of npm, package axe-core
AXE_RUN = """axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
  .then((r) => r.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 200)} (${n.failureSummary.slice(0, 300)})`).join(' | ')}`))"""


def axe():
    """The program axe-core, which checks pages against WCAG; raises Skip. Asks npm once."""
    if World.axe is None:
        try:
            with open(os.path.join(npm.installed("axe-core", AXE, "axe.min.js"), "axe.min.js"), encoding="utf-8") as file:
                World.axe = file.read()
        except cases.Skip as missing:
            World.axe = missing
    if isinstance(World.axe, cases.Skip):
        raise World.axe
    return World.axe


def check_access(view):
    """axe-core finds no violation of WCAG A and AA, and of good practice. Raises Skip without axe-core."""
    source = axe()
    if not World.page.eval("typeof axe == 'object'"):
        World.page.eval(f"void (() => {{ {source}\n }})()")
    bad = World.page.eval(AXE_RUN)
    expect(not bad, f"{view}: " + "\n".join(bad or []))


def check_look(view):
    """The contrast of every text is 4.5 or more, nothing is wider than the window, and axe-core finds nothing."""
    with contextlib.suppress(cases.Skip):  # the case themes_and_widths says so
        check_access(view)
    bad = World.page.eval(CONTRAST)
    expect(not bad, f"too little contrast in {view}: {bad}")
    wide = World.page.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    expect(wide <= 0, f"{view} is {wide} pixels wider than its window")


class Holders:
    """`with Holders(server) as holders:` commands that hold or wait until they are ended."""

    def __init__(self, server):
        self.server = server
        self.processes = {}

    def start(self, name, *words):
        self.processes[name] = subprocess.Popen([program(), *words, "--server", self.server.host], stdin=subprocess.PIPE,
                                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self, name):
        process = self.processes.pop(name)
        process.terminate()
        process.stdin.close()
        process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
        for name in list(self.processes):
            self.end(name)


def recipes(server):
    """What /console/recipes lists: {path: recipe}."""
    return {recipe["path"]: recipe for recipe in json.loads(get(server, "/console/recipes")[2])["list"]}


def until(check, what):
    """Waits until check() is true; returns it."""
    deadline = time.monotonic() + browser.WAIT_S
    while not (value := check()):
        expect(time.monotonic() < deadline, f"not in {browser.WAIT_S} s: {what}")
        time.sleep(0.1)
    return value


def labels(recipe, part="holders"):
    return [place["label"] for place in recipe[part]]


def run(the_cases):
    """The words of the command line: --pictures FOLDER, then names of cases."""
    words = sys.argv[1:]
    if words[:1] == ["--pictures"]:
        World.pictures = words[1]
        words = words[2:]
    missing = why_missing() or browser.why_missing()
    if missing:
        return cases.skip_all(missing)
    with World.stack, browser.Browser() as World.page:
        return cases.run(the_cases, words)
