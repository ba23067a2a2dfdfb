-- Written by envmgr, generation 42. Do not edit: change the recipe and build again.

-- Tells whoever loads `entry` on a node whose NVIDIA driver is older than `required`; `policy` is "warn" or "refuse".
-- Where there is no driver (a login node), nothing is said. Only at load: not in spider, avail, show or unload.
local function driver_gate(required, entry, policy)
  if mode() ~= "load" then
    return
  end

  local function first_line(path)
    local file = io.open(path)
    local line = file and file:read("*l")
    if file then
      file:close()
    end
    return line
  end

  -- "535.183.01", or a line such as
  -- NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024
  -- NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build  (...)
  local found = (first_line("/sys/module/nvidia/version") or ""):match("^%s*(%d+%.[%d.]*%d)%s*$")
    or (first_line("/proc/driver/nvidia/version") or ""):match("Kernel Module.-%s(%d+%.[%d.]*%d)%s")
  if not found then
    return
  end

  -- By number, component by component; a missing one counts as 0.
  local function older(a, b)
    local next_a, next_b = a:gmatch("%d+"), b:gmatch("%d+")
    while true do
      local x, y = next_a(), next_b()
      if not (x or y) then
        return false
      end
      x, y = tonumber(x or 0), tonumber(y or 0)
      if x ~= y then
        return x < y
      end
    end
  end
  if not older(found, required) then
    return
  end

  local node = first_line("/proc/sys/kernel/hostname") or "this node"
  local facts = entry .. " needs NVIDIA driver " .. required .. " or newer; " .. node .. " has " .. found .. "."
  local help = "Use a node with a newer driver, or ask the administrators of this cluster to update this one."
  if policy == "refuse" then
    LmodError(facts, "\n", "It was not loaded. ", help, "\n")
  else
    -- Not LmodWarning: after it `module load` returns 1, and a job under `set -e` would end.
    LmodMessage("Warning: ", facts, "\n", "Its GPU programs will probably fail here. ", help, "\n")
  end
end

-- Tells, once in a job, that `srun` gives its tasks nothing of what modules set here: `sbatch --export=NONE` leaves
-- SLURM_EXPORT_ENV behind, and srun obeys it. Only at load; not in srun's own tasks, and not outside of jobs.
local function srun_note()
  local export, job = os.getenv("SLURM_EXPORT_ENV") or "", os.getenv("SLURM_JOB_ID") or ""
  if export == "" or job == "" or mode() ~= "load" or (os.getenv("SLURM_STEP_ID") or "") ~= "" then
    return
  end
  if ("," .. export:upper() .. ","):find(",ALL,", 1, true) or os.getenv("ENVMGR_SRUN_NOTE") == job then
    return
  end
  setenv("ENVMGR_SRUN_NOTE", job) -- only at load: an unload leaves it

  local first = ({ sh = "`unset SLURM_EXPORT_ENV` before it, or ", csh = "`unsetenv SLURM_EXPORT_ENV` before it, or " })[myShellType()]
  LmodMessage( -- lines that Lmod need not wrap
    "Note: srun starts tasks without what modules set in this job, as it was\n"
    .. "submitted with --export (SLURM_EXPORT_ENV=" .. export .. "). To give it to them, type\n"
    .. (first or "") .. "`srun --export=ALL`.\n"
  )
end
srun_note()

help("pytorch/2.1-cuda11.8: Tensors and neural networks\010on GPUs\010\010Start with:\010\010  python -c 'import torch'\010\010For Python packages of your own, while this module is loaded:\010  python -m venv --system-site-packages ~/venvs/pytorch-2.1-cuda11.8\010  ~/venvs/pytorch-2.1-cuda11.8/bin/python -m pip install PACKAGE\010\010Needs:\010  NVIDIA driver 450.80.02 or newer\010  GPU of compute capability 7.5 or 8.0\010  glibc 2.17 or newer\010  CPU of level x86-64-v3 or higher\010\010Loading it replaces any other loaded module of family framework.\010\010More: https://pytorch.org\010\010Installed in /cluster/envmgr/store/pytorch/2.1-cuda11.8-3f9c0a17\010")
whatis("Name: pytorch")
whatis("Version: 2.1-cuda11.8")
whatis("Description: Tensors and neural networks on GPUs")
whatis("URL: https://pytorch.org")
whatis("License: BSD-3-Clause")
whatis("Category: machine learning")
whatis("Requires: NVIDIA driver 450.80.02 or newer; GPU of compute capability 7.5 or 8.0; glibc 2.17 or newer; CPU of level x86-64-v3 or higher")
extensions("numpy/1.26.4, torch/2.1.2")
driver_gate("450.80.02", "pytorch/2.1-cuda11.8", "refuse")
family("framework")
conflict("tensorflow", "pytorch-nightly/2024")
depends_on("python/3.11")
depends_on("ffmpeg/6")
pushenv("PYTORCH_ROOT", "/cluster/envmgr/store/pytorch/2.1-cuda11.8-3f9c0a17")
pushenv("ENVMGR_PYTORCH_DIGEST", "3f9c0a17884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
pushenv("ENVMGR_GENERATION", "42")
pushenv("PYTHONNOUSERSITE", "1")
if mode() ~= "unload" and (os.getenv("MANPATH") or "") == "" then -- an empty element: the system's own places
  append_path("MANPATH", "")
end
prepend_path("PATH", "/cluster/envmgr/store/pytorch/2.1-cuda11.8-3f9c0a17/bin")
prepend_path("MANPATH", "/cluster/envmgr/store/pytorch/2.1-cuda11.8-3f9c0a17/share/man")
if (os.getenv("NVCC_APPEND_FLAGS") or "") == "" then
  pushenv("NVCC_APPEND_FLAGS", "-lineinfo")
else
  pushenv("NVCC_APPEND_FLAGS", "" .. os.getenv("NVCC_APPEND_FLAGS") .. " -lineinfo")
end
pushenv("TORCH_SHOW", "1")
if mode() == "unload" then -- the last holder takes the value away, if it is still ours
  local held = os.getenv("ENVMGR_DEFAULT_OMP_NUM_THREADS")
  append_path("ENVMGR_DEFAULT_OMP_NUM_THREADS", "pytorch/2.1-cuda11.8")
  if held and not os.getenv("ENVMGR_DEFAULT_OMP_NUM_THREADS") and os.getenv("OMP_NUM_THREADS") == "1" then
    setenv("OMP_NUM_THREADS", "1")
  end
elseif (os.getenv("OMP_NUM_THREADS") or "") == "" or (os.getenv("ENVMGR_DEFAULT_OMP_NUM_THREADS") and os.getenv("OMP_NUM_THREADS") == "1") then
  append_path("ENVMGR_DEFAULT_OMP_NUM_THREADS", "pytorch/2.1-cuda11.8")
  setenv("OMP_NUM_THREADS", "1")
end
pushenv("PYTORCH_NVML_BASED_CUDA_CHECK", false)
if mode() == "unload" and (os.getenv("MANPATH") or ""):match("^:*$") then -- nobody's element is left
  setenv("MANPATH", "")
end
