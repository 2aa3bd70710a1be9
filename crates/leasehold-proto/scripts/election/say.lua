-- Publishes a message to the candidates and observers of an election.
-- KEYS[1] announcement hash   what the leader says of itself; it chooses the node of a cluster
-- ARGV[1] publish      string PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[2] channel      string the channel of the observers
-- ARGV[3] message      string the message
-- returns the number of listeners that this node knows
-- calls hlen publish|spublish
-- wire 26.4
local announcement, publish, channel, message = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
redis.call('hlen', announcement)
return redis.call(publish, channel, message)
