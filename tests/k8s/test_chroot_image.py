"""Images are built in a bare Debian tree, commands run in them as a pod's do, and nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.k8s.chroot_image import debian
from tests.k8s.chroot_image.container import ROOT

pytestmark = pytest.mark.slow
LIMIT_SECONDS = 3600  # of a build that compiles Horovod and downloads everything
SMALL = """
FROM debian:12 AS made
WORKDIR /made
COPY . .
COPY a/deep /elsewhere/
RUN --mount=type=cache,target=/kept echo once more >> /kept/log && cp /kept/log kept.log
RUN useradd --uid 77 someone && echo "$PWD $HOME" > by-run && ln -s /nowhere link && (sleep 3600 &)

FROM debian:12-slim
COPY --from=made /made /there
COPY --from=made /etc/passwd /etc/group /etc/
RUN mkdir /mine && chown someone /mine
ENV GREETING="hello there"
USER someone
CMD ["/bin/sh", "-c", "id -u; pwd; echo $GREETING; cat /proc/1/comm; ls -A /there; cat /there/by-run /there/kept.log"]
"""


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path):
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False).returncode:
        pytest.skip("needs the right to make namespaces")
    if shutil.which("debootstrap") is None:
        pytest.skip("needs debootstrap: apt-get install debootstrap")
    yield
    assert within(tmp_path) == []


def within(folder: Path) -> list[int]:
    """Processes that see a mount of what lies in the folder; this machine's own see such mounts, too."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder) in (place / "mountinfo").read_text():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def started(*words: str, cache: Path | None = None) -> subprocess.Popen[str]:
    environment = os.environ if cache is None else {**os.environ, "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-m", "tests.k8s.chroot_image", *words]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def done(*words: str, cache: Path | None = None) -> tuple[int, str, str]:
    """Exit code, what was said, what went wrong."""
    process = started(*words, cache=cache)
    try:
        out, err = process.communicate(timeout=LIMIT_SECONDS)
    finally:
        process.terminate()
    return process.returncode, out, err


@pytest.fixture
def cache(tmp_path) -> Path:
    """A cache folder of its own, in which the Debian tree alone is shared."""
    base = debian.base_tree("http://deb.debian.org/debian")
    (tmp_path / "cache" / "ps-cluster").mkdir(parents=True)
    (tmp_path / "cache" / "ps-cluster" / base.name).symlink_to(base)
    return tmp_path / "cache"


def small(folder: Path, text: str) -> list[str]:
    """Words that build such a Dockerfile."""
    (folder / "context" / "a" / "deep").mkdir(parents=True)
    for name in ("a/deep/file", "b", "ignored"):
        (folder / "context" / name).write_text(name)
    (folder / "context" / ".dockerignore").write_text("ignored\n")
    (folder / "Dockerfile").write_text(text)
    return ["build", str(folder / "image"), f"--file={folder / 'Dockerfile'}", f"--context={folder / 'context'}"]


def test_the_demo_trains_in_the_image_of_the_pods_as_its_user(tmp_path):
    image, volume = tmp_path / "image", tmp_path / "volume"
    code, out, err = done("build", str(image))
    print(out[-2000:])
    assert code == 0, err[-2000:]
    assert within(tmp_path) == []
    code, out, err = done("demo", str(image), f"--volume={volume}")
    print(out[-2000:])
    assert code == 0, err[-2000:]
    report = json.loads((volume / "report.json").read_text())
    assert report["auc"] > 0.75 and report["test_rows"] > 0
    assert (volume / "run" / "export" / "1" / "saved_model.pb").is_file()
    assert {path.stat().st_uid for path in volume.rglob("*") if path.name != "job.yaml"} == {10001}
    code, out, err = done("run", str(image))  # its CMD
    assert code == 0 and out.startswith("usage: ps-cluster"), (out, err)
    programs = "import os, shutil; print(os.getuid(), *map(shutil.which, ['g++', 'make', 'cmake', 'pytest']))"
    assert done("run", str(image), "python", "-c", programs)[1].split() == ["10001", *4 * ["None"]]


def test_stages_copies_variables_and_caches_come_to_what_they_say(tmp_path, cache):
    words = small(tmp_path, SMALL)
    for builds in (1, 2):
        code, _, err = done(*words, cache=cache)
        assert code == 0, err
        code, out, _ = done("run", str(tmp_path / "image"), cache=cache)
        there = [".dockerignore", "a", "b", "by-run", "kept.log", "link"]
        assert (code, out.splitlines()) == (
            0,
            ["77", "/", "hello there", "sh", *there, "/made /root", *builds * ["once more"]],
        )
        assert sorted(path.name for path in (tmp_path / "image").iterdir()) == ["config.json", "tree"]
        assert not (tmp_path / "image" / "tree" / "run" / "host").exists()


def test_a_command_has_no_rights_and_writes_to_volumes_and_tmp_only(tmp_path, cache):
    code, _, err = done(*small(tmp_path, SMALL), cache=cache)
    assert code == 0, err
    (tmp_path / "volume").mkdir()
    shutil.chown(tmp_path / "volume", 77)
    script = "touch /tmp/x /volume/x && ! touch /mine/x && ! mount -t tmpfs x /tmp && grep CapBnd /proc/self/status"
    words = ["run", f"--volume={tmp_path / 'volume'}:/volume", str(tmp_path / "image"), "sh", "-c", script]
    code, out, err = done(*words, cache=cache)
    assert (code, out.split()) == (0, ["CapBnd:", "0000000000000000"]), err
    assert (tmp_path / "volume" / "x").stat().st_uid == 77


def test_a_command_that_fails_is_told_by_its_line_and_leaves_the_image_before_it_alone(tmp_path, cache):
    words = small(tmp_path, "FROM debian:12\nRUN true\n")
    assert done(*words, cache=cache)[0] == 0
    (tmp_path / "Dockerfile").write_text("FROM debian:12\n\nRUN echo so; exit 3\n")
    code, out, err = done(*words, cache=cache)
    assert code == 1 and err.endswith("Dockerfile:3: RUN ended with exit code 3\n") and "\nso\n" in out
    assert sorted(path.name for path in (tmp_path / "image").iterdir()) == ["config.json", "tree"]
    (tmp_path / "Dockerfile").write_text("FROM fedora:42\n")
    code, _, err = done(*words, cache=cache)
    assert code == 2 and "Dockerfile:1: expected an image of Debian 12 or an earlier stage, found fedora:42" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_is_broken_off_leaves_no_process_and_no_mount(tmp_path, cache, number):
    process = started(*small(tmp_path, "FROM debian:12\nRUN trap '' INT TERM; sleep 3600 & sleep 3600\n"), cache=cache)
    try:
        wait_until(lambda: len(within(tmp_path)) >= 3)
        process.send_signal(number)
        code = process.wait(timeout=600)
    finally:
        process.kill()
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: not within(tmp_path))
    if number != signal.SIGKILL:
        assert list((tmp_path / "image").iterdir()) == []


def wait_until(holds) -> None:
    limit = time.monotonic() + 600
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.2)
