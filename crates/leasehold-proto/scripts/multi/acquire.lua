-- Acquires all locks or none. A repeated call finds its holds.
-- KEYS[1] lock     hash    the first lock, then the others; field: wire owner, value: hold count
-- ARGV[1] lease_ms integer lease of the keys from now
-- ARGV[2] owner    string  wire owner, unique per acquisition
-- returns nil on success, else the longest PTTL of another owner's hold (-1: one has no expiry)
-- calls hexists exists hlen hset hdel pttl pexpire
-- wire 10.2, 5.1, 4.2
local lock = KEYS[1]
local lease_ms, owner = tonumber(ARGV[1]), ARGV[2]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR acquire: lease_ms must be whole and positive')
end
-- The PTTL of a free lock is -2, below that of every held lock. hexists refuses a key of another type.
local longest, taken = math.min(-2, redis.call('hexists', lock, owner)), false
for _, key in ipairs(KEYS) do
  if redis.call('hexists', key, owner) == 0 and redis.call('exists', key) == 1 then
    if redis.call('hlen', key) > 1 then
      return redis.error_reply('WRONGTYPE one of the names is a read-write lock or a group of values')
    end
    local remaining = redis.call('pttl', key)
    if remaining == -1 then return -1 end
    taken, longest = true, math.max(longest, remaining)
  end
end
if taken then return longest end
local new = {}
for _, key in ipairs(KEYS) do
  local done = 0
  if redis.call('hexists', key, owner) == 0 then
    done, new[#new + 1] = redis.pcall('hset', key, owner, '1'), key
    if done == 1 then done = redis.pcall('pexpire', key, ARGV[1]) end
  elseif redis.call('pttl', key) < lease_ms then
    done = redis.pcall('pexpire', key, ARGV[1])
  end
  if type(done) == 'table' then
    for _, taken_now in ipairs(new) do redis.call('hdel', taken_now, owner) end
    return done
  end
end
return nil
