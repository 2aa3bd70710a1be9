-- Acquires all plain locks or none, and marks the holders of those that are held. A repeated call finds its holds.
-- KEYS[1] lock     string  the first lock, then the others; value of the hold
-- ARGV[1] value    string  value of the holds, unique per acquisition
-- ARGV[2] marked   string  the value with its mark
-- ARGV[3] lease_ms integer lease of the keys from now
-- ARGV[4] marks    integer 1 when the caller listens to the channels or will ask again
-- returns nil on success, else the longest PTTL of another hold, or {PTTL} if another library has one of them
-- calls get set pttl pexpire setrange
-- wire 25.9, 4.2
local lock, value, marked, lease_ms = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local marks = ARGV[4] == '1'
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR acquire: lease_ms must be whole and positive')
end
-- get refuses a key of another type, before a mark or a lock is written.
local held, longest, foreign = { [lock] = redis.call('get', lock) }, -2, false
for _, key in ipairs(KEYS) do held[key] = redis.call('get', key) end
for _, key in ipairs(KEYS) do
  local other = held[key]
  if other and other ~= value and other ~= marked then
    local remaining = redis.call('pttl', key)
    if remaining == -1 then remaining = 86400000 end
    longest = math.max(longest, remaining)
    local is_ours = #other == 28 and other:find('^lh1%-[%w_-]+%-[01]$')
    foreign = foreign or not is_ours
    if marks and is_ours and other:sub(28) == '0' then redis.call('setrange', key, 27, '1') end
  end
end
if longest > -2 then return foreign and { longest } or longest end
for _, key in ipairs(KEYS) do
  if not held[key] then
    redis.call('set', key, value, 'PX', ARGV[3])
  elseif redis.call('pttl', key) < lease_ms then
    redis.call('pexpire', key, ARGV[3])
  end
end
return nil
