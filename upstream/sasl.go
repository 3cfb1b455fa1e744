package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// Mechanism is a SASL mechanism that Oncegate can use towards brokers.
type Mechanism string

// The mechanisms. AWS_MSK_IAM is OAUTHBEARER on the wire, with a token that is
// signed by AWS credentials.
const (
	Plain       Mechanism = "PLAIN"
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
	OAuthBearer Mechanism = "OAUTHBEARER"
	AWSMSKIAM   Mechanism = "AWS_MSK_IAM"
	GSSAPI      Mechanism = "GSSAPI"
)

// Mechanisms lists all.
func Mechanisms() []Mechanism {
	return []Mechanism{Plain, ScramSHA256, ScramSHA512, OAuthBearer, AWSMSKIAM, GSSAPI}
}

// SASL says how Oncegate authenticates to brokers. What a mechanism does not
// use stays empty.
type SASL struct {
	Mechanism  Mechanism         // empty for none
	User       string            // PLAIN, SCRAM; the principal's name for GSSAPI
	Password   Secret            // PLAIN, SCRAM; GSSAPI without keytab and credential cache
	Token      TokenSource       // OAUTHBEARER
	Extensions map[string]string // OAUTHBEARER (KIP-342), such as logicalCluster
	AWSRegion  string            // AWS_MSK_IAM
	Kerberos   Kerberos          // GSSAPI
}

// Kerberos says where GSSAPI finds its tickets. One of KeytabFile, CCacheFile
// and SASL.Password is needed.
type Kerberos struct {
	Service    string // the first part of the brokers' principals, usually kafka
	Realm      string
	ConfigFile string // krb5.conf
	KeytabFile string
	CCacheFile string
}

// Secret returns a secret when a connection needs it, so that a rotated one is
// used by the next. Being a function, it can't be printed by accident.
type Secret func() (string, error)

// FixedSecret is a secret that never changes.
func FixedSecret(s string) Secret { return func() (string, error) { return s, nil } }

// SecretFile is the content of a file, without the line's end.
func SecretFile(path string) Secret {
	return func() (string, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		s := strings.TrimRight(string(b), "\r\n")
		if s == "" {
			return "", fmt.Errorf("%s is empty", path)
		}
		return s, nil
	}
}

func (s *SASL) check() (errs []error) {
	lack := func(what, variables string) {
		errs = append(errs, fmt.Errorf("SASL %s needs %s: set %s", s.Mechanism, what, variables))
	}
	switch s.Mechanism {
	case "":
	case Plain, ScramSHA256, ScramSHA512:
		if s.User == "" {
			lack("a user", "UPSTREAM_SASL_USER")
		}
		if s.Password == nil {
			lack("a password", "UPSTREAM_SASL_PASSWORD_FILE or UPSTREAM_SASL_PASSWORD")
		} else if _, err := s.Password(); err != nil {
			errs = append(errs, fmt.Errorf("the password for SASL %s can't be read: %w", s.Mechanism, err))
		}
	case OAuthBearer:
		if s.Token == nil {
			lack("a token", "UPSTREAM_SASL_TOKEN_FILE, UPSTREAM_SASL_TOKEN_COMMAND or UPSTREAM_SASL_TOKEN_URL")
		}
	case AWSMSKIAM:
		if s.AWSRegion == "" {
			lack("the cluster's region", "UPSTREAM_SASL_AWS_REGION")
		}
	case GSSAPI:
		if s.User == "" || s.Kerberos.Realm == "" {
			lack("a principal", "UPSTREAM_SASL_USER and UPSTREAM_SASL_KERBEROS_REALM")
		}
		if s.Kerberos.KeytabFile == "" && s.Kerberos.CCacheFile == "" && s.Password == nil {
			lack("a key", "UPSTREAM_SASL_KERBEROS_KEYTAB_FILE, UPSTREAM_SASL_KERBEROS_CCACHE_FILE or UPSTREAM_SASL_PASSWORD_FILE")
		}
		for _, f := range []string{s.Kerberos.ConfigFile, s.Kerberos.KeytabFile, s.Kerberos.CCacheFile} {
			if _, err := os.Stat(f); f != "" && err != nil {
				errs = append(errs, fmt.Errorf("a file for SASL GSSAPI can't be read: %w", err))
			}
		}
	default:
		errs = append(errs, fmt.Errorf("SASL mechanism %q is not known: accepted are %v", s.Mechanism, Mechanisms()))
	}
	return errs
}

