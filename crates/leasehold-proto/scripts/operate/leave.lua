-- Removes a client from those that answer the questions of operators.
-- KEYS[1] clients zset   the card of each client, with the end of its registration in unix milliseconds
-- ARGV[1] card    string the client's card
-- returns 1 when the card was there, else 0
-- calls zrem zscore
-- wire 24
local clients, card = KEYS[1], ARGV[1]
return redis.call('zscore', clients, card) and redis.call('zrem', clients, card) or 0
