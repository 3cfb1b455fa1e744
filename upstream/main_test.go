package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startKafka(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	k, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// configFor returns a configuration for brokers, and what is logged with it.
func configFor(brokers ...string) (Config, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.DebugLevel)
	return Config{Brokers: brokers, ClientID: "oncegate", DialTimeout: 3 * time.Second, RefreshInterval: time.Minute, Log: zap.New(core)}, logs
}

// dial dials addr and closes the connection with the test.
func dial(t *testing.T, d *Dialer, addr string) (net.Conn, error) {
	t.Helper()
	conn, err := d.Dial(t.Context(), addr)
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// brokersOver asks for the metadata with raw bytes on conn, as the data path
// does, and returns how many brokers are told. It sets no deadline, so that one
// which Dial left would show.
func brokersOver(t *testing.T, conn net.Conn) int {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	resp, err := roundTrip(t.Context(), conn, "raw", req)
	if err != nil {
		t.Fatalf("no answer to a raw Metadata request: %v", err)
	}
	return len(resp.(*kmsg.MetadataResponse).Brokers)
}

// unusedAddr is an address where nothing listens.
func unusedAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// authority is a certificate authority with a folder for what it issues.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA " + filepath.Base(a.dir)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.caFile(), "CERTIFICATE", der)
	return a
}

func (a *authority) caFile() string { return filepath.Join(a.dir, "ca.pem") }

// issue writes a certificate and its key to the folder.
func (a *authority) issue(t *testing.T, name string, until time.Time, hosts ...string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "PRIVATE KEY", keyDER)
	return certFile, keyFile
}

// server returns the TLS configuration of a broker at 127.0.0.1.
func (a *authority) server(t *testing.T) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.issue(t, "broker", time.Now().Add(time.Hour), "127.0.0.1", "kafka.test"))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	writeFile(t, file, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

func writeFile(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
