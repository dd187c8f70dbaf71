"""The dashboard in a real browser: no complaints, live updates, sort, filter, hover, compare, keys, both colours."""

import re
from urllib.parse import urlencode

import pytest

from detol.dashboards.web.links import search_url, trial_url

from .conftest import ODD

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

PAGES = {
    "searches": "/",
    "search": search_url("live"),
    "many": search_url("first"),
    "trial": trial_url("first", 11),
    "running": trial_url("live", 8),
    "compare": "/compare?a=first/10&b=first/11",
    "empty-compare": "/compare",
    "database": "/database",
    "api": "/api",
}
SHOWN = ("searches", "search", "trial", "compare", "database")
DEVICES = {"laptop": (1280, 800), "phone": (390, 844)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", DEVICES)
def test_every_page_loads_without_complaint_and_fits(visit, device, scheme):
    look = visit(*DEVICES[device], scheme)
    for name, path in PAGES.items():
        page = look.go(path)
        assert page.locator("h1").count() == 1
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{name} is {wide} pixels too wide on a {device}"
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        bright = sum(map(int, re.findall(r"\d+", ground)[:3])) > 380
        assert bright == (scheme == "light")
        if name in SHOWN:
            look.shot(f"{name}-{device}-{scheme}")


def test_a_report_arrives_without_reloading(visit, live):
    look = visit()
    page = look.go(search_url("live"))
    row = page.locator("#running tbody tr").filter(has=page.get_by_role("link", name="8", exact=True))
    expect(row.locator(".progress")).to_contain_text(f"{live.trial.epoch} / 6")
    page.evaluate("window.same = true")
    live.report(0.87654)
    expect(row.locator(".progress")).to_contain_text(f"{live.trial.epoch} / 6")
    expect(row).to_contain_text("0.8765")
    expect(page.locator("#pulse")).to_have_text("live")
    assert page.evaluate("window.same")


def test_a_live_update_leaves_ticks_and_typing_alone(visit, live):
    look = visit()
    page = look.go(search_url("live"))
    page.get_by_label("compare trial 3").check()
    find = page.locator("input[type=search]")
    find.click()
    find.type("half typ")
    live.report(0.9)
    expect(page.locator("#running .progress").filter(has_text=f"{live.trial.epoch} / 6")).to_have_count(1)
    expect(page.get_by_label("compare trial 3")).to_be_checked()
    expect(find).to_have_value("half typ")
    expect(find).to_be_focused()


def test_a_trial_that_runs_is_live_too(visit, live):
    look = visit()
    page = look.go(trial_url("live", 8))
    live.report(0.91)
    expect(page.locator("#head .lead")).to_contain_text("0.9100")


def numbers(page, column):
    return [text.strip() for text in page.locator(f"#table tbody tr > :nth-child({column})").all_inner_texts()]


def test_sorting_by_the_head_of_a_column(visit):
    look = visit()
    page = look.go(search_url("first"))
    assert numbers(page, 2)[0] == "119"
    page.locator("#table thead a", has_text="val accuracy").click()
    values = [float(text) for text in numbers(page, 4)]
    assert values == sorted(values, reverse=True)  # the best first, without being asked
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("val accuracy")
    page.locator("#table thead a", has_text="val accuracy").click()
    values = [float(text) for text in numbers(page, 4)]
    assert values == sorted(values)
    page.locator("thead").get_by_role("link", name="parameters").click()
    assert page.url.count("sort=") == 1
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("parameters")


def test_filtering_by_state_and_text(visit):
    look = visit()
    page = look.go(search_url("first"))
    page.get_by_label("state").select_option("failed")
    expect(page.locator("#table .pager")).to_contain_text("24 trials")
    assert set(numbers(page, 3)) == {"failed"}
    page.locator("input[type=search]").fill("17")
    page.keyboard.press("Enter")
    expect(page.locator("#table .pager")).to_contain_text("trials")
    assert "state=failed" in page.url
    page.locator("input[type=search]").fill("no such thing")
    page.keyboard.press("Enter")
    expect(page.locator("#table")).to_contain_text("No trial passes the filter")


def test_paging_keeps_sort_and_filter(visit):
    look = visit()
    page = look.go(search_url("first") + "&sort=params&order=desc&text=d1")
    page.get_by_role("link", name="next").click()
    for part in ("sort=params", "order=desc", "text=d1", "page=2"):
        assert part in page.url
    expect(page.locator("#table .pager")).to_contain_text("page 2 of")


def test_hovering_says_what_a_dot_is(visit):
    look = visit()
    page = look.go(search_url("first"))
    dot = page.locator("#figures figure").first.locator("circle.best").first
    dot.hover()
    expect(page.locator("#tip")).to_be_visible()
    expect(page.locator("#tip")).to_contain_text(
        re.compile(r"trial \d+: val accuracy 0\.\d+, parameters .* on the front")
    )
    look.shot("hover-laptop-light", whole=False)
    page.mouse.move(2, 400)
    expect(page.locator("#tip")).to_be_hidden()
    dot.click()
    assert "/trial?" in page.url


def test_the_keyboard_reaches_the_front_and_reads_it(visit):
    look = visit()
    page = look.go(search_url("first"))
    link = page.locator("#figures figure").first.locator("a:not([tabindex])").first
    link.focus()
    expect(page.locator("#tip")).to_contain_text("on the front")
    page.keyboard.press("Enter")
    page.wait_for_url("**/trial?**")


def test_a_node_and_its_costs_light_up_together(visit):
    look = visit()
    page = look.go(trial_url("first", 11))
    row = page.locator("tr[data-node]").nth(1)
    name = row.get_attribute("data-node")
    page.locator(f'.topology g[data-node="{name}"] text.k').first.hover()
    expect(row).to_have_class(re.compile("lit"))
    expect(page.locator("#tip")).to_contain_text(name)


def test_comparing_two_ticked_trials(visit):
    look = visit()
    page = look.go(search_url("first"))
    button = page.locator("#compare-two")
    expect(button).to_be_disabled()
    for number in (119, 116, 115):  # a third one replaces the first
        page.get_by_label(f"compare trial {number}").check()
    expect(page.locator("input[name=t]:checked")).to_have_count(2)
    expect(button).to_be_enabled()
    button.click()
    page.wait_for_url("**/compare?a=**")
    assert page.locator(".drawing svg").count() == 2
    marked = page.locator(".topology .added, .topology .removed, .topology .changed").count()
    assert marked > 0
    assert page.locator("table.changes tbody tr").count() > 0


def test_a_child_differs_from_its_parent_where_it_was_mutated(visit, database):
    from detol.graph.difference import difference
    from detol.results.query import Query

    query = Query(database)
    child = next(row for row in query.trials("first", size=200).rows if row.origin == "mutate" and row.number > 5)
    parent = query.lineage(child.trial)[1].trial
    one, two = (query.resolve(ref).trial.candidate.topology for ref in (parent, child.trial))
    found = difference(one, two)
    look = visit()
    page = look.go(f"/compare?{urlencode({'a': parent, 'b': child.trial})}")
    assert page.locator("table.changes tbody tr").count() == len(found.changes)
    drawn = page.locator(".drawing").nth(1).locator("g.n.added, g.n.changed").count()
    assert drawn == len({name for name in found.second[""] if isinstance(name, str)})


def test_keys_find_walk_and_turn(visit):
    look = visit()
    page = look.go(search_url("first"))
    page.keyboard.press("/")
    expect(page.locator("input[type=search]")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="118", exact=True)).to_be_focused()
    page.keyboard.press("k")
    expect(page.get_by_role("link", name="119", exact=True)).to_be_focused()
    page.keyboard.press("]")
    page.wait_for_url("**page=2**")
    page.keyboard.press("[")
    page.wait_for_url(re.compile(r"page=1\b"))


