package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/oncegate/oncegate/dedup"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/telemetry"
	"github.com/oncegate/oncegate/proxy"
	"github.com/oncegate/oncegate/upstream"
)

// runServe serves until ctx ends. It returns the exit code: 2 says that the
// configuration is at fault.
func runServe(ctx context.Context, stderr io.Writer) int {
	cfg, warnings, err := config.Load(os.Environ())
	if err != nil {
		fmt.Fprintf(stderr, "oncegate: %v\n", err)
		return 2
	}
	log := newLogger(&cfg, stderr)
	defer log.Sync()
	for _, w := range warnings {
		log.Warn(w)
	}
	if err := serve(ctx, &cfg, log); err != nil {
		log.Error("stopped", zap.Error(err))
		return 1
	}
	return 0
}

// serve runs the whole of Oncegate: topology, listeners, admin server.
func serve(ctx context.Context, cfg *config.Config, log *zap.Logger) error {
	up := upstreamConfig(cfg, log)
	if err := up.Check(); err != nil {
		return err
	}
	dialer := upstream.NewDialer(up)
	cluster := upstream.NewCluster(up, dialer)
	p, err := proxy.Start(proxyConfig(cfg, dialer, cluster, log))
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", string(cfg.AdminAddress))
	if err != nil {
		p.Shutdown(ctx)
		return fmt.Errorf("ADMIN_ADDRESS=%s can't be listened on: %w", cfg.AdminAddress, err)
	}
	// The upstream's life is longer than ctx: draining needs it.
	running, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cluster.Run(running)
	}()
	quit, quitNow := context.WithCancel(ctx)
	defer quitNow()
	health := telemetry.NewServer(p, cluster, quitNow)
	server := &http.Server{Handler: health, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(admin); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the admin server stopped", zap.Error(err))
		}
	}()
	log.Info("listening", zap.String("version", versionLine()), zap.Stringer("bootstrap", p.Addr()), zap.Stringer("admin", admin.Addr()), zap.Strings("upstream", cfg.UpstreamBrokers))
	<-quit.Done()

	log.Info("draining", zap.Duration("at_most", cfg.DrainTimeout))
	health.Drain()
	within, cancel := context.WithTimeout(context.Background(), cfg.DrainTimeout)
	defer cancel()
	err = p.Shutdown(within)
	stop()
	<-ended
	server.Close()
	<-served
	if err == nil {
		log.Info("drained")
	}
	return err
}

func proxyConfig(cfg *config.Config, dialer *upstream.Dialer, cluster *upstream.Cluster, log *zap.Logger) proxy.Config {
	return proxy.Config{
		Dialer: dialer, Cluster: cluster, Bootstrap: cfg.UpstreamBrokers,
		Listen: string(cfg.ListenAddress), BrokerBase: int(cfg.BrokerListenBase), BrokerCount: cfg.BrokerListenCount,
		AdvertisedHost: cfg.AdvertisedHost,
		MaxFrame:       int(cfg.MaxFrameBytes), MemoryBudget: int64(cfg.MemoryBudgetBytes), MaxConnections: cfg.MaxConnections,
		FrameTimeout: cfg.FrameTimeout, GiveUp: cfg.UpstreamGiveUp,
		Dedup:      dedup.Options{RefuseStale: cfg.DedupStale == "reject", RefuseReuse: cfg.DedupOnReuse == "reject"},
		CacheBytes: int64(cfg.DedupCacheBytes),
		Idle:       cfg.DedupIdle,
		RaiseAcks:  bool(cfg.RaiseAcks), Stamp: bool(cfg.Stamp), InDoubtTTL: cfg.InDoubtTTL,
		Log: log,
	}
}

func newLogger(cfg *config.Config, w io.Writer) *zap.Logger {
	level, _ := zapcore.ParseLevel(string(cfg.LogLevel))
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(enc)
	if cfg.LogFormat == "console" {
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	// A fault that hits every connection is said a few times a second, not for
	// each.
	core := zapcore.NewSamplerWithOptions(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level), time.Second, 20, 1000)
	return zap.New(core)
}
