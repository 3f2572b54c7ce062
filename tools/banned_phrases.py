"""Find phrases that this project no longer uses, line breaks and string pieces between their words or not.

``python tools/banned_phrases.py`` prints each with its place and what to write, and ends with 1 where there are some.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

PHRASES = {  # a phrase, as a regular expression in which a space is any gap -> what to write
    "speaks? for the population": "represent the population",
    "for whoever trains": "use it if you train models",
    r"(is|says|here|:) no word\b": "vacuous",
    "allows [0-9,]+ rows? of": "200 of agency's rows could also have come from national",
    r"\bnot told\b": "not identified by the samples",
    "function of ours": "an arbitrary function",
    "goes without saying": "default",
    "can count so": "such weights are invalid",
    r"\bunsaid\b": "silently",
    "the word to fear": "the cases to worry about",
    "knows biases only": "has only biases",
    r"cannot mend\b": "cannot correct",
    r"(a physicist's|to a physicist)\b": "in physics",
    "joined least firmly": "the weakest link",
    r"takes? \w+ for (independent|known|counts|declared)\b": "treat rows as independent",
    "in the order of time": "in time order",
    "chance to be (seen|drawn|measured)": "chance of being drawn",
    r"nothing tells\b": "it is unknown how",
    r"several of their like\b": "rows with counts",
    "Most apart": "largest discrepancy",
    r"\bwhich is no (sample|column|category)\b": "which is not a sample",
    r"\bis dear to\b": "is expensive to",
    '"{3}Tells? (whether|which|where|how|on)\\b': "Return whether",
    "where they are what": "with the type in each",
    r"refuses? what is no\b": "raise if it is not a name",
    r"\bbut for (rounding|chance|theta|factors|the gauge|what|a (constant|factor))\b": "up to rounding; except for",
    r", and else\b": "otherwise",
    r"as a person reads (it|them)\b": "as readable text",
    r"(small|large) for a number\b": "underflows; overflows",
    r"(one step does|these do) not do\b": "is not enough",
    r"intervals? (is|are) made by\b": "the law of the interval",
}
HEADINGS = ("Nearly", "Then", "What crosses")
HEADING = "what the section holds"

ROOT = Path(__file__).resolve().parents[1]
PLACES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    "SECURITY.md",
    "docs",
    "examples",
    "benchmarks",
    "paper",
    "src",
    "tests",
)
KINDS = {".py", ".md", ".toml", ".html", ".j2", ".css", ".js"}
MADE = ("docs/_build", "docs/_generated", "docs/gallery", "docs/reference/generated")
ITSELF = "tests/package/test_phrases.py"

GAP = r"""(?:[\s*#>|]|["']\s*f?["'])+"""  # between words: white space, marks of comments and of Markdown, string pieces
PATTERN = "|".join(f"(?P<p{place}>{phrase.replace(' ', GAP)})" for place, phrase in enumerate(PHRASES))
BANNED = re.compile(rf"{PATTERN}|^#+ (?P<heading>{'|'.join(HEADINGS)})$", re.IGNORECASE | re.MULTILINE)


def found_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, phrase and what to write for each banned phrase of a text."""
    for match in BANNED.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        kind = next(name for name, text_of in match.groupdict().items() if text_of is not None)
        remedy = HEADING if kind == "heading" else list(PHRASES.values())[int(kind[1:])]
        yield line, " ".join(match.group().split()), remedy


def files() -> Iterator[Path]:
    """Yield the files that are looked at."""
    for place in (ROOT / name for name in PLACES):
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            inside = path.relative_to(ROOT).as_posix()
            if path.suffix in KINDS and inside != ITSELF and not inside.startswith(MADE):
                yield path


def main() -> int:
    """Print what was found, and return the code to end with."""
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {phrase!r}: write {remedy!r}"
        for path in files()
        for line, phrase, remedy in found_in(path.read_text(encoding="utf-8"))
    ]
    print("\n".join(found) if found else "No banned phrase.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
