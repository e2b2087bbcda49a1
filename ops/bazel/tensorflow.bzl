"""The TensorFlow that a Python has installed, as a Bazel repository."""

_PROGRAM = """
import json, tensorflow as tf
print(json.dumps({
    "folder": tf.sysconfig.get_lib(),
    "flags": [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")],
}))
"""

_BUILD = """
cc_import(
    name = "framework",
    shared_library = "libtensorflow_framework.so.2",
)

cc_library(
    name = "tensorflow",
    hdrs = ["include"],
    includes = ["include"],
    visibility = ["//visibility:public"],
    deps = [":framework"],
)
"""

def _installed_tensorflow(ctx):
    root = ctx.path(Label("//:WORKSPACE")).dirname
    python = ctx.os.environ.get("PS_CLUSTER_PYTHON", str(root) + "/.venv/bin/python")
    found = ctx.execute([python, "-c", _PROGRAM], environment = {"TF_CPP_MIN_LOG_LEVEL": "3"})
    if found.return_code != 0:
        fail("%s cannot import TensorFlow: run `make env`, or set PS_CLUSTER_PYTHON\n%s" % (python, found.stderr))
    facts = json.decode(found.stdout.strip().split("\n")[-1])
    ctx.symlink(facts["folder"] + "/include", "include")
    ctx.symlink(facts["folder"] + "/libtensorflow_framework.so.2", "libtensorflow_framework.so.2")
    ctx.file("flags.bzl", "COMPILE_FLAGS = %r\n" % facts["flags"])
    ctx.file("BUILD", _BUILD)

installed_tensorflow = repository_rule(
    implementation = _installed_tensorflow,
    doc = "Headers and framework library of the TensorFlow of PS_CLUSTER_PYTHON, else of the checkout's .venv.",
    environ = ["PS_CLUSTER_PYTHON"],
    local = True,
)
