package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"

	"go.uber.org/zap"
)

// TLS says how connections to brokers are secured. The files hold PEM.
type TLS struct {
	CAFile     string // whose certificates are trusted; empty for the system's
	CertFile   string // the client certificate and its chain; empty for none
	KeyFile    string // its key
	ServerName string // what the broker's certificate must hold; empty for the host that is dialled
	MinVersion uint16 // tls.VersionTLS12 (also for 0) or tls.VersionTLS13
}

func (t *TLS) check() error {
	_, err := newCertificates(*t, zap.NewNop()).client("")
	return err
}

// certificates are a TLS's files as they were read last. Each new connection
// looks whether they have changed: that needs no goroutine, misses nothing, and
// works for Kubernetes' volumes, which swap a symbolic link that a watch of the
// file itself would lose. Three stat calls are nothing beside a handshake.
// Connections that exist go on with what they have.
type certificates struct {
	cfg TLS
	log *zap.Logger

	mu     sync.Mutex
	roots  cached[*x509.CertPool]
	pair   cached[tls.Certificate]
	warned string
}

func newCertificates(cfg TLS, log *zap.Logger) *certificates {
	return &certificates{cfg: cfg, log: log}
}

// client returns the configuration for one connection to host.
func (c *certificates) client(host string) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg := &tls.Config{ServerName: host, MinVersion: max(c.cfg.MinVersion, tls.VersionTLS12)}
	if c.cfg.ServerName != "" {
		cfg.ServerName = c.cfg.ServerName
	}
	var stale []error
	if c.cfg.CAFile != "" {
		stale = append(stale, c.roots.refresh(func() (*x509.CertPool, error) { return readRoots(c.cfg.CAFile) }, c.cfg.CAFile))
		cfg.RootCAs = c.roots.value
	}
	if c.cfg.CertFile != "" || c.cfg.KeyFile != "" {
		stale = append(stale, c.pair.refresh(func() (tls.Certificate, error) { return readPair(c.cfg.CertFile, c.cfg.KeyFile) }, c.cfg.CertFile, c.cfg.KeyFile))
		cfg.Certificates = []tls.Certificate{c.pair.value}
	}
	err := errors.Join(stale...)
	if err == nil {
		c.warned = ""
		return cfg, nil
	}
	if c.cfg.CAFile != "" && !c.roots.loaded() || c.cfg.CertFile != "" && !c.pair.loaded() {
		return nil, err
	}
	// A certificate and its key can't be replaced in one step: what was read
	// before is used until both fit.
	if c.warned != err.Error() {
		c.warned = err.Error()
		c.log.Warn("the TLS files have changed and can't be used; the ones read before stay in use", zap.Error(err))
	}
	return cfg, nil
}

func readRoots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("UPSTREAM_TLS_CA_FILE: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("UPSTREAM_TLS_CA_FILE: %s holds no certificate in PEM form", file)
	}
	return pool, nil
}

func readPair(cert, key string) (tls.Certificate, error) {
	if cert == "" || key == "" {
		return tls.Certificate{}, errors.New("UPSTREAM_TLS_CERT_FILE and UPSTREAM_TLS_KEY_FILE: one is set without the other")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("UPSTREAM_TLS_CERT_FILE, UPSTREAM_TLS_KEY_FILE: %w", err)
	}
	return pair, nil
}

// cached is what was read from files, and what they looked like then.
type cached[T any] struct {
	value T
	seen  []os.FileInfo
}

func (c *cached[T]) loaded() bool { return c.seen != nil }

// refresh reads the files again when they look different. When that fails the
// value stays, and the next refresh tries again.
func (c *cached[T]) refresh(read func() (T, error), files ...string) error {
	// Looked at before they are read: a change in between is seen next time.
	infos := make([]os.FileInfo, len(files))
	for i, f := range files {
		infos[i], _ = os.Stat(f)
	}
	if c.loaded() && sameFiles(c.seen, infos) {
		return nil
	}
	value, err := read()
	if err != nil {
		return err
	}
	c.value, c.seen = value, infos
	return nil
}

func sameFiles(a, b []os.FileInfo) bool {
	for i := range a {
		if a[i] == nil || b[i] == nil || !os.SameFile(a[i], b[i]) || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size() {
			return false
		}
	}
	return true
}
