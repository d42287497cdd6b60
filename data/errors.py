class DuetError(Exception):
    """A user's mistake, as one line: what is wrong, the value, what is allowed."""


class Missing(DuetError):
    """A file or a split that is not there, or not within reach."""
