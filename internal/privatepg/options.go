package privatepg

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// Options says which server to run.
type Options struct {
	// Dir is the folder that holds the cluster, its password and its log (see
	// the package comment). It is created if missing and never wiped. The
	// folder belongs to this package: when the process is root its mode becomes
	// 0711, because Postgres runs as another account and must reach its data.
	// Parents are never changed. [DefaultDir] gives the usual place.
	Dir string

	// Password is the superuser's password. When empty, one is made at the
	// first start and kept in Dir, so it is the same at the next start. When
	// given, it must be the same at every start of the same folder.
	Password string

	// Port on 127.0.0.1. Zero takes a free one, another at each start.
	Port int

	// Settings are server settings, as for "postgres -c name=value". They win
	// over the defaults (max_connections 200, time zone UTC). With fsync=off the
	// cluster is also made without syncing: for tests only. Where the server
	// listens and keeps its data cannot be set here.
	Settings map[string]string

	// Log is told of slow steps: making a cluster, downloading Postgres,
	// waiting for an earlier server to end. Nil discards that.
	Log *slog.Logger
}

const (
	superuser       = "onceward"
	maintenanceDB   = "postgres"
	defaultMaxConns = "200"
)

// reserved are the settings that this package decides; the reason is part of
// the error.
func reserved(setting string) (reason string, is bool) {
	switch setting {
	case "port":
		return "use Options.Port", true
	case "listen_addresses", "unix_socket_directories":
		return "a private server listens on 127.0.0.1 only", true
	case "data_directory", "config_file", "hba_file", "external_pid_file":
		return "the folder's layout is fixed", true
	case "log_destination", "logging_collector", "lc_messages":
		return "start-up errors are read from the log", true
	}
	return "", false
}

// normalize checks o and fills in what was left out.
func (o Options) normalize() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("privatepg: Options.Dir is empty")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("privatepg: folder %s: %w", o.Dir, err)
	}
	o.Dir = dir
	if o.Port < 0 || o.Port > 65535 {
		return o, fmt.Errorf("privatepg: Options.Port %d is not a port", o.Port)
	}
	name := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.]*$`)
	for setting := range o.Settings {
		if !name.MatchString(setting) {
			return o, fmt.Errorf("privatepg: %q is not the name of a setting", setting)
		}
		if reason, is := reserved(setting); is {
			return o, fmt.Errorf("privatepg: setting %s cannot be given: %s", setting, reason)
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// serverArgs are the arguments of postgres, in a fixed order.
func (o Options) serverArgs(data string, port int) []string {
	settings := map[string]string{
		"max_connections": defaultMaxConns,
		"timezone":        "UTC",
		"log_timezone":    "UTC",
	}
	maps.Copy(settings, o.Settings)
	maps.Copy(settings, map[string]string{
		"listen_addresses":        loopback,
		"unix_socket_directories": "",
		"log_destination":         "stderr",
		"logging_collector":       "off",
		"lc_messages":             "C",
	})
	args := []string{"-D", data, "-p", strconv.Itoa(port)}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}
