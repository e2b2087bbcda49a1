# Every target sets up what it needs first. PYTHON=… chooses the Python, GPU=1 the packages for NVIDIA GPUs.
# Paths are relative throughout, so that the checkout may lie in a folder whose name has a space.
.DEFAULT_GOAL := help
.PHONY: help env demo test test-slow test-spark bench-gpu lint clean
SHELL := /bin/sh
# Not for the compilers that set-up starts.
unexport MAKEFLAGS MFLAGS MAKELEVEL

RUN_TOOL := sh ps_cluster/setup/python.sh -m ps_cluster.setup.env
PYTEST := .venv/bin/python -m pytest
# Tests of a cluster start up to seven processes each, so two at a time keep two to four cores busy.
TEST_PROCESSES := 2

help:
	@echo "make demo       set up, then train and export a model on real ratings: 2 parameter servers, 2 workers"
	@echo "make env        set up only: .venv with all packages, the op libraries and the command ps-cluster"
	@echo "make test       set up, lint, run the tests"
	@echo "make test-slow  set up, run the tests that take minutes"
	@echo "make test-spark set up with Spark as well (needs Java 17), run the tests of conversions on Spark"
	@echo "make bench-gpu  set up, compile the ranker's CUDA kernels, check and time them (needs nvcc and a GPU)"
	@echo "make lint       set up, check style, formatting and types"
	@echo "make clean      remove what set-up made (not ~/.cache/ps-cluster, not demo/)"

env:
	@$(RUN_TOOL) $(if $(GPU),--gpu)

demo: env
	@mkdir -p demo && cp ps_cluster/examples/movielens.yaml demo/movielens.yaml
	@test -f demo/samples/train.orc -a -f demo/samples/test.orc || .venv/bin/ps-cluster data movielens demo/samples --wheel "$$($(RUN_TOOL) --where-movielens)"
	@.venv/bin/ps-cluster train demo/movielens.yaml --overwrite --report demo/report.json

lint: env
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/mypy setup.py

test: lint
	$(PYTEST) -m "not slow" --numprocesses $(TEST_PROCESSES) --dist loadfile $(PYTEST_FLAGS)

test-slow: env
	$(PYTEST) -m slow $(PYTEST_FLAGS)

# Spark is large and few need it: an environment of its own over the usual one.
build/spark/pins: setup.py
	rm -rf build/spark && mkdir -p build && .venv/bin/python -m venv build/spark
	.venv/bin/python -c 'import site; print(site.getsitepackages()[0])' > "$$(build/spark/bin/python -c 'import site; print(site.getsitepackages()[0])')/usual.pth"
	.venv/bin/python -c 'from pathlib import Path; from ps_cluster.setup.pins import read_pins; print(*read_pins(Path("setup.py")).extras["spark"], sep="\n")' > build/spark/wanted
	build/spark/bin/python -m pip install --quiet --no-deps -r build/spark/wanted
	mv build/spark/wanted build/spark/pins

test-spark: env
	@$(MAKE) --no-print-directory build/spark/pins
	PYTHONPATH=. build/spark/bin/python -m pytest -m slow tests/data/convert/test_spark.py $(PYTEST_FLAGS)

# With GPU=1 also against TensorFlow's own ops. Exit code 2 where there is no nvcc or no GPU.
bench-gpu: env
	@.venv/bin/python -m tests.bench.rankmixer_gpu $(BENCH_FLAGS)

clean:
	rm -rf .venv build *.egg-info ops/_ops.so ops/_orc.so ops/_rankmixer.so ops/_rankmixer_cuda.so ops/_rankmixer_gpu.so ops/._*.so.*.part
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
