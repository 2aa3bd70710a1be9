-- Acquires a free plain lock for a Redlock, but only on a server whose uptime covers every earlier hold.
-- KEYS[1] lock      string  the lock; value of the hold
-- ARGV[1] value     string  value of the hold, unique per acquisition
-- ARGV[2] marked    string  the value with its mark, or the value if it takes no mark
-- ARGV[3] lease_ms  integer lease of the key from now
-- ARGV[4] marks     integer 1 when the caller listens to the channel or will ask again
-- ARGV[5] uptime_ms integer minimum uptime of the server, 0 when it persists every write
-- returns nil on success, the PTTL of another hold, or {milliseconds until the server counts}
-- calls get set pttl pexpire setrange info
-- wire 25.9, 10.4; another library's hold sends no message, so it is asked for again soon
local lock, value, marked, lease_ms = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local marks, uptime_ms = ARGV[4] == '1', tonumber(ARGV[5])
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 or not uptime_ms then
  return redis.error_reply('LOCKERR acquire: lease_ms must be whole and positive')
end
local held = redis.call('get', lock)
if held == value or held == marked then
  if redis.call('pttl', lock) < lease_ms then redis.call('pexpire', lock, ARGV[3]) end
  return nil
end
if held then
  local remaining = redis.call('pttl', lock)
  if remaining == -1 then remaining = 86400000 end
  if #held ~= 28 or not held:find('^lh1%-[%w_-]+%-[01]$') then return math.min(remaining, 200) end
  if marks and held:sub(28) == '0' then redis.call('setrange', lock, 27, '1') end
  return remaining
end
if uptime_ms > 0 then
  -- Uptime counts whole seconds and can be almost a second too long.
  local seconds = tonumber(redis.call('info', 'server'):match('uptime_in_seconds:(%d+)')) or 0
  local remaining_ms = uptime_ms - (seconds - 1) * 1000
  if remaining_ms > 0 then return { remaining_ms } end
end
redis.call('set', lock, value, 'PX', ARGV[3])
return nil
