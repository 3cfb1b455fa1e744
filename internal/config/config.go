// Package config reads Oncegate's settings from the environment.
package config

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v10"
)

// Config holds every setting. The doc tags are the documentation: the table in
// docs/configuration.md is made from them.
type Config struct {
	UpstreamBrokers     Addresses     `env:"UPSTREAM_BROKERS" doc:"bootstrap addresses of the Kafka cluster; required"`
	UpstreamDialTimeout time.Duration `env:"UPSTREAM_DIAL_TIMEOUT" envDefault:"10s" doc:"how long one connection attempt may take, TLS and SASL included"`
	UpstreamGiveUp      time.Duration `env:"UPSTREAM_GIVE_UP" envDefault:"25s" doc:"how long an unanswered batch is sent again over new connections before the client gets a retriable error; keep it below the clients' request timeout"`
	UpstreamRefresh     time.Duration `env:"UPSTREAM_REFRESH" envDefault:"30s" doc:"how often brokers, leaders and topic ids are asked for"`

	ListenAddress     Address `env:"LISTEN_ADDRESS" envDefault:"127.0.0.1:9092" doc:"the bootstrap listener: what clients name as bootstrap server"`
	BrokerListenBase  Port    `env:"BROKER_LISTEN_BASE" envDefault:"9093" doc:"a broker's own listener is at this port + its node id"`
	BrokerListenCount int     `env:"BROKER_LISTEN_COUNT" envDefault:"100" min:"1" max:"65535" doc:"how many ports from BROKER_LISTEN_BASE on may be used; node ids beyond it get free ports from the end"`
	AdvertisedHost    string  `env:"ADVERTISED_HOST" doc:"the host that clients are told to connect to; default: the host of LISTEN_ADDRESS"`
	AdminAddress      Address `env:"ADMIN_ADDRESS" envDefault:"127.0.0.1:9191" doc:"health, readiness and metrics over HTTP"`

	MaxConnections    int           `env:"MAX_CONNECTIONS" envDefault:"10000" min:"1" max:"1000000" doc:"client connections at a time"`
	MaxFrameBytes     Bytes         `env:"MAX_FRAME_BYTES" envDefault:"100MiB" min:"1024" max:"2147483647" doc:"the largest request that is taken, as socket.request.max.bytes of a broker"`
	MemoryBudgetBytes Bytes         `env:"MEMORY_BUDGET_BYTES" envDefault:"256MiB" min:"1024" max:"1099511627776" doc:"memory for requests in flight; when it is used up clients are not read until answers come; at least MAX_FRAME_BYTES"`
	FrameTimeout      time.Duration `env:"FRAME_TIMEOUT" envDefault:"30s" doc:"how long a request may stay half-sent"`

	DedupCacheBytes Bytes         `env:"DEDUP_CACHE_BYTES" envDefault:"64MiB" min:"65536" max:"1099511627776" doc:"memory for producers that are idle; what does not fit is asked of the broker again"`
	DedupIdle       time.Duration `env:"DEDUP_IDLE" envDefault:"5m" doc:"how long a producer keeps its whole window without sending"`
	DedupOnReuse    Choice        `env:"DEDUP_ON_REUSE" envDefault:"broker" accept:"broker,reject" doc:"a stored sequence range that comes again with another CRC: answered as a broker does (a duplicate), or refused with INVALID_RECORD"`
	DedupStale      Choice        `env:"DEDUP_STALE" envDefault:"ack" accept:"ack,reject" doc:"a range older than the window that was seen stored: acknowledged with offset −1, or refused with OUT_OF_ORDER_SEQUENCE_NUMBER as a broker does"`
	RaiseAcks       Switch        `env:"RAISE_ACKS" envDefault:"on" doc:"idempotent batches with acks=0 or 1 are sent with acks=all"`

	Stamp      Switch        `env:"STAMP" envDefault:"on" doc:"batches that come without a producer id are stamped with one of the upstream's, so that they can be sent twice without being stored twice; acks are raised to all"`
	InDoubtTTL time.Duration `env:"IN_DOUBT_TTL" envDefault:"10m" doc:"how long Oncegate works on a stamped batch with an unknown outcome, and how long it knows a client's retry of it"`

	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" envDefault:"20s" doc:"how long a shutdown waits for unanswered requests"`
	LogLevel     Choice        `env:"LOG_LEVEL" envDefault:"info" accept:"debug,info,warn,error" doc:"the least severe messages that are logged"`
	LogFormat    Choice        `env:"LOG_FORMAT" envDefault:"json" accept:"json,console" doc:"how messages are written"`
}

// Faults are all faults of a configuration, each a line that names the
// variable, its value and what is accepted.
type Faults []string

