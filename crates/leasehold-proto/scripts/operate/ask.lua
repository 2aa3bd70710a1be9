-- Asks all clients a question.
-- KEYS[1] clients zset   the cards of the clients; chooses the node of a cluster that has the channel
-- ARGV[1] begin   string the question in front of the number of clients
-- ARGV[2] rest    string the question behind the number of clients
-- ARGV[3] numsub  string NUMSUB, SHARDNUMSUB for sharded channels, or empty where one node does not know all listeners
-- ARGV[4] publish string PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[5] channel string the channel of the questions
-- returns {the number of registered clients, the number of clients that listen, -1 when it is unknown}
-- calls publish|spublish pubsub zcard
-- wire 24; an error of the count leaves the number unknown
local clients, begin, rest = KEYS[1], ARGV[1], ARGV[2]
local numsub, publish, channel = ARGV[3], ARGV[4], ARGV[5]
local registered = redis.call('zcard', clients)
local listeners
if numsub ~= '' then
  listeners = tonumber(redis.pcall('pubsub', numsub, channel)[2])
end
redis.call(publish, channel, begin .. (listeners or registered) .. rest)
return { registered, listeners or -1 }
