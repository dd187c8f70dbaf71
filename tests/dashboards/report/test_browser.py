"""The report in a real browser: no complaints, no requests, hover, click, keys, both colours, both sizes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import NAME, ODD

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
ARTIFACTS = Path(__file__).parents[3] / "artifacts" / "report"
DEVICES = {"laptop": (1280, 800), "phone": (390, 844)}


@pytest.fixture
def visit(browser: Any, reported: Path) -> Iterator[Any]:
    """Open a report; at the end nothing may have been complained about, and nothing asked for but the file."""
    opened, complaints = [], []

    def start(name: str = "first", device: str = "laptop", scheme: str = "light", *, scripts: bool = True) -> Any:
        width, height = DEVICES[device]
        phone = device == "phone"
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
            has_touch=phone,
            is_mobile=phone,
            java_script_enabled=scripts,
        )
        opened.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        address = (reported / f"{name}.html").as_uri()
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.on("request", lambda asked: asked.url != address and complaints.append(f"asks {asked.url}"))
        page.goto(address)
        if scripts:
            page.wait_for_selector("html.ready", state="attached")
        return page

    yield start
    for context in opened:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", DEVICES)
def test_it_is_drawn_fits_and_asks_for_nothing(visit, device, scheme):
    page = visit("first", device, scheme)
    assert page.locator(".chart .main-svg").count() >= 10
    assert page.locator(".chart .wait").count() == 0
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0
    for ground in (
        "getComputedStyle(document.body).backgroundColor",
        "document.querySelector('.main-svg').style.background",
    ):
        bright = sum(map(int, re.findall(r"\d+", page.evaluate(ground))[:3])) > 380
        assert bright == (scheme == "light"), ground
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"report-{device}-{scheme}.png", full_page=True)


def point(page, number):
    """Return where a trial's point lies in the front, in pixels of the window."""
    page.locator("#front").scroll_into_view_if_needed()
    return page.evaluate(
        """number => {
            const chart = document.getElementById("front");
            for (const trace of chart.data) {
                const place = trace.mode === "markers" && trace.customdata ? trace.customdata.indexOf(number) : -1;
                if (place < 0) continue;
                const {xaxis, yaxis} = chart._fullLayout;
                const box = chart.querySelector(".nsewdrag").getBoundingClientRect();
                return [box.x + xaxis.d2p(trace.x[place]), box.y + yaxis.d2p(trace.y[place])];
            }
        }""",
        number,
    )


def pointed(page):
    """Return the trial that the chart says is pointed at; where several lie on one another that is one of them."""
    said = page.locator("#front .hovertext").first.text_content()
    return int(re.match(r"trial (\d+) \(", said)[1])


def test_pointing_shows_the_topology_and_a_click_keeps_it(visit):
    page = visit()
    panel = page.locator("#panel")
    page.mouse.move(*point(page, 2))  # stopped at epoch 3: not the winner, which is shown at first
    expect(page.locator("#front .hovertext")).to_contain_text("stopped at epoch 3")
    number = pointed(page)
    expect(panel.locator("h3")).to_have_text(f"trial {number}, stopped")
    expect(panel.locator("svg.topology")).to_have_count(1)
    page.screenshot(path=ARTIFACTS / "report-hover.png")
    page.mouse.click(*point(page, 2))
    page.mouse.move(*point(page, 0))
    expect(page.locator("#front .hovertext")).to_contain_text("completed at epoch 9")
    expect(panel.locator("h3")).to_have_text(f"trial {number}, stopped")


def test_buttons_open_a_trial_and_turn_the_colours_over(visit):
    page = visit()
    button = page.locator("button.look").first
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.locator("#dialog")
    expect(dialog).to_be_visible()
    expect(dialog.locator("svg.topology")).to_have_count(1)
    expect(dialog.locator("h3")).to_contain_text("trial")
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.wait_for_function(
        "/^rgb\\\\(25, 28, 32/.test(document.querySelector('.main-svg').style.background)".replace("\\\\", "\\")
    )


def test_a_tap_shows_a_trial_on_a_phone(visit):
    page = visit("first", "phone")
    page.touchscreen.tap(*point(page, 2))
    expect(page.locator("#panel h3")).to_contain_text(", stopped")
    expect(page.locator("#panel svg.topology")).to_have_count(1)


def test_strange_names_are_text(visit):
    page = visit("odd")
    assert page.title() == f"{NAME}: detol report"
    assert page.locator("h1").inner_text() == NAME
    assert page.locator("main img, main b, main i").count() == 0
    page.locator("button.look").first.click()
    expect(page.locator("#dialog")).to_contain_text(ODD)
    assert page.locator("#dialog img, #dialog b").count() == 0
    page.keyboard.press("Escape")
    hover = page.evaluate("document.getElementById('front').data.flatMap(t => t.hovertext || []).join()")
    assert "&lt;script&gt;" in hover
    page.mouse.move(*point(page, 0))
    expect(page.locator("#front .hovertext")).to_contain_text("<script>document.title")


def test_its_policy_stops_what_would_have_slipped_through(browser, reported, tmp_path):
    text = (reported / "first.html").read_text()
    bad = '<script>window.owned = 1</script><img src="x" onerror="window.owned = 2"><img src="http://127.0.0.1:9/x">'
    (tmp_path / "bad.html").write_text(text.replace("<main>", f"<main>{bad}"))
    context = browser.new_context()
    page = context.new_page()
    page.goto((tmp_path / "bad.html").as_uri())
    page.wait_for_selector("html.ready", state="attached", timeout=60_000)
    assert page.evaluate("window.owned") is None
    context.close()


def test_without_scripts_the_text_stays(visit):
    page = visit("first", scripts=False)
    expect(page.locator("noscript")).to_have_count(1)
    assert page.locator("#summary svg.topology").count() == 1
    assert page.locator("button.look:visible").count() == 0
