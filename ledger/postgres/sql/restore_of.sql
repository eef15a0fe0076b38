-- The widest time that what is in force for an action names, and the latest beginning.
SELECT min(lost_from), max(lost_until), max(begun_at) FROM restores_in_force(@tenant, @action_type) HAVING count(*) > 0
