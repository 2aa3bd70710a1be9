-- Answers a question.
-- KEYS[1] answers  list    the texts that the asker has not fetched
-- ARGV[1] text     string  the answer
-- ARGV[2] lasts_ms integer the list lasts this long without another answer
-- ARGV[3] most     integer the most texts that the list takes
-- returns 1, or 0 when the list is full
-- calls llen pexpire rpush
-- wire 24
local answers, text = KEYS[1], ARGV[1]
local lasts_ms, most = ARGV[2], tonumber(ARGV[3])
if redis.call('llen', answers) >= most then
  return 0
end
redis.call('rpush', answers, text)
redis.call('pexpire', answers, lasts_ms)
return 1
