SELECT set_config(name, value, true) FROM unnest(@names::text[], @values::text[]) AS s (name, value)
