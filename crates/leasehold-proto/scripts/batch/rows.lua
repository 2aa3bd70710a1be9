-- Runs each row, and returns their replies.
-- returns an array with an item for each row: its reply, false for nil, or its error; no row ends another
-- calls nothing
-- wire 19.4; KEYS are those of the rows, one row after the other; ARGV begins with a digit for each row that names its
-- script, and with the numbers of keys and of arguments of each script's rows, and continues with the arguments of the
-- rows; a script error is a text on most servers
end
local runs, byte, pcall, unpack, replies = runs, string.byte, pcall, unpack, {}
local order, keys_each, args_each = ARGV[1], {}, {}
for script = 1, #runs do
  keys_each[script], args_each[script] = tonumber(ARGV[2 * script]), tonumber(ARGV[2 * script + 1])
end
local key, arg = 0, 1 + 2 * #runs
for row = 1, #order do
  local script = byte(order, row) - 48
  local last_key, last_arg = key + keys_each[script], arg + args_each[script]
  local ended, reply = pcall(runs[script], {unpack(KEYS, key + 1, last_key)}, {unpack(ARGV, arg + 1, last_arg)})
  if not ended then
    local text = type(reply) == 'table' and reply.err or tostring(reply)
    reply = {err = string.match(text, '^%u+ ') and text or 'ERR ' .. text}
  elseif reply == nil then
    reply = false
  end
  replies[row], key, arg = reply, last_key, last_arg
end
return replies
