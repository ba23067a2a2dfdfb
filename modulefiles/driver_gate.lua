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
