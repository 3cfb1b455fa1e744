package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-msk-iam-sasl-signer-go/signer"
	"golang.org/x/oauth2/clientcredentials"
)

// TokenSource fetches a token for OAUTHBEARER. A zero expiry says that it is
// not known.
type TokenSource func(ctx context.Context) (token string, expires time.Time, err error)

// TokenFromFile reads a token that something else keeps fresh, such as a
// projected service account token of Kubernetes.
func TokenFromFile(path string) TokenSource {
	read := SecretFile(path)
	return func(context.Context) (string, time.Time, error) {
		token, err := read()
		if err != nil {
			return "", time.Time{}, err
		}
		token = strings.TrimSpace(token)
		// Said to have expired at once, so that the file is read each time.
		return token, time.Now(), nil
	}
}

// TokenFromCommand runs a command that prints a token. Its words are separated
// by spaces; no shell reads it.
func TokenFromCommand(command string) TokenSource {
	words := strings.Fields(command)
	return func(ctx context.Context) (string, time.Time, error) {
		if len(words) == 0 {
			return "", time.Time{}, errors.New("the token command is empty")
		}
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		// A child of the command that holds its output open is not waited for.
		cmd.WaitDelay = time.Second
		err := cmd.Run()
		token := strings.TrimSpace(stdout.String())
		switch {
		case ctx.Err() != nil:
			return "", time.Time{}, fmt.Errorf("the token command %s did not end in time", words[0])
		case err != nil:
			said, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
			return "", time.Time{}, scrubbed(fmt.Errorf("the token command %s: %w: %.200s", words[0], err, said), token)
		case token == "":
			return "", time.Time{}, fmt.Errorf("the token command %s printed nothing", words[0])
		case strings.ContainsAny(token, " \t\r\n"):
			return "", time.Time{}, fmt.Errorf("the token command %s printed more than a token", words[0])
		}
		return token, expiry(token), nil
	}
}

// TokenFromEndpoint fetches tokens by the client credentials grant (RFC 6749,
// section 4.4).
func TokenFromEndpoint(url, clientID string, clientSecret Secret, scopes []string) TokenSource {
	return func(ctx context.Context) (string, time.Time, error) {
		secret, err := clientSecret()
		if err != nil {
			return "", time.Time{}, fmt.Errorf("the client secret can't be read: %w", err)
		}
		cfg := clientcredentials.Config{ClientID: clientID, ClientSecret: secret, TokenURL: url, Scopes: scopes}
		token, err := cfg.Token(ctx)
		if err != nil {
			// The endpoint's answer is part of it.
			return "", time.Time{}, scrubbed(fmt.Errorf("no token from UPSTREAM_SASL_TOKEN_URL: %w", err), secret)
		}
		expires := token.Expiry
		if expires.IsZero() {
			expires = expiry(token.AccessToken)
		}
		return token.AccessToken, expires, nil
	}
}

// TokenFromAWS signs a token for MSK with the credentials that AWS' own tools
// would find: environment, profile, web identity, instance or container role.
func TokenFromAWS(region string) TokenSource {
	return func(ctx context.Context) (string, time.Time, error) {
		token, expires, err := signer.GenerateAuthToken(ctx, region)
		if err != nil {
			return "", time.Time{}, fmt.Errorf("no token for AWS_MSK_IAM: %w", err)
		}
		return token, time.UnixMilli(expires), nil
	}
}

// expiry is the exp claim of a JSON Web Token (RFC 7519), and zero for other
// tokens. The signature is the broker's business.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Expires <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0)
}

// tokenCache keeps a token for the many connections that are made at once after
// a broker's restart. The zero expiry is taken for opaqueLife.
type tokenCache struct {
	source TokenSource

	mu    sync.Mutex
	token string
	until time.Time
}

const (
	opaqueLife = 30 * time.Second
	// tokenMargin is how long a token must still be valid to be used: it has to
	// reach the broker, whose clock may be ahead.
	tokenMargin = 30 * time.Second
)

func (c *tokenCache) get(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.token != "" && now.Before(c.until) {
		return c.token, nil
	}
	token, expires, err := c.source(ctx)
	if err != nil {
		return "", err
	}
	if expires.IsZero() {
		expires = now.Add(opaqueLife + tokenMargin)
	}
	c.token, c.until = token, expires.Add(-tokenMargin)
	return token, nil
}

// refused forgets a token that a broker did not take.
func (c *tokenCache) refused(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == token {
		c.token = ""
	}
}
