package inject

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// keeper holds the certificate that is served, and replaces it while it is in
// use.
type keeper struct {
	serving  atomic.Pointer[tls.Certificate]
	interval time.Duration
	// renew returns the certificate to serve now, which the API server trusts.
	renew func(ctx context.Context, now time.Time) (*tls.Certificate, error)
	log   *zap.Logger
}

// maxInterval is how often the certificate is looked after, at the latest.
const maxInterval = 30 * time.Second

// fromFolder serves what cert-manager writes: tls.crt and tls.key.
func fromFolder(folder string, log *zap.Logger) *keeper {
	read := func(context.Context, time.Time) (*tls.Certificate, error) {
		certificate, err := os.ReadFile(filepath.Join(folder, keyCertificate))
		if err != nil {
			return nil, err
		}
		key, err := os.ReadFile(filepath.Join(folder, keyKey))
		if err != nil {
			return nil, err
		}
		c, err := pair{certificate, key}.load()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", folder, err)
		}
		return c, nil
	}
	return &keeper{interval: maxInterval, renew: read, log: log}
}

// ownCertificate keeps a certificate in a Secret, and tells the API server to
// trust it, by the webhook configuration of that name.
type ownCertificate struct {
	cluster          *cluster
	secret, webhooks string
	rotation         rotation
}

// selfMade serves certificates that the injector makes itself.
func selfMade(c *cluster, secret, webhooks, service string, validity time.Duration, log *zap.Logger) *keeper {
	interval := min(maxInterval, validity/20)
	o := &ownCertificate{cluster: c, secret: secret, webhooks: webhooks, rotation: rotation{
		names: []string{service + "." + c.namespace + ".svc"}, validity: validity, settle: 2 * interval,
	}}
	return &keeper{interval: interval, renew: o.renew, log: log}
}

// attempts bounds how often a change is tried again that another replica was
// faster with.
const attempts = 5

func (o *ownCertificate) renew(ctx context.Context, now time.Time) (*tls.Certificate, error) {
	for range attempts {
		p, err := o.once(ctx, now)
		if errors.Is(err, errConflict) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return p.current.load()
	}
	return nil, fmt.Errorf("secret %s is changed by others all the time", o.secret)
}

// once takes one step: the Secret first, which decides, then what the API
// server trusts.
func (o *ownCertificate) once(ctx context.Context, now time.Time) (*pairs, error) {
	s, err := o.cluster.secret(ctx, o.secret)
	if err != nil {
		return nil, err
	}
	w, err := o.cluster.webhooks(ctx, o.webhooks)
	if err != nil {
		return nil, err
	}
	before := pairsOf(s.Data)
	after, err := o.rotation.step(before, trustedBy(w), now)
	if err != nil {
		return nil, err
	}
	if !after.equal(&before) {
		s.Data = after.data()
		if err := o.cluster.putSecret(ctx, o.secret, s); err != nil {
			return nil, err
		}
	}
	if bundle := after.bundle(); !bytes.Equal(trustedBy(w), bundle) {
		if err := o.cluster.trust(ctx, o.webhooks, w, bundle); err != nil {
			return nil, err
		}
	}
	return &after, nil
}

// trustedBy returns what all webhooks trust, or nil where they differ.
func trustedBy(w *webhooks) (bundle []byte) {
	for i, one := range w.Webhooks {
		if i > 0 && !bytes.Equal(one.ClientConfig.CABundle, bundle) {
			return nil
		}
		bundle = one.ClientConfig.CABundle
	}
	return bundle
}

// run keeps the certificate until ctx ends.
func (k *keeper) run(ctx context.Context) {
	tick := time.NewTicker(k.interval)
	defer tick.Stop()
	for {
		k.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look replaces the certificate where there is another. What was served goes on
// being served when something fails.
func (k *keeper) look(ctx context.Context) {
	c, err := k.renew(ctx, time.Now())
	if err != nil {
		if ctx.Err() == nil {
			k.log.Error("the certificate can't be looked after; trying again", zap.Error(err), zap.Duration("in", k.interval))
		}
		return
	}
	old := k.serving.Load()
	if old != nil && bytes.Equal(old.Certificate[0], c.Certificate[0]) {
		return
	}
	k.serving.Store(c)
	k.log.Info("serving a certificate", zap.Strings("names", c.Leaf.DNSNames), zap.Time("until", c.Leaf.NotAfter))
}

// get is for tls.Config.
func (k *keeper) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("there is no certificate yet")
}
