-- A review lapses by its own time, not by that of one before it. (OFFSET 0: one
      -- by one, not all open reviews in a hash table.)
      AND (n.event <> 'expire' OR n.from_status <> 'needs_review' OR EXISTS (
        SELECT FROM reviews r
        WHERE r.tenant_id = n.tenant_id AND r.operation_id = n.id AND r.decision IS NULL AND r.expires_at <= t.now OFFSET 0))
      AND (n.decided_review IS NULL OR EXISTS (
        SELECT FROM reviews r
        WHERE r.tenant_id = n.tenant_id AND r.id = n.decided_review AND r.operation_id = n.id AND r.decision IS NULL OFFSET 0))
      -- Where several must approve, they have. Who binds the review to another policy
      -- and drops their votes counts the revision up.
      AND (n.event <> 'approve' OR o.revision = n.knew_revision AND EXISTS (
        SELECT FROM reviews r
        WHERE r.tenant_id = n.tenant_id AND r.operation_id = n.id AND r.decision IS NULL
          AND (r.required_approvals = 1 OR r.approved_at IS NOT NULL) OFFSET 0))
