-- Acquires a free plain lock. Where the server has SET with NX and GET, that command stands in for this script.
-- KEYS[1] lock     string  the lock; value of the hold
-- ARGV[1] value    string  value of the hold, unique per acquisition
-- ARGV[2] lease_ms integer lease of the key from now
-- returns nil on success, else the value of another hold
-- calls get set
-- wire 25.2
local lock, value, lease_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR acquire: lease_ms must be whole and positive')
end
local held = redis.call('get', lock)
if held then return held end
redis.call('set', lock, value, 'PX', ARGV[2])
return nil
