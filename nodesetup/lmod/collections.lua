-- collections.lua: envmgr's hook in Lmod. A collection (`module save`) restores in every later generation of its prefix.
-- Installed by `envmgr node-setup`.
--
-- A collection holds the MODULEPATH of its shell, and that names a generation. Lmod refuses a collection where the system's part
-- of that path is another one now, after it purged what was loaded; elsewhere it takes the shell back to the old generation.
-- Here Lmod is given a copy, in memory, in which the generation is the shell's. The user's file is not changed.
-- Where Lmod's function is not the one that is known here, or anything of ours fails, Lmod goes on as without us.

if package.loaded["envmgr.collections"] then -- several variables and set-ups may name the hook
  return
end
package.loaded["envmgr.collections"] = true
local folder = ...
local MT = package.loaded["MT"] -- Lmod's table of modules; its helpers, such as spider, may run without it
local restore = type(MT) == "table" and rawget(MT, "getMTfromFile")
local reset = type(MT) == "table" and rawget(MT, "resetMPATH2system")

-- Read when it is needed, and not with each `module` command.
local function parts()
  return assert(loadfile(folder .. "restore.lua"))(folder)
end

-- The lines of Lmod's function that the hook builds on. Tried with Lmod 8.3, 8.6.19 and 9.2.9.
local NEEDED = {
  'function M.getMTfromFile(self,tt)',
  'io.open(tt.fn,"r")',
  'f:read("*all")',
  'new(self, s, restoreFn)',
  'l_mt:getHash(sn)',
  'self.systemBaseMPATH ~= savedBaseMPATH',
}

-- nil, or why Lmod's function is not the one that is known here.
local function unknown()
  if type(restore) ~= "function" then
    return "Lmod has no MT.getMTfromFile"
  end
  local info = debug.getinfo(restore, "S")
  local file = io.open(info.source:match("^@(.*)") or "")
  if not file then
    return "the source of MT.getMTfromFile cannot be read"
  end
  local number, lines = 0, {}
  for line in file:lines() do
    number = number + 1
    if number >= info.linedefined and number <= info.lastlinedefined then
      lines[#lines + 1] = line
    end
  end
  file:close()
  local text = table.concat(lines, "\n")
  for _, needed in ipairs(NEEDED) do
    if not text:find(needed, 1, true) then
      return "MT.getMTfromFile lacks `" .. needed .. "`"
    end
  end
end

if os.getenv("ENVMGR_COLLECTIONS") == "tell" then -- the audit asks
  io.stderr:write("envmgr-collections: ", unknown() or (pcall(parts) and "known" or "broken"), "\n")
end

if type(restore) == "function" then
  MT.getMTfromFile = function(self, tt, ...)
    local hook
    local ok, text, refused = pcall(function()
      if not unknown() then
        hook = parts()
        return hook.prepare(self, tt)
      end
    end)
    if ok and refused then -- a login without its default collection: Lmod goes on with the system's
      return false
    elseif not ok or not text then
      return restore(self, tt, ...)
    end
    local open = io.open
    io.open = function(name, ...)
      if name ~= tt.fn then
        return open(name, ...)
      end
      io.open = open
      local function read()
        return text
      end
      return { read = read, close = function() end }
    end
    local done = restore(self, tt, ...)
    io.open = open
    pcall(hook.check, tt.name, done)
    return done
  end
end

-- `module reset` goes back to the system's MODULEPATH as it was when Lmod first ran: in that, too, the generation is the shell's.
if type(reset) == "function" then
  MT.resetMPATH2system = function(self, ...)
    pcall(function()
      parts().reset(self)
    end)
    return reset(self, ...)
  end
end
