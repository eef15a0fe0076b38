SELECT EXISTS (SELECT FROM tombstones WHERE tenant_id = @tenant AND key_hash = sha256(convert_to(@key, 'UTF8')))
