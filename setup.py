"""The package ps-cluster: what it is made of, from pinned packages to its compiled op library.

Every version lives in the literal lists below and nowhere else; `ps_cluster/setup/pins.py` reads them without importing
this file, because set-up needs them before setuptools is there.
"""

from __future__ import annotations

import filecmp
import hashlib
import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

PYTHON_REQUIRES = ">=3.11,<3.12"  # tensorflow-recommenders-addons has no wheel for 3.12

# What the programs import.
REQUIREMENTS = [
    "horovod==0.28.1",
    "numpy==1.26.4",
    "prometheus_client==0.26.0",
    "protobuf==4.25.9",
    "pyarrow==25.0.1",  # 26 refuses NumPy 1.26
    "pydantic==2.14.4",
    "pyorc==0.12.0",
    "PyYAML==6.0.4",
    "rich==15.0.0",
    "tensorflow==2.16.2",
    "tensorflow-io==0.37.1",
    "tensorflow-recommenders-addons==0.8.1",
    "tf-keras==2.16.0",
]

EXTRAS = {
    "dev": [
        "Flask==3.1.3",
        "flask-cors==6.0.5",
        "hypothesis==6.170.17",
        "jsonschema==4.26.0",
        "kubernetes-validate==1.37.0",
        "moto==5.2.5",
        "mypy==2.4.1",
        "pytest==9.2.0",
        "pytest-xdist==3.8.0",
        "ruff==0.17.6",
    ],
    "gpu": ["tensorflow[and-cuda]==2.16.2"],
    # Not part of the environment that set-up makes; `make test-spark` makes one with it. The last four are what the
    # first two need.
    "spark": [
        "pyspark==4.0.1",
        "pandas==2.3.3",
        "py4j==0.10.9.9",
        "python-dateutil==2.9.0.post0",
        "pytz==2026.6",
        "tzdata==2026.6",
    ],
}

# What those need in turn; set-up gives them to pip as constraints, so that two machines hold the same.
INDIRECT = [
    "absl-py==2.5.1",
    "annotated-types==0.8.0",
    "ast_serialize==0.13.1",
    "astunparse==1.6.3",
    "attrs==26.1.0",
    "blinker==1.9.0",
    "boto3==1.44.8",
    "botocore==1.44.8",
    "certifi==2026.10.19.post1",
    "cffi==2.1.1",
    "charset-normalizer==3.5.3",
    "click==8.5.1",
    "cloudpickle==3.1.3",
    "cryptography==50.0.2",
    "execnet==2.1.2",
    "flatbuffers==25.12.19",
    "gast==0.7.0",
    "google-pasta==0.2.0",
    "grpcio==1.85.3",
    "h5py==3.16.0",
    "idna==3.20",
    "importlib_resources==7.1.0",
    "iniconfig==2.3.1",
    "itsdangerous==2.2.0",
    "Jinja2==3.1.6",
    "jmespath==1.1.0",
    "jsonschema-specifications==2025.9.1",
    "keras==3.15.1",
    "libclang==18.1.1",
    "librt==0.17.0",
    "Markdown==3.11.3",
    "markdown-it-py==4.3.0",
    "MarkupSafe==3.0.4",
    "mdurl==0.1.2",
    "ml-dtypes==0.3.2",
    "mypy_extensions==1.2.0",
    "namex==0.1.0",
    "opt_einsum==3.4.0",
    "optree==0.20.0",
    "packaging==26.4",
    "pathspec==1.1.1",
    "pluggy==1.7.0",
    "psutil==7.2.2",
    "pycparser==3.12",
    "pydantic_core==2.50.5",
    "Pygments==2.21.0",
    "python-dateutil==2.9.0.post0",
    "referencing==0.37.0",
    "requests==2.34.2",
    "responses==0.26.3",
    "rpds-py==2026.9.1",
    "s3transfer==0.19.3",
    "six==1.17.0",
    "sortedcontainers==2.4.0",
    "tensorboard==2.16.2",
    "tensorboard-data-server==0.7.2",
    "tensorflow-io-gcs-filesystem==0.37.1",
    "termcolor==3.3.0",
    "typing-inspection==0.4.5",
    "typing_extensions==4.16.0",
    "urllib3==2.8.0",
    "Werkzeug==3.1.9",
    "wrapt==2.5.2",
    "xmltodict==1.0.4",
]

# What builds Horovod and this package; Horovod's own setup.py needs a setuptools below 80.
BUILD_TOOLS = ["pip==23.2.1", "setuptools==79.0.1", "wheel==0.48.0"]

# Carries the MovieLens ratings of the demo; only its files are used, it is never installed.
MOVIELENS = "recbole==1.2.1"

PACKAGES = ["ps_cluster", "models", "ops", "data"]

ROOT = Path(__file__).resolve().parent


