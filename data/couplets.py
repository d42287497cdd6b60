"""Couplets of classical Chinese regulated verse, out of the npm package chinese-poetry.

From its files to poems, from poems to couplets, from couplets to splits. docs/couplet_data.md has the rules in words.
"""

import gzip
import hashlib
import itertools
import json
import re
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from data.errors import DuetError
from data.extras import extra

PACKAGE, VERSION = "chinese-poetry", "2.0.1"
SCRIPTS, DYNASTIES, LENGTHS = ("simplified", "traditional"), ("tang", "song"), (5, 7)
SPLITS = ("train", "valid", "test")

LEVEL, OBLIQUE, BOTH = "平仄○"  # BOTH: a character that has been read in both tones
MARKS = re.compile("[，。！？；：、,.!?;:]")
HAN = re.compile("[\u4e00-\u9fff]+")
INNER = (2, 4)  # where the second and the third couplet begin

VARIANTS = """
隠隱 疎疏 踈疏 簷檐 鴈雁 鶑鶯 鸎鶯 髪髮 浄淨 慙慚 頼賴 猨猿 粧妝 鬭鬥 鬬鬥 劒劍 徧遍 蘂蕊 鬰鬱 珮佩
煖暖 鼇鰲 髙高 媿愧 賸剩 嬾懶 僊仙 罇樽 巵卮 櫂棹 臯皋 隣鄰 椀碗 盌碗 歛斂 妬妒 閙鬧 牋箋 寛寬 鳯鳳
餠餅 馿驢 鉏鋤 袴褲 堦階 筯箸 隄堤 槃盤 虀齏 逈迥 檝楫 燄焰 撚捻 懽歡 碁棋 缾瓶 覩睹 邉邊 畧略 磵澗
鏁鎖 穉稚 遯遁 秪只 欵款 醆盞 螘蟻 栢柏 揺搖 犂犁 怱匆 幙幕 潄漱 彊強 飜翻 竝並 蠧蠹 廻迴 歳歲 麤粗
羃冪 笻筇 懃勤 桮杯 暎映 蕚萼 毎每 邨村 薫薰 髣彷 髴彿 頳赬 槩概 悞誤 悮誤 趂趁 峩峨 逺遠 呌叫 鵶鴉
旛幡 牓榜 濶闊 嚬顰 氊氈 鼈鱉 覊羈 緜綿 讐仇 纒纏 懐懷 瞋嗔 姪侄 憇憩
"""
USUAL = str.maketrans(dict(VARIANTS.split()))  # editions differ in these, and OpenCC leaves them as they are


@dataclass(frozen=True)
class Rules:
    """What is taken. valid, test: pairs of these splits. seed: of what goes where."""

    script: str = "simplified"
    dynasty: tuple[str, ...] = DYNASTIES
    length: tuple[int, ...] = LENGTHS
    valid: int = 2000
    test: int = 2000
    seed: int = 1


class Poem(NamedTuple):
    lines: tuple[str, ...]
    tones: tuple[str, ...]


class Couplet(NamedTuple):
    upper: str
    lower: str
    poem: int


class Corpus(NamedTuple):
    splits: dict[str, list[Couplet]]
    account: dict[str, int]  # by the names of ACCOUNT
    version: str | None  # of the package
    digest: str  # of the files that were read


ACCOUNT = {
    "poems": "poems read",
    "other_form": "dropped: not eight lines of 5 characters, or of 7",
    "other_length": "dropped: a length that is not asked for",
    "no_tones": "dropped: no tone for each character",
    "oblique_rhyme": "dropped: an even line that ends in an oblique tone",
    "regulated_poems": "regulated poems, of two inner couplets each",
    "rare_characters": "couplets dropped: □, or a character outside U+4E00–9FFF",
    "no_contrast": "couplets dropped: tones that do not contrast",
    "duplicates": "couplets dropped: duplicates",
    "couplets": "couplets kept",
    **{name: f"couplets in {name}.tsv" for name in SPLITS},
}


def build(source: Path, rules: Rules) -> Corpus:
    """source: the package as a .tgz, or its folder. Raises DuetError where it is damaged, another one, or too small."""
    convert = converter(rules.script)  # first: it may be missing
    account = dict.fromkeys(ACCOUNT, 0)
    package = read_package(source, rules.dynasty)
    poems = [Poem(convert(poem.lines), poem.tones) for poem in regulated(package, rules.length, account)]
    couplets = distinct(inner_couplets(poems, account), account)
    splits = split(couplets, related(poems, couplets), rules)
    account |= {name: len(part) for name, part in splits.items()}
    return Corpus(splits, account, package.version, package.digest)


# The package

Verse = tuple[str, ...] | None  # eight lines of equal length, or another form
TEXTS, TONES = FOLDERS = ("quantangshi", "strains/json")
FILE = re.compile(r"dist/(quantangshi|strains/json)/poet\.(tang|song)\.(\d+)\.json")


