"""Optional packages: imported when first needed, named with the install command when missing."""

from __future__ import annotations

import importlib
from typing import Any

from holdcourse.errors import MissingExtra


def need(module: str, what: str, extra: str = "wind") -> Any:
    """Import `module`, which `what` needs.

    >>> need("math", "counting").floor(1.5)
    1
    """
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError, OSError) as error:  # cfgrib without its library raises the latter two
        raise MissingExtra(
            f"{what} needs {module}, which is not usable here ({_first_line(error)}): pip install 'holdcourse[{extra}]'"
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
