"""What leaves a node: of secrets that lie there, both looks of the audit say nothing."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from envmgr.audit.checks import get_check
from envmgr.audit.model import audit_parts
from envmgr.audit.second_look import SECRET, Wanted, second_look_part
from envmgr.probe.model import CONTEXTS
from envmgr.probe.shell import join_probes
from tests.helpers.evidence import audit_plan, site
from tests.helpers.own_node import ACCOUNTS, HOMES, USERS, OwnNode

MARKER = "GEHEIM"
BASH = f"""export MY_API_TOKEN={MARKER} db_pass={MARKER} AWS_SECRET={MARKER} CREDENTIALS={MARKER} SSH_KEY={MARKER}
export PROXY=http://me:{MARKER}@proxy:1/ PGOPTIONS='-c password={MARKER}'
alias leak='curl -H token:{MARKER}'
alias site='curl http://me:{MARKER}@host/'
export OTHER_TOKEN=/{MARKER}; : --password /{MARKER}; : /tmp/link
f() {{ login --password {MARKER}; }}
"""
CSH = f"""setenv MY_API_TOKEN {MARKER}
setenv PROXY http://me:{MARKER}@proxy:1/
alias leak 'curl -H token:{MARKER}'
setenv OTHER_TOKEN /{MARKER}; : --password /{MARKER}
"""
OPEN = {
    "etc/profile": BASH + "export -f f\n",
    "etc/bash.bashrc": BASH,
    "etc/zsh/zshenv": BASH,
    "etc/csh.cshrc": CSH,
    "etc/fstab": f"//server/a /a cifs username=me,password={MARKER} 0 0\n",
    "etc/pip.conf": f"[global]\nindex-url = https://me:{MARKER}@index/simple\n",
    "etc/mine.pem": f"-----BEGIN RSA PRIVATE KEY-----\n{MARKER}\n-----END RSA PRIVATE KEY-----\n",
}
CLOSED = {
    "etc/some.conf": MARKER,
    "etc/shadow": f"root:$6${MARKER}::::::7:\nalice:$6${MARKER}::::::7:\n",
    "etc/ssh/ssh_host_rsa_key": MARKER,
    "etc/shut/file": MARKER,
}
IN_HOMES = {
    **dict.fromkeys((".bash_profile", ".bashrc", ".zshenv"), f"{BASH}. ~/shut/{MARKER}\n"),
    ".cshrc": f"{CSH}source ~/shut/{MARKER}.csh\n",
    f"shut/{MARKER}": "g() { :; }\nexport OWN=1\n",
    f"shut/{MARKER}.csh": "setenv OWN 1\n",
    ".ssh/id_rsa": MARKER,
    ".netrc": MARKER,
}


def test_no_answer_has_a_secret_that_lies_on_the_node() -> None:
    contexts = tuple(context for context in CONTEXTS if context.way == "ssh")
    shells = tuple((c.name, account) for c in contexts for account in ACCOUNTS if account in c.accounts)
    homes = [HOMES[account] for account in ACCOUNTS]
    closed = CLOSED | {f"{home}/{name}": text for home in homes for name, text in IN_HOMES.items()}
    everything = tuple(f"/{name}" for name in (*OPEN, *closed) if MARKER not in name)
    plan = replace(
        audit_plan(site()), contexts=contexts, accounts=ACCOUNTS, alone=True, salt="salt", shells=("zsh",), seconds=100
    )
    parts = [
        *audit_parts([get_check("inventory")], plan),
        second_look_part(Wanted(("c1",), shells=shells, files=everything, paths=everything), USERS, "/sw"),
    ]
    with tempfile.TemporaryDirectory(prefix="what-leaves-") as folder:
        node = OwnNode(Path(folder))
        node.write(OPEN)
        node.write(closed, 0o600)
        for shut in ("etc/shut", *(f"{home}/shut" for home in homes)):
            (node.root / shut).chmod(0o700)
        (node.root / "tmp/link").symlink_to(f"/{homes[0]}/shut/{MARKER}")
        before = node.files()
        answer = node.ask(join_probes(parts, plan))
        assert node.files() == before
    said = answer.splitlines()
    for context, account in shells:
        of = f"@ctx.{context}.{account}.inventory."
        assert f"{of}looked.context=yes" in said, (context, account)
        assert [line[: line.rindex("~")] for line in said if line.startswith(f"{of}env|MY_API_TOKEN")] == [
            f"{of}env|MY_API_TOKEN\t"
        ]
        assert any(line.startswith(f"@second_look.{context}.{account}|set\tOWN\t") for line in said), (context, account)
    assert f"@second_look.text./etc/profile|{SECRET}" in said
    assert [line for line in said if MARKER in line] == []
