"""tests/data/gpu-verdicts.txt as facts, needs and verdicts. Its header tells the columns; nothing of envmgr's tables is used here."""

from __future__ import annotations

from dataclasses import dataclass

from envmgr.catalog.gpus import Gpu, GpuFacts, GpuNeeds
from tests.helpers.places import TESTS


@dataclass(frozen=True, slots=True)
class Row:
    line: int
    facts: GpuFacts
    needs: GpuNeeds
    verdict: str
    refused: bool
    rule: str


def read_oracle() -> list[Row]:
    rows = []
    for line, text in enumerate((TESTS / "data/gpu-verdicts.txt").read_text().splitlines(), 1):
        if text and not text.startswith(("#", "gpus |")):
            rows.append(_row(line, [cell.strip() for cell in text.split("|")]))
    return rows


def _row(line: int, cells: list[str]) -> Row:
    gpus, driver, library, smi, cuda, code, compat, verdict, rule, _ = cells
    loaded = {"-": "", "?": None}.get(driver, driver)
    found = [] if gpus == "-" else [_gpu(each, loaded) for each in gpus.split("+")]
    facts = GpuFacts(
        gpus=tuple(found),
        library={"-": "", "?": None, "=": loaded}.get(library, library),
        cuda="" if smi == "?" else smi,
    )
    needs = GpuNeeds(
        cuda="" if cuda == "?" else cuda,
        codes=None if code == "?" else tuple(code.split()),
        compat="" if compat == "-" else compat,
    )
    return Row(line, facts, needs, verdict.rstrip("!"), verdict.endswith("!"), rule)


def _gpu(text: str, loaded: str | None) -> Gpu:
    if text.startswith("bus:"):
        return Gpu(vendor="nvidia", name=text.removeprefix("bus:"), driver="")
    vendor, arch, name = text.split(":", 2)
    return Gpu(
        vendor=vendor, arch="" if arch == "?" else arch, name=name, driver=loaded if vendor == "nvidia" else None
    )
