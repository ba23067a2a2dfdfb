-- prepend.lua: puts envmgr's hook into Lmod 9.2.8 and later, where LMOD_SITEPACKAGE_PREPEND names this file; older ones do not read
-- the variable. Installed by `envmgr node-setup`. Each line is whole, as in SitePackage.lua.
local path = debug.getinfo(1, "S").source:match("^@(.*)")
local folder = path:match("^(.*/)")
pcall(function() assert(loadfile(folder .. "collections.lua"))(folder) end)
pcall(function() assert(loadfile(folder .. "newer.lua"))(folder) end)
-- The variable hides the list that was built into Lmod (configure --with-sitePackagePrepend). Where it had no value but for us, that
-- list is read as Lmod would.
local function globals() for pattern in package.path:gmatch("[^;]+") do local file = io.open((pattern:gsub("%?", "myGlobals"))) if file then return file end end end
local file = os.getenv("LMOD_SITEPACKAGE_PREPEND") == path and globals()
local built_in = file and file:read("*a"):match('"LMOD_SITEPACKAGE_PREPEND",%s*sedV%s*=%s*"([^"@]*)"') or ""
if file then file:close() end
for name in built_in:gmatch("[^:]+") do if io.open(name) then assert(loadfile(name))() end end
