// Package config reads Oncegate's settings from the environment.
package config

import "time"

// Config holds every setting. The doc tags are the documentation: the table in
// docs/configuration.md is made from them.
type Config struct {
	UpstreamBrokers     Addresses     `env:"UPSTREAM_BROKERS" doc:"bootstrap addresses of the Kafka cluster; required"`
	UpstreamDialTimeout time.Duration `env:"UPSTREAM_DIAL_TIMEOUT" envDefault:"10s" doc:"how long one connection attempt may take, TLS and SASL included"`
	UpstreamGiveUp      time.Duration `env:"UPSTREAM_GIVE_UP" envDefault:"25s" doc:"how long an unanswered batch is sent again over new connections before the client gets a retriable error; keep it below the clients' request timeout"`
	UpstreamRefresh     time.Duration `env:"UPSTREAM_REFRESH" envDefault:"30s" doc:"how often brokers, leaders and topic ids are asked for"`

	UpstreamTLS           Switch `env:"UPSTREAM_TLS" envDefault:"off" doc:"connections to brokers are encrypted"`
	UpstreamTLSCAFile     File   `env:"UPSTREAM_TLS_CA_FILE" unset:"the system's" doc:"certificates (PEM) that brokers are trusted by"`
	UpstreamTLSCertFile   File   `env:"UPSTREAM_TLS_CERT_FILE" doc:"client certificate and its chain (PEM)"`
	UpstreamTLSKeyFile    File   `env:"UPSTREAM_TLS_KEY_FILE" doc:"its key (PEM)"`
	UpstreamTLSServerName string `env:"UPSTREAM_TLS_SERVER_NAME" is:"host" unset:"the host that is dialled" doc:"the name that the brokers' certificates must hold"`
	UpstreamTLSMinVersion Choice `env:"UPSTREAM_TLS_MIN_VERSION" envDefault:"1.2" accept:"1.2,1.3" doc:"the oldest TLS version that is spoken"`

	UpstreamSASLMechanism          Choice `env:"UPSTREAM_SASL_MECHANISM" unset:"the clients' own SASL passes through" accept:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,AWS_MSK_IAM,GSSAPI" doc:"how Oncegate authenticates to brokers; clients then need no SASL"`
	UpstreamSASLUser               string `env:"UPSTREAM_SASL_USER" doc:"PLAIN, SCRAM: the user; GSSAPI: the principal's name, without the realm"`
	UpstreamSASLPassword           Secret `env:"UPSTREAM_SASL_PASSWORD" doc:"its password"`
	UpstreamSASLPasswordFile       File   `env:"UPSTREAM_SASL_PASSWORD_FILE" doc:"a file that holds the password; read for each connection"`
	UpstreamSASLTokenFile          Secret `env:"UPSTREAM_SASL_TOKEN_FILE" doc:"OAUTHBEARER: a file that holds the token; read for each connection"`
	UpstreamSASLTokenCommand       Secret `env:"UPSTREAM_SASL_TOKEN_COMMAND" doc:"OAUTHBEARER: a program and its arguments, separated by spaces, that prints the token; no shell reads it"`
	UpstreamSASLTokenURL           Secret `env:"UPSTREAM_SASL_TOKEN_URL" doc:"OAUTHBEARER: an endpoint that gives tokens for client credentials; https, or http on this machine"`
	UpstreamSASLClientID           string `env:"UPSTREAM_SASL_CLIENT_ID" doc:"UPSTREAM_SASL_TOKEN_URL: the client"`
	UpstreamSASLClientSecret       Secret `env:"UPSTREAM_SASL_CLIENT_SECRET" doc:"UPSTREAM_SASL_TOKEN_URL: its secret"`
	UpstreamSASLClientSecretFile   File   `env:"UPSTREAM_SASL_CLIENT_SECRET_FILE" doc:"a file that holds the secret; read for each token"`
	UpstreamSASLScopes             Words  `env:"UPSTREAM_SASL_SCOPES" doc:"UPSTREAM_SASL_TOKEN_URL: the scopes to ask for"`
	UpstreamSASLExtensions         Pairs  `env:"UPSTREAM_SASL_EXTENSIONS" doc:"OAUTHBEARER: SASL extensions (KIP-342), such as logicalCluster=lkc-1"`
	UpstreamSASLAWSRegion          string `env:"UPSTREAM_SASL_AWS_REGION" unset:"AWS_REGION" doc:"AWS_MSK_IAM: the cluster's region; credentials are found as by AWS' own tools"`
	UpstreamSASLKerberosService    string `env:"UPSTREAM_SASL_KERBEROS_SERVICE" envDefault:"kafka" doc:"GSSAPI: the first part of the brokers' principals"`
	UpstreamSASLKerberosRealm      string `env:"UPSTREAM_SASL_KERBEROS_REALM" doc:"GSSAPI: the realm of UPSTREAM_SASL_USER"`
	UpstreamSASLKerberosConfigFile File   `env:"UPSTREAM_SASL_KERBEROS_CONFIG_FILE" unset:"/etc/krb5.conf" doc:"GSSAPI: Kerberos' settings"`
	UpstreamSASLKerberosKeytabFile File   `env:"UPSTREAM_SASL_KERBEROS_KEYTAB_FILE" doc:"GSSAPI: the key of UPSTREAM_SASL_USER"`
	UpstreamSASLKerberosCCacheFile File   `env:"UPSTREAM_SASL_KERBEROS_CCACHE_FILE" doc:"GSSAPI: a credential cache in its stead"`

	ListenAddress     Address `env:"LISTEN_ADDRESS" envDefault:"127.0.0.1:9092" doc:"the bootstrap listener: what clients name as bootstrap server"`
	BrokerListenBase  Port    `env:"BROKER_LISTEN_BASE" unset:"LISTEN_ADDRESS's port + 1" doc:"a broker's own listener is at this port + its node id"`
	BrokerListenCount int     `env:"BROKER_LISTEN_COUNT" envDefault:"98" min:"1" max:"65535" doc:"how many ports from BROKER_LISTEN_BASE on may be used; node ids beyond it get free ports from the end"`
	AdvertisedHost    string  `env:"ADVERTISED_HOST" is:"host" unset:"LISTEN_ADDRESS's host" doc:"the host that clients are told to connect to"`
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
