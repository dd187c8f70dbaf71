# Two commands do all the set-up on a machine with Python (>= 3.11), git and make alone:
#   make search   search scikit-learn's digits with the default settings, print the leaderboard, export the best
#   make test     everything: formatting, types, layout, and all tests
# make docs makes again what is generated in docs/.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
ifndef NAME
NAME := digits-$(shell date +%Y%m%d-%H%M%S)
endif
# One thread for each process: two torch workers with default threads on two cores are 3x slower.
export OMP_NUM_THREADS ?= 1
# Processes of the tests. Each has one Ray of two workers, which its files share; more of them want more memory.
JOBS ?= 2

.PHONY: search test lint types docs clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

search: $(READY)
	$(BIN)/detol search --data digits --name $(NAME)
	$(BIN)/detol results top --search $(NAME)
	$(BIN)/detol export $(NAME) --to exports/$(NAME)

test: $(READY) lint
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/python -m pytest tests/test_typing.py

docs: $(READY)
	$(BIN)/python docs/make.py

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
