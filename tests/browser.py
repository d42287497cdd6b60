"""A page in headless Chromium, over the DevTools protocol: what it fetches, what it complains of, what it looks like.

    python -m tests.browser compare.html [picture.png] [dark] [height=2000]   # ends with 1 if the page fetched or complained

Needs Debian's `chromium`, and no Python package.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
)  # fmt: skip


class Visit(NamedTuple):
    """requests: what the page asked for beside itself. complaints: errors and warnings of console, scripts and policy."""

    requests: list[str]
    complaints: list[str]
    title: str


def browser() -> str | None:
    """The path of a Chromium; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def visit(
    page: Path, *, picture: Path | None = None, dark: bool = False, size: tuple[int, int] = (1280, 16000), patience: float = 300
) -> Visit:
    """Opens a file. picture: a PNG of the page, of at most this size in pixels. TimeoutError after `patience` seconds."""
    with tempfile.TemporaryDirectory() as profile, _Pipe(profile, patience) as pipe:
        target = pipe.ask("Target.createTarget", url="about:blank")["targetId"]
        pipe.session = pipe.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Network", "Log", "Runtime", "Page"):
            pipe.ask(f"{domain}.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        pipe.ask("Emulation.setEmulatedMedia", features=scheme)
        pipe.ask("Emulation.setDeviceMetricsOverride", width=size[0], height=900, deviceScaleFactor=1, mobile=False)
        address = page.resolve().as_uri()
        pipe.ask("Page.navigate", url=address)
        pipe.wait("Page.loadEventFired")
        pipe.settle(1.0)
        title = pipe.ask("Runtime.evaluate", expression="document.title")["result"]["value"]
        if picture:
            found = pipe.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=_whole(pipe, size))
            picture.write_bytes(base64.b64decode(found["data"]))
        return Visit(_requests(pipe.events, address), list(_complaints(pipe.events)), title)


def _whole(pipe: "_Pipe", size: tuple[int, int]) -> dict:
    height = pipe.ask("Page.getLayoutMetrics")["cssContentSize"]["height"]
    return {"x": 0, "y": 0, "width": size[0], "height": min(height, size[1]), "scale": 1}


def _requests(events: list[dict], address: str) -> list[str]:
    urls = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    return [url for url in urls if url != address and not url.startswith("data:")]


def _complaints(events: list[dict]):
    for event in events:
        values = event["params"]
        if event["method"] == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            yield values["entry"]["text"]
        elif event["method"] == "Runtime.exceptionThrown":
            yield values["exceptionDetails"]["text"]
        elif event["method"] == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            yield " ".join(str(part.get("value")) for part in values["args"])


class _Pipe:
    """A browser that reads commands from its file 3 and writes answers and events to its file 4, each ended by a 0."""

    def __init__(self, profile: str, patience: float):
        self.events: list[dict] = []
        self.session, self.number, self.rest = None, 0, b""
        self.until = time.monotonic() + patience
        read, self.out = os.pipe()
        self.inn, write = os.pipe()
        options = [*QUIET, f"--user-data-dir={profile}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        command = ["bash", "-c", f'exec "$@" 3<&{read} 4>&{write}', "bash", browser(), *options]
        self.process = subprocess.Popen(command, pass_fds=(read, write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read)
        os.close(write)

    def __enter__(self) -> "_Pipe":
        return self

    def __exit__(self, *_) -> None:
        os.close(self.out)  # it ends by itself when nobody can command it any more
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.inn)

    def ask(self, method: str, **params) -> dict:
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(self.until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def wait(self, method: str) -> None:
        while not any(event["method"] == method for event in self.events):
            self._next(self.until)

    def settle(self, seconds: float) -> None:
        """Takes what comes in that time."""
        until = time.monotonic() + seconds
        try:
            while True:
                self._next(until)
        except TimeoutError:
            return

    def _next(self, until: float) -> dict:
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.inn], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            block = os.read(self.inn, 2**20)
            if not block:
                raise RuntimeError(f"the browser has ended with code {self.process.wait()}")
            self.rest += block
        text, _, self.rest = self.rest.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "dark" and not word.startswith("height=")]
    height = next((int(word.partition("=")[2]) for word in sys.argv if word.startswith("height=")), 16000)
    if browser() is None:
        sys.exit(f"no browser here: install one of {', '.join(NAMES)}")
    seen = visit(Path(words[0]), picture=Path(words[1]) if words[1:] else None, dark="dark" in sys.argv, size=(1280, height))
    print(f"{words[0]}: {seen.title!r}, {len(seen.requests)} requests, {len(seen.complaints)} complaints")
    print(*seen.requests, *seen.complaints, sep="\n", end="")
    sys.exit(bool(seen.requests or seen.complaints))
