-- Writes under way end first, and no new one begins.
LOCK TABLE operations IN SHARE ROW EXCLUSIVE MODE
