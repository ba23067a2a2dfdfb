-- restore.lua: the copy of a collection that Lmod restores in this shell; for collections.lua.
-- Installed by `envmgr node-setup`.

local folder = ...
local closure = assert(loadfile(folder .. "closure.lua"))(folder)
local M = {}

-- What the command line says: `initial` for the one at login, `quiet`.
local function option(name)
  return (rawget(_G, "masterTbl") or rawget(_G, "optionTbl"))()[name] -- Lmod 8, 9
end

local function say(...)
  if not option("quiet") then
    io.stderr:write("envmgr: ", table.concat({ ... }), "\n")
  end
end

local function exists(path)
  local file = io.open(path)
  if file then
    file:close()
  end
  return file ~= nil
end

-- The site's prefix, as node-setup wrote it for shells; nil where that was not run.
local function prefix_of_node()
  local file = io.open(folder .. "../settings")
  local text = file and file:read("*a") or ""
  if file then
    file:close()
  end
  return text:match("\nprefix='([^'\n]*)'\n") or text:match("\nprefix=([^'\n]+)\n")
end

-- The prefix, and the modules of this shell's generation; or why there are none.
local function shell()
  local pin = os.getenv("ENVMGR_PIN") or ""
  local prefix, number = pin:match("^(/.*)/generations/(%d+)$")
  if not prefix then
    prefix = prefix_of_node()
    return prefix and { prefix = prefix, away = "this shell has no modules of " .. prefix }
  elseif not exists(pin .. "/modules") then
    local away = "generation " .. tonumber(number) .. ", which this shell has, is gone; a new login has the current one"
    return { prefix = prefix, away = away }
  end
  return { prefix = prefix, modules = pin .. "/modules" }
end

