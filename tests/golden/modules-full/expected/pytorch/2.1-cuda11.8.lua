-- Written by envmgr, generation 42. Do not edit: change the recipe and build again.

-- What an entry does on the GPUs of a node: the rules of envmgr/catalog/gpu/verdict.py, for the moment of a load.
-- `needs`: cuda ("?": not known; nil: none), floor and branch of that CUDA (nil: no row), codes (a list such as "9.0a+PTX"; nil: not
-- known), compat, compat_branch, consumer, data_centre, driver. `facts`: gpus (a list of vendor, arch, name, driver), library, cuda; nil is what nobody saw.
-- Returns verdict, reason, and whether the policy `refuse` refuses it.
local function gpu_verdict(needs, facts)
  local order = { full = 1, ["no-jit"] = 2, forward = 3, unknown = 4, ["no-code"] = 5, ["too-old"] = 6, broken = 7 }

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

  local function branch(driver)
    return tonumber(driver:match("^%d+") or 0)
  end

  -- true, false, or nil where the driver's compiling is not known and matters
  local function runs(codes, arch, jit)
    local gpu_major, gpu_minor = arch:match("^(%d+)%.(%d)$")
    gpu_major, gpu_minor = tonumber(gpu_major), tonumber(gpu_minor)
    local unknown = false
    for _, code in ipairs(codes) do
      local major, minor, only, ptx = code:match("^(%d+)%.(%d)([af]?)(.*)$")
      major, minor = tonumber(major), tonumber(minor)
      local newer = gpu_major > major or (gpu_major == major and gpu_minor >= minor)
      if newer and gpu_major == major and (only ~= "a" or gpu_minor == minor) then
        return true
      end
      if newer and only == "" and ptx ~= "" then
        if jit then
          return true
        end
        unknown = unknown or jit == nil
      end
    end
    if unknown then
      return nil
    end
    return false
  end

  local function too_old(driver)
    if needs.floor and older(driver, needs.floor) then
      return "driver " .. driver .. " is older than " .. needs.floor .. ", the first for its CUDA " .. needs.cuda
    end
    if needs.driver and older(driver, needs.driver) then
      return "driver " .. driver .. " is older than " .. needs.driver
    end
  end

  local function knows(driver)
    if facts.cuda and needs.cuda and needs.cuda ~= "?" then
      return not older(facts.cuda, needs.cuda)
    elseif needs.branch then
      return branch(driver) >= needs.branch
    end
    return nil
  end

  local function broken(gpu)
    if gpu.driver == "" then
      return "no driver is loaded for " .. (gpu.name or "its GPU")
    elseif gpu.driver and facts.library == "" then
      return "driver " .. gpu.driver .. " is loaded, and there is no libcuda.so.1"
    elseif gpu.driver and facts.library and facts.library ~= gpu.driver then
      return "driver " .. gpu.driver .. " is loaded, and libcuda.so.1 is of another version: updated, not rebooted"
    end
  end

  local function among(word, names)
    for _, name in ipairs(names) do
      if word == name then
        return true
      end
    end
    return false
  end

  -- `cuda-compat` works on GPUs of data centres; the words of their names say which those are.
  local function with_compat(gpu)
    local name = gpu.name or "its GPU"
    for word in name:gmatch("%S+") do
      if among(word, needs.consumer) then
        return "forward", "cuda-compat " .. needs.compat .. " does not work on " .. name .. " (error 804)", true
      end
    end
    for word in name:gmatch("%S+") do
      if among(word, needs.data_centre) or among(word:match("^[^-]*"), needs.data_centre) then
        return "forward", "by cuda-compat " .. needs.compat
      end
    end
    return "unknown", "whether cuda-compat works on " .. name .. " is not known"
  end

  local function on(gpu)
    if gpu.vendor ~= "nvidia" then
      return "no-code", (gpu.name or gpu.vendor) .. ": it has code for NVIDIA's GPUs", true
    end
    local reason = broken(gpu)
    if reason then
      return "broken", reason, true
    elseif not gpu.driver then
      return "unknown", "the version of its driver could not be read"
    end
    local old = too_old(gpu.driver)
    if old and not needs.compat then
      return "too-old", old, true
    end
    local compiles = knows(gpu.driver)
    local forward = needs.compat and (old or compiles == false)
    local runs_there, doubt = nil, nil
    if not needs.cuda then
      runs_there = true
    elseif not needs.codes then
      doubt = "what it has code for is not known"
    elseif not (gpu.arch or ""):match("^%d+%.%d$") then
      doubt = "the compute capability of " .. (gpu.name or "its GPU") .. " is not known"
    else
      local has = "compute capability " .. gpu.arch .. ": it has code for " .. table.concat(needs.codes, ", ")
      local jit = compiles
      if forward then
        jit = true
      end
      runs_there = runs(needs.codes, gpu.arch, jit)
      if runs_there == false then
        return "no-code", has, true
      end
      doubt = has .. ", and whether its driver compiles that is not known"
    end
    if not facts.library then
      return "unknown", "its libcuda.so.1 was not found"
    elseif not needs.cuda then
      return "full", ""
    elseif not runs_there then
      return "unknown", doubt
    elseif forward then
      return with_compat(gpu)
    elseif needs.compat and branch(gpu.driver) > (needs.compat_branch or 0) then
      return "unknown", "driver " .. gpu.driver .. " is newer than its cuda-compat " .. needs.compat
    elseif compiles == nil or (compiles == false and not needs.floor) then
      return "unknown", "no table tells which driver knows its CUDA " .. needs.cuda
    elseif not compiles then
      return "no-jit", "driver " .. gpu.driver .. " does not compile for its CUDA " .. needs.cuda
    end
    return "full", ""
  end

  if not facts.gpus then
    return "unknown", "the GPUs of this node are not known"
  end
  local own = {}
  for _, gpu in ipairs(facts.gpus) do
    if gpu.vendor == "nvidia" then
      own[#own + 1] = gpu
    end
  end
  local best, why, refused = "no-gpu", "no GPU", false
  for _, gpu in ipairs(#own > 0 and own or facts.gpus) do
    local verdict, reason, no = on(gpu)
    no = no or false
    if best == "no-gpu" or order[verdict] < order[best] or (verdict == best and refused and not no) then
      best, why, refused = verdict, reason, no
    end
  end
  return best, why, refused
end

-- Says to users who load `entry` what it does on the GPUs of this node, by `gpu_verdict`; `policy` is "warn" or "refuse".
-- Only at load: not in spider, avail, show or unload. Starts no program: what /run/envmgr/gpus holds (written at boot) counts as
-- long as boot and driver are the ones that it names.
local function gpu_gate(entry, policy, needs)
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

  local function exists(path)
    local file = io.open(path)
    if file then
      file:close()
    end
    return file ~= nil
  end

  -- "535.183.01", or a line such as
  -- NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024
  -- NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build  (...)
  -- nil: something is loaded that tells no version; "": nothing is loaded
  local function loaded_driver()
    local sys, proc = first_line("/sys/module/nvidia/version"), first_line("/proc/driver/nvidia/version")
    local found = (sys or ""):match("^%s*(%d+%.[%d.]*%d)%s*$")
      or (proc or ""):match("Kernel Module.-%s(%d+%.[%d.]*%d)%s")
    if not found and not sys and not proc then
      return ""
    end
    return found
  end

  local function told(value)
    if value ~= "?" and value ~= "-" then
      return value
    end
  end

  -- What was written at boot: lines `key value`; nil where they are of another boot, or of another driver.
  local function written(driver)
    local file = io.open("/run/envmgr/gpus")
    local text = file and file:read("*a") or ""
    if file then
      file:close()
    end
    local known = { gpus = {} }
    for line in text:gmatch("[^\n]+") do
      local key, value = line:match("^(%S+) (.+)$")
      if key == "gpu" then
        local vendor, arch, by, name = value:match("^(%S+) (%S+) (%S+) (.*)$")
        if vendor then
          local gpu = { vendor = vendor, arch = told(arch), name = name, driver = told(by) }
          gpu.driver = by == "-" and "" or gpu.driver
          known.gpus[#known.gpus + 1] = gpu
        end
      elseif key then
        known[key] = value
      end
    end
    local same = known.boot and known.boot == first_line("/proc/sys/kernel/random/boot_id")
    if known.schema == "1" and known["end"] == "yes" and same and known.driver == (driver == "" and "-" or driver) then
      return known
    end
  end

  -- The version of libcuda.so.1 where it is the driver's own, "another" where it is not, "" where it is gone, nil where it was not found.
  local function library(driver, folder)
    local folders = { folder or "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/lib64" }
    for index = 1, folder and 1 or #folders do
      if exists(folders[index] .. "/libcuda.so." .. driver) then
        return driver
      elseif exists(folders[index] .. "/libcuda.so.1") then
        return "another"
      end
    end
    return folder and "" or nil
  end

  local driver = loaded_driver()
  local known = written(driver)
  local facts = { gpus = known and known.gpus, cuda = known and told(known.cuda or "?") }
  if driver and driver ~= "" then
    facts.library = library(driver, known and told(known.library or "?"))
  end
  if not known then
    if driver == "" then
      return -- nothing was written of GPUs, and no driver is loaded: a login node
    end
    facts.gpus = { { vendor = "nvidia", driver = driver } }
  end

  local verdict, reason, refused = gpu_verdict(needs, facts)
  if verdict == "full" or verdict == "no-gpu" then
    return
  end
  local node = first_line("/proc/sys/kernel/hostname") or "this node"
  local what = {
    ["no-jit"] = "it runs, but whatever it would compile at run time (Triton, NVRTC, torch.compile) fails",
    forward = refused and "its GPU programs fail here" or "it runs with the driver that it brings along",
    unknown = "whether its GPU programs run here is not known",
    ["no-code"] = "its GPU programs fail here",
    ["too-old"] = "its GPU programs fail here",
    broken = "no GPU program runs here",
  }
  local help = {
    ["no-jit"] = "A newer driver fixes it: ask the administrators of this cluster.",
    ["no-code"] = "Use a node with another GPU, or an entry with code for this one.",
    ["too-old"] = "Use a node with a newer driver, or ask the administrators of this cluster to update this one.",
    broken = "Use another node, and tell the administrators of this cluster: this one wants a reboot, or its driver.",
  }
  local said = entry .. " on " .. node .. ": " .. what[verdict] .. ": " .. reason .. "."
  if policy == "refuse" and refused then
    LmodError(said, "\n", "It was not loaded. ", help[verdict] or "", "\n")
  end
  -- Once for a session: the mark outlives an unload, and a job on another node has another one.
  local marks, mark = os.getenv("ENVMGR_GPU_NOTE") or "", node .. "=" .. entry .. "=" .. verdict
  if (":" .. marks .. ":"):find(":" .. mark .. ":", 1, true) then
    return
  end
  setenv("ENVMGR_GPU_NOTE", marks == "" and mark or marks .. ":" .. mark)
  -- Not LmodWarning: after it `module load` returns 1, and a job under `set -e` would end.
  LmodMessage(refused and "Warning: " or "Note: ", said, "\n", help[verdict] or "", "\n")
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

-- Tells that this module's Python hides the environment that the shell has activated: the module's folder is first in PATH from now on.
-- Only at load, and only while the environment's own folder is in PATH.
local function venv_note()
  local path = ":" .. (os.getenv("PATH") or "") .. ":"
  for _, name in ipairs({ "VIRTUAL_ENV", "CONDA_PREFIX" }) do
    local folder = os.getenv(name) or ""
    if mode() == "load" and folder ~= "" and path:find(":" .. folder .. "/bin:", 1, true) then
      LmodMessage("Note: the Python of " .. myModuleFullName() .. " hides the environment " .. folder .. ": activate it again.\n")
      return
    end
  end
end
venv_note()

-- In a prefix that was moved the install's programs are not found, though its module would load.
local here = myFileName():match("^(.*)/generations/%d+/modules/")
if mode() == "load" and here and here ~= "/cluster/envmgr" and not isDir("/cluster/envmgr/store/pytorch/2.1-cuda11.8-3f9c0a17") then
  LmodError("pytorch/2.1-cuda11.8", " was made for ", "/cluster/envmgr/store/pytorch/2.1-cuda11.8-3f9c0a17", ", and is not there: its modules were moved to ", here, ". Tell the administrators of this cluster.\n")
end

help("pytorch/2.1-cuda11.8: Tensors and neural networks\010on GPUs\010\010Start with:\010\010  python -c 'import torch'\010\010For Python packages of your own:\010  envmgr user create NAME --on pytorch/2.1-cuda11.8 PACKAGE\010Without envmgr, until the cluster removes this install, while this module is loaded:\010  python -m venv --system-site-packages ~/venvs/pytorch-2.1-cuda11.8\010  ~/venvs/pytorch-2.1-cuda11.8/bin/python -m pip install PACKAGE\010\010Needs:\010  NVIDIA driver 450.80.02 or newer\010  GPU of compute capability 7.5 or 8.0\010  glibc 2.17 or newer\010  CPU of level x86-64-v3 or higher\010\010Loading it replaces any other loaded module of family framework.\010\010More: https://pytorch.org\010\010Installed in /cluster/envmgr/store/pytorch/2.1-cuda11.8-3f9c0a17\010")
whatis("Name: pytorch")
whatis("Version: 2.1-cuda11.8")
whatis("Description: Tensors and neural networks on GPUs")
whatis("URL: https://pytorch.org")
whatis("License: BSD-3-Clause")
whatis("Category: machine learning")
whatis("Requires: NVIDIA driver 450.80.02 or newer; GPU of compute capability 7.5 or 8.0; glibc 2.17 or newer; CPU of level x86-64-v3 or higher")
extensions("numpy/1.26.4, torch/2.1.2")
gpu_gate("pytorch/2.1-cuda11.8", "refuse", { cuda = "?", codes = { "7.5", "8.0" }, driver = "450.80.02" })
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
prepend_path("PATH", "/cluster/envmgr/generations/0042/shims/pytorch/2.1-cuda11.8")
if mode() == "unload" then -- the last holder takes the value away, if it is still ours
  local held = os.getenv("ENVMGR_DEFAULT_PIP_REQUIRE_VIRTUALENV")
  append_path("ENVMGR_DEFAULT_PIP_REQUIRE_VIRTUALENV", "pytorch/2.1-cuda11.8")
  if held and not os.getenv("ENVMGR_DEFAULT_PIP_REQUIRE_VIRTUALENV") and os.getenv("PIP_REQUIRE_VIRTUALENV") == "1" then
    setenv("PIP_REQUIRE_VIRTUALENV", "1")
  end
elseif (os.getenv("PIP_REQUIRE_VIRTUALENV") or "") == "" or (os.getenv("ENVMGR_DEFAULT_PIP_REQUIRE_VIRTUALENV") and os.getenv("PIP_REQUIRE_VIRTUALENV") == "1") then
  append_path("ENVMGR_DEFAULT_PIP_REQUIRE_VIRTUALENV", "pytorch/2.1-cuda11.8")
  setenv("PIP_REQUIRE_VIRTUALENV", "1")
end
if mode() == "unload" and (os.getenv("MANPATH") or ""):match("^:*$") then -- nobody's element is left
  setenv("MANPATH", "")
end
