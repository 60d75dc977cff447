"""A policy as a file: what made it, everything that it has learned, and where that comes from.

The file is an archive (`holdcourse.archive`): JSON and plain arrays, checksummed, written in one step, never a pickle.

==============  =======================================================================================================
part            content
==============  =======================================================================================================
`recipe`        the function that made it, its options, and the problem with its labels
arrays          everything that its cost model has learned: readings, kernel, posterior, waiting measurements
`limits`        what the machine may do, if it was given: the fields of `Limits`
`units`         units of the numbers, for people: "action", "measurement", "context", "cost"
`evidence`      the data that it has learned from, and the answer of a backtest
`fingerprint`   fingerprint of the policy; the policy that is made from the file must have the same one
==============  =======================================================================================================

The file contains the number of its format. A file of another format is refused; it is never read by guessing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from holdcourse import archive
from holdcourse.checks import file_path
from holdcourse.deciding import recipe, registry
from holdcourse.deciding.policy import Policy
from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput, shown
from holdcourse.learning.costs import CostModel
from holdcourse.movement.problem import Problem
from holdcourse.threads import one_thread, versions

FORMAT = 1  # of the file
HOLDS = "policy"  # what a saved state says that it is
UNITS = ("action", "measurement", "context", "cost")
Trust: TypeAlias = str | Collection[str]


@dataclass(frozen=True)
class Evidence:
    """Where a policy comes from, and what a backtest found about it.

    Attributes
    ----------
    source
        The data, in words.
    files
        SHA-256 of each file that was read, by its name.
    data
        SHA-256 of the numbers from which the policy has learned.
    learned
        What the policy has learned from, in words: the period, and the number of readings.
    judged
        What the backtest judged the policy on, in words; empty if there was no backtest.
    as_judged
        Whether the policy knows no more than when it was judged. Otherwise it has also learned from the period on which
        it was judged, and the figures are from before that.
    verdict, conclusion
        Answer of the backtest, as a word and in a sentence.
    figures
        Numbers of the backtest, by name.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.Evidence(source="plant.csv", learned="300 readings").judged
    ''
    """

    source: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    data: str = ""
    learned: str = ""
    judged: str = ""
    as_judged: bool = True
    verdict: str = ""
    conclusion: str = ""
    figures: Mapping[str, float | str | None] = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        """Return the evidence in JSON values."""
        given = asdict(self)
        return given | {"files": dict(self.files), "figures": dict(self.figures)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], where: str) -> Evidence:
        """Read what `to_data` gave; `where` names it in errors."""
        expected: dict[str, type] = {"files": dict, "figures": dict, "as_judged": bool}
        known = {each.name for each in fields(cls)}
        if set(data) != known:
            raise DamagedFile(
                f"{where} is damaged: its evidence must have the fields {sorted(known)}, but has {sorted(data)}; save "
                "the policy again"
            )
        for name, value in data.items():
            if not isinstance(value, expected.get(name, str)):
                raise DamagedFile(
                    f"{where} is damaged: its evidence has {shown(value)} as {name}; save the policy again"
                )
        figures = [each for each in data["figures"].values() if each is not None]
        sums = all(isinstance(each, str) for each in data["files"].values())
        if not (sums and all(isinstance(each, str | int | float) for each in figures)):
            raise DamagedFile(
                f"{where} is damaged: the files or figures of its evidence are not texts and numbers; save the policy "
                "again"
            )
        return cls(**data)

    @property
    def words(self) -> list[str]:
        """What is known about the policy, in sentences."""
        said = []
        if self.learned:
            said.append(f"It has learned from {self.learned}.")
        if self.judged and self.as_judged:
            said.append(f"A backtest judged exactly this policy on {self.judged}.")
        elif self.judged:
            said.append(f"A backtest judged it on {self.judged}. It has learned from these data since.")
        if self.conclusion:
            said.append(self.conclusion)
        if not (self.judged or self.conclusion):
            said.append("There is no backtest of it.")
        return said


@dataclass(frozen=True, eq=False)
class PolicyFile:
    """The checked content of a file, before a policy is made from it. `load_policy` does both.

    Attributes
    ----------
    where
        Name of the file in errors.
    name, explanation, fingerprint
        Name, explanation and fingerprint of the policy.
    recipe
        Recipe of the policy, as JSON.
    learned
        Arrays of its cost model.
    limits, units, evidence
        Parts of the file as in the table above; None, empty and None if they were not given.
    versions
        Versions of holdcourse and its libraries that wrote the file.
    """

    where: str
    name: str
    explanation: str
    fingerprint: str
    recipe: Mapping[str, Any]
    learned: archive.Arrays
    limits: Mapping[str, Any] | None
    units: Mapping[str, str]
    evidence: Evidence | None
    versions: Mapping[str, str]

    @classmethod
    def of(cls, policy: Policy, where: str = "the policy's file") -> PolicyFile:
        """Return the content of a policy's file; it is an error if the policy cannot be described as JSON."""
        return cls(
            where,
            policy.name,
            policy.explanation,
            policy.fingerprint,
            recipe.describe(policy),
            {name: np.asarray(array) for name, array in policy.costs.state().items()},
            policy.limits,
            policy.units,
            policy.evidence,
            versions(),
        )

    @classmethod
    def read(cls, source: str | Path | bytes, where: str | None = None) -> PolicyFile:
        """Read a file, or the bytes of a file; no code is run."""
        named = where or ("the policy's file" if isinstance(source, bytes) else str(source))
        content = source if isinstance(source, bytes) else archive.read_file(file_path(source))
        state, arrays = archive.unpack(content, named)
        if state.get("holds") != HOLDS:
            what = "the state of a controller" if "identity" in state else "something else"
            raise InvalidInput(f"{named} contains {what}, not a policy; give a file that policy.save wrote")
        if state.get("format") != FORMAT:
            raise InvalidInput(
                f"{named} is a policy in format {state.get('format')!r}, but this version of holdcourse reads format "
                f"{FORMAT}; use the version that wrote it, or save the policy again"
            )
        expected = {
            "name": str,
            "explanation": str,
            "fingerprint": str,
            "recipe": dict,
            "limits": dict | None,
            "units": dict,
            "evidence": dict | None,
            "versions": dict,
        }
        found = {name: value for name, value in state.items() if name not in ("holds", "format")}
        for name in sorted(expected.keys() | found.keys()):
            if name not in found or name not in expected or not isinstance(found[name], expected[name]):
                raise DamagedFile(f"{named} is not a policy file of holdcourse: its {name!r} is wrong or missing")
        for name in ("units", "versions"):
            wrong = [key for key, text in found[name].items() if not isinstance(text, str)]
            wrong += sorted(set(found[name]) - set(UNITS)) if name == "units" else []
            if wrong:
                raise DamagedFile(f"{named} is not a policy file of holdcourse: its {name} have a wrong {wrong[0]!r}")
        evidence = found.pop("evidence")
        _check_recipe(found["recipe"], named)
        return cls(
            where=named,
            learned=arrays,
            evidence=None if evidence is None else Evidence.from_data(evidence, named),
            **found,
        )

    def to_bytes(self) -> bytes:
        """Return the file; equal policies give equal bytes."""
        state = {
            "holds": HOLDS,
            "format": FORMAT,
            "name": self.name,
            "explanation": self.explanation,
            "fingerprint": self.fingerprint,
            "recipe": self.recipe,
            "limits": None if self.limits is None else dict(self.limits),
            "units": dict(self.units),
            "evidence": None if self.evidence is None else self.evidence.to_data(),
            "versions": dict(self.versions),
        }
        return archive.pack(json.loads(json.dumps(state)), self.learned)

    @property
    def code(self) -> tuple[str, ...]:
        """Import paths of code that is not ours and would run when the policy is made."""
        return recipe.code_in(self.recipe)

    @property
    def problem(self) -> Problem:
        """Settings, and what moving between them costs."""
        return Problem.from_data(self.recipe["problem"])

    @one_thread()
    def policy(self, trust: Trust = ()) -> Policy:
        """Make the policy; `trust` names the import paths whose code may be run, as in `load_policy`."""
        trusted = (trust,) if isinstance(trust, str) else trust
        if not (isinstance(trusted, Collection) and all(isinstance(path, str) for path in trusted)):
            raise InvalidInput(f"trust must name import paths, such as trust='mine.py:mine', got {shown(trust)}")
        try:
            made = recipe.make(self.recipe, tuple(trusted))
            ours = self.recipe["policy"] in registry.TABLE and not self.code
            for name, array in made.costs.state().items() if ours else ():
                if self.learned.get(name, array).dtype != array.dtype:
                    raise InvalidInput(f"its array {name!r} contains {self.learned[name].dtype}, not {array.dtype}")
            made.costs.restore(self.learned)
            kept = archive.fingerprint({}, made.costs.state())
            if ours and not made.costs.needs_costs:
                _require_costs(made.costs, self.learned)
        except HoldcourseError as error:
            raise type(error)(f"{self.where}: {error}") if type(error) is InvalidInput else error from None
        except (*recipe.BROKEN, MemoryError) as error:
            words = f"no policy can be made from it ({type(error).__name__}: {error})"
            raise InvalidInput(f"{self.where}: {words}") from error
        if made.fingerprint != self.fingerprint:
            whose = (
                f"{self.recipe['policy']!r} has changed since"
                if self.code
                else "this version of holdcourse makes it differently"
            )
            raise InvalidInput(
                f"{self.where}: what is made from it is not the policy that was saved (its fingerprint is "
                f"{made.fingerprint}, not {self.fingerprint}): {whose}; save it again"
            )
        if kept != archive.fingerprint({}, self.learned):
            raise InvalidInput(
                f"{self.where}: its cost model does not restore what was saved; correct its restore, and save it again"
            )
        return replace(
            made,
            name=self.name,
            explanation=self.explanation,
            limits=self.limits,
            units=self.units,
            evidence=self.evidence,
        )


