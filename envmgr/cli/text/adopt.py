"""How a look at what is there comes out: the proposed site, and a table of modules."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from envmgr.cli.render import out, table
from envmgr.wording import counted

if TYPE_CHECKING:
    from envmgr.commands.adopt import AdoptResult


def show_adopt(result: AdoptResult) -> None:
    if not result.nodes:
        out("no node answered")
        return
    if result.modules:
        rows = [[m.name, m.version, m.made_by, m.nodes, m.entry, m.root] for m in result.modules]
        table(rows, header=["module", "version", "made by", "nodes", "in the catalog", "software"])
    else:
        out("no modules were found there")
    out()
    if result.output is not None:
        out(f"wrote {result.output}; `envmgr site check --site {result.output}` explains it")
    else:
        sys.stdout.write(result.text)
        out()
        out("`--output FILE` writes that")
    more = "; there are more: the look was cut off after its time" if result.cut else ""
    silent = f"; no answer from {result.silent}" if result.silent else ""
    out(f"{counted(len(result.modules), 'modules')} on {result.nodes}{more}{silent}; nothing was changed there")
