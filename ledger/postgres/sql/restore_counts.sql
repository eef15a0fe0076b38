-- Operations whose first or latest doubt is the restore's; a scan of all.
SELECT
    count(*) FILTER (WHERE status = 'unknown' AND reason = 'restored'),
    count(*) FILTER (WHERE status = 'needs_review' AND reason = 'restored'),
    count(*) FILTER (WHERE created_at >= @since AND attempt = 0 AND reason = 'restored'),
    max(created_at) FILTER (WHERE created_at >= @since AND attempt = 0 AND reason = 'restored')
FROM operations WHERE reason = 'restored'
