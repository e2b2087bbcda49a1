"""The Arrow that a Python has installed with pyarrow, as a Bazel repository."""

_PROGRAM = """
import glob, json, pyarrow
libraries = [path for folder in pyarrow.get_library_dirs() for path in sorted(glob.glob(folder + "/libarrow.so.*"))]
print(json.dumps({"include": pyarrow.get_include(), "library": libraries[0]}))
"""

_BUILD = """
cc_import(
    name = "library",
    shared_library = "%s",
)

cc_library(
    name = "arrow",
    hdrs = ["include"],
    includes = ["include"],
    visibility = ["//visibility:public"],
    deps = [":library"],
)
"""

def _installed_arrow(ctx):
    root = ctx.path(Label("//:WORKSPACE")).dirname
    python = ctx.os.environ.get("PS_CLUSTER_PYTHON", str(root) + "/.venv/bin/python")
    found = ctx.execute([python, "-c", _PROGRAM])
    if found.return_code != 0:
        fail("%s cannot import pyarrow: run `make env`, or set PS_CLUSTER_PYTHON\n%s" % (python, found.stderr))
    facts = json.decode(found.stdout.strip().split("\n")[-1])
    name = facts["library"].split("/")[-1]
    ctx.symlink(facts["include"], "include")
    ctx.symlink(facts["library"], name)
    ctx.file("flags.bzl", "ARROW_FLAGS = [\"--std=c++20\"]\n")
    ctx.file("BUILD", _BUILD % name)

installed_arrow = repository_rule(
    implementation = _installed_arrow,
    doc = "Headers and library of the Arrow in the pyarrow of PS_CLUSTER_PYTHON, else of the checkout's .venv.",
    environ = ["PS_CLUSTER_PYTHON"],
    local = True,
)
