"""Values as Lua: the only place where they are quoted for a modulefile or an rc file. Pure."""

from __future__ import annotations

import re

from envmgr.catalog.cuda_drivers import CONSUMER, DATA_CENTRE, FLOORS, toolkit_driver
from envmgr.catalog.gpu_codes import GpuNeeds

# Control characters (C0, DEL, C1), what ends a line for Python or an editor, what has a meaning inside Lua's quotes,
# and bytes that were not UTF-8 (Python keeps those as lone surrogates).
_UNSAFE = re.compile('[\x00-\x1f"\\\\\x7f-\x9f\u2028\u2029\ud800-\udfff]')


def lua_quote(text: str) -> str:
    r"""Return `text` as a Lua string literal on one line, valid in Lua 5.1 to 5.4 and safe at any place of a template.

    UTF-8 passes through. Control characters, line separators and stray bytes become `\ddd`, one per byte: three decimal
    digits are the only form that all these Luas read, and never run into a digit that follows.

    Raises:
        UnicodeEncodeError: a lone surrogate that stands for no byte.
    Source: Lua 5.1 reference manual 2.1, Lua 5.4 3.1 "Lexical Conventions".
    """
    return '"' + _UNSAFE.sub(_escaped, text) + '"'


def _escaped(match: re.Match[str]) -> str:
    if (character := match[0]) in '"\\':
        return "\\" + character
    return "".join(f"\\{byte:03d}" for byte in character.encode("utf-8", "surrogateescape"))


def needs_table(needs: GpuNeeds) -> str:
    """Return an entry's needs as modulefiles/gpu_rules.lua reads them."""
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
