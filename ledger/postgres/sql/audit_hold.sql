-- Nobody adds to an old partition from now on. Who serves does not notice: new
-- operations are not of that day, and of that day there are none. A claim of a
-- replica whose clock is days behind waits.
SET LOCAL lock_timeout = '5s';
LOCK TABLE ONLY /* partition */ IN SHARE ROW EXCLUSIVE MODE;
