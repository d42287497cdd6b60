class DuetError(Exception):
    """A user's mistake, as one line: what is wrong, the value, what is allowed."""
