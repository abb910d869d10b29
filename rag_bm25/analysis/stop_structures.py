"""Stop structures: the words of a question before it names its topic, as in *I am interested in papers on robots*.

Chunks seldom have these words, so that their IDF is high for nothing. A list of stop words cannot name them:
*information* is the topic of *information retrieval*. A structure is a run of such words at the beginning of a
sentence, where some words count only before certain others (Callan, Croft and Broglio, "TREC and TIPSTER experiments
with INQUERY", 1995; Huston and Croft, "Evaluating verbose query processing techniques", SIGIR 2010).
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from rag_bm25.analysis.runs import locate_segmented

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Cut: TypeAlias = Callable[[str], list[str]]  # a run of Han characters into words


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that a structure may have, and those that make a run of them one.
_WE = _words("i my our we")
_FUNCTION_WORDS = _WE | _words(
    "a about am an and are as at be been by can concerning could covering describing did discussing do does for from "
    "giving had has have hello hi how if in is it may me might not of on or please regarding shall should that the "
    "their there these this those to us was were what when where whether which who why will with would you your"
)
_HOW = _words("how when where who why")  # what follows is the topic
_WISHES = _words(
    "appreciate glad grateful happy hoping interested keen like looking need pleased searching seeking try trying "
    "want wish wondering"
)
_OPENINGS = _words("interested looking searching seeking trying wondering")  # wishes without a subject
_EXPLAIN = _words("describe explain know outline recommend suggest summarise summarize understand")
_OTHERS = _words(
    "all almost also any areas available brief briefly currently either especially exist exists find further general "
    "get good hear just learn list mainly more most much only particular particularly possible quick read really "
    "receive see short simple some specific specifically very"
)

# Words that belong to a structure only before certain others.
_ON = _words(
    "about by concerning covering dealing describing discussing exist exists giving on regarding related relating "
    "that which written"
)
_TEXTS = _words(
    "abstract abstracts article articles document documentation documents info information literature material "
    "materials paper papers reference references studies"
)
_ACCOUNTS = _words(
    "description descriptions details discussion discussions example examples explanation introduction overview summary"
)
_FOLLOWERS = {
    **dict.fromkeys(_TEXTS, _ON),
    **dict.fromkeys(_ACCOUNTS, _ON | {"of", "to"}),
    **dict.fromkeys(_words("anything everything something"), _ON | {"to"}),
    **dict.fromkeys(_words("dissertation essay question questions thesis topic"), _words("about is on")),
    **dict.fromkeys(_words("interest"), _words("are in include includes is")),
    **dict.fromkeys(_words("give provide send"), _TEXTS | _ACCOUNTS | _words("all any me more some us")),
    **dict.fromkeys(_words("let show teach tell"), _words("me us")),
    "help": _words("me us with"),
}
_LINKS = _words("concerned concerns deal dealing include includes related relating written")
_LAST = _FUNCTION_WORDS | _WISHES | _EXPLAIN | _words("include includes")
_ALL = _LAST | _OTHERS | _LINKS | _FOLLOWERS.keys()

_ABOUT = "(?:一下|下)?(?:关于|有关)?"
_TELL = "(?:详细|简单|具体)?(?:介绍|解释|说明|讲解|讲|说|总结|概括|列出|查询|查找|查|搜索|搜|找)"
_CHINESE = re.compile(
    r"\A(?:(?:你好|您好|请问一下|请问|请教一下|请教|麻烦[你您]?|劳驾)[,，!！:：\s]*)*"
    f"(?:我们?(?:想要?|需要|希望|要)(?:请问|问|知道|了解|咨询|查询|查找|查|找|看){_ABOUT}"
    f"|(?:请|请?能否|能不能|可否|可不可以|可以|能)?请?[你您]?(?:[帮给为跟]我|帮忙){_TELL}{_ABOUT}"
    f"|请[你您]?{_TELL}{_ABOUT}|{_TELL}一下(?:关于|有关)?|(?:请|能否|能不能|可以|能)?[你您]?告诉我{_ABOUT}"
    f"|(?:讲讲|说说|谈谈|聊聊){_ABOUT})?"
)
_BETWEEN_SENTENCES = re.compile(r"((?<=[.!?;:])\s+|(?<=[。！？；：\n])\s*)")
_WORD = re.compile(r"[\s,(]*([A-Za-z]+)(?:'[a-z]+)?(?=[\s,]|$)")


def skip_stop_structures(text: str, cut: Cut) -> str:
    """Return a normalised query without its stop structures; a sentence that says nothing else keeps them."""
    return "".join(_topic(sentence, cut) for sentence in _BETWEEN_SENTENCES.split(text))


def _topic(sentence: str, cut: Cut) -> str:
    """Return what follows the structure of a sentence."""
    topic = sentence[_end_of_chinese_structure(sentence, cut) or _end_of_english_structure(sentence) :]
    return topic if re.search(r"\w", topic) else sentence


def _end_of_chinese_structure(sentence: str, cut: Cut) -> int:
    """Return the end of the longest structure that ends with a word: 找回, in 我想找回密码, is a topic."""
    longest = _CHINESE.match(sentence)
    if longest is None or not longest.end():
        return 0
    within = places_in_words(sentence, cut)
    structures = (end for end in range(longest.end(), 0, -1) if _CHINESE.fullmatch(sentence, 0, end))
    return next((end for end in structures if end not in within), 0)


def places_in_words(text: str, cut: Cut) -> set[int]:
    """Return the places within the Chinese words of a text."""
    within: set[int] = set()
    for run in locate_segmented(text):
        borders = accumulate(map(len, cut(run[0])), initial=run.start())
        within.update(set(range(run.start(), run.end())).difference(borders))
    return within


def _end_of_english_structure(sentence: str) -> int:
    words, ends = _leading_words(sentence)
    while words and words[-1] not in _LAST:
        words.pop()
    if not words or words[0] in _HOW:
        return 0
    is_structure = (
        not _FOLLOWERS.keys().isdisjoint(words)
        or (words[0] in _WE and not _WISHES.isdisjoint(words))
        or words[0] in _OPENINGS
        or (words[0] in _EXPLAIN and len(words) > 1)
        or any(word in _EXPLAIN and before in ("please", "you") for before, word in pairwise(words))
    )
    return ends[len(words) - 1] if is_structure else 0


def _leading_words(sentence: str) -> tuple[list[str], list[int]]:
    """Return the words at the beginning of a sentence that may belong to a structure, and the end of each."""
    words: list[str] = []
    ends: list[int] = []
    match = _WORD.match(sentence)
    while match is not None:
        word, following = match[1].lower(), _WORD.match(sentence, match.end())
        wanted = _FOLLOWERS.get(word)
        if word not in _ALL or (len(word) > 1 and match[1].isupper()):
            break
        if wanted is not None and (following is None or following[1].lower() not in wanted):
            break
        words.append(word)
        ends.append(match.end())
        match = following
    return words, ends
