"""Match paths against the lines of a .gitignore, as Git does, in linear time for each pattern."""

from __future__ import annotations

import re
from itertools import count, groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_IN_SET = r"(?:\[:[a-z]*:\]|\\.|(?!\[:[a-z]*:\])[^\]\\])"
_TOKEN = re.compile(
    r"(?P<slash>\\?/)"
    r"|(?P<stars>\*+)"
    r"|(?P<any>\?)"
    rf"|\[(?P<negated>[!^]?)(?P<set>(?:\]|{_IN_SET}){_IN_SET}*)\]"
    r"|\\(?P<escaped>.)"
    r"|(?P<literal>[^\\\[])",
    re.DOTALL,
)
_MEMBER = re.compile(r"\[:(?P<name>[a-z]*):\]|\\?(?P<low>.)(?:-\\?(?P<high>.))?", re.DOTALL)
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_GROUPS = count()
MAX_PATTERN = 1_024  # characters


class Place(NamedTuple):
    """A file or folder, by its path below the folder of the patterns."""

    path: str
    name: str
    is_folder: bool


class Glob(NamedTuple):
    """A pattern of a .gitignore."""

    includes: bool  # with a ! before it: the path is not left out
    folders_only: bool
    is_name: bool  # of a file or folder at any depth, else a path below the .gitignore
    regex: re.Pattern[str]

    def matches(self, place: Place) -> bool:
        """Return whether the pattern matches a place, apart from the folders that contain it."""
        text = place.name if self.is_name else place.path
        return (place.is_folder or not self.folders_only) and bool(self.regex.fullmatch(text))


class Globs:
    """Patterns, of which the last one that matches decides."""

    def __init__(self, globs: Sequence[Glob]) -> None:
        self._globs = globs[::-1]

    def decide(self, places: Sequence[Place]) -> bool | None:
        """Return whether the patterns mean one of some places, None if none of them matches."""
        return next((not glob.includes for glob in self._globs if any(map(glob.matches, places))), None)


def parse_glob(line: str) -> Glob | None:
    """Read a line, which may be blank or a comment; raise ValueError for one that is no pattern."""
    text = _strip_spaces(line)
    if not text or text.startswith("#"):
        return None
    pattern = text.removeprefix("!").removesuffix("/")
    if not 0 < len(pattern.removeprefix("/")) <= MAX_PATTERN:
        raise ValueError(line)
    regex = re.compile(_translate(pattern.removeprefix("/")), re.DOTALL)
    return Glob(text.startswith("!"), text.endswith("/"), "/" not in pattern, regex)


def _strip_spaces(line: str) -> str:
    """Remove the spaces at the end, without one after a backslash."""
    text = line.rstrip(" ")
    is_escaped = (len(text) - len(text.rstrip("\\"))) % 2 == 1
    return line[: len(text) + is_escaped]


# A pattern becomes one regular expression. What stands between two stars is looked for at its first place only, which
# is as good as any later one; so no star makes the next ones start again, and the time is linear.


def _translate(pattern: str) -> str:
    """Translate a pattern into a regular expression."""
    runs = [list(run) for _, run in groupby(_segments(pattern), key=_is_any_folder)]
    parts = [None if _is_any_folder(run[0]) else "/".join(map(_translate_segment, run)) for run in runs]
    *heads, last = parts
    regex, folders = "", ""
    for part in heads:
        if part is None:
            folders = "(?:[^/]+/)*"
        else:
            regex += _first_place(f"{folders}?{part}/") if folders else f"{part}/"
            folders = ""
    return regex + (".+" if last is None else folders + last)


def _translate_segment(parts: list[str]) -> str:
    first, *others = parts
    if not others:
        return first
    *inner, last = others
    return first + "".join(_first_place(f"[^/]*?{part}") for part in inner if part) + f"[^/]*{last}"


def _first_place(regex: str) -> str:
    """Match as a regular expression does at first, and never otherwise."""
    name = f"g{next(_GROUPS)}"
    return f"(?=(?P<{name}>{regex}))(?P={name})"


def _is_any_folder(parts: list[str]) -> bool:
    return len(parts) > 2 and not any(parts)


def _segments(pattern: str) -> list[list[str]]:
    """Split a pattern at its slashes, and these segments at their stars: twice at a double one."""
    segments, at = [[""]], 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise ValueError(pattern)
        at = token.end()
        if token["slash"]:
            segments.append([""])
        elif token["stars"]:
            segments[-1] += [""] * min(2, len(token["stars"]))
        else:
            segments[-1][-1] += _translate_character(token)
    return segments


def _translate_character(token: re.Match[str]) -> str:
    if token["any"]:
        return "[^/]"
    if token["set"]:
        return f"(?!/)[{'^' if token['negated'] else ''}{_translate_set(token['set'])}]"
    return re.escape(token["escaped"] or token["literal"])


def _translate_set(text: str) -> str:
    members = "".join(map(_translate_member, _MEMBER.finditer(text)))
    if not members:
        raise ValueError(text)
    return members


def _translate_member(member: re.Match[str]) -> str:
    """Translate a member of a set: a class, a range or a character."""
    low, high = member["low"], member["high"]
    if low is None:
        return _class(member["name"])
    if high is None:
        return re.escape(low)
    return f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""


def _class(name: str) -> str:
    if name not in _CLASSES:
        raise ValueError(name)
    return _CLASSES[name]
