DELETE FROM kill_switches WHERE tenant_id = @tenant AND action_type = @action_type AND provider = @provider
