"""Lmod's own account of its configuration, in one form everywhere: for checks that run in the stages `login` and `context`."""

from __future__ import annotations

# lmod_config: sets $lmod_config to the sorted lines `configT.NAME=VALUE`, `rcfileA.1=PATH`, `cache.1.1=PATH` (a cache's folder),
# once for all checks of a shell; status 1, and $lmod_said, where Lmod cannot tell. Its JSON comes on stderr with the keys in
# random order, and a node need not have anything that reads JSON but the Lua that runs Lmod, named in Lmod's first line.
LMOD_CONFIG = r"""
lmod_config() {
  [ -z "${lmod_config-}" ] || return 0
  lmod_said=$("$LMOD_CMD" bash --no_redirect --config_json 2>&1 >/dev/null)
  read -r lmod_lua <"$LMOD_CMD" || return 1
  lmod_config=$(printf '%s\n' "$lmod_said" | ${lmod_lua#"#!"} -e '
    local text = io.read("*a")
    local at = text:find("{\"", 1, true)
    local out = {}
    local function string_here()
      local last = at
      repeat
        last = text:find("[\"\\]", last + 1)
        local escape = text:sub(last, last) == "\\"
        if escape then last = last + 1 end
      until not escape
      local inner = text:sub(at + 1, last - 1)
      at = last + 1
      return (inner:gsub("\\(.)", function(escaped)
        return ({ n = " ", r = " ", t = " ", u = "\\u" })[escaped] or escaped
      end))
    end
    local function value(name)
      local open = text:sub(at, at)
      if open == "\"" then
        out[#out + 1] = name .. "=" .. string_here():gsub("%s+$", "")
      elseif open ~= "{" and open ~= "[" then
        local word = text:match("^[^,%]}]+", at)
        out[#out + 1] = name .. "=" .. word
        at = at + #word
      else
        local number = 0
        at = at + 1
        while not text:find("^[%]}]", at) do
          number = number + 1
          local key = number
          if open == "{" then
            key = string_here()
            at = at + 1
          end
          value(name == "" and key or name .. "." .. key)
          if text:sub(at, at) == "," then at = at + 1 end
        end
        at = at + 1
      end
    end
    value("")
    table.sort(out)
    print((table.concat(out, "\n")))
  ' 2>/dev/null | grep -v '^propT\.')
  [ -n "$lmod_config" ]
}
lmod_value() { printf '%s\n' "$lmod_config" | sed -n "s|^$1=||p"; }
"""
