-- newer.lua: envmgr's hook in Lmod that says why a module is not in this shell: it came with a later generation, or the shell found no
-- generation when it started. Installed by `envmgr node-setup`. Lmod itself would propose another spelling, or to leave its cache out.

if package.loaded["envmgr.newer"] then -- several variables and set-ups may name the hook
  return
end
package.loaded["envmgr.newer"] = true
local MOST = 1000 -- generations that are looked at

-- The prefix, this shell's generation and the current one; nil where it has no pin, or is up to date.
local function generations()
  local prefix, number = (os.getenv("ENVMGR_PIN") or ""):match("^(/.*)/generations/(%d+)$")
  if prefix then
    local current = (require("posix").readlink(prefix .. "/current") or ""):match("^generations/(%d+)$")
    if current and tonumber(current) > tonumber(number) then
      return prefix, tonumber(number), tonumber(current)
    end
  end
end

local function has(prefix, number, name)
  local path = ("%s/generations/%04d/modules/%s"):format(prefix, number, name)
  local file = io.open(path .. ".lua") or io.open(path) -- a name without a version is a folder
  if file then
    file:close()
  end
  return file ~= nil
end

-- The generation after `own` with which a module came; nil if `own` has it too, or `current` does not.
local function came_with(prefix, own, current, name)
  if not name:find("^[%w][%w._+/-]*$") or name:find("..", 1, true) or has(prefix, own, name) or not has(prefix, current, name) then
    return
  end
  for number = math.max(own + 1, current - MOST), current do
    if has(prefix, number, name) then
      return number
    end
  end
end

-- What pin saw when this shell started, such as `/sw does not answer on c1`; nil where it found a generation.
local function away()
  return (os.getenv("ENVMGR_AWAY") or ""):match("^%S+ %d+ %S+ %S+ %S+ (.+)$")
end

-- Lmod's messages on names that it does not find, by `load`, and by `show`, `help` and `whatis`: until 9.0, and later.
local UNKNOWN = { e_Failed_Load = true, w_Failed_2_Find = true, e_Failed_2_Find_w_Access = true }

local function explain(_, key, message, values)
  if not UNKNOWN[key] then
    return
  end
  local seen = away()
  if seen then
    local names = values.module_list:gsub('"', ""):gsub("%s+", ", ")
    return ("this shell does not know %s. When it started, %s: a new shell looks again\n"):format(names, seen)
  end
  if key ~= "e_Failed_Load" then
    return
  end
  local prefix, own, current = generations()
  if not prefix then
    return
  end
  local said, all = {}, true
  for name in values.module_list:gmatch("[^%s\"]+") do
    local number = came_with(prefix, own, current, name)
    all = all and number ~= nil
    if number then
      said[#said + 1] = ("this shell uses generation %d; %s came with generation %d: log in again, or submit the job again"):format(own, name, number)
    end
  end
  if said[1] then
    return (all and "" or message .. "\n") .. table.concat(said, "\n") .. "\n"
  end
end

-- Says at each load that a shell uses a candidate, until that is current.
local LOADS = { load = true, add = true, ["try-load"] = true, try_load = true, swap = true, switch = true, sw = true, restore = true, r = true }

local function tell_candidate(words)
  local own = (os.getenv("ENVMGR_PIN") or ""):match("^/.*/generations/(%d+)$")
  if not own or own ~= os.getenv("ENVMGR_CANDIDATE") then
    return
  end
  local prefix = os.getenv("ENVMGR_PIN"):match("^(/.*)/generations/%d+$")
  local current = (require("posix").readlink(prefix .. "/current") or ""):match("^generations/(%d+)$")
  for i, word in ipairs(words or {}) do
    local shell = i == 1 and word:find("sh$") and word ~= "refresh" -- not each Lmod has taken its name away by now
    if not word:find("^%-") and not shell then
      if LOADS[word] and current ~= own then
        io.stderr:write(("envmgr: modules of candidate %d; generation %s is current\n"):format(tonumber(own), tonumber(current) or "none"))
      end
      return
    end
  end
end
pcall(tell_candidate, arg)

-- An Lmod that does not know this hook would warn of it at each start.
local warn = LmodWarning
LmodWarning = function() end
-- A hook that fails must not end `module`: Lmod's own message is there then.
pcall(require("Hook").register, "errWarnMsgHook", function(...)
  local fine, text = pcall(explain, ...)
  return fine and text or nil
end)
LmodWarning = warn
