-- prepend.lua: puts envmgr's hook into Lmod 9.2.8 and later; LMOD_SITEPACKAGE_PREPEND names this file.

local folder = debug.getinfo(1, "S").source:match("^@(.*/)prepend%.lua$")
pcall(function()
  assert(loadfile(folder .. "collections.lua"))(folder)
end)
