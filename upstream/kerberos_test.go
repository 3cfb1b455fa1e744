package upstream

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/oncegate/oncegate/test/kafka"
)

const realm = "ONCEGATE.TEST"

// kdc is MIT Kerberos' key distribution centre, on loopback.
type kdc struct {
	t   *testing.T
	dir string
	env []string
}

// startKDC needs krb5kdc, kdb5_util and kadmin.local (Debian: krb5-kdc and
// krb5-admin-server).
func startKDC(t *testing.T) *kdc {
	t.Helper()
	kafka.RequireTools(t, errors.Join(kafka.Tool("krb5kdc"), kafka.Tool("kdb5_util"), kafka.Tool("kadmin.local")))
	addr := unusedAddr(t)
	k := &kdc{t: t, dir: t.TempDir()}
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.file("krb5.conf"), "KRB5_KDC_PROFILE="+k.file("kdc.conf"))
	writeFile(t, k.file("krb5.conf"), fmt.Sprintf("[libdefaults]\ndefault_realm = %s\ndns_lookup_kdc = false\nudp_preference_limit = 1\n[realms]\n%s = {\n kdc = %s\n}\n", realm, realm, addr))
	writeFile(t, k.file("kdc.conf"), fmt.Sprintf("[kdcdefaults]\nkdc_listen = \"\"\nkdc_tcp_listen = %s\n[realms]\n%s = {\n database_name = %s\n key_stash_file = %s\n}\n", addr, realm, k.file("principal"), k.file("stash")))
	k.run("kdb5_util", "create", "-s", "-P", "master")
	cmd := exec.Command("krb5kdc", "-n")
	cmd.Env = k.env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	return k
}

func (k *kdc) file(name string) string { return filepath.Join(k.dir, name) }

func (k *kdc) run(name string, args ...string) {
	k.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = k.env
	if out, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// keytab makes a principal and returns a file with its key.
func (k *kdc) keytab(principal string) string {
	k.t.Helper()
	file := k.file(strings.ReplaceAll(principal, "/", "_") + ".keytab")
	k.run("kadmin.local", "addprinc", "-randkey", principal)
	k.run("kadmin.local", "ktadd", "-k", file, principal)
	return file
}

// A real broker that knows its users by Kerberos.
func TestRealKerberos(t *testing.T) {
	k := startKDC(t)
	broker, client := k.keytab("kafka/127.0.0.1"), k.keytab(user)
	k.run("kadmin.local", "addprinc", "-pw", secret, "bob")
	t.Setenv("JAVA_TOOL_OPTIONS", "-Djava.security.krb5.conf="+k.file("krb5.conf"))
	cluster := kafka.Start(t, kafka.Options{
		Version: kafka.V44, Brokers: 1, Listeners: map[string]string{"KERBEROS": "SASL_PLAINTEXT"},
		Config: map[string]string{
			"listener.name.kerberos.sasl.enabled.mechanisms":    "GSSAPI",
			"listener.name.kerberos.sasl.kerberos.service.name": "kafka",
			"listener.name.kerberos.gssapi.sasl.jaas.config": fmt.Sprintf(
				"com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab=%q principal=%q;", broker, "kafka/127.0.0.1@"+realm),
		},
	})
	addr := cluster.Addrs("KERBEROS")[0]
	kerberos := Kerberos{Service: "kafka", Realm: realm, ConfigFile: k.file("krb5.conf")}
	withKeytab := kerberos
	withKeytab.KeytabFile = client
	for _, c := range []struct {
		name  string
		sasl  SASL
		fault string
	}{
		{"keytab", SASL{Mechanism: GSSAPI, User: user, Kerberos: withKeytab}, ""},
		{"password", SASL{Mechanism: GSSAPI, User: "bob", Password: FixedSecret(secret), Kerberos: kerberos}, ""},
		{"wrong password", SASL{Mechanism: GSSAPI, User: "bob", Password: FixedSecret("wrong-one"), Kerberos: kerberos}, "check UPSTREAM_SASL_USER"},
		{"unknown user", SASL{Mechanism: GSSAPI, User: "carol", Password: FixedSecret("wrong-one"), Kerberos: kerberos}, "CLIENT_NOT_FOUND: check UPSTREAM_SASL_USER"},
		{"another mechanism", SASL{Mechanism: Plain, User: user, Password: FixedSecret("wrong-one")}, "one that it offers: GSSAPI"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, _ := configFor(addr)
			cfg.SASL = c.sasl
			cluster := NewCluster(cfg, NewDialer(cfg))
			defer cluster.close()
			err := cluster.learn()
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), "wrong-one") {
					t.Errorf("got %v, want %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			conn, err := dial(t, cluster.dialer, addr)
			if err != nil {
				t.Fatal(err)
			}
			if n := brokersOver(t, conn); n != 1 {
				t.Errorf("%d brokers", n)
			}
		})
	}
}
