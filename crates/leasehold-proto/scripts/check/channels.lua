-- Ends the script that follows when the server's user lacks the right to its channels.
-- returns an error that names the command and the channel, or goes on with the script that follows
-- calls nothing
-- wire 23; not Redisson's: the channels come behind the ARGV of the script that follows, then the words for publishing and
-- subscribing, then the number of channels; Redis 6 cannot be asked
do
  local count = tonumber(table.remove(ARGV))
  local subscribe, publish = table.remove(ARGV), table.remove(ARGV)
  for _ = 1, count do
    local channel = table.remove(ARGV)
    local allowed = redis.acl_check_cmd
    local lacks = allowed and (not allowed(publish, channel, '') and publish or not allowed(subscribe, channel) and subscribe)
    if lacks then
      return redis.error_reply('NOPERM the user may not use ' .. lacks .. " on the channel '" .. channel .. "'")
    end
  end
end
