"""Files are written whole, or not at all."""

import pytest

from data.files import replacing, write_text


def test_what_is_written_takes_the_place_at_the_end(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as unfinished:
        unfinished.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]
    write_text(path, "one\ntwo\n")
    assert path.read_bytes() == b"one\ntwo\n" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_what_fails_leaves_nothing_behind(tmp_path, kind):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(kind), replacing(path) as unfinished:
        unfinished.write_text("hal")
        raise kind
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
