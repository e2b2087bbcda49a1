"""Reads a Dockerfile into stages; what cannot be carried out is refused by its line's number."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from ps_cluster.errors import UserError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # as Debian's images have it
_DIRECTIVE = re.compile(r"#\s*(syntax|escape|check)\s*=", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))?")


@dataclass(frozen=True)
class Config:
    """How commands run in an image: the words of ENV, WORKDIR, USER, ENTRYPOINT and CMD."""

    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    folder: str = "/"
    user: str = "0"
    entry: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """A command. caches: folders that live from one build to the next and belong to no image."""

    line: int
    argv: tuple[str, ...]
    caches: tuple[str, ...]
    config: Config


@dataclass(frozen=True)
class Copy:
    """stage: name or number of the stage that `sources` lie in; None: the build's context."""

    line: int
    sources: tuple[str, ...]
    target: str
    stage: str | None


@dataclass(frozen=True)
class Folder:
    """A folder that WORKDIR makes where there is none."""

    line: int
    path: str


@dataclass(frozen=True)
class Stage:
    """base: name of an image or of an earlier stage. config: as it is after the last step."""

    line: int
    name: str | None
    base: str
    steps: tuple[Run | Copy | Folder, ...]
    config: Config


def read(text: str, file: str, build_args: Mapping[str, str]) -> list[Stage]:
    """Stages in the file's order, variables replaced by what they stand for.

    Raises UserError for what would matter and cannot be carried out.
    """
    reader = _Reader(file, dict(build_args))
    for line, word, rest in _instructions(text, file):
        reader.take(line, word, rest)
    if not reader.stages:
        raise UserError(f"{file}: expected FROM, found none")
    unknown = sorted(set(build_args) - reader.declared)
    if unknown:
        raise UserError(f"{file}: expected an ARG for each --build-arg, found none for {', '.join(unknown)}")
    return reader.stages


def find(stages: list[Stage], name: str) -> int | None:
    """Number of the stage of that name, the last one of several; None: there is none."""
    for number in reversed(range(len(stages))):
        if name in (stages[number].name, str(number)):
            return number
    return None


