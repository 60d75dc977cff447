"""Test the wheel in dist/ in a clean environment, with the oldest or the newest versions that pyproject.toml allows.

    python .ci/check_wheel.py minimum [arguments of pytest]

With the oldest Python that is supported: the oldest versions of others have no wheels for newer ones.
"""

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ["-q", "-m", "not slow", "-n", "2"]
# Old versions of others warn about new versions of others. Nothing of ours; with the newest, warnings are errors.
TOLERANT = ["-W", "default"]


# FLORIS needs a newer numpy than the oldest that everything else runs with; its tests skip without it.
NOT_WITH_THE_OLDEST = ("floris",)


def lower_bounds() -> list[str]:
    """Every requirement of the tests, `>=` turned into `==`; of several for one package, the highest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    todo, found = [*project["dependencies"], *extras["test"]], {}
    while todo:
        requirement = todo.pop()
        if own := re.fullmatch(r"holdcourse\[(.*)\]", requirement):
            todo += [other for extra in own[1].split(",") for other in extras[extra]]
            continue
        name, sign, version = re.fullmatch(r"([\w\[\]-]+)(>=|~=)([\d.]+)", requirement).groups()
        number = [int(part) for part in version.split(".")]
        found[name] = max(found.get(name, (number, sign, version)), (number, sign, version))
    return sorted(
        f"{name}{sign.replace('>=', '==')}{version}"
        for name, (_, sign, version) in found.items()
        if name not in NOT_WITH_THE_OLDEST
    )


def check(which: str, arguments: list[str]) -> int:
    """Install and test; the exit code of pytest."""
    home = ROOT / "build" / f"check-{which}"
    python = home / "bin" / "python"
    (wheel,) = (ROOT / "dist").glob("*.whl")
    venv.create(home, clear=True, with_pip=True)
    wanted = [str(wheel), *lower_bounds()] if which == "minimum" else [f"{wheel}[test]"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
    found = subprocess.check_output([python, "-c", "import holdcourse; print(holdcourse.__file__)"], text=True)
    if home not in Path(found).parents:
        raise SystemExit(f"not the wheel would be tested, but {found}")
    return subprocess.call(
        [python, "-m", "pytest", *TESTS, *(TOLERANT if which == "minimum" else []), *arguments], cwd=ROOT
    )


if __name__ == "__main__":
    if sys.argv[1:2] not in (["minimum"], ["newest"]):
        raise SystemExit(__doc__)
    sys.exit(check(sys.argv[1], sys.argv[2:]))
