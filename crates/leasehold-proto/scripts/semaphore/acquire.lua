-- Acquires available permits. A repeated call finds its marker and takes nothing more.
-- KEYS[1] counter   string  available permits, may be negative
-- KEYS[2] marker    string  permits that this acquisition took
-- KEYS[3] timeout   zset    ids of an expirable semaphore's permits; must not exist
-- ARGV[1] permits   integer number of permits
-- ARGV[2] uncertain integer 1 when an earlier call of this acquisition may still arrive
-- returns 1 on success, 0 when there are too few permits
-- calls get
-- wire 12.2
local counter, marker, timeout = KEYS[1], KEYS[2], KEYS[3]
local permits, uncertain = tonumber(ARGV[1]), tonumber(ARGV[2])
if not permits or permits < 0 or permits % 1 ~= 0 then
  return redis.error_reply('LOCKERR acquire: permits must be whole and not negative')
end
local left = redis.call('get', counter)
if is_other(left, timeout) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
local taken = taken_by(marker)
if permits == 0 then
  return 1
end
if taken == 0 or (not taken and permits > tonumber(left or 0)) then
  return 0
end
return take(counter, marker, permits, uncertain, taken) or 1
