-- Begins the loop over the rows: the lines that fill the inputs of a row and run it follow.
-- returns nothing
-- calls nothing
-- wire 19.4
for row = 1, #order do
  local ended, reply
