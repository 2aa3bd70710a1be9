-- Registers a client among those that answer the questions of operators, unless its user may not listen to them.
-- KEYS[1] clients  zset    the card of each client, with the end of its registration in unix milliseconds
-- ARGV[1] card     string  the client's card
-- ARGV[2] lasts_ms integer the registration lasts this long unless it is repeated
-- ARGV[3] channel  string  the channel of the questions
-- returns 1, or 0 when the user may not subscribe to the channel
-- calls pexpire time zadd zcard zremrangebyscore
-- wire 24; also removes the cards whose registration has ended
local clients, card, lasts_ms, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local allowed = redis.acl_check_cmd
if allowed and not allowed('SUBSCRIBE', channel) and not allowed('SSUBSCRIBE', channel) then
  return 0
end
redis.call('zcard', clients)
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('zremrangebyscore', clients, '-inf', now)
redis.call('zadd', clients, now + lasts_ms, card)
redis.call('pexpire', clients, lasts_ms)
return 1
