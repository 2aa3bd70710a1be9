-- Tells whether the server's user may subscribe, and may run scripts.
-- ARGV[1] plain   string SUBSCRIBE
-- ARGV[2] sharded string SSUBSCRIBE
-- ARGV[3] channel string a channel of no lock
-- returns 1 when the user may use both commands and run scripts, 0 when not, nil from a server without such a check
-- calls nothing
-- wire 19.2, 19.3; Redis 6 has no acl_check_cmd
local plain, sharded, channel = ARGV[1], ARGV[2], ARGV[3]
local allowed = redis.acl_check_cmd
if not allowed then
  return nil
end
local runs = allowed('EVAL', '', '0') and allowed('EVALSHA', '', '0')
return runs and allowed(plain, channel) and allowed(sharded, channel) and 1 or 0
