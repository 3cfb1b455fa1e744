package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUpstreamTLS(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pem")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ set, want string }{
		{"UPSTREAM_TLS=on", ""},
		{"UPSTREAM_TLS=on UPSTREAM_TLS_CA_FILE=" + file + " UPSTREAM_TLS_MIN_VERSION=1.3 UPSTREAM_TLS_SERVER_NAME=kafka.test", ""},
		{"UPSTREAM_TLS=on UPSTREAM_TLS_CERT_FILE=" + file + " UPSTREAM_TLS_KEY_FILE=" + file, ""},
		{"UPSTREAM_TLS=on UPSTREAM_TLS_CERT_FILE=" + file, "one is set without the other"},
		{"UPSTREAM_TLS=on UPSTREAM_TLS_CA_FILE=/nowhere", `UPSTREAM_TLS_CA_FILE="/nowhere" can't be used: accepted is the path of a file that exists`},
		{"UPSTREAM_TLS=on UPSTREAM_TLS_MIN_VERSION=1.0", "accepted is 1.2 or 1.3"},
		{"UPSTREAM_TLS_CA_FILE=" + file, "UPSTREAM_TLS_CA_FILE is set, but UPSTREAM_TLS=off"},
		{"UPSTREAM_TLS=off UPSTREAM_TLS_SERVER_NAME=kafka.test", "UPSTREAM_TLS_SERVER_NAME is set, but UPSTREAM_TLS=off"},
		{"UPSTREAM_TLS=on UPSTREAM_TLS_SERVER_NAME=kafka.test:9093", "without a port"},
	} {
		_, _, err := Load(append(strings.Fields(c.set), "UPSTREAM_BROKERS=a:1"))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.set, err)
		}
	}
}

// Each mechanism wants its own settings, and takes no others: one that is
// ignored would be a secret given for nothing.
func TestUpstreamSASL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_REGION", "")
	for _, c := range []struct{ set, want string }{
		{"MECHANISM=PLAIN USER=u PASSWORD=p", ""},
		{"MECHANISM=SCRAM-SHA-256 USER=u PASSWORD_FILE=" + file, ""},
		{"MECHANISM=SCRAM-SHA-512 USER=u PASSWORD=p", ""},
		{"MECHANISM=OAUTHBEARER TOKEN_FILE=/later/token EXTENSIONS=logicalCluster=lkc-1,identityPoolId=p", ""},
		{"MECHANISM=OAUTHBEARER TOKEN_COMMAND=token", ""},
		{"MECHANISM=OAUTHBEARER TOKEN_URL=https://idp.test/token CLIENT_ID=c CLIENT_SECRET=p SCOPES=a,b", ""},
		{"MECHANISM=OAUTHBEARER TOKEN_URL=http://127.0.0.1:8080/token CLIENT_ID=c CLIENT_SECRET_FILE=" + file, ""},
		{"MECHANISM=AWS_MSK_IAM AWS_REGION=eu-central-1", ""},
		{"MECHANISM=GSSAPI USER=u KERBEROS_REALM=R KERBEROS_KEYTAB_FILE=" + file + " KERBEROS_CONFIG_FILE=" + file, ""},
		{"MECHANISM=GSSAPI USER=u KERBEROS_REALM=R PASSWORD=p KERBEROS_SERVICE=broker", ""},

		{"MECHANISM=DIGEST", "accepted is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM or GSSAPI"},
		{"USER=u", "UPSTREAM_SASL_MECHANISM is not set, but UPSTREAM_SASL_USER is"},
		{"MECHANISM=PLAIN", "UPSTREAM_SASL_MECHANISM=PLAIN needs UPSTREAM_SASL_USER\n"},
		{"MECHANISM=PLAIN USER=u", "needs UPSTREAM_SASL_PASSWORD or UPSTREAM_SASL_PASSWORD_FILE"},
		{"MECHANISM=PLAIN USER=u PASSWORD=p PASSWORD_FILE=" + file, "UPSTREAM_SASL_PASSWORD and UPSTREAM_SASL_PASSWORD_FILE are set: set one of them"},
		{"MECHANISM=PLAIN USER=u PASSWORD=p TOKEN_FILE=t", "UPSTREAM_SASL_TOKEN_FILE is set, but UPSTREAM_SASL_MECHANISM=PLAIN does not use it"},
		{"MECHANISM=PLAIN USER=u PASSWORD_FILE=/nowhere", "UPSTREAM_SASL_PASSWORD_FILE"},
		{"MECHANISM=OAUTHBEARER", "needs UPSTREAM_SASL_TOKEN_FILE or UPSTREAM_SASL_TOKEN_COMMAND or UPSTREAM_SASL_TOKEN_URL"},
		{"MECHANISM=OAUTHBEARER TOKEN_FILE=t CLIENT_ID=c", "UPSTREAM_SASL_CLIENT_ID is set, but"},
		{"MECHANISM=OAUTHBEARER TOKEN_URL=https://idp.test/token CLIENT_ID=c", "UPSTREAM_SASL_TOKEN_URL needs UPSTREAM_SASL_CLIENT_SECRET"},
		{"MECHANISM=OAUTHBEARER TOKEN_URL=http://idp.test/token CLIENT_ID=c CLIENT_SECRET=p", "an https URL"},
		{"MECHANISM=OAUTHBEARER TOKEN_URL=https://u:p@idp.test/ CLIENT_ID=c CLIENT_SECRET=p", "without a user"},
		{"MECHANISM=OAUTHBEARER TOKEN_FILE=t EXTENSIONS=x", "name=value"},
		{"MECHANISM=AWS_MSK_IAM", "needs UPSTREAM_SASL_AWS_REGION or AWS_REGION"},
		{"MECHANISM=GSSAPI USER=u KERBEROS_REALM=R", "needs UPSTREAM_SASL_KERBEROS_KEYTAB_FILE or"},
	} {
		environ := []string{"UPSTREAM_BROKERS=a:1", "UPSTREAM_TLS=on"}
		for _, kv := range strings.Fields(c.set) {
			environ = append(environ, "UPSTREAM_SASL_"+kv)
		}
		_, warnings, err := Load(environ)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error()+"\n", c.want) {
			t.Errorf("%s: %v", c.set, err)
		}
		if len(warnings) > 0 {
			t.Errorf("%s: %q", c.set, warnings)
		}
	}
	// AWS sets the region of its own pods and functions.
	c, _, err := Load([]string{"UPSTREAM_BROKERS=a:1", "UPSTREAM_TLS=on", "UPSTREAM_SASL_MECHANISM=AWS_MSK_IAM", "AWS_REGION=eu-west-1"})
	if err != nil || c.UpstreamSASLAWSRegion != "eu-west-1" {
		t.Errorf("region %q, %v", c.UpstreamSASLAWSRegion, err)
	}
	_, warnings, err := Load([]string{"UPSTREAM_BROKERS=a:1", "UPSTREAM_SASL_MECHANISM=PLAIN", "UPSTREAM_SASL_USER=u", "UPSTREAM_SASL_PASSWORD=p"})
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "UPSTREAM_TLS=on") {
		t.Errorf("a password without TLS: %q, %v", warnings, err)
	}
}

