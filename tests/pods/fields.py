"""Reading a mapping of YAML so strictly that no field is left out unseen."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, TypeVar

from ps_cluster.errors import UserError

T = TypeVar("T")


class Fields:
    """A mapping whose fields are taken one by one; use as a context manager: at its end none may be left.

    where: object and path that messages begin with, such as `Job movielens-ps: spec.template`.
    """

    def __init__(self, value: Any, where: str):
        if not isinstance(value, dict):
            raise UserError(f"{where}: expected a mapping, found {value!r}")
        self._value = value
        self._left = set(value)
        self.where = where

    def place(self, name: str) -> str:
        """Of a field, for messages."""
        return f"{self.where}{'' if self.where.endswith(': ') else '.'}{name}"

    def take(self, name: str, kind: type[T], default: T | None = None) -> T:
        """The field's value; of a missing one the default.

        Raises:
          UserError: it is of another kind, or is missing and there is no default.
        """
        self._left.discard(name)
        value = self._value.get(name)
        if value is None:
            if default is None:
                raise UserError(f"{self.place(name)}: expected a value, found none")
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise UserError(f"{self.place(name)}: expected {kind.__name__}, found {value!r}")
        return value

    def maybe(self, name: str, kind: type[T]) -> T | None:
        """The field's value, None when it is missing."""
        if self._value.get(name) is None:
            self._left.discard(name)
            return None
        return self.take(name, kind)

    def one_of(self, name: str, words: Iterable[str], default: str | None = None) -> str:
        """A word out of those that are emulated."""
        value, known = self.take(name, str, default), list(words)
        if value not in known:
            raise UserError(f"{self.place(name)}: {value} is not emulated here, only {', '.join(known)}")
        return value

    def section(self, name: str) -> Fields:
        """A mapping in the field; empty when it is missing."""
        return Fields(self.take(name, dict, {}), self.place(name))

    def sections(self, name: str) -> list[Fields]:
        """Mappings in a list in the field; none when it is missing."""
        items = self.take(name, list, [])
        return [Fields(item, f"{self.place(name)}[{number}]") for number, item in enumerate(items)]

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        for item in (items := self.take(name, list, [])):
            if not isinstance(item, str):
                raise UserError(f"{self.place(name)}: expected texts, found {item!r}")
        return tuple(items)

    def mapping(self, name: str) -> dict[str, str]:
        """Texts by name."""
        found = self.take(name, dict, {})
        for key, value in found.items():
            if not isinstance(value, str):
                raise UserError(f"{self.place(name)}.{key}: expected a text, found {value!r}")
        return found

    def skip(self, *names: str) -> None:
        """Fields that make no difference on one machine."""
        self._left.difference_update(names)

    def has(self, name: str) -> bool:
        """Whether the field is there."""
        return self._value.get(name) is not None

    def __enter__(self) -> Fields:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._left:
            raise UserError(f"{self.place(sorted(map(str, self._left))[0])}: not emulated here")
