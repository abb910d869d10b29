"""Where a text may be cut: sentences, labels, numbered articles, fences and wrapped lines, in English and Chinese."""

from __future__ import annotations

import textwrap
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.ingestion.test_splitting import count_steps, cut

from rag_bm25.ingestion.breaks import Breaks
from rag_bm25.ingestion.splitting import Splitter


def sentences(text: str) -> list[str]:
    ends = [0, *Breaks(text, ()).sentences(1, len(text) - 1), len(text)]
    return [text[start:end].strip() for start, end in pairwise(ends)]


def chunks(text: str, longest: int = 100, overlap: int = 0) -> list[str]:
    return [part.text_of(text) for part in Splitter(longest, overlap, longest // 5).split(text)]


@pytest.mark.parametrize(
    "text",
    [
        "The pump is on.|The valve is shut!|Is it?|(It is.)|“Quite.”|Then stop.",
        "Dr. Smith and J. R. Jones met e.g. at No. 5, see Fig. 2 and pp. 3 ff. of it.|He left the U.S. in May.",
        "Messrs. Hall, Gov. Brown and Lt. Dan of the J.R.R. Tolkien Society saw Mt. Blanc.|They wait.",
        "On Jan. 5 and Sept. 12 he paid Rs. 500 for 5 ft. 3 of it, see Secs. 3 and 4.|It was in May.",
        "He said: “Stop.”|Then (so they say.) he left at 5 p.m. by bus.|“Quite,” said she.",
        "It costs 3.5 m.|Version 2.10.1 runs on .NET 8.|See example.com for more.",
        "Shown before.[3][14]|Others agree.",
        "It waits ... and goes on.|Then it ends ...|So.",
        "水泵应当运行。|阀门关闭！|是吗？|“好的。”|他说：“停。”|结束",
        "他问：“是吗？”|她答：“是。”|然后走了……|后来呢？！|没有。",
        "依照第一款、第二款的规定办理。|（见附件。）|增长3.5%，达到1.2亿元。|使用Python 3.10版。|安装Node.js。|完成。",
        "（一）按第3.2款办理；逾期3.5日的，加收1.5%。|第二款另有规定的除外……|当事人约定：甲方付款。",
        "本产品支持 v2.5。|Node.js 2.0 也可以。|GPT-4.",
        "Das kostet z.B. 5 Euro.|Über uns.|Élan vital.",
    ],
)
def test_sentences(text: str) -> None:
    wanted = text.split("|")
    joined = "".join(f" {part}" if part[0].isascii() or not wanted[0][-1] > "\u2e80" else part for part in wanted)
    assert sentences(joined.strip()) == wanted


def test_numbers_of_items_end_no_sentence() -> None:
    assert sentences("Do this:\n1. Open it.\n2. Shut it.") == ["Do this:\n1. Open it.", "2. Shut it."]


PROSE = [
    f"The {name} valve is opened by the operator on duty before its pump starts, and shut again at {n} bar."
    for n, name in enumerate(["upper", "lower", "inner", "outer", "north", "south"], 2)
]
ZH = [f"第{n}号阀门由值班人员在水泵启动之前打开，压力达到{n}巴时应当重新关闭并且登记。" for n in range(2, 9)]


@pytest.mark.parametrize("width", [30, 44, 70])
@pytest.mark.parametrize("longest", [130, 250, 400])
def test_no_sentence_of_wrapped_prose_is_cut(longest: int, width: int) -> None:
    found = [" ".join(chunk.split()) for chunk in chunks(textwrap.fill(" ".join(PROSE), width), longest)]
    assert all(any(sentence in chunk for chunk in found) for sentence in PROSE)


def test_no_sentence_of_a_text_without_blanks_is_cut() -> None:
    found = chunks("".join(ZH), 60)
    assert len(found) == len(ZH)
    assert found == ZH


def test_a_sentence_that_is_longer_than_a_chunk_is_cut_at_its_clauses() -> None:
    assert chunks("甲方应当按照约定的时间供水，乙方应当按照约定的时间付款，双方应当互相通知。", 20) == [
        "甲方应当按照约定的时间供水，",
        "乙方应当按照约定的时间付款，",
        "双方应当互相通知。",
    ]


def test_a_long_sentence_is_whole_though_the_chunk_before_is_short() -> None:
    long = "Word " * 17 + "end."
    assert chunks(f"It is short. {long} So is it.") == ["It is short.", f"{long} So is it."]


def test_the_overlap_is_of_whole_sentences() -> None:
    found = chunks(" ".join(PROSE), 250, 120)
    assert all(before.endswith(after[: len(PROSE[1])]) for before, after in pairwise(found))


def test_a_page_that_ends_within_a_sentence_is_no_end_of_a_paragraph() -> None:
    first, second = (
        "It is open. The pump of the north tank moves water to",
        "the roof of the house, and back. Then it is shut.",
    )
    assert chunks(f"{first}\n\n{second}", 80) == [
        "It is open.",
        f"{first[12:]}\n\n{second[:-17].strip()}",
        "Then it is shut.",
    ]


@pytest.mark.parametrize(
    "label",
    ["Remedies:", "The tank must not be drained before the following has been done by the operator:", "Anders",
     "Table 2 Sizes of the valves", "**Anders**", "How is it drained?", "技术规格", "应当载明下列事项：", "怎样排水？"],
)  # fmt: skip
def test_a_label_is_in_the_chunk_of_what_it_names(label: str) -> None:
    text = "\n\n".join(f"{label}\n\n{PROSE[n]} It is so in case {n}." for n in range(5))
    found = chunks(text, 230)
    assert len(found) >= 5
    assert not any(chunk.endswith(label) for chunk in found)


def test_short_lines_have_no_labels() -> None:
    assert all(len(chunk) > 60 for chunk in chunks("\n".join(["milk", "bread", "two apples", "salt"] * 30), 100)[:-1])


def test_a_bare_heading_is_no_chunk() -> None:
    text = (
        "# A\n\n| a | b |\n|---|---|\n"
        + "| word | word |\n" * 20
        + "\n# B\n\n第一条 "
        + "应当供水。" * 30
        + "\n\n# C\n"
    )
    assert all(len(chunk.strip("# ABC\n")) > 10 for chunk, _ in cut(text, Splitter(100, 0, 20)))


LAW = "".join(
    f"第{n}条 供水人应当供水。{'用水人应当付费。' * 4}\n\n前款规定的期限为{i}日，法律另有规定的除外。\n\n"
    for i, n in enumerate("一二三四")
)
ACT = "".join(
    f"Article {n} Supply\n\n{PROSE[n]}\n\nThe term of it is {n} days, unless the law says so.\n\n" for n in range(5)
)


def test_articles_begin_chunks_and_small_ones_share_one() -> None:
    assert [chunk[:3] for chunk in chunks(LAW, 150)] == ["第一条", "第三条"]
    assert [chunk[:9] for chunk in chunks(ACT, 200)] == [f"Article {n}" for n in range(5)]


def test_a_rest_of_an_article_has_its_number() -> None:
    assert [chunk[:3] for chunk in chunks(LAW, 48)] == [f"第{n}条" for n in "一一二二三三四四"]
    law = f"第十条 {'供水人应当供水。' * 9}\n\n{'前款规定的期限为十日。' * 9}"
    assert all(chunk.startswith("第十条") for chunk in chunks(law, 60))
    assert chunks(ACT, 120)[1].startswith("Article 0 Supply\n")


@pytest.mark.parametrize(
    "line",
    ["第十条的规定不适用。", "Section 5 of the Act applies.", "1.5 bar is enough for it.", "3.2.1 is the version."],
)
def test_what_only_looks_like_an_article_gives_no_header(line: str) -> None:
    text = f"{PROSE[0]}\n\n{line}\n\n{PROSE[1]}\n\n{PROSE[2]}"
    assert "".join(chunks(text, 110)).replace("\n", "") == text.replace("\n", "")


def test_an_annex_has_no_number_of_an_article() -> None:
    text = f"第九条 本办法自公布之日起施行。\n\n附件\n\n{'收费标准由供水人公布。' * 12}"
    assert not any("第九条" in chunk for chunk in chunks(text, 60)[1:])


CODE = "```python\ndef drain(tank):\n    tank.open()\n\n\ndef fill(tank):\n    tank.close()\n```"


def test_code_that_fits_is_not_cut() -> None:
    text = "\n\n".join(f"The tank is drained. {'It is filled. ' * n}\n\n{CODE}" for n in (1, 3, 2, 4))
    assert all(chunk.count("```") in (0, 2) for chunk in chunks(text, 130))


def test_code_that_does_not_fit_is_cut_at_its_blank_lines() -> None:
    body = "\n\n".join(f"def f{n}():\n    # It runs. Then it ends.\n    return {n}" for n in range(6))
    found = chunks(f"```\n{body}\n```", 110)
    assert [chunk.removeprefix("```\n")[:4] for chunk in found] == ["def ", "def ", "def "]


def test_a_fence_that_is_never_closed_is_text() -> None:
    assert chunks("```\n" + "It is a word. " * 20, 60)[1].startswith("It")


@given(
    st.lists(st.sampled_from(["第一条 ", "A.\n", "\n\n", "```\n", "a | b\n", "x:", "句。", "- b\n", "w "]), max_size=80)
)
def test_a_header_is_a_line_that_stands_before(pieces: list[str]) -> None:
    text = "".join(pieces)
    for part in Splitter(30, 5, 6).split(text):
        lines = [line.removesuffix(" …") for line in part.header.splitlines()]
        assert all(line in text[: part.start] for line in lines)


@pytest.mark.parametrize(
    "unit",
    [
        "a:\n",
        "第一条 x\n",
        "```\n",
        "1.1 A\n\n",
        ". ",
        "e.g. ",
        "a | b\n",
        "。",
        "- x\n",
        "\n \n",
        "```\na\n```\n",
        "[1]",
        "w\n",
    ],
)
def test_work_grows_like_the_text(unit: str) -> None:
    few, many = (count_steps(lambda number=number: chunks(unit * number, 500)) for number in (300, 3_000))
    assert many < 13 * few


ROWS = "".join(f"part {n} | {n * 7}\n" for n in range(40))


@pytest.mark.parametrize("introduction", ["", "\n", "\nThey are of a pair of the valves, by the name of the part.\n\n"])
@pytest.mark.parametrize("label", ["Prices of 2024", "Prices:", "价格表", "**Prices**"])
def test_each_part_of_a_table_has_its_label(label: str, introduction: str) -> None:
    found = chunks(f"{PROSE[0]}\n\n{label}\n{introduction}part | price\n{ROWS}\n{PROSE[1]}", 130)
    parts = [chunk for chunk in found if "part " in chunk and "|" in chunk]
    assert len(parts) > 4
    assert all(chunk.startswith(f"{label}\n") for chunk in parts if chunk != parts[0])
    assert label in parts[0]


@pytest.mark.parametrize("above", ["It is a sentence.", "- an item", f"{'long ' * 10} label", "# A heading"])
def test_what_is_no_label_of_a_table_is_not_repeated(above: str) -> None:
    found = cut(f"{PROSE[0]}\n\n{above}\n\npart | price\n{ROWS}")
    assert sum(above in chunk for chunk, _ in found) <= 1


def test_a_table_of_two_lines_is_not_cut_from_its_label() -> None:
    assert chunks(f"Anders\n\n{PROSE[0]}\n\n| 2006\ntax | {'7 ' * 30}", 120)[1].startswith("Anders\n| 2006\ntax | 7")


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("table", ["a | \n | ", "a |  | \nb | c |", "a | \nb | c", "a | b\n--|--", "| \n| \n| "])
def test_the_last_row_of_a_table_is_no_header(table: str, end: str) -> None:
    text = f"{PROSE[0]}\n\n{table}{end}"
    assert Breaks(text, ()).header(len(text) - len(end) - 1, 99).count("\n") <= 2
    assert "".join(chunks(text)).endswith(table.rsplit("\n", maxsplit=1)[-1].strip())


def test_a_closing_tag_begins_no_chunk() -> None:
    text = f'<div class="a">\n\n{PROSE[0]}\n\n</div>\n<div class="b">\n\n{PROSE[1]}\n\n</div>\n\n{PROSE[2]}'
    assert [chunk.split("\n")[0] for chunk in chunks(text, 135)] == ['<div class="a">', '<div class="b">', PROSE[2]]


def test_a_header_that_is_longer_than_any_chunk_is_not_copied() -> None:
    text = f"Prices\n{'a | ' * 5_000}\n{'b | ' * 5_000}\n"
    assert Breaks(text, ()).header(len(text) - 9, 100) == "Prices\n"
