INSERT INTO restores (id, lost_from, lost_until, begun_by) VALUES (@id::uuid, @lost_from, @lost_until, @by)
