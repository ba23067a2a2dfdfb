"""What a conda recipe says, and what may solve it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from envmgr.catalog.locks import recipe_digest

# What a solve sees of a machine, unless the recipe says otherwise: Rocky 8 or newer. Never the locking host's own.
DEFAULT_VIRTUAL_PACKAGES = {"__unix": "0", "__linux": "4.18", "__glibc": "2.28"}
SOLVERS = ("rattler", "conda-lock")


class CondaInput(BaseModel):
    """A conda recipe's `input`. Virtual packages are `name: version [build]` and add to the defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    channels: tuple[str, ...] = Field(min_length=1)
    specs: tuple[str, ...] = Field(min_length=1)
    virtual_packages: dict[str, str] = {}
    platform: str = Field(default="linux-64", pattern=r"^linux-[a-z0-9]+$")

    @field_validator("specs")
    @classmethod
    def _no_extras(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if "::" in value or "[" in value or not value.strip():
                raise ValueError(f"`{value}`: write `name [version [build]]`; channels have their own field")
        return values

    @field_validator("virtual_packages")
    @classmethod
    def _double_underscore(cls, values: dict[str, str]) -> dict[str, str]:
        for name in values:
            if not name.startswith("__"):
                raise ValueError(f"`{name}`: virtual packages begin with __")
        return values

    def all_virtual_packages(self) -> dict[str, str]:
        merged = DEFAULT_VIRTUAL_PACKAGES | self.virtual_packages
        return dict(sorted(merged.items()))

    def digest(self) -> str:
        """What the lock answers; the defaults are in it, so that a change of them makes locks stale."""
        return recipe_digest("conda", {**self.model_dump(mode="json"), "virtual_packages": self.all_virtual_packages()})
