package main

import (
	"fmt"
	"net"
	"strconv"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

const loopback = "127.0.0.1"

// startServer creates Temporal's tables in an empty database and starts its
// four services in this process. It returns the frontend's address.
func startServer(postgres string, logger log.Logger) (server temporal.Server, address string, err error) {
	main, visibility, err := databases(postgres)
	if err != nil {
		return nil, "", err
	}
	if err := createTables(main, visibility, logger); err != nil {
		return nil, "", err
	}
	ports, err := freePorts(len(temporal.DefaultServices))
	if err != nil {
		return nil, "", err
	}
	services := map[string]config.Service{}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for i, name := range temporal.DefaultServices {
		services[name] = config.Service{RPC: config.RPC{GRPCPort: ports[i], BindOnLocalHost: true}}
		self := net.JoinHostPort(loopback, strconv.Itoa(ports[i]))
		hosts[primitives.ServiceName(name)] = static.Hosts{All: []string{self}, Self: self}
	}
	address = hosts[primitives.FrontendService].Self

	server, err = temporal.NewServer(
		temporal.WithConfig(&config.Config{
			Persistence: config.Persistence{
				DefaultStore:     "main",
				VisibilityStore:  "visibility",
				NumHistoryShards: 4, // as in the server's own configuration for Postgres
				DataStores: map[string]config.DataStore{
					"main":       {SQL: main},
					"visibility": {SQL: visibility},
				},
			},
			ClusterMetadata: &cluster.Config{
				FailoverVersionIncrement: 10,
				MasterClusterName:        "active",
				CurrentClusterName:       "active",
				ClusterInformation: map[string]cluster.ClusterInformation{
					"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: address},
				},
			},
			DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
			Services:            services,
			PublicClient:        config.PublicClient{HostPort: address},
			Archival: config.Archival{
				History:    config.HistoryArchival{State: "disabled"},
				Visibility: config.VisibilityArchival{State: "disabled"},
			},
			NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
				History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
				Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
			}},
		}),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithDynamicConfigClient(dynamicconfig.NewNoopClient()), // the defaults
		temporal.WithLogger(logger),
	)
	if err != nil {
		return nil, "", err
	}
	if err := server.Start(); err != nil {
		return nil, "", err
	}
	return server, address, nil
}

// freePorts finds ports of the loopback interface that are free now.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	held := make([]net.Listener, 0, n) // until the last is found, so that none comes twice
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	for i := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, err
		}
		held = append(held, l)
		addr, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("listening on %v", l.Addr())
		}
		ports[i] = addr.Port
	}
	return ports, nil
}
