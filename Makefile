# `make run` and `make test` work on a fresh clone: each installs what it lacks into .venv, once.
# PYTHON names an interpreter; MUSTER_PORT, MUSTER_DATA_DIR and DB=postgres are read by `manage.py serve`.

BIN := .venv/bin
RUN := .venv/.stamp-run
DEV := .venv/.stamp-dev
DOCS := .venv/.stamp-docs

# Without the compiled files every start would compile a hundred thousand lines anew.
unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONPATH

# Tests that kill whole processes depend on the machine: what fails is tried twice more, shown as R, and named at the end.
AGAIN := --reruns 2 --reruns-delay 2 -r fER --durations 12

.DEFAULT_GOAL := help
.PHONY: demo docs help run test test-fast test-sqlite test-postgres check format types reference bench emulators soak ci

help:  ## show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(RUN)  ## start everything, process one message, keep serving until Ctrl-C
	@exec $(BIN)/python manage.py serve

test: test-sqlite test-postgres  ## every test, on SQLite and on the embedded PostgreSQL

test-sqlite: $(DEV)
	$(BIN)/pytest --db=sqlite $(AGAIN)

test-postgres: $(DEV)
	$(BIN)/pytest --db=postgres $(AGAIN)

test-fast: $(DEV)  ## the tests that take no more than a few seconds, on SQLite
	$(BIN)/pytest --db=sqlite -m "not slow and not browser"

check: $(DEV)  ## lint, format, import contracts, types, migrations, system checks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy .
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py check

format: $(DEV)  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(DEV)  ## mypy alone
	$(BIN)/mypy .

reference: $(DEV)  ## write docs/reference/ anew from the code
	$(BIN)/python -m tests.docs.reference

docs: $(DOCS)  ## build the documentation as a site in build/site; broken links fail
	$(BIN)/python docs/site.py

bench: $(DEV)  ## measure, side by side, and print what docs/benchmarks.md shows
	$(BIN)/python -m benchmarks

demo: export MUSTER_DATA_DIR = var/demo
demo: $(RUN)  ## talk to three starter agents in the terminal; nothing is served
	@$(BIN)/python manage.py init_db --verbosity 0
	@$(BIN)/python manage.py create_key demo >/dev/null 2>&1
	@for agent in "helper|What is 17 * 23?" "bookkeeper|loan payment principal 200000 annual_rate 3.5 months 300" \
	  "assistant|text statistics of: the quick brown fox"; do \
	  printf '\n%s> %s\n' "$${agent%%|*}" "$${agent#*|}"; \
	  $(BIN)/python manage.py chat "$${agent%%|*}" --user demo --message "$${agent#*|}"; done

emulators: $(DEV)  ## install Google's client and an emulator of Gmail for tests/connectors, into build/emulate
	@.ci/emulators

soak: $(DEV)  ## 100,000 sandbox calls; nothing may leak
	$(BIN)/python -m benchmarks.soak

ci: check docs test  ## what .ci/run runs

$(RUN): requirements.txt
	@.ci/install requirements.txt $(RUN)

$(DEV): $(RUN) requirements-dev.txt
	@.ci/install requirements-dev.txt $(DEV)

$(DOCS): $(RUN) requirements-docs.txt
	@.ci/install requirements-docs.txt $(DOCS)
