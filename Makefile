# Everything a developer types. `make demo` and `make test` need nothing beforehand
# but python3, make and the package registries.

VENV := .venv
BIN := $(VENV)/bin
# Kept byte code, whatever the machine's habit: hundreds of programs start, four runs collect.
export PYTHONDONTWRITEBYTECODE :=
STAMP := $(VENV)/.installed-
PYTEST := $(BIN)/python -m pytest
VM_PYTEST := $(PYTEST) -o cache_dir=.pytest_cache/vm
PARTS := -m "not integration and not containerd and not vm"
# The folders with such tests, which tests/conftest.py knows, too: to read all others takes each worker a while.
WHOLE := tests/apiserver tests/demo tests/integration tests/release tests/support_selftest -m "(integration or containerd) and not quiet and not vm"
MEASURED := -m quiet
# More than processors: a third of the time of the tests of parts, they wait.
WORKERS := $(shell expr $$(nproc) '*' 3 / 2)
# A test of the clock or of real processes that fails is tried once more, by itself: one that passes
# only then is a defect of the test or of the product, to be looked at. The first summary names it.
AGAIN := $(PYTEST) --last-failed --last-failed-no-failures none
RUNTIME ?= embedded

.PHONY: help demo demo-scheduler demo-descheduler test test-here test-vm-beside unit conformance whole integration test-vm lint format bench chaos chaos-whole chaos-scheduler fuzz mutants screenshots docs proto release deb lock clean
.DELETE_ON_ERROR:

help: ## Show what there is.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

demo: $(STAMP)demo ## Run a batch pod through proxy and koordlet, and show what happens. RUNTIME=containerd: on a real containerd.
	@$(BIN)/python -m koord_demo --runtime $(RUNTIME)

demo-scheduler: $(STAMP)demo ## Place 10,000 pods on 1,000 nodes with the scheduler's own code, without a cluster.
	@$(BIN)/python -m koord_demo.scheduling

demo-descheduler: $(STAMP)demo ## Cool down a hot cluster with the descheduler's own code, without a cluster.
	@$(BIN)/python -m koord_demo.descheduling

test: $(STAMP)test-all ## Check style and layers, then run every test (as root also on real containerds and in a VM).
	@tools/system_packages test
	@tools/system_packages vm
	@$(MAKE) --no-print-directory --jobs=2 test-here test-vm-beside
	@$(PYTEST) tests/integration $(MEASURED) || $(AGAIN) tests/integration $(MEASURED)

# One after the other: each keeps what the VM leaves of the machine busy.
test-here: $(STAMP)test-all
	@for part in lint unit whole; do $(MAKE) --no-print-directory $$part || exit; done

# The VM is one thread, so it lives beside the other tests. Its output comes when it is off.
test-vm-beside: $(STAMP)test-all
	@$(MAKE) --no-print-directory test-vm > $(VENV)/test-vm.log 2>&1; code=$$?; cat $(VENV)/test-vm.log; exit $$code

unit: $(STAMP)test-all ## Run only the tests of parts: no root, no containerd, some minutes.
	@PYTHONHASHSEED=0 $(PYTEST) -n $(WORKERS) --dist worksteal $(PARTS) || $(AGAIN) $(PARTS) # workers name sets alike

conformance: $(STAMP)test-all ## Replay all vectors recorded from Koordinator and kube-scheduler; make unit replays a tenth.
	@CONFORMANCE_STEP=1 $(PYTEST) -n auto -q tests/conformance

# Those of the whole that measure nothing: they wait more than they work, hence five at once. Files in
# their order, not those with many tests first: the longest tests stand alone in theirs.
whole: $(STAMP)test-all
	@PYTHONHASHSEED=0 $(PYTEST) -n 5 --dist loadscope --no-loadscope-reorder $(WHOLE) || $(AGAIN) $(WHOLE) # each worker with daemons of its own

integration: $(STAMP)test-all ## Run only the tests of the whole, as root also on a real containerd.
	@tools/system_packages test
	@$(PYTEST) tests/integration tests/support_selftest

test-vm: $(STAMP)test-all ## Boot a whole Debian node in an emulator, install as the README says, and test that (root).
	@tools/system_packages vm
	@$(VM_PYTEST) tests/vm || { [ $$? = 1 ] && $(VM_PYTEST) --last-failed tests/vm; } # 1: tests failed on a node that lived to its end

lint: $(STAMP)lint ## Check style, types and layers.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(STAMP)lint ## Put the code into the house style.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(STAMP)test-all $(STAMP)bench ## Measure against peers, in turns; results in bench/results/.
	@tools/system_packages bench
	@$(BIN)/python -m bench

fuzz: $(STAMP)test-all $(STAMP)fuzz ## Try all properties with fresh examples; fuzz the frame and header path (SECONDS=60).
	@PYTHONHASHSEED=0 $(PYTEST) --hypothesis-profile=searching -n auto -q -m "hypothesis and not vm"
	@$(BIN)/python -m tests.fuzz.relay -max_total_time=$(or $(SECONDS),60)

mutants: $(STAMP)test-all ## Change pure modules in small ways, and count what the tests notice (MUTANTS=12 a module).
	@nice $(BIN)/python tools/mutation_score.py

chaos: $(STAMP)test-all ## Kill, hang and spoil every part under load for MINUTES=1, and count what became of it. SEED=…
	@GRPC_VERBOSITY=ERROR $(BIN)/python -m tests.chaos --runtime $(RUNTIME) \
		--minutes $(or $(MINUTES),1) $(if $(SEED),--seed $(SEED))

chaos-whole: $(STAMP)test-all ## A whole real cluster of one node (KUBEBUILDER_ASSETS; root): check it, then kill every program for MINUTES=5. SEED=…
	@tools/system_packages test
	@$(BIN)/python -m tests.chaos_whole --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED))

chaos-scheduler: $(STAMP)test-all ## Two schedulers at a real kube-apiserver (KUBEBUILDER_ASSETS) of 5,000 nodes with every feature, leaders killed, API paused, bindings lost (CHURN="--nodes=… --seed=…").
	@$(BIN)/python -m tests.chaos_scheduler $(CHURN)

screenshots: $(STAMP)test-all $(STAMP)bench ## Take the pictures of web pages in docs/images anew, with Chromium.
	@$(BIN)/python -m tools.screenshots

docs: $(STAMP)docs ## Build the documentation site into build/docs/html; a link that leads nowhere fails (DOCS_REPOSITORY=https://…).
	@$(BIN)/sphinx-build -q -E -W -n --keep-going -j auto -b html -c tools/docs_site -d build/docs/doctrees . build/docs/html
	@echo "build/docs/html/index.html"

proto: $(STAMP)dev ## Write the protobuf modules from the .proto files.
	@tools/generate_protos

release: $(STAMP)release ## Build everything of the tag of this version into dist: distributions, packages, archive, images (root on Debian 12).
	@tools/system_packages release
	@$(BIN)/python -m tools.release release

deb: $(STAMP)package ## Build the .deb of this checkout into dist.
	@$(BIN)/python -m tools.release deb

lock: $(STAMP)release ## Write requirements.lock, the libraries of releases, with the newest versions.
	@$(BIN)/python -m tools.release lock

clean: ## Remove what the targets above made.
	rm -rf $(VENV) build dist */build *.egg-info */*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(STAMP)%: pyproject.toml demo/pyproject.toml simulation/pyproject.toml tools/virtualenv tools/helm
	@tools/virtualenv $(VENV) $*
	@touch $@
