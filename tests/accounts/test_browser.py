"""The report in a real browser: Chromium of the distribution, driven by Playwright, without a network."""

import shutil
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest

import vardi

CHROMIUM = shutil.which("chromium")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
if CHROMIUM is None:
    pytest.skip("no chromium on the path: apt install chromium", allow_module_level=True)

NAMES = ["houses", "hostile", "weak", "twenty", "sixty", "engine", "wordy"]
HOSTILE = "<script>alert(1)</script>"
LONG = "average_monthly_expenditure_on_groceries"
DESKTOP, PHONE = {"width": 1180, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Reports of several fits, by name."""
    folder = tmp_path_factory.mktemp("reports")
    rng = np.random.default_rng(0)
    houses = vardi.datasets.house_prices(seed=0)
    frame = pd.DataFrame({HOSTILE: np.arange(60.0), "kind": [HOSTILE] * 30 + ["plain"] * 30})
    halves = {"low": rng.uniform(0, 0.52, 100), "high": rng.uniform(0.5, 1, 100)}
    lazy = {name: pl.from_pandas(_survey(rng)).lazy() for name in "ab"}
    fits = {
        "houses": vardi.debias(houses.samples, houses.biases),
        "hostile": vardi.debias(
            {HOSTILE: frame, "b": frame.assign(**{HOSTILE: frame[HOSTILE] + 0.5})},
            {HOSTILE: f"`{HOSTILE}` >= 0", "b": 1},
        ),
        "weak": vardi.debias(halves, {"low": "x <= 0.52", "high": "x >= 0.5"}),
        "twenty": _many(rng, 20),
        "sixty": _many(rng, 60),
        "wordy": _wordy(rng),
        "engine": vardi.debias(lazy, {"a": 1, "b": "x"}),
    }
    titles = {"houses": "House prices", "hostile": HOSTILE}
    return {name: fit.report(folder / f"{name}.html", title=titles.get(name)) for name, fit in fits.items()}


def _survey(rng):
    kinds = rng.choice(["north", "south", "east"], 150)
    return pd.DataFrame({"x": rng.uniform(1, 3, 150), "sales": np.exp(rng.normal(14, 1, 150)), "region": kinds})


def _many(rng, K):
    """Many samples of every overlap, with long names, large numbers and categories."""
    samples = {f"umbrella sample number {k:02d}": _survey(rng).assign(x=rng.uniform(k, k + 6, 150)) for k in range(K)}
    return vardi.debias(samples, {name: f"{k} <= x <= {k + 6}" for k, name in enumerate(samples)})


def _wordy(rng):
    """Samples and columns with names of forty letters."""
    survey = "telephone_follow_up_of_the_respondents_9"
    samples = {name: _survey(rng).rename(columns={"sales": LONG}) for name in ("Survey of Living Conditions", survey)}
    return vardi.debias(samples, {"Survey of Living Conditions": 1, survey: f"1 + 0 * {LONG}"})


class Opened:
    """A page, and all that it did on the way: messages, errors, dialogs, requests."""

    def __init__(self, page):
        self.page, self.troubles, self.requests = page, [], []
        page.on("console", lambda message: self.troubles.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", lambda request: self.requests.append(request.url))

    def _dialog(self, dialog):
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def opened(browser, path, viewport=DESKTOP, **options):
    context = browser.new_context(viewport=viewport, **options)
    try:
        one = Opened(context.new_page())
        one.page.goto(path.as_uri(), wait_until="load")
        yield one
    finally:
        context.close()


@pytest.fixture(scope="module", params=NAMES)
def shown(request, browser, reports):
    """Each report in a page that several tests look at, for opening one takes longer than what they ask of it."""
    with opened(browser, reports[request.param]) as one:
        one.url = reports[request.param].as_uri()
        yield one


SECTIONS = ["verdict", "overlap", "samples", "changes", "distributions", "sensitivity", "weights", "check", "next"]


def test_it_renders_in_silence_and_asks_for_nothing(shown):
    found = shown.page.evaluate("[...document.querySelectorAll('section')].map(one => one.id)")
    assert [part for part in found if part not in ("categories", "all-samples")] == [*SECTIONS, "reproduce"]
    assert shown.page.locator("h1").is_visible()
    for chart in shown.page.locator("main svg").all()[:12]:
        box = chart.bounding_box()
        assert box is None or (box["width"] > 40 and box["height"] > 10)  # None: folded away
    shown.page.mouse.wheel(0, 3000)
    assert shown.troubles == []
    assert [url for url in shown.requests if not url.startswith("data:")] == [shown.url]


def test_hostile_texts_are_texts(browser, reports):
    with opened(browser, reports["hostile"]) as one:
        page = one.page
        assert page.locator("h1").inner_text() == HOSTILE
        assert page.title() == HOSTILE
        assert page.locator("#samples tbody th").first.inner_text() == HOSTILE
        assert page.locator("#changes tbody th").first.inner_text() == HOSTILE
        assert HOSTILE in page.locator("#categories tbody th").all_inner_texts()
        assert page.locator("script").count() == 1
        page.locator("#overlap circle").first.scroll_into_view_if_needed()
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.locator("#overlap circle").first.hover()
        assert HOSTILE in page.locator(".tip").inner_text()
        assert one.troubles == []


PUT_IN = """() => new Promise(failed => {
    document.addEventListener('error', failed, {capture: true, once: true})  // of the image: its handlers come next
    document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.hit = 1">')
}).then(() => new Promise(requestAnimationFrame))"""


def test_the_policy_stops_what_is_put_in_later(browser, reports):
    with opened(browser, reports["houses"]) as one:
        one.page.evaluate(PUT_IN)
        assert one.page.evaluate("window.hit === undefined")
        assert any("Content Security Policy" in trouble for trouble in one.troubles)


@pytest.fixture(scope="module")
def houses(browser, reports):
    with opened(browser, reports["houses"]) as one:
        yield one


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("#overlap g:has(circle) >> nth=0", "agency: 200 rows"),
        ("#changes .dumb .hit >> nth=0", "MEDV: 19.06 in the pool, 23.22 ± 0.97 in the population"),
        ("#distributions .hit rect >> nth=20", "of the pool"),
        ("#weights .bars .hit >> nth=0", "Weight 0.6834: 259 rows (200 of agency, 59 of national)"),
        ("#samples .pair >> nth=0", "agency: 66.7% of the rows, 45.6% of the weight"),
    ],
)
def test_pointing_shows_a_value(houses, mark, expected):
    page, tip = houses.page, houses.page.locator(".tip")
    assert "shown" not in tip.get_attribute("class")
    page.locator(mark).scroll_into_view_if_needed()
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.locator(mark).hover(force=True)
    assert "shown" in tip.get_attribute("class")
    assert expected in tip.inner_text()
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= DESKTOP["width"]
    page.mouse.move(2, 2)
    assert "shown" not in tip.get_attribute("class")


def test_without_scripts_the_values_are_still_there(browser, reports):
    with opened(browser, reports["houses"], java_script_enabled=False) as one:
        titles = one.page.locator("#weights svg title").all_text_contents()
        assert titles[0].startswith("Weight 0.6834: 259 rows")
        assert one.page.locator("#verdict h2").is_visible()


CHARTS = ".curve, .bars, .shares, .heat"
SPELLED = """[...document.querySelectorAll('.curve, .bars, .shares, .heat')].map(one =>
    ['.x-title', '.y-title'].map(part => (one.querySelector(part) || {}).textContent || ''))"""
COLLIDING = """[...document.querySelectorAll('.curve, .bars, .shares')].filter(one => {
    const boxes = [...one.querySelectorAll('text')].map(text => text.getBoundingClientRect())
    return boxes.some((a, k) => boxes.some((b, l) => k < l && a.left < b.right - 1 && b.left < a.right - 1 &&
        a.top < b.bottom - 3 && b.top < a.bottom - 3))
}).map(one => one.getAttribute('aria-label'))"""


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_chart_has_titled_axes_and_no_text_lies_over_another(shown, viewport):
    shown.page.set_viewport_size(viewport)
    titles = shown.page.evaluate(SPELLED)
    assert len(titles) == shown.page.locator(CHARTS).count() >= 2
    assert all(x and y for x, y in titles)
    assert shown.page.evaluate(COLLIDING) == []


OVERPRINTED = """boxes => boxes.filter((a, k) => boxes.some((b, l) => k < l && a.left < b.right - 1 &&
    b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)).map(box => box.text)"""
BOXES = """[...document.querySelectorAll('.graph g > text')].map(one => {
    const box = one.getBoundingClientRect()
    return {text: one.textContent, left: box.left, right: box.right, top: box.top, bottom: box.bottom}
})"""


@pytest.mark.parametrize("name", ["houses", "twenty", "wordy"])
def test_names_of_a_graph_are_whole_and_apart(browser, reports, name):
    with opened(browser, reports[name]) as one:
        for viewport in (DESKTOP, PHONE):
            one.page.set_viewport_size(viewport)
            boxes = one.page.evaluate(BOXES)
            assert len(boxes) >= 4
            assert one.page.evaluate(OVERPRINTED, boxes) == []
            card = one.page.locator("#overlap").bounding_box()
            assert all(card["x"] <= box["left"] and box["right"] <= card["x"] + card["width"] for box in boxes)


def test_many_samples_have_a_second_page_with_a_search(browser, reports):
    with opened(browser, reports["sixty"]) as one:
        page, second = one.page, one.page.locator("#all-samples")
        assert not second.is_visible()
        page.get_by_text("All 60 samples, in groups").click()
        assert second.is_visible()
        assert not page.locator("#verdict").is_visible()
        assert second.locator("tbody tr:visible").count() == 0
        second.locator("input").fill("NUMBER 07")
        assert second.locator("tbody tr:visible th").all_inner_texts() == ["umbrella sample number 07"]
        assert second.locator("output").inner_text() == "1 sample"
        second.locator("input").fill("")
        assert second.locator(".group:visible").count() == 5
        page.get_by_text("Back to the overview").click()
        assert page.locator("#verdict").is_visible()
        assert not second.is_visible()
        assert one.troubles == []


def test_the_second_page_needs_no_scripts(browser, reports):
    with opened(browser, reports["sixty"], java_script_enabled=False) as one:
        one.page.get_by_text("All 60 samples, in groups").click()
        second = one.page.locator("#all-samples")
        assert second.is_visible()
        assert not second.locator(".search").is_visible()
        second.locator("summary").first.click()
        assert second.locator("tbody tr:visible").count() == 12


@pytest.mark.parametrize("name", NAMES)
def test_a_phone_does_not_scroll_sideways(browser, reports, name):
    with opened(browser, reports[name], PHONE, has_touch=True, is_mobile=True) as one:
        page = one.page
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        page.evaluate("document.querySelectorAll('.second').forEach(one => { one.style.display = 'block' })")
        cut = page.evaluate(
            "[...document.querySelectorAll('td, th')].filter(one => one.scrollWidth > one.clientWidth + 1 && "
            "one.clientWidth > 1).map(one => one.textContent)"
        )
        assert cut == []
        width = page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
        assert width == PHONE["width"]
        beyond = page.evaluate(
            "[...document.querySelectorAll('main *')].filter(one => !one.closest('.scroll, svg, pre, thead') && "
            "one.getBoundingClientRect().right > innerWidth + 1).length"
        )
        assert beyond == 0
        smallest = page.evaluate(
            "Math.min(...[...document.querySelectorAll('.curve text, .bars text, .graph text')].map("
            "one => one.getBoundingClientRect().height))"
        )
        assert smallest >= 11


def luminance(colour):
    channels = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(page, selector, behind):
    ink = luminance(page.evaluate("s => getComputedStyle(document.querySelector(s)).color", selector))
    back = luminance(page.evaluate("s => getComputedStyle(document.querySelector(s)).backgroundColor", behind))
    return (max(ink, back) + 0.05) / (min(ink, back) + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_have_contrast(browser, reports, scheme):
    with opened(browser, reports["weak"], color_scheme=scheme) as one:
        background = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (luminance(background) < 0.1) == (scheme == "dark")
        for selector, behind in [
            ("h1", "body"),
            (".kicker", "body"),
            (".lead", "section"),
            (".note", "section"),
            (".points li", ".points li"),
            (".points li.good", ".points li.good"),
            (".tag", ".tag"),
            ("summary", "section"),
            ("pre", "pre"),
        ]:
            assert contrast(one.page, selector, behind) >= 4.5, selector


@pytest.mark.parametrize("name", ["houses", "sixty"])
def test_it_prints_in_light_colours_with_all_folded_parts(browser, reports, name):
    with opened(browser, reports[name], color_scheme="dark") as one:
        page = one.page
        folded = page.locator("details:not([open])").count()
        assert folded > 0
        assert page.pdf(format="A4", print_background=True).startswith(b"%PDF")
        assert page.locator("details:not([open])").count() == folded  # as it was before
        page.emulate_media(media="print")
        assert luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) > 0.9
        assert luminance(page.evaluate("getComputedStyle(document.body).color")) < 0.1
        assert not page.locator("nav").is_visible()
        assert page.locator("section:visible").count() == page.locator("section").count()
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details:not([open])").count() == 0
        assert one.troubles == []


def test_paper_is_wide_enough_for_tables(shown):
    """What is wider than a page shrinks with all the rest, and cards as on a phone would take many pages."""
    paper = {"width": 696, "height": 1000}  # A4 without its margins
    shown.page.set_viewport_size(paper)
    shown.page.emulate_media(media="print")
    try:
        assert shown.page.evaluate("document.documentElement.scrollWidth") == paper["width"]
        rows = shown.page.evaluate(
            "[...document.querySelectorAll('tbody tr')].map(one => getComputedStyle(one).display)"
        )
        assert set(rows) == {"table-row"}
    finally:
        shown.page.emulate_media(media="screen")


def test_charts_and_tables_are_named(browser, reports):
    with opened(browser, reports["houses"]) as one:
        unnamed = one.page.evaluate(
            "[...document.querySelectorAll('svg')].filter(one => !one.hasAttribute('aria-label') && "
            "!one.closest('[aria-hidden]')).length"
        )
        assert unnamed == 0
        levels = one.page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(one => +one.tagName[1])")
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        assert one.page.evaluate("[...document.querySelectorAll('th')].every(one => one.hasAttribute('scope'))")
        assert one.page.evaluate("document.documentElement.lang") == "en"
