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
