-- Begins the function that runs the rows of the second script, if there is one: its text follows.
-- returns the reply of the script
-- calls nothing
-- wire 19.4
end
local run2 = function(KEYS, ARGV)