def test_the_first_tab_skips_to_the_content(visit):
    look = visit()
    page = look.go("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_the_choice_of_colours_is_kept(visit):
    look = visit(scheme="light")
    page = look.go("/")
    button = page.locator("#theme")
    for theme in ("light", "dark"):
        button.click()
        expect(button).to_have_attribute("data-theme", theme)
    page = look.go("/database")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_script_in_a_name_does_not_run(visit):
    look = visit()
    page = look.go("/")
    page.get_by_role("link", name=ODD, exact=True).click()
    expect(page.locator("h1")).to_contain_text(ODD)
    assert "owned" not in page.title().replace(ODD, "")
    assert page.locator("main script, main img").count() == 0
    page.locator("#table tbody th a").first.click()
    expect(page.locator("h1")).to_contain_text(ODD)
    assert page.locator("main script, main img").count() == 0
    look.shot("odd-name")


def test_everything_can_be_read_without_scripts(visit):
    look = visit(java_script_enabled=False)
    page = look.go(search_url("first"))
    assert page.locator("#figures svg.chart").count() == 3
    page.get_by_label("state").select_option("stopped")
    page.get_by_role("button", name="filter").click()
    assert "state=stopped" in page.url
    page.locator("input[name=t]").nth(0).check()
    page.locator("input[name=t]").nth(1).check()
    page.get_by_role("button", name="Compare two ticked").click()
    assert page.locator(".drawing svg").count() == 2