class _Reader:
    def __init__(self, file: str, build_args: dict[str, str]):
        self.stages: list[Stage] = []
        self.declared: set[str] = set()
        self._file, self._build_args = file, build_args
        self._global: dict[str, str] = {}
        self._args: dict[str, str] = {}
        self._own_command = False
        self._line = 0

    def take(self, line: int, word: str, rest: str) -> None:
        self._line = line
        takes = getattr(self, f"_{word.lower()}", None) if word in _KNOWN else None
        if takes is None:
            self._refuse(f"{word} cannot be carried out here; expected one of {', '.join(_KNOWN)}")
        if not self.stages and word not in ("FROM", "ARG"):
            self._refuse(f"expected FROM first, found {word}")
        takes(rest)

    def _from(self, rest: str) -> None:
        words = rest.split()
        if not (len(words) == 1 or (len(words) == 3 and words[1].upper() == "AS")) or words[0].startswith("--"):
            self._refuse(f"expected FROM IMAGE or FROM IMAGE AS NAME, found {rest}")
        base = self._filled(words[0], self._global)
        earlier = find(self.stages, base)
        config = self.stages[earlier].config if earlier is not None else Config()
        self._args, self._own_command = {}, False
        self.stages.append(Stage(self._line, words[2].lower() if len(words) == 3 else None, base, (), config))

    def _arg(self, rest: str) -> None:
        name, equals, value = rest.partition("=")
        if not name.isidentifier() or len(shlex.split(rest)) != 1:
            self._refuse(f"expected ARG NAME or ARG NAME=VALUE, found {rest}")
        values = self._args if self.stages else self._global
        self.declared.add(name)
        if name in self._build_args:
            values[name] = self._build_args[name]
        elif equals:
            values[name] = self._filled("".join(shlex.split(value)))
        elif self.stages and name in self._global:
            values[name] = self._global[name]

    def _run(self, rest: str) -> None:
        caches = []
        while rest.startswith("--"):
            flag, _, rest = rest.partition(" ")
            rest = rest.lstrip()
            caches.append(self._cache(flag))
        if rest.startswith("<<"):
            self._refuse("texts between marks (<<) cannot be read here")
        argv = self._array(rest, "RUN") if rest.startswith("[") else ("/bin/sh", "-c", rest)
        config = self.stages[-1].config
        config = replace(config, environment={**self._args, **config.environment})
        self._add(Run(self._line, argv, tuple(caches), config))

    def _cache(self, flag: str) -> str:
        options = dict(part.partition("=")[::2] for part in flag.removeprefix("--mount=").split(","))
        target = options.get("target", "")
        if not flag.startswith("--mount=") or options != {"type": "cache", "target": target} or target[:1] != "/":
            self._refuse(f"expected no flag but --mount=type=cache,target=/FOLDER, found {flag}")
        return target

    def _copy(self, rest: str) -> None:
        words, stage = rest.split(), None
        if words and words[0].startswith("--from="):
            stage = words.pop(0).removeprefix("--from=").lower()
            if find(self.stages[:-1], stage) is None:
                self._refuse(f"expected the name of an earlier stage, found --from={stage}")
        if len(words) < 2 or any(word.startswith(("--", "[", "<<", '"')) for word in words):
            self._refuse(f"expected COPY [--from=STAGE] SOURCE… TARGET, found {rest}")
        *sources, target = [self._filled(word) for word in words]
        if len(sources) > 1 and not target.endswith("/"):
            self._refuse(f"expected a / at the end of the target of several sources, found {target}")
        self._add(Copy(self._line, tuple(sources), self._absolute(target), stage))

    def _env(self, rest: str) -> None:
        if "'" in rest:
            self._refuse("expected double quotes, found single ones")
        added = {}
        for word in shlex.split(rest):
            name, equals, value = word.partition("=")
            if not equals or not name.isidentifier():
                self._refuse(f"expected NAME=VALUE, found {word}")
            added[name] = self._filled(value)
        self._set(environment={**self.stages[-1].config.environment, **added})

    def _workdir(self, rest: str) -> None:
        path = self._absolute(self._filled(rest))
        self._add(Folder(self._line, path))
        self._set(folder=path)

    def _user(self, rest: str) -> None:
        self._set(user=self._filled(rest))

    def _entrypoint(self, rest: str) -> None:
        self._set(entry=self._array(rest, "ENTRYPOINT"))
        if not self._own_command:  # that of the base was meant for the base's entry point
            self._set(command=())

    def _cmd(self, rest: str) -> None:
        self._own_command = True
        self._set(command=self._array(rest, "CMD"))

    def _array(self, rest: str, word: str) -> tuple[str, ...]:
        try:
            words = json.loads(rest)
        except json.JSONDecodeError:
            words = None
        if not isinstance(words, list) or not words or not all(isinstance(one, str) for one in words):
            self._refuse(f'expected {word} ["PROGRAM", …], found {rest}')
        return tuple(words)

    def _absolute(self, path: str) -> str:
        # Not normpath: a slash at the end tells a folder from a file.
        if path in (".", "./"):
            return self.stages[-1].config.folder.rstrip("/") + "/"
        return path if path.startswith("/") else f"{self.stages[-1].config.folder.rstrip('/')}/{path}"

    def _filled(self, text: str, values: Mapping[str, str] | None = None) -> str:
        if values is None:
            values = {**self._args, **self.stages[-1].config.environment} if self.stages else self._global

        def value(found: re.Match[str]) -> str:
            name = found[1] or found[2]
            if name is None:
                self._refuse(f"expected $NAME or ${{NAME}}, found {text}")
            if name not in values:
                self._refuse(f"{name} is not set here")
            return values[name]

        return _VARIABLE.sub(value, text)

    def _add(self, step: Run | Copy | Folder) -> None:
        self.stages[-1] = replace(self.stages[-1], steps=(*self.stages[-1].steps, step))

    def _set(self, **changes: object) -> None:
        config = replace(self.stages[-1].config, **changes)  # type: ignore[arg-type]
        self.stages[-1] = replace(self.stages[-1], config=config)

    def _refuse(self, why: str) -> NoReturn:
        raise UserError(f"{self._file}:{self._line}: {why}")


_KNOWN = ("ARG", "FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD")


def _instructions(text: str, file: str) -> Iterator[tuple[int, str, str]]:
    """(line it begins in, word, rest), lines that go on joined."""
    begun = 0
    parts: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or not line.strip():
            if _DIRECTIVE.match(line.strip()):
                raise UserError(f"{file}:{number}: directives cannot be followed here: {line.strip()}")
            continue
        begun = begun if parts else number
        goes_on = line.rstrip().endswith("\\")
        parts.append(line.rstrip()[:-1] if goes_on else line)
        if not goes_on:
            yield begun, *_parted("".join(parts))
            parts = []
    if parts:
        raise UserError(f"{file}:{begun}: the last line goes on, but there is no next one")


def _parted(line: str) -> tuple[str, str]:
    word, *rest = line.strip().split(None, 1)
    return word.upper(), "".join(rest)
