package inject

import (
	"bytes"
	"testing"
	"time"
)

// world is three replicas and an API server, each of which knows of the Secret
// and of what is trusted only what it read last.
type world struct {
	t       *testing.T
	r       rotation
	secret  pairs
	trusted []byte // as stored
	known   []byte // as the API server that calls the webhook knows it
	refuses bool   // to trust anything else
	serving [3]pair
	changes int // of what replica 0 serves
}

// tick is what a replica does every interval.
func (w *world) tick(replica int, now time.Time) {
	after, err := w.r.step(w.secret, w.trusted, now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.secret = after
	if !bytes.Equal(w.trusted, after.bundle()) {
		if w.refuses {
			return // what was served goes on being served
		}
		w.trusted = after.bundle()
	}
	if replica == 0 && !bytes.Equal(w.serving[0].certificate, after.current.certificate) {
		w.changes++
	}
	w.serving[replica] = after.current
}

// In every moment every replica serves a certificate that is valid and that the
// API server trusts, through rotations and while replicas and API server are
// behind each other, and while the API server takes no change.
func TestRotationIsNeverNoticed(t *testing.T) {
	const interval = 30 * time.Second
	w := &world{t: t, r: rotation{names: []string{"injector.there.svc"}, validity: time.Hour, settle: 2 * interval}}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for second := range 8 * 3600 {
		now := start.Add(time.Duration(second) * time.Second)
		// Ten minutes of each fifty nobody may change what is trusted.
		w.refuses = second/600%5 == 4
		for replica := range w.serving {
			if second%30 == 7*replica {
				w.tick(replica, now)
			}
		}
		// The API server hears of changes up to 25 seconds late.
		if second%25 == 24 {
			w.known = w.trusted
		}
		if second < 60 {
			continue // the first certificate is on its way
		}
		for replica, p := range w.serving {
			if !bytes.Contains(w.known, p.certificate) {
				t.Fatalf("%s: replica %d serves what is not trusted", now, replica)
			}
			if second%600 == 0 {
				c, err := p.load()
				if err != nil {
					t.Fatal(err)
				}
				if now.After(c.Leaf.NotAfter) || c.Leaf.VerifyHostname("injector.there.svc") != nil {
					t.Fatalf("%s: replica %d serves a certificate for %v until %s", now, replica, c.Leaf.DNSNames, c.Leaf.NotAfter)
				}
			}
		}
		if n := bytes.Count(w.known, []byte("BEGIN")); n > 3 {
			t.Fatalf("%s: %d certificates are trusted", now, n)
		}
	}
	// Two thirds of an hour each: 12 in eight hours.
	if w.changes < 10 || w.changes > 13 {
		t.Errorf("%d certificates in eight hours", w.changes)
	}
}

func TestStepReplacesWhatIsOfNoUse(t *testing.T) {
	r := rotation{names: []string{"injector.there.svc"}, validity: time.Hour, settle: time.Minute}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	good, err := newPair(now, time.Hour, r.names)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newPair(now, time.Hour, []string{"renamed.there.svc"})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]pair{
		"none":            {},
		"no PEM":          {[]byte("x"), []byte("y")},
		"another's key":   {good.certificate, other.key},
		"for other names": other,
	} {
		after, err := r.step(pairs{current: p, next: other}, nil, now)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := after.current.load(); err != nil || c.Leaf.VerifyHostname(r.names[0]) != nil || after.next.certificate != nil {
			t.Errorf("%s: %v %v", name, after, err)
		}
	}
	if after, _ := r.step(pairs{current: good}, nil, now.Add(2*time.Hour)); bytes.Equal(after.current.certificate, good.certificate) {
		t.Error("an ended certificate is kept")
	}
	if after, _ := r.step(pairs{current: good}, nil, now.Add(39*time.Minute)); after.next.certificate != nil {
		t.Error("a new certificate is made before it is time")
	}
	all := pairs{current: good, next: other, trusted: now, previous: other.certificate}
	if kept := pairsOf(all.data()); !kept.equal(&all) {
		t.Error("the Secret does not keep everything")
	}
}
