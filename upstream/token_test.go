package upstream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// jwt is a JSON Web Token that is valid until expires, or says nothing of that.
func jwt(claims string) string {
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(`{"alg":"none"}`)) + "." + enc([]byte(claims)) + "." + enc([]byte("signature"))
}

func TestTokenExpiry(t *testing.T) {
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	for _, c := range []struct {
		token string
		want  time.Time
	}{
		{jwt(fmt.Sprintf(`{"sub":"x","exp":%d}`, at.Unix())), at},
		{jwt(`{"sub":"x"}`), time.Time{}},
		{jwt(`{"exp":"tomorrow"}`), time.Time{}},
		{"opaque", time.Time{}},
		{"a.b.c", time.Time{}},
	} {
		if got := expiry(c.token); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.token, got, c.want)
		}
	}
}

func TestTokenFromCommand(t *testing.T) {
	script := filepath.Join(t.TempDir(), "token.sh")
	for _, c := range []struct{ script, token, fault string }{
		{"echo abc", "abc", ""},
		{"printf abc", "abc", ""},
		{"true", "", "printed nothing"},
		{"echo an error page", "", "more than a token"},
		{"echo abc; echo no session abc >&2; exit 3", "", "exit status 3: no session [redacted]"},
		{"exec sleep 10", "", "did not end in time"},
	} {
		writeFile(t, script, c.script+"\n")
		limit := 10 * time.Second
		if strings.Contains(c.script, "sleep") {
			limit = 300 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		token, _, err := TokenFromCommand("sh " + script)(ctx)
		cancel()
		if token != c.token || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %q, %v", c.script, token, err)
		}
	}
	if _, _, err := TokenFromCommand("/nowhere/token")(t.Context()); err == nil || !strings.Contains(err.Error(), "/nowhere/token") {
		t.Errorf("no such command: %v", err)
	}
}

// The endpoint is asked with the client credentials grant, and its errors,
// which may repeat what it was sent, tell no secret.
func TestTokenFromEndpoint(t *testing.T) {
	const wrong = "wrong&secret"
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, escaped, _ := r.BasicAuth()
		pass, _ := url.QueryUnescape(escaped) // RFC 6749, section 2.3.1
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		if pass != secret {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":"invalid_client","error_description":"%s%s%s is wrong"}`, pass, escaped, r.Form.Get("client_secret"))
			return
		}
		if id != "oncegate" || r.Form.Get("grant_type") != "client_credentials" || r.Form.Get("scope") != "kafka read" {
			t.Errorf("asked as %q with %v", id, r.Form)
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"access_token":"abc","token_type":"bearer","expires_in":3600}`)
	}))
	defer endpoint.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()

	token, expires, err := TokenFromEndpoint(endpoint.URL, "oncegate", FixedSecret(secret), []string{"kafka", "read"})(t.Context())
	if err != nil || token != "abc" || time.Until(expires) < 59*time.Minute {
		t.Errorf("%q until %v, %v", token, expires, err)
	}
	_, _, err = TokenFromEndpoint(endpoint.URL, "oncegate", FixedSecret(wrong), nil)(t.Context())
	if err == nil || !strings.Contains(err.Error(), "UPSTREAM_SASL_TOKEN_URL") || strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), url.QueryEscape(wrong)) {
		t.Errorf("with a wrong secret: %v", err)
	}
}

// The token for MSK is a signed URL, and needs no network when the credentials
// come from the environment.
func TestTokenFromAWS(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	t.Setenv("AWS_CONFIG_FILE", "/nowhere")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
	token, expires, err := TokenFromAWS("eu-central-1")(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(string(b))
	if err != nil {
		t.Fatal(err)
	}
	if u.Host != "kafka.eu-central-1.amazonaws.com" || u.Query().Get("Action") != "kafka-cluster:Connect" || !strings.HasPrefix(u.Query().Get("X-Amz-Credential"), "AKIDEXAMPLE/") {
		t.Errorf("signed %s", u)
	}
	if left := time.Until(expires); left < 10*time.Minute || left > 16*time.Minute {
		t.Errorf("expires in %v", left)
	}
	if strings.Contains(string(b), secret) {
		t.Error("the token holds the secret key")
	}
}

func TestTokensAreKept(t *testing.T) {
	asked := 0
	next := func() (string, time.Time, error) { return "", time.Time{}, errors.New("not set") }
	cache := tokenCache{source: func(context.Context) (string, time.Time, error) { asked++; return next() }}
	get := func(want string, wantAsked int) {
		t.Helper()
		token, err := cache.get(t.Context())
		if token != want || (err == nil) != (want != "") || asked != wantAsked {
			t.Fatalf("%q, %v after asking %d times; want %q after %d", token, err, asked, want, wantAsked)
		}
	}
	get("", 1)
	// While it is valid.
	next = func() (string, time.Time, error) { return "a", time.Now().Add(time.Hour), nil }
	get("a", 2)
	get("a", 2)
	// Not after a broker refused it; but another's refusal does not matter.
	cache.refused("z")
	get("a", 2)
	cache.refused("a")
	// Not when it expires too soon to reach the broker.
	next = func() (string, time.Time, error) { return "b", time.Now().Add(tokenMargin / 2), nil }
	get("b", 3)
	// A while when it says nothing.
	next = func() (string, time.Time, error) { return "c", time.Time{}, nil }
	get("c", 4)
	get("c", 4)
}
