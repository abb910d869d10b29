"""BM25 for RAG on Milvus: incremental, exact statistics, explainable scores, Chinese and English.

What the package exports is imported when it is first used: until then, Ctrl-C would interrupt the command line where it
cannot catch that. Only modules that Python has already imported are imported here: ``python -m rag_bm25`` would find
others in the current folder first.
"""

from importlib import import_module
from importlib.util import find_spec

from rag_bm25._version import __version__ as __version__

TYPE_CHECKING = False  # type checkers take it for true
if TYPE_CHECKING:
    from rag_bm25._exports import *  # noqa: F403
else:  # type checkers would take it as an excuse for names that do not exist

    def __getattr__(name: str) -> object:
        """Import a module that is used for the first time, or what the package exports."""
        if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
            return import_module(f"{__name__}.{name}")
        exports = import_module(f"{__name__}._exports")
        if name != "__all__" and name not in exports.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(exports, name)
        return found


def __dir__() -> list[str]:
    return [*import_module(f"{__name__}._exports").__all__, "__version__"]
