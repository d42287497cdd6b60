"""What stands in two languages says the same in both, and links in the documentation lead somewhere.

What is compared is structure: headings, code, tables, images and links, in their order. The generated table of options stands
in README.md alone.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "README.zh.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
OPTIONS = re.compile(r"^<!-- options:.*?^<!-- end of options -->$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) +(.+)$", re.MULTILINE)
TABLE = re.compile(r"(?:^\|.*\|$\n?)+", re.MULTILINE)
LINK = re.compile(r"(?P<image>!?)\[[^\[\]]*\]\((?P<target>[^()\s]+)\)")
OWN = {"README.md", "README.zh.md", "README.md#all-options", "couplets.md", "couplets.zh.md"}  # links that one of the two has


def read(page: str) -> str:
    """A page without the table of options."""
    return OPTIONS.sub("", (ROOT / page).read_text(encoding="utf-8"))


def prose(page: str) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "``", CODE.sub("", read(page)))


def code(page: str) -> list[str]:
    return CODE.findall(read(page))


def headings(page: str) -> list[tuple[str, str]]:
    """Marks and texts."""
    return HEADING.findall(CODE.sub("", read(page)))


def levels(page: str) -> list[int]:
    return [len(marks) for marks, _ in headings(page)]


def anchors(page: str) -> list[str]:
    """What GitHub calls each heading in a link."""
    return ["#" + re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for _, text in headings(page)]


def tables(page: str) -> list[list[int]]:
    """For each table, how many cells its rows have."""
    return [[row.count("|") - 1 for row in table.splitlines()] for table in TABLE.findall(prose(page))]


def figures(page: str) -> list[list[str]]:
    """For each table, the measured numbers in it, in whatever order the sentences of a language have."""
    return [sorted(re.findall(r"\d+\.\d+", table)) for table in TABLE.findall(prose(page))]


def images(page: str) -> list[str]:
    return [link["target"] for link in LINK.finditer(prose(page)) if link["image"]]


def links(page: str) -> list[str]:
    """Targets of the links that stay in the repository."""
    targets = [link["target"] for link in LINK.finditer(prose(page)) if not link["image"]]
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def places(page: str) -> list[str | int]:
    """Where the links lead: a file, or the number of a heading of this page, whose name differs between languages."""
    own = anchors(page)
    return [own.index(target) if target.startswith("#") else target for target in links(page) if target not in OWN]


@pytest.mark.parametrize("page, other", [("README.md", "README.zh.md"), ("docs/couplets.md", "docs/couplets.zh.md")])
@pytest.mark.parametrize("part", [levels, code, tables, figures, images, places], ids=lambda part: part.__name__)
def test_both_languages_are_equal(part, page, other):
    english = part(page)
    assert english and part(other) == english


def test_each_language_links_to_the_other():
    assert links("README.md")[0] == "README.zh.md" and links("README.zh.md")[0] == "README.md"
    assert "README.md#all-options" in links("README.zh.md")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in links(page) + images(page):
        path, _, anchor = target.partition("#")
        goal = (ROOT / page).parent / path if path else ROOT / page
        assert goal.exists(), target
        assert not anchor or f"#{anchor}" in anchors(goal), target
