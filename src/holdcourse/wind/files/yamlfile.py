"""YAML as the wind community writes it (awesIO, windIO): read within bounds, and written so that it reads back equal.

``1.0e9`` is a number here, as in YAML 1.2. A file that its aliases would blow up is refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from holdcourse.errors import InvalidInput, MissingExtra

MOST_BYTES = 200_000_000
MOST_VALUES = 3_000_000  # of a document with its aliases written out; more is a bomb, not a table
NUMBER = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+$")


class Included(str):
    """The path of a file that stands for a part of the document: ``!include wind.nc``."""

    __slots__ = ()


def read_yaml(path: Path, label: str = "") -> Any:
    """Read a file in plain values; an ``!include`` becomes the path `Included`, and is not followed."""
    yaml, name = _module(), label or str(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InvalidInput(
                f"{name} has {path.stat().st_size:,} bytes, but at most {MOST_BYTES:,} are read; check the path"
            )
        data = yaml.load(path.read_text(encoding="utf-8-sig"), Loader=_loader(yaml))
    except UnicodeDecodeError:
        raise InvalidInput(f"cannot read {name}: it is not text in UTF-8; save it in UTF-8") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {name}: {error.strerror or error}; check the file") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is not YAML: {' '.join(str(error).split())[:200]}") from None
    _check_size(data, name)
    return data


def write_yaml(data: Any, path: str | Path) -> None:
    """Write plain values; what is read from the file again is equal to them."""
    yaml = _module()
    dumper: Any = type("Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
    dumper.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER, list("-+.0123456789"))
    dumper.ignore_aliases = lambda self, value: True  # other readers need not know them
    text = yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror or error}; choose another place") from None


def check_yaml(path: str | Path) -> None:
    """Raise where a document could not be written, before work that takes long."""
    _module()
    path = Path(path)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InvalidInput(
            f"cannot write {path}: it is a folder, or there is no folder {path.parent}; choose another place"
        )


def _module() -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtra("awesIO and windIO files are YAML: pip install 'holdcourse[wind]'") from None
    return yaml


def _loader(yaml: Any) -> Any:
    loader: Any = type("Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
    loader.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER, list("-+.0123456789"))
    loader.add_constructor("!include", lambda self, node: Included(self.construct_scalar(node)))
    return loader


def _check_size(data: Any, name: str) -> None:
    """Refuse a small file that aliases blow up."""
    waiting, seen = [data], 0
    while waiting:
        value = waiting.pop()
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        seen += 1 + len(parts)
        if seen > MOST_VALUES:
            raise InvalidInput(f"{name} has more than {MOST_VALUES:,} values once its aliases are written out")
        waiting += [part for part in parts if isinstance(part, dict | list)]
