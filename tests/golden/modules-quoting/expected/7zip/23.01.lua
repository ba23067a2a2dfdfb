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
if mode() == "load" and here and here ~= "/cluster/envmgr" and not isDir("/cluster/envmgr/store/7zip/23.01-deadbeef") then
  LmodError("7zip/23.01", " was made for ", "/cluster/envmgr/store/7zip/23.01-deadbeef", ", and is not there: its modules were moved to ", here, ". Tell the administrators of this cluster.\n")
end

help("7zip/23.01: says \"hello\", ]] and ]==] -- \\ {{ braces }} {% tags %} {# notes #}\010\010Line one\\r\010line two\009tab\\x00nul\\u2028end é ü 漢字 🐍\010\010Installed in /cluster/envmgr/store/7zip/23.01-deadbeef\010")
whatis("Name: 7zip")
whatis("Version: 23.01")
whatis("Description: says \"hello\", ]] and ]==] -- \\ {{ braces }} {% tags %} {# notes #}")
pushenv("_7ZIP_ROOT", "/cluster/envmgr/store/7zip/23.01-deadbeef")
pushenv("ENVMGR__7ZIP_DIGEST", "deadbeef884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
pushenv("ENVMGR_GENERATION", "42")
pushenv("GREETING", "it's \"$HOME\" `x` \\n]]1 é 漢")