// The rules name only settings that exist, and every mechanism has one.
func TestRulesNameSettings(t *testing.T) {
	for name, r := range saslRules {
		for _, v := range append(append(append([]string{}, r.needs...), r.oneOf...), r.may...) {
			if !isSetting("UPSTREAM_SASL_" + v) {
				t.Errorf("the rule of %s names UPSTREAM_SASL_%s, which is no setting", name, v)
			}
		}
	}
	for _, m := range strings.Split(find("UPSTREAM_SASL_MECHANISM").field.Tag.Get("accept"), ",") {
		if _, ok := saslRules[m]; !ok {
			t.Errorf("%s has no rule", m)
		}
	}
}

// Whatever is wrong with them, and however the configuration is printed, the
// values of secrets are not told.
func TestSecretsAreNotTold(t *testing.T) {
	const marker = "s3cr3t"
	environ := []string{
		"UPSTREAM_BROKERS=a:1", "UPSTREAM_TLS=on", "UPSTREAM_SASL_MECHANISM=OAUTHBEARER",
		"UPSTREAM_SASL_PASWORD=" + marker,
	}
	for _, s := range settings {
		name := s.name
		if strings.HasSuffix(name, "_PASSWORD") || strings.HasSuffix(name, "_SECRET") || strings.Contains(name, "_TOKEN") {
			if s.field.Type.Name() != "Secret" {
				t.Errorf("%s is a %s, not a Secret", name, s.field.Type)
			}
			environ = append(environ, name+"=http://"+marker+"\x00")
		}
	}
	if len(environ) != 9 {
		t.Errorf("%d variables: %v", len(environ), environ)
	}
	_, warnings, err := Load(environ)
	if err == nil {
		t.Fatal("no fault")
	}
	if told := fmt.Sprint(err, warnings); strings.Contains(told, marker) {
		t.Errorf("told: %s", told)
	}
	c, _, err := Load([]string{
		"UPSTREAM_BROKERS=a:1", "UPSTREAM_TLS=on", "UPSTREAM_SASL_MECHANISM=PLAIN", "UPSTREAM_SASL_USER=u", "UPSTREAM_SASL_PASSWORD=" + marker,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, told := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), c.Values()} {
		if strings.Contains(told, marker) {
			t.Errorf("told: %s", told)
		}
	}
	if !strings.Contains(c.Values(), "UPSTREAM_SASL_PASSWORD=[redacted]\n") || !strings.Contains(c.Values(), "UPSTREAM_SASL_CLIENT_SECRET=\n") {
		t.Errorf("Values does not say which secrets are set: %s", c.Values())
	}
	if string(c.UpstreamSASLPassword) != marker {
		t.Error("the secret is lost")
	}
}
