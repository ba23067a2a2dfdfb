"""JUnit's XML, for Jenkins, GitLab and similar tools: one suite for each check, one case for each set of nodes. Pure.

Errors and warnings are failures, notes are output. Nodes that never answered are skipped cases, so that nothing reads
as fine that was not looked at.

Source: junit-10.xsd of jenkinsci/xunit-plugin; GitLab, "Unit test reports".
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from envmgr.audit.text import head, rows
from envmgr.nodes.sets import expand, fold
from envmgr.probe.model import grouped

if TYPE_CHECKING:
    from envmgr.audit.result import AuditResult
    from envmgr.errors import EnvmgrError
    from envmgr.report import Finding

# What XML 1.0 has no way to write. Source: XML 1.0, 2.2 Characters.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def result_text(result: AuditResult) -> str:
    checks = dict.fromkeys([*result.checks, *(f.check for f in result.every)])
    suites = [_suite(check, [*_cases(check, result)], result.finished) for check in checks]
    lacked = [_could_not(result.lacked.text, "", result.finished)] if result.exit_code == 3 else []
    return _document([*lacked, *suites], result.seconds)


def error_text(error: EnvmgrError, *, now: float) -> str:
    """Return the text for an audit that could not run, as one case with an error. `now` is epoch seconds."""
    return _document([_could_not(f"{error.reference}: {error.message}", error.render(), now)], 0)


def _cases(check: str, result: AuditResult) -> Iterator[ET.Element]:
    by_nodes = grouped((each.nodes or each.between, each) for each in result.every if each.check == check)
    yield from (_case(check, nodes or "here", findings) for nodes, findings in by_nodes.items())
    told = {node for nodes in by_nodes for node in expand(nodes)}
    answered = {node for asked in result.asked for node in expand(asked.answered)}  # in any way
    left = [node for node in expand(result.nodes) if node not in told]
    if well := fold(node for node in left if node in answered):
        yield _case(check, well, ())
    if silent := fold(node for node in left if node not in answered):
        case = _case(check, silent, ())
        ET.SubElement(case, "skipped", message="did not answer")
        yield case


def _case(check: str, name: str, findings: Sequence[Finding]) -> ET.Element:
    case = ET.Element("testcase", name=_clean(name), classname=_clean(f"envmgr.audit.{check}"))
    bad = [f for f in findings if f.severity != "note"]
    notes = [f for f in findings if f.severity == "note"]
    if bad:
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        severity = "error" if any(f.severity == "error" for f in bad) else "warning"
        message = _clean(f"{bad[0].where}: {bad[0].found}{more}")
        ET.SubElement(case, "failure", type=severity, message=message).text = _blocks(bad)
    if notes:
        ET.SubElement(case, "system-out").text = _blocks(notes)
    return case


def _blocks(findings: Iterable[Finding]) -> str:
    return _clean("\n".join(line for finding in findings for line in _lines(finding)))


def _lines(finding: Finding) -> Iterable[str]:
    yield head(finding)
    yield from (f"  {name:<9} {text}" for name, text in rows(finding))


def _could_not(message: str, text: str, when: float) -> ET.Element:
    case = ET.Element("testcase", name="could audit", classname="envmgr.audit")
    ET.SubElement(case, "error", type="error", message=_clean(message)).text = _clean(text)
    return _suite("audit", [case], when)


def _suite(name: str, cases: Sequence[ET.Element], when: float) -> ET.Element:
    """Return a test suite. `when` is epoch seconds; the format's timestamps have no zone, and are UTC here."""
    stamp = datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    suite = ET.Element("testsuite", name=_clean(name))
    suite.extend(cases)
    skipped = str(len([*suite.iter("skipped")]))
    suite.attrib |= {**_counts(suite), "skipped": skipped, "time": "0", "timestamp": stamp}
    return suite


def _counts(of: ET.Element) -> dict[str, str]:
    tags = {"tests": "testcase", "failures": "failure", "errors": "error"}
    return {name: str(len([*of.iter(tag)])) for name, tag in tags.items()}


def _document(suites: Sequence[ET.Element], seconds: float) -> str:
    root = ET.Element("testsuites", name="envmgr audit")
    root.extend(suites)
    root.attrib |= {**_counts(root), "time": f"{seconds:.3f}"}
    ET.indent(root)
    # written with character references: right in every encoding that stdout may have
    xml: bytes = ET.tostring(root, encoding="us-ascii")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{xml.decode()}\n'


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
