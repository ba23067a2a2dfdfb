-- SitePackage.lua: puts envmgr's hook into Lmod, then gives way to the SitePackage.lua that Lmod takes without ours: the site's,
-- or Lmod's own. LMOD_PACKAGE_PATH names this folder as its last.

local folder = debug.getinfo(1, "S").source:match("^@(.*/)SitePackage%.lua$")

-- Whatever becomes of the hook, the site's own comes next.
pcall(function()
  assert(loadfile(folder .. "collections.lua"))(folder)
end)

-- Lmod put three patterns for this folder in front; without them, `require` does what it does where this folder is not named.
local function without_us(list)
  local kept = {}
  for pattern in list:gmatch("[^;]+") do
    if pattern:sub(1, #folder) ~= folder then
      kept[#kept + 1] = pattern
    end
  end
  return table.concat(kept, ";")
end
package.path, package.cpath = without_us(package.path), without_us(package.cpath)
package.loaded["SitePackage"] = nil -- Lua 5.1 marks it as under way
return require("SitePackage")
