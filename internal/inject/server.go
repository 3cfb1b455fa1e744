package inject

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// Config is what an injector is told at its start.
type Config struct {
	Listen  string // host:port, for HTTPS
	Sidecar string // the template's file

	// Either: the folder of a certificate that is kept by another.
	Certificates string
	// Or: the Secret to keep one in, the MutatingWebhookConfiguration that trusts
	// it, the Service that it is for, and how long one is valid.
	Secret, Webhooks, Service string
	Validity                  time.Duration
	// Account is the folder of the service account.
	Account string

	// Linger is how long requests are answered after the end was announced:
	// until API servers have learnt of it.
	Linger time.Duration
	Log    *zap.Logger
}

// injector is a running webhook server.
type injector struct {
	sidecar *template
	keeper  *keeper
	reviews *prometheus.CounterVec
	leaving atomic.Bool
	log     *zap.Logger
}

// Run serves until ctx ends.
func Run(ctx context.Context, c Config) error {
	sidecar, err := readTemplate(c.Sidecar)
	if err != nil {
		return err
	}
	i := &injector{sidecar: sidecar, log: c.Log}
	if c.Certificates != "" {
		i.keeper = fromFolder(c.Certificates, c.Log)
	} else {
		account, err := newCluster(c.Account, os.Getenv)
		if err != nil {
			return err
		}
		i.keeper = selfMade(account, c.Secret, c.Webhooks, c.Service, c.Validity, c.Log)
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	return i.serve(ctx, listener, c.Linger)
}

func (i *injector) serve(ctx context.Context, listener net.Listener, linger time.Duration) error {
	// The certificate is looked after until the last request is answered.
	running, stop := context.WithCancel(context.Background())
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		i.keeper.run(running)
	}()
	defer func() {
		stop()
		<-kept
	}()

	server := &http.Server{
		Handler:           i.handler(),
		TLSConfig:         &tls.Config{GetCertificate: i.keeper.get, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: zap.NewStdLog(i.log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ServeTLS(listener, "", "") }()
	i.log.Info("listening", zap.Stringer("address", listener.Addr()))
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	i.leaving.Store(true)
	time.Sleep(linger)
	within, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := server.Shutdown(within)
	if serving := <-failed; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}

func (i *injector) handler() http.Handler {
	registry := prometheus.NewRegistry()
	i.reviews = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oncegate_injector_reviews_total", Help: "Pods and namespaces by what the injector answered."}, []string{"result"})
	for _, o := range []outcome{injected, already, skipped, labelled, refused} {
		i.reviews.WithLabelValues(string(o))
	}
	registry.MustRegister(i.reviews, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "oncegate_injector_certificate_expiry_timestamp_seconds", Help: "When the certificate that is served ends, in seconds since 1970; 0: there is none."}, i.expiry))

	mux := http.NewServeMux()
	mux.Handle("POST /pods", webhook(i.pod(false), i.told))
	mux.Handle("POST /pods-of-namespace", webhook(i.pod(true), i.told))
	mux.Handle("POST /namespaces", webhook(func(object []byte) (*answer, error) {
		var o struct{ Metadata metadata }
		if err := json.Unmarshal(object, &o); err != nil {
			return nil, err
		}
		return namespace(&o.Metadata)
	}, i.told))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", i.ready)
	return mux
}

func (i *injector) pod(byNamespace bool) decide {
	return func(object []byte) (*answer, error) {
		var p pod
		if err := json.Unmarshal(object, &p); err != nil {
			return nil, err
		}
		return i.sidecar.pod(&p, byNamespace)
	}
}

// told counts and logs what became of a review.
func (i *injector) told(r *request, o outcome, err error) {
	i.reviews.WithLabelValues(string(o)).Inc()
	fields := []zap.Field{zap.String("result", string(o)), zap.String("namespace", r.Namespace), zap.String("name", r.Name)}
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	i.log.Info("review", fields...)
}

func (i *injector) expiry() float64 {
	if c := i.keeper.serving.Load(); c != nil {
		return float64(c.Leaf.NotAfter.Unix())
	}
	return 0
}

// ready says yes once there is a certificate, which the API server then trusts,
// and no during a shutdown.
func (i *injector) ready(w http.ResponseWriter, _ *http.Request) {
	switch {
	case i.leaving.Load():
		http.Error(w, "not ready: leaving", http.StatusServiceUnavailable)
	case i.keeper.serving.Load() == nil:
		http.Error(w, "not ready: no certificate yet", http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ready")
	}
}
