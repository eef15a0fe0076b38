SELECT has_table_privilege('audit_events', 'UPDATE') OR has_table_privilege('audit_events', 'DELETE')
