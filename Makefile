# `make` lists what there is. Each target makes the environment that it needs.

PYTHON ?= python3
BIN := .venv/bin
LITE3 := .venv-lite3/bin

# As in scripts/check.
IN_PARALLEL := --numprocesses 2 --dist loadfile

COMPOSE := docker compose --project-name rag-bm25-milvus --file docker/milvus-standalone.yaml

.PHONY: help demo test test-lite3 test-langchain test-lowest milvus-up milvus-down milvus-drop clean

help:
	@echo "make demo            ingest a small bilingual corpus, answer three questions, print nDCG@10"
	@echo "make test            style, types, docstrings and all tests, on milvus-lite 2.5"
	@echo "make test-lite3      the engine tests on milvus-lite 3 and on a server over TCP"
	@echo "make test-langchain  LangChain's own test suites"
	@echo "make test-lowest     the tests on the lowest versions of all dependencies"
	@echo "make milvus-up        a Milvus server on this machine, by Docker; milvus-down stops it, milvus-drop forgets its data"
	@echo "make clean           remove the environments and caches"

demo: .venv/all.stamp
	$(BIN)/python scripts/demo/demo.py

test: .venv/dev.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check

test-lite3: .venv/dev.stamp .venv-lite3/dev.stamp
	$(LITE3)/python -m pytest $(IN_PARALLEL) tests/contract tests/integration tests/langchain
	RAG_BM25_LITE3_PYTHON=$(CURDIR)/$(LITE3)/python $(BIN)/python -m pytest $(IN_PARALLEL) tests/contract tests/integration -k server

test-langchain: .venv-langchain/dev.stamp
	.venv-langchain/bin/python -m pytest tests/langchain -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function

test-lowest: .venv-lowest/dev.stamp
	.venv-lowest/bin/python -m pytest $(IN_PARALLEL) tests

.venv/all.stamp: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	touch $@

.venv/dev.stamp: .venv/all.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# milvus-lite 3 cannot share an environment with 2.5. rjieba is left out: here jieba itself is tested.
.venv-lite3/dev.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-lite3
	$(LITE3)/python -m pip install --quiet --disable-pip-version-check --editable '.[cli,eval,fuzzy,test]' 'milvus-lite>=3.1,<4'
	touch $@

.venv-langchain/dev.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-langchain
	.venv-langchain/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[lite,fast,test]' \
		'langchain-tests>=1.1,<2' 'pytest-asyncio>=1.3'
	touch $@

.venv-lowest/dev.stamp: pyproject.toml scripts/lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint scripts/lowest.txt --editable '.[all,test]'
	touch $@

milvus-up:
	$(COMPOSE) up --detach --wait

milvus-down:
	$(COMPOSE) down

milvus-drop:
	$(COMPOSE) down --volumes

clean:
	rm -rf .venv .venv-lite3 .venv-langchain .venv-lowest .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
