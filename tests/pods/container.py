"""One container that runs: in namespaces of its own, its root made by `inside.py`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ps_cluster.launch.pdeathsig import die_with_parent
from tests.pods import image, names, network
from tests.pods.inside import Inside
from tests.pods.memory import Limit
from tests.pods.objects import Volume
from tests.pods.pods import Pod

_START_SECONDS = 30.0
_MESSAGE_BYTES, _MESSAGE_LINES = 2048, 80  # as Kubernetes takes them of a log
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nps-cluster:x:{uid}:{gid}::/tmp:/usr/sbin/nologin\n"


class Volumes:
    """Folders of the pods' volumes. claims: folder of each claim. scratch: where those of single pods are made."""

    def __init__(self, claims: Mapping[str, Path], maps: Mapping[tuple[str, str], Mapping[str, str]], scratch: Path):
        self._claims, self._maps, self.scratch = claims, maps, scratch

    def folder(self, pod: Pod, volume: Volume) -> Path:
        """Makes what is not there yet; a group of the pod's may write."""
        group = pod.workload.template.fs_group
        if volume.kind == "persistentVolumeClaim":
            folder = self._claims[volume.source]
            folder.mkdir(parents=True, exist_ok=True)
            if group is not None and folder.stat().st_gid != group:
                for place in (folder, *folder.rglob("*")):
                    _give(place, group)
            return folder
        folder = self.scratch / pod.name / "volumes" / volume.name
        if not folder.exists():
            folder.mkdir(parents=True)
            if volume.kind == "configMap":
                for name, text in self._maps[pod.workload.namespace, volume.source].items():
                    (folder / name).write_text(text, encoding="utf-8")
            else:
                folder.chmod(0o777)
                if group is not None:
                    os.chown(folder, -1, group)
        return folder


class Container:
    """A started container of a pod. `exit_code` is None while it runs."""

    def __init__(
        self,
        pod: Pod,
        argv: list[str],
        environment: Mapping[str, str],
        volumes: Volumes,
        limit: Limit | None,
        log: Path,
    ):
        """Starts process 1, which waits for `begin`; its network can be made then."""
        template = pod.workload.template
        told = template.container
        here = volumes.scratch / pod.name
        shutil.rmtree(here / "root", ignore_errors=True)
        (here / "root").mkdir(parents=True)
        self._message = here / "message"
        self._message.write_text("")
        self._message.chmod(0o666)
        folders = {volume.name: volumes.folder(pod, volume) for volume in template.volumes}
        group = template.fs_group
        spec = Inside(
            root=str(here / "root"),
            host=pod.host,
            argv=argv,
            environment=dict(environment),
            uid=template.uid,
            gid=template.gid,
            groups=[group] if group is not None else [],
            shown=image.shown_folders(),
            binds=[
                *((str(folders[mount.volume]), mount.path, mount.read_only) for mount in told.mounts),
                (str(self._message), told.message_path, False),
            ],
            files={
                "/etc/hosts": names.hosts_text(pod),
                "/etc/hostname": f"{pod.host}\n",
                "/etc/resolv.conf": names.resolver_text(pod.workload.namespace, network.NODE),
                "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
                "/etc/passwd": _PASSWD.format(uid=template.uid or 10001, gid=template.gid),
                "/etc/group": f"root:x:0:\nps-cluster:x:{template.gid or 10001}:\n",
            },
            read_only_root=told.read_only_root,
            memory_group=limit.joined_by if limit is not None else None,
        )
        (here / "spec.json").write_text(json.dumps(asdict(spec)))
        self._limit, self._environment, self._uid, self._gid = limit, environment, template.uid, template.gid
        self._from_log, self._log = told.message_from_log, log
        self._log_begins = log.stat().st_size if log.exists() else 0
        me = os.getpid()
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.pods.inside", str(here / "spec.json")],
                cwd=image.ROOT,
                env={"PATH": os.environ.get("PATH", ""), "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the harness alone
                preexec_fn=lambda: die_with_parent(me),
            )
        self.first_process = self._child()
        self.killed_by = ""
        """Who has sent it SIGKILL, for the account of its end."""

    def begin(self) -> None:
        """Its network is there."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"begin\n")
        self._process.stdin.close()

    def exit_code(self) -> int | None:
        """As a shell has it: 128 and the signal's number."""
        if self._limit is not None:
            self._limit.look(self.first_process)
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def send(self, number: signal.Signals) -> None:
        """A signal to process 1; SIGKILL ends all of the container's."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.first_process, number)

    def wait(self) -> None:
        """Until it has ended, after SIGKILL; a process that hangs in the kernel is left to it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_START_SECONDS)

    def out_of_memory(self) -> bool:
        """Whether it has wanted more than its limit."""
        return self._limit is not None and self._limit.out_of_memory()

    def clean(self) -> None:
        """After its end."""
        if self._limit is not None:
            self._limit.remove()

    def into(self) -> list[str]:
        """What a command line begins with to run in the container."""
        pid = str(self.first_process)
        spaces = ["nsenter", "-t", pid, "-n", "-m", "-u", "-p", "-i", "-r", "-w"]
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        return [*spaces, "--setgid", str(self._gid), "--setuid", str(self._uid), "--", "env", "-i", *variables]

    def message(self, code: int) -> str:
        """The termination message: its own; where that is asked for, else the end of its log if it failed."""
        told = self._message.read_bytes()[:_MESSAGE_BYTES]
        if not told and self._from_log and code != 0:
            with self._log.open("rb") as log:
                size = log.seek(0, 2)
                log.seek(max(self._log_begins, size - _MESSAGE_BYTES))
                told = b"".join(log.read().splitlines(keepends=True)[-_MESSAGE_LINES:])
        return told.decode("utf-8", errors="replace")

    def _child(self) -> int:
        """Process 1, as this machine numbers it."""
        parent = self._process.pid
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
                if children:
                    return int(children[0])
            if self._process.poll() is not None:
                raise OSError(f"a container could not be started; see {self._log}")
            time.sleep(0.01)
        raise OSError(f"process 1 of a container did not start within {_START_SECONDS:g} s; see {self._log}")


def _give(place: Path, group: int) -> None:
    """Lets a group read and write what lies there."""
    if place.is_symlink():
        return
    os.chown(place, -1, group)
    mode = place.stat().st_mode & 0o7777
    place.chmod(mode | (0o2770 if place.is_dir() else 0o660))
