-- Runs each row, and returns their replies.
-- returns an array with an item for each row: its reply, false for nil, or its error; no row ends another
-- calls nothing
-- wire 19.4; KEYS are those of the rows, one row after the other; ARGV begins with a digit for each row that names its
-- script, has the number of keys and a mask of the arguments of each script, then the arguments that all rows of a
-- script share, which are those with a 1 in the mask, and continues with the other arguments, one row after the other; a
-- script error is a text on most servers
end
local runs, byte, pcall, replies = runs, string.byte, pcall, {}
local order, keys_each, keys_of, args_of, own_of = ARGV[1], {}, {}, {}, {}
local key, arg = 0, 1 + 2 * #runs
for script = 1, #runs do
  local mask, args, own = ARGV[2 * script + 1], {}, {}
  for place = 1, #mask do
    if byte(mask, place) == 49 then
      arg = arg + 1
      args[place] = ARGV[arg]
    else
      args[place] = ''
      own[#own + 1] = place
    end
  end
  keys_each[script], keys_of[script], args_of[script], own_of[script] = tonumber(ARGV[2 * script]), {}, args, own
end
for row = 1, #order do
  local script = byte(order, row) - 48
  local count, keys, args, own = keys_each[script], keys_of[script], args_of[script], own_of[script]
  for place = 1, count do
    keys[place] = KEYS[key + place]
  end
  for place = 1, #own do
    args[own[place]] = ARGV[arg + place]
  end
  key, arg = key + count, arg + #own
  local ended, reply = pcall(runs[script], keys, args)
  if not ended then
    local text = type(reply) == 'table' and reply.err or tostring(reply)
    reply = {err = string.match(text, '^%u+ ') and text or 'ERR ' .. text}
  elseif reply == nil then
    reply = false
  end
  replies[row] = reply
end
return replies
