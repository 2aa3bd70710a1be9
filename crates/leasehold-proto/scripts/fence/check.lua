-- Ends the script that follows when a newer token has written to its first key.
-- returns {'leasehold_fence', the newer token}, or goes on with the script that follows
-- calls get
-- wire 7; not Redisson's: beside each key stands the highest token that has written to it; it comes as the last of
-- KEYS, and the token as the last of ARGV, so that the script that follows finds its own where it counts them
local fence, token = table.remove(KEYS), tonumber(table.remove(ARGV))
local newest = tonumber(redis.call('get', fence) or '0') or 9007199254740991
if not token or token < 1 or token % 1 ~= 0 then
  return redis.error_reply('LOCKERR fence: token must be whole and positive')
end
if newest > token then return { 'leasehold_fence', string.format('%.0f', newest) } end
