// Package telemetry tells how Oncegate is: health, readiness and metrics.
package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/oncegate/oncegate/proxy"
	"github.com/oncegate/oncegate/upstream"
)

// Server answers on the admin address.
type Server struct {
	mux      *http.ServeMux
	cluster  *upstream.Cluster
	draining atomic.Bool
}

// NewServer returns a server for p. quit is what POST /quitquitquit does.
func NewServer(p *proxy.Proxy, cluster *upstream.Cluster, quit context.CancelFunc) *Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newCollector(p, cluster))
	s := &Server{mux: http.NewServeMux(), cluster: cluster}
	s.mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	s.mux.HandleFunc("GET /readyz", s.ready)
	s.mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s.mux.HandleFunc("POST /quitquitquit", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "draining")
		quit()
	})
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Drain makes /readyz say no: a shutdown has begun.
func (s *Server) Drain() { s.draining.Store(true) }

// ready says yes once the upstream has told its brokers, whose listeners are
// then bound, and no, with the reason, while it does not answer or during a
// shutdown.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	switch err := s.cluster.Err(); {
	case s.draining.Load():
		http.Error(w, "not ready: draining", http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ready")
	}
}
