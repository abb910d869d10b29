"""``rag-bm25 serve``, and the tokens of those who ask."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rag_bm25.analysis.contract import require_analyzer
from rag_bm25.checks import require_extra
from rag_bm25.cli import options as opt
from rag_bm25.cli.console import print_note
from rag_bm25.cli.ingesting import DEFAULT_MAX_DELETE, MaxDelete, Prune, parse_percent
from rag_bm25.cli.settings import DEFAULT_CHUNK_SIZE, as_usage, new_config
from rag_bm25.errors import IndexNotFoundError, install_extra
from rag_bm25.index.index import BM25Index
from rag_bm25.ingestion.files import find_files
from rag_bm25.serving.settings import Limits, Settings, parse_address
from rag_bm25.serving.tokens import TokenFile, make_token


def serve(
    place: opt.SearchedIndexes,
    http: Annotated[
        str | None, opt.option("Serve the page, the API and MCP at this address.", metavar="HOST:PORT")
    ] = None,
    mcp: Annotated[bool, opt.option("Serve MCP over stdin and stdout.", "--mcp")] = False,
    ingest: Annotated[
        list[Path] | None,
        opt.option("Ingest files or a folder at the start, while serving; may be repeated.", metavar="PATH"),
    ] = None,
    watch: Annotated[
        bool, opt.option("Keep the index in step: ingest files of --ingest that change later, too.", "--watch")
    ] = False,
    prune: Prune = False,
    max_delete: MaxDelete = DEFAULT_MAX_DELETE,
    allow_writes: Annotated[bool, opt.option("Let clients add and delete chunks.", "--allow-writes")] = False,
    access_token: Annotated[
        str | None,
        opt.option(
            "What clients must send as `Authorization: Bearer TOKEN`, or the file that has it.",
            envvar="RAG_BM25_ACCESS_TOKEN",
            callback=opt.read_token,
            metavar="TOKEN|@FILE",
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        opt.option("File of further tokens, each with a scope; `rag-bm25 token` makes its lines.", metavar="FILE"),
    ] = None,
    cert: Annotated[Path | None, opt.option("PEM file of the server's certificate, for HTTPS.", metavar="FILE")] = None,
    key: Annotated[Path | None, opt.option("Its private key.", metavar="FILE")] = None,
    behind_proxy: Annotated[
        bool, opt.option("State that a proxy speaks TLS with the clients.", "--behind-proxy")
    ] = False,
    allow_host: Annotated[
        list[str] | None, opt.option("Another name that clients use for this server; may be repeated.", metavar="NAME")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, opt.option("Another origin whose pages may ask; may be repeated.", metavar="ORIGIN")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, max=3600, help="Maximum seconds for an answer.")] = 30.0,
    budget: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Maximum seconds that the index works for an answer that reads.")
    ] = 3.0,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Requests that the index answers at once.")] = 4,
) -> None:
    """Serve an index to people, programs and agents: one process owns it, many use it."""
    if (http is None) != mcp:
        raise typer.BadParameter("give one of --http HOST:PORT and --mcp")
    if mcp and tokens:
        raise typer.BadParameter("is for --http: who starts --mcp has all rights", param_hint="--tokens")
    if len(place.collection) > 1 and (allow_writes or ingest):
        raise typer.BadParameter("must be given once: several indexes are only read", param_hint="--collection")
    share = parse_percent(max_delete)
    _check_ingestion(ingest, {"--watch": watch, "--prune": prune, "--max-delete": max_delete != DEFAULT_MAX_DELETE})
    limits = Limits(seconds=timeout, work=budget, running=concurrency)
    with as_usage("--http"):
        host, port = ("127.0.0.1", 0) if http is None else parse_address(http)
    settings = Settings(
        host,
        port,
        access_token,
        cert,
        key,
        behind_proxy,
        tuple(allow_host or ()),
        tuple(allow_origin or ()),
        allow_writes,
        limits,
        None if tokens is None else TokenFile(tokens),
    )
    with require_extra(f"serving needs starlette, uvicorn and mcp: {install_extra('serve')}"):
        from rag_bm25.serving.ingesting import Ingestion
        from rag_bm25.serving.observing import Observer
        from rag_bm25.serving.running import listen, serve_http, serve_stdio
        from rag_bm25.serving.served import Served
    observer = Observer()
    with nullcontext() if mcp else listen(settings) as listener:
        plan = None
        open_index = partial(place.open_existing, read_only=not (allow_writes or ingest), on_event=observer)
        if ingest:
            first = place.places[0]
            for path in ingest:
                path.stat()  # one that does not exist is refused at once
            plan = Ingestion(
                lambda roots: find_files(ingest, roots=roots), watch, {"prune": prune, "max_delete": share}
            )
            open_index = partial(_open_or_create, open_index, first)
        index = open_index()
        require_analyzer(index.config.analyzer)
        served = Served(index, observer, limits, ", ".join(place.collection), plan)
        served.operations.warm_up()
        if listener is None:
            serve_stdio(served, allow_writes=allow_writes)
            return
        shown = f"[{host}]" if ":" in host else host
        address = f"{settings.scheme}://{shown}:{listener.getsockname()[1]}"
        serve_http(served, settings, listener, lambda: print_note(f"serving {address}"))


def _check_ingestion(ingest: list[Path] | None, options: dict[str, bool]) -> None:
    """Refuse options of --ingest without it."""
    for name, is_given in options.items():
        if is_given and not ingest:
            raise typer.BadParameter("needs --ingest PATH", param_hint=name)


def _open_or_create(open_index: Callable[[], BM25Index], place: opt.IndexAddress) -> BM25Index:
    """Open an index; one that does not exist is created first, as `ingest` does."""
    try:
        return open_index()
    except IndexNotFoundError:
        with place.open(config=new_config(DEFAULT_CHUNK_SIZE, place.text_analyzer, {})):  # its engine runs on
            return open_index()


def token(
    name: Annotated[str, opt.argument("NAME", "Name of the token, for those who keep the file.")],
    namespace: Annotated[
        list[str] | None,
        opt.option("Namespace that it is for; may be repeated; by default all.", metavar="NAME"),
    ] = None,
    filter: Annotated[
        str | None,
        opt.option(
            """Conditions on the metadata of its chunks: a JSON object such as '{"team": "sales"}'.""", metavar="JSON"
        ),
    ] = None,
    write: Annotated[bool, opt.option("Let it add and delete chunks, too.", "--write")] = False,
) -> None:
    """Make an access token: its line for the file of `serve --tokens` goes to stdout, the token itself to stderr."""
    conditions = opt.parse_filter_option(filter)
    with as_usage():
        secret, line = make_token(name, namespaces=namespace, filter=conditions, write=write or None)
    sys.stdout.write(f"{line}\n")
    print_note(f"the token of {name}, which is not shown again: {secret}")
