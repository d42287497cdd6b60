"""A small package in the form of chinese-poetry: regulated poems of random characters, and some that are none."""

import io
import json
import random
import tarfile
from pathlib import Path

CHARACTERS = "一二三上下大小天地山水日月星火木金土人女子心手口目耳田禾竹米衣食雨雪石玉花草春夏秋冬東西南北高低白青黃黑古今多少"
UPPER, LOWER = {5: "仄仄平平仄", 7: "平平仄仄平平仄"}, {5: "平平仄仄平", 7: "仄仄平平仄仄平"}


def verse(rng: random.Random, length: int = 5) -> list[str]:
    return ["".join(rng.choices(CHARACTERS, k=length)) for _ in range(8)]


def tones(length: int = 5) -> list[str]:
    return 4 * [UPPER[length], LOWER[length]]


def files(poems: list[tuple[list[str], list[str]]], dynasty: str = "tang", number: int = 0) -> dict[str, bytes]:
    """The two files of some poems: (lines, tones of each)."""
    made = {}
    for folder, key, place in (("quantangshi", "paragraphs", 0), ("strains/json", "strains", 1)):
        records = [{"id": f"{dynasty}-{number}-{i}", key: _paragraphs(poem[place])} for i, poem in enumerate(poems)]
        made[f"dist/{folder}/poet.{dynasty}.{number}.json"] = json.dumps(records, ensure_ascii=False).encode()
    return made


def _paragraphs(lines: list[str]) -> list[str]:
    return [f"{'，'.join(lines[place : place + 2])}。" for place in range(0, len(lines), 2)]


def package(count: int = 60) -> dict[str, bytes]:
    """count poems of Tang with lines of 5 characters, as many of Song with 7, and what else lies in the package."""
    rng = random.Random(1)
    made = {"package.json": json.dumps({"name": "chinese-poetry", "version": "2.0.1"}).encode()}
    made["dist/quantangshi/authors.tang.json"] = b"[]"
    for dynasty, length in (("tang", 5), ("song", 7)):
        made |= files([(verse(rng, length), tones(length)) for _ in range(count)], dynasty)
    return made


def write_folder(root: Path, content: dict[str, bytes]) -> Path:
    for name, text in content.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text)
    return root


def write_tarball(path: Path, content: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in content.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return path
