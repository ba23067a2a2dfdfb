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

-- In a prefix that was moved the install's programs are not found, though its module would load.
local here = myFileName():match("^(.*)/generations/%d+/modules/")
if mode() == "load" and here and here ~= "/cluster/envmgr" and not isDir("/cluster/envmgr/store/anaconda/2025.06-1-0a1b2c3d") then
  LmodError("anaconda/2025.06-1", " was made for ", "/cluster/envmgr/store/anaconda/2025.06-1-0a1b2c3d", ", and is not there: its modules were moved to ", here, ". Tell the administrators of this cluster.\n")
end

help("anaconda/2025.06-1: Python and packages for data science\010\010Installed in /cluster/envmgr/store/anaconda/2025.06-1-0a1b2c3d\010")
whatis("Name: anaconda")
whatis("Version: 2025.06-1")
whatis("Description: Python and packages for data science")
pushenv("ANACONDA_ROOT", "/cluster/envmgr/store/anaconda/2025.06-1-0a1b2c3d")
pushenv("ENVMGR_ANACONDA_DIGEST", "0a1b2c3d884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
pushenv("ENVMGR_GENERATION", "42")
prepend_path("PATH", "/cluster/envmgr/store/anaconda/2025.06-1-0a1b2c3d/bin")
if mode() == "unload" or ((os.getenv("USER") or "") ~= "") then
pushenv("A", "$" .. " of " .. (os.getenv("USER") or ""))
end
if mode() == "unload" or ((os.getenv("HOME") or "") ~= "") then
if mode() == "unload" then -- the last holder takes the value away, if it is still ours
  local held = os.getenv("ENVMGR_DEFAULT_CONDA_ENVS_PATH")
  append_path("ENVMGR_DEFAULT_CONDA_ENVS_PATH", "anaconda/2025.06-1")
  if held and not os.getenv("ENVMGR_DEFAULT_CONDA_ENVS_PATH") and os.getenv("CONDA_ENVS_PATH") == (os.getenv("HOME") or "") .. "/.conda/envs" then
    setenv("CONDA_ENVS_PATH", (os.getenv("HOME") or "") .. "/.conda/envs")
  end
elseif (os.getenv("CONDA_ENVS_PATH") or "") == "" or (os.getenv("ENVMGR_DEFAULT_CONDA_ENVS_PATH") and os.getenv("CONDA_ENVS_PATH") == (os.getenv("HOME") or "") .. "/.conda/envs") then
  append_path("ENVMGR_DEFAULT_CONDA_ENVS_PATH", "anaconda/2025.06-1")
  setenv("CONDA_ENVS_PATH", (os.getenv("HOME") or "") .. "/.conda/envs")
end
end
if mode() == "unload" or ((os.getenv("HOME") or "") ~= "" and (os.getenv("USER") or "") ~= "") then
append_path("XDG_DATA_DIRS", (os.getenv("HOME") or "") .. "/" .. (os.getenv("USER") or ""))
end
if myShellType() == "sh" then
  set_shell_function("conda", "eval 'case \"${1-}\" in\010activate) echo '\"'\"'yes'\"'\"' ;;\010esac'", "")
elseif myShellType() == "csh" then -- at unload, set_shell_function would leave an empty alias behind
  set_alias("conda", "if (1) echo \"$*\"")
end
if myShellType() == "sh" then
  set_shell_function("other", "eval :", "")
end
if mode() == "unload" and myShellType() == "sh" then
  execute({cmd = "eval 'if :; then\010  hash -r\010fi'", modeA = {"unload"}})
end
if mode() == "unload" and myShellType() == "csh" then
  execute({cmd = "rehash", modeA = {"unload"}})
end
