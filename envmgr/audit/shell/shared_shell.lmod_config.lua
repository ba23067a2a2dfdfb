-- Reads Lmod's JSON on stdin, also behind other words, and prints a sorted line `NAME.NAME=VALUE` for each value in it.

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
