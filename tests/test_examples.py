"""Examples and the README run as printed."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from service.running import served

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_of_the_gallery_is_short_and_says_what_for(script):
    """They run in `tests/slow/test_gallery.py`."""
    text = script.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) < 80
    title, line, blank, problem = ast.get_docstring(tree).splitlines()[:4]
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert (blank, bool(problem)) == ("", True)
    page = (ROOT / "docs" / "gallery.md").read_text()
    assert f"](gallery/{script.stem}.png)" in page
    assert f"](../examples/{script.name})" in page
    assert (ROOT / "docs" / "gallery" / f"{script.stem}.png").stat().st_size < 120_000


def test_quick_start_runs_and_draws(tmp_path, monkeypatch):
    script = ROOT / "examples" / "plot_quickstart.py"
    monkeypatch.syspath_prepend(script.parent)  # as Python does for a script
    monkeypatch.setattr(sys, "argv", [str(script), "--out", str(tmp_path)])
    with plt.rc_context():  # the gallery has a style of its own
        runpy.run_path(str(script), run_name="__main__")
        plt.close("all")
    assert (tmp_path / "plot_quickstart.png").stat().st_size > 10_000


def test_readme_python_runs(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code, printed = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("python", "text"))
    assert len(code) == len(printed) == 1
    exec(compile(code[0], "README.md", "exec"), {"__name__": "__main__"})
    said, stated = (
        re.split(r"(\d+(?:\.\d+)?)", " ".join(text.split())) for text in (capsys.readouterr().out, printed[0])
    )
    assert said[::2] == stated[::2]
    # With other versions of SciPy a fit ends in other last digits.
    assert [float(number) for number in said[1::2]] == pytest.approx(
        [float(number) for number in stated[1::2]], rel=0.01
    )


def flown_alone(script, folder, monkeypatch, capsys):
    """As one runs it: it starts a service of its own."""
    said = subprocess.run([sys.executable, script, "--hours", "30"], capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr
    return said.stdout


def flown_here(script, folder, monkeypatch, capsys):
    """In this process, with a service that runs already."""
    with served(folder / "data") as url:
        monkeypatch.setattr(sys, "argv", [str(script), "--hours", "30", "--url", url])
        runpy.run_path(str(script), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.parametrize("flown", [flown_here, pytest.param(flown_alone, marks=pytest.mark.slow)])
def test_the_wind_site_is_flown_end_to_end(flown, tmp_path, monkeypatch, capsys):
    """A backtest, its policy's file, a service that runs it, forecasts, profiles, the airspace, and the proof."""
    lines = flown(ROOT / "examples" / "wind_site_live.py", tmp_path, monkeypatch, capsys).splitlines()
    assert "altitude control" in lines[0]
    made, stayed = (float(text.replace(",", "")) for text in re.findall(r"([\d,]+) kWh", lines[1]))
    assert made > 0.9 * stayed > 0
    assert lines[-1] == "proved"
