"""Lines of stdin are read as those of a file are."""

import io
import sys

import pytest
from omegaconf import OmegaConf

from data.errors import DuetError
from tasks.lines import lines_of, piped, terminal_asks


def stdin(monkeypatch, content, **options):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    return OmegaConf.create({"input": None, "output": None, "format": "text", **options})


@pytest.mark.parametrize(
    "content, options, lines",
    [
        (b"\xef\xbb\xbfone\r\n\n\xef\xbb\xbftwo", {}, ["one", "", "\ufefftwo"]),
        ("one\u2028two\x0c\n".encode(), {}, ["one\u2028two\x0c"]),
        (b"en\tde\none\teins\n", {"column": "de"}, ["eins"]),
        (b"one\teins\n", {"column": 0}, ["one"]),
        (b"", {}, []),
    ],
)
def test_what_stdin_gives(monkeypatch, tmp_path, content, options, lines):
    config = stdin(monkeypatch, content, **options)
    assert list(lines_of(config)) == lines and not terminal_asks(config)
    (tmp_path / "in.txt").write_bytes(content)
    assert list(lines_of(OmegaConf.merge(config, {"input": str(tmp_path / "in.txt")}))) == lines


@pytest.mark.parametrize(
    "content, options, told",
    [
        (b"one\n\xffa\n", {}, "stdin, line 2: not UTF-8 (invalid start byte at byte 0)"),
        (b"en\tde\n", {"column": "fr"}, "stdin has no column 'fr': there are en, de"),
    ],
)
def test_mistakes_in_stdin(monkeypatch, content, options, told):
    with pytest.raises(DuetError) as caught:
        list(lines_of(stdin(monkeypatch, content, **options)))
    assert str(caught.value) == told


def test_a_closed_stdout_is_no_mistake_where_nothing_is_written_to_it(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with piped():
        pass
