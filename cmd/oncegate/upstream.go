package main

import (
	"crypto/tls"

	"go.uber.org/zap"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/upstream"
)

// upstreamConfig says how brokers are reached.
func upstreamConfig(cfg *config.Config, log *zap.Logger) upstream.Config {
	up := upstream.Config{
		Brokers:         cfg.UpstreamBrokers,
		ClientID:        "oncegate",
		DialTimeout:     cfg.UpstreamDialTimeout,
		RefreshInterval: cfg.UpstreamRefresh,
		Log:             log,
		SASL: upstream.SASL{
			Mechanism:  upstream.Mechanism(cfg.UpstreamSASLMechanism),
			User:       cfg.UpstreamSASLUser,
			Password:   secret(cfg.UpstreamSASLPassword, cfg.UpstreamSASLPasswordFile),
			Token:      token(cfg),
			Extensions: cfg.UpstreamSASLExtensions,
			AWSRegion:  cfg.UpstreamSASLAWSRegion,
			Kerberos: upstream.Kerberos{
				Service:    cfg.UpstreamSASLKerberosService,
				Realm:      cfg.UpstreamSASLKerberosRealm,
				ConfigFile: string(cfg.UpstreamSASLKerberosConfigFile),
				KeytabFile: string(cfg.UpstreamSASLKerberosKeytabFile),
				CCacheFile: string(cfg.UpstreamSASLKerberosCCacheFile),
			},
		},
	}
	if cfg.UpstreamTLS {
		up.TLS = &upstream.TLS{
			CAFile:     string(cfg.UpstreamTLSCAFile),
			CertFile:   string(cfg.UpstreamTLSCertFile),
			KeyFile:    string(cfg.UpstreamTLSKeyFile),
			ServerName: cfg.UpstreamTLSServerName,
		}
		if cfg.UpstreamTLSMinVersion == "1.3" {
			up.TLS.MinVersion = tls.VersionTLS13
		}
	}
	return up
}

// secret is nil where neither is set.
func secret(value config.Secret, file config.File) upstream.Secret {
	switch {
	case file != "":
		return upstream.SecretFile(string(file))
	case value != "":
		return upstream.FixedSecret(string(value))
	}
	return nil
}

// token is nil where no source is set.
func token(cfg *config.Config) upstream.TokenSource {
	switch {
	case cfg.UpstreamSASLTokenFile != "":
		return upstream.TokenFromFile(string(cfg.UpstreamSASLTokenFile))
	case cfg.UpstreamSASLTokenCommand != "":
		return upstream.TokenFromCommand(string(cfg.UpstreamSASLTokenCommand))
	case cfg.UpstreamSASLTokenURL != "":
		return upstream.TokenFromEndpoint(string(cfg.UpstreamSASLTokenURL), cfg.UpstreamSASLClientID,
			secret(cfg.UpstreamSASLClientSecret, cfg.UpstreamSASLClientSecretFile), cfg.UpstreamSASLScopes)
	}
	return nil
}
