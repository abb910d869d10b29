"""Serve one index to many: over HTTP, and to agents over the Model Context Protocol.

Starlette, uvicorn and the `mcp` package are of the extra ``serve``.
"""
