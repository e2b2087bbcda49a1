"""How this machine reaches Debian's and Python's packages, so that commands in an image reach them in the same way."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

SHOWN = "/run/host"
"""Where an image sees files of this machine, while a command runs."""

_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PIP = ("index-url", "extra-index-url", "no-index", "find-links", "cert", "client-cert", "trusted-host", "proxy")
_PIP_PATIENCE = ("default-timeout", "timeout", "retries", "disable-pip-version-check")
_APT = re.compile(r"Acquire::(?:(?:http|https)::|Retries|Check-|ForceIPv)")
_DEBIAN = ("http://deb.debian.org/debian", "http://deb.debian.org/debian-security")


@dataclass
class Mirrors:
    """variables: for commands in an image. shown: files and folders that lie there at `SHOWN` and their own path.
    files: texts of further files, by path in the image. debian: address that a Debian tree is made from."""

    variables: dict[str, str] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    files: dict[str, str] = field(default_factory=dict)
    debian: str = _DEBIAN[0]

    def show(self, text: str) -> str:
        """The words of `text`, those that name a file of this machine replaced by where an image sees it."""
        return " ".join(self._shown(word) for word in text.split())

    def _shown(self, word: str) -> str:
        address, path = word.startswith("file:///"), word.removeprefix("file://")
        if not path.startswith("/") or not os.path.exists(path):
            return word
        # The pages of a package index lead to files beside it.
        self.shown.add(os.path.dirname(path.rstrip("/")) if address and path.count("/") > 1 else path)
        return f"{'file://' if address else ''}{SHOWN}{path}"


def of_this_machine(release: str) -> Mirrors:
    """release: code name of the image's Debian."""
    made = Mirrors()
    for name in (*_PROXIES, *(name.upper() for name in _PROXIES)):
        if name in os.environ:
            made.variables[name] = os.environ[name]
    for name in _CERTIFICATES:
        if os.environ.get(name):
            made.variables[name] = made.show(os.environ[name])
    for option, value in _pip_options().items():
        made.variables[f"PIP_{option.upper().replace('-', '_')}"] = made.show(value)
    _apt(made, release)
    return made


def _pip_options() -> dict[str, str]:
    """Options of this machine's pip that tell where packages are; environment variables come last and win."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    found = {}
    for place in ("global", ":env:"):
        for line in listed.stdout.splitlines():
            name, equals, value = line.partition("=")
            option = name.removeprefix(f"{place}.")
            if equals and name != option and option in (*_PIP, *_PIP_PATIENCE):
                found[option] = str(ast.literal_eval(value))
    return found


def _apt(made: Mirrors, release: str) -> None:
    sources = [(_DEBIAN[0], release, "main"), (_DEBIAN[0], f"{release}-updates", "main")]
    sources += [(_DEBIAN[1], f"{release}-security", "main")]
    settings = []
    if shutil.which("apt-get"):
        listing = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
        lines = [tuple(line.split()) for line in _said(listing)]
        of_it = [line for line in lines if len(line) == 3 and re.fullmatch(rf"{release}(-updates|-security)?", line[1])]
        if any(line[1] == release for line in of_it):
            sources = [(address, name, part) for address, name, part in of_it if part == "main"]
        settings = [made_of for made_of in map(_setting(made), _said(["apt-config", "dump"])) if made_of]
    made.debian = next(address for address, name, _ in sources if name == release)
    folder = Path(SHOWN, "etc")
    made.files[str(folder / "sources.list")] = "".join(f"deb {' '.join(source)}\n" for source in sources)
    settings += [f'Dir::Etc::sourcelist "{folder}/sources.list";', 'Dir::Etc::sourceparts "-";']
    made.files[str(folder / "apt.conf")] = "\n".join([*settings, ""])
    made.variables["APT_CONFIG"] = str(folder / "apt.conf")


def _setting(made: Mirrors):
    def setting(line: str) -> str | None:
        name, _, value = line.partition(" ")
        return f'{name} "{made.show(value.strip(";").strip(chr(34)))}";' if _APT.match(name) and '"' in value else None

    return setting


def _said(command: list[str]) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