def save_policy(policy: Policy, path: Path, *, limits: Any, units: Mapping[str, str] | None, evidence: Any) -> None:
    """Write the file of a policy; see `Policy.save`."""
    if limits is not None:
        limits = asdict(limits) if is_dataclass(limits) and not isinstance(limits, type) else dict(limits)
        policy = replace(policy, limits=limits)
    if units is not None:
        unknown = sorted(set(units) - set(UNITS))
        if unknown:
            raise InvalidInput(
                f"a policy file has no unit of {unknown[0]!r}; units can be given for {', '.join(UNITS)}"
            )
        policy = replace(policy, units={name: str(unit) for name, unit in units.items()})
    if evidence is not None:
        policy = replace(policy, evidence=evidence)
    file = PolicyFile.of(policy)
    content = file.to_bytes()
    # Read back before it counts: a file that does not give this very policy is not written.
    PolicyFile.read(content, f"what would be written to {path}").policy(file.code)
    archive.write_file(path, content)


def load_policy(path: str | Path, *, trust: Trust = ()) -> Policy:
    """Read a saved policy, which has the same fingerprint and makes the same decisions from then on.

    Parameters
    ----------
    path
        File that `Policy.save` or ``holdcourse backtest --save`` wrote.
    trust
        Import paths of code that is not ours and may be run, such as ``"mine.py:mine"``. A file names the function that
        made its policy. Code that neither is ours nor belongs to an installed package runs only if you name it here.
        Look at it first, because whoever wrote the file has chosen it.

    Raises
    ------
    DamagedFile
        The file is not intact, or is not a policy file.
    InvalidInput
        The file cannot be read, has another format or another kind of content, or needs code that is not trusted.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> mill = hc.gp_md(hc.Problem([0.0, 0.5, 1.0]), history=[(0, 0.3, 2.0), (1, 0.3, 1.0)])
    >>> mill.save(folder.name + "/mill.policy")
    >>> again = hc.load_policy(folder.name + "/mill.policy")
    >>> again.fingerprint == mill.fingerprint
    True
    >>> folder.cleanup()
    """
    return PolicyFile.read(path).policy(trust)


def _require_costs(model: CostModel, learned: archive.Arrays) -> None:
    """Raise where what was learned gives no costs in a context that it has seen: somebody has changed the file."""
    tables = [array for name, array in learned.items() if name.endswith(("contexts", "candidates"))]
    seen = next((table[-1] for table in tables if table.ndim == 2 and table.size), None)
    if seen is not None and not np.isfinite(model.copy().estimate(seen).expected).all():
        raise InvalidInput(
            "what it has learned gives no costs in a context that it has seen, so the file was changed; save it again"
        )


def _check_recipe(found: Mapping[str, Any], where: str) -> None:
    """Raise unless a recipe has the parts of one, as deep as it goes."""
    sound = isinstance(found.get("policy"), str) and isinstance(found.get("options"), dict)
    if not (sound and isinstance(found.get("problem"), dict)):
        raise DamagedFile(f"{where} is not a policy file of holdcourse: its recipe is incomplete")