class Package(NamedTuple):
    """Each poem by its id, in order, and each poem's tones by the same."""

    texts: dict[str, Verse]
    tones: dict[str, Verse]
    version: str | None
    digest: str


def read_package(source: Path, dynasties: Sequence[str]) -> Package:
    files: dict[tuple, list[tuple[str, Verse]]] = {}
    digests, version = [], None
    for name, content in _files(source):
        if name == "package.json":
            version = _version(content, source)
        elif (found := FILE.fullmatch(name)) and found[2] in dynasties:
            key = "paragraphs" if found[1] == TEXTS else "strains"
            files[found[1], found[2], int(found[3])] = _verses(content, key, f"{source}, {name}")
            digests.append(f"{name} {hashlib.sha256(content).hexdigest()}\n")
    _check_complete(source, files, dynasties)
    texts, tones = (
        {key: verse for place in sorted(files) if place[0] == folder for key, verse in files[place]} for folder in FOLDERS
    )
    return Package(texts, tones, version, hashlib.sha256("".join(sorted(digests)).encode()).hexdigest())


def _files(source: Path) -> Iterator[tuple[str, bytes]]:
    """(name inside the package, content) of package.json and of all poems and tones."""
    try:
        yield from _of_folder(source) if source.is_dir() else _of_tarball(source)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DuetError(f"{source} is damaged, cut off, or no .tgz: {error}") from None
    except OSError as error:
        raise DuetError(f"cannot read {error.filename or source}: {error.strerror or error}") from None


def _of_folder(root: Path) -> Iterator[tuple[str, bytes]]:
    for path in [root / "package.json", *sorted(root.glob("dist/**/poet.*.json"))]:
        name = path.relative_to(root).as_posix()
        if path.is_file() and _is_needed(name):
            yield name, path.read_bytes()


def _of_tarball(path: Path) -> Iterator[tuple[str, bytes]]:
    """Nothing is unpacked to the disk."""
    with gzip.open(path) as unzipped:
        with tarfile.open(fileobj=unzipped, mode="r|") as archive:
            for member in archive:
                name = member.name.partition("/")[2]
                if member.isreg() and _is_needed(name):
                    yield name, archive.extractfile(member).read()
        while unzipped.read(1 << 20):  # a damaged header ends an archive in silence; the checksum at the very end tells
            pass


def _is_needed(name: str) -> bool:
    return name == "package.json" or FILE.fullmatch(name) is not None


def _version(content: bytes, source: Path) -> str:
    try:
        values = json.loads(content)
        name, version = str(values["name"]), str(values["version"])
    except (ValueError, KeyError, TypeError):
        raise DuetError(f"{source}, package.json: not that of an npm package") from None
    if name != PACKAGE:
        raise DuetError(f"{source} is the package {name!r}, not {PACKAGE!r}")
    return version


def _verses(content: bytes, key: str, where: str) -> list[tuple[str, Verse]]:
    """(id, lines) of each record of a file of poems or of tones."""
    try:
        records = json.loads(content)
        return [(record["id"], _eight("".join(record[key]))) for record in records]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DuetError(f"{where}: not a list of poems as {PACKAGE} {VERSION} has them") from None


def _eight(text: str) -> Verse:
    lines = tuple(line for line in MARKS.split(text) if line)
    return lines if len(lines) == 8 and {len(line) for line in lines} in ({5}, {7}) else None


def _check_complete(source: Path, files: Iterable[tuple], dynasties: Sequence[str]) -> None:
    """Raises DuetError where a file of poems has no file of tones, or the other way round, or a dynasty has none."""
    there = set(files)
    needed = {(folder, dynasty, number) for _, dynasty, number in there for folder in FOLDERS}
    needed |= {(folder, dynasty, 0) for dynasty in dynasties for folder in FOLDERS}
    if lacking := sorted(needed - there):
        folder, dynasty, number = lacking[0]
        name = f"dist/{folder}/poet.{dynasty}.{number}.json"
        raise DuetError(f"{source} has no {name}: {PACKAGE} {VERSION} has it, as a .tgz or a folder that holds dist/")


# Poems


def regulated(package: Package, lengths: Sequence[int], account: dict[str, int]) -> Iterator[Poem]:
    """Poems of eight lines whose even lines, the rhymes, end level."""
    for key, lines in package.texts.items():
        account["poems"] += 1
        tones = package.tones.get(key)
        if lines is None:
            account["other_form"] += 1
        elif len(lines[0]) not in lengths:
            account["other_length"] += 1
        elif tones is None or len(tones[0]) != len(lines[0]):
            account["no_tones"] += 1
        elif any(line[-1] == OBLIQUE for line in tones[1::2]):
            account["oblique_rhyme"] += 1
        else:
            account["regulated_poems"] += 1
            yield Poem(lines, tones)


