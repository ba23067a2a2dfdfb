-- SitePackage.lua: puts envmgr's hook into Lmod, then gives way to the SitePackage.lua that Lmod takes without ours: the site's,
-- or Lmod's own. LMOD_PACKAGE_PATH names this folder as its last. Installed by `envmgr node-setup`.
-- Each line is whole: Lmod starts with a file that was cut after any of them. Whatever becomes of the hook, the site's own comes next.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)SitePackage%.lua$")
pcall(function() assert(loadfile(folder .. "collections.lua"))(folder) end)
pcall(function() assert(loadfile(folder .. "newer.lua"))(folder) end)
-- Lmod put three patterns for this folder in front; without them, `require` does what it does where this folder is not named.
local function without_us(list) return ((";" .. list):gsub(";" .. folder:gsub("%p", "%%%0") .. "[^;]*", ""):sub(2)) end
package.path, package.cpath = without_us(package.path), without_us(package.cpath)
package.loaded["SitePackage"] = nil -- Lua 5.1 marks it as under way
return require("SitePackage")
