"""A page in headless Chromium: what it fetches, what it complains of, what it looks like.

    python -m tests.browser compare.html [picture.png] [dark] [height=2000]   # ends with 1 if the page fetched or complained

Needs Debian's `chromium` (or Chrome); Playwright drives it.
"""

import io
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ["--disable-quic", "--disable-dev-shm-usage"]
WRONG = ("error", "warning", "assert")  # kinds of console entries
COLOURS = 64  # of a picture: enough for a page, and a file a third as large


class Visit(NamedTuple):
    """requests: what the page asked for beside itself. complaints: errors and warnings of console, scripts and policy."""

    requests: list[str]
    complaints: list[str]
    title: str


def browser() -> str | None:
    """The path of a Chromium; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def visit(path: Path, *, picture: Path | None = None, dark: bool = False, height: int | None = None) -> Visit:
    """Opens a file. picture: a PNG of the page, at most `height` pixels high (None: all of it)."""
    from PIL import Image  # here: whoever only looks for a browser, as every test process does, needs neither
    from playwright.sync_api import sync_playwright

    address, requests, complaints = path.resolve().as_uri(), [], []
    with sync_playwright() as play:
        sandbox = os.geteuid() != 0  # which root cannot have
        chromium = play.chromium.launch(executable_path=browser(), args=OPTIONS, chromium_sandbox=sandbox)
        page = chromium.new_page(viewport={"width": 1280, "height": 900}, color_scheme="dark" if dark else "light")
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda entry: complaints.append(entry.text) if entry.type in WRONG else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address, wait_until="networkidle")
        title = page.title()
        if picture:
            image = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
            image = image.crop((0, 0, image.width, min(height or image.height, image.height)))
            image.quantize(COLOURS).save(picture, optimize=True)
        chromium.close()
    return Visit([url for url in requests if url != address and not url.startswith("data:")], complaints, title)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "dark" and not word.startswith("height=")]
    wanted = next((int(word.partition("=")[2]) for word in sys.argv if word.startswith("height=")), None)
    if browser() is None:
        sys.exit(f"no browser here: install one of {', '.join(NAMES)}")
    seen = visit(Path(words[0]), picture=Path(words[1]) if words[1:] else None, dark="dark" in sys.argv, height=wanted)
    print(f"{words[0]}: {seen.title!r}, {len(seen.requests)} requests, {len(seen.complaints)} complaints")
    print(*seen.requests, *seen.complaints, sep="\n", end="")
    sys.exit(bool(seen.requests or seen.complaints))
