-- Looks at one side of the lock, and at one owner's holds of it.
-- KEYS[1] lock  hash   the lock; fields: mode (read or write), reader -> holds, writer..':write' -> holds
-- ARGV[1] side  string read or write
-- ARGV[2] field string the field of the owner to look up, empty for none
-- returns {PTTL (-2: nobody holds this side, -1: no expiry), the owner's hold count (0: none)}
-- calls hget hlen pttl
-- wire 9.6; in one script, and what remains is said only of a side that is held
local lock, side, field = KEYS[1], ARGV[1], ARGV[2]
local mode, count = redis.call('hget', lock, 'mode'), redis.call('hget', lock, field)
local beside = side == 'read' and mode == 'write' and redis.call('hlen', lock) > 2
if mode ~= side and not beside then
  return { -2, 0 }
end
return { redis.call('pttl', lock), tonumber(count or 0) }
