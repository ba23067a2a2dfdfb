"""What a module may do without a word of its recipe, and what needs one: for every name, by its form and not by a list."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from envmgr.catalog.accept import RULES
from envmgr.catalog.environment import Environment
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe, load_recipe
from envmgr.catalog.shell_rules import SEARCHED, fault_in_variable
from envmgr.errors import InputError
from envmgr.modules.spec import EnvOp
from envmgr.publish.compose import judge_install, judge_recipe, require_accepted
from envmgr.store.manifest import InstallFacts
from tests.helpers.places import ROOT

TOY = Entry("open-toy", "1.0")
OWN = [f"OPEN_TOY_{suffix}" for suffix in ("ROOT", "HOME", "DIR", "BASE", "PREFIX", "VERSION")]
# Some of those that ran a recipe's code in make, git, sudo, Slurm, Python, R, compilers, containers or browsers; none is named by the rule.
RUN_CODE = [
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "MAKEFILES",
    "MAKEFLAGS",
    "PAGER",
    "MANPAGER",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "GCC_EXEC_PREFIX",
    "COMPILER_PATH",
    "http_proxy",
    "https_proxy",
    "PIP_INDEX_URL",
    "PIP_CONFIG_FILE",
    "UV_INDEX_URL",
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "R_PROFILE",
    "R_ENVIRON",
    "R_LIBS",
    "CUDA_INJECTION64_PATH",
    "APPTAINERENV_LD_PRELOAD",
    "SINGULARITY_BINDPATH",
    "SLURM_CONF",
    "SLURM_TASK_PROLOG",
    "SLURM_EPILOG",
    "CC",
    "CXX",
    "AR",
    "NVCC_PREPEND_FLAGS",
    "PERL5LIB",
    "CLASSPATH",
    "NODE_PATH",
    "GEM_PATH",
    "RUBYLIB",
    "QT_PLUGIN_PATH",
    "GTK_MODULES",
    "GIO_EXTRA_MODULES",
    "VK_ICD_FILENAMES",
    "OCL_ICD_VENDORS",
    "GIT_SSL_NO_VERIFY",
    "CARGO_HOME",
    "RUSTC_WRAPPER",
    "GOFLAGS",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "TERMINFO",
    "LESS",
    "VIMINIT",
    "EXINIT",
    "MANOPT",
    "TMP",
    "TZ",
    "LANG",
    "LC_ALL",
    "KRB5_CONFIG",
    "JAVA_HOME",
    "DOTNET_STARTUP_HOOKS",
    "COR_PROFILER",
    "OMPI_MCA_orte_launch_agent",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC",
    "CONDA_PREFIX",
    "VIRTUAL_ENV",
]
ROOT_FOLDER, PREFIX = Path("/p/store/open-toy/1.0-01234567"), Path("/p")


def recipe(accept: dict[str, str] | None = None, **environment: object) -> Recipe:
    return Recipe.model_validate({"backend": "b", "input": {}, "environment": environment, "accept": accept or {}})


def rules(made: Recipe, entry: Entry = TOY) -> list[str]:
    return [fault.rule for fault in judge_recipe(entry, made).faults]


@pytest.mark.parametrize("way", ["set", "set_default"])
@pytest.mark.parametrize("name", OWN)
def test_an_entry_s_own_names_need_no_word(name: str, way: str) -> None:
    for value in ("${root}", "${root}/share", "${version}", "1.2"):
        assert rules(recipe(**{way: {name: value}})) == []
    for value in ("/tmp/evil", "${root}/../evil", "~/evil", "${HOME}/x", "${root}:/tmp/evil"):
        assert rules(recipe(**{way: {name: value}})) == [f"variable:{name}"]


@pytest.mark.parametrize("way", ["prepend", "append"])
@pytest.mark.parametrize("name", sorted(SEARCHED))
def test_lists_of_places_may_have_folders_of_the_entry(name: str, way: str) -> None:
    assert rules(recipe(**{way: {name: ["${root}/share", "${root}"]}})) == []
    for evil in ("/tmp/evil", "${root}/../../evil", "relative", "", "${root}x", "${root}/a:/tmp/evil", "${HOME}/bin"):
        assert rules(recipe(**{way: {name: ["${root}/share", evil]}})) == [f"variable:{name}"]


@given(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True),
    st.sampled_from(["set", "set_default", "prepend", "append"]),
)
def test_every_other_variable_needs_a_word_whatever_its_name(name: str, way: str) -> None:
    value: object = "${root}/x" if way.startswith("set") else ["${root}/x"]
    try:
        made = recipe(**{way: {name: value}})
    except ValidationError:
        assert fault_in_variable(name, as_list=not way.startswith("set"))
        return
    free = name in OWN if way.startswith("set") else name in SEARCHED
    assert rules(made) == ([] if free else [f"variable:{name}"])


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("CUDA_PATH", "cuda"),
        ("EBROOTCUDA", "cuda"),
        ("EBVERSIONCUDA", "CUDA"),
        ("EBROOTCMINARES", "c-ares"),
        ("EBROOTGTKPLUS", "gtk+"),
        ("EBEXTSLISTR", "r"),
    ],
)
def test_what_builds_find_software_by_is_that_software_s_own(name: str, entry: str) -> None:
    made = recipe(set={name: "${root}"})
    assert rules(made, Entry(entry, "1")) == []
    for other in ("some", "cudax", "x-cuda"):
        assert rules(made, Entry(other, "1")) == [f"variable:{name}"]


@pytest.mark.parametrize("name", RUN_CODE)
def test_variables_that_ran_a_recipe_s_code_need_a_word(name: str) -> None:
    stem, _, _ = name.rpartition("_")
    whose = Entry(stem.lower().replace("_", "-") or "x", "1")  # an entry of that very name, too
    for entry in (TOY, whose):
        assert rules(recipe(set={name: "${root}/evil"}), entry) == [f"variable:{name}"]
        assert rules(recipe(set_default={name: "1"}), entry) == [f"variable:{name}"]
        facts = InstallFacts(environment=(EnvOp(kind="set", name=name, value=str(ROOT_FOLDER)),))
        assert [f.rule for f in judge_install(entry, recipe(), facts, ROOT_FOLDER, PREFIX).faults] == [
            f"variable:{name}"
        ]


@pytest.mark.parametrize(
    "name", ["git", "git-template", "cargo", "xdg-config", "curl", "java", "gradle-user", "conda", "pip", "npm-config"]
)
@pytest.mark.parametrize("suffix", ["HOME", "DIR", "PREFIX"])
def test_an_entry_does_not_get_a_known_name_by_its_own(name: str, suffix: str) -> None:
    variable = f"{name.upper().replace('-', '_')}_{suffix}"
    if fault_in_variable(variable, as_list=False):
        with pytest.raises(ValidationError):
            recipe(set={variable: "${root}"})
    else:
        assert rules(recipe(set={variable: "${root}"}), Entry(name, "1")) == [f"variable:{variable}"]


def test_accepted_by_name_with_a_reason_and_by_no_other() -> None:
    environment = {
        "set": {"OPENSSL_CONF": "${root}/x", "PAGER": "less"},
        "functions": {"greet": {"bash": "echo"}},
        "on_unload": {"bash": "date"},
    }
    made = recipe({"variable:OPENSSL_CONF": "its own providers"}, **environment)
    judged = judge_recipe(TOY, made)
    assert [(fault.rule, fault.text, why) for fault, why in judged.accepted] == [
        ("variable:OPENSSL_CONF", "set ${root}/x", "its own providers")
    ]
    with pytest.raises(InputError) as caught:
        require_accepted(TOY, judged)
    assert caught.value.render() == (
        "error[module-unaccepted]: the module of open-toy/1.0 would change what other programs and the shell go by\n"
        "  variable:PAGER: set less\n  function:greet: a function of each shell\n"
        "  on_unload: text that shells run when it is unloaded\n\n"
        "hint: take it out, or accept it in recipe.yaml, each with the reason:\n"
        "  accept:\n    variable:PAGER: why\n    function:greet: why\n    on_unload: why"
    )
    hint = dict.fromkeys(("variable:PAGER", "function:greet", "on_unload", "variable:OPENSSL_CONF"), "why")
    require_accepted(TOY, judge_recipe(TOY, recipe(hint, **environment)))  # what the hint says is enough


def test_one_line_for_the_variables_of_one_program() -> None:
    judged = judge_recipe(TOY, recipe({"variable:TOOL_*": "its own"}, set={"TOOL_A": "1", "TOOL_B": "2", "TOOLS": "3"}))
    assert [fault.rule for fault, _ in judged.accepted] == ["variable:TOOL_A", "variable:TOOL_B"]
    assert [fault.rule for fault in judged.faults] == ["variable:TOOLS"]


@pytest.mark.parametrize(
    "key",
    [
        "variable:LD_PRELOAD",
        "variable:MODULEPATH",
        "variable:HOME",
        "variable:PYTHONPATH",
        "variable:*",
        "variable:A_*",
        "variable:a-b",
        "variable:",
        "function:",
        "function:a b",
        "variables",
        "on-unload",
    ],
)
def test_what_no_recipe_can_accept(key: str) -> None:
    with pytest.raises(ValidationError):
        recipe({key: "why"})


@pytest.mark.parametrize(
    "name",
    ["cd", "command", "builtin", "if", "eval", "source", "alias", "module", "exit", "test", "echo", "setenv", "where"],
)
def test_no_function_stands_for_a_word_of_a_shell(name: str) -> None:
    with pytest.raises(ValidationError, match="cannot be the name of a function"):
        Environment.model_validate({"functions": {name: {"bash": ":"}}})


@pytest.mark.parametrize("name", ["sudo", "ssh", "make", "git", "ls", "python", "kubectl", "greet"])
def test_every_function_needs_a_word(name: str) -> None:
    made = {name: {"bash": ":", "csh": "echo"}}
    assert rules(recipe(functions=made)) == [f"function:{name}"]
    assert rules(recipe({f"function:{name}": "why"}, functions=made)) == []


@pytest.mark.parametrize(
    "body",
    [
        "}; touch evil; f2() {",
        ": ; }\ntouch evil\nf2() { :",
        "cat <<'}'\nx",
        "cat <<E\n$(touch evil)",
        "echo \\",
        "echo '",
        'echo "$(',
        "if true; then",
        "done",
        ")",
        "esac",
        "case x in y) ;;",
        "f2() { :",
        ":; } ; { :",
        "&&",
        "`",
        "}",
        "{",
    ],
)
def test_a_body_is_whole_commands_and_nothing_more(body: str) -> None:
    for field in ({"functions": {"f": {"bash": body}}}, {"on_unload": {"bash": body}}):
        with pytest.raises(ValidationError, match="is not whole commands in"):
            Environment.model_validate(field)


def test_a_body_is_read_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for body in (
        "touch evil",
        "x=$(touch evil)",
        "set +n; touch evil",
        "setopt exec; touch evil",
        "[[ -n $(touch evil) ]]",
        ": ${x:=`touch evil`}",
    ):
        Environment.model_validate({"functions": {"f": {"bash": body}}})
    assert list(tmp_path.iterdir()) == []


def test_a_body_is_refused_where_no_shell_can_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envmgr.catalog.shell_rules._PATH", "/nowhere")
    with pytest.raises(ValidationError, match="no shell is here that could read it"):
        Environment.model_validate({"functions": {"f": {"bash": ":"}}})


@pytest.mark.parametrize(
    "csh",
    [
        "echo wow!x",
        "echo !!",
        'echo "a',
        "set x=(1",
        "echo `x",
        "x{a;touch${IFS}evil,b}",
        "echo ${HOME}",
        "echo '{a,b}'",
        "{a",
        "echo \\",
        "echo é",
    ],
)
def test_csh_text_that_backquotes_would_take_apart(csh: str) -> None:
    with pytest.raises(ValidationError, match="csh"):
        Environment.model_validate({"on_unload": {"bash": ":", "csh": csh}})


def test_csh_text_is_read_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for csh in (
        "touch evil",
        "set x = `touch evil`",
        "if (`touch evil`) echo a",
        "unset noexec; touch evil",
        "echo a > evil",
        "foreach i (`touch evil`)",
        "eval touch evil",
    ):
        Environment.model_validate({"functions": {"f": {"bash": ":", "csh": csh}}})
    assert list(tmp_path.iterdir()) == []


def test_csh_text_counts_as_the_other_shells_does() -> None:
    texts = {f"f{number}": {"bash": ":", "csh": f"echo {'a' * 5000}"} for number in range(5)}
    with pytest.raises(ValidationError, match="characters of functions"):
        Environment.model_validate({"functions": texts})


def test_csh_text_that_is_whole() -> None:
    for csh in ("if (! $?x) echo a", "if ($x != 1) echo \\!*", "if (!($x)) echo", "echo wow!"):
        Environment.model_validate({"on_unload": {"bash": ":", "csh": csh}})


def test_list_that_is_read_by_spaces_too_has_only_folders_of_the_entry() -> None:
    for evil in ("${root}/a /tmp/evil", "/tmp/evil ${root}/a"):
        assert rules(recipe(prepend={"XML_CATALOG_FILES": [evil]})) == ["variable:XML_CATALOG_FILES"]
    assert rules(recipe(prepend={"XML_CATALOG_FILES": ["${root}/a ${root}/b"]})) == []


def test_what_packages_and_easybuild_s_modules_bring_is_held_to_the_same() -> None:
    below = f"{PREFIX}/store/CUDA/12.9-89abcdef"
    sound = [
        EnvOp(kind="prepend", name="PATH", value=f"{ROOT_FOLDER}/bin:{below}/bin"),
        EnvOp(kind="prepend", name="LD_LIBRARY_PATH", value=f"{below}/lib"),
        EnvOp(kind="set", name="CUDA_HOME", value=below),
        EnvOp(kind="set", name="EBROOTCUDA", value=below),
        EnvOp(kind="set", name="EBVERSIONCUDA", value="12.9"),
        EnvOp(kind="append", name="XML_CATALOG_FILES", value=f"file://{ROOT_FOLDER}/etc/xml/catalog", separator=" "),
        EnvOp(kind="append", name="XML_CATALOG_FILES", value="file:///etc/xml/catalog", separator=" "),
    ]
    unsound = [
        EnvOp(kind="unset", name="OPEN_TOY_HOME"),
        EnvOp(kind="prepend", name="PKG_CONFIG_PATH", value="/usr/local/evil"),
        EnvOp(kind="set", name="CUDA_PATH", value="/tmp/evil"),
        EnvOp(kind="append", name="XML_CATALOG_FILES", value="file:///tmp/evil", separator=" "),
        EnvOp(kind="set-default", name="SSL_CERT_FILE", value=f"{ROOT_FOLDER}/cert.pem"),
    ]
    facts = InstallFacts(environment=(*sound, *unsound), needs=("store/CUDA/12.9-89abcdef",))
    judged = judge_install(TOY, recipe(), facts, ROOT_FOLDER, PREFIX)
    assert [fault.rule for fault in judged.faults] == [f"variable:{op.name}" for op in unsound]
    accept = {fault.rule: "why" for fault in judged.faults}
    assert judge_install(TOY, recipe(accept), facts, ROOT_FOLDER, PREFIX).faults == ()


def test_shipped_recipes_need_at_most_ten_such_lines() -> None:
    lines = 0
    for path in sorted((ROOT / "recipes").glob("*/*/recipe.yaml")):
        made = load_recipe(path)
        judged = judge_recipe(Entry(path.parent.parent.name, path.parent.name), made)
        assert (judged.faults, judged.unused) == ((), ()), path
        lines += len(made.accept.keys() - RULES.keys())
    assert lines <= 10
