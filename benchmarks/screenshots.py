"""Pictures of each page of the dashboard while a search runs on Ray, to look at (Reach 3 of issue 7).

A short search by random sampling is over first, so that there are two. Then ``detol search`` on digits with one worker
and two objectives runs in the background, and ``detol dashboard`` beside it; Debian's Chromium opens every page as a
laptop and as a phone shows it, light and dark. Printed: how long the page of the search had to wait for the next epoch
without being loaded again, complaints of the browser (errors on the console, scripts that failed, requests to
elsewhere), and the pages that are wider than the screen.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from common import arguments, conclude, spread

from detol.results.query import Query
from detol.results.store import Database

DEVICES = {"laptop": (1280, 800), "phone": (390, 844)}
SCHEMES = ("light", "dark")
SPACE = "image_dag"


def search(db: Path, name: str, *flags: str) -> list[str]:
    """Return the command of a search on digits."""
    common = ["--data", "digits", "--space", SPACE, "--objective", "val_accuracy", "--objective", "params:min"]
    return [
        sys.executable, "-m", "detol", "search", "--name", name, "--db", str(db), "--tracking", "off", *common, *flags
    ]  # fmt: skip


@contextmanager
def background(command: list[str], log: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run a command; Ctrl-C ends it when the block ends."""
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def under_way(db: Path, name: str, ended: int, process: "subprocess.Popen[str]", log: Path) -> None:
    """Wait until so many trials of a search have ended, and another runs."""
    while True:
        if process.poll() is not None:
            raise SystemExit(f"the search is over before it was looked at: {log.read_text(encoding='utf-8')[-500:]}")
        if db.exists():
            with Database(db) as database:
                rows = {row.name: row for row in Query(database).searches()}
                if name in rows:
                    states = Query(database).counts(name)["state"]
                    if states.get("running", 0) and sum(states.values()) - states["running"] >= ended:
                        return
        time.sleep(0.5)


def address(log: Path) -> str:
    """Wait until the dashboard says where it is."""
    while not (found := re.search(r"(http://\S+)", log.read_text(encoding="utf-8"))):
        time.sleep(0.1)
    return found[1]


