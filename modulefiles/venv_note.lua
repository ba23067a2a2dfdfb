-- Tells that this module's Python hides the environment that the shell has activated: the module's folder is first in PATH from now on.
-- Only at load, and only while the environment's own folder is in PATH.
local function venv_note()
  local path = ":" .. (os.getenv("PATH") or "") .. ":"
  for _, name in ipairs({ "VIRTUAL_ENV", "CONDA_PREFIX" }) do
    local folder = os.getenv(name) or ""
    if mode() == "load" and folder ~= "" and path:find(":" .. folder .. "/bin:", 1, true) then
      LmodMessage("Note: the Python of " .. myModuleFullName() .. " hides the environment " .. folder .. ": activate it again.\n")
      return
    end
  end
end
