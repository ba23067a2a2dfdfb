-- prepend.lua: puts envmgr's hook into Lmod 9.2.8 and later, where LMOD_SITEPACKAGE_PREPEND names this file; older ones do not read
-- the variable.

local path = debug.getinfo(1, "S").source:match("^@(.*)")
local folder = path:match("^(.*/)")
pcall(function()
  assert(loadfile(folder .. "collections.lua"))(folder)
end)

-- The variable hides the list that was built into Lmod (configure --with-sitePackagePrepend). Where it had no value but for us,
-- that list is read as Lmod would.
if os.getenv("LMOD_SITEPACKAGE_PREPEND") == path then
  local built_in
  for pattern in package.path:gmatch("[^;]+") do
    local file = not built_in and io.open((pattern:gsub("%?", "myGlobals")))
    if file then
      built_in = file:read("*a"):match('"LMOD_SITEPACKAGE_PREPEND",%s*sedV%s*=%s*"([^"@]*)"') or ""
      file:close()
    end
  end
  for name in (built_in or ""):gmatch("[^:]+") do
    if io.open(name) then
      assert(loadfile(name))()
    end
  end
end
