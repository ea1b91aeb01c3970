"""Errors written for the person at the keyboard: what was given, what was expected, what to type instead."""

import difflib
from collections.abc import Iterable


class RookeryError(Exception):
    """A failure that is explained in one line; the command prints it and exits with `exit_code`."""

    exit_code = 1


class UserError(RookeryError):
    """The user typed something that cannot work: exit code 2."""

    exit_code = 2


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the nearest known name, or nothing when none is near."""
    lowered = {name.lower(): name for name in known}
    near = difflib.get_close_matches(given.lower(), lowered, n=3, cutoff=0.6)
    if not near:
        return ""
    names = " or ".join(f"'{lowered[name]}'" for name in near)
    return f" Did you mean {names}?"
