"""What a modulefile tells its gate of an entry's needs: a Lua table, with the rows of the tables that matter for it. Pure."""

from __future__ import annotations

from envmgr.catalog.gpu.needs import GpuNeeds, toolkit_driver
from envmgr.catalog.gpu.tables import CONSUMER, DATA_CENTRE, FLOORS
from envmgr.modules.lua import lua_quote


def needs_table(needs: GpuNeeds) -> str:
    """As modulefiles/gpu_rules.lua reads it."""
    fields: dict[str, str] = {}
    if needs.cuda is not None:
        fields["cuda"] = lua_quote(needs.cuda or "?")
        if floor := FLOORS.get(needs.cuda.partition(".")[0]):
            fields["floor"] = lua_quote(floor)
        if driver := toolkit_driver(needs.cuda):
            fields["branch"] = driver.partition(".")[0]
    if needs.codes is not None:
        fields["codes"] = _list(needs.codes)
    if needs.driver:
        fields["driver"] = lua_quote(needs.driver)
    if needs.compat:
        fields["compat"] = lua_quote(needs.compat)
        if driver := toolkit_driver(needs.compat):
            fields["compat_branch"] = driver.partition(".")[0]
        fields["consumer"] = _list(CONSUMER)
        fields["data_centre"] = _list(DATA_CENTRE)
    return "{ " + ", ".join(f"{key} = {value}" for key, value in fields.items()) + " }"


def _list(values: tuple[str, ...]) -> str:
    return "{ " + ", ".join(map(lua_quote, values)) + " }"
