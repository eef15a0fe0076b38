package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strings"
	"time"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	pgplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/tools/common/schema"
	sqltool "go.temporal.io/server/tools/sql"
)

const (
	// visibilitySchema is the Postgres schema of the visibility store. Temporal's
	// two stores have tables of the same name, and are put into two databases as
	// a rule; with a schema of its own, nothing is made outside the database that
	// was given.
	visibilitySchema = "visibility"
	// The names of the two stores' tables in the server's module.
	mainTables       = "postgresql/v12/temporal"
	visibilityTables = "postgresql/v12/visibility"
)

// databases describes Temporal's two stores in the database of a URL.
func databases(postgres string) (main, visibility *config.SQL, err error) {
	u, err := url.Parse(postgres)
	if err != nil {
		return nil, nil, errors.New("the Postgres URL cannot be read") // url.Parse's error quotes the password
	}
	name := strings.TrimPrefix(u.Path, "/")
	if u.Hostname() == "" || name == "" {
		return nil, nil, errors.New("the server connects over TCP only: a Postgres URL with a host and a database is needed")
	}
	password, _ := u.User.Password()
	attributes := map[string]string{}
	for key, values := range u.Query() {
		attributes[key] = values[0]
	}
	main = &config.SQL{
		PluginName:        pgplugin.PluginNamePGX,
		ConnectAddr:       net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "5432")),
		ConnectProtocol:   "tcp",
		User:              u.User.Username(),
		Password:          password,
		DatabaseName:      name,
		ConnectAttributes: attributes,
		MaxConns:          20, // this and the next two are those of the server's own configuration for Postgres
		MaxIdleConns:      20,
		MaxConnLifetime:   time.Hour,
	}
	second := *main
	second.ConnectAttributes = maps.Clone(attributes)
	second.ConnectAttributes["search_path"] = visibilitySchema
	return main, &second, nil
}

// createTables does what temporal-sql-tool's setup-schema and update-schema do.
// The commands end the process on an error, hence the tasks behind them.
func createTables(main, visibility *config.SQL, logger log.Logger) error {
	conn, err := sqltool.NewConnection(main, logger)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := setUp(conn, mainTables, logger); err != nil {
		return err
	}
	if err := conn.Exec("CREATE SCHEMA " + visibilitySchema); err != nil {
		return err
	}
	second, err := sqltool.NewConnection(visibility, logger)
	if err != nil {
		return err
	}
	defer second.Close()
	return setUp(second, visibilityTables, logger)
}

func setUp(conn *sqltool.Connection, tables string, logger log.Logger) error {
	err := schema.NewSetupSchemaTask(conn, &schema.SetupConfig{InitialVersion: "0.0"}, logger).Run()
	if err == nil {
		err = schema.NewUpdateSchemaTask(conn, &schema.UpdateConfig{SchemaName: tables}, logger).Run()
	}
	if err != nil {
		return fmt.Errorf("setting up %s: %w", tables, err)
	}
	return nil
}
