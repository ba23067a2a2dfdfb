-- Written by envmgr, generation 42. Do not edit: change the recipe and build again.

-- Tells, once in a job, that `srun` gives its tasks nothing of what modules set here: `sbatch --export=NONE` leaves
-- SLURM_EXPORT_ENV behind, and srun obeys it. Only at load; not in srun's own tasks, and not outside of jobs.
local function srun_note()
  local export, job = os.getenv("SLURM_EXPORT_ENV") or "", os.getenv("SLURM_JOB_ID") or ""
  if export == "" or job == "" or mode() ~= "load" or (os.getenv("SLURM_STEP_ID") or "") ~= "" then
    return
  end
  if ("," .. export:upper() .. ","):find(",ALL,", 1, true) or os.getenv("ENVMGR_SRUN_NOTE") == job then
    return
  end
  setenv("ENVMGR_SRUN_NOTE", job) -- only at load: an unload leaves it

  local first = ({ sh = "`unset SLURM_EXPORT_ENV` before it, or ", csh = "`unsetenv SLURM_EXPORT_ENV` before it, or " })[myShellType()]
  LmodMessage( -- lines that Lmod need not wrap
    "Note: srun starts tasks without what modules set in this job, as it was\n"
    .. "submitted with --export (SLURM_EXPORT_ENV=" .. export .. "). To give it to them, type\n"
    .. (first or "") .. "`srun --export=ALL`.\n"
  )
end
srun_note()

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
venv_note()

-- In a prefix that was moved the install's programs are not found, though its module would load.
local here = myFileName():match("^(.*)/generations/%d+/modules/")
if mode() == "load" and here and here ~= "/cluster/envmgr" and not isDir("/cluster/envmgr/store/cmake/3.29-9f86d081") then
  LmodError("cmake/3.29", " was made for ", "/cluster/envmgr/store/cmake/3.29-9f86d081", ", and is not there: its modules were moved to ", here, ". Tell the administrators of this cluster.\n")
end

help("cmake/3.29: Makes build files\010\010For Python packages of your own:\010  envmgr user create NAME --on cmake/3.29 PACKAGE\010Without envmgr, until the cluster removes this install, while this module is loaded:\010  python -m venv --system-site-packages ~/venvs/cmake-3.29\010  ~/venvs/cmake-3.29/bin/python -m pip install PACKAGE\010\010Loading it replaces any other loaded module of family python.\010\010Installed in /cluster/envmgr/store/cmake/3.29-9f86d081\010")
whatis("Name: cmake")
whatis("Version: 3.29")
whatis("Description: Makes build files")
family("python")
pushenv("CMAKE_ROOT", "/cluster/envmgr/store/cmake/3.29-9f86d081")
pushenv("ENVMGR_CMAKE_DIGEST", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
pushenv("ENVMGR_GENERATION", "42")
prepend_path("PATH", "/cluster/envmgr/store/cmake/3.29-9f86d081/bin")
