"""Tell the menus of a page: boxes of links, beside other text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

BOXES = {"div", "section", "aside", "header", "form"}
MIN_LINKED = 0.75  # share of the letters of a menu that are links
MIN_LINKS, MANY_LINKS = 2, 5
MIN_OTHER = 100  # letters that are no links: a page with fewer is a list of links itself
MIN_LETTERS = 40  # of the links of a menu with fewer than many


@dataclass
class Box:
    """An element of a page, and the letters in it."""

    tag: str
    number: int
    follows_heading: bool = False
    letters: int = 0
    linked: int = 0  # of the letters, without those in paragraphs and tables
    links: int = 0
    has_title: bool = False  # that of the page
    other: int = 0  # letters outside of links and menus
    other_main: int = 0  # of these in the main part

    @property
    def is_menu(self) -> bool:
        """Whether it is nearly all links: a list below a heading of the text is none, nor is a line of an author."""
        is_list = self.links >= MANY_LINKS or (self.links >= MIN_LINKS and self.linked >= MIN_LETTERS)
        has_text = self.has_title or self.other >= MIN_OTHER
        return is_list and not has_text and not self.follows_heading and self.linked >= MIN_LINKED * self.letters


class Boxes:
    """The boxes of a page, by their numbers in its order."""

    def __init__(self) -> None:
        self.menus: set[int] = set()
        self._count = 0
        self._open = [Box("", -1)]
        self._num_open = Counter[str]()  # by tag
        self._after_heading = False

    def start(self, tag: str) -> int:
        """Begin an element, and return its number if it is a box, else -1."""
        if tag not in BOXES:
            return -1
        self._open.append(Box(tag, self._count, self._after_heading))
        self._num_open[tag] += 1
        self._count += 1
        return self._open[-1].number

    def end(self, tag: str) -> None:
        """End an element, and the boxes within it that were not closed."""
        if self._num_open[tag]:
            while self._close() != tag:
                pass

    def link(self) -> None:
        """Count a link."""
        self._open[-1].links += 1

    def write(self, text: str, *, is_linked: bool, is_main: bool, heading: int) -> None:
        """Count the letters of a text, which may be of a heading of some level."""
        letters = sum(map(str.isalpha, text))
        box = self._open[-1]
        box.letters += letters
        box.linked += letters * is_linked
        box.has_title |= heading == 1
        if not is_linked:
            box.other += letters
            box.other_main += letters * is_main
        if letters:
            self._after_heading = heading > 1

    def finish(self, *, main_only: bool) -> None:
        """End the page; without other text, its links are the text."""
        while len(self._open) > 1:
            self._close()
        page = self._open[0]
        if (page.other_main if main_only else page.other) < MIN_OTHER:
            self.menus.clear()

    def _close(self) -> str:
        box, outer = self._open.pop(), self._open[-1]
        self._num_open[box.tag] -= 1
        outer.letters += box.letters
        outer.linked += box.linked
        outer.links += box.links
        outer.has_title |= box.has_title
        if box.is_menu:
            self.menus.add(box.number)
        else:
            outer.other += box.other
            outer.other_main += box.other_main
        return box.tag
