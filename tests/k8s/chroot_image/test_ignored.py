"""Which files are a build's context; expectations as Docker's documentation states them."""

from __future__ import annotations

import pytest

from tests.k8s.chroot_image.ignored import context, is_ignored, read_rules
from tests.k8s.manifests import K8S


@pytest.mark.parametrize(
    ("text", "ignored", "kept"),
    [
        ("*/temp*", ["somedir/temporary.txt", "somedir/temp", "somedir/temp/x"], ["temp", "a/b/temp"]),
        ("*/*/temp*", ["a/b/temporary.txt"], ["a/temp", "a/b/c/temp"]),
        ("temp?", ["tempa", "tempb/x"], ["temp", "a/tempa"]),
        ("**/*.go", ["a.go", "a/b/c.go"], ["a.goo"]),
        ("/foo/bar/\n# foo", ["foo/bar", "foo/bar/x"], ["foo", "a/foo/bar", "# foo"]),
        ("*.md\n!README.md", ["CHANGES.md"], ["README.md", "a/CHANGES.md"]),
        ("*.md\n!README*.md\nREADME-secret.md", ["README-secret.md"], ["README-x.md"]),
        ("*.md\nREADME-secret.md\n!README*.md", ["x.md"], ["README-secret.md"]),
        ("a[0-9].txt\nb.c", ["a1.txt", "b.c"], ["ax.txt", "bxc"]),
        ("docs/**", ["docs/a", "docs/a/b"], ["docs", "docsx"]),
    ],
)
def test_the_last_rule_that_speaks_of_a_path_or_a_folder_of_it_decides(text, ignored, kept):
    rules = read_rules(text)
    assert [path for path in (*ignored, *kept) if is_ignored(path, rules)] == ignored


def test_a_file_that_is_let_in_is_found_in_a_folder_that_is_not(tmp_path):
    for path in ("a/b/in.txt", "a/b/out.txt", "a/c/out.txt", "d/in/deep/x", "__pycache__/y", "d/in/__pycache__/y"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "d" / "in" / "link").symlink_to("/nowhere")
    rules = read_rules("*\n!a/b/in.txt\n!d/in\n**/__pycache__\n")
    assert list(context(tmp_path, rules)) == ["a/b/in.txt", "d/in", "d/in/deep", "d/in/link", "d/in/deep/x"]


def test_the_context_of_the_image_is_what_the_package_is_built_from():
    found = list(context(K8S.parent, read_rules((K8S / "Dockerfile.dockerignore").read_text(encoding="utf-8"))))
    assert {"Makefile", "setup.py", "ps_cluster/setup/env.py", "ops/__init__.py"} <= set(found)
    assert {path.split("/")[0] for path in found} == {
        *("Makefile", "setup.py", "pyproject.toml"),
        *("data", "models", "ops", "ps_cluster"),
    }
    assert not [path for path in found if "__pycache__" in path or path.endswith(".so")]
