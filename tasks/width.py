"""How much room text takes on a terminal, or in a picture with letters of one width."""

import unicodedata


def cells(text: str) -> int:
    """Width in terminal cells: 2 for a wide (East Asian) character, 0 for a mark on the one before it, else 1."""
    return sum(0 if combines(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def combines(char: str) -> bool:
    """Whether it stands on the character before it."""
    return unicodedata.category(char) in ("Mn", "Me")
