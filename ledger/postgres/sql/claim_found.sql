-- Whether a claim whose answer was lost is in the ledger.
SELECT EXISTS (
    SELECT FROM attempts WHERE tenant_id = @tenant AND operation_id = @id::uuid AND number = @number AND claim_id = @claim_id::uuid)
