"""Phrases that the project no longer uses, as `make lint` looks for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools import banned_phrases


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("they speak for the population", "speak for the population"),
        ("it speaks\n    # for the population", "speaks # for the population"),
        ('"so no loss goes "\n        f"without saying."', 'goes " f"without saying'),
        ("It is for whoever **trains models**", "for whoever **trains"),
        ("an error of 1 or more is no word.", "is no word"),
        ("'national' allows 1,200 rows of 'agency'", "allows 1,200 rows of"),
        ('"errors take "\n    "rows for independent"', 'take " "rows for independent'),
        ("the chance to be\n  drawn", "chance to be drawn"),
        ('def f():\n    """Tell whether it is."""', '"""Tell whether'),
        ("the same, but\n    # for rounding", "but # for rounding"),
        ("from pairs, and else from each", ", and else"),
        ("# Page\n\n## Then\n", "## Then"),
    ],
)
def test_phrases_are_found(text, phrase):
    ((line, found, remedy),) = banned_phrases.found_in(text)
    assert found == phrase
    assert remedy
    assert line == text[: text.index(phrase.split()[0])].count("\n") + 1


@pytest.mark.parametrize(
    "text",
    [
        "## Then and now",
        "no column",
        "Then it ends.",
        "no wording",
        "he told a story",
        "but for a jackknife",
        "if and else",
    ],
)
def test_others_are_not(text):
    assert not list(banned_phrases.found_in(text))


def test_the_project_has_none():
    assert len(list(banned_phrases.files())) > 500
    found = subprocess.run([sys.executable, banned_phrases.__file__], capture_output=True, text=True, check=False)
    assert found.stdout == "No banned phrase.\n"
    assert found.returncode == 0
