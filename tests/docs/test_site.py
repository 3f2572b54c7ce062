"""The site, as `make docs` builds it, in a real browser: it fits a phone, is silent, and shows no prompts."""

import shutil
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
CHROMIUM = shutil.which("chromium")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path: apt install chromium"),
    pytest.mark.skipif(not (SITE / "searchindex.js").is_file(), reason="the site is not built: make site"),
]
PAGES = (
    "index",
    "faq",
    "compare",
    "paper",
    "guides/index",
    "guides/pooling-surveys",
    "gallery/index",
    "gallery/house_prices",
    "reference/generated/vardi.DebiasedSample",
    "reference/generated/vardi.mbar.MBAR",
)
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1400, "height": 900}
BEYOND = """() => [...document.querySelectorAll('.bd-article *')].filter(one =>
    !one.closest('pre, .formula, .pst-scrollable-table-container') &&
    one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 90))"""
CUT = """() => [...document.querySelectorAll('.bd-article pre')].filter(one =>
    one.scrollWidth > one.clientWidth + 1).map(one => one.innerText.slice(0, 90))"""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module", params=[(PHONE, "dark"), (DESKTOP, "light")], ids=["phone", "desktop"])
def opened(browser, request):
    """Return each page's address, and what was seen there at one width."""
    viewport, scheme = request.param
    context = browser.new_context(viewport=viewport, color_scheme=scheme)
    page = context.new_page()
    troubles, found = [], {}
    page.on("console", lambda said: said.type in {"error", "warning"} and troubles.append(said.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "request",
        lambda asked: asked.url.startswith("file:") or asked.url.startswith("data:") or troubles.append(asked.url),
    )
    for name in PAGES:
        page.goto((SITE / f"{name}.html").as_uri())
        found[name] = {
            "width": page.evaluate("document.documentElement.scrollWidth"),
            "beyond": page.evaluate(BEYOND),
            "cut": page.evaluate(CUT),
            "prompts": page.locator(".session .gp >> visible=true").count(),
            "sessions": page.locator(".session").count(),
            "troubles": troubles.copy(),
        }
        troubles.clear()
    context.close()
    return viewport, found


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_in_silence(opened, name):
    viewport, found = opened
    seen = found[name]
    assert seen["troubles"] == []
    assert seen["width"] == viewport["width"]
    assert seen["beyond"] == []
    assert seen["prompts"] == 0
    assert seen["cut"] == [] or viewport == PHONE  # where wide tables scroll in their box


def test_there_are_sessions(opened):
    assert sum(seen["sessions"] for seen in opened[1].values()) > 10


def test_every_example_can_be_downloaded_as_a_notebook():
    examples = {path.stem for path in (SITE.parents[2] / "examples").rglob("*.py")}
    assert {path.stem for path in SITE.glob("_downloads/*/*.ipynb")} == examples
