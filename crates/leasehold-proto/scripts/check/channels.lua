-- Ends the next script when the server's user lacks the right to its channels, or to run it by its hash.
-- returns an error that names the command and the channel, or nothing: the next script follows
-- calls nothing
-- wire 19.3; after the ARGV of the next script come the channels, the commands to publish and to subscribe, and the
-- number of channels; Redis 6 has no such check
do
  local count = tonumber(table.remove(ARGV))
  local subscribe, publish = table.remove(ARGV), table.remove(ARGV)
  local allowed = redis.acl_check_cmd
  if allowed and not allowed('EVALSHA', '', '0') then
    return redis.error_reply("NOPERM this user has no permissions to run the 'evalsha' command")
  end
  for _ = 1, count do
    local channel = table.remove(ARGV)
    local lacks = allowed and (not allowed(publish, channel, '') and publish or not allowed(subscribe, channel) and subscribe)
    if lacks then
      return redis.error_reply('NOPERM the user may not use ' .. lacks .. " on the channel '" .. channel .. "'")
    end
  end
end
