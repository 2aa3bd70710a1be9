-- Ends the next script when a newer token has written to its first key.
-- returns {'leasehold_fence', the newer token}, or nothing: the next script follows
-- calls get
-- wire 7.3; `leasehold_fence` holds the highest token that wrote to the key; key and token are the last of KEYS and
-- ARGV and stay there, because the rows of a batch share these tables
local fence, token = KEYS[#KEYS], tonumber(ARGV[#ARGV])
local newest = tonumber(redis.call('get', fence) or '0') or 9007199254740991
if not token or token < 1 or token % 1 ~= 0 then
  return redis.error_reply('LOCKERR fence: token must be whole and positive')
end
if newest > token then return { 'leasehold_fence', string.format('%.0f', newest) } end
