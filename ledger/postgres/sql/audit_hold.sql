-- Nobody adds to an old partition from now on. Whoever serves does not notice:
-- new operations are not of that day, and of that day there are none.
SET LOCAL lock_timeout = '5s';
LOCK TABLE ONLY /* partition */ IN SHARE ROW EXCLUSIVE MODE;
