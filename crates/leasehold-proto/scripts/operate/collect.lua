-- Fetches the answers to a question.
-- KEYS[1] answers list    the texts that the asker has not fetched
-- ARGV[1] most    integer the most texts to fetch
-- returns the texts, oldest first
-- calls llen lpop
-- wire 24
local answers, most = KEYS[1], tonumber(ARGV[1])
local texts = {}
for at = 1, math.min(most, redis.call('llen', answers)) do
  texts[at] = redis.call('lpop', answers)
end
return texts
