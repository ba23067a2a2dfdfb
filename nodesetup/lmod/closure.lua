-- closure.lua: the modules of a collection in another generation, with the dependencies that they have there; for restore.lua.
-- Installed by `envmgr node-setup`.
--
-- Lmod restores the modules of a collection in their order and follows no `depends_on`: the list must have all. A module that
-- the user asked for has the stackDepth 0; one that came with another has more, and a ref_count.

local M = {}

-- The global `name` after the Lua text has run with nothing else in reach; nil where it fails.
function M.run(text, name)
  local room = {}
  local chunk
  if rawget(_G, "setfenv") then -- Lua 5.1
    chunk = loadstring(text)
    chunk = chunk and setfenv(chunk, room)
  else
    chunk = load(text, "=", "t", room)
  end
  return chunk and pcall(chunk) and room[name] or nil
end

local function lines(path)
  local found = {}
  local file = io.open(path)
  if file then
    for line in file:lines() do
      found[#found + 1] = line
    end
    file:close()
  end
  return found
end

local function exists(path)
  local file = io.open(path)
  if file then
    file:close()
  end
  return file ~= nil
end

-- `first` before `second`, as Lmod orders versions where it can.
local function older(first, second)
  local form = rawget(_G, "parseVersion")
  if form then
    return form(first) < form(second)
  end
  return first < second
end

-- The versions of a name in a folder of modules, the hidden ones apart; oldest first. And its default, if it has one.
local function versions(modules, name)
  local found, hidden, default = {}, {}, nil
  for _, line in ipairs(lines(modules .. "/" .. name .. "/.modulerc.lua")) do
    default = line:match('^module_version%("(.-)", "default"%)$') or default
    local version = line:match('^hide_version%("(.-)"%)$')
    hidden[version or ""] = true
  end
  local lfs = require("lfs")
  if lfs.attributes(modules .. "/" .. name, "mode") == "directory" then
    for file in lfs.dir(modules .. "/" .. name) do
      local version = file:match("^([^.].*)%.lua$")
      if version and not hidden[name .. "/" .. version] then
        found[#found + 1] = version
      end
    end
  end
  table.sort(found, older)
  return found, default
end

-- The entry in a folder of modules that Lmod itself takes a word for in this shell: the user's and the site's own modulerc files
-- have a say in it. Nil where there is none in the folder, or this Lmod cannot be asked.
local function meant(modules, word)
  local ok, path = pcall(function()
    require("ModuleA"):singleton({ spider_cache = os.getenv("LMOD_CACHED_LOADS") ~= "no" })
    return require("MName"):new("load", word):fn()
  end)
  local inside = ok and type(path) == "string" and path:sub(1, #modules + 1) == modules .. "/"
  return inside and path:sub(#modules + 2):match("^(.+)%.lua$") or nil
end

-- The entry that a user's word means in a folder of modules: `app/1.0`, `app` or `app/1`; nil where there is none.
local function resolve(modules, word)
  if not modules then
    return nil
  end
  local by_lmod = meant(modules, word)
  if by_lmod and by_lmod:match("^[^/]+/[^/]+$") then
    return by_lmod
  end
  local name, wanted = word:match("^(.-)/(.+)$")
  if name and exists(modules .. "/" .. word .. ".lua") then
    return word
  end
  local all, default = versions(modules, name or word)
  if not name and default and exists(modules .. "/" .. default .. ".lua") then
    return default
  end
  for number = #all, 1, -1 do
    if not name or all[number]:sub(1, #wanted + 1) == wanted .. "." then
      return (name or word) .. "/" .. all[number]
    end
  end
end

-- What a statement of an entry's module names, as envmgr writes it: one line of quoted words.
local function stated(statement, modules, entry)
  local found = {}
  for _, line in ipairs(lines(modules .. "/" .. entry .. ".lua")) do
    local words = line:match("^" .. statement .. "%((.*)%)$")
    for _, word in ipairs(words and M.run("words = {" .. words .. "}", "words") or {}) do
      found[#found + 1] = word
    end
  end
  return found
end

local function by_order(mT)
  local found = {}
  for sn, entry in pairs(mT) do
    if entry.status == "active" then
      found[#found + 1] = { sn = sn, entry = entry, order = entry.loadOrder or 0 }
    end
  end
  table.sort(found, function(first, second)
    if first.order == second.order then
      return first.sn < second.sn
    end
    return first.order < second.order
  end)
  return found
end

-- How many of these modulefiles name `sn` in their text, so that they may load it.
local function count_of(files, sn)
  local found = 0
  for _, path in ipairs(files) do
    found = found + (table.concat(lines(path), "\n"):find(sn, 1, true) and 1 or 0)
  end
  return found
end

-- The entries of a name that the user can load instead.
local function siblings(modules, name)
  local found = {}
  for _, version in ipairs(modules and versions(modules, name) or {}) do
    found[#found + 1] = name .. "/" .. version
  end
  return found
end

-- How the dependencies of the collection differ from those that it had, as texts. A removed entry takes its own with it.
local function changes(items, order, mT, ours, is_something_gone)
  local found, before = {}, {}
  for _, item in ipairs(items) do
    before[item.sn] = item
  end
  for _, sn in ipairs(order) do
    local item, now = before[sn], mT[sn].fullName
    if not item then
      found[#found + 1] = now .. " is new"
    elseif ours(mT[sn].fn) and now ~= (item.asked and item.now or item.before) then
      found[#found + 1] = now .. " instead of " .. (item.before or item.sn)
    end
  end
  for _, item in ipairs(items) do
    if not mT[item.sn] and not item.asked and not is_something_gone then
      found[#found + 1] = item.before .. " is not needed any more"
    end
  end
  return found
end

-- The entries of a collection in their order, each with its dependencies before it; those in `excluded` (by sn) are left out.
-- Writes them into `mT`. Returns their sn in order, and as a set.
local function arrange(mT, items, modules, excluded)
  local asked = {} -- sn -> the entry that the user's word means now, until it has its place
  for _, item in ipairs(items) do
    asked[item.sn] = item.asked and not excluded[item.sn] and item.now or nil
  end
  local order, placed = {}, {}
  local function put(sn, full, word)
    local entry = mT[sn] or { status = "active", propT = {}, wV = false, stackDepth = 1 }
    entry.fullName, entry.fn, entry.userName = full, modules .. "/" .. full .. ".lua", word
    entry.hash = nil -- of its `depends_on` in the old generation; Lmod compares only what is there
    mT[sn] = entry
    if not placed[sn] then
      placed[sn], order[#order + 1] = true, sn
    end
  end
  local function put_dependencies(full, path)
    for _, word in ipairs(stated("depends_on", modules, full)) do
      local now = resolve(modules, word)
      local sn = now and now:match("^(.-)/")
      -- What the user asked for later has its own place, and the last word.
      local is_missing = sn and (placed[sn] and mT[sn].fullName ~= now or not placed[sn] and not asked[sn])
      if is_missing and not path[sn] and not excluded[sn] then
        path[sn] = true
        put_dependencies(now, path)
        path[sn] = nil
        put(sn, now, word)
      end
    end
  end
  for _, item in ipairs(items) do
    if item.ours and asked[item.sn] then
      asked[item.sn] = nil
      put_dependencies(item.now, { [item.sn] = true })
      put(item.sn, item.now, item.word)
    elseif not item.ours and not placed[item.sn] then
      placed[item.sn], order[#order + 1] = true, item.sn
    end
  end
  return order, placed
end

-- The first entry that a later one of its family replaces: sn, the other's full name, the family. Lmod would lose both.
local function replaced(mT, order, modules, ours)
  local owners = {}
  for _, sn in ipairs(order) do
    local full = mT[sn].fullName
    for _, family in ipairs(ours(mT[sn].fn) and stated("family", modules, full) or {}) do
      if owners[family] then
        return owners[family], full, family
      end
      owners[family] = sn
    end
  end
end

-- How many modules depend on those that came with others; and the order, as Lmod keeps it.
local function number(mT, order, modules, ours, others)
  local counts = {}
  for position, sn in ipairs(order) do
    mT[sn].loadOrder = position
    for _, word in ipairs(ours(mT[sn].fn) and stated("depends_on", modules, mT[sn].fullName) or {}) do
      local name = word:match("^[^/]+")
      counts[name] = (counts[name] or 0) + 1
    end
  end
  for _, sn in ipairs(order) do
    if ours(mT[sn].fn) and (mT[sn].stackDepth or 0) > 0 then
      mT[sn].ref_count = (counts[sn] or 0) + count_of(others, sn)
    end
  end
end

-- Changes the table `mT` of a collection to what its modules are in the folder `modules`, nil where the shell has none.
-- `ours` gives the entry of a path, or nil for a module of another tool: those stay as they are.
-- Returns the changes of dependencies (texts); what is gone (name, other versions of it); what another replaces (name, by,
-- family); how many modules were and are there.
function M.follow(mT, modules, ours)
  local items = by_order(mT)
  local follows_defaults = os.getenv("LMOD_PIN_VERSIONS") ~= "yes"
  local others = {} -- the files of modules that are not ours: one of them may have asked for a dependency of ours
  for _, item in ipairs(items) do
    item.ours = ours(item.entry.fn)
    others[#others + 1] = not item.ours and item.entry.fn or nil
  end
  for _, item in ipairs(items) do
    if item.ours then
      item.before, item.word = item.entry.fullName, item.entry.userName
      item.now = resolve(modules, follows_defaults and item.word or item.before)
      item.asked = (item.entry.stackDepth or 0) == 0 or count_of(others, item.sn) > 0
    end
  end

  local excluded, in_family = {}, {}
  local order, placed = arrange(mT, items, modules, excluded)
  local sn, by, family = replaced(mT, order, modules, ours)
  while sn do
    in_family[#in_family + 1] = { name = mT[sn].fullName, by = by, family = family }
    excluded[sn] = true
    order, placed = arrange(mT, items, modules, excluded)
    sn, by, family = replaced(mT, order, modules, ours)
  end

  local gone = {}
  for _, item in ipairs(items) do
    if item.asked and not item.now then
      gone[#gone + 1] = { name = item.before, others = siblings(modules, item.sn) }
    end
  end
  for name, entry in pairs(mT) do
    if entry.status == "active" and not placed[name] then
      mT[name] = nil
    end
  end
  number(mT, order, modules, ours, others)
  local is_less = #gone + #in_family > 0
  return {
    changes = changes(items, order, mT, ours, is_less),
    gone = gone,
    in_family = in_family,
    were = #items,
    left = #order,
  }
end

return M
