"""A prompt: lines are answered as they come, and attention is drawn in characters."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from data.errors import DuetError
from data.tokenizer import EOS

if TYPE_CHECKING:
    from tasks.build import Translator

Last = TypeVar("Last")


def converse(
    help: str, on_line: Callable[[str], tuple[str, Last]], on_command: Callable[[str, Last | None], str]
) -> None:
    """Asks for lines until :quit, Ctrl-D or Ctrl-C. A mistake is told and ends nothing.

    on_line: what is printed of a line, and what is kept of it. on_command: what is printed of a command (its name without the
    colon), told what was kept last.
    """
    import readline  # noqa: F401  history and editing for `input`

    print(help)
    last: Last | None = None
    while True:
        try:
            text = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if text in (":quit", ":q"):
            return
        try:
            if text.startswith(":"):
                print(on_command(text[1:], last))
            elif text:
                shown, last = on_line(text)
                print(shown)
        except DuetError as error:
            print(f"error: {error}")


def attention(model: "Translator", source: str, ids: list[int], limit: int | None = None) -> str:
    """Cross-attention of a line and a hypothesis (ids, with EOS), the mean of layers and heads, drawn in characters."""
    from tasks import heatmap  # takes a second to load, which a prompt need not wait for

    tokens = model.src_tokenizer.encode(source)[:limit]
    if not tokens or not ids:
        return "there is nothing to look at"
    weights = model.attention(tokens, ids).get("cross")
    if weights is None:
        return "this model has no attention"
    columns = model.src_tokenizer.pieces([*tokens, EOS])
    return heatmap.terminal(weights.mean(dim=(0, 1)), model.tgt_tokenizer.pieces(ids), columns, color=sys.stdout.isatty())
