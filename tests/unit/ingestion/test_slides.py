"""PPTX: charts and diagrams are text, lists keep their levels, and footers are text once."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rag_bm25.ingestion.formats.drawings import chart_rows, diagram_lines
from rag_bm25.ingestion.reading import read_document

pptx = pytest.importorskip("pptx")
etree: Any = import_module("lxml.etree")
C = "http://schemas.openxmlformats.org/drawingml/2006/chart"
D = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
A14 = "http://schemas.microsoft.com/office/drawing/2010/main"
M = "http://schemas.openxmlformats.org/officeDocument/2006/math"
MC = "http://schemas.openxmlformats.org/markup-compatibility/2006"
TYPE = "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml"


def diagram(texts: dict[int, str], lines: list[tuple[int, int, int]]) -> bytes:
    """Return a diagram of points by number, and of lines with their order."""
    points = "".join(
        f'<d:pt modelId="{id_}"><d:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></d:t></d:pt>'
        for id_, text in texts.items()
    )
    drawn = "".join(f'<d:cxn srcId="{above}" destId="{part}" srcOrd="{at}"/>' for above, part, at in lines)
    drawn += '<d:cxn type="presOf" srcId="3" destId="1"/>'
    spaces = f'xmlns:d="{D}" xmlns:a="{A}"'
    return f"<d:m {spaces}><d:ptLst>{points}</d:ptLst><d:cxnLst>{drawn}</d:cxnLst></d:m>".encode()


def points(name: str, *values: object, form: str = "General") -> str:
    cells = "".join(f'<pt idx="{at}"><v>{value}</v></pt>' for at, value in enumerate(values))
    return f"<{name}><numRef><numCache><formatCode>{form}</formatCode>{cells}</numCache></numRef></{name}>"


def chart(*series: str) -> list[list[str]]:
    made = "".join(f"<ser><tx><v>sold</v></tx>{each}</ser>" for each in series)
    return list(chart_rows(f'<chartSpace xmlns="{C}">{made}</chartSpace>'.encode()))


@pytest.mark.parametrize(
    ("series", "row"),
    [
        (points("cat", 43831, form="yyyy\\-mm") + points("val", 0.25, form="0%"), ["2020-01-01", "25%"]),
        (points("xVal", 1.5) + points("yVal", 0.1 + 0.2), ["1.5", "0.3"]),
        (points("val", 1200.0), ["", "1200"]),
        ("<cat><lvl><pt idx='0'><v>Q1</v></pt></lvl><lvl><pt idx='0'><v>2020</v></pt></lvl></cat>", ["2020 Q1", ""]),
    ],
)
def test_the_points_of_a_chart_are_rows_as_it_shows_them(series: str, row: list[str]) -> None:
    assert chart(series) == [["", "sold"], row]


def test_series_with_other_labels_are_a_table_of_their_own() -> None:
    first, second = points("cat", 1) + points("val", 2), points("cat", 3) + points("val", 4)
    assert chart(first, first, second) == [["", "sold", "sold"], ["1", "2", "2"], ["", "sold"], ["3", "4"]]


def test_a_diagram_is_a_list_in_its_order() -> None:
    xml = diagram({0: "", 1: "Pump", 2: "valve", 3: "seal", 4: "Tank"}, [(0, 4, 1), (0, 1, 0), (1, 2, 1), (1, 3, 0)])
    assert list(diagram_lines(xml)) == ["- Pump", "  - seal", "  - valve", "- Tank"]


def test_a_diagram_whose_lines_form_a_circle_has_its_texts_once() -> None:
    assert list(diagram_lines(diagram({0: "", 1: "a", 2: "b"}, [(0, 1, 0), (1, 2, 0), (2, 1, 0)]))) == ["- a", "  - b"]
    assert list(diagram_lines(diagram({1: "a", 2: "b"}, [(1, 2, 0), (2, 1, 0)]))) == ["- a", "- b"]


def add_diagram(slide: Any, xml: bytes) -> None:
    part = pptx.opc.package.Part(pptx.opc.packuri.PackURI("/ppt/diagrams/data1.xml"), TYPE, slide.part.package, xml)
    id_ = slide.part.relate_to(part, f"{R}/diagramData")
    frame = (
        f'<p:graphicFrame xmlns:p="{P}" xmlns:a="{A}"><p:nvGraphicFramePr><p:cNvPr id="9" name="d"/>'
        "<p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr><p:xfrm/><a:graphic>"
        f'<a:graphicData uri="{D}"><d:relIds xmlns:d="{D}" xmlns:r="{R}" r:dm="{id_}"/></a:graphicData>'
        "</a:graphic></p:graphicFrame>"
    )
    slide.shapes._spTree.append(pptx.oxml.parse_xml(frame))


def read(path: Path, deck: Any) -> str:
    deck.save(path / "a.pptx")
    return read_document(path / "a.pptx").text


def test_a_chart_and_a_diagram_of_a_slide_are_text(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    add_diagram(slide, diagram({0: "", 1: "Pump", 2: "valve"}, [(0, 1, 0), (1, 2, 0)]))
    data = import_module("pptx.chart.data").CategoryChartData()
    data.categories = ["Aarhus", "Odense"]
    data.add_series("Bicycles", (1200, 860))
    kind = import_module("pptx.enum.chart").XL_CHART_TYPE.PIE
    made = slide.shapes.add_chart(kind, 0, 0, 100, 100, data).chart
    made.chart_title.text_frame.text = "By town"
    text = "- Pump\n  - valve\n\nBy town\n| Bicycles\nAarhus | 1200\nOdense | 860\n\n"
    assert read(tmp_path, deck) == text


def test_lists_of_slides_have_their_levels(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    frame = deck.slides.add_slide(deck.slide_layouts[1]).placeholders[1].text_frame
    frame.text = "Tanks"
    for level, text in ((1, "north"), (2, "steel"), (0, "Pumps")):
        added = frame.add_paragraph()
        added.text, added.level = text, level
    assert read(tmp_path, deck) == "Tanks\n  - north\n    - steel\nPumps\n\n"


def test_a_box_with_a_formula_is_text(tmp_path: Path) -> None:
    """PowerPoint stores it as an alternative to a picture of it."""
    presentation = pptx.Presentation()
    shapes = presentation.slides.add_slide(presentation.slide_layouts[6]).shapes
    boxes = [shapes.add_textbox(0, 0, 100, 100) for _ in range(3)]
    for box, shown in zip(boxes, ["Energy is ", " ", "after"], strict=True):
        box.text_frame.text = shown
    tree, formula, picture = boxes[0].element.getparent(), *(box.element for box in boxes[:2])
    math = f'<a14:m xmlns:a14="{A14}"><m:oMath xmlns:m="{M}"><m:r><m:t>E=m</m:t></m:r></m:oMath></a14:m>'
    formula.txBody.p_lst[0].append(etree.fromstring(math))
    alternatives = etree.Element(f"{{{MC}}}AlternateContent")
    tree.replace(formula, alternatives)
    for name, form in (("Choice", formula), ("Fallback", picture)):
        etree.SubElement(alternatives, f"{{{MC}}}{name}").append(form)
    presentation.save(str(tmp_path / "a.pptx"))
    assert read_document(tmp_path / "a.pptx").text.split("\n\n")[:-1] == ["Energy is E=m", "after"]


def test_footers_of_slides_are_text_once_and_their_numbers_are_none(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    for number, footer in enumerate(("Nordland AG", "Nordland AG", "draft"), 1):
        slide = deck.slides.add_slide(deck.slide_layouts[6])
        for kind, text in (("ftr", footer), ("sldNum", str(number))):
            box = slide.shapes.add_textbox(0, 0, 100, 100)
            box.text_frame.text = text
            box._element.nvSpPr.nvPr.append(pptx.oxml.parse_xml(f'<p:ph xmlns:p="{P}" type="{kind}" idx="9"/>'))
    assert read(tmp_path, deck).split() == ["Nordland", "AG", "draft"]
