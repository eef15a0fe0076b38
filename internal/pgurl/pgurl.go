package pgurl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const advice = "want postgres://USER:PASSWORD@HOST:PORT/DATABASE, with characters of the password other than letters, digits, - and _ as %40 and so on"

// ErrHost: what stands where the host should be has an "@".
var ErrHost = errors.New("the host has an @: it may be the password's; " + advice)

// Error is a text that cannot be read. It does not repeat it.
type Error struct {
	Reason string // the driver's
}

func (e *Error) Error() string { return fmt.Sprintf("it cannot be read: %s; %s", e.Reason, advice) }

// Parse reads the settings of a connection. It fails with an [*Error] or ErrHost.
func Parse(text string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, discreet(err)
	}
	if err := checkHosts(&config.Config); err != nil {
		return nil, err
	}
	return config, nil
}

// ParsePool reads the settings of a pool. It fails as Parse does.
func ParsePool(text string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, discreet(err)
	}
	if err := checkHosts(&config.ConnConfig.Config); err != nil {
		return nil, err
	}
	return config, nil
}

// discreet keeps what the driver says after the text, which it puts into grave
// accents. Where it says it otherwise, nothing is kept.
func discreet(err error) error {
	var refused *pgconn.ParseConfigError
	if !errors.As(err, &refused) {
		return &Error{Reason: "the driver refuses it"}
	}
	text := refused.Error()
	end := strings.LastIndex(text, "`: ")
	if end < 0 {
		return &Error{Reason: "the driver refuses it"}
	}
	return &Error{Reason: text[end+len("`: "):]}
}

func checkHosts(c *pgconn.Config) error {
	hosts := []string{c.Host}
	for _, f := range c.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	for _, host := range hosts {
		if strings.Contains(host, "@") && !strings.HasPrefix(host, "/") && !strings.HasPrefix(host, "@") { // sockets may
			return ErrHost
		}
	}
	return nil
}