func (f Faults) Error() string {
	return fmt.Sprintf("%d of Oncegate's environment variables can't be used:\n  %s", len(f), strings.Join(f, "\n  "))
}

// Load reads the settings from environ, as os.Environ gives it. The error, if
// any, is Faults. Warnings name variables that look like misspelt settings.
func Load(environ []string) (c Config, warnings []string, err error) {
	values := make(map[string]string, len(environ))
	for _, kv := range environ {
		k, v, _ := strings.Cut(kv, "=")
		values[k] = v
	}
	// An empty variable is an unset one: charts and shells make no difference.
	for k, v := range values {
		if v == "" {
			delete(values, k)
		}
	}
	var faults Faults
	for i := range settings {
		faults = append(faults, settings[i].parse(&c, values)...)
	}
	faults = append(faults, c.together(values)...)
	if len(faults) > 0 {
		return Config{}, misspelt(values), faults
	}
	return c, misspelt(values), nil
}

// parse reads one setting by env/v10. One at a time, so that each fault can be
// told with its variable and value.
func (s *setting) parse(c *Config, values map[string]string) Faults {
	one := reflect.New(reflect.StructOf([]reflect.StructField{s.field}))
	// Its own text holds Go's type names: ours says what is accepted.
	if err := env.ParseWithOptions(one.Interface(), env.Options{Environment: values}); err != nil {
		return Faults{s.fault(values[s.name])}
	}
	v := one.Elem().Field(0)
	if !s.allowed(v) {
		return Faults{s.fault(values[s.name])}
	}
	reflect.ValueOf(c).Elem().FieldByName(s.field.Name).Set(v)
	return nil
}

// together checks what no setting can check alone.
func (c *Config) together(values map[string]string) (faults Faults) {
	if len(c.UpstreamBrokers) == 0 && values["UPSTREAM_BROKERS"] == "" {
		faults = append(faults, "UPSTREAM_BROKERS is not set: accepted are the Kafka cluster's bootstrap addresses, host:port, separated by commas")
	}
	if c.MemoryBudgetBytes > 0 && c.MemoryBudgetBytes < c.MaxFrameBytes {
		faults = append(faults, fmt.Sprintf("MEMORY_BUDGET_BYTES=%d is less than MAX_FRAME_BYTES=%d: a request of that size could never be taken", c.MemoryBudgetBytes, c.MaxFrameBytes))
	}
	if base, count := int(c.BrokerListenBase), c.BrokerListenCount; base > 0 && base+count > 65536 {
		faults = append(faults, fmt.Sprintf("BROKER_LISTEN_BASE=%d and BROKER_LISTEN_COUNT=%d reach past port 65535", base, count))
	}
	if _, port, err := net.SplitHostPort(string(c.ListenAddress)); err == nil && c.BrokerListenBase > 0 {
		if n, _ := strconv.Atoi(port); n >= int(c.BrokerListenBase) && n < int(c.BrokerListenBase)+c.BrokerListenCount {
			faults = append(faults, fmt.Sprintf("LISTEN_ADDRESS=%s lies within the brokers' ports %d–%d (BROKER_LISTEN_BASE, BROKER_LISTEN_COUNT)", c.ListenAddress, c.BrokerListenBase, int(c.BrokerListenBase)+c.BrokerListenCount-1))
		}
	}
	host, _, err := net.SplitHostPort(string(c.ListenAddress))
	if ip := net.ParseIP(host); err == nil && c.AdvertisedHost == "" && (host == "" || ip != nil && ip.IsUnspecified()) {
		faults = append(faults, fmt.Sprintf("LISTEN_ADDRESS=%s listens on every interface, so clients can't be told where to connect: set ADVERTISED_HOST to the name that they know", c.ListenAddress))
	}
	return faults
}

// misspelt names variables that no setting has but that look like one.
func misspelt(values map[string]string) (warnings []string) {
	for name := range values {
		if isSetting(name) || kubernetesService(name) {
			continue
		}
		for _, prefix := range prefixes() {
			if strings.HasPrefix(name, prefix) {
				warnings = append(warnings, fmt.Sprintf("%s is not a setting of Oncegate; is %s meant?", name, nearest(name)))
				break
			}
		}
	}
	slices.Sort(warnings)
	return warnings
}

// kubernetesService says whether Kubernetes injects a variable of this form for
// every Service of a namespace.
func kubernetesService(name string) bool {
	return strings.HasSuffix(name, "_PORT") || strings.HasSuffix(name, "_SERVICE_HOST") ||
		strings.Contains(name, "_SERVICE_PORT") || strings.Contains(name, "_PORT_")
}
