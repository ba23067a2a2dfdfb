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
