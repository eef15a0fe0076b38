package httpaction

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter caps what a provider can make us wait.
const MaxRetryAfter = 24 * time.Hour

// maxDelaySeconds is where RFC 9111, section 1.2.2, lets a delta-seconds value
// overflow; a greater one is taken for garbage.
const maxDelaySeconds = 1 << 31

// ParseRetryAfter reads a Retry-After value (RFC 9110, section 10.2.3): whole
// seconds, or a date in one of the three forms of HTTP, which counts from date,
// the time of the response. A date that has passed is a wait of zero. Longer
// waits than MaxRetryAfter are cut to it. Anything else (signs, fractions,
// units, overflow) is refused with false.
func ParseRetryAfter(value string, date time.Time) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	if value == "" {
		return 0, false
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseUint(value, 10, 64)
		if err != nil || seconds > maxDelaySeconds {
			return 0, false
		}
		return min(time.Duration(seconds)*time.Second, MaxRetryAfter), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(date), 0), MaxRetryAfter), true
}

// retryAfter returns the wait that an answer asks for by Retry-After.
func retryAfter(x Exchange) (time.Duration, bool) {
	return ParseRetryAfter(x.Header.Get("Retry-After"), x.AnsweredAt())
}

// AnsweredAt is when the answer was made: by the provider's own clock where the
// answer shows it (Date), so that its dates and ours are never compared.
func (x *Exchange) AnsweredAt() time.Time {
	date, err := http.ParseTime(x.Header.Get("Date"))
	if err != nil {
		return x.ReceivedAt
	}
	return date
}
