-- Says to the syslog of this node that a module was loaded: one datagram, at load only, where the site has `usage: true`. Nothing here
-- waits, prints or fails: the socket does not block, and all that can go wrong is let go. `ENVMGR_USAGE=no` sends nothing: envmgr's own
-- tests and audits load modules, too. While a module loads what it depends on, ENVMGR_USAGE_BY of Lmod's own process, which no shell
-- gets, says which one that is.
local usage_socket = "/dev/log"

local function usage_begin(entry)
  local by = (os.getenv("ENVMGR_USAGE_BY") or ""):match("^[%w_.+-]+/[%w_.+-]+$") or "-"
  if mode() == "load" then
    pcall(function() posix.setenv("ENVMGR_USAGE_BY", entry) end)
  end
  return by
end

local function usage_end(entry, generation, by)
  if mode() ~= "load" then
    return
  end
  pcall(function() posix.setenv("ENVMGR_USAGE_BY", by) end)
  local known, kind = pcall(function() return package.loaded._G.mcp:name() end)
  local is_read_again = known and (kind == "MC_Refresh" or kind == "MC_ComputeHash") -- for its functions, or for its hash
  if is_read_again or os.getenv("ENVMGR_USAGE") == "no" then
    return
  end
  pcall(function()
    local all = require("posix") -- Lmod has it already
    local socket = all.socket(all.AF_UNIX, all.SOCK_DGRAM, 0)
    if not socket then
      return
    end
    if all.fcntl(socket, all.F_SETFL, all.O_NONBLOCK) and all.connect(socket, { family = all.AF_UNIX, path = usage_socket }) then
      local job = (os.getenv("SLURM_JOB_ID") or ""):match("^%d+$") or "-"
      local words = { "load 1", entry, generation, job, by, os.date("!%Y-%m-%d"), (all.uname("%n")) }
      all.send(socket, "<14>" .. os.date("%b %e %H:%M:%S") .. " envmgr: " .. table.concat(words, " "))
    end
    all.close(socket)
  end)
end
