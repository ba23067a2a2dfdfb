-- For the module of a user's own environment, at load: once a week, that the entry below it is another one now; and each time which packages lie
-- in the environment that its lock does not have. `reported` is a file whose time says when the first was said.
local function user_note(name, entry, root, current, reported, packages, known)
  if mode() ~= "load" or not isDir(packages) then
    return
  end
  for found in lfs.dir(packages) do
    if found:match("%.dist%-info$") and not known[found] then
      LmodMessage("Note: " .. found:gsub("%.dist%-info$", "") .. " lies in " .. myModuleFullName() .. ", and its lock does not have it.\n")
    end
  end
  if not isDir(current .. "/modules") or os.time() - (lfs.attributes(reported, "modification") or 0) < 7 * 86400 then
    return
  end
  local file = io.open(current .. "/modules/" .. entry .. ".lua")
  local text = file and file:read("*a") or ""
  if file then
    file:close()
  end
  if text:find(root, 1, true) then
    return
  end
  local what = text == "" and " is no longer published; " or " has another install now; "
  local way = text == "" and "create an environment on another entry." or "`envmgr user update " .. name .. " --rebase` takes it."
  LmodMessage("Note: " .. entry .. what .. way .. "\n")
  local said = io.open(reported, "w")
  if said then
    said:close()
  end
end
