package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/proxy"
	"github.com/oncegate/oncegate/upstream"
)

// collector reads the proxy's counters when Prometheus asks: the data path
// knows nothing of metrics.
type collector struct {
	proxy   *proxy.Proxy
	cluster *upstream.Cluster
}

func newCollector(p *proxy.Proxy, c *upstream.Cluster) *collector { return &collector{p, c} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("oncegate_"+name, help, labels, nil)
}

var (
	batches      = desc("batches_total", "Record batches by what became of them: forwarded upstream, answered as a duplicate, or refused by Oncegate.", "result")
	doubts       = desc("doubts_total", "Stamped batches whose outcome their client may not have learnt.")
	leftOut      = desc("records_left_out_total", "Records of retries without a producer id that were stored already.")
	unresolved   = desc("doubts_unresolved", "Stamped batches whose outcome is being found out now.")
	waits        = desc("waits_total", "Times that a request waited for another batch of its producer.")
	bytesSaved   = desc("bytes_saved_total", "Bytes of batches that were answered without going upstream again.")
	reused       = desc("sequence_reused_total", "Stored sequence ranges that came again with another CRC.")
	acksRaised   = desc("acks_raised_total", "Requests whose acks were raised to all.")
	verified     = desc("windows_verified_total", "Windows verified with the partition's leader after a change of leadership.")
	reconnects   = desc("upstream_reconnects_total", "Upstream connections that broke with requests unanswered.")
	resends      = desc("upstream_resends_total", "Requests sent again after that.")
	gaveUp       = desc("upstream_gave_up_total", "Times that sending again was given up and the client got a retriable error.")
	upstreamUp   = desc("upstream_up", "1 when the upstream answered the last time, else 0.")
	connections  = desc("connections", "Client connections open.")
	refusedConns = desc("connections_refused_total", "Client connections refused for MAX_CONNECTIONS.")
	badFrames    = desc("bad_frames_total", "Client connections closed for what they sent.")
	budgetWaits  = desc("budget_waits_total", "Times that a client was not read because MEMORY_BUDGET_BYTES was used up.")
	windows      = desc("producers_tracked", "Producers and partitions with a window in memory.")
	cacheHits    = desc("cache_hits_total", "Batches whose producer's state was in memory, by tier.", "tier")
	idle         = desc("cache_entries", "Idle producers and partitions kept in the cold tier.")
	idleBytes    = desc("cache_bytes", "Bytes of the cold tier.")
	idleEvicted  = desc("cache_evictions_total", "Idle producers that made room for others; the broker is asked about them.")
	idleRejected = desc("cache_rejected_total", "Pages of idle producers that the cold tier did not take.")
	cacheMisses  = desc("cache_misses_total", "Batches of whose producer nothing was known: the broker was asked.")
)

// Describe sends the names of all metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect sends the values of all metrics.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	s := c.proxy.Stats()
	count(batches, s.Forwarded.Load(), "forwarded")
	count(batches, s.Duplicates.Load(), "duplicate")
	count(batches, s.Refused.Load(), "refused")
	count(doubts, s.Doubts.Load())
	count(leftOut, s.RecordsLeftOut.Load())
	gauge(unresolved, float64(s.Unresolved.Load()))
	count(waits, s.Waits.Load())
	count(bytesSaved, s.BytesSaved.Load())
	count(reused, s.Reused.Load())
	count(acksRaised, s.AcksRaised.Load())
	count(verified, s.Verified.Load())
	count(reconnects, s.Reconnects.Load())
	count(resends, s.Resent.Load())
	count(gaveUp, s.GaveUp.Load())
	count(refusedConns, s.ConnectionsRefused.Load())
	count(badFrames, s.BadFrames.Load())
	count(budgetWaits, s.BudgetWaits.Load())
	gauge(connections, float64(s.Connections.Load()))
	up := 0.0
	if c.cluster.Err() == nil {
		up = 1
	}
	gauge(upstreamUp, up)
	w := c.proxy.WindowStats()
	gauge(windows, float64(w.Windows))
	count(cacheHits, w.Hits, "live")
	count(cacheHits, w.Recalls, "cold")
	count(cacheMisses, w.Misses)
	i := c.proxy.IdleStats()
	gauge(idle, float64(i.Entries))
	gauge(idleBytes, float64(i.Bytes))
	count(idleEvicted, i.Evicted)
	count(idleRejected, i.Rejected)
}
