-- Begins the function that runs the rows of the first script: its text follows.
-- returns the reply of the script
-- calls nothing
-- wire 19.4; the row's own KEYS and ARGV hide those of the batch
local run1 = function(KEYS, ARGV)
