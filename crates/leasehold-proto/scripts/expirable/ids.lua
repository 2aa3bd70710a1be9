-- Holds helpers for permits that end by the server's clock: a set of ids, each with its end.
-- returns nothing: functions for the scripts of this folder
-- calls time zscore
-- wire 13.1, 4.5
local UNENDING = 922337203685477
local function now_ms()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- Splits an argument into its ids, 16 bytes each, and drops repeats.
local function each(given)
  local all, known = {}, {}
  for at = 1, #given, 16 do
    local id = string.sub(given, at, at + 15)
    if not known[id] then
      all[#all + 1], known[id] = id, true
    end
  end
  return all
end
-- Counts the ids that are acquired.
local function present(ids, all)
  local found = 0
  for _, id in ipairs(all) do
    if redis.call('zscore', ids, id) then
      found = found + 1
    end
  end
  return found
end