-- Whether a path is the folder of modules of any generation of the prefix.
local function is_ours(here, path)
  local rest = path:sub(1, #here.prefix) == here.prefix and path:sub(#here.prefix + 1):gsub("/+$", "")
  return rest and (rest == "/current/modules" or rest:match("^/generations/%d+/modules$")) ~= nil
end

-- The entry of a modulefile of any generation of the prefix, such as `app/1.0`, or nil.
local function entry_of(here, path)
  local rest = type(path) == "string" and path:sub(1, #here.prefix) == here.prefix and path:sub(#here.prefix + 1) or ""
  return rest:match("^/generations/%d+/modules/(.+)%.lua$") or rest:match("^/current/modules/(.+)%.lua$")
end

-- A list of paths (array) with the shell's generation once, where the first of any generation was.
local function with_ours(here, paths)
  local found, mine = {}, false
  for _, path in ipairs(paths) do
    if not is_ours(here, path) then
      found[#found + 1] = path
    elseif here.modules and not mine then
      mine, found[#found + 1] = true, here.modules
    end
  end
  return found, mine
end

local function split(text)
  local found = {}
  for part in (text or ""):gmatch("[^:]+") do
    found[#found + 1] = part:find("%S") and part or nil -- csh writes a blank for an empty path
  end
  return found
end

local function without_ours(here, text)
  local rest = {}
  for _, path in ipairs(split(text)) do
    if not is_ours(here, path) then
      rest[#rest + 1] = path
    end
  end
  return table.concat(rest, ":")
end

local function joined(paths)
  return #paths > 0 and table.concat(paths, ":") or nil
end

-- Lua's text of a value, for a table without cycles.
local function written(value)
  if type(value) == "string" then
    return ("%q"):format(value)
  elseif type(value) ~= "table" then
    return tostring(value)
  end
  local parts = {}
  for key, each in pairs(value) do
    parts[#parts + 1] = "[" .. written(key) .. "]=" .. written(each)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

-- The table in a collection's file, or nil where its form is not Lmod 8's and 9's.
local function read(path)
  local file = assert(io.open(path))
  local text = file:read("*a")
  file:close()
  local saved = closure.run(text, "_ModuleTable_")
  if type(saved) == "table" and saved.MTversion == 3 and type(saved.mT) == "table" and type(saved.mpathA) == "table" then
    return saved
  end
end

-- The loaded modules in their order, each with its `sn` and `fullName`.
local function loaded()
  return require("FrameStk"):singleton():mt():list("fullName", "active")
end

-- Lets `module` return 1 when all is done. Lmod's own flag would not: until 8.6 a purge clears it, and `-q` hides it.
local function fail(at_end)
  require("HookArray").register(function()
    pcall(at_end)
    local set = rawget(_G, "setStatusFlag") or rawget(_G, "setWarningFlag") -- from Lmod 8.7; before
    rawset(_G, "quiet", function()
      return false
    end)
    set()
  end)
end

-- Ends the `module` command before anything was purged; at a login Lmod goes on with the system's default modules.
local function refuse(collection)
  if option("initial") and collection == "default" then
    fail()
    return nil, true
  end
  LmodErrorExit()
end

-- Whether any of the modules of the collection, or of the paths, is ours.
local function concerns_us(here, saved, system)
  local found = joined(split(system)) ~= joined(split(without_ours(here, system)))
  for _, path in ipairs(saved.mpathA) do
    found = found or is_ours(here, path)
  end
  for _, entry in pairs(saved.mT) do
    found = found or entry_of(here, entry.fn) ~= nil
  end
  return found
end

-- Keys that are paths, as Lmod counts them.
local function renamed(here, counts)
  local found = {}
  for path, count in pairs(counts) do
    if not is_ours(here, path) then
      found[path] = count
    elseif here.modules then
      found[here.modules] = math.max(found[here.modules] or 0, count)
    end
  end
  return found
end

-- What is reported of a dependency that is another now, or of an entry that is gone.
local function tell(here, collection, result)
  if #result.changes > 0 then
    say("since `", collection, "` was saved, dependencies have changed: ", table.concat(result.changes, "; "))
  end
  local gone = {}
  for _, each in ipairs(result.gone) do
    if here.modules then
      local next_ones = #each.others > 0 and "there is " .. table.concat(each.others, ", ") or "no other version is there"
      say(each.name, " of `", collection, "` was removed; ", next_ones)
    else
      gone[#gone + 1] = each.name
    end
  end
  for _, each in ipairs(result.in_family) do
    say(each.name, " of `", collection, "` is left out: ", each.by, " is of the family ", each.family, ", too")
  end
  if #gone > 0 then
    say(here.away, ": ", table.concat(gone, ", "), " of `", collection, "` cannot be loaded")
  end
end

local expected -- by `prepare`: the modules (short names) that Lmod is to load, and whether the collection had more

-- Says what is loaded, and lets `module` return 1, unless all of the collection is restored. `done` is what Lmod returned.
function M.check(collection, done)
  local there = {}
  for _, each in ipairs(loaded()) do
    there[each.sn] = true
  end
  local is_whole = done and not expected.is_less
  for _, name in ipairs(expected) do
    is_whole = is_whole and there[name]
  end
  if not is_whole then
    fail(function()
      local now = {}
      for _, each in ipairs(loaded()) do
        now[#now + 1] = each.fullName
      end
      say("not all of `", collection, "` is restored. Loaded now: ", now[1] and table.concat(now, ", ") or "no module")
    end)
  end
end

-- The text that Lmod restores instead of the file `tt.fn`; nil where that file is right as it is, or none of ours; nil and true
-- where Lmod is to say that it restored nothing.
function M.prepare(self, tt)
  local here = shell()
  local saved = here and read(tt.fn)
  if not saved or not concerns_us(here, saved, self.systemBaseMPATH) then
    return nil
  end
  if without_ours(here, saved.systemBaseMPATH) ~= without_ours(here, self.systemBaseMPATH) then
    LmodWarning({ msg = "w_MPATH_Coll" }) -- as Lmod does, but before it purges
    return refuse(tt.name)
  end

  local had_ours = without_ours(here, saved.systemBaseMPATH) ~= (joined(split(saved.systemBaseMPATH)) or "")
  local system, in_system = with_ours(here, split(self.systemBaseMPATH))
  local paths, in_paths = with_ours(here, saved.mpathA)
  if in_system and not in_paths and not had_ours then -- saved before the system's path had a generation
    paths[#paths + 1] = here.modules
  end
  saved.systemBaseMPATH, saved.mpathA = joined(system), paths
  for _, name in ipairs({ "mpathRefCountT", "depthT" }) do
    saved[name] = type(saved[name]) == "table" and renamed(here, saved[name]) or saved[name]
  end

  local result = closure.follow(saved.mT, here.modules, function(path)
    return entry_of(here, path)
  end)
  tell(here, tt.name, result)
  if result.were > 0 and result.left == 0 then
    say("nothing of `", tt.name, "` can be loaded: what was loaded stays as it is")
    return refuse(tt.name)
  end
  expected = { is_less = #result.gone + #result.in_family > 0 }
  for name, entry in pairs(saved.mT) do
    expected[#expected + 1] = entry.status == "active" and name or nil
  end
  self.systemBaseMPATH = saved.systemBaseMPATH -- Lmod compares them
  return "_ModuleTable_ = " .. written(saved) .. "\n"
end

-- The system's MODULEPATH in the table `self` gets the shell's generation, in front where it had none.
function M.reset(self)
  local here = shell()
  if not here then
    return
  end
  local system, mine = with_ours(here, split(self.systemBaseMPATH))
  if here.modules and not mine then
    table.insert(system, 1, here.modules)
  end
  self.systemBaseMPATH = joined(system)
end

return M
