# `make run` and `make test` work on a fresh clone: each installs what it lacks into .venv, once.
# PYTHON names an interpreter; MUSTER_PORT, MUSTER_DATA_DIR and DB=postgres are read by `manage.py serve`.

BIN := .venv/bin
RUN := .venv/.stamp-run
DEV := .venv/.stamp-dev
DOCS := .venv/.stamp-docs

# Without the compiled files every start would compile a hundred thousand lines anew.
unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONPATH

# Failed and skipped tests are named at the end, with their reasons. No test is tried again.
SUMMARY := -r fEs --durations 12
# One worker process for each lane, all side by side; tests/conftest.py says which tests a lane runs.
LANES := sqlite postgres plain live browser live-postgres
SIDE_BY_SIDE := --dist each $(foreach lane,$(LANES),--tx popen//id=$(lane)//env:LANE=$(lane)) -o console_output_style=classic

SEEDS ?= 1000000
PROCESSES ?= $(shell nproc)
ROUNDS ?= 1

.DEFAULT_GOAL := help
.PHONY: demo docs exhaustive frontend help journeys messages reading run test test-fast test-sqlite test-postgres check check-style check-contracts check-django check-scripts format types reference bench emulators simulate hosts soak ci

help:  ## show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(RUN)  ## start everything, process one message, keep serving until Ctrl-C
	@.ci/documents $(BIN)/python &
	@exec $(BIN)/python manage.py serve

test: $(DEV)  ## the tests before a push, without full matrices; where databases differ, on SQLite and on PostgreSQL
	$(BIN)/pytest $(SIDE_BY_SIDE) $(SUMMARY)

exhaustive: $(DEV)  ## every test with full matrices; all that use the database on both
	EXHAUSTIVE=1 $(BIN)/pytest $(SIDE_BY_SIDE) $(SUMMARY)

test-sqlite: $(DEV)  ## every test on SQLite, one after the other
	EXHAUSTIVE=1 $(BIN)/pytest --db=sqlite $(SUMMARY)

test-postgres: $(DEV)  ## every test on the embedded PostgreSQL, one after the other
	EXHAUSTIVE=1 $(BIN)/pytest --db=postgres $(SUMMARY)

test-fast: $(DEV)  ## the tests that take no more than a second, on SQLite, and a few cases of those with long tables
	$(BIN)/pytest -n 2 --dist worksteal --few-cases -m "not slow and not browser and not live"

journeys: $(DEV)  ## every journey in a browser: BROWSER=firefox, or Chromium
	BROWSER=$(or $(BROWSER),chromium) $(BIN)/pytest tests/journeys -m browser $(SUMMARY)

# Side by side: the types take as long as all others together.
check: $(DEV)  ## lint, format, import contracts, types, migrations, system checks; types of scripts where Node.js is there
	@$(MAKE) --no-print-directory -j2 types check-style check-contracts check-django check-scripts

check-style: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-contracts: $(DEV)
	$(BIN)/lint-imports

check-django: $(DEV)
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py check

check-scripts: $(DEV)
	@.ci/frontend types

format: $(DEV)  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(DEV)  ## mypy alone
	$(BIN)/mypy .

reference: $(DEV)  ## write docs/reference/ and what is generated in client/ anew from the code
	$(BIN)/python -m tests.docs.reference

reading: $(DEV)  ## print how hard the code is to read, beside the models: OF="runs/calls" for some folders or files
	$(BIN)/python -m tests.docs.reading $(OF)

frontend:  ## check the types of the scripts of pages, and build the code editor and static/muster/vendor anew (needs Node.js)
	@.ci/frontend types build

messages: $(DEV)  ## collect the texts of pages and scripts into locale/, and compile the translations (needs gettext)
	@DJANGO_SETTINGS_MODULE=config.settings $(BIN)/python -m tests.docs.messages

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

simulate: $(DEV)  ## a million seeds of the simulated run engine: SEEDS=1000 PROCESSES=2 EACH=1 MUTATE=fence
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --processes $(PROCESSES) --resume \
	  $(if $(EACH),--each) $(if $(MUTATE),--without $(MUTATE))

hosts: $(DEV)  ## Muster on three hosts that lose each other, are killed, have wrong clocks: SEED=42 ROUNDS=3
	$(BIN)/python -m tests.hosts --long --seeds $(ROUNDS) $(if $(SEED),--seed $(SEED))

soak: $(DEV)  ## 100,000 sandbox calls; nothing may leak
	$(BIN)/python -m benchmarks.soak

ci: check docs test  ## what .ci/run runs

$(RUN): requirements.txt
	@.ci/install requirements.txt $(RUN)

$(DEV): $(RUN) requirements-dev.txt
	@.ci/install requirements-dev.txt $(DEV)

$(DOCS): $(RUN) requirements-docs.txt
	@.ci/install requirements-docs.txt $(DOCS)
