"""Reading a Dockerfile: what each instruction comes to, and what is refused."""

from __future__ import annotations

import pytest

from ps_cluster.errors import UserError
from tests.k8s.chroot_image.dockerfile import PATH, Copy, Folder, Run, read
from tests.k8s.manifests import K8S

TWO_STAGES = r"""# a comment
ARG TAG=12
ARG UNUSED

FROM debian:${TAG} AS build
ARG WHO=world
ENV A=1 B="two words" \
    # between lines that go on
    C=3
WORKDIR /src
COPY a b/ dir/
RUN --mount=type=cache,target=/root/.cache make $A \
    && echo "${WHO}"
RUN ["echo", "$A"]

FROM debian:12
COPY --from=build /src/$MISSING/x /x
"""


def stages(text, **build_args):
    return read(text, "Dockerfile", build_args)


def test_a_stage_is_its_steps_with_variables_filled_in_and_words_for_the_shell_as_they_are():
    (build,) = stages(TWO_STAGES.split("\nFROM debian:12\n")[0])
    first = {"PATH": PATH, "A": "1", "B": "two words"}
    assert (build.name, build.base, build.config.folder) == ("build", "debian:12", "/src")
    folder, copy, make, echo = build.steps
    assert folder == Folder(10, "/src")
    assert copy == Copy(11, ("a", "b/"), "/src/dir/", None)
    assert isinstance(make, Run) and isinstance(echo, Run)
    assert make.argv == ("/bin/sh", "-c", 'make $A     && echo "${WHO}"')
    assert (make.line, make.caches, make.config.folder) == (12, ("/root/.cache",), "/src")
    assert echo.argv == ("echo", "$A")
    assert {name: make.config.environment[name] for name in first} == first
    assert make.config.environment["WHO"] == "world"
    assert "WHO" not in build.config.environment  # not in the image


def test_variables_of_one_line_have_the_values_of_the_lines_before():
    (stage,) = stages("FROM debian:12\nENV A=1\nENV A=2 B=$A\nENV C=$A")
    assert {name: stage.config.environment[name] for name in "ABC"} == {"A": "2", "B": "1", "C": "2"}


def test_a_build_argument_goes_before_the_default_and_has_to_be_known():
    assert stages("ARG TAG=12\nFROM debian:$TAG", TAG="12.11-slim")[0].base == "debian:12.11-slim"
    with pytest.raises(UserError, match="expected an ARG for each --build-arg, found none for TAGG"):
        stages("ARG TAG=12\nFROM debian:$TAG", TAGG="13")


def test_a_stage_begins_with_what_the_stage_says_that_it_is_made_from():
    first, second = stages('FROM debian:12 AS one\nENV A=1\nCMD ["a"]\nUSER 7\nFROM one\nENTRYPOINT ["e"]\nENV B=$A')
    assert (first.config.command, second.config.command, second.config.entry) == (("a",), (), ("e",))
    assert (second.config.environment["B"], second.config.user) == ("1", "7")


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (TWO_STAGES, 17, "MISSING is not set here"),
        ("FROM debian:12\n\nHEALTHCHECK NONE", 3, "HEALTHCHECK cannot be carried out here"),
        ("FROM --platform=linux/arm64 debian:12", 1, "expected FROM IMAGE"),
        ("RUN true\nFROM debian:12", 1, "expected FROM first, found RUN"),
        ("FROM debian:12\nRUN --network=none true", 2, "expected no flag but --mount=type=cache"),
        ("FROM debian:12\nRUN --mount=type=secret,id=x true", 2, "expected no flag but --mount=type=cache"),
        ("FROM debian:12\nRUN <<EOF\ntrue\nEOF", 2, "texts between marks"),
        ("FROM debian:12\nCOPY --chown=1:1 a b", 2, r"expected COPY \[--from=STAGE\]"),
        ("FROM debian:12\nCOPY --from=nginx a b", 2, "expected the name of an earlier stage, found --from=nginx"),
        ("FROM debian:12\nCOPY a b c", 2, "expected a / at the end"),
        ("FROM debian:12\nENV A 1", 2, "expected NAME=VALUE, found A"),
        ("FROM debian:12\nENV A=${B:-1}", 2, r"expected \$NAME"),
        ("FROM debian:12\nCMD ps-cluster", 2, "expected CMD"),
        ("# syntax=docker/dockerfile:1\nFROM debian:12", 1, "directives"),
        ("FROM debian:12\nRUN true \\", 2, "goes on"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_by_its_line(text, line, why):
    with pytest.raises(UserError, match=f"^Dockerfile:{line}: .*{why}"):
        stages(text)


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.gpu"])
def test_the_images_of_the_pods_are_read(name):
    last = stages((K8S / name).read_text(encoding="utf-8"))[-1].config
    assert (last.user, last.folder, last.entry) == ("10001:10001", "/tmp", ("tini", "--"))
    assert last.environment["PATH"].startswith("/opt/ps-cluster/bin:")
