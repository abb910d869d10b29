"""An extension of griffe: reStructuredText of numpydoc as Markdown, with formulas as MathML."""

from __future__ import annotations

import re
from html import escape
from textwrap import dedent
from typing import Any

from griffe import AliasResolutionError, Attribute, Class, Extension, NameResolutionError, Object
from latex2mathml.converter import convert

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([\w.]+)`")
MATH_ROLE = re.compile(r":math:`([^`]+)`")
MATH = re.compile(r"^( *)\.\. math::(.*(?:\n+\1 +\S.*)*)", re.MULTILINE)
REFERENCE = re.compile(r"^( *)\.\. \[(\d+)\] ((?:.*)(?:\n\1 +\S.*)*)", re.MULTILINE)
LITERAL = re.compile(r"::$(?=\n\n +\S)", re.MULTILINE)
TABLE = re.compile(r"^ *=+(?: +=+)+\n(?:.+\n)*? *=+(?: +=+)+$(?!\n.)", re.MULTILINE)
TOGETHER = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)+)( :.*)?\n((?: +.*\n?)+)", re.MULTILINE)

PARAMETERS = re.compile(r"^ *Parameters\n *-+\n(?:.*\n)*?(?=^ *\w+\n *-+$)", re.MULTILINE)
SPECIAL = re.compile("__(?!init__|call__).*__")
LONG = 400  # characters


class Markdown(Extension):
    """Rewrites docstrings when they are read, and leaves out members without content."""

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Leave out special methods; the parameters of ``__init__`` are shown with the class."""
        for name in [name for name in cls.members if SPECIAL.fullmatch(name)]:
            del cls.members[name]
        if "open" in cls.members and cls.docstring:  # what opens it is how it is made; the constructor is internal
            cls.members.pop("__init__", None)
            cls.docstring.value = PARAMETERS.sub("", cls.docstring.value)

    def on_attribute(self, *, attr: Attribute, **_: Any) -> None:
        """Leave out values of a page's length."""
        if len(str(attr.value)) > LONG:
            attr.value = None

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value, obj)
            if obj.path.startswith("rag_bm25.langchain."):  # pydantic makes the signatures
                obj.docstring.parser_options = {**obj.docstring.parser_options, "warnings": False}


def markdown(text: str, obj: Object) -> str:
    """Write a docstring in Markdown; `obj` is where names are looked up."""
    text = TOGETHER.sub(each, text)
    text = MATH.sub(lambda found: f"{found[1]}{mathml(found[2], 'block')}", text)
    text = MATH_ROLE.sub(lambda found: mathml(found[1], "inline"), text)
    text = ROLE.sub(lambda found: reference(found[1], obj), text)
    text = REFERENCE.sub(lambda found: f"{found[1]}\\[{found[2]}\\] {' '.join(found[3].split())}<br>", text)
    text = re.sub(r"\[(\d)\]_", r"\\[\1\\]", text)
    text = LITERAL.sub(":", text)
    text = re.sub(r"^ *:\n\n", "", text, flags=re.MULTILINE)
    return TABLE.sub(table, text)


def each(found: re.Match[str]) -> str:
    """Describe each of the parameters that are described together, which griffe would give the type of the first."""
    description = found[3].rstrip("\n")
    return "".join(f"{name}{found[2] or ''}\n{description}\n" for name in found[1].split(", "))


def mathml(latex: str, display: str) -> str:
    """Write a formula as browsers show it; an empty line in it parts two formulas."""
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", dedent(latex)) if part.strip()]
    return "\n".join(convert(part, display=display) for part in parts)


def reference(name: str, obj: Object) -> str:
    """Link a name where it is on a page."""
    shown = f"<code>{escape(name.removeprefix('rag_bm25.'))}</code>"
    return f'<autoref identifier="{path_of(name, obj)}" optional>{shown}</autoref>'


def path_of(name: str, obj: Object) -> str:
    """Resolve a name: a full one, one of the module, or a method of the class."""
    for scope in (obj, *([obj.parent] if obj.parent else [])):
        if name.split(".", maxsplit=1)[0] in getattr(scope, "members", {}):
            return f"{scope.path}.{name}"
        try:
            return str(scope.resolve(name))
        except (AliasResolutionError, NameResolutionError):
            continue
    return name


def table(found: re.Match[str]) -> str:
    """Write a simple table with pipes; the columns are those of its first line, a row may go on in the next line."""
    first, *lines = dedent(found[0]).splitlines()
    starts = [column.start() for column in re.finditer("=+", first)]
    rows: list[list[str]] = []
    for line in lines:
        cells = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells, strict=True)]
    rules = [number for number, cells in enumerate(rows) if set(cells[0]) == {"="}]
    head = rows[: rules[0]] if len(rules) > 1 else [[""] * len(starts)]
    body = rows[rules[0] + 1 : -1] if len(rules) > 1 else rows[:-1]
    return "\n".join(f"|{'|'.join(cells)}|" for cells in [*head, ["---"] * len(starts), *body])
