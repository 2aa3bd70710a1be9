-- Reads the remaining time of one side of the lock and the hold count of one owner.
-- KEYS[1] lock  hash   the lock; fields: mode (read or write), reader -> holds, writer..':write' -> holds
-- ARGV[1] side  string read or write
-- ARGV[2] field string the field of the owner to look up, empty for none
-- returns {PTTL (-2: this side is not held, -1: no expiry), the owner's hold count (0: none)}
-- calls hget hlen pttl
-- wire 9.6
local lock, side, field = KEYS[1], ARGV[1], ARGV[2]
local mode, count = redis.call('hget', lock, 'mode'), redis.call('hget', lock, field)
local readers_too = side == 'read' and mode == 'write' and redis.call('hlen', lock) > 2
if mode ~= side and not readers_too then
  return { -2, 0 }
end
return { redis.call('pttl', lock), tonumber(count or 0) }
