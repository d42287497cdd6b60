"""Where the sentences of a text end, and how they become one text again."""

import itertools
import re
from collections.abc import Callable, Iterable

# Marks, what closes, and a blank; Chinese marks with all that follow, and no blank.
ENDS = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’»)\]]*\s+|[。！？；][。！？；…”’」』）]*")
DOT = re.compile(r"(\w*)\.\s+$")


def sentences(text: str, fits: Callable[[str], bool]) -> list[str]:
    """A text cut at the ends of its sentences; at doubtful ones (`doubtful`) only where a part would not fit otherwise."""
    parts, begins = [], [0]  # of the pieces of the sentence that is looked at
    for end in [*(match.end() for match in ENDS.finditer(text)), len(text)]:
        sentence = text[begins[0] : end]
        if end < len(text) and doubtful(sentence):
            begins.append(end)
            continue
        pieces = [text[a:b] for a, b in zip(begins, [*begins[1:], end])]
        parts += [sentence] if fits(sentence.strip()) else pieces
        begins = [end]
    return [part.strip() for part in parts if part.strip()]


def doubtful(sentence: str) -> bool:
    """Whether a dot at its end may be that of an initial (J.), a day (3.), or an abbreviation in front (Dr.)."""
    dot = DOT.search(sentence[-40:])
    if dot is None:
        return False
    word = dot[1]
    alone = len(word) < 3 and not re.search(r"\w", sentence[: len(sentence) - len(dot[0])])
    return alone or (len(word) == 1 and word.isupper()) or (len(word) < 3 and word.isdigit())


UNSPACED = re.compile("[\u3000-\u312f\u3190-\u9fff\uf900-\ufaff\ufe30-\uffef][”’…—]*$")  # Chinese and Japanese, not Korean


def joined(texts: Iterable[str]) -> str:
    """Sentences of one line; after a Chinese one stands no blank."""
    kept = [text for text in texts if text]
    blanks = ["" if UNSPACED.search(text) else " " for text in kept[:-1]]
    return "".join(itertools.chain(*itertools.zip_longest(kept, blanks, fillvalue="")))
