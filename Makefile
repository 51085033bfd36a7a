# The project's commands; README.md describes them. Results go to build/.

SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# make demo: all are optional
BAG ?=
TOPIC ?=
BACKEND ?= virtual
NODES ?=
MODEL ?=
LABELS ?=
RATE ?= max
HFOV ?= 90
PARAMS ?=

RUN := tools/run.sh

PAGE_TESTS := $(foreach name,page actions models access connection,test/test_dashboard_$(name).py)

# make accuracy: all are optional
ENGINE ?= cpu
ALGORITHMS ?= $(EYES)
EYES ?=

# make fuzz: all are optional
INPUTS ?= 24000
SEQUENCES ?= 100
SEED ?=
MESSAGES ?= 6000
ORDERS ?= 3000

# make soak: all are optional
MINUTES ?= 10
HOURS ?= 0
STICKS ?= 3

# make live: all are optional
CAMERA ?= scene
PORT ?= 8080
HOST ?=
TOKEN ?=

# make drive: all are optional
SCENARIO ?=
SEEDS ?= 5

.PHONY: help setup demo test lint types pytest bench accuracy regressions fuzz soak live drive pictures parameters policies docs format schema clean

help: ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## install what is needed and build the packages (every command below does it)
	@tools/setup.sh

demo: setup ## replay a rendered scene, or BAG=path TOPIC=/t, through the live graph (BACKEND=, NODES=, MODEL=, LABELS=, PARAMS=, RATE=, HFOV=)
	@$(RUN) python3 -m demo --backend "$(BACKEND)" --rate "$(RATE)" --hfov "$(HFOV)" $(if $(NODES),--nodes "$(NODES)") $(if $(MODEL),--model "$(MODEL)") $(if $(LABELS),--labels "$(LABELS)") $(if $(PARAMS),--params-file "$(PARAMS)") $(if $(BAG),--bag "$(BAG)") $(if $(TOPIC),--topic "$(TOPIC)")

test: lint types pytest ## run every check and test

lint: setup
	@echo "[test] format and lint (ruff)"
	$(RUN) ruff format --check --quiet .
	$(RUN) ruff check --quiet .

types: setup
	@# For Python 3.10 there is no NumPy after 2.2, in whose types mypy finds errors that later ones do not have.
	if ! $(RUN) python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
	  echo "[test] types: skipped, they need a NumPy that Python 3.10 does not have"
	  exit 0
	fi
	echo "[test] types (mypy --strict)"
	$(RUN) mypy --no-error-summary

pytest: setup
	@echo "[test] unit and graph tests (pytest)"
	# Many tests wait for processes, so three run at a time if pytest-xdist is installed. The tests of a file run
	# in one process, and the folder with the longest files comes first, so that none of these runs last. A
	# crash of a process ends the run: if pytest-xdist replaces the process, it may wait for ever.
	parallel=$$($(RUN) python3 -c 'import xdist; print("-n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart 0")' 2>/dev/null || true)
	$(RUN) python3 -m pytest $$parallel $(PAGE_TESTS:%=--ignore=%)
	echo "[test] the page of the dashboard in a browser (pytest)"
	# On two cores a browser is too slow beside other tests. Status 5: their tools are missing, all are skipped.
	$(RUN) python3 -m pytest $(PAGE_TESTS) || [ $$? -eq 5 ]

bench: setup ## measure the driver; results go to build/bench/results.json
	@$(RUN) python3 -m bench

accuracy: setup ## measure the perception algorithms; results and a report go to build/accuracy (ALGORITHMS=, ENGINE=)
	@$(RUN) python3 -m accuracy --engine "$(ENGINE)" $(ALGORITHMS)

regressions: setup ## compare the accuracy on a few scenes with the figures on record, in two minutes
	@$(RUN) python3 -m accuracy --quick --compare

fuzz: setup ## damaged files and messages, odd images, the driver's threads in many orders (INPUTS=, SEQUENCES=, MESSAGES=, ORDERS=, SEED=)
	@$(RUN) python3 -m fuzz --inputs "$(INPUTS)" --sequences "$(SEQUENCES)" --messages "$(MESSAGES)" --orders "$(ORDERS)" $(if $(SEED),--seed "$(SEED)")

soak: setup ## run the graph under faults and restarts, every result checked (MINUTES=, HOURS=, STICKS=, SEED=)
	@$(RUN) python3 -m soak --minutes "$(MINUTES)" --hours "$(HOURS)" --sticks "$(STICKS)" $(if $(SEED),--seed "$(SEED)")

live: setup ## show the suite in a browser, at http://127.0.0.1:8080 (NODES=, CAMERA=, BACKEND=, PORT=, HOST= with TOKEN=); installs NiceGUI
	@$(RUN) tools/run_live.sh --backend "$(BACKEND)" --camera "$(CAMERA)" --port "$(PORT)" $(if $(HOST),--host "$(HOST)") $(if $(TOKEN),--token "$(TOKEN)") $(if $(NODES),--nodes "$(NODES)")

drive: setup ## let a simulated robot drive by the real graph (SCENARIO= with names, SEEDS=, MODEL=); installs MuJoCo
	@$(RUN) tools/run_drive.sh $(SCENARIO) --seeds "$(SEEDS)" $(if $(MODEL),--model "$(MODEL)")

pictures: setup ## draw the pictures of the README into docs/images
	@$(RUN) python3 -m accuracy.readme_pictures
	$(RUN) python3 -m demo --backend cpu --gif docs/images/demo.gif
	$(RUN) tools/install_extra.sh live >/dev/null
	$(RUN) python3 tools/dashboard_pictures.py

parameters: setup ## write config/edgetpu.yaml from the parameters that the nodes declare
	@$(RUN) python3 -m edgetpu_driver.node_kit.installed_nodes.parameter_file >build/edgetpu.yaml
	mv build/edgetpu.yaml config/edgetpu.yaml

policies: setup ## write config/security/policies.xml from what the nodes open
	@$(RUN) python3 -m edgetpu_driver.node_kit.installed_nodes.security_policies \
	  --also heading_hold:cmd_vel_in:=twist_mux/cmd_vel --also contact_guard:cmd_vel_in:=heading_hold/cmd_vel \
	  --ros-args --log-level error -r image:=/camera/image_raw -r camera_info:=/camera/camera_info >build/policies.xml
	mkdir -p config/security
	mv build/policies.xml config/security/policies.xml

docs: setup ## write API pages of the Python packages to build/docs
	@$(RUN) tools/make_docs.sh

format: setup ## format the sources
	@$(RUN) ruff format .
	$(RUN) ruff check --fix .

schema: ## regenerate the flatbuffers bindings (needs flatc)
	@tools/generate_schema.sh

clean: ## remove everything that was made, the virtual environment too
	@rm -rf .venv build install log
