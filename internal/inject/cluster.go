package inject

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// cluster talks to the API server as the pod's service account: four requests
// in all, which no client library is worth.
type cluster struct {
	base      string
	account   string // the folder of the service account
	namespace string
	http      *http.Client
}

// errConflict says that somebody else changed the object since it was read.
var errConflict = errors.New("the object was changed by another")

// newCluster reads the service account in folder. getenv is os.Getenv.
func newCluster(folder string, getenv func(string) string) (*cluster, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: a certificate can be kept only inside a cluster; use --certificates elsewhere")
	}
	authority, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", filepath.Join(folder, "ca.crt"))
	}
	namespace, err := os.ReadFile(filepath.Join(folder, "namespace"))
	if err != nil {
		return nil, err
	}
	return &cluster{
		base: "https://" + net.JoinHostPort(host, port), account: folder, namespace: strings.TrimSpace(string(namespace)),
		http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
	}, nil
}

// secret is a Secret; metadata is written back as it was read, with the
// version that tells concurrent writers.
type secret struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   json.RawMessage   `json:"metadata"`
	Type       string            `json:"type"`
	Data       map[string][]byte `json:"data,omitempty"`
}

func (c *cluster) secretPath(name string) string {
	return "/api/v1/namespaces/" + c.namespace + "/secrets/" + name
}

func (c *cluster) secret(ctx context.Context, name string) (*secret, error) {
	s := new(secret)
	return s, c.do(ctx, http.MethodGet, c.secretPath(name), "", nil, s)
}

// putSecret returns errConflict when s is not the newest version.
func (c *cluster) putSecret(ctx context.Context, name string, s *secret) error {
	return c.do(ctx, http.MethodPut, c.secretPath(name), "application/json", s, nil)
}

// webhooks are the parts of a MutatingWebhookConfiguration that are changed.
type webhooks struct {
	Webhooks []webhookClient `json:"webhooks"`
}

type webhookClient struct {
	Name         string `json:"name"`
	ClientConfig struct {
		CABundle []byte `json:"caBundle"`
	} `json:"clientConfig"`
}

func webhooksPath(name string) string {
	return "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/" + name
}

func (c *cluster) webhooks(ctx context.Context, name string) (*webhooks, error) {
	w := new(webhooks)
	return w, c.do(ctx, http.MethodGet, webhooksPath(name), "", nil, w)
}

// trust makes the API server trust bundle for all of w.
func (c *cluster) trust(ctx context.Context, name string, w *webhooks, bundle []byte) error {
	for i := range w.Webhooks {
		w.Webhooks[i].ClientConfig.CABundle = bundle
	}
	return c.do(ctx, http.MethodPatch, webhooksPath(name), "application/strategic-merge-patch+json", w, nil)
}

func (c *cluster) do(ctx context.Context, method, path, contentType string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	// Kubernetes replaces the token every hour.
	token, err := os.ReadFile(filepath.Join(c.account, "token"))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	r, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, maxReview))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if r.StatusCode == http.StatusConflict {
		return errConflict
	}
	if r.StatusCode != http.StatusOK {
		var s status
		if json.Unmarshal(text, &s) != nil || s.Message == "" {
			s.Message = r.Status
		}
		return fmt.Errorf("%s %s: %s", method, path, s.Message)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}
