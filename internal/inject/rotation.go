package inject

import (
	"bytes"
	"time"
)

// pairs are the certificates of an injector's replicas, as they share them in a
// Secret. A new one is trusted by the API server before it is served, and an
// old one for as long as a replica may serve it, so that a rotation is never
// noticed.
type pairs struct {
	current pair
	next    pair // made, not served yet
	// trusted is since when next is, or zero.
	trusted time.Time
	// previous is the certificate before current: replicas serve it until they
	// have read the Secret again.
	previous []byte
}

// rotation makes certificates.
type rotation struct {
	names    []string // what certificates are for
	validity time.Duration
	settle   time.Duration // how long all replicas and API servers take to learn of a change
}

// step returns the pairs that follow p, which are p itself when there is
// nothing to do. trusted is what the API server trusts.
func (r *rotation) step(p pairs, trusted []byte, now time.Time) (pairs, error) {
	current, err := p.current.load()
	if err != nil || now.After(current.Leaf.NotAfter) || !r.fits(p.current) {
		// Nobody is served by this one: no order has to be kept.
		fresh, err := newPair(now, r.validity, r.names)
		return pairs{current: fresh}, err
	}
	made := current.Leaf.NotBefore.Add(skew)
	due := made.Add(current.Leaf.NotAfter.Sub(made) * 2 / 3)
	if now.Before(due) {
		return p, nil
	}
	if !r.fits(p.next) {
		fresh, err := newPair(now, r.validity, r.names)
		return pairs{current: p.current, next: fresh, previous: p.previous}, err
	}
	switch {
	case !bytes.Equal(trusted, p.bundle()):
		p.trusted = time.Time{}
	case p.trusted.IsZero():
		p.trusted = now.UTC().Truncate(time.Second)
	case !now.Before(p.trusted.Add(r.settle)):
		return pairs{current: p.next, previous: p.current.certificate}, nil
	}
	return p, nil
}

// fits says whether a certificate is for the names that are wanted.
func (r *rotation) fits(p pair) bool {
	c, err := p.load()
	if err != nil {
		return false
	}
	for _, name := range r.names {
		if c.Leaf.VerifyHostname(name) != nil {
			return false
		}
	}
	return true
}

// bundle is what the API server has to trust.
func (p *pairs) bundle() []byte {
	return bytes.Join([][]byte{p.current.certificate, p.next.certificate, p.previous}, nil)
}

func (p *pairs) equal(other *pairs) bool {
	return bytes.Equal(p.current.certificate, other.current.certificate) &&
		bytes.Equal(p.next.certificate, other.next.certificate) && p.trusted.Equal(other.trusted) &&
		bytes.Equal(p.previous, other.previous)
}

// The keys of the Secret.
const (
	keyCertificate     = "tls.crt"
	keyKey             = "tls.key"
	keyNextCertificate = "next.crt"
	keyNextKey         = "next.key"
	keyNextTrusted     = "next.trusted" // RFC 3339
	keyPrevious        = "previous.crt"
)

func pairsOf(data map[string][]byte) pairs {
	// One that can't be read counts as none: it is told again.
	trusted, _ := time.Parse(time.RFC3339, string(data[keyNextTrusted]))
	return pairs{
		current:  pair{data[keyCertificate], data[keyKey]},
		next:     pair{data[keyNextCertificate], data[keyNextKey]},
		trusted:  trusted,
		previous: data[keyPrevious],
	}
}

func (p *pairs) data() map[string][]byte {
	data := map[string][]byte{keyCertificate: p.current.certificate, keyKey: p.current.key}
	if p.next.certificate != nil {
		data[keyNextCertificate], data[keyNextKey] = p.next.certificate, p.next.key
	}
	if !p.trusted.IsZero() {
		data[keyNextTrusted] = []byte(p.trusted.Format(time.RFC3339))
	}
	if p.previous != nil {
		data[keyPrevious] = p.previous
	}
	return data
}
