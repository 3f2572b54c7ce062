"""Phrases that the project no longer uses, as `make lint` looks for them."""

from __future__ import annotations

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


def test_many_files_are_looked_at():
    assert len(list(banned_phrases.files())) > 500


def test_each_is_printed_with_its_place(tmp_path, monkeypatch, capsys):
    """`make lint` looks through the whole project."""
    page = tmp_path / "page.md"
    page.write_text("Yes.\nIt is no word.\n")
    monkeypatch.setattr(banned_phrases, "ROOT", tmp_path)
    monkeypatch.setattr(banned_phrases, "files", lambda: [page])
    assert banned_phrases.main() == 1
    assert capsys.readouterr().out.startswith("page.md:2: 'is no word': write ")
    page.write_text("Yes.\n")
    assert banned_phrases.main() == 0
    assert capsys.readouterr().out == "No banned phrase.\n"
