-- Prepares the rows: the tables of inputs of each script follow, with the arguments that all its rows share.
-- returns nothing
-- calls nothing
-- wire 19.4; KEYS are those of the rows, one row after the other; ARGV begins with a digit for each row that names its
-- script, and has the number of keys and a mask of the arguments of each script, the arguments that all rows of a script
-- share, which are those with a 1 in the mask, and the other arguments, one row after the other
end
local byte, pcall, replies, order, key = string.byte, pcall, {}, ARGV[1], 0
