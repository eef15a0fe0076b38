package floor

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/onceward/onceward/bench/naive"
)

// Expressions for what is new in each action: the caller's key, a time-ordered
// id (version 7), a claim and a lease.
const (
	newKey    = `('order-' || gen_random_uuid())`
	newID     = `(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7' || right(replace(gen_random_uuid()::text, '-', ''), 19))::uuid`
	newRandom = `gen_random_uuid()`
)

var parameter = regexp.MustCompile(`\$(\d+)(::[a-z]+)?`)

// script is one action in pgbench's language: claim, then receipt.
func script(argsHash string) (string, error) {
	claim, settle := naive.SingleStatements()
	claim, err := fill(claim, []string{
		"'bench'", "n.id", "n.key", "'caller'", "'bench.noop'", "'1'", "'1'",
		`'\x` + argsHash + `'`, `'\x` + argsHash + `'`, `'\x` + strings.Repeat("5e", 160) + `'`,
		newRandom, "'0123456789abcdefghijklmnop'",
		"'bench'", `'{"run_id":"run_8f2c91","step_id":"refund","tool_call_id":"call_5"}'`, "'run_8f2c91'", "''",
		"82800000000", "45000000", "2592000000000", "'reject'",
		"'noop'", `'{"action_type":"bench.noop","key_hash":"` + argsHash + `","run":{"run_id":"run_8f2c91","step_id":"refund","tool_call_id":"call_5"}}'`, "''", "''", "''", newRandom,
	})
	if err != nil {
		return "", err
	}
	// The new key and id are used in several places of the statement.
	claim = strings.Replace(claim, "FROM (SELECT clock_timestamp() AS now) t",
		"FROM (SELECT clock_timestamp() AS now) t, (SELECT "+newKey+" AS key, "+newID+" AS id OFFSET 0) n", 1)
	claim = strings.Replace(claim, "SELECT created_at, lease_expires_at, key_horizon FROM opened", "SELECT id, idempotency_key AS key FROM opened", 1)
	settle, err = fill(settle, []string{
		"'bench'", ":key", ":id", "1", "0", "'re_0123456789abcdefghijklmnop'",
		`'{"id":"re_0123456789abcdefghijklmnop","object":"refund","status":"succeeded","amount":4900,"currency":"usd","order":"0196f1de-0000-7000-8000-000000000000"}'`,
		"'worker'", "''", "'applied'",
	})
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(claim) + " \\gset\n" + strings.TrimSpace(settle) + ";\n", nil
}

// fill puts expressions in place of numbered parameters, each under its cast.
func fill(sql string, values []string) (string, error) {
	var missing error
	sql = parameter.ReplaceAllStringFunc(sql, func(found string) string {
		parts := parameter.FindStringSubmatch(found)
		n, err := strconv.Atoi(parts[1])
		if err != nil || n > len(values) {
			missing = fmt.Errorf("no value for parameter %s", found)
			return found
		}
		return values[n-1] + parts[2]
	})
	return sql, missing
}