class OpLibrary(NamedTuple):
    """A shared library of ops, made of all sources below one folder."""

    path: str
    folder: str
    arrow: str | None = None
    """Folder of the units that include Arrow's headers. They need C++20, TensorFlow's C++17, so no unit has both; the
    library then links with pyarrow's Arrow."""
    cuda: bool = False
    """Whether it links with the CUDA library beside it."""

    @property
    def sources(self) -> list[str]:
        """The units, relative to the checkout."""
        return self._files("*.cc")

    @property
    def headers(self) -> list[str]:
        return self._files("*.h")

    def is_arrow(self, unit: str) -> bool:
        """Whether `unit`, one of `sources`, includes Arrow's headers."""
        return self.arrow is not None and unit.startswith(f"{self.arrow}/")

    def _files(self, pattern: str) -> list[str]:
        return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / self.folder).rglob(pattern))


# Libraries of their own, so that a parameter server does not load Arrow, and who only scores only the ranker's ops.
LIBRARIES = {
    "ops._ops": OpLibrary("ops/_ops.so", "ops/cc"),
    "ops._rankmixer": OpLibrary("ops/_rankmixer.so", "ops/rankmixer"),
    "ops._orc": OpLibrary("ops/_orc.so", "ops/orc", arrow="ops/orc/arrow"),
}
# Built with PS_CLUSTER_CUDA=1 only, as `make env GPU=1` sets it where nvcc is found: the CUDA library, which
# ps_cluster/setup/cuda.py compiles and which needs no TensorFlow, and the GPU kernels of the ranker's ops, which call
# it. Bazel does not build these.
CUDA_LIBRARY = "ops._rankmixer_cuda"
GPU_LIBRARIES = {"ops._rankmixer_gpu": OpLibrary("ops/_rankmixer_gpu.so", "ops/rankmixer_cuda/kernels", cuda=True)}
WITH_CUDA = os.environ.get("PS_CLUSTER_CUDA") == "1"
# NDEBUG as in TensorFlow's own build: inline code of its headers must be the code its library was built from.
# no-math-errno: a square root that need not set errno is one vector instruction.
# fp-contract=off: rounding, and so every bit of a row, does not depend on the vector instructions a processor has.
OPS_FLAGS = ["-O3", "-fno-math-errno", "-ffp-contract=off", "-DNDEBUG", "-fPIC", "-Wall"]
ARROW_FLAGS = ["--std=c++20"]
OPS_JOBS = 2  # a unit that includes TensorFlow's headers takes about 1 GB while it compiles


class BuildOps(build_ext):
    """Compiles the libraries that TensorFlow loads; only what changed is compiled again.

    Objects are kept in `build/ops` under a name that contains the hash of all that went into them.
    """

    def build_extension(self, ext: Extension) -> None:
        path = _library_paths()[ext.name]
        if ext.name == CUDA_LIBRARY:
            return _install(_cuda_library(), Path(self.build_lib, path))
        library = {**LIBRARIES, **GPU_LIBRARIES}[ext.name]
        return _install(_built(library, ROOT / "build" / "ops" / Path(path).stem), Path(self.build_lib, path))

    def copy_extensions_to_source(self) -> None:
        for path in _library_paths().values():
            _install(Path(self.build_lib, path), ROOT / path)

    def get_ext_filename(self, fullname: str) -> str:
        # Without its package when the package itself is being built.
        return next(path for name, path in _library_paths().items() if name.endswith(fullname))

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []


def _library_paths() -> dict[str, str]:
    """Where the libraries that are to be built go, by their names; what others link with comes before them."""
    gpu = {CUDA_LIBRARY: "ops/_rankmixer_cuda.so", **{name: of.path for name, of in GPU_LIBRARIES.items()}}
    return {**{name: library.path for name, library in LIBRARIES.items()}, **(gpu if WITH_CUDA else {})}


def _extensions() -> list[Extension]:
    named = {**LIBRARIES, **(GPU_LIBRARIES if WITH_CUDA else {})}
    cuda = [Extension(CUDA_LIBRARY, sources=[])] if WITH_CUDA else []
    return [*cuda, *(Extension(name, sources=of.sources, depends=of.headers) for name, of in named.items())]


def _cuda_library() -> Path:
    """Path of the CUDA library's file, compiled where it does not exist yet."""
    sys.path.insert(0, str(ROOT))
    from ps_cluster.setup.cuda import CudaError, build

    try:
        return build()
    except CudaError as error:
        sys.exit(f"ps-cluster: {error}")


