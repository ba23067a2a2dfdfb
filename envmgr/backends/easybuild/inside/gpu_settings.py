"""Find the easyconfigs of a closure that get the site's capabilities of GPUs: those that stand on CUDA or ROCm, and those
that name a template of them.
"""

from pathlib import Path

SOFTWARE = {
    "cuda_compute_capabilities": {"CUDA", "CUDAcore", "NVHPC", "nvidia-compilers"},
    "amdgcn_capabilities": {"ROCm-LLVM", "ROCR-Runtime", "ROCm"},
}
TEMPLATES = {
    "cuda_compute_capabilities": "%(cuda_",
    "amdgcn_capabilities": "%(amdgcn_",
}  # the beginnings of their names
UNPACKED = {"CUDA", "CUDAcore"}  # nothing of these is compiled


def known_settings(values):
    """Return those of `values` that this EasyBuild has as an option. Earlier ones lack some."""
    from easybuild.tools.config import BUILD_OPTIONS_CMDLINE

    known = {name for names in BUILD_OPTIONS_CMDLINE.values() for name in names}
    return {name: each for name, each in values.items() if name in known}


def look_at(ordered, values):
    """Return, for each item of a closure, the settings that it `asks` for; and those of its templates that it `lacks`,
    because neither `values` (all that this EasyBuild knows) nor the easyconfig has any.
    """
    found, below = [], {}
    for item in ordered:
        config, text = item["ec"], Path(item["spec"]).read_text(errors="replace")
        named = [below.get(dep["full_mod_name"], {dep["name"]}) for dep in config.all_dependencies]
        below[item["full_mod_name"]] = names = {config["name"]}.union(*named)
        compiled = set() if config["name"] in UNPACKED else names
        templates = [setting for setting in values if TEMPLATES[setting] in text]
        asks = [setting for setting in values if setting in templates or compiled & SOFTWARE[setting]]
        lacks = [setting for setting in templates if not (values[setting] or config[setting])]
        found.append({"asks": asks, "lacks": lacks})
    return found
