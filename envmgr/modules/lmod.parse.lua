-- Reads paths from stdin, as many lines as there are files; prints `path:line: reason` for each that Lua refuses.
-- The chunk is called "=m" because Lua cuts long names short.

local parse = loadstring or function(text, name) return load(text, name, "t", {}) end
for path in io.lines() do
  local file, reason = io.open(path, "rb")
  if file then
    local chunk
    chunk, reason = parse(file:read("*a"), "=m")
    file:close()
    reason = not chunk and path .. (reason:match("^m(:.*)$") or ": " .. reason)
  end
  if reason then print(reason) end
end