class Browser:
    """A browser that collects complaints and takes pictures into a folder."""

    def __init__(self, playwright: Any, site: str, folder: Path) -> None:
        found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if found is None:
            raise SystemExit("no Chromium here: apt-get install chromium")
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        self._browser = playwright.chromium.launch(executable_path=found, args=options)
        self._site, self._folder = site, folder
        self.complaints: list[str] = []
        self.too_wide: list[str] = []
        self.taken = 0

    def page(self, width: int, height: int, scheme: str) -> Any:
        """Open an empty page."""
        context = self._browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        page = context.new_page()
        page.on("console", lambda said: said.type == "error" and self.complaints.append(f"{page.url}: {said.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        page.on(
            "request", lambda asked: asked.url.startswith(self._site) or self.complaints.append(f"asks {asked.url}")
        )
        return page

    def shots(self, db: Path) -> None:
        """Take a picture of each page on each device in each scheme."""
        for device, size in DEVICES.items():
            for scheme in SCHEMES:
                page = self.page(*size, scheme)
                for name in looked_at(db):
                    page.goto(self._site + looked_at(db)[name].lstrip("/"))  # what runs is another one by now
                    self._shot(page, f"{name}-{device}-{scheme}")
                page.context.close()

    def hover(self, path: str) -> None:
        """Take a picture of a search with the pointer on a dot of its front."""
        for scheme in SCHEMES:
            page = self.page(*DEVICES["laptop"], scheme)
            page.goto(self._site + path.lstrip("/"))
            page.locator("#figures figure").first.locator("circle.best").first.hover()
            page.locator("#tip").wait_for(state="visible")
            page.screenshot(path=self._folder / f"hover-laptop-{scheme}.png")
            self.taken += 1
            page.context.close()

    def waits(self, path: str, count: int) -> list[float]:
        """Return the seconds until what a live page shows of its running trials changed, so many times."""
        page = self.page(*DEVICES["laptop"], "light")
        page.goto(self._site + path.lstrip("/"))
        page.evaluate("window.same = true")
        waited = []
        for _ in range(count):
            before, began = page.locator("#running").inner_text(), time.perf_counter()
            page.wait_for_function("text => document.querySelector('#running').innerText != text", arg=before)
            waited.append(time.perf_counter() - began)
        if not page.evaluate("window.same"):
            raise SystemExit("the page was loaded again")
        page.context.close()
        return waited

    def _shot(self, page: Any, name: str) -> None:
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            self.too_wide.append(name)
        page.screenshot(path=self._folder / f"{name}.png", full_page=True)
        self.taken += 1


def looked_at(db: Path) -> dict[str, str]:
    """Return the pages: of the searches that are there now, and of their trials."""
    with Database(db) as database:
        rows = Query(database).trials("live", descending=True, size=100).rows
        ended = [row for row in rows if row.epoch and row.state != "running"]
        running = next((row for row in rows if row.state == "running"), rows[0])
        child = next((row for row in ended if row.origin not in ("sample", "reference")), ended[0])
        parents = [line.trial for line in Query(database).lineage(child.trial)[1:]]
        other = parents[0] if parents else next(row.trial for row in ended if row.trial != child.trial)
    return {
        "searches": "/",
        "search": "/search?name=live",
        "search-sorted": "/search?name=live&sort=value&order=desc&state=completed",
        "search-over": "/search?name=over",
        "trial": f"/trial?{urlencode({'ref': child.trial})}",
        "trial-running": f"/trial?{urlencode({'ref': running.trial})}",
        "compare": f"/compare?{urlencode({'a': other, 'b': child.trial})}",
        "compare-empty": "/compare",
        "database": "/database",
        "api": "/api",
        "missing": "/search?name=nothing",
    }


def main() -> None:
    """Search, look, print."""
    from playwright.sync_api import sync_playwright

    parser = arguments(__doc__ or "")
    parser.add_argument("--to", type=Path, default=Path("artifacts/live"), help="folder of the pictures")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    trials, ended, waits = (4, 3, 2) if options.quick else (12, 20, 5)
    with tempfile.TemporaryDirectory(prefix="detol-") as name:
        folder = Path(name)
        db, logs = folder / "results.db", {one: folder / f"{one}.log" for one in ("live", "dashboard")}
        quiet = {"check": True, "capture_output": True}
        over = search(db, "over", *f"--strategy random --trials {trials} --epochs 3 --executor inline".split())
        subprocess.run(over, **quiet)
        # What is embedded has its nearest shown.
        subprocess.run([sys.executable, "-m", "detol", "results", "similar", "over", "--db", str(db)], **quiet)
        given = "--strategy nsga2 --set strategy.population=6 --trials 400 --epochs 9 --workers 1"
        live = search(db, "live", *given.split())
        serve = [sys.executable, "-m", "detol", "dashboard", "--port", "0", "--db", str(db)]
        with background(live, logs["live"]) as process, background(serve, logs["dashboard"]):
            under_way(db, "live", ended, process, logs["live"])
            with sync_playwright() as playwright:
                browser = Browser(playwright, address(logs["dashboard"]), options.to)
                waited = browser.waits("/search?name=live", waits)
                browser.shots(db)
                browser.hover("/search?name=live")
            alive = process.poll() is None
    complaints = [one for one in browser.complaints if "nothing" not in one]  # 404 is what that page is for
    figures = {
        "benchmark": "screenshots",
        "quick": options.quick,
        "pictures": browser.taken,
        "search_alive_at_the_end": alive,
        "seconds_to_the_next_change": spread(waited),
        "complaints": complaints,
        "wider_than_the_screen": browser.too_wide,
    }
    conclude(figures, options.json)


if __name__ == "__main__":
    main()