// authenticator turns a SASL into settings of sarama, one connection at a time.
type authenticator struct {
	cfg    SASL
	tokens *tokenCache // of OAUTHBEARER and AWS_MSK_IAM
}

func newAuthenticator(cfg SASL) *authenticator {
	a := &authenticator{cfg: cfg}
	switch cfg.Mechanism {
	case OAuthBearer:
		a.tokens = &tokenCache{source: cfg.Token}
	case AWSMSKIAM:
		a.tokens = &tokenCache{source: TokenFromAWS(cfg.AWSRegion)}
	}
	return a
}

// configure sets the authentication of one connection, or of one sarama client,
// for which renew has tokens fetched whenever it connects. The secrets that it
// returns must not show in any error.
func (a *authenticator) configure(ctx context.Context, cfg *sarama.Config, renew bool) (secrets []string, err error) {
	if a.cfg.Mechanism == "" {
		return nil, nil
	}
	if errs := a.cfg.check(); errs != nil {
		return nil, errors.Join(errs...)
	}
	net := &cfg.Net.SASL
	net.Enable = true
	net.Version = sarama.SASLHandshakeV1
	net.Mechanism = sarama.SASLMechanism(a.cfg.Mechanism)
	net.User = a.cfg.User
	if a.cfg.Password != nil {
		if net.Password, err = a.cfg.Password(); err != nil {
			return nil, fmt.Errorf("the password can't be read: %w", err)
		}
		secrets = append(secrets, net.Password)
	}
	switch a.cfg.Mechanism {
	case ScramSHA256:
		net.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: scram.SHA256} }
	case ScramSHA512:
		net.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: scram.SHA512} }
	case OAuthBearer, AWSMSKIAM:
		net.Mechanism = sarama.SASLTypeOAuth
		provider := tokenProvider{a: a, timeout: cfg.Net.DialTimeout}
		if !renew {
			if provider.token, err = a.tokens.get(ctx); err != nil {
				return nil, err
			}
			secrets = append(secrets, provider.token)
		}
		net.TokenProvider = provider
	case GSSAPI:
		net.GSSAPI = a.cfg.Kerberos.sarama(a.cfg.User, net.Password)
	}
	return secrets, nil
}

func (k *Kerberos) sarama(user, password string) sarama.GSSAPIConfig {
	cfg := sarama.GSSAPIConfig{
		ServiceName: k.Service, Realm: k.Realm, KerberosConfigPath: k.ConfigFile, Username: user,
		AuthType: sarama.KRB5_USER_AUTH, Password: password,
		KeyTabPath: k.KeytabFile, CCachePath: k.CCacheFile,
		// The pre-authentication that Active Directory lacks.
		DisablePAFXFAST: true,
	}
	switch {
	case k.KeytabFile != "":
		cfg.AuthType = sarama.KRB5_KEYTAB_AUTH
	case k.CCacheFile != "":
		cfg.AuthType = sarama.KRB5_CCACHE_AUTH
	}
	return cfg
}

// tokenProvider is how sarama asks for a token.
type tokenProvider struct {
	a       *authenticator
	token   string // fetched already; empty to fetch when asked
	timeout time.Duration
}

func (p tokenProvider) Token() (*sarama.AccessToken, error) {
	token := p.token
	if token == "" {
		ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
		defer cancel()
		var err error
		if token, err = p.a.tokens.get(ctx); err != nil {
			return nil, err
		}
	}
	return &sarama.AccessToken{Token: token, Extensions: p.a.cfg.Extensions}, nil
}

// scramClient has sarama speak SCRAM (RFC 5802).
type scramClient struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (s *scramClient) Begin(user, password, authz string) error {
	client, err := s.hash.NewClient(user, password, authz)
	if err != nil {
		return err
	}
	s.ClientConversation = client.NewConversation()
	return nil
}