def _built(library: OpLibrary, kept: Path) -> Path:
    """Path of the library file, compiled and linked where it does not exist yet."""
    sources = library.sources
    if not sources:
        sys.exit(f"ps-cluster: no source of the op library found: expected {library.folder}/**/*.cc")
    versions = [_installed("tensorflow"), _installed("pyarrow") if library.arrow else ""]
    compiler = shlex.split(os.environ.get("CXX") or "g++")
    if shutil.which(compiler[0]) is None:
        sys.exit(f"ps-cluster: C++ compiler {compiler[0]!r} not found: install g++ or set CXX")
    version = subprocess.run([*compiler, "--version"], check=True, capture_output=True, text=True).stdout
    cuda = [str(_cuda_library())] if library.cuda else []
    headers = [_digest(name, (ROOT / name).read_bytes()) for name in library.headers]
    # The name of the CUDA library's file tells its content.
    common = _digest(*versions, version, *compiler, *OPS_FLAGS, *ARROW_FLAGS, *headers, *cuda)
    objects = {}
    for name in sources:
        key = _digest(name, (ROOT / name).read_bytes(), common)
        objects[name] = kept / f"{name.replace('/', '-')}.{key[:16]}.o"
    stem = Path(library.path).stem
    target = kept / f"{stem}.{_digest(sys.prefix, *(path.name for path in objects.values()))[:16]}.so"
    if target.exists():
        return target

    kept.mkdir(parents=True, exist_ok=True)
    compile_flags, link_flags = _tensorflow_flags()
    arrow_compile_flags, arrow_link_flags = _arrow_flags() if library.arrow else ([], [])
    cuda_link_flags = [*cuda, "-Wl,-rpath,$ORIGIN"] if cuda else []

    def compile_unit(name: str) -> bool:
        if objects[name].exists():
            return True
        print(f"compiling {name}", flush=True)
        flags = [*ARROW_FLAGS, *arrow_compile_flags] if library.is_arrow(name) else compile_flags
        command = [*compiler, *flags, *OPS_FLAGS, "-I", str(ROOT), "-c", str(ROOT / name)]
        return _build(command, objects[name])

    with ThreadPoolExecutor(OPS_JOBS) as pool:
        failed = [name for name, good in zip(sources, pool.map(compile_unit, sources)) if not good]
    if failed:
        sys.exit(f"ps-cluster: {', '.join(failed)} did not compile; the compiler's words are above")
    inputs = [str(objects[name]) for name in sources]
    if not _build([*compiler, "-shared", *inputs, *link_flags, *arrow_link_flags, *cuda_link_flags], target):
        sys.exit("ps-cluster: the op library did not link; the linker's words are above")
    wanted = {target, *objects.values()}
    for path in kept.iterdir():
        if path not in wanted:
            path.unlink()
    return target


def _installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        sys.exit(f"ps-cluster: the op library is built against {package}, which is not installed: run `make env`")


def _digest(*parts: str | bytes) -> str:
    """Hash of a list of texts; their lengths are hashed too, so that no two lists run together."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.hexdigest()


def _tensorflow_flags() -> tuple[list[str], list[str]]:
    """Flags to compile and to link with, from the TensorFlow that this Python imports."""
    compile_flags, link_flags = _asked(
        "TensorFlow", "import tensorflow as tf", "[tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags()]"
    )
    # As system headers, so that warnings are about our own code only.
    compile_flags = [f"-isystem{flag[2:]}" if flag.startswith("-I") else flag for flag in compile_flags]
    return compile_flags, link_flags


def _arrow_flags() -> tuple[list[str], list[str]]:
    """Flags to compile and to link with, from the pyarrow that this Python imports."""
    include, folders = _asked("pyarrow", "import pyarrow", "[pyarrow.get_include(), pyarrow.get_library_dirs()]")
    # A wheel has the library under the name of its major version only: libarrow.so.2500.
    found = sorted(path for folder in folders for path in Path(folder).glob("libarrow.so.*"))
    if not found:
        sys.exit(f"ps-cluster: expected libarrow.so.* in {', '.join(folders)}, which pyarrow names, found none")
    # Installed side by side, the two are found wherever their folder is moved to.
    paths = ["$ORIGIN/../pyarrow", str(found[0].parent)]
    return [f"-isystem{include}"], [str(found[0]), *(f"-Wl,-rpath,{path}" for path in paths)]


def _asked(name: str, statement: str, expression: str) -> tuple[Any, Any]:
    """A pair that a Python of its own computes with a package."""
    program = f"import json; {statement}; print(json.dumps({expression}))"
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"{done.stderr}\nps-cluster: {name} cannot be imported; its words are above")
    first, second = json.loads(done.stdout.splitlines()[-1])
    return first, second


def _build(command: list[str], target: Path) -> bool:
    """Runs a compiler whose output appears at `target` whole or not at all."""
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    done = subprocess.run([*command, "-o", str(part)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, end="", file=sys.stderr, flush=True)
    if done.returncode != 0:
        part.unlink(missing_ok=True)
        return False
    part.rename(target)
    return True


def _install(library: Path, target: Path) -> None:
    """Puts a library in place by a rename: a process that has the old one mapped keeps the old one."""
    if target.exists() and filecmp.cmp(library, target, shallow=False):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    shutil.copyfile(library, part)
    part.rename(target)


if __name__ == "__main__":
    setup(
        name="ps-cluster",
        version="0.1.0",
        description="A TensorFlow parameter-server production system for click models",
        python_requires=PYTHON_REQUIRES,
        packages=find_packages(include=[f"{name}{rest}" for name in PACKAGES for rest in ("", ".*")]),
        package_data={"ps_cluster": ["examples/*.yaml"]},
        install_requires=REQUIREMENTS,
        extras_require=EXTRAS,
        ext_modules=_extensions(),
        cmdclass={"build_ext": BuildOps},
        entry_points={"console_scripts": ["ps-cluster = ps_cluster.__main__:run"]},
        zip_safe=False,
    )
