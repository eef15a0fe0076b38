package board

import "fmt"

// The variables of the dashboard, as label matchers: by the labels that a metric
// has. A variable that says "All" matches everything, an absent label too.
const (
	byTenant   = `tenant=~"$tenant"`
	byAction   = `action_type=~"$action_type"`
	byProvider = `provider=~"$provider"`

	byTenantAction         = byTenant + ", " + byAction
	byTenantProvider       = byTenant + ", " + byProvider
	byTenantActionProvider = byTenantAction + ", " + byProvider
)

// Zeros for queries whose series are not there before the first event. They are 0
// only while something is scraped, or the ledger answers: a dashboard that shows
// no doubts because it sees nothing is worse than none.
const (
	zeroIfScraped = ` or 0 * max(up{job="onceward"} == 1)`
	zeroIfLedger  = ` or 0 * max(onceward_ledger_up == 1)`
)

// rate is how often a counter counts in a second, added up by labels.
func rate(by, counter, matchers string) string {
	return fmt.Sprintf(`sum by (%s) (rate(%s{%s}[$__rate_interval]))`, by, counter, matchers)
}

// total is rate without labels that keep series apart.
func total(counter, matchers string) string {
	return fmt.Sprintf(`sum(rate(%s{%s}[$__rate_interval]))`, counter, matchers)
}

// quantile is a quantile of a classic histogram, by a label or (empty) of all.
func quantile(q float64, by, histogram, matchers string) string {
	if by != "" {
		by = ", " + by
	}
	return fmt.Sprintf(`histogram_quantile(%g, sum by (le%s) (rate(%s_bucket{%s}[$__rate_interval])))`, q, by, histogram, matchers)
}

// mean is the average observation of a histogram by a label.
func mean(by, histogram string) string {
	return fmt.Sprintf(`sum by (%[1]s) (rate(%[2]s_sum[$__rate_interval])) / sum by (%[1]s) (rate(%[2]s_count[$__rate_interval]))`, by, histogram)
}

// seen is how many events the replicas of the range counted: what a process
// counted before it ended is kept, and the first event of a series counts.
func seen(counter, matchers string) string {
	return fmt.Sprintf(`sum(max_over_time(%s{%s}[$__range]))`, counter, matchers)
}