def converter(script: str) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """What writes lines in a script, each character in its usual form."""
    if script == "traditional":
        return lambda lines: tuple(line.translate(USUAL) for line in lines)
    try:
        simplify = extra("opencc", "couplets").OpenCC("t2s").convert
    except DuetError as error:
        raise DuetError(f"{error}, or take script=traditional") from None
    return lambda lines: tuple(simplify("\n".join(lines).translate(USUAL)).split("\n"))


# Couplets


def inner_couplets(poems: Sequence[Poem], account: dict[str, int]) -> Iterator[Couplet]:
    for number, (lines, tones) in enumerate(poems):
        for upper in INNER:
            if not HAN.fullmatch(lines[upper] + lines[upper + 1]):
                account["rare_characters"] += 1
            elif not contrasts(tones[upper], tones[upper + 1]):
                account["no_contrast"] += 1
            else:
                yield Couplet(lines[upper], lines[upper + 1], number)


def contrasts(upper: str, lower: str) -> bool:
    """Whether the tones of two lines may stand in a couplet: 平, 仄, and ○ for a character that has both.

    The upper line ends oblique, the lower one level, and of the places 2, 4, 6 at most one has the same tone in both.
    """
    same = sum(a == b != BOTH for a, b in zip(upper[1:-1:2], lower[1:-1:2]))
    return upper[-1] != LEVEL and lower[-1] != OBLIQUE and same <= 1


def distinct(couplets: Iterable[Couplet], account: dict[str, int]) -> list[Couplet]:
    """Of equal pairs the first."""
    first: dict[tuple[str, str], Couplet] = {}
    for couplet in couplets:
        if first.setdefault(couplet[:2], couplet) is not couplet:
            account["duplicates"] += 1
    account["couplets"] = len(first)
    return list(first.values())


# Splits


def related(poems: Sequence[Poem], couplets: Sequence[Couplet]) -> list[int]:
    """A number for each poem, the same for poems that share a line or hold near-duplicate couplets, over any steps."""
    leaders = list(range(len(poems)))
    first: dict[str, int] = {}
    for number, poem in enumerate(poems):
        for line in poem.lines:
            _join(leaders, number, first.setdefault(line, number))
    for one, other in near_duplicates(couplets):
        _join(leaders, one.poem, other.poem)
    return [_leader(leaders, number) for number in range(len(poems))]


def _leader(leaders: list[int], number: int) -> int:
    while leaders[number] != number:
        leaders[number] = number = leaders[leaders[number]]
    return number


def _join(leaders: list[int], one: int, other: int) -> None:
    one, other = sorted((_leader(leaders, one), _leader(leaders, other)))
    leaders[other] = one


def near_duplicates(couplets: Sequence[Couplet]) -> Iterator[tuple[Couplet, Couplet]]:
    """Pairs of couplets each line of which differs by at most one character; some come several times.

    Such lines agree in their first half or in their second one, so that only couplets with a common half of both lines have
    to be compared.
    """
    for upper_half, lower_half in itertools.product((_head, _tail), repeat=2):
        alike: dict[tuple[str, str], list[Couplet]] = defaultdict(list)
        for couplet in couplets:
            alike[upper_half(couplet.upper), lower_half(couplet.lower)].append(couplet)
        for some in alike.values():
            yield from (pair for pair in itertools.combinations(some, 2) if _near(*pair))


def _head(line: str) -> str:
    return line[: len(line) // 2]


def _tail(line: str) -> str:
    return line[len(line) // 2 :]


def _near(one: Couplet, other: Couplet) -> bool:
    if len(one.upper) != len(other.upper):
        return False
    return all(sum(a != b for a, b in zip(x, y)) <= 1 for x, y in zip(one[:2], other[:2]))


def split(couplets: Sequence[Couplet], related: Sequence[int], rules: Rules) -> dict[str, list[Couplet]]:
    """Whole groups of related poems, in an order that a hash makes: test and valid are filled, the rest is for training.

    So is a group of more than a hundredth of test or valid, which would colour it (one poem, of two couplets, never is).
    The order depends on the seed and on a couplet, for a group on its first one by code points, so that large groups do not
    come earlier. Each split is written in the same order.
    """
    groups: dict[int, list[Couplet]] = defaultdict(list)
    for couplet in couplets:
        groups[related[couplet.poem]].append(couplet)
    splits: dict[str, list[Couplet]] = {name: [] for name in SPLITS}
    wanted = {"test": rules.test, "valid": rules.valid}
    for group in sorted(groups.values(), key=lambda group: _rank(min(group), rules.seed)):
        fitting = (name for name, size in wanted.items() if len(group) <= min(size - len(splits[name]), max(2, size // 100)))
        splits[next(fitting, "train")] += group
    if any(len(splits[name]) < size for name, size in wanted.items()) or not splits["train"]:
        raise DuetError(f"{len(couplets)} couplets are too few for test={rules.test}, valid={rules.valid} and training")
    return {name: sorted(part, key=lambda couplet: _rank(couplet, rules.seed)) for name, part in splits.items()}


def _rank(couplet: Couplet, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}\t{couplet.upper}\t{couplet.lower}".encode(), digest_size=16).digest()
