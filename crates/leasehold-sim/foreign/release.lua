-- Redisson's unlock on the key and the channel of a lock (protocol, 5.4), without its latch.
-- KEYS[1] lock; ARGV[1] lease in ms for a partial unlock; ARGV[2] owner; ARGV[3] channel
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return nil
end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', ARGV[3], '0')
return 1
