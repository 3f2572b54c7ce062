"""What a notebook shows of each result: the text, escaped, in boxes that are no wider than the cell."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from pools import HOSTILE, MANY_SAMPLES, hostile_fit
from sklearn.linear_model import LinearRegression

import vardi
from vardi.learn import inference


class Tags(HTMLParser):
    """The elements of a fragment, each with those it stands in; it fails where they are not nested."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.text = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, tuple(self.open)))
        if tag != "br":
            self.open.append((tag, dict(attributes).get("style", "")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        self.text.append(data)

    @property
    def names(self):
        return {tag for tag, _ in self.found}


@pytest.fixture(scope="module")
def fit():
    return hostile_fit()


def results(fit):
    x, y = fit.solved.pool.frames[0].column("x"), f"`{HOSTILE}`"
    yield "Estimate", fit.expectation(y)
    yield "Estimates", fit.expectations(np.column_stack([np.tile(x, MANY_SAMPLES) ** k for k in range(1, 26)]))
    yield "Diagnostics", fit.diagnostics()
    yield "BiasCheck", fit.check_biases()
    yield "Bootstrap", fit.bootstrap([y, "x"], n=20)
    yield "Verdict", fit.identify()
    yield "Sensitivity", fit.sensitivity(y, [1, 1.5])
    yield "Domains", fit.expectation("x", by="kind")
    yield "KnownCheck", fit.known
    yield "Bounds", vardi.debias({"a": x, "b": x[:30] + 0.1}, {"a": 1, "b": "x"}).bounds()
    yield "ModelInference", inference(fit, LinearRegression(), ["x"], y)
    yield "DebiasedSample", fit


def test_every_result_has_a_picture_of_its_own(fit):
    for name, result in results(fit):
        assert type(result).__name__ == name
        html = result._repr_html_()
        page = Tags(html)
        assert page.names <= {
            "div", "p", "b", "br", "table", "thead", "tbody", "tr", "th", "td", "caption", "code", "details", "summary",
        }  # fmt: skip
        assert HOSTILE not in html
        assert html.startswith('<div style="max-width:100%;overflow-wrap:break-word">')
        for tag, parents in page.found:
            assert tag != "table" or parents[-1] == ("div", "overflow-x:auto;margin:0.5em 0")


def test_the_numbers_are_those_of_the_text(fit):
    for name, result in results(fit):
        if name not in ("DebiasedSample", "Bounds"):
            shown = " ".join(" ".join(Tags(result._repr_html_()).text).split())
            for number in str(result).replace("(", " ").replace(")", " ").replace(",", " ").split():
                if number.replace(".", "").isdigit() and len(number) > 3:
                    assert number in shown.replace(",", " "), (name, number)


def test_samples_after_the_twentieth_are_folded_and_not_dropped(fit):
    for result in (fit, fit.diagnostics(), fit.check_biases()):
        html = unescape(result._repr_html_())
        screen, folded = html.split("<details><summary>3 more samples</summary>")
        folded = folded.split("</details>")[0]
        assert screen.count(f">{HOSTILE} ") == 20
        assert folded.count(f">{HOSTILE} ") == 3
    estimates = fit.expectations(np.ones((MANY_SAMPLES * 60, 25)))._repr_html_()
    assert "<summary>5 more estimates</summary>" in estimates


def test_an_estimate_shows_as_it_prints():
    estimate = vardi.Estimate(23.2157, 0.9712)
    assert repr(estimate) == str(estimate) == "23.22 ± 0.97 (95%: 21.31 to 25.12)"
    assert "<p><b>23.22</b> ± 0.97 (95%: 21.31 to 25.12)</p>" in estimate._repr_html_()
    several = vardi.Estimates(np.array([1.0, 2.0]), np.diag([0.01, 0.04]))
    assert repr(several) == "1.00 ± 0.10 (95%: 0.80 to 1.20)\n2.00 ± 0.20 (95%: 1.61 to 2.39)"
    row = re.sub(' style="[^"]*"', "", several._repr_html_())
    assert "<tr><th>1</th><td>2.00</td><td>0.20</td><td>1.61 to 2.39</td></tr>" in row


def test_a_check_that_cannot_be_made_says_why():
    one = vardi.debias({"a": np.arange(1.0, 9.0)}, {"a": "x"}).check_biases()
    assert "<p>The declared biases cannot be tested: " in one._repr_html_()
    assert "<table" not in one._repr_html_()
