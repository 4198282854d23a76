"""The scenario that the page was started with, and the file that its changes make of it."""

from __future__ import annotations

import json
import shlex
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planner.documents.overrides import override
from planner.documents.yaml_text import yaml_text
from planner.errors import printable
from planner.loading.scenario_file import fill_names
from planner.records import record
from planner.scenario.service_load import ServeJob
from planner.web.setting_fields import controls_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.scenario.scenario import Scenario
    from planner.web.job_fields import Control


@record(frozen=True)
class OpenedScenario:
    """A scenario with what it was read from.

    `document` is its plain data, `file` what that is called, `settings` what the command line changed in it, and
    `asked` the words of a command line that asks for it.
    """

    scenario: Scenario
    document: Mapping[str, Any]
    file: str
    settings: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()

    @cached_property
    def controls(self) -> list[Control]:
        """The fields of the page."""
        return controls_of(self.scenario)

    @property
    def serves(self) -> bool:
        """Whether there is a service, whose curve is dollars against the time per token."""
        return any(isinstance(job, ServeJob) for job in self.scenario.jobs)

    @cached_property
    def axis(self) -> Control | None:
        """The field along which the curve is drawn: the only job's deadline, or a service's time per token."""
        wanted = ".latency.tpot" if self.serves else ".deadline"
        found = [one for one in self.controls if one.path.endswith(wanted)]
        return next((one for one in found if self.serves or one.key == "deadline"), None)

    def command(self, settings: Sequence[str]) -> str:
        """Return the command that compares the same change."""
        changes = [word for setting in settings for word in ("--set", setting)]
        before = [word for setting in self.settings for word in ("--set", setting)]
        if not settings or (self.serves and len(self.scenario.jobs) > 1):  # what-if takes a service alone
            return shlex.join(["planner", "solve", *self.asked, *before, *changes])
        return shlex.join(["planner", "what-if", *self.asked, *before, *changes])

    def changed_file(
        self, settings: Sequence[str], configs: Mapping[str, str], names: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the text of the scenario with settings applied, in the keys and the order of its own file."""
        data, _, _ = override(fill_names(dict(self.document), self.file), (*self.settings, *settings))
        text = yaml_text(data)
        lines = [f"# {self.scenario.name}, with what was changed on the page of planner app"]
        for key, path in configs.items():
            if path in text:
                text = text.replace(path, names[key])
                lines.append(f"# put the file {names[key]} next to this one")
        if any(isinstance(one, str) and one.endswith((".yaml", ".yml", ".csv")) for one in data.get("inventory") or ()):
            lines.append(f"# its inventory files are named relative to {self.file}: keep this file in the same folder")
        return {"text": "\n".join([*map(printable, lines), text]), "changes": json.dumps(list(settings))}
