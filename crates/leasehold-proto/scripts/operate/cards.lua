-- Reads the cards of clients, one page at a time.
-- KEYS[1] clients zset    the card of each client, with the end of its registration in unix milliseconds
-- ARGV[1] from    integer the place of the page's first card
-- ARGV[2] most    integer the size of a page
-- returns {the server's time in unix milliseconds, card, end of its registration, ...}
-- calls time zcard zrange
-- wire 24; a page of fewer cards is the last
local clients, from, most = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local last = math.min(from + most, redis.call('zcard', clients)) - 1
local time = redis.call('time')
local reply = { time[1] * 1000 + math.floor(time[2] / 1000) }
for _, item in ipairs(redis.call('zrange', clients, from, last, 'withscores')) do
  reply[#reply + 1] = item
end
return reply
